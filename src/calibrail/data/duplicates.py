"""Near duplicates and copies (MinHash).

MinHash by hand, since it was measured against datasketch 2.0 with as many values and the same
shingles (HaluEval's QA answers, one core): 15 microseconds and 136 bytes per answer here, 103 and
336 there. One array operation serves half a megabyte of text, where the library calls a hash
function for every shingle.
"""

import base64
import re
import unicodedata
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example, hash64, mix64, n_repeated
from calibrail.data.splits import Groups, components, divided, group_numbers, merge_groups
from calibrail.data.values import number_in, same_text, written_text
from calibrail.serialization import Record
from calibrail.text.words import named_in

#: MinHash values a text: the standard error of a Jaccard estimate is at most 1/16.
N_HASHES: Final = 64

#: Of these, how many are kept of the question and of the response, each by itself.
N_OF_PART: Final = 32

#: Bytes that are kept of the contexts.
N_OF_CONTEXTS: Final = 64

#: Numbers of 64 bits that are kept of what an answer names and counts.
N_OF_NAMED: Final = 4

#: Answers in a sample.
SAMPLED: Final = 256

#: Words from which an answer without question and contexts is no accident when it is repeated.
TELLING: Final = 8

_WORD: Final = re.compile(r"\w+")
_BATCH_BYTES: Final = 1 << 19


@cache
def _hashes() -> NDArray[np.uint64]:
    """Return multipliers, which are odd, and offsets: fixed, so that sketches of runs compare."""
    drawn = np.random.default_rng(20_231_107).integers(0, 2**63, (2, N_HASHES), dtype=np.uint64)
    return drawn * np.array([[2], [1]], np.uint64) + np.array([[1], [0]], np.uint64)


@dataclass(frozen=True, slots=True)
class Sketches:
    """Question, response and contexts of n examples: 368 bytes each.

    Parameters
    ----------
    exact : ndarray of uint64, shape (n,)
        Hash of the normalised text; 0 for an example without words.
    minhash : ndarray of uint16, shape (n, 64)
        Low 16 bits of MinHash values over shingles of two words (b-bit minwise hashing, Li and
        König 2010).
    parts : ndarray of uint16, shape (n, 2, 32)
        The same of the question and of the response, each by itself.
    anchors : ndarray of uint64, shape (n,)
        A hash of the contexts; without contexts 1, without a question, too, a hash of the response.
        0 where that is too short to tell copies from answers that are alike by chance.
    contexts : ndarray of uint8, shape (n, 64)
        MinHash of all contexts together: the least of the word pairs of each of 64 bins (one
        permutation hashing, Li, Owen and Zhang 2012), 0 for an empty bin.
    named : ndarray of uint64, shape (n, 4)
        In each of them a bit for each name and number of question and response (Bloom 1970); none
        where an earlier version did not keep them.
    """

    exact: NDArray[np.uint64]
    minhash: NDArray[np.uint16]
    parts: NDArray[np.uint16]
    anchors: NDArray[np.uint64]
    contexts: NDArray[np.uint8]
    named: NDArray[np.uint64]

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.exact)

    def of_rows(self, rows: NDArray[Any] | slice) -> "Sketches":
        """Return those of some examples."""
        return Sketches(*(getattr(self, item.name)[rows] for item in fields(self)))

    def joined(self, other: "Sketches") -> "Sketches":
        """Return these, and after them the other ones."""
        pairs = ((getattr(self, item.name), getattr(other, item.name)) for item in fields(self))
        return Sketches(*map(np.concatenate, pairs))

    @property
    def order(self) -> NDArray[np.uint64]:
        """The place of each among all answers, which most rewordings of it share, shape (n,)."""
        low = np.ascontiguousarray(self.minhash[:, :8].astype(np.uint8)).view(">u8")
        return low[:, 0].astype(np.uint64)

    def sample(self) -> "Sketches":
        """Return the answers that come first in that order, at most 256 of those with texts."""
        # No text has the largest values.
        rows = np.flatnonzero((self.anchors != 0) & (self.parts[:, 1] != 0xFFFF).any(axis=1))
        return self.of_rows(rows[np.argsort(self.order[rows], kind="stable")[:SAMPLED]])

    def shortened(self) -> "Sketches":
        """Return the same with the low bytes of all MinHash values."""
        low = np.uint16(0xFF)
        return replace(self, minhash=self.minhash & low, parts=self.parts & low)

    def to_text(self) -> str:
        """Return them in base64, shortened: 240 bytes each, from which no text can be read."""
        n, whole = len(self), np.dtype("<u8")
        wide = (self.exact, self.anchors, self.named)
        hashes = (item.reshape(n, -1).astype(whole).view(np.uint8) for item in wide)
        values = (item.astype(np.uint8) for item in (self.minhash, self.parts, self.contexts))
        rows = np.hstack([item.reshape(n, -1) for item in (*hashes, *values)])
        return _WITH_NAMES + base64.b64encode(rows.tobytes()).decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> "Sketches":
        """Return shortened sketches from what `to_text` returns, or returned before names."""
        n_named = 8 * N_OF_NAMED * text.startswith(_WITH_NAMES)
        octets = np.frombuffer(base64.b64decode(text.removeprefix(_WITH_NAMES)), np.uint8)
        rows = octets.reshape(-1, 16 + n_named + 3 * N_HASHES)
        ends = 8 + np.cumsum([0, 8, n_named, N_HASHES, 2 * N_OF_PART])
        exact, anchors, names, minhash, parts, contexts = np.split(rows, ends, axis=1)
        first, anchor, named = (
            np.ascontiguousarray(item).view("<u8").astype(np.uint64)
            for item in (exact, anchors, names if n_named else np.zeros((len(rows), 8), np.uint8))
        )
        both = parts.reshape(-1, 2, N_OF_PART).astype(np.uint16)
        named = np.broadcast_to(named, (len(rows), N_OF_NAMED))
        return cls(first[:, 0], minhash.astype(np.uint16), both, anchor[:, 0], contexts, named)


