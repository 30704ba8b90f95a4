"""How good is a calibrated detector: measures, report, verdict, comparison."""

from calibrail.evaluation.compare.compare import Comparison, compare_detectors
from calibrail.evaluation.evaluate import Origin, Others, evaluate
from calibrail.evaluation.report import Report
from calibrail.evaluation.sample import Sample

__all__ = [
    "Comparison",
    "Origin",
    "Others",
    "Report",
    "Sample",
    "compare_detectors",
    "evaluate",
]
