"""Ledger of all answers drawn and their labels, and the verdict that they come to."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from calibrail.conformal.sequential.test import SequentialTest, UnsureTest
from calibrail.conformal.validation import Floats, Ints
from calibrail.labelling.plan import Order, SessionPlan
from calibrail.labelling.store import Draw, Label, Span

#: Where an answer stands: not to be labelled, labelled by too few, labelled differently, done.
Standing = Literal["passed over", "open", "disagreement", "final"]


@dataclass(slots=True)
class LedgerAnswer:
    """One answer drawn, with all labels that it has been given."""

    draw: Draw
    needs: int
    labels: dict[str, Label] = field(default_factory=dict)
    settled: Label | None = None

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
        if self.standing != "final":
            return None
        return next(iter(self.labels.values())).label

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
        self._restart()

    def _restart(self) -> None:
        self._counted = 0
        requirement, drawing = self.plan.requirement, self.plan.drawing
        begin = None if requirement is None else SequentialTest(requirement, drawing)
        self._test = None if begin is None else UnsureTest.of(begin)

    def add_draw(self, draw: Draw) -> None:
        """Take in one more answer drawn."""
        shared = self._order.lot("shared", draw.digest) < self.plan.shared
        self.answers.append(LedgerAnswer(draw, needs=2 if shared else 1))
        self.version += draw.handed_out

    def add_label(self, label: Label) -> None:
        """Take in one more label."""
        answer = self.answers[label.order - 1]
        if label.settles:
            answer.settled = label
        else:
            answer.labels[label.annotator] = label
        self.of_annotator[label.annotator].append(label)
        self.version += 1
        if label.order <= self._counted:
            self._restart()

    @property
    def unsettled(self) -> list[int]:
        """Orders of answers handed out that are not final, as they were drawn."""
        waits = ("open", "disagreement")
        return [item.draw.order for item in self.answers if item.standing in waits]

    @property
    def tally(self) -> Counter[int | None]:
        """How many answers have which final label."""
        return Counter(item.label for item in self.answers if item.standing == "final")

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
        return [item.draw.order for item in self.answers if item.standing == "disagreement"]

    def lessons(self) -> tuple[Floats, Ints, Floats]:
        """Return clues of answers with a final label, these labels, and clues of all drawn.

        Clues are score and column, shape (n, 2), NaN where there is none. What is drawn after the
        last answer handed out plays no part, so that what is learnt depends on labels, and not on
        when it is asked for.
        """
        orders = [item.draw.order for item in self.answers if item.draw.handed_out]
        answers = self.answers[: orders[-1] if orders else 0]
        clues = [(item.draw.score, item.draw.column) for item in answers]
        drawn = np.array(clues, np.float64).reshape(-1, 2)
        labels = np.array([item.label for item in answers], np.float64)
        known = ~np.isnan(labels)
        return drawn[known], labels[known].astype(np.int64), drawn

    @property
    def counted(self) -> int:
        """Answers drawn that the verdict counts: all before the first that is not settled."""
        first = next(iter(self.unsettled), len(self.answers) + 1) - 1
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
        unsure = [
            draw.handed_out and label is None for draw, label in zip(draws, labels, strict=True)
        ]
        columns: dict[str, Any] = {"flagged": [bool(draw.flagged) for draw in draws]}
        columns |= {"hallucinated": np.array(labels, np.float64), "unsure": unsure}
        if drawing.design == "active":
            columns["probability"] = [draw.probability for draw in draws]
            columns["guess"] = [draw.guess for draw in draws]
        if drawing.whole_groups:
            columns["groups"] = [draw.unit for draw in draws]
        return columns

    def _complete(self, n: int) -> bool:
        """Return whether the first n answers drawn end with the last one of a unit."""
        draws = [item.draw for item in self.answers[max(0, n - self.answers[n - 1].draw.of) : n]]
        return len(draws) == draws[-1].of and draws[0].unit == draws[-1].unit
