"""The files of a folder of labels, and what they say together."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from calibrail.atomic_files import read_regular, write_atomically
from calibrail.errors import DataError, InputError, errors_as, file_errors
from calibrail.labelling.ledger import (
    Label,
    LabelLedger,
    Lock,
    Log,
    SessionPlan,
    StoredLine,
    parse_draw,
    parse_label,
)

#: Labels and skips after which an answer that was put off comes back.
ROUND: Final = 20

#: For how long an answer stays with the one who has it on the screen.
HELD_FOR: Final = timedelta(minutes=30)

Event = Literal["shown", "skipped", "exported", "exhausted", "helped", "undone"]


class Screen(NamedTuple):
    """What an annotator looks at, and since when."""

    order: int
    since: datetime


#: Who sits there, and whether to settle what annotators disagree about.
Seat: TypeAlias = tuple[str, bool]


class Assignments:
    """Screens, skips, exports and undone labels: the lines of ``handed.jsonl``.

    Who labels and settles sits on two seats, which do not know of each other.
    """

    def __init__(self) -> None:
        self.screens: dict[Seat, Screen] = {}
        #: For each seat the answers put off, with the number of actions from which on each
        #: comes back.
        self.put_off: dict[Seat, dict[int, int]] = defaultdict(dict)
        #: Answers that each annotator labels elsewhere, in a file.
        self.away: dict[str, set[int]] = defaultdict(set)
        #: Answers with which somebody on each seat has asked for help.
        self.helped: dict[Seat, set[int]] = defaultdict(set)
        #: How many answers were drawn when no more were left; 0 while none is known to be missing.
        self.exhausted_at = 0
        #: Labels taken back, and how many of these when the verdict had fallen.
        self.undone = self.undone_decided = 0
        #: Labels that each annotator had when something happened last, and those that were gone
        #: by then though nobody had taken them back.
        self._had: dict[str, int] = defaultdict(int)
        self._gone: dict[str, int] = defaultdict(int)
        self._skips: dict[Seat, int] = defaultdict(int)
        self._last_skip: dict[Seat, tuple[int, int]] = {}

    def take(self, line: StoredLine) -> None:
        """Take in a line.

        Raises
        ------
        DataError
            It lacks a field.
        """
        content = line.content
        with errors_as(DataError, (KeyError, TypeError, ValueError), "handed_damaged", line=line):
            seat, order, event = assignment_key(content), int(content["order"]), content["event"]
            name, labels = seat[0], int(content["labels"])
            self._gone[name] += max(0, self._had[name] - (event == "undone") - labels)
            self._had[name] = labels
            match event:
                case "skipped":
                    self._skips[seat] += 1
                    self.put_off[seat][order] = labels + self._skips[seat] + ROUND
                    self._last_skip[seat] = (order, labels)
                    self.screens.pop(seat, None)
                case "exported":
                    self.put_off[seat].pop(order, None)
                    self.away[name].add(order)
                case "exhausted":
                    self.exhausted_at = order
                case "helped":
                    self.helped[seat].add(order)
                case "undone":
                    self.undone += 1
                    self.undone_decided += bool(content.get("decided"))
                case _:
                    self.put_off[seat].pop(order, None)
                    self.screens[seat] = Screen(order, datetime.fromisoformat(content["time"]))

    def lost(self, labels: Mapping[str, int]) -> dict[str, int]:
        """Return how many labels of whom are gone, where each annotator has so many now."""
        gone = {
            name: self._gone[name] + max(0, had - labels.get(name, 0))
            for name, had in sorted(self._had.items())
        }
        return {name: n for name, n in gone.items() if n}

    def clear(self, seat: Seat, order: int) -> None:
        """Clear the screen of a seat from which what was on it is labelled."""
        if (screen := self.screens.get(seat)) is not None and screen.order == order:
            del self.screens[seat]
        self.put_off[seat].pop(order, None)

    def held_by_others(self, order: int, seat: Seat, now: datetime) -> int:
        """Return how many others have an answer on their screen, or in a file to label it."""
        annotator, settles = seat
        holding = {
            name
            for (name, other), screen in self.screens.items()
            if other == settles and screen.order == order and abs(now - screen.since) < HELD_FOR
        }
        holding |= {name for name, orders in self.away.items() if order in orders and not settles}
        return len(holding - {annotator})

    def due(self, seat: Seat, labels: int) -> list[int]:
        """Return answers put off that come back by now, the first first."""
        actions, waiting = labels + self._skips[seat], self.put_off[seat]
        return sorted((one for one in waiting if waiting[one] <= actions), key=waiting.__getitem__)

    def just_skipped(self, seat: Seat, labels: int) -> int | None:
        """Return the answer that an annotator skipped last, if nothing was labelled since."""
        order, at = self._last_skip.get(seat, (0, -1))
        return order if at == labels and order in self.put_off[seat] else None


def assignment_key(content: Mapping[str, Any]) -> Seat:
    """Return the seat that a line of labels, or of what happened, is about."""
    return str(content["annotator"]), bool(content.get("settles"))


def event_line(event: Event, seat: Seat, order: int, labels: int) -> Mapping[str, Any]:
    """Return the line of what happens now; ``labels`` counts those of the annotator so far."""
    annotator, settles = seat
    line: dict[str, Any] = {"order": order, "annotator": annotator, "event": event}
    line |= {"labels": labels, "time": now().isoformat(timespec="seconds")}
    return line | ({"settles": True} if settles else {})


def now() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)


PLAN: Final = "session.json"
GUARDRAIL: Final = "guardrail.json"
POOL_FILE: Final = "pool.jsonl"
QUARANTINE: Final = "quarantine.jsonl"
LOCK: Final = ".lock"
#: Held by who draws from a decision log, while others label.
DRAWING: Final = ".drawing"

#: Of the digest of what was agreed on, as each draw bears it.
DIGITS: Final = 16


def has_labels(folder: Path) -> bool:
    """Return whether a folder holds labels, or is ready for them."""
    return (folder / PLAN).exists()


@contextmanager
def prepared_folder(folder: Path) -> Iterator[None]:
    """Create the folder if needed; remove it again if the session could not start.

    Raises
    ------
    DataError
        It cannot be made.
    InputError
        It holds files of others.
    """
    new = not folder.exists()
    with file_errors(f"cannot make the folder {folder}", "; name another one"):
        folder.mkdir(parents=True, exist_ok=True)
        there = {item.name for item in folder.iterdir() if not item.name.startswith(".")}
    # A crash before the first label may leave these files: session.json is written last.
    left = {QUARANTINE, POOL_FILE, *((GUARDRAIL,) if POOL_FILE in there else ())}
    if (others := sorted(there - left)) and not has_labels(folder):
        raise InputError.on(
            "folder_without_plan", folder=folder, plan=PLAN, names=", ".join(others[:3])
        )
    try:
        yield
    except BaseException:
        if new and not has_labels(folder):
            # Rows that say why nothing can be labelled stay, and the folder with them.
            for name in (LOCK, DRAWING, POOL_FILE, GUARDRAIL):
                (folder / name).unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()
        raise


def read_plan(folder: Path, maker: str = "label") -> SessionPlan:
    """Return what was agreed on before the first label; ``maker`` is the command that makes it.

    Raises
    ------
    DataError
        The folder holds no labels, or ``session.json`` is damaged.
    """
    path = folder / PLAN
    with errors_as(DataError, (ValueError, RecursionError), "plan_damaged", path=path):
        with file_errors(f"cannot read {path}", f"; name a folder that `calibrail {maker}` made"):
            content = json.loads(read_regular(path))
        name, _, number = str(schema := content.get("schema")).partition("/")
        if name == SessionPlan.schema.partition("/")[0] and number.isdecimal() and number != "1":
            raise DataError.on("plan_of_newer_version", path=path, schema=schema, plan=SessionPlan)
        return SessionPlan.from_dict(content)


def write_plan(folder: Path, plan: SessionPlan) -> None:
    """Write down what is agreed on before the first label."""
    text = json.dumps(plan.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(folder / PLAN, f"{text}\n".encode("utf-8", "surrogatepass"), durable=True)


def agreed_on(folder: Path) -> str:
    """Return the digest of what was agreed on before the first label."""
    with file_errors(f"cannot read {folder / PLAN}", "; restore it from a copy"):
        return sha256((folder / PLAN).read_bytes()).hexdigest()


class LabelFolder:
    """The files of a folder, and what they say together; brought up to date by ``refresh``.

    Parameters
    ----------
    folder : Path
        That holds ``session.json``.
    problems : list of str, optional
        Takes what is wrong with lines of labels, which are left out then; without it the first
        such line is refused.
    """

    def __init__(self, folder: Path, problems: list[str] | None = None) -> None:
        self.path, self.plan = folder, read_plan(folder)
        self.agreed_on = agreed_on(folder)
        self.lock = Lock(folder / LOCK)
        self.draws = Log(folder / "draws.jsonl")
        self.labels = Log(folder / "labels.jsonl", problems)
        self._problems = problems
        self.handed = Log(folder / "handed.jsonl")
        self._logs = self.draws, self.labels, self.handed
        self.ledger, self.assignments = LabelLedger(self.plan), Assignments()

    @property
    def torn(self) -> tuple[str, ...]:
        """Names of the files whose last line a crash had torn, which is cut off."""
        return tuple(log.path.name for log in self._logs if log.torn is not None)

    @contextmanager
    def up_to_date(self) -> Iterator[None]:
        """Keep other writers waiting within the block, with all taken in that they wrote."""
        with self.lock():
            self.refresh()
            yield

    def refresh(self) -> None:
        """Take in what was written since; hold the lock.

        Raises
        ------
        DataError
            A line is not what it should be: its file and number are named, and no file is changed.
        """
        try:
            self._read_on()
        except DataError:
            # What was read and not taken in is met again by the next call.
            self.draws.distrust()
            raise

    def _read_on(self) -> None:
        added = [log.read_on() for log in self._logs]
        if None in added:
            # A line was taken out or changed: everything is read again.
            self.ledger = LabelLedger(self.plan, self.ledger.version + 1)
            self.assignments = Assignments()
            for log in self._logs:
                log.forget()
            added = [log.read_on() for log in self._logs]
        drawn, labelled, happened = (lines or [] for lines in added)
        for line in drawn:
            draw = parse_draw(line, self.draws.path, len(self.ledger.answers) + 1)
            if draw.plan != (now := self.agreed_on[:DIGITS]):
                plan, was = self.path / PLAN, draw.plan or "of no plan"
                raise DataError.on(
                    "plan_changed", plan=plan, files=self, draw=draw, was=was, now=now
                )
            self.ledger.add_draw(draw)
        for line in labelled:
            try:
                self._take(line)
            except DataError as error:
                if self._problems is None:
                    raise
                self._problems.append(str(error))
        for line in happened:
            self.assignments.take(line)
            self._clear(line)

    def lost(self) -> dict[str, int]:
        """Return how many labels of whom were there once, and are gone though nobody undid them."""
        given = self.ledger.of_annotator
        return self.assignments.lost({name: len(labels) for name, labels in given.items()})

    def take_out(self, label: Label) -> None:
        """Take a label out again: the file is written anew without its line, and that is kept.

        Raises
        ------
        DataError
            The file cannot be written; it is as it was.
        """
        with file_errors(f"cannot read {self.labels.path}"):
            lines = self.labels.path.read_bytes().splitlines(keepends=True)
        seat, test = (label.annotator, label.settles), self.ledger.test
        contents = [json.loads(line) if line.strip() else {} for line in lines]
        del lines[
            next(
                place
                for place, content in reversed([*enumerate(contents)])
                if content.get("order") == label.order
                and (assignment_key(content), content.get("seen")) == (seat, label.seen)
            )
        ]
        left = len(self.ledger.of_annotator[label.annotator]) - 1
        line = dict(event_line("undone", seat, label.order, left))
        if test is not None and test.verdict != "inconclusive":
            line["decided"] = True
        # First: what is taken back is never missed without a trace.
        self.handed.append([line])
        self.labels.rewrite(lines)
        self.refresh()

    def _take(self, line: StoredLine) -> None:
        """Take in a label, of an answer that was drawn and that this annotator labels once."""
        where, answers = f"{self.labels.path}, line {line.number}", self.ledger.answers
        label = parse_label(line, self.labels.path)
        if not 1 <= label.order <= len(answers) or answers[label.order - 1].draw.id != label.id:
            raise DataError.on("label_of_no_answer", where=where, label=label)
        answer = answers[label.order - 1]
        if label.probability != answer.draw.probability:
            raise DataError.on("label_changed", where=where, label=label, of=answer, files=self)
        if not answer.draw.handed_out:
            raise DataError.on("label_not_handed_out", where=where, label=label)
        twice = answer.settled if label.settles else answer.labels.get(label.annotator)
        if label.seen and (twice is None or answer.settled is not None):
            raise DataError.on("label_reviews_none", where=where, label=label)
        if twice is not None and not label.seen:
            what = "is settled twice" if label.settles else f"has two labels of {label.annotator!r}"
            raise DataError.on(
                "answer_labelled_twice", where=where, label=label, what=what, twice=twice
            )
        self.ledger.add_label(label)
        self.assignments.clear((label.annotator, label.settles), label.order)

    def _clear(self, line: StoredLine) -> None:
        """Take from the screen what its annotator has labelled."""
        (name, settles), order = seat, _ = assignment_key(line.content), int(line.content["order"])
        for answer in self.ledger.answers[max(0, order - 1) : max(0, order)]:
            done = answer.settled if settles else answer.labels.get(name)
            if done is not None and done.annotator == name:
                self.assignments.clear(seat, order)
