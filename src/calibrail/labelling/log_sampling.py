"""Sampling of answers from a decision log, in batches, with known probabilities."""

import hashlib
import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.atomic_files import read_regular, write_atomically
from calibrail.conformal.argument_checks import Bools, Floats, Ints
from calibrail.conformal.sequential.audited_calibration import labelling_probability
from calibrail.conformal.sequential.sequential_test import share_so_far
from calibrail.data.duplicates import normalise
from calibrail.data.example import Example
from calibrail.errors import DataError, InputError, errors_as, file_errors
from calibrail.labelling.folder import DIGITS, POOL_FILE, LabelFolder, read_plan
from calibrail.labelling.ledger import Draw, LedgerAnswer, Log, Order, json_line
from calibrail.labelling.replay import check_draws
from calibrail.labelling.sampling import Guesser, Pool, PooledAnswer
from calibrail.options.guarantee import Requirement
from calibrail.options.labelling import Drawing
from calibrail.serialization import Record

#: Lines that one call draws at most.
MOST: Final = 1 << 14

#: Placeholder for a limit that nobody set; the rate that it would weigh is left out.
_ANY: Final = 0.5


def line_digest(chain: str, seq: int) -> str:
    """Return 16 hexadecimal digits that stand for a line of a log: each is drawn by itself.

    >>> line_digest("20270301T000000-1-00000000", 7)
    '3493cbe8d4414425'
    """
    return hashlib.sha256(f"{chain}\0{seq}".encode()).hexdigest()[:16]


def question_digest(example: Example) -> str | None:
    """Return 16 hexadecimal digits that stand for the words of a question and of its chunks.

    Chunks belong to it: "Summarise this" is another question of another text. None where there is
    neither.

    >>> question_digest(Example("Who wrote it?")) == question_digest(Example("who wrote it"))
    True
    """
    words = [normalise(text) for text in (example.question, *example.contexts)]
    if not any(words):
        return None
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class LogCandidate:
    """A line of a log that may be drawn.

    Attributes
    ----------
    chain, seq
        Where it stands.
    time : str or None
        When it was logged.
    score : float or None
        What the guardrail said; None where it is undefined.
    flagged : bool
        Whether the answer was not passed.
    group : str or None
        Where the guardrail has thresholds by group.
    language : str or None
        Where it is known.
    example : Example
        Its id, and its texts and the column of its score where the log holds them.
    lengths : mapping of str to int
        How long its texts are, where the log holds none.
    judged : float or None
        What a judge says of it.
    """

    chain: str
    seq: int
    time: str | None
    score: float | None
    flagged: bool
    group: str | None
    language: str | None
    example: Example
    lengths: Mapping[str, int] = field(default_factory=dict)
    judged: float | None = None


class LogSampler:
    """Holds the lines whose lots come first, of however many there are.

    The place of a line follows from the seed, its chain and its number there, so that the lines
    drawn are a uniform sample without replacement, and the same ones in whatever order and in how
    many files the log is read.

    Parameters
    ----------
    seed : int
        Of all lots.
    most : int
        Lines to hold.
    """

    def __init__(self, seed: int, most: int = MOST) -> None:
        self._order, self._most = Order(seed), most
        self._held: list[tuple[int, LogCandidate]] = []
        #: Lines offered so far, their days (UTC), and the earliest and the latest time of them.
        self.n = 0
        self.days: set[str] = set()
        self.first: str | None = None
        self.last: str | None = None

    def offer(
        self, chain: str, seq: int, time: str | None, make: Callable[[], LogCandidate]
    ) -> None:
        """Take in a line, which is made only where its lot is among the first."""
        self.n += 1
        if time is not None:
            self.days.add(time[:10])
            self.first = time if self.first is None else min(self.first, time)
            self.last = time if self.last is None else max(self.last, time)
        place = -int(self._order.alone(line_digest(chain, seq)), 16)
        if len(self._held) < self._most:
            heapq.heappush(self._held, (place, make()))
        elif place > self._held[0][0]:
            heapq.heapreplace(self._held, (place, make()))

    def candidates(self) -> list[LogCandidate]:
        """Return the lines held, in the order of drawing."""
        return [item for _, item in sorted(self._held, key=lambda pair: -pair[0])]


