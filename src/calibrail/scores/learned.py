"""How is what a score has learnt kept, as arrays and as bytes, and given back to it?"""

import copy
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self, cast

from numpy.typing import NDArray

from calibrail.errors import InputError
from calibrail.scores.base import Fittable, Score

FIT_SPLIT: Final = "use calibrate or compare with a fit split (--fit-share)"


class Learning:
    """A part of the built-in scores that learn: plain arrays by name, or nothing yet."""

    name: str
    #: What the score lacks before it has learnt, and what to do.
    unfitted: ClassVar[str] = f"learns from labelled examples before it can score: {FIT_SPLIT}"
    _state: Mapping[str, NDArray[Any]] | None = None

    @property
    def fitted(self) -> bool:
        """Whether it has learnt."""
        return self._state is not None

    def learnt(self) -> Mapping[str, NDArray[Any]]:
        """Return what was learnt, where a value needs it."""
        if self._state is None:
            raise InputError(f"{self.name} {self.unfitted}")
        return self._state

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return what was learnt, as plain arrays by name."""
        if self._state is None:
            raise InputError(f"{self.name} has not learnt yet")
        return self._state

    def restore(self, state: Mapping[str, NDArray[Any]]) -> Self:
        """Return a copy that has learnt this."""
        fitted = copy.copy(self)
        fitted._state = dict(state)
        return fitted


def learns(score: Score) -> bool:
    """Return whether a score learns and has not learnt yet."""
    return isinstance(score, Fittable) and not score.fitted


def state_bytes(score: Score) -> bytes | None:
    """Return what a fitted score has learnt, in the safetensors format; None if it does not learn.

    The same state always gives the same bytes.
    """
    if not isinstance(score, Fittable):
        return None
    from safetensors.numpy import save

    return bytes(save(dict(score.state())))


def with_state(score: Score, raw: bytes | None) -> Score:
    """Return the score with what it had learnt when ``raw`` was written.

    Raises
    ------
    InputError
        If the bytes are damaged, or are missing for a score that learns, or given to one that does
        not.
    """
    if not isinstance(score, Fittable):
        if raw is not None:
            raise InputError(f"the score {score.name} does not learn, but a state was given to it")
        return score
    if raw is None:
        raise InputError(
            f"the score {cast(Score, score).name} learns, and what it has learnt is missing; "
            "calibrate again"
        )
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return score.restore(load(raw))
    except (SafetensorError, KeyError) as error:
        raise InputError(
            f"what the score {cast(Score, score).name} has learnt is damaged ({error}); calibrate "
            "again"
        ) from error
