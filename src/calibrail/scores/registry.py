"""Names, specs, presets, columns as scores."""

import difflib
import hashlib
import importlib.metadata
import inspect
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.data.labels import is_same, label_key, side_of
from calibrail.data.sentences import listed
from calibrail.data.values import column_value, number_in
from calibrail.errors import InputError, errors_as, tables_beside, variable_set
from calibrail.formatting import Scale
from calibrail.options import ReadOptions
from calibrail.options.fields import one_of, spell_option
from calibrail.options.guarantee import Unit
from calibrail.scores.base import IN_GUARDRAIL, JSON, Detector, Score
from calibrail.serialization import given_back
from calibrail.text.sentences import answer_sentences_version
from calibrail.text.words import lazily_compiled, rules_version
from calibrail.working_folder import refuse_own_code

_TABLE: Final = tables_beside(__file__, "registry.toml")

#: Module and class of every score that comes with calibrail, ``module:Class``, by its name.
BUILT_IN: Final[Mapping[str, str]] = {name: item["class"] for name, item in _TABLE.items()}

#: Parameters by score and preset.
PRESETS: Final[Mapping[str, Mapping[str, Mapping[str, object]]]] = {
    name: item["presets"] for name, item in _TABLE.items() if "presets" in item
}

#: What some are made with that no parameter says.
FIGURES: Final = {name: item["figures"] for name, item in _TABLE.items() if "figures" in item}

#: The scores that every comparison carries.
BASELINES: Final = ("length", "novelty", "novel_count", "rouge_l", "numbers", "entities")

#: What is measured beside the detectors of an audit (`calibrail.scores.lexical`).
FEATURES: Final = (
    *("question_length", "context_length", "question_words"),
    *("theta_qc", "theta_rq", "theta_rc"),
)

#: The scores whose parameters name others.
COMBINED: Final = ("crg", "ensemble", "fused", "hybrid", "worst_sentence")

#: The score where none is named: that with the fewest false alarms at high coverage among those
#: that need no label to learn, no model and no tuning on the data measured. It is itself a
#: baseline, which the embedding scores do not beat. At 90 % coverage with 90 % confidence
#: (``alpha=0.1``, ``guarantee="pac"``) it raised false alarms on 63 % of ``example:facts`` (AUROC
#: 0.71), where ``novelty`` (0.78) flags every answer, ``rad`` (0.54) 84 % and ``sgi`` (0.49) 91 %;
#: its AUROC is 0.79 on RAGTruth QA and 0.93 on HaluEval QA.
DEFAULT_SCORE: Final = "rouge_l"

#: What makes a score from its parameters: its class.
Factory: TypeAlias = Callable[..., Score]

ENTRY_POINTS: Final = "calibrail.scores"

#: Characters of a parameter's value beyond which a score's key shortens it.
LONGEST_SHOWN: Final = 120

# What a detector of the user's own is called: module:attribute.
_IMPORTABLE = lazily_compiled(r"([A-Za-z_][\w.]*):[A-Za-z_][\w.]*")
_PARAMETER = lazily_compiled(r"[A-Za-z_]\w*\s*=")
# What lies between commas that are not within double quotes; a lone quote is a character.
_ITEM = lazily_compiled(r'(?:^|(?<=,))(?:"(?:[^"\\]|\\.)*"|[^,])*')


@dataclass(frozen=True, slots=True)
class ScoreSpec:
    """A score's name and parameters: what a command line or a guardrail names."""

    name: str
    params: Mapping[str, JSON] = field(default_factory=dict)


def parse_spec(text: str) -> ScoreSpec:
    """Parse one specification, ``NAME[:KEY=VALUE,...]``.

    Raises
    ------
    InputError
        If the text names no score or more than one.

    Examples
    --------
    >>> parse_spec("tfg:gamma=0.4")
    ScoreSpec(name='tfg', params={'gamma': 0.4})
    """
    specs = parse_specs(text)
    if len(specs) > 1:
        raise InputError(f"one score was expected; got {len(specs)} in {text!r}")
    return specs[0]


