"""In which order are answers drawn, and which lots fall to them?

All of it follows from the seed and from what is drawn, so that nothing needs to be remembered: the
same traces, in whatever order they are stored, are drawn in the same one.
"""

import hashlib
from dataclasses import dataclass

from calibrail.data.example import Example


@dataclass(frozen=True, slots=True)
class Order:
    """The order of drawing that a seed gives.

    Examples
    --------
    >>> order = Order(seed=0)
    >>> order.unit(Example(response="a", group="q1")) == order.unit(Example(group="q1"))
    True
    >>> 0.0 <= order.lot("labelled", "0123456789abcdef") < 1.0
    True
    """

    seed: int

    def unit(self, example: Example, digest: str | None = None) -> str:
        """Return the place of what is drawn: 32 hexadecimal digits, drawn in ascending order.

        The group of the answer is drawn, or where it has none the answer itself, of which copies
        word for word are one.
        """
        if example.group is not None:
            return self._hash("group", example.group)
        return self.alone(digest or example.digest())

    def alone(self, digest: str) -> str:
        """Return the place of what is drawn by itself, likewise."""
        return self._hash("answer", digest)

    def within(self, digest: str) -> str:
        """Return the place of an answer among those of its group, likewise."""
        return self._hash("within", digest)

    def lot(self, purpose: str, digest: str) -> float:
        """Return a number in [0, 1) for an answer, another one for each purpose."""
        return int(self._hash(purpose, digest)[:13], 16) / 2.0**52

    def _hash(self, *parts: str) -> str:
        text = "\0".join((str(self.seed), *parts)).encode("utf-8", "surrogatepass")
        return hashlib.sha256(text).hexdigest()[:32]
