"""Plan, draws and labels of a session: files of JSON lines, durable line by line, and their ledger.

The files are the record itself, and no database stands behind them: each is checked against the
others by file and line, and people read, compare and restore them by hand.

All of it follows from the seed and from what is drawn, so that nothing needs to be remembered: the
same traces, in whatever order they are stored, are drawn in the same one.
"""

import hashlib
import json
import os
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, asdict, dataclass, field, replace
from io import FileIO
from pathlib import Path
from typing import IO, Any, ClassVar, Final, Literal, TypeAlias

import numpy as np

from calibrail.atomic_files import append_whole, lock_file, write_atomically
from calibrail.conformal.argument_checks import Floats, Ints
from calibrail.conformal.sequential.sequential_test import SequentialTest, UnsureTest
from calibrail.data.example import Example
from calibrail.data.spans import merged
from calibrail.data.values import same_group
from calibrail.errors import DataError, InputError, file_errors
from calibrail.options import Promise, Requirement
from calibrail.options.fields import spell_option
from calibrail.options.labelling import Drawing
from calibrail.serialization import Record


@dataclass(frozen=True, slots=True)
class StoredLine:
    """One line of a file: its number, from 1, and what it holds."""

    number: int
    content: Mapping[str, Any]


class Log:
    """A file of JSON lines that grows at its end, read as it grows.

    Each line is on the disk when ``append`` returns. A line that a crash has torn is cut off when
    the file is read next. Hold the folder's lock for every call.

    Parameters
    ----------
    path : Path
        May not exist yet.
    problems : list of str, optional
        Takes what is wrong with lines that cannot be read, which are left out then; without it the
        first of them is refused.
    """

    def __init__(self, path: Path, problems: list[str] | None = None) -> None:
        self.path, self._problems = path, problems
        self._end = self._number = 0
        #: Held open: so long no other file can take its place unnoticed, with its number.
        self._held: FileIO | None = None
        self._changed = False
        self.torn: str | None = None

    def read_on(self) -> list[StoredLine] | None:
        """Return what was added since the last call; None where the file was written anew.

        After None the next call returns all lines. After a refused line it returns the same ones.

        Raises
        ------
        DataError
            A line is not JSON; its number is named.
        """
        with file_errors(f"cannot read {self.path}"):
            state = self.path.stat() if self.path.exists() else None
            if self._changed or (
                self._held is not None
                and (
                    state is None
                    or not os.path.samestat(os.fstat(self._held.fileno()), state)
                    or state.st_size < self._end
                )
            ):
                self.forget()
                return None
            if state is None or state.st_size == self._end:
                return []
            self._held = self._held or FileIO(self.path)
            self._held.seek(self._end)
            raw = self._held.readall()
        if rest := raw[raw.rfind(b"\n") + 1 :]:
            raw = self._mend(raw.removesuffix(rest), rest)
        texts = raw.split(b"\n")[:-1]
        lines = [self._line(text, at) for at, text in enumerate(texts, start=self._number + 1)]
        self._end, self._number = self._end + len(raw), self._number + len(texts)
        return [line for line in lines if line is not None]

    def forget(self) -> None:
        """Read from the start next time."""
        self._end = self._number = 0
        self._held, self._changed = None, False

    def distrust(self) -> None:
        """Say next time that the file was written anew, as what was read was not taken in."""
        self._changed = True

    def append(self, lines: Iterable[Mapping[str, Any]], *, durable: bool = True) -> None:
        """Add lines in one piece; everything before must have been read.

        Raises
        ------
        DataError
            The disk is full, or the folder may not be written to. The file is as it was.
        """
        raw = b"".join(map(json_line, lines))
        failed = f"cannot write to {self.path}"
        with file_errors(failed, "; nothing of it was stored: make room, and go on"):
            append_whole(self.path, raw, durable=durable)

    def rewrite(self, raw: bytes | Iterable[bytes]) -> None:
        """Write the whole file anew, or leave it as it was."""
        # Windows replaces no file that is open.
        self._held, self._changed = None, True
        with file_errors(f"cannot write {self.path}", "; it is as it was: make room, and go on"):
            write_atomically(self.path, raw, durable=True)

    def _mend(self, whole: bytes, rest: bytes) -> bytes:
        """End a last line that lacks its end, or cut it off; return what was added then."""
        with file_errors(f"cannot mend the last line of {self.path}"):
            with suppress(ValueError):
                if isinstance(json.loads(rest), dict):
                    with self.path.open("ab") as stream:
                        stream.write(b"\n")
                    return whole + rest + b"\n"
            self.torn = rest.decode("utf-8", "replace")
            os.truncate(self.path, self._end + len(whole))
        return whole

    def _line(self, raw: bytes, number: int) -> StoredLine | None:
        if not raw.strip():
            return None
        where = f"{self.path}, line {number}"
        try:
            content = json.loads(raw)
            if isinstance(content, dict):
                return StoredLine(number, content)
            why = f"{where} must hold a JSON object; take it out"
        except ValueError as error:
            why = f"{where} is not JSON ({error}); restore the line, or take it out"
        if self._problems is None:
            raise DataError(why)
        self._problems.append(why)
        return None


