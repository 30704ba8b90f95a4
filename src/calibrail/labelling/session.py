"""Label session: its next answer, its labels, and how far it is.

Answers are drawn one after another, in an order that depends on nothing but the lot, and labelling
stops with a number of hallucinated ones that is fixed beforehand, and not before there are a few
faithful ones. When it stops depends on labels alone, so that the scores of the hallucinated ones
are exchangeable with those of answers to come, whatever they are and however rare: what a threshold
promises rests on nothing else.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from scipy.special import betaincinv

from calibrail.conformal.certificate import Verdict
from calibrail.conformal.threshold import minimum_n, rank
from calibrail.data.aliases import is_model
from calibrail.data.example import Example
from calibrail.data.splits import groups_to_add
from calibrail.errors import InputError, error_text
from calibrail.labelling.folder import Event, LabelFolder, Seat, event_line, now
from calibrail.labelling.ledger import Label, LabelLedger, LedgerAnswer, Lots, Span, checked_spans
from calibrail.labelling.sampling import Judge, Reread, Sampler
from calibrail.options.data import SplitOptions
from calibrail.options.fields import whole
from calibrail.options.guarantee import Promise
from calibrail.serialization import Record

#: Faithful answers that there must be, so that each part has one: else nothing says what is flagged
#: in vain.
FAITHFUL_NEEDED: Final = 2
#: Labels before which the share of hallucinated answers says too little.
_FIRST: Final = 10
#: Labels of one's own that are listed to be changed.
_LISTED: Final = 200


def hallucinated_needed(promise: Promise) -> int:
    """Return the fewest hallucinated answers of which the part that calibrates holds enough.

    The rest tests the threshold: `calibrail calibrate` splits labelled answers in two, unless the
    promise proves itself.

    Raises
    ------
    InputError
        The promise is one for each group of a column, whose numbers nobody knows beforehand.

    Examples
    --------
    >>> hallucinated_needed(Promise(0.05)), hallucinated_needed(Promise(0.05, "pac"))
    (37, 45)
    """
    if promise.by is not None:
        raise InputError.on("labels_by_groups")
    promise = promise.settled()
    least = minimum_n(promise.alpha, promise.guarantee, promise.delta)
    share = _calibrating(promise)
    return groups_to_add(0, least, (0.0, share, 1.0 - share))


def _calibrating(promise: Promise) -> float:
    """Return the share of labelled answers that `calibrail calibrate` makes the threshold of."""
    return SplitOptions().proving(promise).shares(learning=False)["calibration_share"]


def coverage_to_expect(promise: Promise, n_hallucinated: int) -> list[dict[str, float]]:
    """Return between which coverages nine of ten thresholds lie, from so many answers and more.

    What a threshold truly catches is random: the k-th lowest of n scores that calibrate misses a
    share with a Beta(k, n + 1 - k) law, whatever the scores are.

    Parameters
    ----------
    promise : Promise
        Of the threshold.
    n_hallucinated : int
        Hallucinated answers labelled.

    Returns
    -------
    list of dict
        ``hallucinated``, ``lower`` and ``upper`` for so many, twice and four times as many.

    Examples
    --------
    >>> now, twice, four = coverage_to_expect(Promise(0.1), 17)
    >>> [round(now[end], 3) for end in ("lower", "upper")], four["hallucinated"]
    ([0.717, 0.994], 68)
    """
    promise = promise.settled()
    share, expected = _calibrating(promise), []
    for times in (1, 2, 4):
        labelled = times * n_hallucinated
        n = math.floor(labelled * share + 0.5)
        k = rank(n, promise.alpha, promise.guarantee, promise.delta)
        lower, upper = betaincinv(n + 1 - k, k, [0.05, 0.95]).tolist()
        expected.append({"hallucinated": labelled, "lower": lower, "upper": upper})
    return expected


def class_counts(ledger: LabelLedger, stop: float = math.inf) -> tuple[int, int]:
    """Return how many hallucinated and faithful answers there are: of a group drawn whole one each.

    Parameters
    ----------
    ledger : Ledger
        What was drawn, and its labels.
    stop : int, optional
        Only the first so many answers drawn.
    """
    final, answers = ledger.finals.items(), ledger.answers
    units = {(answers[order - 1].draw.unit, label) for order, label in final if order <= stop}
    counts = Counter(label for _, label in units)
    return counts[1], counts[0]


def is_held_up(ledger: LabelLedger, needed: int | None) -> bool:
    """Return whether enough answers are labelled, if only those counted that are still open."""
    if needed is None:
        return False
    n_hallucinated, n_faithful = class_counts(ledger)
    counting = class_counts(ledger, ledger.counted)
    enough = n_hallucinated >= needed and n_faithful >= FAITHFUL_NEEDED
    return enough and (counting[0] < needed or counting[1] < FAITHFUL_NEEDED)


def labels_to_expect(missing: int, n_hallucinated: int, n_labelled: int) -> int | None:
    """Return about how many more labels it takes to find so many more hallucinated answers.

    None while too little is labelled to say.

    Examples
    --------
    >>> labels_to_expect(10, 10, 100), labels_to_expect(0, 10, 100), labels_to_expect(9, 0, 5)
    (97, 0, None)
    """
    if missing <= 0:
        return 0
    if n_labelled < _FIRST:
        return None
    return math.ceil(missing * (n_labelled + 1) / (n_hallucinated + 0.5))


@dataclass(frozen=True, slots=True)
class Task:
    """An answer to label: what an annotator may see of it, and its id.

    Attributes
    ----------
    order : int
        By which a label refers to it.
    id : str
        Of the answer. It may name the model, or the label: no page, terminal or file shows it.
    question, contexts, response
        Of the answer; where a decision log holds no text of it, the question says so.
    settles : bool
        Whether two annotators disagree about it.
    said : mapping of str to int
        In a review what the annotator, judges and the guardrail said; empty of a blind label.
    alias : str
        Stands for the id in a file for an annotator: the order, and the begin of the digest.
    """

    order: int
    id: str
    question: str
    contexts: tuple[str, ...]
    response: str
    settles: bool = False
    alias: str = ""
    said: Mapping[str, int] = field(default_factory=dict)


def has_text(example: Example) -> bool:
    """Return whether any text of an answer is known."""
    return bool(example.question or example.contexts or example.response)


@dataclass(frozen=True, slots=True)
class Counts(Record):
    """How far the labels are; of what they say nothing before the data has decided.

    Attributes
    ----------
    by_you : int
        Labels that this annotator has given.
    labelled : int
        Answers whose label is final.
    hallucinated, faithful, unsure : int
        Of these.
    drawn : int
        Answers drawn, those among them that the lot left unlabelled included.
    counted : int
        Answers drawn that the verdict counts: all before the first that is not settled.
    skipped, disagreements : int
        Answers that this annotator has put off, and those about which annotators disagree.
    waiting : int
        Answers handed out whose label is not final.
    holding : int
        Answers behind the first of these, final already, that the verdict does not count yet.
    changed : int
        Labels that their annotators changed after they saw what judges, or the guardrail, say.
    copies : int
        Near copies of earlier answers that were passed over.
    needed : int or None
        Hallucinated answers that are needed, where labels are for a threshold.
    found : int or None
        Hallucinated answers found, with those that stand behind an open answer.
    missing : int or None
        How many of those needed are still missing among the answers that count.
    to_expect : int or None
        About how many labels it takes to find the rest, by the share of hallucinated ones so far.
    total : int or None
        Answers that can be drawn at most; None where the traces hold more than was looked through.
    exhausted : bool
        Whether all traces are drawn.
    lost : int
        Labels that were there and are gone, though nobody took them back.
    decided : bool
        Whether labelling may stop: the verdict fell, or there are enough.
    verdict : {"certified", "rejected"} or None
        Only once it fell.
    """

    by_you: int
    labelled: int
    hallucinated: int
    faithful: int
    unsure: int
    drawn: int
    counted: int
    skipped: int
    disagreements: int
    waiting: int
    holding: int
    changed: int
    copies: int
    needed: int | None
    found: int | None
    missing: int | None
    to_expect: int | None
    total: int | None
    exhausted: bool
    lost: int
    decided: bool
    verdict: Verdict | None


def counts_of(files: LabelFolder, sampler: Sampler, seat: Seat) -> Counts:
    """Return the counts for who sits on a seat; the files are up to date, and locked."""
    ledger, assignments = files.ledger, files.assignments
    test, needed = ledger.test, files.plan.needed
    verdict = None if test is None else test.verdict
    fallen = verdict in ("certified", "rejected")
    counted, unsettled = ledger.counted, ledger.unsettled
    tally, n_final = Counter(ledger.finals.values()), len(ledger.finals)
    n_found = missing = to_expect = None
    enough = False
    if needed is not None:
        n_found = class_counts(ledger)[0]
        n_hallucinated, n_faithful = class_counts(ledger, counted)
        missing = max(0, needed - n_hallucinated)
        enough = missing == 0 and n_faithful >= FAITHFUL_NEEDED
        to_expect = labels_to_expect(needed - n_found, tally[1], n_final)
    return Counts(
        by_you=sum(not item.seen for item in ledger.of_annotator[seat[0]]),
        labelled=n_final,
        hallucinated=tally[1],
        faithful=tally[0],
        unsure=tally[None],
        drawn=len(ledger.answers),
        counted=counted,
        skipped=len(assignments.put_off[seat].keys() & unsettled),
        disagreements=len(ledger.disagreements()),
        waiting=len(unsettled),
        # What a watch takes in counts at once: late labels have their place in the order drawn.
        holding=0
        if files.plan.purpose == "watch"
        else sum(item.standing == "final" for item in ledger.answers[counted:]),
        changed=sum(item.changed for item in ledger.answers if item.blind),
        copies=sampler.pool.copies_before(len(ledger.answers)),
        needed=needed,
        found=n_found,
        missing=missing,
        to_expect=to_expect,
        total=None if sampler.pool.may_go_on else len(sampler.pool),
        exhausted=sampler.exhausted,
        lost=sum(files.lost().values()),
        decided=fallen or enough,
        verdict=verdict if fallen else None,
    )


class Session:
    """Hands out answers one after another, and keeps every label on the disk.

    Made by ``calibrail.label``. Several annotators, threads and processes may use one folder at
    once. A context manager: ``with calibrail.label(...) as session``.

    Parameters
    ----------
    folder : LabelFolder
        The files.
    judge : callable or None
        What the frozen guardrail says of answers; None where labels are for a threshold.
    reread : callable
        Gives the traces once more.
    settle : bool
        Hand out the answers about which annotators disagree, and nothing else.
    lots : Lots, optional
        Those that fell elsewhere.
    review : mapping of int to mapping, optional
        By order, who says what of the answers drawn; hand out the annotator's own labels that these
        contradict, and nothing else.
    """

    def __init__(
        self,
        folder: LabelFolder,
        judge: Judge | None,
        reread: Reread,
        *,
        settle: bool = False,
        lots: Lots | None = None,
        review: Mapping[int, Mapping[str, int]] | None = None,
    ) -> None:
        self._files, self._settle, self._review = folder, settle, review
        #: Whether annotators look at labels of their own again.
        self.is_review = review is not None
        #: Where the labels are.
        self.folder = folder.path
        #: What was agreed on before the first label.
        self.plan = folder.plan
        with folder.up_to_date():
            self._sampler = Sampler(folder, judge, reread, lots)
        self._closed = False

    def __enter__(self) -> "Session":
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the session."""
        self.close()

    @property
    def torn(self) -> tuple[str, ...]:
        """Files whose last line a crash had torn: it was cut off."""
        return self._files.torn

    @property
    def annotators(self) -> tuple[str, ...]:
        """Names of those who have labelled, in order."""
        with self._files.up_to_date():
            given = self._files.ledger.of_annotator
            return tuple(sorted(name for name, labels in given.items() if labels))

    def next(self, annotator: str) -> Task | None:
        """Return the answer to label now; the same one until it is labelled or skipped.

        Returns
        -------
        Task or None
            None where there is nothing to do: all is drawn, or nobody disagrees.

        Raises
        ------
        DataError
            The files cannot be read or written.
        """
        name = self._name(annotator)
        with self._files.up_to_date():
            queue = self._to_settle if self._settle else self._to_label
            order = (queue if self._review is None else self._to_review)(name)
            if order is None:
                return None
            screen = self._files.assignments.screens.get((name, self._settle))
            if screen is None or screen.order != order:
                self._happened("shown", name, order)
            task = self._task(order, name)
            self._sampler.look_ahead()
            return task

    def hand_out(self, annotator: str, n: int) -> list[Task]:
        """Return the next answers all at once, to be labelled elsewhere; nobody else gets them.

        Asked again, those that have no label yet come first. Not while settling.
        """
        name, n = self._name(annotator), whole(n, "n", least=1)
        if self._settle or self._review:
            raise InputError.on("reviewed_one_by_one")
        with self._files.up_to_date():
            orders = self._wanted(name)
            while len(orders) < n and any([self._draw(name) for _ in range(n - len(orders))]):
                orders = self._wanted(name)
            labels = len(self._files.ledger.of_annotator[name])
            self._files.handed.append(
                event_line("exported", (name, False), order, labels) for order in orders[:n]
            )
            self._files.refresh()
            return [self._task(order, name) for order in orders[:n]]

    def handed_out(self) -> dict[str, int]:
        """Return the order of each answer handed out, by alias and id; 0 for an id of several."""
        with self._files.up_to_date():
            return self._files.ledger.handed_out()

    def task(self, order: int) -> Task:
        """Return an answer that was handed out."""
        self._answer(order)
        return self._task(order)

    def labels_of(self, order: int) -> dict[str, Label]:
        """Return the label of each annotator of an answer that was handed out."""
        return dict(self._answer(order).labels)

    def put(
        self,
        annotator: str,
        order: int,
        label: int | None,
        spans: Sequence[Span] = (),
        evidence: bool = False,
        judge: str | None = None,
        note: str = "",
    ) -> None:
        """Keep a label; it is on the disk when this returns.

        Parameters
        ----------
        annotator : str
            Who labels.
        order : int
            Of the task.
        label : {1, 0, None}
            1 hallucinated, 0 faithful, None if that cannot be told.
        spans : sequence of (int, int, str)
            Begin, end and text of what nothing supports, in characters of the response; a faithful
            answer has none.
        evidence : bool
            Whether help was asked for; what ``helped`` wrote down counts, too.
        judge : str, optional
            What labelled, where no person did: nothing is certified by such labels. An annotator
            with the name of a model is one, but for ``people``.
        note : str
            What the annotator writes beside the label.

        Raises
        ------
        InputError
            An argument is outside its domain, or the answer has this annotator's label already.
        DataError
            The disk is full, or the folder may not be written to; nothing is stored then.
        """
        name = self._name(annotator)
        if isinstance(label, bool) or label not in (0, 1, None):
            raise InputError(f"label must be 1, 0 or None; got {label!r}")
        if label == 0 and spans:
            raise InputError.on("marks_in_faithful_answer")
        judge = name if judge is None and is_model(name) else judge
        judge = None if judge == "people" else judge
        if judge is not None and self.plan.purpose == "watch":
            raise InputError.on("labels_of_judge_for_people", judge=judge)
        with self._files.up_to_date():
            answer = self._answer(order)
            self._refuse_twice(answer, name)
            stored = Label(
                answer.draw.id,
                label,
                name,
                now().isoformat(timespec="seconds"),
                answer.draw.probability,
                order,
                checked_spans(spans, self._task(order).response) if spans else (),
                bool(evidence) or order in self._files.assignments.helped[name, self._settle],
                self._settle,
                (self._review or {}).get(order),
                judge,
                note.strip(),
            )
            self._files.labels.append([stored.to_dict()])
            self._files.refresh()

    def skip(self, annotator: str, order: int) -> None:
        """Put an answer off; it comes back at the end of the round."""
        name = self._name(annotator)
        with self._files.up_to_date():
            self._refuse_twice(self._answer(order), name)
            self._happened("skipped", name, order)

    def own_labels(self, annotator: str) -> list[tuple[Task, Label]]:
        """Return the labels of an annotator that ``undo`` may take back, the last one first."""
        name = self._name(annotator)
        with self._files.up_to_date():
            given = reversed(self._own(name)[-_LISTED:])
            return [(self._task(item.order, name), item) for item in given]

    def _own(self, name: str) -> list[Label]:
        kind, ledger = (self._settle, self._review is not None), self._files.ledger
        given = (i for i in ledger.of_annotator[name] if (i.settles, bool(i.seen)) == kind)
        return [i for i in given if self._settle or not ledger.answers[i.order - 1].settled]

    def undo(self, annotator: str, order: int | None = None) -> Task | None:
        """Take back the annotator's last label, or the skip after it, or the label of one answer.

        Returns
        -------
        Task or None
            The answer that stands open again; None where nothing was labelled or skipped.
        """
        name = self._name(annotator)
        with self._files.up_to_date():
            given = [item for item in self._own(name) if order in (None, item.order)]
            seat, n_labels = (name, self._settle), len(self._files.ledger.of_annotator[name])
            skip = self._files.assignments.just_skipped(seat, n_labels) if order is None else None
            if (order := skip) is None:
                if not given:
                    return None
                order = given[-1].order
                if name in self._answer(order).blind and self._review is None:
                    raise InputError.on("undo_of_reviewed", order=order)
                self._files.take_out(given[-1])
            self._happened("shown", name, order)
            return self._task(order, name)

    def counts(self, annotator: str) -> Counts:
        """Return how far the labels are; of their verdict nothing before it has fallen."""
        name = self._name(annotator)
        with self._files.up_to_date():
            return counts_of(self._files, self._sampler, (name, self._settle))

    def helped(self, annotator: str, order: int) -> None:
        """Write down that an annotator has asked for help with an answer: its label will say so."""
        name = self._name(annotator)
        with self._files.up_to_date():
            self._answer(order)
            if order not in self._files.assignments.helped[name, self._settle]:
                self._happened("helped", name, order)

    def close(self) -> None:
        """Let go of the folder; every label is on the disk already."""
        self._closed = True

    def _to_label(self, name: str) -> int | None:
        """Return the order of the answer that an annotator labels next."""
        assignments, ledger = self._files.assignments, self._files.ledger
        screen = assignments.screens.get((name, self._settle))
        if screen is not None and self._wants(ledger.answers[screen.order - 1], name):
            return screen.order
        for order in assignments.due((name, self._settle), len(ledger.of_annotator[name])):
            if self._wants(ledger.answers[order - 1], name):
                return order
        put_off = assignments.put_off[name, self._settle]
        while True:
            for order in ledger.unsettled:
                if order not in put_off and self._wants(ledger.answers[order - 1], name):
                    return order
            # Where labels would be enough but for answers put off, these come before new ones.
            if (put_off and is_held_up(ledger, self.plan.needed)) or not self._draw(name):
                break
        left = (order for order in put_off if self._wants(ledger.answers[order - 1], name))
        return next(left, None)

    def _draw(self, name: str) -> bool:
        """Draw until something is handed out; write down where nothing is left."""
        if self.plan.purpose == "watch":
            return False
        if self._sampler.draw():
            return True
        drawn = len(self._files.ledger.answers)
        if self._sampler.exhausted and self._files.assignments.exhausted_at != drawn:
            self._happened("exhausted", name, drawn)
        return False

    def _wanted(self, name: str) -> list[int]:
        """Return the orders of answers drawn that this annotator may label, the first first."""
        ledger = self._files.ledger
        return [o for o in ledger.unsettled if self._wants(ledger.answers[o - 1], name)]

    def _wants(self, answer: LedgerAnswer, name: str) -> bool:
        """Return whether an answer still needs a label that this annotator may give."""
        if answer.standing != "open" or name in answer.labels:
            return False
        held = self._files.assignments.held_by_others(
            answer.draw.order, (name, self._settle), now()
        )
        return len(answer.labels) + held < answer.needs

    def _to_settle(self, name: str) -> int | None:
        """Return the order of the first disagreement that nobody else is settling."""
        assignments = self._files.assignments
        seat, answers = (name, self._settle), self._files.ledger.answers
        orders = self._files.ledger.disagreements()
        free = [order for order in orders if not assignments.held_by_others(order, seat, now())]
        # What others disagree about first: nobody is to judge between himself and another.
        put_off = assignments.put_off[seat]
        free.sort(key=lambda order: (order in put_off, name in answers[order - 1].labels))
        return next(iter(free), None)

    def _to_review(self, name: str) -> int | None:
        """Return the order of the own label that most contradict, of those not reviewed so far."""
        put_off, waiting = self._files.assignments.put_off[name, self._settle], []
        for answer in self._files.ledger.answers:
            own, order = answer.labels.get(name), answer.draw.order
            if own is None or own.label is None or answer.settled is not None:
                continue
            said = (self._review or {}).get(order, {})
            against = sum(call != own.label for call in said.values())
            if against and own.seen != said:
                waiting.append((order in put_off, -against, order))
        return min(waiting)[2] if waiting else None

    def _task(self, order: int, name: str = "") -> Task:
        """Return what an annotator sees of an answer that was drawn."""
        if self.plan.purpose == "watch":
            # Another command may have drawn more since, and found texts.
            self._sampler.pool.refresh()
        draw = self._files.ledger.answers[order - 1].draw
        example = self._sampler.pool[order - 1].example
        question = example.question
        if not has_text(example):
            logged = f", logged at {draw.time}" if draw.time else ""
            question = error_text("answer_without_text", draw=draw, logged=logged)
        texts = question, example.contexts, example.response
        task = Task(order, example.id, *texts, settles=self._settle, alias=draw.alias)
        own = self._files.ledger.answers[order - 1].labels.get(name)
        if self._review is not None and own is not None and own.label is not None:
            task = replace(task, said={"you": own.label, **self._review.get(order, {})})
        return task

    def _happened(self, event: Event, name: str, order: int) -> None:
        labels = len(self._files.ledger.of_annotator[name])
        line = event_line(event, (name, self._settle), order, labels)
        self._files.handed.append([line], durable=False)
        self._files.refresh()

    def _name(self, annotator: str) -> str:
        if self._closed:
            raise InputError("this session is closed; call label() again to go on")
        if not isinstance(annotator, str) or not annotator.strip():
            raise InputError(f"annotator must be a name; got {annotator!r}")
        return annotator.strip()

    def _answer(self, order: int) -> LedgerAnswer:
        answers = self._files.ledger.answers
        known = isinstance(order, int) and not isinstance(order, bool)
        if not known or not 1 <= order <= len(answers) or not answers[order - 1].draw.handed_out:
            raise InputError(f"order must be that of an answer handed out; got {order!r}")
        return answers[order - 1]

    def _refuse_twice(self, answer: LedgerAnswer, name: str) -> None:
        """Refuse a second label of one annotator, and a settling of what is not open."""
        which = f"answer No. {answer.draw.order}"
        if self._settle and answer.standing != "disagreement":
            raise InputError(f"nobody disagrees about {which} any more; ask for the next one")
        if self._review is not None and name not in answer.labels:
            raise InputError(f"{name!r} has no label of {which} to review")
        if self._review is None and not self._settle and name in answer.labels:
            raise InputError(f"{name!r} has labelled {which} already; undo that label to change it")