#: How texts of sketches begin that hold what answers name.
_WITH_NAMES: Final = "names:"


def normalise(text: str) -> str:
    """Return the words of a text, case folded, with single spaces between.

    >>> normalise("The  Rhine's source, (Switzerland)!")
    'the rhine s source switzerland'
    """
    return " ".join(_WORD.findall(unicodedata.normalize("NFC", text).casefold()))


class Sketcher:
    """Sketches examples one by one, in batches of half a megabyte of text.

    Examples
    --------
    >>> sketcher = Sketcher()
    >>> sketcher.add(Example(question="Who?", response="Ada."))
    >>> len(sketcher.finish())
    1
    """

    def __init__(self) -> None:
        self._texts: list[tuple[bytes, bytes, bytes]] = []
        self._held = 0
        self._anchors, self._named = array("Q"), array("Q")
        # What becomes of each batch: the fields of `Sketches` but for the anchors and names.
        self._batches: list[tuple[NDArray[Any], ...]] = []

    def add(self, example: Example) -> None:
        """Remember the texts of one example."""
        question, response = _encoded(example.question), _encoded(example.response)
        # Contexts are long: splitting at spaces takes a tenth of the time of finding words.
        chunks = sorted(filter(None, map(same_text, example.contexts)))
        contexts = "\n".join(chunks).encode("utf-8", "surrogatepass")
        self._texts.append((question, response, contexts))
        self._anchors.append(_anchor(question, response, contexts))
        self._named.extend(_bits(named_in(f"{example.question}\n{example.response}")))
        self._held += len(question) + len(response) + len(contexts) + 16
        if self._held >= _BATCH_BYTES:
            self._flush()

    def finish(self) -> Sketches:
        """Return the sketches of everything added, in order; nothing can be added after."""
        self._flush()
        exact, minhash, parts, contexts = map(np.concatenate, zip(*self._batches, strict=True))
        anchors, named = (np.array(item, np.uint64) for item in (self._anchors, self._named))
        return Sketches(exact, minhash, parts, anchors, contexts, named.reshape(-1, N_OF_NAMED))

    def _flush(self) -> None:
        if self._batches and not self._texts:
            return
        whole = [b" ".join(filter(None, texts[:2])) for texts in self._texts]
        exact = np.array([hash64(text) if text else 0 for text in whole], np.uint64)
        values = _minhash([text for texts in self._texts for text in texts[:2]])
        values = values.reshape(-1, 2, N_HASHES)
        # The least of both parts is the least of the whole.
        minhash, parts = _kept(values.min(axis=1)), _kept(values[:, :, :N_OF_PART])
        self._batches.append((exact, minhash, parts, _binned([texts[2] for texts in self._texts])))
        self._texts, self._held = [], 0


def sketched(examples: Iterable[Example]) -> Sketches:
    """Return the sketches of examples, in order."""
    sketcher = Sketcher()
    for example in examples:
        sketcher.add(example)
    return sketcher.finish()


def _encoded(text: str) -> bytes:
    return normalise(text).encode("utf-8", "surrogatepass")


def _bits(named: Counter[str]) -> list[int]:
    """Return four numbers, in each of which one bit of 64 stands for a name and how often."""
    bits = [0] * N_OF_NAMED
    for name in (f"{n} {name}" for name, most in named.items() for n in range(most)):
        places = hash64(name.encode("utf-8", "surrogatepass"))
        for i in range(N_OF_NAMED):
            bits[i] |= 1 << (places >> 6 * i & 63)
    return bits


