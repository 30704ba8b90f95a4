"""Is the same text, or nearly the same, on two sides of a split?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.sketches import N_HASHES, Sketches
from calibrail.data.splits import Groups, group_numbers
from calibrail.errors import InputError
from calibrail.record import Record

#: Estimated Jaccard similarity of word pairs from which two texts count as near-duplicates.
THRESHOLD: Final = 0.8

# Four 16-bit values make one 64-bit key: 16 bands of 4 find a pair of similarity 0.8 with
# probability 1 - (1 - 0.8^4)^16 = 0.9998.
_BAND: Final = 4

#: Bands of a sketch.
N_BANDS: Final = N_HASHES // _BAND

# A text is compared with this many neighbours on either side in a bucket. Buckets with more are
# texts from one template, of which each then has near-duplicates enough to be seen.
_NEIGHBOURS: Final = 32


@dataclass(frozen=True, slots=True)
class CrossSplitDuplicates(Record):
    """Near-duplicate texts on different sides of a split.

    Parameters
    ----------
    count : int
        Examples whose question and response have a near-duplicate on another side.
    exact : int
        Those of them with an identical one (after case folding, without punctuation).
    n_groups : int
        Groups with such an example: merging them with their twins' groups would keep both on one
        side.
    n : int
        Examples with any words, which were compared.
    pairs : tuple of (int, int)
        Positions of some pairs, identical ones first.
    threshold : float
        Estimated Jaccard similarity that makes two texts near-duplicates.
    names : tuple of (str, str)
        The ids of the pairs, where ids were given.
    """

    count: int
    exact: int
    n_groups: int
    n: int
    pairs: tuple[tuple[int, int], ...]
    threshold: float
    names: tuple[tuple[str, str], ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return the fields, JSON-able, with the pairs by their names where there are any."""
        values = Record.to_dict(self)
        names = values.pop("names")
        return values | {"pairs": names or values["pairs"]}


def cross_split_duplicates(
    sketches: Sketches,
    split_codes: NDArray[np.int8],
    groups: Groups = None,
    *,
    ids: Sequence[str] | None = None,
    threshold: float = THRESHOLD,
    max_pairs: int = 10,
) -> CrossSplitDuplicates:
    """Find examples that have a near-duplicate on another side of the split.

    Parameters
    ----------
    sketches : Sketches of n examples
        From a `Sketcher`, in the order of the examples.
    split_codes : ndarray of int8, shape (n,)
        The side of every example.
    groups : sequence of str or None, or array of int, length n, or None
        Used to count the groups concerned.
    ids : sequence of str, length n, or None
        Names for the pairs.
    threshold : float
        In (0, 1].
    max_pairs : int
        How many pairs to name.

    Returns
    -------
    CrossSplitDuplicates
        Identical texts are always found. Others are found with probability 0.9998 at similarity
        0.8 (locality-sensitive hashing in 16 bands of 4), except within a crowd of more than 64
        similar texts; their similarity is estimated with a standard error of 0.05 there.

    Raises
    ------
    InputError
        Lengths that differ, or a threshold outside (0, 1].
    """
    n = len(sketches)
    if len(split_codes) != n or (ids is not None and len(ids) != n):
        raise InputError(f"split_codes and ids must have one entry a sketch ({n})")
    if not 0.0 < threshold <= 1.0:
        raise InputError(f"threshold must lie in (0, 1]; got {threshold}")
    bits = np.left_shift(np.uint8(1), np.asarray(split_codes).astype(np.uint8))
    worded = np.flatnonzero(sketches.exact)
    texts, first, member = np.unique(sketches.exact[worded], return_index=True, return_inverse=True)
    sides = np.zeros(len(texts), dtype=np.uint8)
    np.bitwise_or.at(sides, member, bits[worded])
    elsewhere = sides.copy()
    pairs: list[tuple[int, int]] = []
    for text in np.flatnonzero(sides & (sides - 1))[:max_pairs]:
        holders = worded[member == text]
        pairs.append((int(holders[0]), int(holders[bits[holders] != bits[holders[0]]][0])))
    for left, right in similar_pairs(sketches.minhash, worded[first], sides, threshold):
        np.bitwise_or.at(elsewhere, left, sides[right])
        np.bitwise_or.at(elsewhere, right, sides[left])
        ends = zip(worded[first[left]].tolist(), worded[first[right]].tolist(), strict=True)
        crossing = ((a, b) for a, b in ends if bits[a] != bits[b])
        pairs.extend(islice(crossing, max_pairs))
    concerned = worded[(elsewhere[member] & ~bits[worded]) != 0]
    named = list(dict.fromkeys((min(p), max(p)) for p in pairs))[:max_pairs]
    return CrossSplitDuplicates(
        count=len(concerned),
        exact=int(np.count_nonzero(sides[member] & ~bits[worded])),
        n_groups=len(np.unique(group_numbers(groups, n)[concerned])),
        n=len(worded),
        pairs=tuple(named),
        threshold=threshold,
        names=() if ids is None else tuple((str(ids[a]), str(ids[b])) for a, b in named),
    )


def similar_pairs(
    minhash: NDArray[np.uint16],
    rows: NDArray[np.intp],
    sides: NDArray[np.uint8],
    threshold: float,
    beside: NDArray[np.uint64] | None = None,
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield arrays of pairs of different texts, similar enough, that are not on one same side.

    Parameters
    ----------
    minhash : ndarray of uint16, shape (m, 64)
        Of the examples.
    rows : ndarray of int, shape (n,)
        Which example holds text i.
    sides : ndarray of uint8, shape (n,)
        Bit k is set where text i is on side k.
    threshold : float
        Estimated Jaccard similarity that is enough.
    beside : ndarray of uint64, shape (n, 16), optional
        Only texts that are equal in one of its columns, too, and in the band of MinHash values that
        goes with it, are compared.
    """
    bands = np.ascontiguousarray(minhash).view(np.uint64)
    needed = int(np.ceil(threshold * N_HASHES - 1e-9))
    for band in range(N_BANDS):
        keys = bands[rows, band] if beside is None else bands[rows, band] ^ beside[:, band]
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        for step in range(1, min(_NEIGHBOURS, len(order) - 1) + 1):
            together = np.flatnonzero(keys[step:] == keys[:-step])
            if not together.size:
                break
            left, right = order[together], order[together + step]
            # Two texts that are on one and the same side only are no leak.
            crossing = (sides[left] != sides[right]) | ((sides[left] & (sides[left] - 1)) != 0)
            left, right = left[crossing], right[crossing]
            same = minhash[rows[left]] == minhash[rows[right]]
            alike = np.count_nonzero(same, axis=1) >= needed
            if alike.any():
                yield left[alike], right[alike]
