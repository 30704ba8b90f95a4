"""Does a score keep the rules, and is a guardrail certified? For other people's test suites."""

from calibrail.testing.certified import NotCertifiedError, assert_certified
from calibrail.testing.conformance import ConformanceError, check_score

__all__ = ["ConformanceError", "NotCertifiedError", "assert_certified", "check_score"]
