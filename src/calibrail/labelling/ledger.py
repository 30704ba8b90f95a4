"""Plan and ledger of a label session: what was agreed on, and what was labelled since.

All of it follows from the seed and from what is drawn, so that nothing needs to be remembered: the
same traces, in whatever order they are stored, are drawn in the same one.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np

from calibrail.conformal.argument_checks import Floats, Ints
from calibrail.conformal.sequential.sequential_test import SequentialTest, UnsureTest
from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.labelling.store import Draw, Label, Span
from calibrail.options import Promise, Requirement
from calibrail.options.fields import spell_option
from calibrail.options.labelling import Drawing
from calibrail.serialization import Record


@dataclass(frozen=True, slots=True)
class Order:
    """The order of drawing that a seed gives.

    Examples
    --------
    >>> order = Order(seed=0)
    >>> order.unit(Example(response="a", group="q1")) == order.unit(Example(group="q1"))
    True
    >>> 0.0 <= order.lot("labelled", "0123456789abcdef") < 1.0
    True
    """

    seed: int

    def unit(self, example: Example, digest: str | None = None) -> str:
        """Return the place of what is drawn: 32 hexadecimal digits, drawn in ascending order.

        The group of the answer is drawn, or where it has none the answer itself, of which copies
        word for word are one.
        """
        if example.group is not None:
            return self._hash("group", example.group)
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
_ROUNDING: Final = 1e-12


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
        if row["probability"] < least - _ROUNDING:
            raise InputError(
                f"{row['where']}: the probability of {id!r} is {row['probability']:g}, below the "
                f"least one that counts, {least:g} (a passed answer needs twice the floor); begin "
                f"in another folder with a lower {spell_option(Drawing, 'floor')}"
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
    guess : str or None
        Column that P(hallucinated) is guessed from; without it what has been labelled so far.
    reading : mapping
        How the traces were read, as ``Reading.how`` tells it.
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
    guess: str | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    elsewhere: str | None = None
    guardrail_file: str | None = None
    balance: Balance | None = None
    per_day: float | None = None
    share: float = 1.0

    schema: ClassVar = "calibrail.labels/1"
    later = ("share",)

    @property
    def asked(self) -> Requirement | None:
        """The requirement as it was asked for; this look errs with a share of what that says."""
        if self.requirement is None or self.share == 1.0:
            return self.requirement
        confidence = round(1.0 - (1.0 - self.requirement.confidence) / self.share, 12)
        return replace(self.requirement, confidence=confidence)


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
        self.version += bool(draw.handed_out)

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