def json_line(line: Mapping[str, Any]) -> bytes:
    """Return a line of a file of JSON lines; infinite numbers as Python spells them."""
    text = json.dumps(line, ensure_ascii=False, separators=(", ", ": "))
    return text.encode("utf-8", "surrogatepass") + b"\n"


class Lock:
    """One writer at a time in a folder, among threads and processes.

    On Windows only among threads: one process at a time may write there.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._threads = path, threading.RLock()
        self._stream: IO[bytes] | None = None
        self._depth = 0

    @contextmanager
    def __call__(self, busy: str | None = None) -> Iterator[None]:
        """Wait until nobody else is writing, and keep others waiting within the block.

        Raises
        ------
        DataError
            The lock cannot be written; or another process holds it, and ``busy`` says what then
            is told in place of waiting.
        """
        with self._threads:
            # Windows: one process at a time in a folder.
            if self._depth == 0 and sys.platform != "win32":
                with file_errors(f"cannot write into {self._path.parent}", "; name another folder"):
                    self._stream = self._path.open("ab")
                    try:
                        lock_file(self._stream.fileno(), wait=not busy)
                    except BlockingIOError as error:
                        self._stream.close()
                        raise DataError(str(busy)) from error
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0 and self._stream is not None:
                    self._stream.close()
                    self._stream = None


#: What a guardrail, and a guess by its score, say of a draw.
_JUDGED: Final = frozenset({"score", "flagged", "guess"})

#: A piece of a response: where it begins and ends, in characters from 0, and its text.
Span: TypeAlias = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Draw:
    """A line of ``draws.jsonl``: one answer drawn.

    Attributes
    ----------
    order : int
        1, 2, ... as drawn.
    unit : int
        1, 2, ...: answers of one group that were drawn together have the same number.
    of : int
        Answers of the unit.
    id, group, digest
        Of the answer.
    probability : float
        With which it was to be handed out.
    handed_out : bool
        Whether the lot fell so.
    score, flagged : float and bool, or None
        What the guardrail says, where one is certified; the score is None where it is undefined.
    guess : float or None
        P(hallucinated) as guessed before the label.
    column : float or None
        What the judge's column holds.
    plan : str
        Digest of what was agreed on before the first label.
    chain, seq : str and int, or None
        Of an answer drawn from a decision log: its line there; ``digest`` is that of the line.
    time : str or None
        When the line was logged.
    batch : int or None
        1, 2, ...: the call that drew it.
    share : float or None
        Of the lines that the call found, how many it drew.
    log_group : str or None
        Group of the answer, where the guardrail has thresholds by group.
    log_language : str or None
        Language of the answer, where it is known.
    question : str or None
        Digest of the words of its question and chunks, where these were known when it was drawn.
    """

    order: int
    unit: int
    of: int
    id: str
    group: str | None
    digest: str
    probability: float
    handed_out: bool
    score: float | None = None
    flagged: bool | None = None
    guess: float | None = None
    column: float | None = None
    plan: str = ""
    chain: str | None = None
    seq: int | None = None
    time: str | None = None
    batch: int | None = None
    share: float | None = None
    log_group: str | None = None
    log_language: str | None = None
    question: str | None = None

    @property
    def alias(self) -> str:
        """What stands for the id before an annotator, whom an id may tell the label."""
        return f"no{self.order}-{self.digest[:8]}"

    def to_dict(self, *, certify: bool) -> dict[str, Any]:
        """Return the line; what is optional only where it says something."""
        line = asdict(self)
        unsaid = {name for name, value in line.items() if value is None} - {"group", *_JUDGED}
        left_out = unsaid if certify else unsaid | _JUDGED
        return {name: value for name, value in line.items() if name not in left_out}


@dataclass(frozen=True, slots=True)
class Label:
    """A line of ``labels.jsonl``: what one person said of one answer.

    Attributes
    ----------
    id, order, probability
        Of the answer drawn.
    label : {0, 1, None}
        1 hallucinated, 0 faithful, None if that cannot be told.
    annotator : str
        Who says so.
    time : str
        When, in UTC.
    spans : tuple of (int, int, str)
        What nothing supports.
    evidence : bool
        Whether help was asked for.
    settles : bool
        Whether it settles a disagreement.
    seen : mapping of str to int, or None
        Of a label that reviews the annotator's own earlier one: what judges, and the guardrail,
        were shown to say. A label that was given blind has none.
    judge : str or None
        What labelled, where no person did.
    note : str
        What the annotator wrote beside the label.
    """

    id: str
    label: int | None
    annotator: str
    time: str
    probability: float
    order: int
    spans: tuple[Span, ...] = ()
    evidence: bool = False
    settles: bool = False
    seen: Mapping[str, int] | None = None
    judge: str | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the line; what is optional only where it says something."""
        optional = ("spans", "evidence", "settles", "seen", "judge", "note")
        return {name: v for name, v in asdict(self).items() if v or name not in optional}


