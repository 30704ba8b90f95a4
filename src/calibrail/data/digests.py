"""How are the digests of millions of answers kept and shown?"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, overload

import numpy as np
from numpy.typing import NDArray

#: Digests that become texts at a time.
_AT_A_TIME: Final = 1 << 14


class Digests(Sequence[str]):
    """Digests as `Example.digest` writes them, of numbers of 8 bytes each.

    >>> digests = Digests(np.array([1, 255], np.uint64))
    >>> digests[1], list(digests)
    ('00000000000000ff', ['0000000000000001', '00000000000000ff'])
    """

    def __init__(self, numbers: NDArray[np.uint64]) -> None:
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> "Digests": ...
    def __getitem__(self, place: int | slice) -> Any:
        """Return one of them, or some."""
        if isinstance(place, slice):
            return Digests(self._numbers[place])
        return f"{self._numbers[place]:016x}"

    def __iter__(self) -> Iterator[str]:
        """Yield all of them."""
        for start in range(0, len(self), _AT_A_TIME):
            text = self._numbers[start : start + _AT_A_TIME].astype(">u8").tobytes().hex()
            yield from (text[place : place + 16] for place in range(0, len(text), 16))

    def __eq__(self, other: object) -> bool:
        """Say whether another sequence holds the same."""
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]
