"""Fit/calibration/test split by group; groups that belong together."""

from collections.abc import Sequence
from itertools import count
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.data.example import identities
from calibrail.data.values import same_group
from calibrail.errors import DataError, InputError

FIT: Final = 0
CALIBRATION: Final = 1
TEST: Final = 2

#: Names of the codes, by code; also the values of a user's own split column.
SPLIT_NAMES: Final = ("fit", "calibration", "test")
#: Part of answers that count nowhere, since another one of their group does.
ASIDE: Final = 3
#: Half of a comparison's test part that confirms its winner, and that no table counts.
CONFIRMING: Final = 4
#: The other half, where what was chosen by it is tested on the half that confirms.
CHOOSING: Final = 5
#: Names of all codes, by code.
PART_NAMES: Final = (*SPLIT_NAMES, "aside", "confirming", "choosing")


#: What examples belong to: names (None = alone), or numbers, or None for no groups at all.
Groups: TypeAlias = Sequence[str | None] | NDArray[np.integer[Any]] | None


def split(
    labels: ArrayLike,
    groups: Groups = None,
    *,
    ids: Groups = None,
    seed: int = 0,
    calibration_share: float = 0.5,
    fit_share: float = 0.0,
) -> NDArray[np.int8]:
    """Divide examples by lot, group by group, never tearing a group apart.

    Groups that hold a hallucinated example form one stratum, the others form another. Of a stratum
    of K groups each side gets a number that K and the shares determine, and the lot decides which.
    Nothing else about a group plays a part, its size least of all: groups that may land anywhere
    with equal probability are exchangeable, which is what a promise about new groups rests on.
    Groups of one example each make the ordinary split by class.

    Parameters
    ----------
    labels : array-like of int, shape (n,)
        0 faithful, 1 hallucinated.
    groups : sequence of str or None, or array of int, length n, or None
        Examples that name the same group stay together; None stands alone.
    ids : sequence of str or None, or array of int, length n, or None
        What tells examples apart, whatever their order. Left out, groups are told apart by their
        names, and examples without a group by their position.
    seed : int
        The same seed and the same groups give the same split, in whichever order they come.
    calibration_share, fit_share : float
        Shares of the groups of each stratum, in [0, 1], together at most 1; the rest is for
        testing. Where groups differ in size, shares of examples differ from them by chance.

    Returns
    -------
    ndarray of int8, shape (n,)
        `FIT`, `CALIBRATION` or `TEST`.

    Raises
    ------
    InputError
        A share or a seed out of range.

    Notes
    -----
    Several examples of one group are not independent of one another; keeping the group whole keeps
    its texts from being on both sides, and does not make them independent.

    Examples
    --------
    >>> split([0, 1, 0, 1], ["a", "a", "b", "b"], seed=1).tolist()
    [1, 1, 2, 2]
    >>> split([0, 1, 0, 1], ["b", "b", "a", "a"], seed=1).tolist()
    [2, 2, 1, 1]
    """
    for name, share in (("calibration_share", calibration_share), ("fit_share", fit_share)):
        if not 0.0 <= share <= 1.0:
            raise InputError(f"{name} must lie in [0, 1]; got {share}")
    rest = 1.0 - calibration_share - fit_share
    if rest < -1e-9:
        raise InputError.on(
            "shares_too_large", calibration_share=calibration_share, fit_share=fit_share
        )
    shares = np.array([fit_share, calibration_share, max(0.0, rest)])
    classes = np.asarray(labels)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InputError(f"seed must be a whole number >= 0; got {seed!r}")
    n = len(classes)
    members = None if groups is None else group_numbers(groups, n)
    if not n:
        return np.empty(0, dtype=np.int8)
    names = identities(groups if ids is None else ids, n)
    n_groups = n if members is None else int(members.max()) + 1
    identity, hallucinated = names, classes == 1
    if members is not None and n_groups < n:
        # The least identity within a group is the group's, so that the order of rows is forgotten.
        identity = np.full(n_groups, np.iinfo(np.uint64).max)
        np.minimum.at(identity, members, names)
        hallucinated = np.bincount(members[classes == 1], minlength=n_groups) > 0
    order, rng = np.argsort(identity, kind="stable"), np.random.default_rng(seed)
    sides, in_order = np.empty(n_groups, dtype=np.int8), hallucinated[order]
    for chosen in (True, False):
        stratum = order[in_order == chosen]
        parts = np.repeat(np.arange(3, dtype=np.int8), apportioned(len(stratum), shares))
        sides[stratum] = rng.permutation(parts)
    return sides if members is None or n_groups == n else sides[members]


