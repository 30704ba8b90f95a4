"""What do models behind endpoints share, that is asked before anything is sent?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Question:
    """One thing that would be asked.

    Attributes
    ----------
    key : str
        Digest under which its answer is kept, hexadecimal.
    known : bool
        Whether the answer is kept already.
    n_characters, n_bytes : int
        Length of the text, as characters and as bytes of UTF-8.
    max_tokens : int
        Tokens of the answer at most.
    """

    key: str
    known: bool
    n_characters: int
    n_bytes: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What a model was used for so far; figures only grow.

    Attributes
    ----------
    n_answers : int
        Distinct requests that were answered, by the endpoint or the cache.
    n_sent : int
        Requests sent, further attempts included.
    n_cached : int
        Answers that the cache held.
    n_failed : int
        Requests that got no answer.
    tokens_in, tokens_out : int
        Tokens of all answers, the cached ones included, as the endpoint counted them.
    n_counted : int
        Answers whose tokens were counted.
    """

    n_answers: int = 0
    n_sent: int = 0
    n_cached: int = 0
    n_failed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    n_counted: int = 0

    def __sub__(self, other: Usage) -> Usage:
        return Usage(
            *(getattr(self, name) - getattr(other, name) for name in self.__dataclass_fields__)
        )

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            *(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__)
        )


@runtime_checkable
class RemoteModel(Protocol):
    """A model behind an endpoint."""

    @property
    def model(self) -> str:
        """The model's name at the endpoint."""
        ...

    @property
    def endpoint(self) -> str:
        """The endpoint's address."""
        ...

    @property
    def usage(self) -> Usage:
        """What it was used for so far."""
        ...

    @property
    def batch(self) -> int:
        """Questions that one call holds."""
        ...

    def questions(self, items: Sequence[Any]) -> Iterable[Question]:
        """Return what would be asked for these items, with whether the answer is known."""
        ...

    def tokens_so_far(self) -> float | None:
        """Return tokens per character of what was asked before, None if nothing was counted."""
        ...
