"""Score protocol, Scores, and the base of the built-in detectors: parameters, models, learning."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from inspect import Signature, get_annotations, signature
from itertools import chain, zip_longest
from typing import (
    Any,
    ClassVar,
    Final,
    Protocol,
    Self,
    TypeAlias,
    cast,
    dataclass_transform,
    runtime_checkable,
)

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.data.sentences import MOST_CHARACTERS
from calibrail.errors import InputError, Library, error_text, errors_as, extra
from calibrail.models.batching import Model, shared, single_input_batches
from calibrail.models.hardware import DEFAULT_MODEL, TOLERANCES
from calibrail.options import SplitOptions
from calibrail.options.fields import spell_option
from calibrail.text.words import P, R, edition, rules_of

#: Values that a score's parameters and fingerprint may hold: what JSON can hold.
JSON = Any

chat = Library("calibrail.models.llm.chat")

#: Whether what is built stands in a guardrail's file, which names no other file to read.
IN_GUARDRAIL: Final[ContextVar[bool]] = ContextVar("in_guardrail", default=False)

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

#: Pieces of the longest response whose pieces are judged one by one: each costs a pass, and one
#: crafted response must not hold up all others.
MOST_PIECES: Final = 1_000
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


class GivenUpFailure(DetectorFailure):
    """Of a judge of whose first replies none could be read: that it was asked no more."""

    __slots__ = ()


#: What one example is given: a value, alone or with its evidence.
Valued: TypeAlias = float | tuple[float, Mapping[str, JSON]]


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
            raise TypeError(error_text("score_values_type", values=values))
        if np.isinf(values).any():
            raise ValueError("values must not be infinite; use NaN with a reason instead")
        if set(np.flatnonzero(np.isnan(values)).tolist()) != set(self.reasons):
            raise ValueError("every NaN needs a reason, and nothing else has one")

    @classmethod
    def of(cls, results: Iterable[Valued | str], *, explains: bool = True) -> Self:
        """Return the scores of examples, each given by its value or by why there is none.

        Without a value that has evidence there is none at all, unless the score ``explains``.
        """
        given = list(results)
        values = (np.nan if isinstance(item, str) else item for item in given)
        pairs = [item if isinstance(item, tuple) else (item, {}) for item in values]
        numbers = np.array([value for value, _ in pairs], dtype=np.float64)
        reasons = {row: item for row, item in enumerate(given) if isinstance(item, str)}
        evidence = tuple(entry for _, entry in pairs)
        return cls(numbers, reasons, evidence if explains or any(evidence) else None)


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


def eventual_demands(score: Score, examples: Sequence[Example]) -> tuple[Demand, ...]:
    """Return all that a score will look up, what depends on its own first step included.

    One that has still to learn looks up what it learns from.
    """
    demands = getattr(score, "demands", None)
    if not learns(score):
        demands = getattr(score, "eventual_demands", demands)
    return () if demands is None else tuple(demands(examples))


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


def try_out(score: object, examples: Sequence[Example]) -> GivenUpFailure | None:
    """Return why a score is not to be computed, as its first few calls show; None where it is.

    Who decides about single answers as they come does not ask this: there they are undefined.
    """
    tried = getattr(score, "try_out", None)
    why = tried(examples) if callable(tried) else None
    return None if why is None else GivenUpFailure(why)


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
        return cast(Scores, by_parts(example))
    with single_input_batches():
        # A model's own store is empty here; that of a model of somebody else's need not be.
        for keeper in getattr(score, "models", (score,)):
            forget = getattr(keeper, "forget", None)
            if callable(forget) and not isinstance(keeper, chat.RemoteModel):
                forget()
        prepare(background or ())
        return score.score([example])


def background_of(score: object, example: Example) -> tuple[Demand, ...] | None:
    """Return what a score asks its models of an example whatever its response is.

    None where that is not known: then all of it is computed again for each sentence of an answer
    that is scored alone.
    """
    if callable(own := getattr(score, "background", None)):
        return cast(tuple[Demand, ...] | None, own(example))
    # Where nothing is kept there is nothing to forget.
    keeps = getattr(score, "models", ()) or callable(getattr(score, "forget", None))
    return None if keeps else ()


def parts_of(score: object) -> Iterator[Any]:
    """Yield a score and its members, at any depth."""
    yield score
    members: object = getattr(score, "members", None)
    for member in members.values() if isinstance(members, Mapping) else ():
        yield from parts_of(member)


def whole_answers(scores: Iterable[Score]) -> str | None:
    """Return why one of the scores is of whole answers only; None where none is."""
    whys = (getattr(score, "whole_answers", None) for score in scores)
    return next((str(why) for why in whys if why), None)


def require_sentences(scores: Iterable[Score]) -> None:
    """Refuse scores that say nothing of a single sentence.

    Raises
    ------
    InputError
        If one does not; it says why.
    """
    for score in scores:
        if (why := whole_answers([score])) is not None:
            raise InputError.on("score_of_whole_answers", score=score, why=why)


def is_number(value: Any) -> bool:
    """Return whether a value is a number, which True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def positive(value: Any, name: str) -> float:
    """Return a parameter that is a finite number above 0."""
    if not is_number(value):
        raise InputError(f"{name} must be a number above 0; got {value!r}")
    if not 0.0 < value < float("inf"):
        raise InputError(f"{name} must be above 0; got {value!r}")
    return float(value)


