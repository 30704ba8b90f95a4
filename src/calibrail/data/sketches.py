"""How is a text remembered in a few bytes, so that near-duplicates can be found later?

MinHash by hand, since it was measured against datasketch 2.0 with as many values and the same
shingles (HaluEval's QA answers, one core): 15 microseconds and 136 bytes per answer here, 103 and
336 there. One array operation serves half a megabyte of text, where the library calls a hash
function for every shingle.
"""

import re
from array import array
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example

#: MinHash values a text: the standard error of a Jaccard estimate is at most 1/16.
N_HASHES: Final = 64

#: Of these, how many are kept of the question and of the response, each by itself.
N_OF_PART: Final = 32

#: Bytes that are kept of the contexts.
N_OF_CONTEXTS: Final = 64

#: Words from which an answer without question and contexts is no accident when it is repeated.
TELLING: Final = 8

#: Consecutive words in one shingle.
SHINGLE: Final = 2

_WORD: Final = re.compile(r"\w+")
_BATCH_BYTES: Final = 1 << 19
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)

# Fixed, so that sketches of different runs can be compared.
_rng = np.random.default_rng(20_231_107)
_EVEN: Final = _rng.integers(0, 2**63, N_HASHES, dtype=np.uint64) * np.uint64(2)
_MULTIPLIERS: Final = _EVEN + np.uint64(1)
_OFFSETS: Final = _rng.integers(0, 2**63, N_HASHES, dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class Sketches:
    """Question, response and contexts of n examples: 336 bytes each.

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
    """

    exact: NDArray[np.uint64]
    minhash: NDArray[np.uint16]
    parts: NDArray[np.uint16]
    anchors: NDArray[np.uint64]
    contexts: NDArray[np.uint8]

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.exact)


def normalise(text: str) -> str:
    """Return the words of a text, case folded, with single spaces between.

    >>> normalise("The  Rhine's source, (Switzerland)!")
    'the rhine s source switzerland'
    """
    return " ".join(_WORD.findall(text.casefold()))


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
        # Bytes grow in place, where a list of arrays would be held twice while it is joined.
        self._exact = bytearray()
        self._minhash = bytearray()
        self._parts = bytearray()
        self._anchors = array("Q")
        self._contexts = bytearray()

    def add(self, example: Example) -> None:
        """Remember the texts of one example."""
        question, response = _encoded(example.question), _encoded(example.response)
        # Contexts are long: splitting at spaces takes a tenth of the time of finding words.
        chunks = sorted(filter(None, (" ".join(c.casefold().split()) for c in example.contexts)))
        contexts = "\n".join(chunks).encode("utf-8", "surrogatepass")
        self._texts.append((question, response, contexts))
        self._anchors.append(_anchor(question, response, contexts))
        self._held += len(question) + len(response) + len(contexts) + 16
        if self._held >= _BATCH_BYTES:
            self._flush()

    def finish(self) -> Sketches:
        """Return the sketches of everything added, in order; nothing can be added after."""
        self._flush()
        exact = np.frombuffer(self._exact, dtype=np.uint64)
        minhash = np.frombuffer(self._minhash, dtype=np.uint16).reshape(-1, N_HASHES)
        parts = np.frombuffer(self._parts, dtype=np.uint16).reshape(-1, 2, N_OF_PART)
        anchors = np.array(self._anchors, dtype=np.uint64)
        contexts = np.frombuffer(self._contexts, dtype=np.uint8).reshape(-1, N_OF_CONTEXTS)
        return Sketches(exact, minhash, parts, anchors, contexts)

    def _flush(self) -> None:
        if not self._texts:
            return
        whole = [b" ".join(filter(None, texts[:2])) for texts in self._texts]
        self._exact += np.array([_hash(text) if text else 0 for text in whole], np.uint64).tobytes()
        values = _minhash([text for texts in self._texts for text in texts[:2]])
        values = values.reshape(-1, 2, N_HASHES)
        # The least of both parts is the least of the whole.
        self._minhash += _kept(values.min(axis=1)).tobytes()
        self._parts += _kept(values[:, :, :N_OF_PART]).tobytes()
        self._contexts += _binned([texts[2] for texts in self._texts]).tobytes()
        self._texts, self._held = [], 0


def _encoded(text: str) -> bytes:
    return normalise(text).encode("utf-8", "surrogatepass")


def _hash(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")


def _anchor(question: bytes, response: bytes, contexts: bytes) -> int:
    if contexts:
        return _hash(contexts)
    if question:
        return 1
    return _hash(response) if response.count(b" ") >= TELLING - 1 else 0


def _kept(values: NDArray[np.uint64]) -> NDArray[np.uint16]:
    return (values >> np.uint64(24)).astype(np.uint16)


def _minhash(texts: list[bytes]) -> NDArray[np.uint64]:
    """Return MinHash values, shape (n, 64), of normalised texts; the largest for an empty one."""
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
    for i in range(N_HASHES):
        values = shingles * _MULTIPLIERS[i] + _OFFSETS[i]
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
    starts = np.append(0, ends[:-1] + 1)
    upto = running[ends - 1]
    before = np.where(starts > 0, running[starts - 1], np.uint64(0))
    inverse = np.uint64(pow(int(_ODD), -1, 2**64))
    return _mix((upto - before) * _powers(inverse, n)[starts])


def _powers(base: np.uint64, n: int) -> NDArray[np.uint64]:
    factors = np.full(n, base, dtype=np.uint64)
    factors[:1] = 1
    return np.cumprod(factors, dtype=np.uint64)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return splitmix64's finaliser of each value: every input bit reaches every output bit."""
    values = values ^ (values >> np.uint64(30))
    values = values * np.uint64(0xBF58476D1CE4E5B9)
    values = values ^ (values >> np.uint64(27))
    values = values * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed
