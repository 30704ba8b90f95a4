"""Sampling of the answer to label next, with a known probability.

A guess decides how often an answer is labelled, and takes variance out of the verdict; it is never
counted as a label. It is made before the label is seen, so that the verdict is valid however bad it
is.
"""

import heapq
import json
import threading
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from calibrail.conformal.argument_checks import Floats
from calibrail.conformal.sequential.audited_calibration import LearntGuess
from calibrail.conformal.sequential.sequential_test import UnsureTest
from calibrail.data.duplicates import CopyFinder
from calibrail.data.example import Example
from calibrail.data.labels import LabelReader
from calibrail.data.values import number_in
from calibrail.errors import DataError, InputError, errors_as, file_errors
from calibrail.labelling.folder import DIGITS, POOL_FILE, LabelFolder
from calibrail.labelling.ledger import Draw, Log, Lots, Order, json_line
from calibrail.options.data import ReadOptions
from calibrail.serialization import plain

#: Groups, or answers without one, that one pass over the traces finds.
POOL: Final = 4096

_LOST: Final = (
    "; it holds the texts of the answers set aside: restore it from a copy. The labels are there "
    "all the same, and `calibrail certify --labels` reads them without it"
)


@dataclass(frozen=True, slots=True)
class PooledAnswer:
    """An answer that has its place in the order of drawing.

    Attributes
    ----------
    unit : str
        Place of what is drawn, see ``Order.unit``.
    digest : str
        Of its texts.
    example : Example
        The answer itself.
    copy_of : str or None
        Id of an earlier one of which it is a near copy: it is passed over.
    fills : int or None
        Place, from 0, of an answer whose texts were not known when it was set aside, and are these.
    lengths : mapping of str to int
        Where no text is known: how long question and response are, and how many chunks there are.
    """

    unit: str
    digest: str
    example: Example
    copy_of: str | None = None
    fills: int | None = None
    lengths: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the line of ``pool.jsonl``."""
        example = self.example
        head = {"unit": self.unit, "id": example.id, "digest": self.digest}
        if self.copy_of is not None:
            return head | {"copy_of": self.copy_of}
        texts = {name: getattr(example, name) for name in ("question", "contexts", "response")}
        more = {"samples": example.samples, "columns": example.columns, "lengths": self.lengths}
        return {
            **head,
            **({} if self.fills is None else {"fills": self.fills}),
            **{"group": example.group, **texts},
            **{name: value for name, value in more.items() if value},
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "PooledAnswer":
        """Rebuild it from its line."""
        names = ("question", "response", "group", "id", "columns")
        example = Example(
            contexts=tuple(content.get("contexts", ())),
            samples=tuple(content.get("samples", ())),
            **{name: content[name] for name in names if name in content},
        )
        more = {name: content[name] for name in ("copy_of", "fills", "lengths") if name in content}
        return cls(content["unit"], content["digest"], example, **more)


def first_units(
    examples: Iterable[Example], order: Order, *, whole_groups: bool, after: str = ""
) -> list[PooledAnswer]:
    """Return what is drawn first, in the order of drawing, after one streaming pass.

    Parameters
    ----------
    examples : iterable of Example
        Read once; only what may be among the first is kept.
    order : Order
        Of drawing.
    whole_groups : bool
        Whether all answers of a group are drawn; otherwise one, which the lot decides.
    after : str
        Place behind which the pass begins.

    Returns
    -------
    list of PooledAnswer
        Of `POOL` groups, or answers without one, at most.
    """
    units: dict[str, dict[str, PooledAnswer]] = {}
    latest: list[tuple[int, str]] = []
    last = ""
    for example in examples:
        digest = example.digest("spelt") if example.group is None else None
        unit = order.unit(example, digest)
        if unit <= after or (last and unit > last):
            continue
        waiting = PooledAnswer(unit, digest or example.digest("spelt"), example)
        if unit not in units:
            units[unit] = {}
            heapq.heappush(latest, (-int(unit, 16), unit))
            if len(latest) > POOL:
                del units[heapq.heappop(latest)[1]]
                last = latest[0][1]
        answers = units.get(unit)
        if answers is None:
            continue
        # Copies word for word are one answer, called by the least of its ids.
        same = answers.get(digest := waiting.digest)
        if same is None or example.id < same.example.id:
            answers[digest] = waiting
        if not whole_groups and len(answers) > 1:
            del answers[max(answers, key=order.within)]
    return [units[k][it] for k in sorted(units) for it in sorted(units[k], key=order.within)]


def without_copies(waiting: list[PooledAnswer], earlier: Iterable[Example]) -> list[PooledAnswer]:
    """Return the same with near copies of what is drawn before marked, whole units each.

    Parameters
    ----------
    waiting : list of Waiting
        In the order of drawing.
    earlier : iterable of Example
        What was drawn before these.
    """
    finder, ids, numbers = CopyFinder(), list[str](), array("Q")
    for example in chain(earlier, (item.example for item in waiting)):
        finder.add(example)
        ids.append(example.id)
        numbers.append(int(example.digest(), 16))
    n_before, digests = len(ids) - len(waiting), np.array(numbers, np.uint64)
    # Many answers of one template are no copies of the first that is drawn.
    groups = finder.finish(digests, digests).together
    first: dict[int, int] = {}
    unit_of = np.arange(len(ids))
    for place, item in enumerate(waiting, start=n_before):
        if place > n_before and waiting[place - n_before - 1].unit == item.unit:
            unit_of[place] = unit_of[place - 1]
    copied: dict[str, str] = {}
    for place, group in enumerate(groups.tolist()):
        if group < 0:
            continue
        original = first.setdefault(group, place)
        if place >= n_before and unit_of[original] != unit_of[place]:
            copied.setdefault(waiting[place - n_before].unit, ids[original])
    return [replace(item, copy_of=copied.get(item.unit)) for item in waiting]


class Pool:
    """The file of answers that have their place, of which only places are kept in memory.

    Parameters
    ----------
    path : Path
        ``pool.jsonl``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        #: Place behind the last answer.
        self.last = ""
        self._read_to, self._number, self._n_copies, self._n_units = 0, 0, 0, 0
        self._starts: list[int] = []
        self._units: list[str] = []
        self._copies_before: list[int] = []

    def write(self, waiting: Iterable[PooledAnswer]) -> None:
        """Add answers behind those that are there; the file is written whole or not at all."""
        before = self.path.read_bytes() if self.path.exists() else b""
        Log(self.path).rewrite(chain((before,), (json_line(item.to_dict()) for item in waiting)))

    def refresh(self) -> None:
        """Take in what was written since; only at the end is anything ever added.

        Raises
        ------
        DataError
            The file cannot be read, or a line is damaged.
        """
        with file_errors(f"cannot read {self.path}", _LOST), self.path.open("rb") as stream:
            stream.seek(self._read_to)
            for raw in stream:
                with self._named(f", line {self._number + 1},"):
                    self._take(PooledAnswer.from_dict(json.loads(raw)))
                self._number, self._read_to = self._number + 1, self._read_to + len(raw)

    def _take(self, item: PooledAnswer) -> None:
        if (place := item.fills) is not None:
            # The texts of an answer that was set aside without.
            if not 0 <= place < len(self) or self._units[place] != item.unit:
                raise ValueError(f"it holds texts for another answer than number {place}")
            self._starts[place] = self._read_to
            return
        self._n_units += item.unit != self.last
        self.last = item.unit
        if item.copy_of is not None:
            self._n_copies += 1
        else:
            self._starts.append(self._read_to)
            self._units.append(item.unit)
            self._copies_before.append(self._n_copies)

    def _named(self, where: str = "") -> AbstractContextManager[None]:
        odd = (ValueError, KeyError, TypeError, AttributeError)
        return errors_as(DataError, odd, "pool_damaged", path=self.path, where=where)

    def __len__(self) -> int:
        """Return how many answers there are to draw, copies left out."""
        return len(self._starts)

    def __getitem__(self, place: int) -> PooledAnswer:
        """Return an answer by its place in the order of drawing, from 0."""
        with file_errors(f"cannot read {self.path}", _LOST), self.path.open("rb") as stream:
            stream.seek(self._starts[place])
            raw = stream.readline()
        with self._named():
            return PooledAnswer.from_dict(json.loads(raw))

    def unit_of(self, place: int) -> tuple[int, int]:
        """Return where what is drawn with an answer begins, and behind which place it ends."""
        first, stop, unit = place, place + 1, self._units[place]
        while first > 0 and self._units[first - 1] == unit:
            first -= 1
        while stop < len(self) and self._units[stop] == unit:
            stop += 1
        return first, stop

    @property
    def may_go_on(self) -> bool:
        """Whether the last pass found as much as it was to find, so that there may be more."""
        return self._n_units > 0 and self._n_units % POOL == 0

    def copies_before(self, place: int) -> int:
        """Return how many near copies were passed over before a place."""
        return self._copies_before[place] if place < len(self) else self._n_copies


