"""What label --from-log does: draws logged answers for people to label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from math import isnan
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, Unpack

from calibrail.atomic_files import write_atomically
from calibrail.data.example import Example
from calibrail.data.reading import read
from calibrail.data.sources import Source, reusable
from calibrail.errors import DataError, InputError, file_errors
from calibrail.guardrail.decision import parse_cause
from calibrail.guardrail.decision_log import reader
from calibrail.guardrail.file import FrozenConfig
from calibrail.guardrail.runtime import Guardrail, require_answers
from calibrail.labelling import folder as folders
from calibrail.labelling import log_sampling
from calibrail.labelling.ledger import Draw, Lock, Order, SessionPlan, Traces
from calibrail.labelling.sampling import JudgeColumn, Pool, PooledAnswer
from calibrail.labelling.session import has_text
from calibrail.options import AuditOptions, Drawing, ReadOptions, fields, keywords
from calibrail.options.data import ReadKeywords
from calibrail.pipelines.label import changes, other_guardrail
from calibrail.pipelines.loading import Progress
from calibrail.pipelines.monitor_inputs import OwnDecisions, is_number, none_used, text_in
from calibrail.pipelines.run import frozen_config, frozen_limits
from calibrail.report.messages import say
from calibrail.serialization import Record

#: What became of a call: answers were drawn; the log holds no new ones; the budget of the days
#: that it holds is spent, so that the new ones wait for the next call.
Outcome = Literal["drawn", "nothing new", "budget spent"]


@dataclass(frozen=True, slots=True)
class AuditBatch(Record):
    """What one call of ``audit_sample`` drew, and what the folder holds in all.

    Attributes
    ----------
    folder : str
        Where it is.
    guardrail : str
        Digest of the guardrail.
    outcome : {"drawn", "nothing new", "budget spent"}
        With the budget spent, the answers found wait in the log for the next call.
    design : {"uniform", "active"}
        How answers are drawn.
    per_day : float
        Answers that people are to label for each day of the log.
    batch : int or None
        Which call this was among those that drew; None where it drew nothing.
    n_rows : int
        Decisions of the guardrail that are new in the log: those that are drawn from.
    days : tuple of str
        Days (UTC) of the log whose budget this call counted.
    first, last : str or None
        Earliest and latest time of what is new.
    n_drawn, n_handed_out : int
        Answers drawn, and those that the lot of their probability hands out to be labelled.
    n_without_text : int
        Answers handed out so far, of this call or before, whose texts are not known.
    n_texts_found : int
        Answers drawn by earlier calls whose texts were found now.
    n_other_texts : int
        Answers whose id was found in the traces with texts of another length than was logged.
    n_batches, n_drawn_so_far, n_handed_out_so_far, n_labelled : int
        What the folder holds in all; labelled are those with a final label.
    log : mapping
        What was met in the log: ``lines``, ``skipped`` by reason, ``findings``.
    """

    folder: str
    guardrail: str
    outcome: Outcome
    design: str
    per_day: float
    batch: int | None
    n_rows: int
    days: tuple[str, ...]
    first: str | None
    last: str | None
    n_drawn: int
    n_handed_out: int
    n_without_text: int
    n_texts_found: int
    n_other_texts: int
    n_batches: int
    n_drawn_so_far: int
    n_handed_out_so_far: int
    n_labelled: int
    log: dict[str, Any]

    schema: ClassVar = "calibrail.audit_sample/1"


def _agreed_plan(
    folder: Path,
    config: FrozenConfig,
    file: Path | None,
    options: AuditOptions,
    drawing: Drawing | None,
) -> SessionPlan:
    """Return what was agreed on in the first call, or is in this one; refuse anything else."""
    if drawing is not None and fields.optional(drawing, Drawing, "drawing").whole_groups:
        raise InputError(say("refused.lines_drawn_singly"))
    if drawing is not None and drawing.design == "disagreements":
        raise InputError(say("refused.no_judges_in_a_log"))
    if not folders.has_labels(folder):
        return SessionPlan(
            purpose="watch",
            traces=Traces(),
            drawing=Drawing.beside(options.judge_column, drawing),
            seed=options.seed or 0,
            shared=options.shared or 0.0,
            judge=options.judge_column,
            guardrail=config.digest,
            guardrail_file=None if file is None else str(file),
        )
    plan = folders.read_plan(folder)
    if plan.purpose != "watch":
        raise InputError(say("refused.labels_of_traces", folder=folder))
    others = [*other_guardrail(plan, config)]
    settings = {name: getattr(options, name) for name in ("seed", "shared", "judge_column")}
    others += changes(AuditOptions, settings, plan.to_dict() | {"judge_column": plan.judge})
    if drawing is not None:
        others += changes(Drawing, drawing.to_dict(), plan.drawing.to_dict())
    if others:
        raise InputError(say("refused.drawn_otherwise", folder=folder, others="; ".join(others)))
    return plan


def _budget(
    options: AuditOptions,
    plan: SessionPlan,
    sampler: log_sampling.LogSampler,
    batches: log_sampling.Batches | None,
) -> tuple[float, log_sampling.Budget]:
    """Return how many answers people are to label for each day, and of what is new.

    It is what this call says, or else the last one did, or the first one.
    """
    per_day, spelled = options.per_day, fields.spell_option(AuditOptions, "per_day")
    if per_day is None:
        per_day = batches.all[-1].per_day if batches is not None and batches.all else plan.per_day
    if per_day is None:
        raise InputError(say("refused.per_day_missing", option=spelled))
    if sampler.n and not sampler.days and per_day < 1.0:
        raise InputError(say("refused.log_without_times", option=spelled, per_day=f"{per_day:g}"))
    counted, left = (set[str](), 0.0) if batches is None else (batches.counted, batches.left)
    if not sampler.n:
        return per_day, log_sampling.Budget((), 0, left)
    return per_day, log_sampling.Budget.for_days(per_day, sampler.days, counted, left)


def _open(folder: Path) -> tuple[folders.LabelFolder, log_sampling.Batches]:
    """Return the folder's files, with what a crash has left out of the last batch."""
    files = folders.LabelFolder(folder)
    batches = log_sampling.Batches(files)
    with files.lock():
        batches.refresh()
    return files, batches


