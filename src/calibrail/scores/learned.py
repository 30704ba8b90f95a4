"""What do scores learn from labelled examples, and how is it kept and given back to them?"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.base import Fittable, Score
from calibrail.settings import SplitOptions
from calibrail.settings.option import option_of

FIT_SPLIT: Final = "use calibrate or compare, which set a fit split aside"

#: Fewer of a class teach nothing that could hold on other examples.
FEWEST: Final = 5


class Learning:
    """A part of the built-in scores that learn: plain arrays by name, or nothing yet."""

    name: str
    #: What the score lacks before it has learnt, and what to do.
    unfitted: ClassVar[str] = f"learns from labelled examples before it can score: {FIT_SPLIT}"
    _state: Mapping[str, NDArray[Any]] | None = None

    @property
    def arrays(self) -> Iterable[str] | None:
        """Names of the arrays learnt; None where the labels decide."""
        return None

    @property
    def fitted(self) -> bool:
        """Whether it has learnt."""
        return self._state is not None

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return what was learnt, as plain arrays by name."""
        if self._state is None:
            raise InputError(f"{self.name} {self.unfitted}")
        return self._state

    def restore(self, state: Mapping[str, NDArray[Any]]) -> Self:
        """Return a copy that has learnt this; a missing array is a ``KeyError``."""
        fitted = copy.copy(self)
        fitted._state = {name: state[name] for name in self.arrays or state}
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
    name = score.name
    if not isinstance(score, Fittable):
        if raw is not None:
            raise InputError(f"the score {name} does not learn, but a state was given to it")
        return score
    if raw is None:
        raise InputError(
            f"the score {name} learns, and what it has learnt is missing; calibrate again"
        )
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return score.restore(load(raw))
    except (SafetensorError, KeyError) as error:
        raise InputError(
            f"what the score {name} has learnt is damaged ({error}); calibrate again"
        ) from error


def both_classes(
    name: str, examples: Sequence[Example], usable: NDArray[np.bool_]
) -> NDArray[np.int8]:
    """Return the labels of the usable examples.

    Raises
    ------
    InputError
        If one has no label, or a class has fewer than ``FEWEST``.
    """
    labels = []
    for example in (examples[row] for row in np.flatnonzero(usable).tolist()):
        if example.label not in (0, 1):
            raise InputError(
                f"{name} learns from labels, and example {example.id!r} has none; label it 0 "
                "(faithful) or 1 (hallucinated), or leave it out"
            )
        labels.append(example.label)
    for label, kind in ((1, "hallucinated"), (0, "faithful")):
        if (count := labels.count(label)) < FEWEST:
            raise InputError(
                f"{name} learns from both classes and needs {FEWEST} of each; its fit split holds "
                f"{count} {kind} examples that it can score; label more, or raise "
                f"{option_of(SplitOptions, 'fit_share')}"
            )
    return np.array(labels, dtype=np.int8)


def separation(values: NDArray[np.float64], labels: NDArray[Any]) -> float:
    """Return the AUROC of the labelled values that are not NaN; 0.5 where a class is missing."""
    from sklearn.metrics import roc_auc_score

    known = (labels >= 0) & ~np.isnan(values)
    if len(set(labels[known].tolist())) < 2:
        return 0.5
    return float(roc_auc_score(labels[known], values[known]))