#: Predictors of a label: the guardrail's score and the value of a column, each None where unknown.
Clues: TypeAlias = tuple[float | None, float | None]


#: What a higher rating means, and beyond which it counts as hallucinated.
Cut: TypeAlias = tuple[str, float]


class JudgeColumn:
    """Reads a judge's column: its labels, or any numbers that it gives.

    Parameters
    ----------
    name : str
        Of the column; it may say what a judge's yes means, as it may for labels.
    label_map : mapping, optional
        What its words mean, as for labels.
    cut : (str, float), optional
        Of a column of ratings: what a higher one means, and beyond which it is hallucinated.

    Examples
    --------
    >>> column = JudgeColumn("judge")
    >>> column(0.25, "t1"), column("faithful", "t2")
    (0.25, 0.0)
    """

    def __init__(
        self, name: str, label_map: Mapping[str, Any] | None = None, cut: Cut | None = None
    ) -> None:
        self.name, self.cut = name, cut
        #: An answer with a number that is no label, and one with a word; None where none was met.
        self.rated: Example | None = None
        self._worded: Example | None = None
        self._numbers = array("d")
        # A judge may have any name.
        self._labels = LabelReader(ReadOptions(label_map=label_map), name, beside=())
        self._said = set[float]()

    def read(self, example: Example) -> float:
        """Return what the column says of an example; errors as of a call."""
        return self(example.columns.get(self.name), example.id)

    def call(self, example: Example) -> int | None:
        """Return the label that the column gives an example; None where its cell is empty.

        Raises
        ------
        DataError
            It is neither class; the answer is named.
        """
        if self._labels.is_missing(value := example.columns.get(self.name)):
            return None
        if self.cut is not None and (number := number_in(value)) is not None:
            return int((number > self.cut[1]) == (self.cut[0] == "hallucinated"))
        if self.cut is not None:
            raise DataError.on("rating_not_read", id=example.id, value=value, name=self.name)
        if (label := self._labels(value)) not in (0, 1):
            raise DataError.on("call_not_read", id=example.id, value=value, name=self.name)
        return label

    def take_in(self, example: Example) -> None:
        """Keep a number, which may be a rating; errors as of ``call`` on anything else."""
        value = example.columns.get(self.name)
        if (number := number_in(value)) is None or self._labels.is_missing(value):
            if self.call(example) is not None:
                self._worded = example
            return
        self._numbers.append(number)
        if self.rated is None and self._labels(value) not in (0, 1):
            self.rated = example

    def set_cut(self, higher: str, share: float) -> None:
        """Cut the ratings so that about a share of them is hallucinated.

        Raises
        ------
        DataError
            There are words, too.
        InputError
            All ratings are the same.
        """
        values, counts = np.unique(self._numbers, return_counts=True)
        if len(values) < 2:
            raise InputError.on("judge_constant", name=self.name, value=values[0])
        below = np.cumsum(counts)[:-1] / counts.sum()
        place = np.argmin(np.abs(below - (1.0 - share if higher == "hallucinated" else share)))
        self.cut = higher, float(np.mean(values[place : place + 2]))
        if self._worded is not None:
            self.call(self._worded)

    def __call__(self, value: float | str | None, id: str) -> float:
        """Return what the column says of an answer.

        Raises
        ------
        DataError
            The value is neither, or there is none; the answer is named.
        """
        if value is None:
            raise DataError.on("judge_missing", id=id, name=self.name)
        said = value if isinstance(value, float) else self._labels(value)
        if said is None or not (isinstance(value, float) or said in (0, 1)):
            raise DataError.on("judge_not_read", id=id, value=value, name=self.name)
        # Two values are enough to know that they differ.
        if len(self._said) < 2:
            self._said.add(float(said))
        return float(said)

    def refuse_constant(self) -> None:
        """Raise where all answers read so far have the same value.

        Raises
        ------
        InputError
            The column tells no answer from another.
        """
        if len(self._said) == 1:
            raise InputError.on("judge_constant", name=self.name, value=min(self._said))