def _anchor(question: bytes, response: bytes, contexts: bytes) -> int:
    if contexts or question:
        return hash64(contexts) if contexts else 1
    return hash64(response) if response.count(b" ") >= TELLING - 1 else 0


def _kept(values: NDArray[np.uint64]) -> NDArray[np.uint16]:
    return (values >> np.uint64(24)).astype(np.uint16)


def _minhash(texts: list[bytes]) -> NDArray[np.uint64]:
    """Return MinHash values, shape (n, 64), of normalised texts; the largest for an empty one."""
    if not texts:
        return np.zeros((0, N_HASHES), np.uint64)
    # A closing mark makes every text, even of one word, end in a shingle of its own.
    joined = b"".join(text + b" \x00 " if text else b"\x00 " for text in texts)
    octets = np.frombuffer(joined, dtype=np.uint8)
    ends = np.flatnonzero(octets == 0x20)
    words = _word_hashes(octets, ends)
    closing = octets[ends - 1] == 0
    # Shingle i starts at word i; those that start at a closing mark belong to no text.
    following = np.append(words[1:], words[:1])
    shingles = _mix(words * _ODD + (following ^ (following >> np.uint64(29))))
    owner_ends = np.flatnonzero(closing)
    starts = np.append(0, owner_ends[:-1] + 1)
    # A text's closing mark would begin a shingle with the next text's first word: hide it behind
    # the largest value, so that it never is the minimum.
    result = np.empty((len(texts), N_HASHES), dtype=np.uint64)
    for i, (multiplier, offset) in enumerate(_hashes().T):
        values = shingles * multiplier + offset
        values[owner_ends] = np.iinfo(np.uint64).max
        result[:, i] = np.minimum.reduceat(values, starts)
    return result


def _binned(texts: list[bytes]) -> NDArray[np.uint8]:
    """Return the least word pair of each of 64 bins, shape (n, 64), of texts with single spaces.

    A word is known by its last eight bytes and its length, which is all that can be read at once:
    contexts are the longest of all texts.
    """
    result = np.zeros((len(texts), N_OF_CONTEXTS), dtype=np.uint8)
    if not any(texts):
        return result
    joined = bytes(8) + b"".join(text.replace(b"\n", b" ") + b" " for text in texts)
    octets = np.frombuffer(joined, dtype=np.uint8)
    ends = np.flatnonzero(octets == 0x20)
    lengths = np.diff(ends, prepend=7) - 1
    last = np.ndarray(len(joined) - 7, np.dtype("<u8"), joined, strides=(1,))[ends - 8]
    shift = (8 * (8 - np.clip(lengths, 1, 8))).astype(np.uint64)
    words = _mix((last >> shift) ^ (lengths.astype(np.uint64) * _ODD))
    closing = np.cumsum([len(text) + 1 for text in texts]) + 7
    owner = np.searchsorted(closing, ends)
    following = np.append(words[1:], words[:1])
    # What follows the last word of a text belongs to another one; an empty text is no word.
    following[np.searchsorted(ends, closing)] = 0
    pairs = _mix(words * _ODD + (following ^ (following >> np.uint64(29))))[lengths > 0]
    bins = owner[lengths > 0] * N_OF_CONTEXTS + (pairs >> np.uint64(58)).astype(np.intp)
    least = np.full(result.size, np.iinfo(np.uint64).max)
    np.minimum.at(least, bins, pairs & np.uint64((1 << 58) - 1))
    held = least != np.iinfo(np.uint64).max
    result.reshape(-1)[held] = (_mix(least[held]) % np.uint64(255) + np.uint64(1)).astype(np.uint8)
    return result


