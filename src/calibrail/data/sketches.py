"""How is a text remembered in a few bytes, so that near-duplicates can be found later?

MinHash by hand, since it was measured against datasketch 2.0 with as many values and the same
shingles (HaluEval's QA answers, one core): 15 microseconds and 136 bytes per answer here, 103 and
336 there. One array operation serves half a megabyte of text, where the library calls a hash
function for every shingle.
"""

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example

#: MinHash values a text: the standard error of a Jaccard estimate is at most 1/16.
N_HASHES: Final = 64

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
    """Question and response of n examples: 136 bytes each.

    Parameters
    ----------
    exact : ndarray of uint64, shape (n,)
        Hash of the normalised text; 0 for an example without words.
    minhash : ndarray of uint16, shape (n, 64)
        Low 16 bits of MinHash values over shingles of two words (b-bit minwise hashing, Li and
        König 2010).
    """

    exact: NDArray[np.uint64]
    minhash: NDArray[np.uint16]

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
        self._texts: list[bytes] = []
        self._held = 0
        # Bytes grow in place, where a list of arrays would be held twice while it is joined.
        self._exact = bytearray()
        self._minhash = bytearray()

    def add(self, example: Example) -> None:
        """Remember the question and the response of one example."""
        text = normalise(f"{example.question} {example.response}")
        encoded = text.encode("utf-8", "surrogatepass")
        self._texts.append(encoded)
        self._held += len(encoded) + 16
        if self._held >= _BATCH_BYTES:
            self._flush()

    def finish(self) -> Sketches:
        """Return the sketches of everything added, in order; nothing can be added after."""
        self._flush()
        exact = np.frombuffer(self._exact, dtype=np.uint64)
        minhash = np.frombuffer(self._minhash, dtype=np.uint16)
        return Sketches(exact, minhash.reshape(-1, N_HASHES))

    def _flush(self) -> None:
        if not self._texts:
            return
        digests = b"".join(blake2b(text, digest_size=8).digest() for text in self._texts)
        exact = np.frombuffer(digests, dtype="<u8").astype(np.uint64)
        exact[[not text for text in self._texts]] = 0
        self._exact += exact.tobytes()
        self._minhash += _minhash(self._texts).tobytes()
        self._texts, self._held = [], 0


def _minhash(texts: list[bytes]) -> NDArray[np.uint16]:
    """Return MinHash values, shape (n, 64), of normalised texts."""
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
    result = np.empty((len(texts), N_HASHES), dtype=np.uint16)
    for i in range(N_HASHES):
        values = shingles * _MULTIPLIERS[i] + _OFFSETS[i]
        values[owner_ends] = np.iinfo(np.uint64).max
        result[:, i] = (np.minimum.reduceat(values, starts) >> np.uint64(24)).astype(np.uint16)
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