def probabilities(
    candidates: Sequence[LogCandidate],
    files: LabelFolder,
    limits: tuple[float | None, float | None],
) -> tuple[list[float | None], list[float]]:
    """Return the guess for each line, and with which probability it is handed out.

    Both follow from the labels there are, and are fixed before those of these lines are seen.

    Parameters
    ----------
    candidates : sequence of Candidate
        In the order of drawing.
    files : LabelFolder
        Up to date.
    limits : (float or None, float or None)
        Coverage that must be kept and FPR that may not be exceeded, None where nobody said.
    """
    drawing = files.plan.drawing
    if drawing.design == "uniform" or not candidates:
        return [None] * len(candidates), [1.0] * len(candidates)
    known = [item for item in files.ledger.answers if item.label is not None]
    weights = [1.0 / item.draw.probability for item in known]
    hallucinated = sum(w for w, item in zip(weights, known, strict=True) if item.label == 1)
    least, most = (_ANY if limit is None else limit for limit in limits)
    guesses = Guesser(files)([(item.score, item.judged) for item in candidates])
    chances = labelling_probability(
        np.array([item.flagged for item in candidates]),
        guesses,
        Requirement(max_false_alarms=most, min_caught=least),
        drawing,
        base_rate=float(share_so_far(hallucinated, round(sum(weights)))),
        undecided=(limits[0] is not None, limits[1] is not None),
    )
    return [float(item) for item in guesses], chances.tolist()


def draw_lines(
    candidates: Sequence[LogCandidate],
    files: LabelFolder,
    limits: tuple[float | None, float | None],
    *,
    budget: int,
    n_rows: int,
) -> list[Draw]:
    """Draw as many lines as hand out the budget on average, and let the lot of each say which.

    How many are drawn follows from the probabilities of all candidates, before any lot: what a draw
    stands for depends on no lot and on no place in the order. So about the budget is handed out,
    and exactly that with the design ``uniform``.

    Returns
    -------
    list of Draw
        Those drawn, handed out or not; their batch is the next one.
    """
    order, answers = Order(files.plan.seed), files.ledger.answers
    guesses, chances = probabilities(candidates, files, limits)
    n_drawn = 0
    if chances:
        # So many hand out the budget on average; all, where they are few.
        n_drawn = min(len(chances), max(1, round(budget * len(chances) / sum(chances))))
    batch = 1 + max((answer.draw.batch or 0 for answer in answers[-1:]), default=0)
    draws = []
    drawn = islice(zip(candidates, guesses, chances, strict=True), n_drawn)
    for number, (item, guess, chance) in enumerate(drawn, start=len(answers) + 1):
        digest = line_digest(item.chain, item.seq)
        draws.append(
            Draw(
                order=number,
                unit=number,
                of=1,
                id=item.example.id,
                group=None,
                digest=digest,
                probability=chance,
                handed_out=order.lot("labelled", digest) < chance,
                score=item.score,
                flagged=item.flagged,
                guess=guess,
                column=item.judged,
                plan=files.agreed_on[:DIGITS],
                chain=item.chain,
                seq=item.seq,
                time=item.time,
                batch=batch,
                share=n_drawn / n_rows,
                log_group=item.group,
                log_language=item.language,
                question=question_digest(item.example),
            )
        )
    return draws


BATCHES: Final = "batches.jsonl"
#: How far the log was read, and by which batch.
_CURSOR: Final = "cursor.json"