#: The methods through which a detector reads texts and replies: each does by the edition of the
#: rules that it was built under, wherever it is called.
_READING: Final = (
    *("score", "score_parts", "demands", "eventual_demands", "background", "try_out"),
    *("fingerprint", "lacking"),
)


def _by_own_rules(method: Callable[P, R]) -> Callable[P, R]:
    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with rules_of(args[0].edition):  # type: ignore[attr-defined]
            return method(*args, **kwargs)

    return call


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
class Detector:
    """Base of the built-in scores; one of another package needs no base, see ``Score``.

    A subclass declares its parameters as annotated fields and checks them in ``__post_init__``.
    ``params`` is read off them, those of a subclass before those of its base.
    """

    name = ""
    #: Whether every value comes with evidence.
    explains = False
    #: What ``params`` and models leave unsaid: by name a version, or what returns it.
    versions: ClassVar[tuple[tuple[str, str | Callable[[], str]], ...]] = ()
    #: Parameters that ``params`` hold only where they are not their default: guardrails were frozen
    #: before there were any.
    later: ClassVar[tuple[str, ...]] = ()
    __signature__: ClassVar[Signature]

    def __new__(cls, *_: object, **__: object) -> Self:
        """Note by which edition of the rules for texts and replies it decides."""
        self = super().__new__(cls)
        self.__dict__["edition"] = edition()
        return self

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in {*_READING} & {*vars(cls)}:
            setattr(cls, name, _by_own_rules(vars(cls)[name]))
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        declared = signature(cls.__init__).parameters
        # A subclass's parameters stand before those of its base.
        names = dict.fromkeys(name for base in cls.__mro__ for name in get_annotations(base))
        cls.__signature__ = Signature([declared[name] for name in names if name in declared])

    @property
    def params(self) -> Mapping[str, JSON]:
        """Every parameter with its value, but for those of ``later`` that are their default."""
        declared = self.__signature__.parameters
        values = {name: getattr(self, name) for name in declared}
        unsaid = {name for name in self.later if values[name] == declared[name].default}
        return {name: value for name, value in values.items() if name not in unsaid}

    @property
    def requires(self) -> tuple[str, ...]:
        """The fields of ``Example`` that it reads."""
        return ("contexts", "response")

    @property
    def tolerance(self) -> float:
        """How far two computations of one value may differ: not at all, where none is a model's."""
        return 0.0

    @_by_own_rules
    def fingerprint(self) -> Mapping[str, JSON]:
        """Return what ``params`` leave unsaid."""
        return {name: known() if callable(known) else known for name, known in self.versions}

    @_by_own_rules
    def score(self, examples: Sequence[Example]) -> Scores:
        """Return one value per example; undefined where a field is missing or nothing is judged.

        Without a value that has evidence there is none at all, unless the score ``explains``.
        """
        results = (self.lacks(example) or self.value(example) for example in examples)
        return Scores.of(results, explains=self.explains)

    def lacks(self, example: Example) -> str | None:
        """Return why an example has no value before anything is computed, None where it may."""
        return missing(example, self.requires)

    def value(self, example: Example) -> Valued | str:
        """Return the value of one example, alone or with its evidence, or why there is none."""
        raise AssertionError(f"{type(self).__name__} defines no value")


