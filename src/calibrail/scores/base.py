"""Score protocol, Scores, and the direction in which a score is suspicious.

All but those with an attribute ``whole_answers``, which says why they do not; a score of another
package may have it, too.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.models.batching import single_input_batches
from calibrail.models.llm.chat import RemoteModel

#: Values that a score's parameters and fingerprint may hold: what JSON can hold.
JSON = Any

#: Why an example that lacks a field has no value.
LACKING: Final = {
    "response": "the response is empty",
    "contexts": "there is no context",
    "question": "the question is empty",
    "samples": "there are no further answers sampled to compare with (samples)",
}
#: Why an example that has them all still has no value.
NO_SENTENCE: Final = "the response holds no sentence"
NO_CONTENT_WORD: Final = "the response holds no content word"

#: Pieces and characters of the longest response whose pieces are judged one by one: each costs a
#: pass, and one crafted response must not hold up all others.
MOST_PIECES: Final = 1_000
MOST_CHARACTERS: Final = 100_000
TOO_LONG: Final = (
    f"the response is too long to be judged piece by piece (more than {MOST_PIECES:,} sentences or "
    f"claims, or {MOST_CHARACTERS:,} characters)"
)
#: Characters of the longest response that a model reads to its end, window by window.
MOST_READ: Final = 20_000
TOO_LONG_TO_READ: Final = (
    f"the response is too long to be judged word by word (more than {MOST_READ:,} characters)"
)


class DetectorFailure(str):
    """Why a detector could not judge an answer, where that says nothing of the answer itself.

    It stands among the reasons of ``Scores``: a guardrail then follows its policy for failures, not
    that for undefined scores, which may let an answer pass.
    """

    __slots__ = ()


class NoReplyFailure(DetectorFailure):
    """Of a detector that asks a judge: that the judge gave no answer, whatever was asked."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Scores:
    """The values that one score gave to a batch of examples.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Higher means more likely hallucinated. NaN where the score is undefined; never infinite.
    reasons : mapping of int to str
        For every NaN its position and why the score is undefined there, or, as a
        ``DetectorFailure``, why the detector failed.
    evidence : tuple of mappings, or None
        Per example, what a reviewer can act on (JSON-able), in the order of ``values``.
    """

    values: NDArray[np.float64]
    reasons: Mapping[int, str] = field(default_factory=dict)
    evidence: tuple[Mapping[str, JSON], ...] | None = None

    def __post_init__(self) -> None:
        values = self.values
        if values.dtype != np.float64 or values.ndim != 1:
            raise TypeError(
                f"values must be a float64 array of shape (n,); got {values.dtype} {values.shape}"
            )
        if np.isinf(values).any():
            raise ValueError("values must not be infinite; use NaN with a reason instead")
        undefined = {int(i) for i in np.flatnonzero(np.isnan(values))}
        if undefined != set(self.reasons):
            raise ValueError("every NaN needs a reason, and nothing else has one")


#: What one example is given: a value, alone or with its evidence.
Valued: TypeAlias = float | tuple[float, Mapping[str, JSON]]


def missing(example: Example, requires: Sequence[str]) -> str | None:
    """Return why an example lacks what a score reads, None where nothing is missing.

    >>> missing(Example(response="yes"), ("contexts", "response"))
    'there is no context'
    """
    for name, why in LACKING.items():
        if name in requires and not "".join(getattr(example, name)).strip():
            return why
    return None


@runtime_checkable
class Score(Protocol):
    """A detector: maps examples to numbers, higher = more likely hallucinated.

    A class that has these members is a score; nothing needs to be inherited. Its constructor takes
    its parameters as keywords, so that ``Sgi(context="closest")`` and
    ``--score sgi:context=closest`` mean the same.

    Attributes
    ----------
    name : str
        The registered name, e.g. ``"sgi"``.
    params : mapping
        Every parameter with its value, JSON-able; ``build(name, params)`` gives an equal score.
    requires : tuple of str
        The fields of ``Example`` that it reads, out of ``question``, ``contexts``, ``response``,
        ``samples``; ``()`` for a score that reads a column.
    tolerance : float
        How far two computations of the same value may differ (0 for exact arithmetic, about 1e-6
        for a neural network whose rounding depends on the batch). A response is flagged when
        ``value + tolerance >= threshold``, so that near-ties are decided conservatively.

    Notes
    -----
    A score that reads cells of the data names them in a further attribute, ``columns``, a tuple of
    str. One that remembers more of what it has seen than ``state`` tells has a further attribute,
    ``stays_here``, that says why no other process can compute it, or None. One that is undefined
    for every single sentence has ``whole_answers``, a str that says why.
    """

    @property
    def name(self) -> str:
        """The registered name."""

    @property
    def params(self) -> Mapping[str, JSON]:
        """Every parameter with its value."""

    @property
    def requires(self) -> tuple[str, ...]:
        """The fields of ``Example`` that it reads."""

    @property
    def tolerance(self) -> float:
        """How far two computations of one value may differ."""

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return what ``params`` leave unsaid: model id, revision, weights' SHA-256, dtype, ...

        JSON-able and stable: two processes that would compute different values have different
        fingerprints. Must not load torch.
        """

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return one value per example, in order."""


