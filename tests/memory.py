"""How much memory does a step hold at its worst?"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable


def peak_bytes(step: Callable[[], object]) -> int:
    """Return the most bytes that Python and numpy hold at once beside what was there before."""
    tracemalloc.start()
    try:
        step()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