def calls_of(
    judges: Iterable[JudgeColumn], example: Example, flagged: bool | None = None
) -> dict[str, int]:
    """Return who says what of an answer: judges by their columns, and the guardrail by its flag."""
    said = {judge.name: judge.call(example) for judge in judges}
    said |= {"guardrail": None if flagged is None else int(flagged)}
    return {name: call for name, call in said.items() if call is not None}


class Guesser:
    """Learns from labels how likely an answer is hallucinated, by its clues.

    Parameters
    ----------
    folder : LabelFolder
        What is drawn and labelled.
    """

    def __init__(self, folder: LabelFolder) -> None:
        self._folder = folder
        self._learnt: tuple[int, LearntGuess] | None = None

    def __call__(self, clues: Sequence[Clues]) -> Floats:
        """Return P(hallucinated) as guessed for answers, shape (n,)."""
        ledger = self._folder.ledger
        if self._learnt is None or self._learnt[0] != ledger.version:
            self._learnt = ledger.version, LearntGuess.of(*ledger.lessons())
        numbers = np.array(clues, np.float64).reshape(-1, 2)
        return np.asarray(np.round(self._learnt[1](numbers), 6))


#: Answers that the guardrail decides about in one go: while somebody waits, and ahead of time.
_NOW: Final = 8
_AHEAD: Final = 32
#: Groups, or answers, that are drawn in one go where the lot hands out none of them.
_IN_A_ROW: Final = 128