class SharedModel(Protocol):
    """A model that computes each distinct input once and keeps the result for whoever asks."""

    n_passes: int

    @property
    def prepare(self) -> Callable[..., None]:
        """Compute what is not yet known; takes one iterable a kind of input."""

    def forget(self) -> None:
        """Drop all results, so that the next input is computed by itself."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a score will look up in a model, announced before it runs so that passes are shared.

    Attributes
    ----------
    model : SharedModel
        Scores with the same specification share one.
    parts : tuple of tuples
        The arguments of ``model.prepare``: for an encoder the texts whose sentence vector is
        needed and those whose word vectors are, for a model of pairs the pairs.
    """

    model: SharedModel
    parts: tuple[tuple[Any, ...], ...]


def prepare(demands: Iterable[Demand]) -> None:
    """Have every model compute what is asked of it, in one go for all who ask."""
    by_model: dict[int, list[Demand]] = {}
    for demand in demands:
        by_model.setdefault(id(demand.model), []).append(demand)
    for alike in by_model.values():
        kinds = zip_longest(*(demand.parts for demand in alike), fillvalue=())
        alike[0].model.prepare(*(dict.fromkeys(chain.from_iterable(kind)) for kind in kinds))


@runtime_checkable
class Demanding(Protocol):
    """A score that uses models and announces its inputs, so that each runs once for all scores.

    One that has a method ``background(example)`` says which of them do not depend on the response,
    as demands, or None: the sentences of an answer that is still being written share these.
    """

    @property
    def models(self) -> tuple[SharedModel, ...]:
        """Every model that the score calls."""

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return what ``score(examples)`` will look up, as far as it is known beforehand."""


@runtime_checkable
class Pinning(Protocol):
    """A score that learns from its model's first answers what must not change afterwards.

    An endpoint tells which model it serves only when it answers. What is frozen is the pinned copy.
    """

    def pinned(self) -> Score:
        """Return a copy whose parameters say what the answers so far have told."""


@runtime_checkable
class Fittable(Protocol):
    """A score that learns, from examples that neither calibrate nor test.

    It cannot score before it is fitted. The same examples in the same order give the same state.
    """

    @property
    def fitted(self) -> bool:
        """Whether it has learnt."""

    def fit(self, examples: Sequence[Example]) -> Score:
        """Return a copy that has learnt from labelled examples."""

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return what was learnt, as plain arrays by name."""

    def restore(self, state: Mapping[str, NDArray[Any]]) -> Score:
        """Return a copy that has learnt this."""


def scored_alone(score: Score, example: Example) -> Scores:
    """Score one example so that the result depends on it alone, to the last digit.

    What models know of other examples is left as it is. What they are asked whatever the response
    is, they compute before the rest, so that all sentences of an answer share it. A reply of an
    endpoint does not depend on what else is asked, so that none is asked for twice.

    Parameters
    ----------
    score : Score
        The detector; what it, or a model of its author's, keeps by itself is forgotten.
    example : Example
        The answer.
    """
    background = background_of(score, example)
    # What is scored by its parts is scored by each of them alone, where that costs no more.
    by_parts = None if background is None else getattr(score, "score_parts", None)
    if callable(by_parts):
        found: Scores = by_parts(example)
        return found
    with single_input_batches():
        # A model's own store is empty here; that of a model of somebody else's need not be.
        for keeper in getattr(score, "models", (score,)):
            forget = getattr(keeper, "forget", None)
            if callable(forget) and not isinstance(keeper, RemoteModel):
                forget()
        prepare(background or ())
        return score.score([example])


def background_of(score: object, example: Example) -> tuple[Demand, ...] | None:
    """Return what a score asks its models of an example whatever its response is.

    None where that is not known: then all of it is computed again for each sentence of an answer
    that is scored alone.
    """
    if callable(own := getattr(score, "background", None)):
        found: tuple[Demand, ...] | None = own(example)
        return found
    # Where nothing is kept there is nothing to forget.
    keeps = getattr(score, "models", ()) or callable(getattr(score, "forget", None))
    return None if keeps else ()


def whole_answers(scores: Iterable[Score]) -> str | None:
    """Return why one of the scores is of whole answers only; None where none is."""
    for score in scores:
        if why := getattr(score, "whole_answers", None):
            return str(why)
    return None


def require_sentences(scores: Iterable[Score]) -> None:
    """Refuse scores that say nothing of a single sentence.

    Raises
    ------
    InputError
        If one does not; it says why.
    """
    for score in scores:
        if (why := whole_answers([score])) is not None:
            raise InputError(
                f"{score.name} says nothing of a single sentence: {why}; score whole answers "
                "(unit answer), or name another score"
            )
