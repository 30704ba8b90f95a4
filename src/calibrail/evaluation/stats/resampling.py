"""How are groups of answers kept whole where data is drawn again by chance, or left out in turn?

The bootstrap imitates another collection of the same kind of data. Answers that share a question or
a source are not independent, so whole groups are drawn, with replacement. Groups are drawn among
those that hold the same classes (hallucinated answers only, faithful only, both), so that no
draw lacks a class.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from calibrail.evaluation.stats.arrays import Codes, Ints

#: Draws that intervals and p-values rest on.
DRAWS: Final = 2000
#: With more examples than these draws allow, fewer draws: their error shrinks beside the data's.
_MOST_NUMBERS: Final = 100_000_000
_LEAST_DRAWS: Final = 200
#: Numbers held at once.
_CHUNK: Final = 2_000_000
#: Parts of which each is left out once.
FOLDS: Final = 5


def draws_for(n: int, most: int = DRAWS) -> int:
    """Return the number of draws for n examples, fewer for very many.

    Examples
    --------
    >>> draws_for(4000), draws_for(1_000_000)
    (2000, 200)
    """
    return max(min(most, _LEAST_DRAWS), min(most, _MOST_NUMBERS // max(1, n)))


def bootstrap_counts(
    groups: Ints,
    labels: Codes,
    *,
    draws: int,
    seed: int,
    stream: int = 0,
    size: int | None = None,
) -> Iterator[Ints]:
    """Yield how often each example is drawn, a chunk of draws at a time.

    Parameters
    ----------
    groups : ndarray of int64, shape (n,)
        What examples share; an example that stands alone has a number of its own.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.
    draws : int
        Number of draws in all.
    seed, stream : int
        The same two give the same draws; another stream gives draws independent of them.
    size : int, optional
        Examples to plan chunks for, where draws of several parts go side by side.

    Yields
    ------
    ndarray of int64, shape (b, n)
        Counts; over all chunks, b sums up to ``draws``.

    Examples
    --------
    >>> labels = np.array([1, 0, 0], dtype=np.int8)
    >>> next(bootstrap_counts(np.array([7, 7, 8]), labels, draws=2, seed=0)).tolist()
    [[1, 1, 1], [1, 1, 1]]
    """
    _, member = np.unique(groups, return_inverse=True)
    n_groups = int(member.max(initial=-1)) + 1
    classes_held = np.zeros(n_groups, dtype=np.int64)
    for label in (0, 1):
        classes_held[np.unique(member[labels == label])] += 1 + label
    strata = [np.flatnonzero(classes_held == kind) for kind in np.unique(classes_held)]
    rng = np.random.default_rng([seed, stream])
    chunk = max(1, _CHUNK // max(1, size or len(member)))
    for start in range(0, draws, chunk):
        b = min(chunk, draws - start)
        counts = np.empty((b, n_groups), dtype=np.int64)
        for stratum in strata:
            q = len(stratum)
            chosen = rng.integers(0, q, size=(b, q)) + q * np.arange(b)[:, None]
            counts[:, stratum] = np.bincount(chosen.reshape(-1), minlength=b * q).reshape(b, q)
        yield counts[:, member]


def fold_numbers(clusters: Ints, seed: int = 0) -> Ints:
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
    fold = np.empty(n, dtype=np.int64)
    fold[np.random.default_rng(seed).permutation(n)] = np.arange(n) % FOLDS
    return fold[member]


def with_singletons(groups: Ints | None, n: int) -> Ints:
    """Return groups in which every example without one (None, negative) has a number of its own.

    Examples
    --------
    >>> with_singletons(np.array([4, -1, 4, -1]), 4).tolist()
    [4, 5, 4, 6]
    """
    if groups is None:
        return np.arange(n, dtype=np.int64)
    result = np.array(groups, dtype=np.int64)
    alone = result < 0
    result[alone] = int(result.max(initial=-1)) + 1 + np.arange(int(alone.sum()))
    return result