#: What a call is about to add to the files; gone once it has.
_PENDING: Final = ".pending.json"
#: What rounding may take from a budget.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class DrawBatch(Record):
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
    >>> Budget.for_days(0.5, ["2027-03-01"], set(), 0.0)
    Budget(days=('2027-03-01',), whole=0, left=0.5)
    >>> Budget.for_days(20, ["2027-03-01", "2027-03-02"], {"2027-03-01"}, 0.0).whole
    20
    """

    days: tuple[str, ...]
    whole: int
    left: float

    @classmethod
    def for_days(
        cls, per_day: float, days: Iterable[str], counted: set[str], left: float
    ) -> "Budget":
        """Return the budget of a call, where earlier ones have counted days and left some."""
        logged_days = set(days)
        new = tuple(sorted(logged_days - counted))
        due = left + per_day * (len(new) if logged_days else 1)
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
        self.all: list[DrawBatch] = []

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
            raw = read_regular(path)
        odd = (ValueError, KeyError, TypeError)
        with errors_as(DataError, odd, "cursor_damaged", path=path, remedy=remedy):
            content = json.loads(raw)
            cursor: Mapping[str, Any] = content["cursor"]
            if content["batch"] != len(self.all):
                raise ValueError(f"of batch {content['batch']}, and the last is {len(self.all)}")
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
        batch: DrawBatch,
        draws: Sequence[Draw],
        waiting: Sequence[PooledAnswer],
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
            write_atomically(self._pending, json_line(content), durable=True)
        self._finish()

    def fill(self, waiting: Sequence[PooledAnswer]) -> None:
        """Add texts of answers that were drawn without; each says whose they are."""
        if waiting:
            Pool(self._files.path / POOL_FILE).write(waiting)

    def _finish(self) -> None:
        """Add what is not there yet of what a call was to add, texts first."""
        with file_errors(f"cannot read {self._pending}"):
            raw = self._pending.read_bytes()
        with errors_as(DataError, ValueError, "draws_pending_damaged", pending=self._pending):
            content = json.loads(raw)
        before, pool = content["before"], self._files.path / POOL_FILE
        there = len(self._files.ledger.answers) - before["draws"]
        if there < 0:
            raise DataError.on("draws_lost", path=self._files.draws.path, draws=before["draws"])
        if self._n_texts() == before["pool"]:
            Pool(pool).write(map(PooledAnswer.from_dict, content["pool"]))
        if left := content["draws"][there:]:
            self._files.draws.append(left)
        number = content["batch"]["batch"]
        read = {"batch": number, "cursor": content["cursor"]}
        with file_errors(f"cannot write into {self._files.path}"):
            write_atomically(self._files.path / _CURSOR, json_line(read), durable=True)
            if len(self.all) < number:
                self._log.append([content["batch"]])
            self._pending.unlink()
        self._files.refresh()
        self._take_in()

    def _n_texts(self) -> int:
        path = self._files.path / POOL_FILE
        with file_errors(f"cannot read {path}", "; it holds the texts: restore it from a copy"):
            return path.read_bytes().count(b"\n")

    def _take_in(self) -> None:
        lines = self._log.read_on()
        if lines is None:
            self.all, lines = [], self._log.read_on() or []
        for line in lines:
            with errors_as(DataError, InputError, "batches_line", path=self._log.path, line=line):
                batch = DrawBatch.from_dict(line.content)
                if batch.batch != len(self.all) + 1:
                    raise InputError(f"batch must be {len(self.all) + 1}; got {batch.batch}")
                if not batch.handed_out <= batch.drawn <= batch.rows or not batch.drawn:
                    raise InputError(f"{batch.drawn} of {batch.rows} lines cannot have been drawn")
            self.all.append(batch)

    @property
    def counted(self) -> set[str]:
        """Days whose budget is spent."""
        return {day for batch in self.all for day in batch.days}

    @property
    def left(self) -> float:
        """What earlier calls have left of their budget."""
        return self.all[-1].left if self.all else 0.0


def check_batches(draws: Sequence[Draw], batches: Sequence[DrawBatch], files: LabelFolder) -> None:
    """Refuse draws that are not those that the batches count, or not of the lines they name.

    Raises
    ------
    DataError
        A line bears another batch, share or digest: it is named.
    """
    drawn = Counter(draw.batch for draw in draws)
    handed_out = Counter(draw.batch for draw in draws if draw.handed_out)
    shares = {item.batch: item.share for item in batches}
    for draw in draws:
        digest = None if draw.chain is None else line_digest(draw.chain, draw.seq or 0)
        for name, holds, due in (
            ("batch", draw.batch in shares, f"one of 1 to {len(batches)}"),
            ("share", draw.share == (share := shares.get(draw.batch or 0)), f"{share!r}, by batch"),
            ("digest", draw.digest == digest, f"{digest!r}, by chain and seq"),
        ):
            if not holds:
                raise DataError(
                    f"{files.draws.path}, line {draw.order}: {name} must be {due}; got "
                    f"{getattr(draw, name)!r}; restore the line from a copy"
                )
    for batch in batches:
        n, handed = drawn[batch.batch], handed_out[batch.batch]
        if (n, handed) != (batch.drawn, batch.handed_out):
            path = files.path / BATCHES
            raise DataError.on(
                "batch_counts", path=path, batch=batch, files=files, n=n, handed=handed
            )


@dataclass(frozen=True, slots=True, eq=False)
class LabelledSample:
    """Answers drawn from a decision log, in the order drawn; arrays of shape (n,).

    Attributes
    ----------
    flagged : ndarray of bool
        Whether the guardrail did not pass the answer.
    label : ndarray of float64
        1 hallucinated, 0 faithful; NaN where there is no label, or none that says which.
    settled : ndarray of bool
        False where people are to label it and have not yet, or disagree. Answers that the lot
        left unlabelled are settled: nothing of them is to come.
    unsure : ndarray of bool
        Whether the final label is that nobody can tell.
    handed_out : ndarray of bool
        Whether the lot of its probability handed it out.
    probability : ndarray of float64
        With which it was to be handed out, in (0, 1]; known before its label.
    guess : ndarray of float64
        P(hallucinated) as guessed before its label; NaN with the design ``uniform``.
    share : ndarray of float64
        Of the lines of the log that its batch was drawn from, how many were drawn.
    time : ndarray of float64
        When it was logged, in seconds since 1970 (UTC); NaN where that is not known.
    batch : ndarray of int64
        1, 2, ...: the call that drew it.
    score : ndarray of float64
        What the guardrail said; NaN where undefined.
    group : ndarray of object
        Group (str) where the guardrail has thresholds by group, else None.
    language : ndarray of object
        Language (str) where it is known, else None.
    id : ndarray of object
        Of the answer (str); several logged lines may bear one.
    drawing : Drawing
        How they were drawn.
    guardrail : str
        Digest of the guardrail that decided about them.
    n_disagreements : int
        Answers about which annotators disagree, and nobody has settled it.
    line : ndarray of object, or None
        Chain (str) and number there (int) of the logged line, as a pair; None where not known.
    question : ndarray of object, or None
        Digest (str) of the words of question and chunks, None where not known.
    order : ndarray of int64, or None
        1, 2, ...: the number of the draw, where these are some of the draws.
    problems : tuple of str
        Lines of labels that cannot be used, each with its file, its number and a remedy.
    """

    flagged: Bools
    label: Floats
    settled: Bools
    unsure: Bools
    handed_out: Bools
    probability: Floats
    guess: Floats
    share: Floats
    time: Floats
    batch: Ints
    score: Floats
    group: NDArray[np.object_]
    language: NDArray[np.object_]
    id: NDArray[np.object_]
    drawing: Drawing = field(default_factory=Drawing)
    guardrail: str = ""
    n_disagreements: int = 0
    line: NDArray[np.object_] | None = None
    question: NDArray[np.object_] | None = None
    order: Ints | None = None
    problems: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return how many answers were drawn."""
        return len(self.flagged)