def _candidate(item: reader.Logged) -> log_sampling.LogCandidate:
    """Return a decision of the log as what can be drawn, with texts and score as it holds them."""
    content = item.content
    score, id, group = (content.get(name) for name in ("score", "id", "group"))
    contexts, column = content.get("contexts"), content.get("column")
    value, traffic = content.get("column_value"), content.get("traffic")
    known = traffic if isinstance(traffic, dict) else {}
    language, lengths = known.get("language"), ("question", "response", "chunks")
    return log_sampling.LogCandidate(
        chain=item.chain,
        seq=item.seq,
        time=item.time,
        score=None if score is None else float(score),
        flagged=content["outcome"] != "pass",
        group=None if group is None else str(group),
        language=None if language is None else str(language),
        example=Example(
            text_in(content.get("question")) or "",
            tuple(text_in(part) or "" for part in contexts) if isinstance(contexts, list) else (),
            text_in(content.get("response")) or "",
            # Who gave no id is found by the place of the line.
            id=str(id) if id else f"{item.chain}:{item.seq}",
            columns={column: value} if isinstance(column, str) and is_number(value) else {},
        ),
        lengths={name: known[name] for name in lengths if isinstance(known.get(name), int)},
    )


def _pooled(draw: Draw, item: log_sampling.LogCandidate, order: Order) -> PooledAnswer:
    """Return what is kept of an answer drawn: of one that nobody is to label, no text."""
    unit, example = order.alone(draw.digest), item.example
    if not draw.handed_out:
        return PooledAnswer(unit, draw.digest, Example(id=example.id))
    lengths = {} if has_text(example) else item.lengths
    return PooledAnswer(unit, draw.digest, example, lengths=lengths)