def group_numbers(groups: Groups, n: int) -> NDArray[np.int64]:
    """Return the groups numbered in order of appearance; each None gets a number of its own.

    Names that are spelt differently are one group, as `same_group` has it.

    Parameters
    ----------
    groups : sequence of str or None, or array of int, length n, or None
        None for no groups at all.
    n : int
        Number of examples.

    Examples
    --------
    >>> group_numbers(["a", None, "A", None], 4).tolist()
    [0, 1, 0, 2]
    """
    if groups is None:
        return np.arange(n, dtype=np.int64)
    if isinstance(groups, np.ndarray):
        if (groups[1:] > groups[:-1]).all():  # as where every example stands alone
            return np.arange(n, dtype=np.int64)
        _, first, member = np.unique(groups, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[member]
    numbers: dict[object, int] = {}
    # A tuple cannot be the name of a group, so that it serves as the key of one that has none.
    keys = ((i,) if group is None else same_group(group) for i, group in enumerate(groups))
    return np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.int64, n)


def split_from_column(
    values: Sequence[object], groups: Groups = None, *, column: str = "split"
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
    code_of = {name: code for code, name in enumerate(SPLIT_NAMES)}
    # There may be millions of rows, and few different values.
    known = {value: code_of.get(str(value).strip().lower(), -1) for value in set(values)}
    codes = np.fromiter(map(known.__getitem__, values), np.int8, len(values))
    if (unknown := np.flatnonzero(codes < 0)).size:
        value = values[int(unknown[0])]
        seen = "nothing" if value is None else repr(value)
        raise DataError.on("split_value", column=column, value=unknown[0] + 1, seen=seen)
    if straddling := straddling_groups(codes, groups):
        name, sides = straddling[0]
        listed, more = ", ".join(sides), len(straddling) - 1
        raise DataError.on("group_straddles", column=column, name=name, listed=listed, more=more)
    return codes


def straddling_groups(codes: NDArray[np.int8], groups: Groups) -> list[tuple[str, tuple[str, ...]]]:
    """Return the groups that are on more than one side, each with the names of its sides.

    >>> straddling_groups(np.array([1, 2, 2], dtype=np.int8), ["a", "a", "b"])
    [('a', ('calibration', 'test'))]
    """
    if groups is None:
        return []
    numbers = group_numbers(groups, len(codes))
    sides = np.zeros(len(codes), dtype=np.int64)
    np.bitwise_or.at(sides, numbers, 1 << codes.astype(np.int64))
    first = np.unique(numbers, return_index=True)[1].tolist()
    return [
        (str(groups[row]), tuple(name for code, name in enumerate(SPLIT_NAMES) if bits >> code & 1))
        for row, bits in zip(first, sides.tolist(), strict=False)
        if bits & (bits - 1)
    ]


def tested_rows(codes: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Return which answers are measured: the test part, or, without one, those that calibrate.

    >>> tested_rows(np.array([0, 1, 2])).tolist(), tested_rows(np.array([0, 1, 1])).tolist()
    ([False, False, True], [False, True, True])
    """
    part: NDArray[np.bool_] = codes == TEST
    return part if part.any() else codes == CALIBRATION


def groups_to_add(n: int, least: int, shares: Sequence[float]) -> int:
    """Return how many groups, beside the n there are, let a split calibrate on at least so many.

    Parameters
    ----------
    n : int
        Groups that hold the class so far.
    least : int
        Groups that must calibrate.
    shares : (float, float, float)
        Of fit, calibration and test; some calibrate.

    Examples
    --------
    >>> groups_to_add(0, 19, (0.0, 0.5, 0.5)), groups_to_add(10, 19, (0.0, 0.5, 0.5))
    (37, 27)
    """
    parts = np.array(shares)
    # Fewer groups than these are more than one away from their share.
    start = max(0, int((least - 1) / shares[CALIBRATION]) - n - 1)
    return next(more for more in count(start) if apportioned(n + more, parts)[CALIBRATION] >= least)


def apportioned(n: int, shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return whole numbers that add up to n, each within one of its share (largest remainders).

    >>> apportioned(5, np.array([0.0, 0.5, 0.5])).tolist()
    [0, 3, 2]
    """
    # 1e-9 keeps a share such as 0.3 from losing a group to 0.3 * 10 = 2.9999999999999996.
    whole = np.floor(n * shares + 1e-9).astype(np.int64)
    # Of equal remainders the calibration part's comes first, which is what needs groups most.
    largest = np.lexsort((np.array([1, 0, 2]), -np.round(n * shares - whole, 9)))
    whole[largest[: n - int(whole.sum())]] += 1
    return whole


def divided(
    groups: NDArray[np.int64], same: NDArray[np.int64], apart: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return groups of which some examples take part only with those that are the same.

    >>> groups, same = np.array([0, 0, 0, 1, 1]), np.array([-1, 0, 0, -1, -1])
    >>> divided(groups, same, np.array([False, True, True, False, True])).tolist()
    [0, 2, 2, 1, -1]
    """
    return np.where(apart, np.where(same >= 0, same + groups.max(initial=-1) + 1, -1), groups)


def merge_groups(groups: NDArray[np.int64], copies: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return groups in which copies belong together, with all that their groups hold.

    Parameters
    ----------
    groups : ndarray of int64, shape (n,)
        One number per group.
    copies : ndarray of int64, shape (n,)
        From `calibrail.data.duplicates.find_copies`.

    Examples
    --------
    >>> merge_groups(np.array([0, 0, 1, 2, 3]), np.array([-1, 0, 0, -1, -1])).tolist()
    [0, 0, 0, 1, 2]
    """
    copied = np.flatnonzero(copies >= 0)
    if not len(copied):
        return groups
    _, member = np.unique(groups, return_inverse=True)
    n_groups = int(member.max()) + 1
    edges = np.stack([member[copied], n_groups + copies[copied]])
    return components(edges, n_groups + int(copies.max()) + 1)[member]


def earliest_split(copies: NDArray[np.int64] | None, codes: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return the side of each example, of copies on several sides the first of these.

    Parameters
    ----------
    copies : ndarray of int64, shape (n,), or None
        From `calibrail.data.duplicates.find_copies`; None for no copies.
    codes : ndarray of int8, shape (n,)
        The side of every example: fit comes before calibration, and calibration before test.

    Examples
    --------
    >>> earliest_split(np.array([0, -1, 0]), np.array([2, 2, 1], dtype=np.int8)).tolist()
    [1, 2, 1]
    """
    if copies is None or not (copied := copies >= 0).any():
        return codes
    first = np.full(int(copies.max()) + 1, np.iinfo(np.int8).max, dtype=np.int8)
    np.minimum.at(first, copies[copied], codes[copied])
    return np.where(copied, first[copies], codes)


def components(edges: NDArray[np.intp], n: int) -> NDArray[np.int64]:
    """Return the number of each node's connected component."""
    if not edges.shape[1]:
        return np.arange(n)
    from scipy.sparse import coo_array  # takes long to import
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(n, n))
    return connected_components(graph, directed=False)[1].astype(np.int64)