def parse_draw(line: StoredLine, path: Path, order: int) -> Draw:
    """Return the draw in a line that must be the next one.

    Raises
    ------
    DataError
        A field is missing or is not what it should be.
    """
    share = line.content.get("probability")
    is_share = isinstance(share, int | float) and share is not True and 0.0 < share <= 1.0
    due = {
        "order": (line.content.get("order") == order, f"must be {order}: no line may be lost"),
        "probability": (is_share, "must lie in (0, 1]"),
    }
    return Draw(**_checked(line, path, Draw, due))


def parse_label(line: StoredLine, path: Path) -> Label:
    """Return the label in a line.

    Raises
    ------
    DataError
        A field is missing or is not what it should be.
    """
    label, annotator, order = (line.content.get(name) for name in ("label", "annotator", "order"))
    spans = line.content.get("spans", [])
    due = {
        "label": (not isinstance(label, bool) and label in (0, 1, None), "must be 1, 0 or null"),
        "annotator": (
            isinstance(annotator, str) and bool(annotator.strip()),
            "must name who labelled",
        ),
        "order": (type(order) is int, "must be a whole number"),
        "spans": (
            isinstance(spans, list) and all(map(_is_span, spans)),
            "must be a list of [begin, end, text]",
        ),
        "seen": (isinstance(line.content.get("seen"), dict | None), "must be labels by name"),
        "note": (isinstance(line.content.get("note", ""), str), "must be a text"),
    }
    return Label(**{**_checked(line, path, Label, due), "spans": tuple(map(tuple, spans))})


def _checked(
    line: StoredLine,
    path: Path,
    kind: type[Draw] | type[Label],
    due: Mapping[str, tuple[bool, str]],
) -> dict[str, Any]:
    """Return the fields of a kind of line; others may stand there, too."""
    known, where = kind.__dataclass_fields__, f"{path}, line {line.number}"
    for name, item in known.items():
        if item.default is MISSING and name not in line.content:
            raise DataError(f"{where} has no {name}; restore the line, or take it out")
    for name, (holds, remedy) in due.items():
        if not holds:
            raise DataError(f"{where}: {name} {remedy}; got {line.content.get(name)!r:.80}")
    return {name: value for name, value in line.content.items() if name in known}


