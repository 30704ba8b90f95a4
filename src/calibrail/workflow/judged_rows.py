"""How are rows with a judge's and a human label read, flagged and counted?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np

from calibrail.data.example import Example
from calibrail.data.labels import LabelReader, TieError, another_column, label_remedy
from calibrail.data.rows import shorten
from calibrail.data.texts import parse_cell
from calibrail.errors import DataError, InputError, file_errors
from calibrail.evaluation.agree.judge_labels import NONE
from calibrail.guardrail.runtime import Guardrail
from calibrail.scores.registry import build_column
from calibrail.settings import ReadOptions, ScoreThreshold
from calibrail.settings.reading import SKIP

#: Index of the human and of the judge label in ``LabelCounts.cells``.
Labels = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Flagging:
    """What flags answers.

    Attributes
    ----------
    columns : tuple of str
        Columns of the data that it reads.
    described : mapping or None
        How a result names it; None where nothing flags.
    decide : callable
        From answers to flags, with how many scores were undefined, and on how many it failed.
    """

    columns: tuple[str, ...]
    described: Mapping[str, Any] | None
    decide: Callable[[Sequence[Example]], tuple[Sequence[bool], int, int]]


def choose_flagging(guardrail: Guardrail | None, scores: ScoreThreshold | None) -> Flagging:
    """Return what flags answers: a guardrail, a column of scores, or nothing."""
    if guardrail is not None and scores is not None:
        raise InputError("give a guardrail or a score column with its threshold, not both")
    if scores is not None:
        return _by_column(scores)
    if guardrail is None:
        return Flagging((), None, lambda examples: ([False] * len(examples), 0, 0))
    calibration, decide_all = guardrail.calibration, guardrail.decide

    def decide(examples: Sequence[Example]) -> tuple[Sequence[bool], int, int]:
        decisions = decide_all(examples)
        failed = sum(decision.outcome == "error" for decision in decisions)
        undefined = sum(decision.score is None for decision in decisions) - failed
        # Every answer that the guardrail does not pass.
        return [decision.flagged for decision in decisions], undefined, failed

    threshold = None if calibration.flag_all else float(calibration.threshold)
    described = {"guardrail": guardrail.score.name, "threshold": threshold}
    return Flagging(guardrail.columns, described, decide)


def _by_column(scores: ScoreThreshold) -> Flagging:
    """Flag answers at a threshold of scores and beyond, and where there is no score."""
    column, higher, threshold = str(scores.column), str(scores.higher), float(scores.threshold or 0)
    # The column's score is turned so that higher means hallucinated; so is its threshold.
    score = build_column(column, higher=higher)
    edge = threshold if higher == "hallucinated" else -threshold

    def decide(examples: Sequence[Example]) -> tuple[Sequence[bool], int, int]:
        values = score.score(examples).values
        undefined = np.isnan(values)
        return ((values >= edge) | undefined).tolist(), int(undefined.sum()), 0

    return Flagging((column,), scores.to_dict(), decide)


class Tally:
    """Counts of labels and flags, and what weakens them."""

    def __init__(self) -> None:
        self.cells = np.zeros((3, 3, 2), np.int64)
        self.n = self.n_sharing = self.n_undefined = self.n_errors = 0
        self.groups: set[str] = set()

    def add(self, rows: Sequence[tuple[Example, Labels]], flagging: Flagging) -> None:
        """Flag and count rows."""
        flags, n_undefined, n_errors = flagging.decide([example for example, _ in rows])
        self.n += len(rows)
        self.n_undefined += n_undefined
        self.n_errors += n_errors
        for (example, (human, judge)), flag in zip(rows, flags, strict=True):
            self.cells[human, judge, int(flag)] += 1
            if human != NONE and example.group is not None:
                self.n_sharing += example.group in self.groups
                self.groups.add(example.group)


class Unreadable:
    """Sets aside rows whose label is neither 0, 1 nor blank, as the reader does with its own."""

    def __init__(self, source: str, reading: ReadOptions) -> None:
        self.source, self.strict, self.path = source, reading.strict, reading.quarantine
        self.reading, self.n = reading, 0
        self.first: str | None = None
        self._entries: IO[str] = TemporaryFile("w+", encoding="utf-8", newline="\n")  # noqa: SIM115

    def __enter__(self) -> Unreadable:
        return self

    def __exit__(self, *exception: object) -> None:
        self._entries.close()

    def readable(
        self, examples: Iterable[Example], human: str, judge: str
    ) -> Iterator[tuple[Example, Labels]]:
        """Yield the examples whose two labels can be read."""
        readers = [LabelReader(self.reading, column) for column in (human, judge)]
        for example in examples:
            labels = [_label(example.columns.get(reader.column), reader) for reader in readers]
            if None in labels:
                self._set_aside(example, readers[labels.index(None)])
            else:
                yield example, (int(labels[0] or 0), int(labels[1] or 0))

    def _set_aside(self, example: Example, reader: LabelReader) -> None:
        column = reader.column
        value = example.columns[column]
        # The reader numbers rows without an id of their own.
        number = example.id.removeprefix("row-")
        row = int(number) if number.isdecimal() and number != example.id else None
        where = f"id {example.id!r}" if row is None else f"row {row}"
        remedy = label_remedy(value, reader)
        remedy = remedy.removesuffix(another_column())
        problem = (
            f"{self.source}, {where}, field {column}: not 0 or 1, got {shorten(value)}. "
            f"{remedy[0].upper()}{remedy[1:]}; leave the cell empty where there is no label"
        )
        if self.strict:
            raise DataError(problem)
        self.first = self.first or problem
        self.n += 1
        entry = {"row": row, "id": example.id, "field": column, "reason": "not 0 or 1"}
        self._entries.write(json.dumps({**entry, "value": shorten(value)}) + "\n")

    def append(self) -> None:
        """Write the rows behind those that the reader has put into the quarantine file."""
        if self.path is None or not self.n:
            return
        self._entries.seek(0)
        with file_errors(f"cannot write {self.path}"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8", newline="\n") as file:
                file.writelines(self._entries)


def _label(value: object, reader: LabelReader) -> int | None:
    """Return a label's index in the counts; None where it can be read as neither."""
    listed = parse_cell(value) if isinstance(value, str) else None
    try:
        label = reader(value if listed is None else listed)
    except TieError:
        return None
    if reader.is_missing(value) or label == SKIP:
        return NONE
    return label if isinstance(label, int) else None