def _word_hashes(octets: NDArray[np.uint8], ends: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of every word, from octets with one space after each word.

    A polynomial over the octets, summed by differences of its running sum; multiplying by the
    inverse power afterwards makes it independent of where the word stands. Arithmetic is modulo
    2^64, where every odd number has an inverse.
    """
    n = len(octets)
    powers = _powers(_ODD, n)
    running = np.cumsum((octets.astype(np.uint64) + np.uint64(1)) * powers, dtype=np.uint64)
    starts, upto = np.append(0, ends[:-1] + 1), running[ends - 1]
    before = np.where(starts > 0, running[starts - 1], np.uint64(0))
    inverse = np.uint64(pow(int(_ODD), -1, 2**64))
    return _mix((upto - before) * _powers(inverse, n)[starts])


def _powers(base: np.uint64, n: int) -> NDArray[np.uint64]:
    factors = np.full(n, base, dtype=np.uint64)
    factors[:1] = 1
    return np.cumprod(factors, dtype=np.uint64)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return splitmix64's finaliser of each value: every input bit reaches every output bit."""
    return mix64(values - _ODD)


#: Estimated Jaccard similarity of word pairs from which two texts count as near-duplicates.
THRESHOLD: Final = 0.8

# Four 16-bit values make one 64-bit key: 16 bands of 4 find a pair of similarity 0.8 with
# probability 1 - (1 - 0.8^4)^16 = 0.9998.
N_BANDS: Final = N_HASHES // 4

# A text is compared with this many neighbours on either side in a bucket. Buckets with more are
# texts from one template, of which each then has near-duplicates enough to be seen.
_NEIGHBOURS: Final = 32

#: Pairs across a split that are named.
_NAMED_PAIRS: Final = 10


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

    Returns
    -------
    CrossSplitDuplicates
        Identical texts are always found. Others are found with probability 0.9998 at similarity
        0.8 (locality-sensitive hashing in 16 bands of 4), except within a crowd of more than 64
        similar texts; their similarity is estimated with a standard error of 0.05 there.
    """
    n = len(sketches)
    bits = np.left_shift(np.uint8(1), np.asarray(split_codes).astype(np.uint8))
    worded = np.flatnonzero(sketches.exact)
    texts, first, member = np.unique(sketches.exact[worded], return_index=True, return_inverse=True)
    sides = np.zeros(len(texts), dtype=np.uint8)
    np.bitwise_or.at(sides, member, bits[worded])
    elsewhere = sides.copy()
    pairs: list[tuple[int, int]] = []
    for text in np.flatnonzero(sides & (sides - 1))[:_NAMED_PAIRS]:
        holders = worded[member == text]
        pairs.append((int(holders[0]), int(holders[bits[holders] != bits[holders[0]]][0])))
    for left, right in similar_pairs(sketches.minhash, worded[first], sides):
        np.bitwise_or.at(elsewhere, left, sides[right])
        np.bitwise_or.at(elsewhere, right, sides[left])
        ends = zip(worded[first[left]].tolist(), worded[first[right]].tolist(), strict=True)
        crossing = ((a, b) for a, b in ends if bits[a] != bits[b])
        pairs.extend(islice(crossing, _NAMED_PAIRS))
    concerned = worded[(elsewhere[member] & ~bits[worded]) != 0]
    named = list(dict.fromkeys((min(p), max(p)) for p in pairs))[:_NAMED_PAIRS]
    return CrossSplitDuplicates(
        count=len(concerned),
        exact=int(np.count_nonzero(sides[member] & ~bits[worded])),
        n_groups=len(np.unique(group_numbers(groups, n)[concerned])),
        n=len(worded),
        pairs=tuple(named),
        threshold=THRESHOLD,
        names=() if ids is None else tuple((str(ids[a]), str(ids[b])) for a, b in named),
    )


def similar_pairs(
    minhash: NDArray[np.uint16],
    rows: NDArray[np.intp],
    sides: NDArray[np.uint8],
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
    beside : ndarray of uint64, shape (n, 16), optional
        Only texts that are equal in one of its columns, too, and in the band of MinHash values that
        goes with it, are compared.
    """
    bands = np.ascontiguousarray(minhash).view(np.uint64)
    needed = int(np.ceil(THRESHOLD * N_HASHES - 1e-9))
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


_Floats = NDArray[np.float64]
_Bools = NDArray[np.bool_]

#: Decimals, and significant digits, up to which a number is one that several answers may have.
_DIGITS: Final = 4
#: Largest denominator of a fraction that several answers may have, and how near it must be. Of
#: numbers that are rounded, to decimals or to single precision, the denominator is at most this
#: factor over the square root of the last digit's step: beyond, any number is near a fraction.
_DENOMINATOR: Final = 10_000
_NEAR: Final = 1e-12
_ROUNDED: Final = 0.2
#: Neighbours on either side that say how dense a column's values are there.
_TELLING_NEIGHBOURS: Final = 16
#: Chance that an answer shares its value with another one up to which chance does not explain it;
#: up to the second where ten times as many answers share theirs.
_CHANCE: Final = (1e-3, 0.02)
#: More rows of both classes at one value are no copies.
_DOZEN: Final = 12
#: Share of the values with answers of both classes from which they are no copies of one answer
#: each, unless such a share of the values is shared by equally many rows.
_MIXED: Final = 0.1
_EVEN_SHARE: Final = 0.8


def score_copies(columns: Sequence[_Floats], labels: NDArray[np.int8]) -> NDArray[np.int64]:
    """Find the groups of rows that are copies of one another by their scores alone.

    Rows are copies where they have the same number in every column, and at least one of these
    numbers is telling: chance does not explain that two answers share it. Telling is no number of
    at most four decimals or four significant digits, no simple fraction, no end at which a column
    is saturated, none whose neighbours stand so dense on the grid of its digits (of its precision)
    that answers meet there, and none that more than a dozen answers of both classes share. Where
    answers of both classes share a tenth of the values, in groups of different sizes, the column
    is a count in disguise, as entropies of a few samples are, and none of its values is telling.

    Parameters
    ----------
    columns : sequence of ndarray of float64, shape (n,)
        Scores; NaN where undefined.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful, -1 = not labelled.

    Returns
    -------
    ndarray of int64, shape (n,)
        0, 1, ... for the groups; -1 for a row without a copy.

    Examples
    --------
    >>> scores = np.array([0.123456789, 0.5, 0.123456789, 0.5, 0.1])
    >>> score_copies([scores], np.array([1, 0, 1, 0, 0], np.int8)).tolist()
    [0, -1, 0, -1, -1]
    """
    found = np.full(len(labels), -1, np.int64)
    ties = [_ties(column, labels) for column in columns]
    # Rows that are alike share the value of every column, and one that is telling.
    if not (all(len(tie.values) for tie in ties) and any(tie.telling.any() for tie in ties)):
        return found
    places = [tie.places(column) for tie, column in zip(ties, columns, strict=True)]
    rows = np.flatnonzero(np.all([place >= 0 for place in places], axis=0))
    together, telling = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    for tie, place in zip(ties, places, strict=True):
        telling |= tie.telling[place[rows]]
        _, together = np.unique(together * len(tie.values) + place[rows], return_inverse=True)
    telling &= np.bincount(together, minlength=1)[together] > 1
    found[rows[telling]] = np.unique(together[telling], return_inverse=True)[1]
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Ties:
    """The values that several rows share, rising (NaN last), and which of them are telling."""

    values: _Floats
    telling: _Bools

    def places(self, column: _Floats) -> NDArray[np.intp]:
        """Return each row's place among the values; -1 for one whose value is its own."""
        places = np.minimum(np.searchsorted(self.values, column), len(self.values) - 1)
        held = self.values[places]
        return np.where((held == column) | (np.isnan(held) & np.isnan(column)), places, -1)


def _ties(column: _Floats, labels: NDArray[np.int8]) -> _Ties:
    """Return which values of a column chance does not explain where rows share them."""
    undefined = np.isnan(column)
    values, counts = np.unique(column[~undefined], return_counts=True)
    rows = np.flatnonzero(counts > 1)
    shared, counts = values[rows], counts[rows]
    telling = ~(_short(shared) | _simple(shared))
    at_end = (rows == 0) | (rows == len(values) - 1)
    # An end is saturated where more rows are at it than at any other of these values.
    telling &= ~at_end | (counts <= counts[telling & ~at_end].max(initial=0))
    low, high = _CHANCE
    limit = max(low, min(high, counts[telling].sum() / max(1, len(labels)) / 10.0))
    telling[telling] = _met_by_chance(values, rows[telling]) <= limit
    if telling.any():
        place = _Ties(shared, telling).places(column)
        met = place >= 0
        n_of = [np.bincount(place[met & (labels == y)], minlength=len(rows)) for y in (0, 1)]
        mixed = telling & (np.minimum(*n_of) > 0)
        if np.count_nonzero(mixed) > _MIXED * np.count_nonzero(telling):
            # Answers that several people have labelled stand there equally often.
            sizes = np.bincount(counts[telling])
            telling &= bool(sizes.max() >= _EVEN_SHARE * sizes.sum())
        telling &= ~(mixed & (counts > _DOZEN))
    if np.count_nonzero(undefined) > 1:
        # Nothing is equal to NaN; all of them are one value.
        shared, telling = np.append(shared, np.nan), np.append(telling, False)
    return _Ties(shared, telling)


def _short(values: _Floats) -> _Bools:
    """Return which numbers have few decimals or few significant digits."""
    exponent = np.floor(np.log10(np.where(values == 0.0, 1.0, np.abs(values))))
    with np.errstate(all="ignore"):
        scaled = values / 10.0**exponent
    significant = np.abs(scaled - np.round(scaled, _DIGITS - 1)) <= 1e-15 * np.abs(scaled)
    return np.asarray((np.round(values, _DIGITS) == values) | significant)


def _simple(values: _Floats) -> _Bools:
    """Return which numbers are fractions of small whole numbers, by their continued fractions."""
    x, step = np.abs(values), _grid(values)
    largest = np.minimum(_DENOMINATOR, _ROUNDED / np.sqrt(step))
    near = np.maximum(_NEAR * x, step)
    before, above = np.ones_like(x), np.floor(x)
    below_before, below = np.zeros_like(x), np.ones_like(x)
    rest, found = x - above, np.zeros(x.shape, np.bool_)
    with np.errstate(all="ignore"):
        while True:
            found |= (below <= largest) & (np.abs(x - above / below) <= 1.001 * near)
            if not ((below <= largest) & (rest > 0.0) & ~found).any():
                return found
            inverse = np.where(rest > 0.0, 1.0 / rest, np.inf)
            whole = np.floor(inverse)
            before, above = above, whole * above + before
            below_before, below = below, whole * below + below_before
            rest = np.where(np.isfinite(inverse), inverse - whole, 0.0)


def _met_by_chance(values: _Floats, rows: NDArray[np.intp]) -> _Floats:
    """Return the chance that another answer has the same value, where values are alike in density.

    ``values`` are a column's, rising and different; ``rows`` those that are asked about.
    """
    low = np.maximum(rows - _TELLING_NEIGHBOURS, 0)
    high = np.minimum(rows + _TELLING_NEIGHBOURS, len(values) - 1)
    with np.errstate(all="ignore"):
        places = (values[high] - values[low]) / _grid(values[rows])
        return np.where(places > 0.0, (high - low) / places, np.inf)


def _grid(values: _Floats) -> _Floats:
    """Return the distance of each value from the next one that its column could have held."""
    step = np.abs(np.spacing(values))
    # The most decimals first, so that the fewest that do stay.
    for digits in range(15, _DIGITS, -1):
        step[np.round(values, digits) == values] = 10.0**-digits
    for kind in (np.float32, np.float16):
        with np.errstate(all="ignore"):
            of_kind = values.astype(kind).astype(np.float64) == values
        step[of_kind] = np.abs(np.spacing(values[of_kind].astype(kind))).astype(np.float64)
    return step


#: Estimated similarity of the questions, and of the responses, of which two copies need each.
#: Without it a long question would make copies of two short answers to it, as "yes" and "no" are.
_OF_PART: Final = 0.6


#: Of the contexts. Fewer than of the texts: the same answer to the same question is given.
_OF_CONTEXTS: Final = 0.7

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, eq=False)
class CopyGroups:
    """Which of n examples are copies of one another, and which only may be.

    Attributes
    ----------
    groups : ndarray of int64, shape (n,)
        0, 1, ... for the groups of what may be copies; -1 for an example that can be none.
    same : ndarray of int64, shape (n,)
        The same of examples that hold the same texts, which are copies: spelt alike with question
        and contexts, or, of a dozen at most, with the same scores, letter case and indentation.
        Without a question or contexts, which nobody may have read, or spelt otherwise, other scores
        are a sign of different answers.
    n_by_scores : int
        Examples that may be copies by their scores alone, as they have no texts.
    sketches : Sketches or None
        What told texts apart; None where there are none.
    """

    groups: NDArray[np.int64]
    same: NDArray[np.int64]
    n_by_scores: int = 0
    sketches: Sketches | None = None

    @property
    def n_contents(self) -> NDArray[np.int64]:
        """How many different answers each of the groups holds."""
        held = self.groups >= 0
        pairs = np.stack([self.groups[held], _alone(self.same)[held]])
        return np.bincount(pairs[0, np.unique(pairs, axis=1, return_index=True)[1]], minlength=1)

    @property
    def n_near(self) -> int:
        """How many examples may be copies of one that does not hold the same texts."""
        return int(np.count_nonzero((self.groups >= 0) & (self.n_contents[self.groups] > 1)))

    @property
    def together(self) -> NDArray[np.int64]:
        """Groups that no split divides, shape (n,).

        More than a dozen different answers that are nearly the same are hardly copies of one, but
        fill a template, or share a number that stands for none: of these only the same texts stay
        together, unless nearly all groups are as large.
        """
        many: _Bools = (self.groups >= 0) & _crowded(self.n_contents)[self.groups]
        return divided(self.groups, self.same, many)

    def counted(self) -> dict[str, int]:
        """Return how many examples have copies, their groups and the size of the largest."""
        return counted_copies(self.groups) | {"n_by_scores": self.n_by_scores}


