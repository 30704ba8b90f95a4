"""Labelling session: hands out answers, takes labels, and takes them back."""

from collections.abc import Sequence

from calibrail.errors import InputError
from calibrail.labelling.folder import Event, LabelFolder, event_line, now
from calibrail.labelling.ledger import LedgerAnswer
from calibrail.labelling.plan import Lots
from calibrail.labelling.progress import Counts, Task, counts_of, is_held_up, task_of
from calibrail.labelling.sampling import Judge, Reread, Sampler
from calibrail.labelling.store import Label, Span, checked_spans
from calibrail.options.fields import whole


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
    """

    def __init__(
        self,
        folder: LabelFolder,
        judge: Judge | None,
        reread: Reread,
        *,
        settle: bool = False,
        lots: Lots | None = None,
    ) -> None:
        self._files, self._settle = folder, settle
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
            order = self._to_settle(name) if self._settle else self._to_label(name)
            if order is None:
                return None
            screen = self._files.assignments.screens.get((name, self._settle))
            if screen is None or screen.order != order:
                self._happened("shown", name, order)
            task = self._task(order)
            self._sampler.look_ahead()
            return task

    def hand_out(self, annotator: str, n: int) -> list[Task]:
        """Return the next answers all at once, to be labelled elsewhere; nobody else gets them.

        Asked again, those that have no label yet come first. Not while settling.
        """
        name, n = self._name(annotator), whole(n, "n", least=1)
        if self._settle:
            raise InputError("disagreements are settled one by one; leave out settle to hand out")
        with self._files.up_to_date():
            orders = self._wanted(name)
            while len(orders) < n and any([self._draw(name) for _ in range(n - len(orders))]):
                orders = self._wanted(name)
            labels = len(self._files.ledger.of_annotator[name])
            self._files.handed.append(
                event_line("exported", (name, False), order, labels) for order in orders[:n]
            )
            self._files.refresh()
            return [self._task(order) for order in orders[:n]]

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
            raise InputError(
                "marked words say that nothing supports them, and a faithful answer has none: "
                "clear the marks, or label it hallucinated"
            )
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
            )
            self._files.labels.append([stored.to_dict()])
            self._files.refresh()

    def skip(self, annotator: str, order: int) -> None:
        """Put an answer off; it comes back at the end of the round."""
        name = self._name(annotator)
        with self._files.up_to_date():
            self._refuse_twice(self._answer(order), name)
            self._happened("skipped", name, order)

    def undo(self, annotator: str) -> Task | None:
        """Take back the annotator's last label, or the skip after it.

        Returns
        -------
        Task or None
            The answer that stands open again; None where nothing was labelled or skipped.
        """
        name = self._name(annotator)
        with self._files.up_to_date():
            given = self._files.ledger.of_annotator[name]
            order = self._files.assignments.just_skipped((name, self._settle), len(given))
            given = [item for item in given if item.settles == self._settle]
            if order is None:
                if not given:
                    return None
                order = given[-1].order
                self._files.take_out(given[-1])
            self._happened("shown", name, order)
            return self._task(order)

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

    def _task(self, order: int) -> Task:
        if self.plan.purpose == "watch":
            # Another command may have drawn more since, and found texts.
            self._sampler.pool.refresh()
        draw = self._files.ledger.answers[order - 1].draw
        return task_of(self._sampler.pool[order - 1].example, draw, settles=self._settle)

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
        if not self._settle and name in answer.labels:
            raise InputError(f"{name!r} has labelled {which} already; undo that label to change it")
