"""Package."""

from calibrail.evaluation.evaluate import Others as Others
from calibrail.evaluation.evaluate import Report as Report
from calibrail.evaluation.evaluate import ReportOrigin as ReportOrigin
from calibrail.evaluation.evaluate import evaluate as evaluate
from calibrail.evaluation.scored_answers import Sample as Sample
