"""What is drawn next, with which probability, and does the lot hand it out?"""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from itertools import count, takewhile
from typing import Final, NamedTuple, TypeAlias, TypeVar

from calibrail.data.example import Example
from calibrail.labelling.elsewhere import Lots
from calibrail.labelling.folder import DIGITS, POOL_FILE, LabelFolder
from calibrail.labelling.guess import Clues, GuessColumn, Guesser
from calibrail.labelling.lines import Draw
from calibrail.labelling.order import Order
from calibrail.labelling.pool import Pool, Waiting, first_units, without_copies
from calibrail.record import plain

#: Answers that the guardrail decides about in one go: while somebody waits, and ahead of time.
_NOW: Final = 8
_AHEAD: Final = 32
#: Answers that are decided about ahead of their turn, if there is time.
_READY: Final = 96
#: Answers left from which on the traces are read again, ahead of their turn.
_FEW: Final = 1024
#: Groups, or answers, that are drawn in one go where the lot hands out none of them.
_IN_A_ROW: Final = 128


class Judged(NamedTuple):
    """What the frozen guardrail says of an answer: its score, None if undefined, and its flag."""

    score: float | None
    flagged: bool


#: From answers to what the frozen guardrail says of each.
Judge: TypeAlias = Callable[[Sequence[Example]], Sequence[Judged]]

#: Reads the traces again, from the start.
Reread: TypeAlias = Callable[[], Iterable[Example]]

#: The place behind which was looked, and what was found there.
_Found: TypeAlias = tuple[str, list[Waiting]]

_Result = TypeVar("_Result")


class _Ready(NamedTuple):
    """What is known of an answer before it is drawn."""

    item: Waiting
    said: Judged | None
    column: float | None

    @property
    def clues(self) -> Clues:
        """What a guess rests on."""
        return None if self.said is None else self.said.score, self.column


def in_background(task: Callable[[], _Result]) -> Future[_Result]:
    """Run a task beside everything else; the end of the program does not wait for it."""
    future: Future[_Result] = Future()

    def run() -> None:
        try:
            future.set_result(task())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="calibrail-label", daemon=True).start()
    return future


