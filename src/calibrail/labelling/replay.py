"""Folder of labels read again: its verdict from the files alone, and as a data source."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal.bounds import Bound
from calibrail.conformal.certificate import Verdict
from calibrail.conformal.sequential.sequential_test import (
    SequentialTest,
    UnsureTest,
    course_of_intervals,
)
from calibrail.data.example import FAITHFUL, TEXT_FIELDS, Example, Filtered, LabelOrigin, SourceRow
from calibrail.data.labels import meaning_of_one
from calibrail.errors import DataError, error_text
from calibrail.labelling.folder import POOL_FILE, LabelFolder
from calibrail.labelling.ledger import ROUNDING, Draw, LabelLedger, LedgerAnswer, Order, SessionPlan
from calibrail.labelling.sampling import Pool
from calibrail.labelling.session import has_text
from calibrail.options.fields import spell_option
from calibrail.options.labelling import Drawing

#: Most points of the courses that are kept.
_POINTS: Final = 40


@dataclass(frozen=True, slots=True)
class Point:
    """What the labels said after some of them.

    Attributes
    ----------
    drawn, labelled : int
        Units drawn and answers labelled by then.
    log_wealth : tuple of float
        Highest logarithms of the four wealths: coverage kept and broken, FPR kept and broken.
    coverage, fpr : Bound
        Confidence sequences.
    """

    drawn: int
    labelled: int
    log_wealth: tuple[float, ...]
    coverage: Bound
    fpr: Bound


class Replay:
    """A folder of labels, checked and recomputed.

    Parameters
    ----------
    files : LabelFolder
        Up to date.

    Attributes
    ----------
    folder : Path
        Where it is.
    plan : SessionPlan
        What was agreed on before the first label.
    answers : tuple of LedgerAnswer
        All that was drawn, in order, each with its labels.
    finals : mapping of int to (int or None)
        By order, final labels; None where nobody can tell.
    counted : int
        How many of them count: all before the first that is not settled.
    test : UnsureTest or None
        What these come to; None where labels are for a threshold.
    points : tuple of Point
        How it came to that.
    skipped : int
        Answers before the last label that somebody has put off and nobody has labelled since.
    exhausted : bool
        Whether all answers of the traces are drawn, as far as anybody came.
    torn : tuple of str
        Files whose last line a crash had torn: it was cut off.
    undone, undone_decided : int
        Labels taken back, and how many of these when a verdict had fallen.
    lost : mapping of str to int
        By annotator, labels that were there and are gone, though nobody took them back.
    """

    def __init__(self, files: LabelFolder) -> None:
        ledger, events = files.ledger, files.assignments
        self.folder, self.plan, self.torn = files.path, files.plan, files.torn
        self.answers, self.counted = tuple(ledger.answers), ledger.counted
        self.test, self.points = _course(ledger, files.plan)
        self.finals = ledger.finals
        put_off = {order for orders in events.put_off.values() for order in orders}
        self.skipped = len(put_off - self.finals.keys())
        all_drawn = events.exhausted_at == len(self.answers) > 0
        self.exhausted = files.plan.elsewhere is not None or all_drawn
        self.undone, self.undone_decided = events.undone, events.undone_decided
        self.lost = files.lost()

    @property
    def counting(self) -> tuple[LedgerAnswer, ...]:
        """The answers that count."""
        return self.answers[: self.counted]

    @property
    def decided_by(self) -> tuple[LedgerAnswer, ...]:
        """Those with which the verdict fell; all that count where it has not."""
        if self.test is None or self.test.decided is None:
            return self.counting
        last = self.test.decided.drawn
        return tuple(item for item in self.counting if item.draw.unit <= last)

    def held_up(self) -> dict[str, int]:
        """Return why answers wait that are final already, and are not counted yet.

        ``final`` counts those; ``open`` and ``disagreements`` what stands before the last of them.
        """
        behind = [i for i in range(self.counted, len(self.answers)) if i + 1 in self.finals]
        before = self.answers[self.counted : behind[-1] if behind else self.counted]
        return {
            "final": len(behind),
            "open": sum(item.standing == "open" for item in before),
            "disagreements": sum(item.standing == "disagreement" for item in before),
        }

    def judge(self) -> str | None:
        """Return which judge gave labels that count in people's place; None where people did."""
        return next((item.judge for item in self.counting if item.judge), None)

    def blind_verdict(self) -> Verdict | None:
        """Return the verdict of the labels as they were before reviews; None without a change."""
        if self.plan.requirement is None or not any(item.changed for item in self.counting):
            return None
        ledger = LabelLedger(self.plan)
        for item in self.counting:
            ledger.add_answer(item.before_review())
        test, _ = _course(ledger, self.plan)
        return None if test is None else test.verdict

    def labels(self) -> dict[str, int]:
        """Return how many answers have which final label, those that do not count yet included."""
        final = Counter(self.finals.values())
        return {"hallucinated": final[1], "faithful": final[0], "unsure": final[None]}

    def double_labels(self) -> tuple[NDArray[np.int64], int]:
        """Return answers that two people labelled: by their labels, shape (2, 2), and unsure ones.

        Of each answer the first two of the annotators in the order of their names; what settled a
        disagreement is neither. The second number counts pairs in which either was unsure.
        """
        table, unsure = np.zeros((2, 2), np.int64), 0
        for item in self.answers:
            if len(item.labels) < 2:
                continue
            one, other = (item.labels[name].label for name in sorted(item.labels)[:2])
            if one is None or other is None:
                unsure += 1
            else:
                table[one, other] += 1
        return table, unsure


