"""Which of several answers that are alike is drawn, in any order of the rows?"""

from collections.abc import Iterable
from hashlib import blake2b
from struct import pack

import numpy as np
from numpy.typing import NDArray


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
    digests: NDArray[np.uint64], values: NDArray[np.float64], labels: NDArray[np.int8]
) -> NDArray[np.uint64]:
    """Return the lot of every answer, shape (n,)."""
    rows: Iterable[tuple[int, float, int]] = zip(
        digests.tolist(), values.tolist(), labels.tolist(), strict=True
    )
    return np.fromiter((lot(*row) for row in rows), np.uint64, len(digests))