class Drawer:
    """Draws answers one after another and writes down each draw before anybody sees it.

    What takes long, the guardrail and reading the traces again, runs ahead in the background.

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
        self,
        folder: LabelFolder,
        judge: Judge | None,
        reread: Reread,
        lots: Lots | None = None,
    ) -> None:
        self._folder, self._judge, self._reread, self._lots = folder, judge, reread, lots
        self._order = Order(folder.plan.seed)
        self.pool = Pool(folder.path / POOL_FILE)
        self.pool.refresh()
        self._ready: dict[int, _Ready] = {}
        self._deciding: Future[dict[int, _Ready]] | None = None
        self._chances: tuple[int, dict[int, tuple[float | None, float]]] = (-1, {})
        self._reading: Future[_Found] | None = None
        self._nothing_after = ""
        self._stopped = threading.Event()
        guess = folder.plan.guess
        self._column = None if guess is None else GuessColumn(guess)
        self._guesser = Guesser(folder)

    def close(self) -> None:
        """Stop what runs in the background."""
        self._stopped.set()

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
        """Begin in the background what the next draws will need."""
        place = len(self._folder.ledger.answers)
        if self._judge is not None:
            self._decide_on(place)
        if self._reading is None and self._has_more and len(self.pool) - place < _FEW:
            self._read_on()
        elif self._reading is not None and self._reading.done() and not self._reading.exception():
            self._write_more(self._reading.result())

    def _unit(self, place: int, last: Draw | None) -> list[Draw]:
        """Return the draws of all answers of what comes next, by what is known now."""
        # Where a crash tore a group, the rest of it comes first.
        first, stop = self.pool.unit_of(place)
        unit = 0 if last is None else last.unit
        unit += first == place
        self._prepare(place, stop)
        found = []
        for index in range(place, stop):
            item, said, column = self._ready[index]
            guess, chance = self._chance(index)
            handed_out = self._order.lot("labelled", item.digest) < chance
            if self._lots is not None:
                least = self._folder.plan.drawing.floors[0 if said and said.flagged else 1]
                chance, handed_out = self._lots.fell(item.example.id, least)
            found.append(
                Draw(
                    index + 1,
                    unit,
                    stop - first,
                    item.example.id,
                    item.example.group,
                    item.digest,
                    chance,
                    handed_out,
                    None if said is None else plain(said.score),
                    None if said is None else said.flagged,
                    guess,
                    column,
                    self._folder.agreed_on[:DIGITS],
                )
            )
        return found

    def _chance(self, place: int) -> tuple[float | None, float]:
        """Return the guess for an answer, and with which probability it is handed out."""
        ledger = self._folder.ledger
        if self._folder.plan.drawing.design == "uniform":
            return None, 1.0
        if self._chances[0] != ledger.version:
            self._chances = ledger.version, {}
        known = self._chances[1]
        if place not in known:
            # Until the next label these are the same for all: those that come next are worked out
            # with it.
            test = ledger.test_for_drawing
            assert test is not None
            places = list(takewhile(self._ready.__contains__, count(place)))
            ready = [self._ready[index] for index in places]
            guesses = self._guesser([item.clues for item in ready])
            flags = [item.said is not None and item.said.flagged for item in ready]
            pairs = zip(guesses.tolist(), test.probability(flags, guesses).tolist(), strict=True)
            known |= dict(zip(places, pairs, strict=True))
        return known[place]

    def _prepare(self, place: int, stop: int) -> None:
        """Have the guardrail's word on answers; on those that come next, too."""
        wanted = range(place, stop)
        if self._deciding is not None and any(index not in self._ready for index in wanted):
            self._take_decided()
        if any(index not in self._ready for index in wanted):
            ahead = _NOW if self._judge is not None else 1
            places = range(place, min(max(place + ahead, stop), len(self.pool)))
            self._ready |= self._decided(places)

    def _decided(self, places: range) -> dict[int, _Ready]:
        """Return what is known of answers before they are drawn."""
        items = [self.pool[index] for index in places]
        said: Sequence[Judged | None] = [None] * len(items)
        if self._judge is not None:
            said = self._judge([item.example for item in items])
        columns = [None if self._column is None else self._column.of(it.example) for it in items]
        return dict(zip(places, map(_Ready, items, said, columns), strict=True))

    def _take_decided(self) -> None:
        """Wait for what was decided about in the background."""
        if self._deciding is not None:
            deciding, self._deciding = self._deciding, None
            self._ready |= deciding.result()

    def _decide_on(self, place: int) -> None:
        """Let the guardrail decide about the answers after those that it has decided about."""
        self._ready = {index: item for index, item in self._ready.items() if index >= place}
        if self._deciding is not None and self._deciding.done():
            self._take_decided()
        if self._deciding is not None or len(self._ready) > _READY - _AHEAD:
            return
        first = max(self._ready, default=place - 1) + 1
        places = range(first, min(first + _AHEAD, len(self.pool)))
        if places:
            self._deciding = in_background(lambda: self._decided(places))

    def _more(self, place: int) -> bool:
        """Set the next answers aside, from a place on; return whether there are any."""
        self.pool.refresh()
        if place >= len(self.pool) and self._has_more:
            self._write_more((self._reading or self._read_on()).result())
        return place < len(self.pool)

    @property
    def _has_more(self) -> bool:
        """Whether traces may be left that were not set aside."""
        if self._folder.plan.purpose == "watch":
            return False
        return self.pool.may_go_on and self.pool.last != self._nothing_after

    def _read_on(self) -> Future[_Found]:
        """Begin to read the traces again, for what comes after all that was set aside."""
        after, n = self.pool.last, len(self.pool)

        def read() -> _Found:
            whole = self._folder.plan.drawing.whole_groups
            examples = takewhile(lambda _: not self._stopped.is_set(), self._reread())
            found = first_units(examples, self._order, whole_groups=whole, after=after)
            earlier = (self.pool[place].example for place in range(n))
            return after, without_copies(found, earlier)

        self._reading = in_background(read)
        return self._reading

    def _write_more(self, found: _Found) -> None:
        """Write down what was found, unless another process has done so."""
        after, waiting = found
        self._reading = None
        self.pool.refresh()
        if self.pool.last != after:
            return
        if not waiting:
            self._nothing_after = after
            return
        self.pool.write(waiting)
        self.pool.refresh()