def _lacking_texts(files: folders.LabelFolder) -> list[PooledAnswer]:
    """Return the answers handed out so far whose texts are not known, with their places."""
    pool = Pool(files.path / folders.POOL_FILE)
    pool.refresh()
    places = [item.draw.order - 1 for item in files.ledger.answers if item.draw.handed_out]
    waiting = (replace(pool[place], fills=place) for place in places)
    return [item for item in waiting if not has_text(item.example)]


def _texts_of(
    answers: Sequence[PooledAnswer], traces: Source | None, reading: ReadOptions | None
) -> dict[str, Example]:
    """Find the texts of answers without any by their ids, in one pass over traces."""
    wanted = {item.example.id for item in answers if not has_text(item.example)}
    if traces is None or not wanted:
        return {}
    reading = fields.optional(reading, ReadOptions, "reading")
    examples = read(traces, reading, labelled=False, require=("response",))
    return {item.id: item for item in examples if item.id in wanted and has_text(item)}


def _judged(
    candidates: Sequence[log_sampling.LogCandidate],
    name: str,
    traces: Source | None,
    reading: ReadOptions | None,
) -> list[log_sampling.LogCandidate]:
    """Return lines with what the judge's column of the traces says of each, found by its id."""
    if traces is None:
        raise InputError(say("refused.judge_without_traces", name=name))
    reading = fields.optional(reading, ReadOptions, "reading")
    column = JudgeColumn(name, reading.label_map)
    rows = read(traces, reading, keep=(name,), labelled=False, require=())
    said = {example.id: column.read(example) for example in rows}
    column.refuse_constant()
    if unknown := [item.example.id for item in candidates if item.example.id not in said]:
        raise DataError.on("judge_without_line", name=name, id=unknown[0], n=len(unknown))
    return [replace(item, judged=said[item.example.id]) for item in candidates]


def _fits(traced: Example, logged: PooledAnswer) -> bool:
    """Return whether texts are as long as was logged: an id may stand for another answer."""
    texts = {"question": traced.question, "response": traced.response, "chunks": traced.contexts}
    return all(len(texts[name]) == n for name, n in logged.lengths.items())


def _with_texts(answer: PooledAnswer, texts: Mapping[str, Example]) -> PooledAnswer:
    """Return an answer with its texts, as far as they are known."""
    example = answer.example
    traced = texts.get(example.id)
    if has_text(example) or traced is None or not _fits(traced, answer):
        return answer
    words = (traced.question, traced.contexts, traced.response)
    filled = Example(*words, id=example.id, columns=example.columns)
    return replace(answer, example=filled, lengths={})