class CopyFinder:
    """Remembers of examples, one by one, what tells copies apart: sketches of texts, or scores.

    Parameters
    ----------
    columns : iterable of str
        Columns whose scores are asked for. They tell rows without texts apart.
    """

    def __init__(self, columns: Iterable[str] = ()) -> None:
        self._columns = {name: array("d") for name in columns}
        self._labels, self._without = array("b"), bytearray()
        self._sketcher: Sketcher | None = None
        self._has_answer, self._is_whole = bytearray(), bytearray()
        self._written = array("L")

    def add(self, example: Example) -> None:
        """Remember one example."""
        textual = bool(example.question or example.response)
        if textual and self._sketcher is None:
            self._sketcher = Sketcher()
            for _ in self._has_answer:
                self._sketcher.add(Example())
        if self._sketcher is not None:
            self._sketcher.add(example)
        self._without.append(not textual)
        self._labels.append(-1 if example.label is None else example.label)
        for name, values in self._columns.items():
            number = number_in(example.columns.get(name))
            values.append(np.nan if number is None else number)
        self._has_answer.append(example.known_by == "texts")
        self._is_whole.append(bool(example.question and example.contexts))
        written = map(written_text, (example.question, example.response) if textual else ())
        self._written.append(zlib.crc32("\0".join(written).encode("utf-8", "surrogatepass")))

    def finish(self, digests: NDArray[Any], spelt: NDArray[Any]) -> CopyGroups:
        """Return the copies among all examples, in order; none can be added after.

        ``digests`` are those of the examples, by which the same texts are known, however spelt;
        ``spelt`` those of the texts as they are spelt.
        """
        n = len(self._has_answer)
        scores = [np.where(np.isinf(it), np.nan, it) for it in self._columns.values()]
        sketches = None if self._sketcher is None else self._sketcher.finish()
        groups, same = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
        if sketches is not None:
            groups = find_copies(sketches)
            # Short answers to nothing may be alike by chance.
            able = np.frombuffer(self._has_answer, np.bool_) & (sketches.anchors != 0)
            alike = np.unique(digests, return_inverse=True)[1]
            for values in (np.array(self._written), *scores):
                alike = alike * (n + 1) + np.unique(values, return_inverse=True)[1]
                alike = np.unique(alike, return_inverse=True)[1]
            # One text and score for many may be those of answers about different things.
            many = able & _crowded(np.bincount(alike[able], minlength=n))[alike]
            alike = np.where(many, n + np.arange(n), alike)
            whole = able & np.frombuffer(self._is_whole, np.bool_)
            same = _repeated(merge_groups(alike, _repeated(spelt, whole)), able)
            texts = _repeated(digests, able)
            groups = _repeated(merge_groups(_alone(groups), texts), able | (groups >= 0))
        without = np.flatnonzero(np.frombuffer(self._without, np.bool_))
        labels = np.array(self._labels, np.int8)[without]
        by_score = score_copies([values[without] for values in scores], labels)
        rows = without[by_score >= 0]
        groups[rows] = groups.max(initial=-1) + 1 + by_score[by_score >= 0]
        return CopyGroups(groups, same, len(rows), sketches)


