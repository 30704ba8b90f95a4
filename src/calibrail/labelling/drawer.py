"""What is drawn next, with which probability, and does the lot hand it out?"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from calibrail.data.example import Example
from calibrail.labelling.folder import POOL_FILE, LabelFolder
from calibrail.labelling.lines import Draw
from calibrail.labelling.order import Order
from calibrail.labelling.pool import Pool, Waiting, first_units, without_copies

#: Answers that the guardrail decides about in one go, ahead of their turn.
_AHEAD: Final = 16


class Judged(NamedTuple):
    """What the frozen guardrail says of an answer: its score, None if undefined, and its flag."""

    score: float | None
    flagged: bool


#: From answers to what the frozen guardrail says of each.
Judge: TypeAlias = Callable[[Sequence[Example]], Sequence[Judged]]

#: Reads the traces again, from the start.
Reread: TypeAlias = Callable[[], Iterable[Example]]


class Drawer:
    """Draws answers one after another and writes down each draw before anybody sees it.

    Parameters
    ----------
    folder : LabelFolder
        Up to date, and locked, whenever ``draw`` is called.
    judge : callable or None
        The frozen guardrail; None where labels are for a threshold.
    reread : callable
        Gives the traces once more, when all that were set aside are drawn.
    """

    def __init__(self, folder: LabelFolder, judge: Judge | None, reread: Reread) -> None:
        self._folder, self._judge, self._reread = folder, judge, reread
        self._order = Order(folder.plan.seed)
        self.pool = Pool(folder.path / POOL_FILE)
        self.pool.refresh()
        self._judged: dict[int, Judged] = {}
        self.exhausted = False

    def draw(self) -> bool:
        """Draw what comes next, a group whole; return False where nothing is left."""
        draws = self._folder.ledger.answers
        place = len(draws)
        if place >= len(self.pool) and not self._more():
            self.exhausted = True
            return False
        # Where a crash tore a group, the rest of it comes first.
        first = place
        if draws and (last := draws[-1].draw).of > 1:
            done = sum(item.draw.unit == last.unit for item in draws[-last.of :])
            first = place - done if done < last.of else place
        stop = self.pool.unit_from(first)
        number = draws[first].draw.unit if first < place else self._units() + 1
        items = [self.pool[index] for index in range(place, stop)]
        lines = [
            self._drawn(item, index + 1, number, stop - first)
            for index, item in enumerate(items, start=place)
        ]
        certify = self._folder.plan.purpose == "certify"
        self._folder.draws.append(line.to_dict(certify=certify) for line in lines)
        self._folder.refresh()
        return True

    def _units(self) -> int:
        answers = self._folder.ledger.answers
        return answers[-1].draw.unit if answers else 0

    def _drawn(self, item: Waiting, order: int, unit: int, of: int) -> Draw:
        """Return the draw of an answer, by what is known now."""
        judged = self._judgement(order - 1)
        probability = 1.0
        handed_out = self._order.lot("labelled", item.digest) < probability
        return Draw(
            order,
            unit,
            of,
            item.example.id,
            item.example.group,
            item.digest,
            probability,
            handed_out,
            None if judged is None else judged.score,
            None if judged is None else judged.flagged,
        )

    def _judgement(self, place: int) -> Judged | None:
        """Return what the guardrail says of an answer; the next ones are decided with it."""
        if self._judge is None:
            return None
        if place not in self._judged:
            stop = min(max(place + _AHEAD, self.pool.unit_from(place)), len(self.pool))
            examples = [self.pool[index].example for index in range(place, stop)]
            said = self._judge(examples)
            self._judged = dict(zip(range(place, stop), said, strict=True))
        return self._judged[place]

    def _more(self) -> bool:
        """Set the next answers aside, from another pass over the traces."""
        self.pool.refresh()
        if len(self._folder.ledger.answers) < len(self.pool):
            return True
        found = first_units(
            self._reread(),
            self._order,
            whole_groups=self._folder.plan.drawing.whole_groups,
            after=self.pool.last,
        )
        if found:
            earlier = (self.pool[place].example for place in range(len(self.pool)))
            self.pool.write(without_copies(found, earlier))
            self.pool.refresh()
        return len(self._folder.ledger.answers) < len(self.pool)
