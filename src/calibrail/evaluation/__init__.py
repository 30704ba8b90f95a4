"""Package."""

from typing import TYPE_CHECKING

from calibrail.evaluation.evaluate import Others as Others
from calibrail.evaluation.evaluate import Report as Report
from calibrail.evaluation.evaluate import ReportOrigin as ReportOrigin
from calibrail.evaluation.evaluate import evaluate as evaluate
from calibrail.evaluation.scored_answers import Sample as Sample

if TYPE_CHECKING:
    from calibrail.evaluation.compare import Comparison as Comparison
    from calibrail.evaluation.compare import compare_detectors as compare_detectors
else:

    def __getattr__(name: str) -> object:
        """Load what compares detectors when it is first used."""
        if name not in ("Comparison", "compare_detectors"):
            raise AttributeError(name)
        from calibrail.evaluation import compare

        return getattr(compare, name)
