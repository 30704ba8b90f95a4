"""Which examples are for fitting, which for calibration and which for testing?"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.errors import DataError, InputError

FIT: Final = 0
CALIBRATION: Final = 1
TEST: Final = 2

#: Names of the codes, by code; also the values of a user's own split column.
SPLIT_NAMES: Final = ("fit", "calibration", "test")


#: What examples belong to: names (None = alone), or numbers, or None for no groups at all.
Groups: TypeAlias = Sequence[str | None] | NDArray[np.integer[Any]] | None


def split(
    labels: ArrayLike,
    groups: Groups = None,
    *,
    seed: int = 0,
    calibration_share: float = 0.5,
    fit_share: float = 0.0,
) -> NDArray[np.int8]:
    """Divide examples by chance, class by class, never tearing a group apart.

    Groups with the same number of examples of each class form a stratum. Of every stratum each
    split gets its whole number of groups by lot; the few groups left over go, largest first, where
    they bring the counts of both classes closest to their shares.

    Parameters
    ----------
    labels : array-like of int, shape (n,)
        0 faithful, 1 hallucinated.
    groups : sequence of str or None, or array of int, length n, or None
        Examples that name the same group stay together; None stands alone.
    seed : int
        The same seed gives the same split.
    calibration_share, fit_share : float
        Shares of each class, in [0, 1], together at most 1; the rest is for testing.

    Returns
    -------
    ndarray of int8, shape (n,)
        `FIT`, `CALIBRATION` or `TEST`.

    Raises
    ------
    InputError
        A share out of range, a label other than 0 and 1, or lengths that differ.

    Notes
    -----
    Conformal guarantees hold for examples that are exchangeable. Several examples of one group are
    not independent of one another; keeping the group whole keeps its texts from being on both
    sides, and does not make them independent.

    Examples
    --------
    >>> split([0, 1, 0, 1], ["a", "a", "b", "b"], seed=1).tolist()
    [1, 1, 2, 2]
    """
    for name, share in (("calibration_share", calibration_share), ("fit_share", fit_share)):
        if not 0.0 <= share <= 1.0:
            raise InputError(f"{name} must lie in [0, 1]; got {share}")
    rest = 1.0 - calibration_share - fit_share
    if rest < -1e-9:
        raise InputError(
            "calibration_share and fit_share must add up to at most 1; got "
            f"{calibration_share} + {fit_share}"
        )
    shares = np.array([fit_share, calibration_share, max(0.0, rest)])
    classes = np.asarray(labels)
    if classes.ndim != 1:
        raise InputError(f"labels must have one dimension; got shape {classes.shape}")
    if (odd := classes[~np.isin(classes, (0, 1))]).size:
        raise InputError(f"labels must be 0 or 1 to split by class; got {odd[0]}")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InputError(f"seed must be a whole number >= 0; got {seed!r}")
    members = group_numbers(groups, len(classes))
    if not members.size:
        return np.empty(0, dtype=np.int8)
    n_groups = int(members.max()) + 1
    counts = np.stack(
        [np.bincount(members[classes == label], minlength=n_groups) for label in (0, 1)], axis=1
    )
    sides: NDArray[np.int8] = _assign(counts, shares, np.random.default_rng(seed))[members]
    return sides


def group_numbers(groups: Groups, n: int) -> NDArray[np.int64]:
    """Return the groups numbered in order of appearance; each None gets a number of its own.

    Parameters
    ----------
    groups : sequence of str or None, or array of int, length n, or None
        None for no groups at all.
    n : int
        Number of examples.

    Raises
    ------
    InputError
        ``groups`` has another length than ``n``.

    Examples
    --------
    >>> group_numbers(["a", None, "a", None], 4).tolist()
    [0, 1, 0, 2]
    """
    if groups is None:
        return np.arange(n, dtype=np.int64)
    if len(groups) != n:
        raise InputError(f"groups must have one entry a label ({n}); got {len(groups)}")
    if isinstance(groups, np.ndarray):
        _, first, member = np.unique(groups, return_index=True, return_inverse=True)
        appearance = np.empty(len(first), dtype=np.int64)
        appearance[np.argsort(first)] = np.arange(len(first))
        return appearance[member]
    numbers: dict[object, int] = {}
    # A tuple cannot be the name of a group, so that it serves as the key of one that has none.
    keys = ((i,) if group is None else group for i, group in enumerate(groups))
    return np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.int64, n)


def split_from_column(
    values: Sequence[object],
    groups: Groups = None,
    *,
    column: str = "split",
) -> NDArray[np.int8]:
    """Turn a user's own split into codes.

    Parameters
    ----------
    values : sequence, length n
        ``fit``, ``calibration`` or ``test``, in any case.
    groups : sequence of str or None, or array of int, length n, or None
        Groups that must not be on two sides.
    column : str
        How messages call the column.

    Returns
    -------
    ndarray of int8, shape (n,)
        `FIT`, `CALIBRATION` or `TEST`.

    Raises
    ------
    DataError
        Another value, or a group on two sides.

    Examples
    --------
    >>> split_from_column(["calibration", "Test"]).tolist()
    [1, 2]
    """
    names = [value.strip().lower() if isinstance(value, str) else "" for value in values]
    for number, (name, value) in enumerate(zip(names, values, strict=True), start=1):
        if name not in SPLIT_NAMES:
            seen = "nothing" if value is None else repr(value)
            raise DataError(
                f"column {column!r} must say fit, calibration or test in every row; example "
                f"{number} says {seen}"
            )
    codes = np.array([SPLIT_NAMES.index(name) for name in names], dtype=np.int8)
    if straddling := straddling_groups(codes, groups):
        name, sides = straddling[0]
        raise DataError(
            f"column {column!r} puts group {name!r} on several sides ({', '.join(sides)}), and "
            f"{len(straddling) - 1} more: move each group to one side, or leave out the group "
            "column if its examples share no text"
        )
    return codes


def straddling_groups(codes: NDArray[np.int8], groups: Groups) -> list[tuple[str, tuple[str, ...]]]:
    """Return the groups that are on more than one side, each with the names of its sides.

    >>> straddling_groups(np.array([1, 2, 2], dtype=np.int8), ["a", "a", "b"])
    [('a', ('calibration', 'test'))]
    """
    if groups is None:
        return []
    if len(groups) != len(codes):
        raise InputError(f"groups must have one entry a label ({len(codes)}); got {len(groups)}")
    sides: dict[object, int] = {}
    for group, code in zip(groups, codes.tolist(), strict=True):
        if group is not None:
            sides[group] = sides.get(group, 0) | 1 << code
    return [
        (str(group), tuple(name for code, name in enumerate(SPLIT_NAMES) if bits >> code & 1))
        for group, bits in sides.items()
        if bits & (bits - 1)
    ]


def _assign(
    counts: NDArray[np.int64], shares: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.int8]:
    """Return the side of every group, given its number of examples of each class."""
    n_groups = len(counts)
    chosen = np.full(n_groups, -1, dtype=np.int8)
    stratum = np.unique(counts[:, 0] * (counts.max() + 1) + counts[:, 1], return_inverse=True)[1]
    order = np.lexsort((rng.permutation(n_groups), stratum))
    sizes = np.bincount(stratum)
    place = np.arange(n_groups) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # 1e-9 keeps a share such as 0.3 from losing a group to 0.3 * 10 = 2.9999999999999996.
    whole = np.floor(sizes[:, None] * shares + 1e-9).astype(np.int64)
    ends = np.cumsum(whole, axis=1)[stratum[order]]
    for code in reversed(range(len(shares))):
        chosen[order[place < ends[:, code]]] = code
    # Every group that is left goes, largest first, where it brings the counts closest.
    totals = counts.sum(axis=0)
    goal = np.outer(shares, totals)
    have = np.stack([counts[chosen == code].sum(axis=0) for code in range(len(shares))])
    # A class with few examples must not drown in one with many.
    weight = 1.0 / np.maximum(totals, 1)
    open_sides = np.flatnonzero(shares > 0)
    rest = rng.permutation(np.flatnonzero(chosen < 0))
    for group in rest[np.argsort(-counts[rest].sum(axis=1), kind="stable")]:
        # The squared distance to the goal shrinks by twice this, less a part common to all sides.
        gain = ((goal - have)[open_sides] * weight * (counts[group] * weight)).sum(axis=1)
        chosen[group] = side = open_sides[int(np.argmax(gain))]
        have[side] += counts[group]
    return chosen
