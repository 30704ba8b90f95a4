"""How many sorted scores are at most as large as each of many values, fast?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def count_at_most(scores: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return for each value how many of the sorted scores are at most as large."""
    return scores.searchsorted(values, side="right")