class ModelScore(Detector):
    """Base of the scores that look things up in models, each of them once for all scores."""

    #: The attributes that hold its models.
    uses: ClassVar[tuple[str, ...]] = ()
    #: Whether they read a response to its end, window by window, not its beginning alone.
    reads_all: ClassVar[bool] = False
    #: Whether all that they are asked holds the response, or a part of it.
    of_response: ClassVar[bool] = False

    @property
    def models(self) -> tuple[Any, ...]:
        """Every model that the score calls."""
        return tuple(getattr(self, name) for name in self.uses)

    @property
    def tolerance(self) -> float:
        """How far two computations of one value may differ, by the first model's precision."""
        return float(self.models[0].tolerance)

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the first model's fingerprint, and what else matters."""
        return {**self.models[0].fingerprint(), **self.cut(), **super().fingerprint()}

    @property
    def splitter(self) -> Callable[[str], Sequence[Any]] | None:
        """What cuts a response into pieces that are judged one by one; None for the whole of it."""
        return None

    def cut(self) -> Mapping[str, JSON]:
        """Return what pins the length from which on a response has no value, where there is one."""
        pieces: dict[str, JSON] = {"pieces": "calibrail-pieces/1"} if self.splitter else {}
        return pieces | ({"most_read": MOST_READ} if self.reads_all else {})

    def lacks(self, example: Example) -> str | None:
        """Return why an example has no value before a model is asked, None where it may."""
        if why := super().lacks(example):
            return why
        response, split = example.response, self.splitter
        if self.reads_all and len(response) > MOST_READ:
            return TOO_LONG_TO_READ
        # A piece holds at least one character.
        if split is None or len(response) <= MOST_PIECES:
            return None
        long = len(response) > MOST_CHARACTERS or len(split(response)) > MOST_PIECES
        return TOO_LONG if long else None

    def forget(self) -> None:
        """Drop what was computed, so that the next example is computed by itself."""
        for model in self.models:
            model.forget()

    def lacking(self, examples: Sequence[Example]) -> dict[int, str]:
        """Return the positions of the examples that have no value whatever they hold, and why."""
        return {row: why for row, why in enumerate(map(self.lacks, examples)) if why is not None}

    def usable(self, examples: Sequence[Example]) -> list[Example]:
        """Return the examples that lack nothing which the score reads."""
        return [example for example in examples if self.lacks(example) is None]

    def inputs(self, example: Example) -> Iterable[Any]:
        """Return what each model is asked about one example that lacks nothing."""
        raise AssertionError(f"{type(self).__name__} asks nothing")

    def sources(self, example: Example) -> Iterable[Any] | None:
        """Return the inputs that do not depend on the response; None where that is not known."""
        return () if self.of_response else None

    def background(self, example: Example) -> tuple[Demand, ...] | None:
        """Return what ``score`` looks up whatever the response is; None where that is not known."""
        if (sources := self.sources(example)) is None:
            return None
        # What has no value looks up nothing.
        inputs = () if self.lacks(example) else tuple(dict.fromkeys(sources))
        return tuple(Demand(model, (inputs,)) for model in self.models if inputs)

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return what ``score`` will look up, each input once."""
        usable = self.usable(examples)
        inputs = tuple(dict.fromkeys(item for example in usable for item in self.inputs(example)))
        return tuple(Demand(model, (inputs,)) for model in self.models)

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return one value per example, all inputs being looked up together."""
        prepare(self.demands(examples))
        return super().score(examples)


class LocalScore(ModelScore):
    """Base of the scores whose models run on this machine.

    Parameters
    ----------
    backend : {"torch", "onnx", "openvino"}
        Which library computes them; each is another score.
    device : {"cpu", "cuda", "mps"}, optional
        Where; None for a graphics processor where there is one.
    """

    backend: str = "torch"
    device: str | None = None

    later = ("backend", "device")

    @property
    def computed(self) -> dict[str, Any]:
        """What computes the models, as they are loaded with it."""
        return {"backend": self.backend, "device": self.device}

    def opened(self, kind: Callable[..., Model], **more: Any) -> Model:
        """Return the process's one model of a kind with the score's own parameters, and others."""
        own = [getattr(self, name) for name in ("model", "revision", "dtype", "window")]
        return shared(kind, *own, **more, **self.computed)