def parse_specs(text: str) -> list[ScoreSpec]:
    """Parse one or several specifications, ``NAME[:KEY=VALUE,...]``, separated by commas.

    After a colon, what looks like ``KEY=`` continues the parameters and anything else starts the
    next score. A value is read as JSON where it is JSON (numbers, true, false, null, quoted
    strings), else as it stands; a comma between double quotes belongs to the value.

    Raises
    ------
    InputError
        If a name is missing, or a parameter is not written ``KEY=VALUE`` or is given twice.

    Examples
    --------
    >>> for spec in parse_specs('sgi:context=closest,prompt="a, b",rad'):
    ...     print(spec.name, spec.params)
    sgi {'context': 'closest', 'prompt': 'a, b'}
    rad {}
    """
    specs: list[tuple[str, dict[str, JSON]]] = []
    for item in _ITEM.findall(text):
        part = item.strip()
        if specs and specs[-1][1] and _PARAMETER.match(part):
            _add(specs[-1][1], part, text)
            continue
        if (own := _IMPORTABLE.fullmatch(part)) and own[1] not in available():
            specs.append(("custom", {"detector": part}))
            continue
        name, colon, parameter = part.partition(":")
        if not name.strip():
            raise InputError(f"a score is named NAME or NAME:KEY=VALUE,...; got {text!r}")
        if not colon and "=" in name:
            raise InputError(f"parameters follow a colon, NAME:{name}; got {text!r}")
        specs.append((name.strip(), {}))
        if colon:
            _add(specs[-1][1], parameter, text)
    return [ScoreSpec(name, params) for name, params in specs]


def build(spec: ScoreSpec) -> Score:
    """Build a score; no model is loaded.

    Raises
    ------
    InputError
        If the name or a parameter is unknown, or a value is outside its domain.

    Examples
    --------
    >>> build(ScoreSpec("length")).name
    'length'
    """
    factory = _factory(spec.name)
    spec = expand(spec)
    accepted = list(_defaults(factory))
    for key in spec.params:
        if key not in accepted:
            known = ", ".join(accepted) or "none"
            near = _near(key, accepted) or ";"
            raise InputError.on("no_parameter", spec=spec, key=key, near=near, known=known)
    with errors_as(InputError, TypeError, "score_not_built", spec=spec):
        return factory(**spec.params)


def build_frozen(spec: ScoreSpec) -> Score:
    """Build a score as a guardrail's file holds it, which names no other file to read."""
    with variable_set(IN_GUARDRAIL, True):
        return build(spec)


def runs_code(spec: ScoreSpec) -> bool:
    """Return whether a detector, or a member of it, is code that calibrail does not come with."""
    # What the library any-guardrail sends, and where, it does not say.
    foreign = spec.name not in BUILT_IN or spec.name in ("custom", "anyguardrail")
    return foreign or any(map(runs_code, members_of(spec)))


def members_of(spec: ScoreSpec) -> list[ScoreSpec]:
    """Return the scores that a combined score names as its members; nothing is built.

    >>> [item.name for item in members_of(ScoreSpec("ensemble", {"scores": "rad,length"}))]
    ['rad', 'length']
    """
    members: list[ScoreSpec] = []
    for value in spec.params.values() if spec.name in COMBINED else ():
        with suppress(InputError):
            members += parse_specs(value) if isinstance(value, str) else []
    return members


def expand(spec: ScoreSpec) -> ScoreSpec:
    """Return the specification with a preset's parameters written out; one's own go first.

    >>> expand(ScoreSpec("reranker", {"preset": "paper", "window": 64})).params["model"]
    'BAAI/bge-reranker-v2-m3'
    """
    if "preset" not in spec.params:
        return spec
    # A score of another package has its presets with it.
    own = {} if spec.name in BUILT_IN else getattr(_factory(spec.name), "presets", {})
    given, known = dict(spec.params), PRESETS.get(spec.name, own)
    if (name := given.pop("preset")) not in known:
        names = ", ".join(known) or "none"
        raise InputError.on("preset_unknown", spec=spec, name=name, value=names)
    return ScoreSpec(spec.name, {**known[name], **given})


