"""Was this data looked at before, so that a verdict about it would be a second chance?

A verdict errs with a stated probability once. Who looks, labels some more and looks again, or
splits the same data by seed after seed and keeps the best verdict, has as many chances as looks:
eight of them made three times the error that was stated. So a file beside the results keeps what
was looked at, and a further look at data that was looked at before certifies nothing.

Data is known again by what it holds: of every look the lowest 64 digests of its answers are kept,
a fair sample of them all (as in a bottom-k sketch), of which some turn up in any data that shares a
good part of it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal.certificate import Verdict
from calibrail.errors import DataError, file_errors
from calibrail.evaluation import Report
from calibrail.guardrail.frozen import write_atomically
from calibrail.record import Record

SCHEMA: Final = "calibrail.looks/1"
#: Digests kept of every look.
KEPT: Final = 64


@dataclass(frozen=True, slots=True)
class Look(Record):
    """One look at labelled data.

    Attributes
    ----------
    n : int
        Answers.
    seed : int or None
        Of the split; None where the data says it or there is none.
    content : str
        Digest of all answers' digests, whatever their order.
    lowest : tuple of str
        The lowest digests of its answers.
    verdict : str
        What it said.
    """

    n: int
    seed: int | None
    content: str
    lowest: tuple[str, ...]
    verdict: str = ""

    @classmethod
    def at(cls, digests: NDArray[np.uint64], seed: int | None = None) -> "Look":
        """Return the look at answers with these digests."""
        ordered = np.sort(digests)
        content = sha256(ordered.astype("<u8").tobytes()).hexdigest()
        lowest = tuple(f"{value:016x}" for value in np.unique(ordered)[:KEPT].tolist())
        return cls(len(ordered), seed, content, lowest)

    def same(self, other: "Look") -> bool:
        """Return whether the same answers were split alike."""
        return (self.content, self.seed) == (other.content, other.seed)

    def shares(self, other: "Look") -> bool:
        """Return whether answers of the other look are among these, as far as a sample tells."""
        limit = min(self.lowest[-1:], other.lowest[-1:])
        # Only below the lower of both limits do both samples hold all that there is.
        return any(item in self.lowest for item in other.lowest if (item,) <= limit)


@dataclass(frozen=True, slots=True)
class Looks:
    """The looks of one question so far: one detector and promise, or one guardrail.

    Attributes
    ----------
    path : Path or None
        File that keeps them; None keeps none.
    question : str
        What the verdicts are about.
    earlier : tuple of Look
        In their order.
    """

    path: Path | None
    question: str
    earlier: tuple[Look, ...] = ()
    others: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str | PathLike[str] | None, question: Any) -> "Looks":
        """Open the file of looks; the question is anything that JSON can hold.

        Raises
        ------
        DataError
            If the file is there and cannot be read.
        """
        text = json.dumps(question, sort_keys=True)
        name = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        if path is None or not Path(path).exists():
            return cls(None if path is None else Path(path), name)
        path = Path(path)
        remedy = "; it keeps what was looked at before: restore it, or name another folder"
        try:
            with file_errors(f"cannot read {path}", remedy):
                content = json.loads(path.read_bytes())
            if content["schema"] != SCHEMA:
                raise ValueError(f"its schema is {content['schema']!r}")
            questions = dict(content["questions"])
            looks = tuple(Look.from_dict(item) for item in questions.pop(name, ()))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"{path} holds no looks ({error}){remedy}") from error
        return cls(path, name, looks, questions)

    def before(self, look: Look) -> tuple[Look, ...]:
        """Return the earlier looks at data that shares answers, other than this very one."""
        same = next((i for i, item in enumerate(self.earlier) if look.same(item)), None)
        return tuple(item for item in self.earlier[:same] if look.shares(item))

    def record(self, look: Look) -> None:
        """Write a look to the file, unless this very one stands there.

        Raises
        ------
        DataError
            If the file cannot be written.
        """
        if self.path is None or any(look.same(item) for item in self.earlier):
            return
        looks = [item.to_dict() for item in (*self.earlier, look)]
        content = {"schema": SCHEMA, "questions": {**self.others, self.question: looks}}
        text = json.dumps(content, indent=1, allow_nan=False) + "\n"
        remedy = "; it keeps what was looked at, so that a verdict is no second chance"
        with file_errors(f"cannot write {self.path}", remedy):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, text.encode("ascii"))


def told(earlier: Iterable[Look]) -> list[dict[str, Any]]:
    """Return earlier looks as a report holds them, without digests."""
    return [{"n": look.n, "seed": look.seed, "verdict": look.verdict} for look in earlier]


def uncertified(verdict: Verdict) -> Verdict:
    """Return a verdict of a further look: it may reject, and never certifies."""
    return "inconclusive" if verdict == "certified" else verdict


def looked_at(report: Report, earlier: Sequence[Look]) -> Report:
    """Return the report with the earlier looks at its data, after which nothing is certified."""
    if not earlier:
        return report
    report = replace(report, looks=tuple(told(earlier)))
    if report.by_group is not None:
        rows = [{**row, "verdict": uncertified(row["verdict"])} for row in report.by_group["rows"]]
        report = replace(report, by_group={**report.by_group, "rows": rows})
    if report.verdict != "certified":
        return report
    certificate = {**report.certificate, "verdict": "inconclusive", "flips": None}
    return replace(report, verdict="inconclusive", reason="looked_before", certificate=certificate)
