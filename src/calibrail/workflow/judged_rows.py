"""How are rows with a judge's and a human label read, flagged and counted?"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from tempfile import TemporaryFile
from typing import IO, Any, Final

import numpy as np

from calibrail.data.example import Example
from calibrail.data.labels import label_remedy, parse_label
from calibrail.data.rows import shorten
from calibrail.errors import DataError, InputError
from calibrail.evaluation.agree.judge_labels import NONE
from calibrail.guardrail.runtime import Guardrail
from calibrail.scores.base import Score
from calibrail.scores.registry import build_column
from calibrail.settings import ReadOptions

BLOCK: Final = 256

#: Index of the human and of the judge label in ``LabelCounts.cells``.
Labels = tuple[int, int]


class Flagging:
    """What flags answers: nothing, by default."""

    columns: tuple[str, ...] = ()
    decides = False
    described: Mapping[str, Any] | None = None
    n_undefined = n_errors = 0

    def flags(self, examples: list[Example]) -> list[bool]:
        """Return whether each answer is flagged."""
        return [False] * len(examples)


class ByGuardrail(Flagging):
    """A frozen guardrail flags every answer that it does not pass."""

    decides = True

    def __init__(self, guardrail: Guardrail) -> None:
        self.guardrail = guardrail
        self.columns = guardrail.columns
        self.described = {
            "guardrail": guardrail.score.name,
            "threshold": None
            if guardrail.calibration.flag_all
            else float(guardrail.calibration.threshold),
        }

    def flags(self, examples: list[Example]) -> list[bool]:
        """Return whether each answer is flagged, counting failures and undefined scores."""
        decisions = self.guardrail.decide(examples)
        for decision in decisions:
            error = decision.outcome == "error"
            self.n_errors += error
            self.n_undefined += decision.score is None and not error
        return [decision.flagged for decision in decisions]


class ByColumn(Flagging):
    """A column of scores flags at its threshold and beyond, and where it has no score."""

    decides = True

    def __init__(self, column: str, higher: str, threshold: float) -> None:
        # The column's score is turned so that higher means hallucinated; so is its threshold.
        self.score: Score = build_column(column, higher=higher)
        self.edge = threshold if higher == "hallucinated" else -threshold
        self.columns = (column,)
        self.described = {"column": column, "higher": higher, "threshold": threshold}

    def flags(self, examples: list[Example]) -> list[bool]:
        """Return whether each answer is flagged, counting undefined scores."""
        values = self.score.score(examples).values
        undefined = np.isnan(values)
        self.n_undefined += int(undefined.sum())
        return [bool(flag) for flag in (values >= self.edge) | undefined]


def choose_flagging(
    guardrail: Guardrail | None, column: str | None, higher: str | None, threshold: float | None
) -> Flagging:
    """Return what the arguments of ``agree`` name, or raise ``InputError``."""
    if guardrail is not None:
        if (column, higher, threshold) != (None, None, None):
            raise InputError("give a guardrail or a score column with its threshold, not both")
        return ByGuardrail(guardrail)
    if column is None:
        if (higher, threshold) != (None, None):
            raise InputError("higher and threshold belong to a score_column; name the column too")
        return Flagging()
    if higher not in ("hallucinated", "faithful"):
        raise InputError(
            "higher must be hallucinated or faithful: say what a higher value of the score column "
            f"means; got {higher!r}"
        )
    if threshold is None or not math.isfinite(threshold):
        raise InputError(
            f"threshold must be a finite number with a score column; got {threshold!r}"
        )
    return ByColumn(column, str(higher), float(threshold))


class Tally:
    """Counts of labels and flags, and what weakens them."""

    def __init__(self) -> None:
        self.cells = np.zeros((3, 3, 2), np.int64)
        self.n = self.n_seen_before = self.n_sharing = 0
        self.groups: set[str] = set()

    def add(self, example: Example, labels: Labels, flag: bool) -> None:
        """Count a row."""
        self.n += 1
        self.cells[labels[0], labels[1], int(flag)] += 1
        if labels[0] != NONE and example.group is not None:
            self.n_sharing += example.group in self.groups
            self.groups.add(example.group)


class Unreadable:
    """Sets aside rows whose label is neither 0, 1 nor blank, as the reader does with its own."""

    def __init__(self, source: str, reading: ReadOptions) -> None:
        self.source, self.strict, self.path = source, reading.strict, reading.quarantine
        self.n = 0
        self.first: str | None = None
        self._kept: IO[str] = TemporaryFile("w+", encoding="utf-8", newline="\n")  # noqa: SIM115

    def __enter__(self) -> Unreadable:
        return self

    def __exit__(self, *exception: object) -> None:
        self._kept.close()

    def readable(
        self, examples: Iterable[Example], human: str, judge: str
    ) -> Iterator[tuple[Example, Labels]]:
        """Yield every example whose two labels can be read, with them."""
        for example in examples:
            first, second = self._label(example, human), self._label(example, judge)
            for column, label in ((human, first), (judge, second)):
                if label is None:
                    self._set_aside(example, column, example.columns[column])
                    break
            if first is not None and second is not None:
                yield example, (first, second)

    def _label(self, example: Example, column: str) -> int | None:
        value = example.columns.get(column)
        blank = value is None or (isinstance(value, str) and not value.strip())
        return NONE if blank else parse_label(value)

    def _set_aside(self, example: Example, column: str, value: object) -> None:
        # The reader numbers rows without an id of their own.
        number = example.id.removeprefix("row-")
        row = int(number) if number.isdecimal() and number != example.id else None
        where = f"id {example.id!r}" if row is None else f"row {row}"
        remedy = label_remedy(value).removesuffix(", or name another column (--label-column)")
        said = (
            f"{self.source}, {where}, field {column}: not 0 or 1, got {shorten(value)}. "
            f"{remedy[0].upper()}{remedy[1:]}; leave the cell empty where there is no label"
        )
        if self.strict:
            raise DataError(said)
        self.first = self.first or said
        self.n += 1
        entry = {
            "row": row,
            "id": example.id,
            "field": column,
            "reason": "not 0 or 1",
            "value": shorten(value),
        }
        self._kept.write(json.dumps(entry) + "\n")

    def append(self) -> None:
        """Write the rows behind those that the reader has put into the quarantine file."""
        if self.path is None or not self.n:
            return
        self._kept.seek(0)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8", newline="\n") as file:
                file.writelines(self._kept)
        except OSError as error:
            raise DataError(f"cannot write {self.path}: {error.strerror or error}") from error


def batches(
    examples: Iterator[tuple[Example, Labels]],
) -> Iterator[list[tuple[Example, Labels]]]:
    """Yield a few hundred rows at a time, as detectors like them."""
    while batch := list(islice(examples, BLOCK)):
        yield batch
