"""Package."""

from calibrail.evaluation.compare import Comparison, compare_detectors
from calibrail.evaluation.evaluate import Others, Report, ReportOrigin, evaluate
from calibrail.evaluation.scored_answers import Sample

__all__ = [
    "Comparison",
    "Others",
    "Report",
    "ReportOrigin",
    "Sample",
    "compare_detectors",
    "evaluate",
]
