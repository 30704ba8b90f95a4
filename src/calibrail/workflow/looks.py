"""Was this data looked at before, so that a verdict about it would be a second chance?

A verdict errs with a stated probability once. Who looks, labels some more and looks again, or
splits the same data by seed after seed and keeps the best verdict, has as many chances as looks:
eight of them made three times the error that was stated. So a file beside the results keeps what
was looked at, and a further look at data that was looked at before certifies nothing.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, Final

from calibrail.conformal import Certificate, GroupVerdict
from calibrail.errors import DataError, file_errors
from calibrail.evaluation import Report
from calibrail.report.documents.calibrate_findings import few_looked_before, looked_before
from calibrail.workflow.look import Earlier, Look, shared, told, void
from calibrail.writing import write_atomically

SCHEMA: Final = "calibrail.looks/1"
#: Subject of the looks at labelled answers that a run splits itself.
SPLIT: Final = "split"

_REMEDY: Final = "; it keeps what was looked at, so that a verdict is no second chance: "


def looks_of(guardrail: str | PathLike[str]) -> Path:
    """Return the file of looks that stands beside a guardrail's.

    >>> looks_of("guards/faq.json").as_posix()
    'guards/faq.looks.json'
    """
    return Path(guardrail).with_suffix(".looks.json")


class Looks:
    """The file of looks, by subject: labelled answers with their split, or one guardrail.

    Parameters
    ----------
    path : path or None
        File that keeps them; None keeps none.

    Raises
    ------
    DataError
        If the file is there and is damaged, or cannot be read or written: before any work is done.
    """

    def __init__(self, path: str | PathLike[str] | None) -> None:
        self._path = None if path is None else Path(path)
        if self._path is None:
            return
        self._read(self._path)
        folder = self._path.absolute().parent
        with self._writing():
            while not folder.exists():
                folder = folder.parent
            tempfile.TemporaryFile(dir=folder).close()

    def record(
        self, subject: Any, look: Look, *others: Look, in_its_place: bool = False
    ) -> Earlier:
        """Keep a look, unless this very one is kept; return those before it at the same answers.

        The subject is anything that JSON can hold; further looks at its data may be named. Looks of
        other detectors at it do not count, nor does another question about the same split: what
        was before the first of them was before all. Labels that go on are the look that they began
        as: what came before that came before them. The verdict that is kept is the one that these
        leave. With ``in_its_place`` looks at subjects that the file met before this one count, too:
        a guardrail that is made anew until one is certified has as many chances.

        Raises
        ------
        DataError
            If the file cannot be read or written.
        """
        if self._path is None:
            return shared(look, others)
        name = json.dumps(subject, sort_keys=True).encode("utf-8", "surrogatepass")
        key = sha256(name).hexdigest()[:16]
        with self._writing():
            self._path.parent.mkdir(parents=True, exist_ok=True)
        # Read again under the lock, since another process may have looked meanwhile.
        with _locked(self._path.parent):
            questions = self._read(self._path)
            kept = questions.get(key, ())
            before = [item for item in kept if look.of_one_detector(item)]
            own = [i for i, item in enumerate(before) if look.goes_on_from(item)]
            met = list(questions)[: list(questions).index(key) if key in questions else None]
            there = [item for name in met for item in questions[name]] if in_its_place else []
            earlier = shared(look, _last(*others, *there, *before[: own[0] if own else None]))
            if not any(look.adds_nothing_to(item) for item in before):
                certain = look.verdict == "certified" and void(earlier)
                if look.session and kept and kept[-1].session == look.session:
                    # Nobody has looked since.
                    kept = kept[:-1]
                kept_as = "inconclusive" if certain else look.verdict
                questions[key] = (*kept, replace(look, verdict=kept_as))
                with self._writing():
                    self._write(self._path, questions)
        return earlier

    @contextmanager
    def _writing(self) -> Iterator[None]:
        remedy = f"{_REMEDY}name a folder that can be written, or copy the guardrail to one"
        with file_errors(f"cannot write {self._path}", remedy):
            yield

    @staticmethod
    def _read(path: Path) -> dict[str, tuple[Look, ...]]:
        remedy = f"{_REMEDY}restore it, or name another folder"
        try:
            with file_errors(f"cannot read {path}", remedy):
                try:
                    raw = path.read_bytes()
                except FileNotFoundError:
                    return {}
            content = json.loads(raw)
            if content["schema"] != SCHEMA:
                raise ValueError(f"its schema is {content['schema']!r}")
            return {
                name: tuple(Look.from_dict(item) for item in items)
                for name, items in content["questions"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"{path} holds no looks ({error}){remedy}") from error

    @staticmethod
    def _write(path: Path, questions: Mapping[str, Sequence[Look]]) -> None:
        looks = {name: [item.to_dict() for item in items] for name, items in questions.items()}
        text = json.dumps({"schema": SCHEMA, "questions": looks}, indent=1, allow_nan=False)
        write_atomically(path, f"{text}\n".encode("ascii"))


def _last(*looks: Look) -> tuple[Look, ...]:
    """Return looks in order, of labels that went on the last one only."""
    gone_on = {look.session: i for i, look in enumerate(looks) if look.session}
    return tuple(look for i, look in enumerate(looks) if gone_on.get(look.session, i) == i)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time read and write here, where the system has such locks."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        # A file system of a network may know no locks.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def left(certificate: Mapping[str, Any], earlier: Earlier) -> dict[str, Any]:
    """Return a certificate in words as earlier looks leave it: after many nothing is certified."""
    if not earlier or certificate["verdict"] != "certified":
        return dict(certificate)
    looks = told(earlier)
    if not void(earlier):
        return {**certificate, "reason": certificate["reason"] + few_looked_before(looks)}
    reason = looked_before(looks)
    return {**certificate, "verdict": "inconclusive", "reason": reason, "flips": None}


def left_of(
    certificate: Certificate, groups: Mapping[str, GroupVerdict] | None, earlier: Earlier
) -> tuple[Certificate, Mapping[str, GroupVerdict] | None]:
    """Return what earlier looks leave of a certificate, and of those of groups."""

    def of(item: Certificate) -> Certificate:
        content = left({name: getattr(item, name) for name in _CHANGED}, earlier)
        return replace(item, **content)

    if groups is not None:
        groups = {
            name: replace(item, certificate=of(item.certificate)) for name, item in groups.items()
        }
    return of(certificate), groups


_CHANGED: Final = ("verdict", "reason", "flips")


def looked_at(report: Report, earlier: Earlier) -> Report:
    """Return the report with the earlier looks at its data, and what these leave certified."""
    if not earlier:
        return report
    report = replace(report, looks=tuple(told(earlier)))
    if report.by_group is not None:
        rows = [left(row, earlier) for row in report.by_group["rows"]]
        report = replace(report, by_group={**report.by_group, "rows": rows})
    if report.verdict != "certified" or not void(earlier):
        return report
    certificate = {**report.certificate, "verdict": "inconclusive", "flips": None}
    return replace(report, verdict="inconclusive", reason="looked_before", certificate=certificate)
