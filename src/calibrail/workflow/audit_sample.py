"""Which logged answers are drawn for people to label, so that they show what a guardrail does?"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, TypeAlias, Unpack

from calibrail.data.sources import Source
from calibrail.errors import DataError
from calibrail.guardrail.decision_log.cursor import Cursor, Tally
from calibrail.guardrail.decision_log.tail import log_sources, read_on
from calibrail.guardrail.frozen import FrozenConfig
from calibrail.guardrail.runtime import Guardrail
from calibrail.guardrail.units import require_answers
from calibrail.labelling.batches import Batch, Batches, Budget
from calibrail.labelling.folder import (
    DRAWING,
    begun,
    made,
)
from calibrail.labelling.lines import Draw
from calibrail.labelling.order import Order
from calibrail.labelling.store import Lock
from calibrail.labelling.tasks import has_text
from calibrail.labelling.urn import Urn, draw_lines, question_digest
from calibrail.settings import AuditOptions, Drawing, ReadOptions
from calibrail.settings.auditing import AuditShort
from calibrail.settings.checks import path
from calibrail.settings.short import from_keywords, refuse_unknown
from calibrail.workflow.audit_batch import AuditBatch
from calibrail.workflow.audit_candidates import (
    candidate_of,
    handed_out,
    lacking_texts,
    moment_of,
    waiting_of,
)
from calibrail.workflow.audit_plan import agreed_plan, begin, budget_a_day, budget_of, opened
from calibrail.workflow.audit_texts import Texts
from calibrail.workflow.context import Progress
from calibrail.workflow.frozen import frozen_config, frozen_limits
from calibrail.workflow.watched_lines import none_used, usable

Logs: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]


def audit_sample(
    guardrail: Guardrail | FrozenConfig | str | PathLike[str],
    logs: Logs,
    folder: str | PathLike[str],
    options: AuditOptions | None = None,
    *,
    drawing: Drawing | None = None,
    traces: Source | None = None,
    reading: ReadOptions | None = None,
    progress: Progress | None = None,
    **short: Unpack[AuditShort],
) -> AuditBatch:
    """Draw logged answers for people to label, with probabilities known before their labels.

    Each call is a batch. It takes up the log where the call before left it, counts the days (UTC)
    that it has not counted yet, and draws from all new decisions of the guardrail, uniformly and
    without replacement: ``per_day`` answers for each day. With the design ``active`` each one
    drawn is handed out with a probability of its own, higher where its label tells more by the
    labels so far; as many are drawn as hand out that number on average. Several calls on one day
    share its budget: what is logged after it is spent waits for the next call. No line is drawn
    twice, and a call draws at most 16,384. A day's budget that the log had too few answers for is
    not made up for.

    Which answers are drawn follows from the seed and from what is in the log, not from the order
    in which its files are read; the same log, calls and labels give the same bytes.

    Parameters
    ----------
    guardrail : Guardrail or path
        The frozen guardrail; its detector is not built. A copy is kept in the folder.
    logs : path or sequence of paths
        Decision logs: folders of ``calibrail serve --log``, their files, or what ``calibrail
        check`` wrote; "-" is standard input. Where no line bears a time, each call with new lines
        counts as one day.
    folder : path
        Of labels; made where it is missing. ``calibrail.label(None, folder)`` hands them out.
    options : AuditOptions, optional
        Answers a day, seed, share of two annotators. In a short call, give its fields by
        themselves, e.g. ``per_day=20``.
    drawing : Drawing, optional
        ``uniform`` at first, or ``active``; not by groups.
    traces : path, str, or data in memory, optional
        Answers with their texts, found by their ids, where the log holds none. Texts of earlier
        calls that are still missing are filled in.
    reading : ReadOptions, optional
        How to read these.
    progress : callable, optional
        Called with the number of log lines read so far.

    Returns
    -------
    AuditBatch

    Raises
    ------
    InputError
        A value is outside its domain, or is not what the folder was begun with.
    DataError
        A file cannot be read or written, or the log is that of other guardrails.

    Examples
    --------
    >>> import tempfile, calibrail
    >>> from calibrail.guardrail.decision_log import DecisionLog, Entry
    >>> folder = tempfile.mkdtemp()
    >>> guardrail = calibrail.calibrate("example:facts", "novel_count", alpha=0.1).freeze()
    >>> made = guardrail.decide("example:facts")
    >>> with DecisionLog(f"{folder}/log") as log:
    ...     log.write([Entry(decision, guardrail.config.digest) for decision in made])
    >>> batch = calibrail.audit_sample(guardrail, f"{folder}/log", f"{folder}/audit", per_day=5)
    >>> batch.n_drawn, batch.n_without_text
    (5, 5)
    """
    rest = dict[str, Any](short)
    options = from_keywords(AuditOptions, options, rest)
    refuse_unknown(rest, audit_sample)
    config, file = frozen_config(guardrail)
    require_answers(config, "audit-sample")
    place, sources, tally = path(folder, "folder"), log_sources(logs, growing=True), Tally()
    # One call at a time; people label meanwhile.
    with made(place), Lock(place / DRAWING)():
        plan = agreed_plan(place, config, file, options, drawing)
        files, batches = opened(place) if begun(place) else (None, None)
        last = batches.all[-1] if batches is not None and batches.all else None
        per_day = budget_a_day(options, plan, last)
        read = None if batches is None else batches.cursor
        cursor = Cursor() if read is None else Cursor.from_dict(read)
        urn = Urn(plan.seed)
        for block in read_on(sources, cursor, tally):
            for item in usable(block, config, tally):
                urn.offer(item.chain, item.seq, moment_of(item), partial(candidate_of, item))
            if progress is not None:
                progress(tally.lines)
        if last is None and (why := none_used(tally, config)) is not None:
            raise DataError(why)
        budget = budget_of(per_day, urn, batches)
        if files is None or batches is None:
            begin(place, config, replace(plan, per_day=per_day))
            files, batches = opened(place)
        candidates = urn.candidates() if budget.whole else []
        with files.lock():
            batches.refresh()
            limits = frozen_limits(config)
            draws = draw_lines(candidates, files, limits, budget=budget.whole, n_rows=urn.n)
        lacking = lacking_texts(files)
        waiting = [
            waiting_of(draw, item, Order(plan.seed))
            for draw, item in zip(draws, candidates, strict=False)
        ]
        texts = Texts([*lacking, *handed_out(waiting, draws)])
        texts.look(traces, reading)
        waiting = [texts.into(item) for item in waiting]
        # Of those that the lot of an active design passes over only the log tells the question.
        if plan.drawing.design == "uniform":
            draws = [
                replace(draw, question=question_digest(item.example))
                for draw, item in zip(draws, waiting, strict=True)
            ]
        filled = [item for item in map(texts.into, lacking) if has_text(item.example)]
        with files.lock():
            batches.refresh()
            if draws:
                batch = _batch(budget, per_day, urn, draws, batches)
                batches.add(batch, draws, waiting, cursor.to_dict())
            batches.fill(filled)
        answers = files.ledger.answers
        return AuditBatch(
            folder=str(place),
            guardrail=config.digest,
            outcome="drawn" if draws else "budget spent" if urn.n else "nothing new",
            design=plan.drawing.design,
            per_day=per_day,
            batch=batches.all[-1].batch if draws else None,
            n_rows=urn.n,
            days=budget.days if draws else (),
            first=urn.first,
            last=urn.last,
            n_drawn=len(draws),
            n_handed_out=sum(draw.handed_out for draw in draws),
            n_without_text=len(lacking)
            - len(filled)
            + sum(not has_text(item.example) for item in handed_out(waiting, draws)),
            n_texts_found=len(filled),
            n_other_texts=texts.n_others,
            n_batches=len(batches.all),
            n_drawn_so_far=len(answers),
            n_handed_out_so_far=sum(item.draw.handed_out for item in answers),
            n_labelled=sum(item.standing == "final" for item in answers),
            log=tally.to_dict(),
        )


def _batch(
    budget: Budget,
    per_day: float,
    urn: Urn,
    draws: Sequence[Draw],
    batches: Batches,
) -> Batch:
    return Batch(
        batch=len(batches.all) + 1,
        per_day=per_day,
        days=budget.days,
        budget=budget.whole,
        left=budget.left,
        rows=urn.n,
        drawn=len(draws),
        handed_out=sum(draw.handed_out for draw in draws),
        first=urn.first,
        last=urn.last,
    )
