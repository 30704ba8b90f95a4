"""Which answers of unlabelled traces are labelled, until the data decides?"""

from collections.abc import Sequence
from functools import partial
from os import PathLike
from typing import Any, Final, Unpack

from calibrail.data.example import Example
from calibrail.data.sources import Source, reusable
from calibrail.errors import ModelError
from calibrail.guardrail.runtime import Guardrail
from calibrail.guardrail.units import require_answers
from calibrail.labelling.drawer import Judge, Judged
from calibrail.labelling.elsewhere import read_lots
from calibrail.labelling.exchange import take_all
from calibrail.labelling.folder import LOCK, LabelFolder, begun, made, read_plan
from calibrail.labelling.session import Session
from calibrail.labelling.store import Lock
from calibrail.settings import Drawing, LabelOptions, Promise, ReadOptions, Requirement, checks
from calibrail.settings.short import LabelShort, collect_requirement, from_keywords
from calibrail.settings.units import whole_answers
from calibrail.workflow.context import Progress
from calibrail.workflow.label_begin import Asked, begin
from calibrail.workflow.label_resume import (
    frozen_guardrail,
    read_again,
    refuse_another,
    refuse_changed,
)

#: So many answers in a row on which the detector fails are no accident of one answer.
_FAILING: Final = 4


def label(
    traces: Source | None,
    folder: str | PathLike[str],
    requirement: Requirement | None = None,
    *,
    guardrail: Guardrail | str | PathLike[str] | None = None,
    promise: Promise | None = None,
    drawing: Drawing | None = None,
    options: LabelOptions | None = None,
    reading: ReadOptions | None = None,
    progress: Progress | None = None,
    **short: Unpack[LabelShort],
) -> Session:
    """Begin to label, or go on: hand out answers one by one, and keep every label.

    With a guardrail labels are drawn for its verdict: ``session.counts`` says when it has fallen,
    and ``certify`` recomputes it from the folder. Without one they are drawn for a threshold.
    Called again, it goes on where it was: what is left out is as it was at first.

    Parameters
    ----------
    traces : path, str, data in memory, or None
        Answers without labels; labels that they have are not looked at. None goes on with those
        that the labels were begun with.
    folder : path
        For the labels; made where it is missing.
    requirement : Requirement, optional
        Of the verdict: ``max_fpr`` is needed with a guardrail; ``min_coverage`` is what the
        guardrail promises unless said otherwise.
    guardrail : Guardrail or path, optional
        The frozen guardrail, or its file; a copy is kept in the folder.
    promise : Promise, optional
        Of the threshold, without a guardrail: labels are enough once so many hallucinated answers
        are labelled as it needs.
    drawing : Drawing, optional
        How answers are drawn; ``uniform`` at first.
    options : LabelOptions, optional
        Seed, share of two annotators, where the guess is, settling, labels made elsewhere.
    reading : ReadOptions, optional
        How to read the traces.
    progress : callable, optional
        Called with the number of traces read so far.
    **short
        In a short call, fields of the requirement and of the options, e.g. ``max_fpr=0.2``.

    Returns
    -------
    Session

    Raises
    ------
    DataError
        No trace can be labelled, a file is damaged, or the folder cannot be written to.
    InputError
        A value is outside its domain, or is not what the labels were begun with.

    Examples
    --------
    >>> import tempfile, calibrail
    >>> with calibrail.label("example:facts", tempfile.mkdtemp()) as session:
    ...     task = session.next("ada")
    ...     session.put("ada", task.order, 1)
    ...     session.counts("ada").hallucinated
    1
    """
    rest = dict[str, Any](short)
    options = from_keywords(LabelOptions, options, rest)
    if requirement is not None or rest:
        requirement = collect_requirement(requirement, rest, label)
    folder, traces = checks.path(folder, "folder"), None if traces is None else reusable(traces)
    whole_answers("label", promise or Promise(), requirement)
    frozen = None if guardrail is None else Guardrail.of(guardrail)
    if frozen is not None:
        require_answers(frozen.config, "label")
    origin = None if frozen is None else frozen.origin
    file = None if origin is None else str(origin.path)
    asked = Asked(requirement, frozen, promise, drawing, options, reading, file)
    # Whoever comes second waits until the first one has read the traces.
    with made(folder), Lock(folder / LOCK)():
        if begun(folder):
            plan = read_plan(folder)
            frozen = frozen_guardrail(folder, plan, frozen)
            refuse_another(folder, plan, asked, frozen)
            refuse_changed(folder, plan, traces, asked.reading)
        else:
            plan = begin(folder, traces, asked, progress)
    reread = partial(read_again, folder, plan, traces, frozen)
    lots = None
    if options.elsewhere is not None:
        lots = read_lots(options.elsewhere, plan.drawing)
    session = Session(LabelFolder(folder), _judge(frozen), reread, settle=options.settle, lots=lots)
    if lots is not None:
        try:
            take_all(session, lots)
        except BaseException:
            session.close()
            raise
    return session


def _judge(guardrail: Guardrail | None) -> Judge | None:
    """Return what asks the guardrail.

    It raises a ModelError where the detector fails on all of several answers: a draw that says so
    of each would be about the failure, and not about the guardrail.
    """
    if guardrail is None:
        return None

    def judge(examples: Sequence[Example]) -> list[Judged]:
        decisions = guardrail.decide(list(examples))
        failed = [item.reason for item in decisions if item.cause.code == "detector_failed"]
        if len(failed) == len(decisions) >= _FAILING:
            raise ModelError(f"{failed[0]}; nothing was drawn: mend that, and go on")
        return [Judged(item.score, item.flagged) for item in decisions]

    return judge