@keywords.options_from_keywords(options=AuditOptions, reading=ReadOptions)
def audit_sample(  # type: ignore[misc]  # options are those of the draw
    guardrail: Guardrail | FrozenConfig | str | PathLike[str],
    logs: reader.Logs,
    folder: str | PathLike[str],
    options: AuditOptions | None = None,
    *,
    drawing: Drawing | None = None,
    traces: Source | None = None,
    reading: ReadOptions | None = None,
    progress: Progress | None = None,
    per_day: float | None = None,
    seed: int | None = None,
    shared: float | None = None,
    judge_column: str | None = None,
    **how: Unpack[ReadKeywords],
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
        Answers a day, seed, share of two annotators, a judge's column.
    drawing : Drawing, optional
        ``uniform`` at first, or ``active``; not by groups.
    traces : path, str, or data in memory, optional
        Answers with their texts, found by their ids, where the log holds none. Texts of earlier
        calls that are still missing are filled in.
    reading : ReadOptions, optional
        How to read these; its fields may stand by themselves in its place.
    progress : callable, optional
        Called with the number of log lines read so far.
    per_day, seed, shared, judge_column
        Fields of ``options``, by themselves in its place.

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
    options = fields.optional(options, AuditOptions, "options")
    traces = None if traces is None else reusable(traces)
    config, file = frozen_config(guardrail)
    require_answers(config, "label --from-log")
    place, sources = fields.path(folder, "folder"), reader.log_sources(logs, growing=True)
    tally, own = reader.LogCounts(), OwnDecisions(config)
    # One call at a time; people label meanwhile.
    with folders.prepared_folder(place), Lock(place / folders.DRAWING)():
        plan = _agreed_plan(place, config, file, options, drawing)
        files, batches = _open(place) if folders.has_labels(place) else (None, None)
        last = None if batches is None else batches.cursor
        sampler = log_sampling.LogSampler(plan.seed)
        _budget(options, plan, sampler, batches)
        cursor = reader.Cursor() if last is None else reader.Cursor.from_dict(last)
        for block in reader.read_on(sources, cursor, tally):
            for item in own.usable(block, tally):
                if parse_cause(item.content).code == "row_unusable":
                    # No answer that anyone could label.
                    continue
                # A time that is not known, or lies in the future, is none.
                time = None if isnan(item.moment) else item.time
                sampler.offer(item.chain, item.seq, time, partial(_candidate, item))
            if progress is not None:
                progress(tally.lines)
        if last is None and (why := none_used(tally, config)) is not None:
            raise DataError(why)
        per_day, budget = _budget(options, plan, sampler, batches)
        if files is None or batches is None:
            with file_errors(f"cannot write into the folder {place}", "; name another one"):
                write_atomically(place / folders.POOL_FILE, b"", durable=True)
                write_atomically(place / folders.GUARDRAIL, config.to_bytes(), durable=True)
                # The last one: without it nothing has begun.
                folders.write_plan(place, replace(plan, per_day=per_day))
            files, batches = _open(place)
        candidates = sampler.candidates() if budget.whole else []
        if plan.judge is not None and candidates:
            candidates = _judged(candidates, plan.judge, traces, reading)
        with files.lock():
            batches.refresh()
            draws = log_sampling.draw_lines(
                candidates, files, frozen_limits(config), budget=budget.whole, n_rows=sampler.n
            )
        lacking, order = _lacking_texts(files), Order(plan.seed)
        pooled = [_pooled(*pair, order) for pair in zip(draws, candidates, strict=False)]
        labelled = [draw.handed_out for draw in draws]
        asked = [*lacking, *compress(pooled, labelled)]
        texts = _texts_of(asked, traces, reading)
        found = [(texts[i.example.id], i) for i in asked if i.example.id in texts]
        others = [i for traced, i in found if not (has_text(i.example) or _fits(traced, i))]
        pooled = [_with_texts(item, texts) for item in pooled]
        # Of those that the lot of an active design passes over only the log tells the question.
        if plan.drawing.design == "uniform":
            draws = [
                replace(draw, question=log_sampling.question_digest(item.example))
                for draw, item in zip(draws, pooled, strict=True)
            ]
        tried = [_with_texts(item, texts) for item in lacking]
        filled = [item for item in tried if has_text(item.example)]
        unknown = [item for item in compress(pooled, labelled) if not has_text(item.example)]
        with files.lock():
            batches.refresh()
            if draws:
                batch = log_sampling.DrawBatch(
                    batch=len(batches.all) + 1,
                    per_day=per_day,
                    days=budget.days,
                    budget=budget.whole,
                    left=budget.left,
                    rows=sampler.n,
                    drawn=len(draws),
                    handed_out=sum(labelled),
                    first=sampler.first,
                    last=sampler.last,
                )
                batches.add(batch, draws, pooled, cursor.to_dict())
            batches.fill(filled)
        answers = files.ledger.answers
        return AuditBatch(
            folder=str(place),
            guardrail=config.digest,
            outcome="drawn" if draws else "budget spent" if sampler.n else "nothing new",
            design=plan.drawing.design,
            per_day=per_day,
            batch=batches.all[-1].batch if draws else None,
            n_rows=sampler.n,
            days=budget.days if draws else (),
            first=sampler.first,
            last=sampler.last,
            n_drawn=len(draws),
            n_handed_out=sum(labelled),
            n_without_text=len(lacking) - len(filled) + len(unknown),
            n_texts_found=len(filled),
            n_other_texts=len(others),
            n_batches=len(batches.all),
            n_drawn_so_far=len(answers),
            n_handed_out_so_far=sum(item.draw.handed_out for item in answers),
            n_labelled=sum(item.standing == "final" for item in answers),
            log=tally.to_dict(),
        )
