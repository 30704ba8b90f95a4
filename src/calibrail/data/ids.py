"""Was this id seen before, among a million, in little memory?"""

from __future__ import annotations

from array import array
from hashlib import blake2b


class SeenIds:
    """A set of 64-bit hashes by open addressing: 8 bytes a slot, at most two thirds full.

    Two different ids are taken for the same with probability below 1e-7 at 10^6 ids (birthday
    bound n^2 / 2^65). A million ids take 16 MiB, where a set of texts takes about 120.

    Examples
    --------
    >>> seen = SeenIds()
    >>> seen.add("a"), seen.add("b"), seen.add("a")
    (True, True, False)
    """

    __slots__ = ("_count", "_mask", "_slots")

    def __init__(self) -> None:
        self._mask = (1 << 12) - 1
        self._slots = array("Q", [0]) * (self._mask + 1)
        self._count = 0

    def __len__(self) -> int:
        """Return the number of different ids."""
        return self._count

    def add(self, text: str) -> bool:
        """Add ``text``; return whether it is new."""
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        value = int.from_bytes(digest, "little") or 1
        slots, mask = self._slots, self._mask
        position = value & mask
        while slots[position]:
            if slots[position] == value:
                return False
            position = (position + 1) & mask
        slots[position] = value
        self._count += 1
        if 3 * self._count > 2 * (mask + 1):
            self._grow()
        return True

    def _grow(self) -> None:
        old = self._slots
        mask = self._mask = 2 * len(old) - 1
        slots = self._slots = array("Q", [0]) * (2 * len(old))
        for value in old:
            if value:
                position = value & mask
                while slots[position]:
                    position = (position + 1) & mask
                slots[position] = value
