"""How are embeddings kept, so that each text is embedded once and memory stays bounded?"""

from __future__ import annotations

import hashlib
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray


def text_key(text: str) -> bytes:
    """Return 16 bytes that stand for a text; the text itself need not be kept."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class VectorStore:
    """Arrays by key, the least recently used ones dropped beyond a budget.

    Parameters
    ----------
    budget : int
        Bytes of arrays to keep at most.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._bytes = 0
        self._arrays: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()
        self._cut: set[bytes] = set()

    def get(self, key: bytes) -> NDArray[np.float32] | None:
        """Return the array, or None; it counts as used."""
        array = self._arrays.get(key)
        if array is not None:
            self._arrays.move_to_end(key)
        return array

    def put(self, key: bytes, array: NDArray[np.float32], *, cut: bool = False) -> None:
        """Keep an array; drop the least recently used ones beyond the budget.

        The newest array is kept even if it exceeds the budget by itself. ``cut`` says that it
        stands for the beginning of a longer text.
        """
        self._drop(key)
        self._arrays[key] = array
        self._bytes += array.nbytes
        if cut:
            self._cut.add(key)
        while self._bytes > self._budget and len(self._arrays) > 1:
            self._drop(next(iter(self._arrays)))

    def is_cut(self, key: bytes) -> bool:
        """Return whether the array kept for a key stands for the beginning of its text only."""
        return key in self._cut

    def clear(self) -> None:
        """Forget everything."""
        self._arrays.clear()
        self._cut.clear()
        self._bytes = 0

    def _drop(self, key: bytes) -> None:
        array = self._arrays.pop(key, None)
        if array is not None:
            self._bytes -= array.nbytes
            self._cut.discard(key)
