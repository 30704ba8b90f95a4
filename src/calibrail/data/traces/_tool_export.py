"""Exports of tools: notes, signatures."""

import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final, TypeAlias

from calibrail.data.example import Filtered, ParsedItem, RowProblem, SourceRow, TableItem

#: Columns of what people said of an answer, and of what programs did, each with a name behind it.
#: Only the former are labels unless a user names another column.
ANNOTATION: Final = "annotation."
SCORE: Final = "score."
#: Columns of what anybody said of a step on the way to an answer; never a label by themselves.
STEP: Final = "step."

#: A verdict on an answer, by its column.
Verdict: TypeAlias = tuple[str, object]

_NAMED: Final = 50


@dataclass(slots=True)
class ExportNotes:
    """What became of the parts of an export; counts as they are read.

    Parameters
    ----------
    tool : str
        Whose export it is.
    part : str
        What its parts are called, in the plural: ``spans``, ``observations``, ``records``.
    n_parts, n_answers : int
        Parts read, and answers that they made.
    left_out : Counter of str
        Why what made no answer did not.
    annotations, scores : Counter of str
        Answers with what people said of them, and with what programs did, by its column.
    """

    tool: str
    part: str
    n_parts: int = 0
    n_answers: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    annotations: Counter[str] = field(default_factory=Counter)
    scores: Counter[str] = field(default_factory=Counter)

    def made(self, row: SourceRow) -> SourceRow:
        """Count an answer and the verdicts on it; return it."""
        self.n_answers += 1
        for name, value in row.values.items():
            if value is None:
                continue
            for prefix, counts in ((ANNOTATION, self.annotations), (SCORE, self.scores)):
                if name.startswith(prefix) and (name in counts or len(counts) < _NAMED):
                    counts[name] += 1
        return row

    def without(self, number: int, reason: str, file: str = "") -> Filtered:
        """Count what made no answer; return it as left out."""
        self.left_out[reason] += 1
        return Filtered(number, reason, file)

    def to_dict(self) -> dict[str, object]:
        """Return the counts, JSON-able."""
        return {
            "tool": self.tool,
            "part": self.part,
            "n_parts": self.n_parts,
            "n_answers": self.n_answers,
            "left_out": dict(self.left_out.most_common()),
            "annotations": dict(self.annotations.most_common()),
            "scores": dict(self.scores.most_common()),
        }


#: Turns the rows of a file into answers under calibrail's field names.
Convert: TypeAlias = Callable[[Iterable[TableItem], ExportNotes], Iterator[ParsedItem]]


@dataclass(frozen=True, slots=True)
class Export:
    """A tool's export: how it is recognised and how it is read.

    Parameters
    ----------
    name : str
        The format's name, as ``--format`` takes it.
    part : str
        What its parts are called, in the plural.
    signatures : tuple of frozenset of str
        A file whose rows have all the fields of one of these sets is of this format.
    convert : callable
        Yields rows with ``question``, ``contexts`` and ``response`` where the tool has them, and
        verdicts under `ANNOTATION` and `SCORE`.
    lists : frozenset of str
        Names of lists in an object of this format whose elements are rows of it, too. Any other
        object of the format is one row.
    """

    name: str
    part: str
    signatures: tuple[frozenset[str], ...]
    convert: Convert
    lists: frozenset[str] = frozenset()

    def recognises(self, names: Iterable[str]) -> bool:
        """Say whether rows with these fields are of this format."""
        there = frozenset(names)
        return any(signature <= there for signature in self.signatures)


#: What is known of every tool's export, by the name of its format: see ``exports.toml``.
TOOLS: Final[Mapping[str, Any]] = tomllib.loads(
    files("calibrail.data.traces").joinpath("exports.toml").read_text(encoding="utf-8")
)


def kind_of(tool: str, word: object) -> Any:
    """Return what a tool's word for a step stands for.

    >>> kind_of("langfuse", "GENERATION"), kind_of("langfuse", None)
    ('llm', 'other')
    """
    kinds = TOOLS[tool]["kinds"].items()
    return next((kind for kind, words in kinds if str(word).lower() in words.split()), "other")


def row_by_row(answer: Callable[[Mapping[str, object]], Iterable[Mapping[str, object]]]) -> Convert:
    """Return what reads an export whose every row is whole: none, one or several answers.

    Parameters
    ----------
    answer : callable
        From the fields of a row to the answers in it.
    """

    def convert(items: Iterable[TableItem], notes: ExportNotes) -> Iterator[ParsedItem]:
        for item in items:
            if isinstance(item, RowProblem):
                yield item
                continue
            notes.n_parts += 1
            n = 0
            for values in answer(item.values):
                n += 1
                yield notes.made(SourceRow(item.number, values, item.file))
            if not n:
                yield notes.without(item.number, "a record without an answer", item.file)

    return convert


def verdict_columns(verdicts: Iterable[Verdict]) -> dict[str, object]:
    """Return verdicts by column; several under one name, as of several people, become a list.

    So does one that is a list itself: what one person chose is one element.

    >>> verdict_columns([("annotation.ok", "yes"), ("annotation.ok", "no"), ("score.f1", 0.5)])
    {'annotation.ok': ['yes', 'no'], 'score.f1': 0.5}
    >>> verdict_columns([("annotation.kind", ["invented", "contradicts"])])
    {'annotation.kind': [['invented', 'contradicts']]}
    """
    lists: dict[str, list[object]] = {}
    for name, value in verdicts:
        if value is not None:
            lists.setdefault(name, []).append(value)
    # Of a program's repeated verdicts the last one stands.
    return {
        name: values
        if name.startswith(ANNOTATION) and (len(values) > 1 or isinstance(values[-1], list))
        else values[-1]
        for name, values in lists.items()
    }