def read_sample(folder: Path) -> LabelledSample:
    """Return what a folder holds that ``label --from-log`` made, checked against its seed.

    Lines of labels that cannot be used (of an answer that was not drawn, a second one of one
    person, damaged ones) are left out and named. Draws that are not what the seed, the plan and
    the batches say are refused: their probabilities would be made up.

    Parameters
    ----------
    folder : Path
        That holds ``session.json``.

    Raises
    ------
    DataError
        The folder holds no labels, or a draw is not what it was.
    InputError
        Its answers were not drawn from a decision log.
    """
    plan = read_plan(folder, "label --from-log")
    if plan.purpose != "watch":
        raise InputError.on("folder_not_drawn_from_log", folder=folder)
    problems: list[str] = []
    files = LabelFolder(folder, problems)
    with files.lock():
        batches = Batches(files)
        batches.refresh()
    answers = files.ledger.answers
    draws = [item.draw for item in answers]
    check_draws(draws, plan, files.draws.path)
    check_batches(draws, batches.all, files)
    return replace(
        sample_of(answers),
        drawing=plan.drawing,
        guardrail=plan.guardrail or "",
        problems=tuple(problems),
    )


def sample_of(answers: Sequence[LedgerAnswer]) -> LabelledSample:
    """Return answers drawn from a log as columns."""
    draws = [item.draw for item in answers]
    standing = np.array([item.standing for item in answers], np.str_)
    label = np.array([item.label for item in answers], np.float64)
    line = np.empty(len(draws), np.object_)
    line[:] = [(draw.chain or "", draw.seq or 0) for draw in draws]

    def column(name: str, kind: type[Any]) -> Any:
        return np.array([getattr(draw, name) for draw in draws], kind)

    return LabelledSample(
        flagged=column("flagged", np.bool_),
        label=label,
        settled=np.isin(standing, ("final", "passed over")),
        unsure=np.asarray((standing == "final") & np.isnan(label)),
        handed_out=column("handed_out", np.bool_),
        probability=column("probability", np.float64),
        guess=column("guess", np.float64),
        share=column("share", np.float64),
        time=np.array([seconds(draw.time) for draw in draws], np.float64),
        batch=np.array([draw.batch or 0 for draw in draws], np.int64),
        score=column("score", np.float64),
        group=column("log_group", np.object_),
        language=column("log_language", np.object_),
        id=column("id", np.object_),
        n_disagreements=int(np.count_nonzero(standing == "disagreement")),
        line=line,
        question=column("question", np.object_),
    )


def seconds(time: str | None) -> float | None:
    """Return a time in seconds since 1970, UTC; None where none can be read.

    >>> seconds("1970-01-01T00:01:00Z"), seconds("yesterday")
    (60.0, None)
    """
    try:
        moment = datetime.fromisoformat(time or "")
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