def checked_spans(spans: Iterable[Span], response: str) -> tuple[Span, ...]:
    """Return spans, each of which says what stands there in the response.

    They come in order; those that overlap or touch are one.

    Raises
    ------
    InputError
        One does not; it is named.
    """
    checked = []
    for span in spans:
        if not isinstance(span, Sequence) or not _is_span([*span]):
            raise InputError.on("span_shape", span=span)
        start, stop, text = span
        if response[start:stop] != text:
            raise InputError.on(
                "span_text", start=start, stop=stop, due=response[start:stop], text=text
            )
        checked.append((start, stop))
    return tuple((start, stop, response[start:stop]) for start, stop in merged(checked))


def _is_span(value: object) -> bool:
    if not isinstance(value, list) or [type(item) for item in value] != [int, int, str]:
        return False
    return bool(0 <= value[0] < value[1])


@dataclass(frozen=True, slots=True)
class Order:
    """The order of drawing that a seed gives.

    Attributes
    ----------
    seed : int
        Same seed, same order.
    one_spelling : bool
        Whether a group is one however its name is spelt, as `same_group` has it.

    Examples
    --------
    >>> order = Order(seed=0)
    >>> order.unit(Example(response="a", group="q1")) == order.unit(Example(group="q1"))
    True
    >>> 0.0 <= order.lot("labelled", "0123456789abcdef") < 1.0
    True
    """

    seed: int
    one_spelling: bool = False

    def unit(self, example: Example, digest: str | None = None) -> str:
        """Return the place of what is drawn: 32 hexadecimal digits, drawn in ascending order.

        The group of the answer is drawn, or where it has none the answer itself, of which copies
        word for word are one.
        """
        if example.group is not None:
            return self._hash("group", (same_group if self.one_spelling else str)(example.group))
        return self.alone(digest or example.digest("spelt"))

    def alone(self, digest: str) -> str:
        """Return the place of what is drawn by itself, likewise."""
        return self._hash("answer", digest)

    def within(self, digest: str) -> str:
        """Return the place of an answer among those of its group, likewise."""
        return self._hash("within", digest)

    def lot(self, purpose: str, digest: str) -> float:
        """Return a number in [0, 1) for an answer, another one for each purpose."""
        return int(self._hash(purpose, digest)[:13], 16) / 2.0**52

    def _hash(self, *parts: str) -> str:
        text = "\0".join((str(self.seed), *parts)).encode("utf-8", "surrogatepass")
        return hashlib.sha256(text).hexdigest()[:32]


#: What rounding may take from a probability, and from its being the same for all.
ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Lots:
    """What a file says about the labels of answers.

    Attributes
    ----------
    path : Path
        The file.
    sha256 : str
        Of its bytes.
    rows : mapping of str to mapping
        By id: ``label`` as it stands there, ``probability``, and ``where`` it stands. Answers
        without a label were not labelled.
    weighted : bool
        Whether answers were to be labelled with different probabilities.
    """

    path: Path
    sha256: str
    rows: Mapping[str, Mapping[str, Any]]
    weighted: bool

    def fell(self, id: str, least: float) -> tuple[float, bool]:
        """Return with which probability an answer was to be labelled, and whether it was.

        Raises
        ------
        InputError
            It was labelled with a lower probability than the least one that counts.
        """
        row = self.rows.get(id)
        if row is None:
            return least, False
        if not self.weighted:
            # Of equal ones those that were labelled are a uniform sample themselves.
            return 1.0, True
        if (given := row["probability"]) < least - ROUNDING:
            where, floor = row["where"], spell_option(Drawing, "floor")
            raise InputError.on(
                "below_least", where=where, id=id, given=given, least=least, floor=floor
            )
        return float(row["probability"]), True


