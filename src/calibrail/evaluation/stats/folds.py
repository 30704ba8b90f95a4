"""Which answers are left out together when something is fitted and tried on the rest?"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

FOLDS: Final = 5


def fold_numbers(clusters: NDArray[np.int64], seed: int = 0) -> NDArray[np.int64]:
    """Return a fold in 0..4 for every answer; a cluster is in one fold.

    The clusters are shuffled, and dealt out in turn.

    Examples
    --------
    >>> folds = fold_numbers(np.array([7, 7, 8, 9]))
    >>> int(folds[0]) == int(folds[1]), len(set(folds.tolist()))
    (True, 3)
    """
    _, member = np.unique(clusters, return_inverse=True)
    n = int(member.max(initial=-1)) + 1
    order = np.random.default_rng(seed).permutation(n)
    number = np.empty(n, dtype=np.int64)
    number[order] = np.arange(n) % FOLDS
    result: NDArray[np.int64] = number[member]
    return result