def spell(score: Score) -> str:
    """Return the specification that builds an equal score: the parameters that differ.

    >>> spell(build(parse_spec('sgi:context=closest,prompt="a, b"')))
    'sgi:context="closest",prompt="a, b"'
    """
    return _spelled(score, json.dumps)


def build_column(column: str, higher: str) -> Score:
    """Build the score that reads a column, whatever characters its name holds."""
    return build(ScoreSpec("column", {"column": column, "higher": higher}))


def available() -> list[str]:
    """Return the names of all scores, built in and from other packages."""
    return [*BUILT_IN, *sorted(entry.name for entry in _plug_ins())]


def key_of(score: Score) -> str:
    """Return a short name that tells scores of one run apart: the parameters that differ.

    A user's own column or function goes by its name, and says what it is where that is also the
    name of a score.

    >>> key_of(build(ScoreSpec("length"))), key_of(build_column("dae", "faithful"))
    ('length', 'dae')
    >>> key_of(build_column("rouge_l", "faithful"))
    'column:rouge_l'
    """
    key = getattr(score, "key", None)
    if key is None:
        return _spelled(score, _brief)
    taken = str(key).partition(":")[0] in _names_taken()
    return f"{score.name}:{key}" if taken else str(key)


def scale_of(score: Score) -> Scale:
    """Return in which numbers a user knows a score."""
    return Scale.of({"name": score.name, "params": score.params})


def frozen_fingerprint(score: Score, unit: Unit = "answer") -> dict[str, Any]:
    """Return everything that parameters leave unsaid: of sentences, how answers become them, too.

    Parameters
    ----------
    score : Score
        The detector.
    unit : {"answer", "sentence"}
        What it scores.
    """
    fingerprint = given_back(score.fingerprint())
    if unit == "sentence":
        versions = {"splitter": answer_sentences_version(), "trimming": rules_version("trimming")}
        fingerprint["by_sentence"] = versions
    return fingerprint


def _spelled(score: Score, write: Callable[[JSON], str]) -> str:
    """Return the name and the parameters that differ from their defaults."""
    default, params = _defaults(type(score)), score.params
    changed = [f"{key}={write(params[key])}" for key in params if params[key] != default.get(key)]
    return f"{score.name}:{','.join(changed)}" if changed else score.name


def _brief(value: JSON) -> str:
    """Return a value as it is shown: an address by its host, a long text by its beginning."""
    text = str(value)
    if text.startswith(("http://", "https://")):
        return urlsplit(text).netloc
    if len(text) <= LONGEST_SHOWN:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{' '.join(text[:24].split())}...{digest[:8]}"


def _add(params: dict[str, JSON], part: str, text: str) -> None:
    key, equals, value = (piece.strip() for piece in part.partition("="))
    if not equals or not key or not value:
        raise InputError.on("parameter_shape", part=part, text=text)
    if key in params:
        raise InputError(f"the parameter {key} is given twice in {text!r}")
    params[key] = value
    with suppress(ValueError):
        params[key] = json.loads(value)


def _factory(name: str) -> Factory:
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return cast(Factory, getattr(import_module(f"calibrail.scores.{module}"), attribute))
    for entry in _plug_ins():
        if entry.name == name:
            refuse_own_code(f"the plug-in {name} ({entry.value})")
            broken = (ImportError, AttributeError)
            with errors_as(InputError, broken, "plug_in", name=name, of=entry):
                return cast(Factory, entry.load())
    known = available()
    near = _near(name, known) or ";"
    raise InputError.on("score_unknown", name=name, near=near, names=", ".join(known))


@cache
def _names_taken() -> frozenset[str]:
    return frozenset((*available(), *FEATURES))