@dataclass(frozen=True, slots=True)
class Balance(Record):
    """How many traces labels stand for by their probabilities, beside how many there are.

    Attributes
    ----------
    labelled, traces : int
        Labels of the file, and traces.
    estimate : float
        Sum of 1 / probability over the labels, which estimates the number of traces without bias
        (Horvitz and Thompson 1952).
    p : float
        At most the chance of so great a difference where the probabilities are those of the lot.
    """

    labelled: int
    traces: int
    estimate: float
    p: float


#: What labels are for.
Purpose = Literal["certify", "calibrate", "watch"]


@dataclass(frozen=True, slots=True)
class Traces(Record):
    """The answers that are drawn from.

    Attributes
    ----------
    paths : tuple of str
        As they were named; empty for data in memory.
    files : tuple of str
        Size and time of change of each file: while these stay, so does the digest.
    sha256 : str or None
        Of the file, or of the names and digests of several.
    n : int
        Usable answers.
    n_quarantined, n_seen_before : int
        Rows that cannot be labelled, and answers passed over since they set the threshold.
    freshness : str
        Whether the answers are other ones than those that set the threshold, as in ``certify``.
    """

    paths: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    sha256: str | None = None
    n: int = 0
    n_quarantined: int = 0
    n_seen_before: int = 0
    freshness: str = "new"


@dataclass(frozen=True, slots=True)
class SessionPlan(Record):
    """The content of ``session.json``: everything that is fixed before the first label.

    Attributes
    ----------
    purpose : {"certify", "calibrate", "watch"}
        Labels for the verdict about a frozen guardrail, for a threshold, or of answers that a
        guardrail has decided about, drawn from its decision log.
    traces : Traces
        The answers that are drawn from; empty where that is a decision log.
    drawing : Drawing
        How they are drawn.
    seed : int
        Of the order and of all lots.
    shared : float
        Share of the answers that two people label.
    guardrail : str or None
        Digest of the frozen guardrail, whose file is ``guardrail.json`` in the folder.
    guardrail_file : str or None
        Where it was read from, if from a file: beside it stands which answers it was looked at on.
    requirement : Requirement or None
        Of the verdict, both limits filled in.
    promise : Promise or None
        Of the threshold.
    needed : int or None
        Hallucinated answers that the promise needs.
    judge : str or None
        Column of a judge's labels or numbers, from which P(hallucinated) is guessed, too.
    reading : mapping
        How the traces were read, as ``Reading.how`` tells it.
    judges : tuple of str
        Columns of labels that decide, with the guardrail's flag, which answers are disagreements.
    elsewhere : str or None
        SHA-256 of the file of labels that were made elsewhere, whose lots decided what is labelled;
        None where the seed does.
    per_day : float or None
        Answers of a decision log that people are to label for each day, unless a later call names
        another number.
    balance : Balance or None
        How many traces those labels stand for, beside how many there are.
    share : float
        Of the error that all looks at the guardrail may have, what these labels were begun with.
    cuts : mapping of str to (str, float)
        By column of ratings, what a higher one means, and beyond which it counts as hallucinated.
    one_spelling : bool
        As in ``Order``; an earlier version drew a group once for each spelling of its name.
    """

    purpose: Purpose
    traces: Traces
    drawing: Drawing = field(default_factory=Drawing)
    seed: int = 0
    shared: float = 0.0
    guardrail: str | None = None
    requirement: Requirement | None = None
    promise: Promise | None = None
    needed: int | None = None
    judge: str | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    elsewhere: str | None = None
    guardrail_file: str | None = None
    balance: Balance | None = None
    per_day: float | None = None
    share: float = 1.0
    judges: tuple[str, ...] = ()
    cuts: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    one_spelling: bool = False

    schema: ClassVar = "calibrail.labels/1"
    later = ("share", "judges", "cuts", "one_spelling")

    @property
    def asked(self) -> Requirement | None:
        """The requirement as it was asked for; this look errs with a share of what that says."""
        if self.requirement is None or self.share == 1.0:
            return self.requirement
        confidence = round(1.0 - (1.0 - self.requirement.confidence) / self.share, 12)
        return replace(self.requirement, confidence=confidence)

    @property
    def judge_column(self) -> tuple[str, ...]:
        """What the option of that name said: the one judge, or those that the queue compares."""
        return self.judges if self.judge is None else (self.judge,)


