"""Does a score keep the rules? The conformance suite, for built-in and third-party scores."""

from calibrail.testing.conformance import ConformanceError, check_score

__all__ = ["ConformanceError", "check_score"]