class Embedding(LocalScore):
    """Base of the scores that embed texts.

    Parameters
    ----------
    model : str
        Sentence encoder: hub name or folder. The default is embedded.
    revision : str or None
        Revision of a hub model.
    prompt : str
        Put before every text.
    dtype : {"float32", "bfloat16", "float16"}
        Precision of the weights.
    backend, device
        See ``LocalScore``.
    """

    model: str = DEFAULT_MODEL
    revision: str | None = None
    prompt: str = ""
    dtype: str = "float32"

    uses = ("encoder",)
    # Two computations of one value in different batches differ by about 1e-8 in float32; angles
    # and ratios of angles magnify that.
    rounding = 1e-6

    def __post_init__(self) -> None:
        from calibrail.models.embeddings import load_encoder

        own = self.model, self.revision, self.prompt, self.dtype
        self.encoder = load_encoder(*own, **self.computed)
        self.model = self.encoder.model

    @property
    def is_half(self) -> bool:
        """Whether vectors have half precision, so that they move with the batch."""
        return self.dtype in ("bfloat16", "float16")

    @property
    def tolerance(self) -> float:
        """How far two computations of one value may differ.

        On 84 answers, together and alone, values moved by at most 4.4e-3 in bfloat16 and 4e-4 in
        float16, which the tolerance of probabilities covers.
        """
        return max(self.rounding, TOLERANCES[self.dtype]) if self.is_half else self.rounding


def cosines(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosines between rows of unit vectors, shape (n,), in [-1, 1]."""
    products = np.einsum("ij,ij->i", left, right)
    # A vector has cosine 1 with itself, which rounding may miss by a digit: enough to make an
    # angle of 1e-8 out of none where an answer repeats its context.
    products[(left == right).all(axis=1)] = 1.0
    return np.asarray(np.clip(products, -1.0, 1.0))


def angles(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the angles in radians between rows of unit vectors, shape (n,), in [0, pi]."""
    return np.asarray(np.arccos(cosines(left, right)))


def filled(chunks: Sequence[str]) -> list[str]:
    """Return the chunks that hold anything."""
    return [chunk for chunk in chunks if chunk.strip()]


def joined(example: Example) -> str:
    """Return the chunks that hold anything as one text, joined by newlines."""
    return "\n".join(filled(example.contexts))


FIT_SPLIT: Final = "use calibrate or compare, which set a fit split aside"

#: Fewer of a class teach nothing that could hold on other examples.
FEWEST: Final = 5


class Learning:
    """A part of the built-in scores that learn: plain arrays by name, or nothing yet."""

    name: str
    #: What the score lacks before it has learnt, and what to do.
    unfitted: ClassVar[str] = f"learns from labelled answers before it can score: {FIT_SPLIT}"
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
    with extra("learning", "a score that learns"):
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
    if isinstance(score, Fittable) != (raw is not None):
        odd = "learns, and what it has learnt is missing" if raw is None else "learns nothing"
        raise InputError(f"the score {name} {odd}; calibrate again")
    if not isinstance(score, Fittable) or raw is None:
        return score
    with extra("learning", "a score that learns"):
        from safetensors import SafetensorError
        from safetensors.numpy import load

    with errors_as(InputError, (SafetensorError, KeyError), "learnt_damaged", name=name):
        return score.restore(load(raw))


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
            raise InputError.on("learns_from_labels", name=name, example=example)
        labels.append(example.label)
    for label, kind in ((1, "hallucinated"), (0, "faithful")):
        if (n := labels.count(label)) < FEWEST:
            more = spell_option(SplitOptions, "fit_share")
            raise InputError.on("class_too_few", name=name, least=FEWEST, n=n, kind=kind, more=more)
    return np.array(labels, dtype=np.int8)


def separation(values: NDArray[np.float64], labels: NDArray[Any]) -> float:
    """Return the AUROC of the labelled values that are not NaN; 0.5 where a class is missing."""
    known = (labels >= 0) & ~np.isnan(values)
    high, low = (np.sort(values[known & (labels == label)]) for label in (1, 0))
    if not (len(high) and len(low)):
        return 0.5
    below = sum(np.searchsorted(low, high, side).sum() for side in ("left", "right"))
    return float(below / (2 * len(high) * len(low)))