def replay(folder: Path) -> Replay:
    """Read a folder of labels, check every line, and recompute what the labels say.

    Only ``session.json``, ``draws.jsonl``, ``labels.jsonl`` and ``handed.jsonl`` are read.

    Raises
    ------
    DataError
        A line is broken, missing, of an unknown answer or there twice, or was not drawn as the
        seed says: the file and the line are named.
    """
    files = LabelFolder(folder)
    with files.lock():
        files.refresh()
    check_draws([answer.draw for answer in files.ledger.answers], files.plan, files.draws.path)
    return Replay(files)


def _course(ledger: LabelLedger, plan: SessionPlan) -> tuple[UnsureTest | None, tuple[Point, ...]]:
    """Return what the labels say, and how they came to it."""
    if plan.requirement is None:
        return None, ()
    test = UnsureTest.of(SequentialTest(plan.requirement, plan.drawing))
    states: list[UnsureTest] = []
    counted = ledger.counted
    units = [item.draw.unit for item in ledger.answers[:counted]]
    # Behind the last answer of every so many units.
    last = [i for i in range(1, counted + 1) if i == counted or units[i] != units[i - 1]]
    step = max(1, -(-len(last) // _POINTS))
    stops = sorted({*last[step - 1 :: step], *last[-1:]})
    for start, stop in pairwise([0, *stops]):
        test = test.update(**ledger.columns(start, stop))
        states.append(test)
    points = tuple(
        Point(state.certifying.drawn, state.certifying.labelled, state.log_wealth(), *bounds)
        for state, bounds in zip(states, course_of_intervals(states), strict=True)
    )
    return test, points


def check_draws(draws: Sequence[Draw], plan: SessionPlan, path: Path) -> None:
    """Refuse draws whose lots, probabilities or places are not those of the seed.

    Raises
    ------
    DataError
        The file and the line are named.
    """
    order, last = Order(plan.seed, plan.one_spelling), (0, "", "")
    numbers: dict[str, int] = {}
    for draw in draws:
        unit = order.unit(Example(group=draw.group), draw.digest)
        place = (draw.batch or 0, unit, order.within(draw.digest))
        why = _wrong_lot(draw, plan, order)
        if numbers.setdefault(unit, draw.unit) != draw.unit or place <= last:
            why = why or error_text("drawn_out_of_order", draw=draw)
        if last[1] == unit and not plan.drawing.whole_groups:
            why = why or f"a second answer of the group {draw.group!r} was drawn"
        if why:
            raise DataError(f"{path}, line {draw.order}: {why}; restore the file from a copy")
        last = place


def _wrong_lot(draw: Draw, plan: SessionPlan, order: Order) -> str | None:
    """Return what is wrong with the lot of an answer, and with its probability."""
    frozen = plan.guardrail is not None
    if frozen and draw.flagged is None:
        return f"it says not whether the guardrail flags {draw.id!r}"
    least = plan.drawing.floors[0 if draw.flagged else 1] if frozen else 0.0
    if draw.probability < least - ROUNDING:
        outcome = "flagged" if draw.flagged else "passed"
        return error_text("drawn_below_floor", least=least, of=outcome, plan=plan, draw=draw)
    fell = order.lot("labelled", draw.digest) < draw.probability
    # What was labelled elsewhere was chosen by lots that this seed knows nothing of.
    if plan.elsewhere is None and fell != draw.handed_out:
        return error_text("lot_fell_otherwise", draw=draw, was="was" if fell else "was not")
    return None


def labelled_answers(folder: Path) -> tuple[Iterator[SourceRow | Filtered], LabelOrigin]:
    """Return the answers of a folder with their final labels, and how they were drawn.

    Answers are taken in the order they were drawn, up to the first one that is not settled, as a
    verdict counts them: nobody chooses which ones by putting others off. What is left out is
    counted by its reason. Answers about which nobody could tell take no part, so what is promised
    and measured is about answers that can be judged.

    Raises
    ------
    DataError
        A line of a file is not what it should be, a text is missing, or the answers were drawn
        with different probabilities.
    """
    files = LabelFolder(folder)
    with files.lock():
        files.refresh()
    ledger, plan = files.ledger, files.plan
    if len({item.draw.probability for item in ledger.answers}) > 1:
        option = spell_option(Drawing, "design", plan.drawing.design)
        raise DataError.on("drawn_unequally", folder=folder, plan=plan, option=option)
    judge = next((item.judge for item in ledger.answers if item.judge), None)
    whose = plan.guardrail, judge, sum(item.changed for item in ledger.answers)
    origin = LabelOrigin(plan.purpose, plan.drawing.design, plan.seed, *whose)
    return _rows(ledger, Pool(folder / POOL_FILE)), origin


def drawn_answers(folder: Path) -> tuple[list[tuple[Example, LedgerAnswer]], int]:
    """Return the answers drawn that count, labelled or passed over, each with its texts.

    By the probabilities of the draws, labels of answers that were drawn unequally stay a sample.
    Of batches of which more was drawn, so many are set aside that all came alike; the number of
    their labels is returned, too. What a judge said when answers were drawn is in its column.
    """
    files, pool = LabelFolder(folder), Pool(folder / POOL_FILE)
    with files.up_to_date():
        pool.refresh()
    answers, stay = files.ledger.answers[: files.ledger.counted], _evenly_drawn(files.ledger)
    kept = [(pool[i].example, it) for i, it in enumerate(answers) if it.draw.order in stay]
    # A draw keeps 1 for hallucinated, and under some names a 1 would be read as faithful.
    if (judge := files.plan.judge) is not None and meaning_of_one(judge) != FAITHFUL:
        said = [{} if it.draw.column is None else {judge: it.draw.column} for _, it in kept]
        both = zip(kept, said, strict=True)
        kept = [(replace(ex, columns={**own, **ex.columns}), it) for (ex, it), own in both]
    aside = (it.label is not None for it in answers if it.draw.order not in stay)
    return kept, sum(aside)


def _evenly_drawn(ledger: LabelLedger) -> set[int]:
    """Return which draws stay, so that of each batch the same share of its lines was drawn."""
    draws, order = [item.draw for item in ledger.answers], Order(ledger.plan.seed)
    least = min((draw.share or 1.0 for draw in draws), default=1.0)
    return {it.order for it in draws if order.lot("even", it.digest) < least / (it.share or 1.0)}


def _rows(ledger: LabelLedger, pool: Pool) -> Iterator[SourceRow | Filtered]:
    """Yield each answer drawn, numbered by its place in the order of drawing.

    Those on screens when labelling stopped, behind the last label, are not among them.
    """
    pool.refresh()
    counted, stay = ledger.counted, _evenly_drawn(ledger)
    labelled = [place for place, item in enumerate(ledger.answers) if item.standing != "open"]
    for place, answer in enumerate(ledger.answers[: max(labelled, default=-1) + 1]):
        reason = _left_out(answer, counts=place < counted)
        if reason is None and answer.draw.order not in stay:
            reason = "set aside at random: of other days a smaller share was drawn"
        if reason is not None:
            yield Filtered(answer.draw.order, reason)
            continue
        if place >= len(pool) or (item := pool[place]).digest != answer.draw.digest:
            raise DataError.on("pool_without_answer", pool=pool, answer=answer)
        example = item.example
        if ledger.plan.purpose == "watch" and not (has_text(example) or example.columns):
            yield Filtered(answer.draw.order, "no text of it is known")
            continue
        names = "id", "group", *TEXT_FIELDS, "samples"
        fields: dict[str, Any] = {name: getattr(example, name) for name in names}
        fields |= {name: list(fields[name]) for name in ("contexts", "samples")}
        fields |= {"label": answer.label, "spans": answer.spans}
        yield SourceRow(answer.draw.order, {**example.columns, **fields})


def _left_out(answer: LedgerAnswer, *, counts: bool) -> str | None:
    """Return why an answer takes no part; None where it does."""
    if answer.standing == "disagreement":
        return "annotators disagree, and nobody has settled it"
    if answer.standing != "final":
        return "drawn and not labelled yet"
    if not counts:
        return "labelled, but behind an answer that is not settled yet"
    return "nobody could tell" if answer.label is None else None


def evenly_labelled(
    people: Mapping[int, Example], chances: Sequence[float], parts: Sequence[str] | None = None
) -> dict[int, Example]:
    """Return the labelled rows that stay, so that all were drawn with equal probabilities.

    A row that was drawn with probability q stays with min q / q, by a hash of its content; of
    several ``parts``, all those of one. Rows of which nothing tells them apart are numbered, by
    what is ``alike`` before them: else all that have the same labels would stay, or none.
    """
    least, alike = dict[str, float](), Counter[str]()
    parts = parts or [""] * len(chances)
    for part, chance in zip(parts, chances, strict=True):
        least[part] = min(chance or 1.0, least.get(part, 1.0))
    stay: dict[int, Example] = {}
    for row, example in people.items():
        number = alike[digest := example.digest()]
        alike[digest] += example.known_by in ("content", "nothing")
        lot = Order(0).lot("alike", f"{digest} {number}") if number else int(digest, 16) / 2.0**64
        if lot < least[parts[row]] / chances[row]:
            stay[row] = example
    return stay
