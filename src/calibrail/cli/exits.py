"""Which exit code means what?"""

from typing import Final

DONE: Final = 0
FAILURE: Final = 1
USAGE: Final = 2
REJECTED: Final = 3
INCONCLUSIVE: Final = 4


def of_verdict(verdict: str) -> int:
    """Return the exit code of a verdict that was asked for."""
    return {"certified": DONE, "rejected": REJECTED, "inconclusive": INCONCLUSIVE}[verdict]