class GuardrailOutcome(NamedTuple):
    """What the frozen guardrail says of an answer: its score, None if undefined, and its flag."""

    score: float | None
    flagged: bool


#: From answers to what the frozen guardrail says of each.
Judge: TypeAlias = Callable[[Sequence[Example]], Sequence[GuardrailOutcome]]

#: Reads the traces again, from the start.
Reread: TypeAlias = Callable[[], Iterable[Example]]


class _Ready(NamedTuple):
    """What is known of an answer before it is drawn."""

    item: PooledAnswer
    outcome: GuardrailOutcome | None
    column: float | None

    @property
    def clues(self) -> Clues:
        """What a guess rests on."""
        return None if self.outcome is None else self.outcome.score, self.column


class Sampler:
    """Draws answers one after another and writes down each draw before anybody sees it.

    The guardrail decides about the answers that come next in the background.

    Parameters
    ----------
    folder : LabelFolder
        Up to date, and locked, whenever ``draw`` is called.
    judge : callable or None
        The frozen guardrail; None where labels are for a threshold.
    reread : callable
        Gives the traces once more, when nearly all that were set aside are drawn.
    lots : Lots, optional
        Those that fell elsewhere; without them nothing is drawn where such lots decide.
    """

    def __init__(
        self, folder: LabelFolder, judge: Judge | None, reread: Reread, lots: Lots | None = None
    ) -> None:
        self._folder, self._judge, self._reread, self._lots = folder, judge, reread, lots
        self._order = Order(folder.plan.seed, folder.plan.one_spelling)
        self.pool = Pool(folder.path / POOL_FILE)
        self.pool.refresh()
        self._ready: dict[int, _Ready] = {}
        self._deciding: Future[dict[int, _Ready]] | None = None
        self._nothing_after = ""
        self._test: UnsureTest | None = None
        judged = folder.plan.judge
        words = folder.plan.reading.get("settings", {}).get("label_map")
        self._column = None if judged is None else JudgeColumn(judged, words)
        cuts = folder.plan.cuts
        self._judges = [JudgeColumn(it, words, cuts.get(it)) for it in folder.plan.judges]
        self._guesser = Guesser(folder)

    @property
    def exhausted(self) -> bool:
        """Whether everything is drawn."""
        return len(self._folder.ledger.answers) >= len(self.pool) and not self._has_more

    def draw(self) -> bool:
        """Draw what comes next until something is handed out; return False if nothing is left.

        A group is drawn whole. Nothing is drawn that is not on the disk.
        """
        answers = self._folder.ledger.answers
        if self._folder.plan.elsewhere is not None and self._lots is None:
            return False
        # All that is drawn until something is handed out has its chance by the same labels.
        self._test = self._folder.ledger.test_for_drawing
        last, lines = answers[-1].draw if answers else None, list[Draw]()
        for _ in range(_IN_A_ROW):
            place = len(answers) + len(lines)
            if place >= len(self.pool) and not self._more(place):
                break
            unit = self._unit(place, last)
            last = unit[-1]
            lines += unit
            if any(line.handed_out for line in unit):
                break
        if not lines:
            return False
        certify = self._folder.plan.purpose == "certify"
        self._folder.draws.append(line.to_dict(certify=certify) for line in lines)
        self._folder.refresh()
        return True

    def look_ahead(self) -> None:
        """Let the guardrail decide in the background about the answers that come next."""
        place = len(self._folder.ledger.answers)
        self._ready = {index: item for index, item in self._ready.items() if index >= place}
        first = max(self._ready, default=place - 1) + 1
        places = range(first, min(first + _AHEAD, len(self.pool)))
        if self._judge is None or self._deciding is not None or len(self._ready) > _AHEAD:
            return
        if places:
            self._deciding = future = Future[dict[int, _Ready]]()

            def decide() -> None:
                try:
                    future.set_result(self._decided(places))
                except BaseException as error:
                    future.set_exception(error)

            # The end of the program does not wait for it.
            threading.Thread(target=decide, name="calibrail-label", daemon=True).start()

    def _unit(self, place: int, last: Draw | None) -> list[Draw]:
        """Return the draws of all answers of what comes next, by what is known now."""
        # Where a crash tore a group, the rest of it comes first.
        first, stop = self.pool.unit_of(place)
        unit = 0 if last is None else last.unit
        unit += first == place
        self._prepare(place, stop)
        draws = []
        for index in range(place, stop):
            item, outcome, column = self._ready[index]
            guess, chance = self._chance(index)
            handed_out = self._order.lot("labelled", item.digest) < chance
            if self._lots is not None:
                least = self._folder.plan.drawing.floors[0 if outcome and outcome.flagged else 1]
                chance, handed_out = self._lots.fell(item.example.id, least)
            head = index + 1, unit, stop - first, item.example.id, item.example.group, item.digest
            score, flagged = outcome or (None, None)
            more = plain(score), flagged, guess, column, self._folder.agreed_on[:DIGITS]
            draws.append(Draw(*head, chance, handed_out, *more))
        return draws

    def _chance(self, place: int) -> tuple[float | None, float]:
        """Return the guess for an answer, and with which probability it is handed out."""
        drawing, test, ready = self._folder.plan.drawing, self._test, self._ready[place]
        if not drawing.weighted:
            return None, 1.0
        flagged = None if ready.outcome is None else ready.outcome.flagged
        guess = self._guesser([ready.clues])
        if drawing.design == "disagreements":
            differ = len({*calls_of(self._judges, ready.item.example, flagged).values()}) > 1
            return float(guess[0]), 1.0 if differ else drawing.floors[flagged is False]
        assert test is not None
        return float(guess[0]), float(test.probability([bool(flagged)], guess)[0])

    def _prepare(self, place: int, stop: int) -> None:
        """Have the guardrail's word on answers; on those that come next, too."""
        wanted = set(range(place, stop))
        if self._deciding is not None and not wanted <= self._ready.keys():
            deciding, self._deciding = self._deciding, None
            self._ready |= deciding.result()
        if not wanted <= self._ready.keys():
            ahead = _NOW if self._judge is not None else 1
            places = range(place, min(max(place + ahead, stop), len(self.pool)))
            self._ready |= self._decided(places)

    def _decided(self, places: range) -> dict[int, _Ready]:
        """Return what is known of answers before they are drawn."""
        items = [self.pool[index] for index in places]
        outcome: Sequence[GuardrailOutcome | None] = [None] * len(items)
        if self._judge is not None:
            outcome = self._judge([item.example for item in items])
        columns = [None if self._column is None else self._column.read(it.example) for it in items]
        if self._judges:
            # How many of the judges call it hallucinated is what a guess learns from.
            calls = [[*calls_of(self._judges, it.example).values()] for it in items]
            columns = [float(np.mean(each)) if each else None for each in calls]
        return dict(zip(places, map(_Ready, items, outcome, columns), strict=True))

    def _more(self, place: int) -> bool:
        """Read the traces again, and set the next answers aside; return whether there are any."""
        self.pool.refresh()
        if place >= len(self.pool) and self._has_more:
            after, drawing = self.pool.last, self._folder.plan.drawing
            groups = drawing.whole_groups
            units = first_units(self._reread(), self._order, whole_groups=groups, after=after)
            earlier = (self.pool[index].example for index in range(len(self.pool)))
            if waiting := without_copies(units, earlier):
                self.pool.write(waiting)
                self.pool.refresh()
            else:
                self._nothing_after = after
        return place < len(self.pool)

    @property
    def _has_more(self) -> bool:
        """Whether traces may be left that were not set aside."""
        if self._folder.plan.purpose == "watch":
            return False
        return self.pool.may_go_on and self.pool.last != self._nothing_after