#: Where an answer stands: not to be labelled, labelled by too few, labelled differently, done.
Standing = Literal["passed over", "open", "disagreement", "final"]


@dataclass(slots=True)
class LedgerAnswer:
    """One answer drawn, with all labels that it has been given."""

    draw: Draw
    needs: int
    labels: dict[str, Label] = field(default_factory=dict)
    settled: Label | None = None
    #: By annotator, the label that was given blind and reviewed since.
    blind: dict[str, Label] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Whether a review changed a label."""
        return any(self.labels[name].label != item.label for name, item in self.blind.items())

    def before_review(self) -> "LedgerAnswer":
        """Return it with the labels that were given blind, wherever they were reviewed."""
        return replace(self, labels={**self.labels, **self.blind})

    @property
    def judge(self) -> str | None:
        """Which judge gave the label that counts; None where a person did."""
        label = self.settled or next(iter(self.labels.values()), None)
        return None if label is None else label.judge

    @property
    def standing(self) -> Standing:
        """Where it stands."""
        if not self.draw.handed_out:
            return "passed over"
        if self.settled is not None:
            return "final"
        if len(self.labels) < self.needs:
            return "open"
        different = len({item.label for item in self.labels.values()}) > 1
        return "disagreement" if different else "final"

    @property
    def label(self) -> int | None:
        """The final label; None where it is not final, or where nobody could tell."""
        if self.settled is not None:
            return self.settled.label
        return None if self.standing != "final" else next(iter(self.labels.values())).label

    @property
    def spans(self) -> list[Span] | None:
        """What those who gave the final label marked; None where a hallucinated answer has none."""
        given = [*self.labels.values(), *([self.settled] if self.settled else [])]
        marked = [span for item in given if item.label == self.label for span in item.spans]
        return marked if marked or self.label == 0 else None


class LabelLedger:
    """All answers drawn so far, kept up to date line by line.

    Answers are counted in the order they were drawn, up to the first that is not settled: which
    labels count is in nobody's hand.

    Parameters
    ----------
    plan : SessionPlan
        What was agreed on.
    """

    def __init__(self, plan: SessionPlan, version: int = 0) -> None:
        self.plan = plan
        self._order = Order(plan.seed)
        self.answers: list[LedgerAnswer] = []
        #: Another number whenever an answer was handed out, or a label taken in or back.
        self.version = version
        self.of_annotator: dict[str, list[Label]] = defaultdict(list)
        #: By order: final labels, and answers handed out that have none.
        self.finals: dict[int, int | None] = {}
        self._waiting: dict[int, Standing] = {}
        self._restart()

    def _restart(self) -> None:
        self._counted = 0
        requirement, drawing = self.plan.requirement, self.plan.drawing
        begin = None if requirement is None else SequentialTest(requirement, drawing)
        self._test = None if begin is None else UnsureTest.of(begin)

    def add_draw(self, draw: Draw) -> None:
        """Take in one more answer drawn."""
        shared = self._order.lot("shared", draw.digest) < self.plan.shared
        self.add_answer(LedgerAnswer(draw, needs=2 if shared else 1))
        self.version += bool(draw.handed_out)

    def add_answer(self, answer: LedgerAnswer) -> None:
        """Take in one more answer drawn, with the labels that it has."""
        self.answers.append(answer)
        self._keep(answer)

    def _keep(self, answer: LedgerAnswer) -> None:
        """Keep where an answer stands: it is asked for after every label."""
        order, standing = answer.draw.order, answer.standing
        self._waiting.pop(order, None)
        self.finals.pop(order, None)
        if standing == "final":
            self.finals[order] = answer.label
        elif standing != "passed over":
            self._waiting[order] = standing

    def add_label(self, label: Label) -> None:
        """Take in one more label."""
        answer = self.answers[label.order - 1]
        if label.settles:
            answer.settled = label
        else:
            if label.seen:
                answer.blind.setdefault(label.annotator, answer.labels[label.annotator])
            answer.labels[label.annotator] = label
        self._keep(answer)
        self.of_annotator[label.annotator].append(label)
        self.version += 1
        if label.order <= self._counted:
            self._restart()

    @property
    def unsettled(self) -> list[int]:
        """Orders of answers handed out that are not final, as they were drawn."""
        return sorted(self._waiting)

    def handed_out(self) -> dict[str, int]:
        """Return the order of each answer handed out, by its alias and by its id.

        It is 0 for an id of several: a decision log may hold such, each drawn by itself.
        """
        draws = [item.draw for item in self.answers if item.draw.handed_out]
        times = Counter(draw.id for draw in draws)
        aliases = {draw.alias: draw.order for draw in draws}
        return aliases | {draw.id: draw.order if times[draw.id] == 1 else 0 for draw in draws}

    def disagreements(self) -> list[int]:
        """Return the orders of answers about which annotators disagree, as they were drawn."""
        return sorted(o for o, standing in self._waiting.items() if standing == "disagreement")

    def lessons(self) -> tuple[Floats, Ints, Floats]:
        """Return clues of answers with a final label, these labels, and clues of all drawn.

        Clues are score and column, shape (n, 2), NaN where there is none. What is drawn after the
        last answer handed out plays no part, so that what is learnt depends on labels, and not on
        when it is asked for.
        """
        answers = self.answers[: max((*self.finals, *self._waiting), default=0)]
        clues = [(item.draw.score, item.draw.column) for item in answers]
        drawn = np.array(clues, np.float64).reshape(-1, 2)
        given = [self.finals.get(order) for order in range(1, len(answers) + 1)]
        labels = np.array(given, np.float64)
        known = ~np.isnan(labels)
        return drawn[known], labels[known].astype(np.int64), drawn

    @property
    def counted(self) -> int:
        """Answers drawn that the verdict counts: all before the first that is not settled."""
        first = min(self._waiting, default=len(self.answers) + 1) - 1
        if self.plan.drawing.whole_groups:
            # A group counts whole: back to where one begins.
            while first and not self._complete(first):
                first -= 1
        return first

    @property
    def test(self) -> UnsureTest | None:
        """The verdict on all answers that count; None where no guardrail is certified."""
        base, counted = self.test_for_drawing, self.counted
        if base is None or counted == self._counted:
            return base
        return base.update(**self.columns(self._counted, counted))

    @property
    def test_for_drawing(self) -> UnsureTest | None:
        """The same up to the last answer that was handed out.

        Probabilities follow from it, so that they depend on labels, and not on when it was asked
        for.
        """
        if self._test is None:
            return None
        stop = self.counted
        while stop > self._counted:
            first = stop - self.answers[stop - 1].draw.of
            if any(item.draw.handed_out for item in self.answers[first:stop]):
                break
            stop = first
        if stop > self._counted:
            self._test = self._test.update(**self.columns(self._counted, stop))
            self._counted = stop
        return self._test

    def columns(self, start: int, stop: int) -> dict[str, Any]:
        """Return answers drawn that count, from one place to before another, for the verdict."""
        answers, drawing = self.answers[start:stop], self.plan.drawing
        draws = [item.draw for item in answers]
        labels = [item.label for item in answers]
        unsure = [item.draw.handed_out and item.label is None for item in answers]
        columns: dict[str, Any] = {"flagged": [bool(draw.flagged) for draw in draws]}
        columns |= {"hallucinated": np.array(labels, np.float64), "unsure": unsure}
        if drawing.weighted:
            columns["probability"] = [draw.probability for draw in draws]
            columns["guess"] = [draw.guess for draw in draws]
        if drawing.whole_groups:
            columns["groups"] = [draw.unit for draw in draws]
        return columns

    def _complete(self, n: int) -> bool:
        """Return whether the first n answers drawn end with the last one of a unit."""
        draws = [item.draw for item in self.answers[max(0, n - self.answers[n - 1].draw.of) : n]]
        return len(draws) == draws[-1].of and draws[0].unit == draws[-1].unit
