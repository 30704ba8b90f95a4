"""How good is a calibrated detector: measures, report, verdict, comparison."""

from calibrail.evaluation.compare.compare import Comparison, compare_detectors
from calibrail.evaluation.evaluate import Origin, Others, evaluate
from calibrail.evaluation.findings import Finding
from calibrail.evaluation.report import Report
from calibrail.evaluation.rows import Row, row
from calibrail.evaluation.sample import Sample
from calibrail.evaluation.stats.auroc import auroc
from calibrail.evaluation.stats.measure import Measure
from calibrail.evaluation.stats.overlap import median_overlap, overlap
from calibrail.evaluation.stats.paired_auroc import auroc_difference
from calibrail.evaluation.stats.rates import accuracy, wilson
from calibrail.evaluation.stats.separation import Moments, Welch, cohens_d, moments, welch
from calibrail.evaluation.tested import Band, Tested

__all__ = [
    "Band",
    "Comparison",
    "Finding",
    "Measure",
    "Moments",
    "Origin",
    "Others",
    "Report",
    "Row",
    "Sample",
    "Tested",
    "Welch",
    "accuracy",
    "auroc",
    "auroc_difference",
    "cohens_d",
    "compare_detectors",
    "evaluate",
    "median_overlap",
    "moments",
    "overlap",
    "row",
    "welch",
    "wilson",
]
