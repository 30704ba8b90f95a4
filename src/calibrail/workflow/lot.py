"""Which of several answers that are alike is drawn, in any order of the rows?"""

from hashlib import blake2b
from struct import pack
from typing import Final

import numpy as np
from numpy.typing import NDArray

_AT_A_TIME: Final = 1 << 14


def lot(digest: int, value: float, label: int) -> int:
    """Return the lot of an answer: the lowest of its group counts.

    It follows from what the answer holds, never from its place in a file. The score takes part
    through its bits alone, so that answers with the same texts are told apart and neither a high
    score nor a low one is favoured; where all is the same but the label, either class may come
    first.

    Parameters
    ----------
    digest : int
        Of the answer's content, 64 bits.
    value : float
        Score; NaN where undefined.
    label : int
        1 = hallucinated, 0 = faithful.

    Examples
    --------
    >>> lot(1, 0.5, 0) == lot(1, 0.5, 0) != lot(1, 0.25, 0)
    True
    """
    drawn = blake2b(pack("<Qd", digest, value), digest_size=7).digest()
    return int.from_bytes(drawn, "big") << 1 | label ^ (drawn[0] & 1)


def lots(
    digests: NDArray[np.uint64],
    values: NDArray[np.float64],
    labels: NDArray[np.int8],
    tolerance: float = 0.0,
) -> NDArray[np.uint64]:
    """Return the lot of every answer, shape (n,).

    A score that two computations may give other last digits (its ``tolerance`` is not 0) takes no
    part: another machine, or another batch, would draw other answers.
    """
    if tolerance > 0.0:
        values = np.zeros(len(values))
    drawn = np.empty(len(digests), np.uint64)
    # Millions of rows as Python's numbers would take a hundred bytes each.
    for start in range(0, len(drawn), _AT_A_TIME):
        part = slice(start, start + _AT_A_TIME)
        rows = zip(*(column[part].tolist() for column in (digests, values, labels)), strict=True)
        drawn[part] = [lot(*row) for row in rows]
    return drawn