def _crowded(sizes: NDArray[np.intp]) -> _Bools:
    """Return which groups of some sizes are no copies of one answer: nearly all are as large."""
    several = np.bincount(sizes[sizes > 1], minlength=1)
    even = several.sum() > _DOZEN and several.max() >= _EVEN_SHARE * several.sum()
    return np.asarray(sizes > max(_DOZEN, int(several.argmax()) if even else 0))


def _alone(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return groups in which an example without one is one of its own."""
    return np.where(groups >= 0, groups, groups.max(initial=-1) + 1 + np.arange(len(groups)))


def _repeated(names: NDArray[Any], able: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the groups of rows with the same name, numbered; -1 for others and those not able."""
    groups = np.full(len(names), -1, np.int64)
    rows = np.flatnonzero(able)
    _, member, sizes = np.unique(names[rows], return_inverse=True, return_counts=True)
    several = sizes > 1
    groups[rows] = np.where(several, np.cumsum(several) - 1, -1)[member]
    return groups


def copies_by_scores(columns: Sequence[_Floats], labels: NDArray[np.int8]) -> CopyGroups:
    """Return which of n examples without texts may be copies, as a `CopyFinder` would."""
    groups = score_copies(columns, labels)
    return CopyGroups(groups, np.full_like(groups, -1), int(np.count_nonzero(groups >= 0)))


def find_copies(sketches: Sketches, sides: NDArray[np.uint8] | None = None) -> NDArray[np.int64]:
    """Find the groups of examples that may be copies of one another, word for word or nearly.

    These have the same contexts, questions and responses, or nearly so: of the word pairs of all
    contexts together seven tenths are shared (estimated), of those of question and response
    together four fifths (as in `cross_split_duplicates`), of those of either of these three fifths.
    Where each of two names or counts something that the other does not, they are different answers
    of one template. A copy of a copy is a copy. Where there is no context and no question,
    responses of at least eight words must be the same.

    Parameters
    ----------
    sketches : Sketches of n examples
        From a `Sketcher`.
    sides : ndarray of uint8, shape (n,), optional
        1 or 2. Near copies are looked for across sides alone.

    Returns
    -------
    ndarray of int64, shape (n,)
        0, 1, ... for the groups; -1 for an example without a copy.

    Examples
    --------
    >>> from calibrail.data.example import Example
    >>> from calibrail.data.duplicates import Sketcher
    >>> sketcher = Sketcher()
    >>> for answer in ("Ada Lovelace.", "Mary Shelley.", "ada lovelace"):
    ...     sketcher.add(Example(question="Who wrote it?", response=answer))
    >>> find_copies(sketcher.finish()).tolist()
    [0, -1, 0]
    """
    found = np.full(len(sketches), -1, dtype=np.int64)
    able = np.flatnonzero((sketches.exact != 0) & (sketches.anchors != 0))
    if not len(able):
        return found
    # A response alone may be of a template: anchored in itself, it has no other that is near it.
    named = np.bitwise_xor.reduce(sketches.named[able] * _hashes()[0, :N_OF_NAMED], axis=1)
    keys = (sketches.exact[able] * _ODD + sketches.anchors[able]) * _ODD + named
    _, first, member = np.unique(keys, return_index=True, return_inverse=True)
    holder = able[first]
    everywhere = np.full(len(holder), 3 if sides is None else 0, dtype=np.uint8)
    if sides is not None:
        np.bitwise_or.at(everywhere, member, sides[able])
    edges = [np.zeros((2, 0), dtype=np.intp)]
    # What the contexts add to the key of each band of a text, shape (n, 16).
    contexts = sketches.contexts[holder]
    bands = np.ascontiguousarray(contexts).view(np.uint32).astype(np.uint64) + np.uint64(1)
    without = sketches.anchors[holder, np.newaxis]
    beside = np.where(contexts.any(axis=1, keepdims=True), bands * _ODD, without)
    for pair in similar_pairs(sketches.minhash, holder, everywhere, beside):
        alike = alike_texts(sketches, holder[pair[0]], holder[pair[1]])
        edges.append(np.stack(pair)[:, alike])
    found[able] = components(np.concatenate(edges, axis=1), len(holder))[member]
    return _repeated(found, found >= 0)


def copies_of(known: Sketches, fresh: Sketches) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which examples are copies of known ones, as `find_copies` has it, and of which.

    Parameters
    ----------
    known : Sketches
        Shortened.
    fresh : Sketches of n examples
        Those that are asked about.
    """
    if not known.named.any():
        # An earlier version did not keep them.
        fresh = replace(fresh, named=np.zeros_like(fresh.named))
    # A copy of a copy is none here: whether an answer is one depends on no other.
    sides = np.repeat(np.array([1, 2], np.uint8), [len(known), len(fresh)])
    joined = known.joined(fresh.shortened())
    earlier, later = np.split(find_copies(joined, sides), [len(known)])
    met = np.intersect1d(earlier, later)
    return np.isin(later, met[met >= 0]), np.isin(earlier, met[met >= 0])


def alike_texts(
    sketches: Sketches,
    left: NDArray[np.intp],
    right: NDArray[np.intp],
    of_response: float = _OF_PART,
) -> NDArray[np.bool_]:
    """Return of pairs whether all their texts are alike, and neither names what the other does not.

    Contexts are where both have none.
    """
    shared = np.count_nonzero(sketches.parts[left] == sketches.parts[right], axis=2)
    alike = (shared >= np.array([_OF_PART, of_response]) * N_OF_PART).all(axis=1)
    ones, others = sketches.contexts[left], sketches.contexts[right]
    held = np.count_nonzero((ones > 0) | (others > 0), axis=1)
    same = np.count_nonzero((ones == others) & (ones > 0), axis=1)
    one, other = sketches.named[left], sketches.named[right]
    apart = (one & ~other).any(axis=1) & (other & ~one).any(axis=1)
    return np.asarray(alike & (same >= _OF_CONTEXTS * held) & ~apart)


def counted_copies(copies: NDArray[np.int64]) -> dict[str, int]:
    """Return how many examples have copies, in how many groups, and the size of the largest.

    >>> counted_copies(np.array([0, -1, 0]))
    {'n': 2, 'n_groups': 1, 'largest': 2}
    """
    sizes = np.bincount(copies[copies >= 0])
    counts = sizes.sum(), len(sizes), sizes.max(initial=0)
    return dict(zip(("n", "n_groups", "largest"), map(int, counts), strict=True))


def n_indistinguishable(copies: CopyGroups, scores: NDArray[np.float64]) -> int:
    """Return how many examples may be copies or alike by chance, since nothing tells which.

    These are examples of which another one shows the same, and little: a short
    response without question and contexts, or, where there are no texts at all, a score.

    Parameters
    ----------
    copies : Copies of n examples
        Those that are known to be copies are told.
    scores : ndarray of float64, shape (n,)
        One score of each example.
    """
    sketches = copies.sketches
    if sketches is None:
        return n_repeated(scores[~np.isnan(scores) & (copies.together < 0)])
    return n_repeated(sketches.exact[(sketches.exact != 0) & (sketches.anchors == 0)])
