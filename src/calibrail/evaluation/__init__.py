"""Package."""

from calibrail.evaluation.compare import Comparison as Comparison
from calibrail.evaluation.compare import compare_detectors as compare_detectors
from calibrail.evaluation.evaluate import Others as Others
from calibrail.evaluation.evaluate import Report as Report
from calibrail.evaluation.evaluate import ReportOrigin as ReportOrigin
from calibrail.evaluation.evaluate import evaluate as evaluate
from calibrail.evaluation.scored_answers import Sample as Sample
