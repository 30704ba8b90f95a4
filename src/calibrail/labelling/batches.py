"""Which lines of a decision log did each call draw, and is a call there whole after a crash?"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from calibrail.errors import DataError, InputError, file_errors
from calibrail.labelling.folder import POOL_FILE, LabelFolder
from calibrail.labelling.lines import Draw
from calibrail.labelling.pool import Pool, Waiting
from calibrail.labelling.store import Log, encoded
from calibrail.labelling.urn import line_digest
from calibrail.record import Record
from calibrail.writing import write_atomically

BATCHES: Final = "batches.jsonl"
#: How far the log was read, and by which batch.
_CURSOR: Final = "cursor.json"

#: What a call is about to add to the files; gone once it has.
_PENDING: Final = ".pending.json"
#: What rounding may take from a budget.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Batch(Record):
    """A line of ``batches.jsonl``: what one call found in the log, and what it drew.

    Attributes
    ----------
    batch : int
        1, 2, ...
    per_day : float
        Answers that people are to label for each day of the log.
    days : tuple of str
        Days (UTC) of the lines found that no call before has counted; none where lines bear no
        time, so that a call counts as a day.
    budget : int
        Answers to hand out: exactly so many with the design ``uniform`` where the log has them, and
        on average with ``active``.
    left : float
        What of the days' budget is no whole answer, for the next call: in [0, 1).
    rows : int
        Lines found that are decisions of the guardrail: those that were drawn from.
    drawn, handed_out : int
        Lines drawn, and those that people are to label.
    first, last : str or None
        Earliest and latest time of the lines found.
    """

    batch: int
    per_day: float
    days: tuple[str, ...]
    budget: int
    left: float
    rows: int
    drawn: int
    handed_out: int
    first: str | None = None
    last: str | None = None

    @property
    def share(self) -> float:
        """Share of the lines found that was drawn: the chance of each to be."""
        return self.drawn / self.rows


@dataclass(frozen=True, slots=True)
class Budget:
    """How many answers people are to label of the days that a call found.

    Attributes
    ----------
    days : tuple of str
        Days that no call before has counted.
    whole : int
        Answers.
    left : float
        What is no whole answer, in [0, 1).

    Examples
    --------
    >>> Budget.of(0.5, ["2027-03-01"], set(), 0.0)
    Budget(days=('2027-03-01',), whole=0, left=0.5)
    >>> Budget.of(20, ["2027-03-01", "2027-03-02"], {"2027-03-01"}, 0.0).whole
    20
    """

    days: tuple[str, ...]
    whole: int
    left: float

    @classmethod
    def of(cls, per_day: float, days: Iterable[str], counted: set[str], left: float) -> "Budget":
        """Return the budget of a call, where earlier ones have counted days and left some."""
        found = set(days)
        new = tuple(sorted(found - counted))
        due = left + per_day * (len(new) if found else 1)
        whole = int(due + _ROUNDING)
        return cls(new, whole, max(0.0, due - whole))


class Batches:
    """The batches of a folder of labels, each added whole, whatever ends the program.

    Everything that a call adds is first written down beside the files: what a crash left out is
    added by the next call, as it was. Hold the folder's lock.

    Parameters
    ----------
    files : LabelFolder
        The folder.
    """

    def __init__(self, files: LabelFolder) -> None:
        self._files = files
        self._log = Log(files.path / BATCHES)
        self._pending = files.path / _PENDING
        self.all: list[Batch] = []

    @property
    def cursor(self) -> Mapping[str, Any] | None:
        """How far the last batch has read the log; None before the first one.

        Raises
        ------
        DataError
            The file that says so is missing or damaged.
        """
        if not self.all:
            return None
        path = self._files.path / _CURSOR
        remedy = "; restore it from a copy: without it lines would be drawn again"
        with file_errors(f"cannot read {path}", remedy):
            raw = path.read_bytes()
        try:
            content = json.loads(raw)
            batch, cursor = content["batch"], content["cursor"]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is damaged ({error}){remedy}") from error
        if batch != len(self.all) or not isinstance(cursor, dict):
            raise DataError(
                f"{path} is that of batch {batch}, and {BATCHES} ends with batch {len(self.all)}"
                f"{remedy}"
            )
        return cursor

    def refresh(self) -> None:
        """Take in the batches that were added, and add what a crash has left out.

        Raises
        ------
        DataError
            A line is damaged: it is named.
        """
        self._files.refresh()
        self._take_in()
        if self._pending.exists():
            self._finish()

    def add(
        self,
        batch: Batch,
        draws: Sequence[Draw],
        waiting: Sequence[Waiting],
        cursor: Mapping[str, Any],
    ) -> None:
        """Add a batch: its draws, the texts of each, and how far the log was read."""
        content = {
            "batch": batch.to_dict(),
            "cursor": cursor,
            "draws": [draw.to_dict(certify=True) for draw in draws],
            "pool": [item.to_dict() for item in waiting],
            "before": {"draws": len(self._files.ledger.answers), "pool": self._n_texts()},
        }
        with file_errors(f"cannot write into {self._files.path}", "; nothing was drawn"):
            write_atomically(self._pending, encoded(content), durable=True)
        self._finish()

    def fill(self, waiting: Sequence[Waiting]) -> None:
        """Add texts of answers that were drawn without; each says whose they are."""
        if waiting:
            Pool(self._files.path / POOL_FILE).write(waiting)

    def _finish(self) -> None:
        """Add what is not there yet of what a call was to add, texts first."""
        content = self._read_pending()
        before, pool = content["before"], self._files.path / POOL_FILE
        if self._n_texts() == before["pool"]:
            Pool(pool).write(map(Waiting.from_dict, content["pool"]))
        there = len(self._files.ledger.answers) - before["draws"]
        if there < 0:
            raise DataError(
                f"{self._files.draws.path} lacks lines that stood there when answers were drawn "
                f"last ({before['draws']}); restore it from a copy"
            )
        if left := content["draws"][there:]:
            self._files.draws.append(left)
        number = content["batch"]["batch"]
        read = {"batch": number, "cursor": content["cursor"]}
        with file_errors(f"cannot write into {self._files.path}"):
            write_atomically(self._files.path / _CURSOR, encoded(read), durable=True)
        if len(self.all) < number:
            self._log.append([content["batch"]])
        with file_errors(f"cannot remove {self._pending}"):
            self._pending.unlink()
        self._files.refresh()
        self._take_in()

    def _read_pending(self) -> dict[str, Any]:
        with file_errors(f"cannot read {self._pending}"):
            raw = self._pending.read_bytes()
        try:
            content: dict[str, Any] = json.loads(raw)
        except ValueError as error:
            raise DataError(
                f"{self._pending} is damaged ({error}); remove it: what it holds was drawn by a "
                "call that was cut short, and is drawn again"
            ) from error
        return content

    def _n_texts(self) -> int:
        path = self._files.path / POOL_FILE
        with file_errors(f"cannot read {path}", "; it holds the texts: restore it from a copy"):
            return path.read_bytes().count(b"\n")

    def _take_in(self) -> None:
        lines = self._log.appended()
        if lines is None:
            self.all, lines = [], self._log.appended() or []
        for line in lines:
            where = f"{self._log.path}, line {line.number}"
            try:
                batch = Batch.from_dict(line.content)
            except InputError as error:
                raise DataError(f"{where}: {error}; restore the line from a copy") from error
            if batch.batch != len(self.all) + 1:
                raise DataError(
                    f"{where}: batch must be {len(self.all) + 1}; got {batch.batch}: no line may "
                    "be lost; restore the file from a copy"
                )
            if not 0 < batch.drawn <= batch.rows or batch.handed_out > batch.drawn:
                raise DataError(
                    f"{where}: {batch.drawn} of {batch.rows} lines cannot have been drawn; restore "
                    "the line from a copy"
                )
            self.all.append(batch)

    @property
    def counted(self) -> set[str]:
        """Days whose budget is spent."""
        return {day for batch in self.all for day in batch.days}

    @property
    def left(self) -> float:
        """What earlier calls have left of their budget."""
        return self.all[-1].left if self.all else 0.0


def check_batches(draws: Sequence[Draw], batches: Sequence[Batch], files: LabelFolder) -> None:
    """Refuse draws that are not those that the batches count, or not of the lines they name.

    Raises
    ------
    DataError
        A line bears another batch, share or digest: it is named.
    """
    drawn: Counter[int] = Counter()
    handed_out: Counter[int] = Counter()
    for draw in draws:
        number = draw.batch
        if number is None or not 1 <= number <= len(batches):
            raise _changed(files, draw, "batch", f"one of 1 to {len(batches)}", number)
        share = batches[number - 1].share
        if draw.share != share:
            raise _changed(files, draw, "share", f"{share!r}, as {BATCHES} counts", draw.share)
        digest = None if draw.chain is None else line_digest(draw.chain, draw.seq or 0)
        if draw.digest != digest:
            raise _changed(files, draw, "digest", f"{digest!r}, by chain and seq", draw.digest)
        drawn[number] += 1
        handed_out[number] += draw.handed_out
    for batch in batches:
        found = drawn[batch.batch], handed_out[batch.batch]
        if found != (batch.drawn, batch.handed_out):
            raise DataError(
                f"{files.path / BATCHES}, line {batch.batch}: it counts {batch.drawn} draws, "
                f"{batch.handed_out} of them handed out, and {files.draws.path} holds {found[0]} "
                f"and {found[1]}; restore both from a copy"
            )


def _changed(files: LabelFolder, draw: Draw, field: str, due: str, got: object) -> DataError:
    return DataError(
        f"{files.draws.path}, line {draw.order}: {field} must be {due}; got {got!r}; restore the "
        "line from a copy"
    )