def _plug_ins() -> importlib.metadata.EntryPoints:
    return importlib.metadata.entry_points(group=ENTRY_POINTS)


def _defaults(factory: Factory) -> dict[str, Any]:
    """Return the parameters by name, with their defaults."""
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(factory).parameters.values()
    return {item.name: item.default for item in parameters if item.kind in kinds}


def _near(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


Higher = Literal["hallucinated", "faithful"]


class ColumnScore(Detector):
    """A score that the data holds, turned so that higher means more likely hallucinated.

    A verdict in words is a score of 1 and 0: a yes is 1, and so is the word for what ``higher``
    means (``unsupported`` or ``FAIL``, where that is hallucinated). calibrail cannot see what
    computed the column, so its fingerprint is empty.

    Parameters
    ----------
    column : str
        Name of the column.
    higher : {"hallucinated", "faithful"}
        What a higher value of the column means; ``faithful`` negates it.
    positive : str, optional
        The one value that is 1, every other being 0, where words do not say which.

    Examples
    --------
    >>> judge = build_column("judge", "hallucinated")
    >>> [judge.number(cell) for cell in ("0.3", "yes", "PASS", "not supported", "good")]
    [0.3, 1.0, 0.0, 1.0, None]
    """

    column: str
    higher: Higher
    positive: str | None = None

    name = "column"
    later = ("positive",)
    requires = ()

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise InputError(f"column must name a column; got {self.column!r}")
        one_of(self.higher, Higher, "higher")
        # A command line's 1 is a number, and its yes a text.
        self.positive = None if self.positive is None else label_key(self.positive)
        self.columns = (self.column,)
        #: A short name that tells scores of one run apart.
        self.key = self.column
        self._empty = f"column {self.column} is empty"

    def value(self, example: Example) -> float | str:
        """Return the column's value; undefined where the cell is no finite number."""
        if (cell := column_value(example.columns.get(self.column))) is None:
            return self._empty
        if (number := self.number(cell)) is None:
            if listed(cell) is not None:
                return f"column {self.column} holds lists, which --unit sentence reads"
            held = f"column {self.column} holds {str(cell)[:40]!r}, which "
            if (likely := number_in(cell, ",")) is None:
                return f"{held}is no number"
            option = spell_option(ReadOptions, "options", {"decimal": ","})
            return f"{held}may be {likely:g} or {number_in(cell, '.'):g}; {option} decides"
        if not math.isfinite(number):
            return self._infinite(number)
        return number if self.higher == "hallucinated" else -number

    def number(self, cell: object) -> float | None:
        """Return the number that a cell holds, 1 or 0 for a verdict; None where it is neither."""
        if self.positive is not None:
            return float(is_same(self.positive, label_key(cell)))
        if (number := number_in(cell)) is not None or not isinstance(cell, str):
            return number
        side, means = side_of(label_key(cell)), int(self.higher == "hallucinated")
        return None if side is None else float(side in ("yes", means))

    def values_of(
        self, cells: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], dict[str, NDArray[np.int64]]]:
        """Return the values of many cells at once, and by reason which of them have none.

        Parameters
        ----------
        cells : ndarray of float64, shape (n,)
            As the column holds them; NaN where it is empty.
        """
        values = cells if self.higher == "hallucinated" else -cells
        finite = np.isfinite(cells)
        if finite.all():
            return values, {}
        kinds = {self._empty: np.isnan(cells)}
        kinds |= {self._infinite(number): cells == number for number in (math.inf, -math.inf)}
        undefined = {why: np.flatnonzero(where) for why, where in kinds.items()}
        return np.where(finite, values, np.nan), {k: v for k, v in undefined.items() if len(v)}

    def cells(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values as the column holds them, shape (n,)."""
        return values if self.higher == "hallucinated" else -values

    def _infinite(self, number: float) -> str:
        return f"column {self.column} holds {number}, which is not finite"
