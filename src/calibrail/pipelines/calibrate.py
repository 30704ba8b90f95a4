"""Calibrate().

`worst_sentence` says of an answer what its highest sentence score is. Where the data says which
sentences are unsupported, what stopping at them shows is measured as for a guardrail of sentences.
Marks play no part in thresholds and verdicts: the answers are read again for them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from os import PathLike
from typing import Any, Final, TypeAlias, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import group_thresholds
from calibrail.conformal.argument_checks import Floats
from calibrail.conformal.risk_control import RiskControl, control_risks, parse_risks
from calibrail.conformal.threshold import fixed_threshold as given_threshold
from calibrail.conformal.threshold_rule import Rule, fit_rule, least_cost
from calibrail.data.columns import CHARACTERS
from calibrail.data.example import HALLUCINATED, Example
from calibrail.data.sentences import sentence_labels, sentences_of
from calibrail.data.sources import Source
from calibrail.data.splits import CALIBRATION, FIT, TEST
from calibrail.data.values import group_name
from calibrail.engine.distributed import engine, use_engine
from calibrail.errors import DataError, InputError, TooFewExamplesError
from calibrail.evaluation import Others, Report, ReportOrigin, Sample, evaluate
from calibrail.evaluation.evaluate import decided
from calibrail.evaluation.measures import RemovalOutcome, in_order
from calibrail.evaluation.sentence_removal import MORE_REQUESTS, stopped_streams, stops_of_worst
from calibrail.evaluation.verdict import VerdictResult
from calibrail.guardrail.sentences import why_not_streamed
from calibrail.models.llm.transport import BudgetError, no_calls
from calibrail.options import Costs, Promise, ReadOptions, Requirement, SplitOptions
from calibrail.options.data import ReadKeywords
from calibrail.options.fields import changed, optional
from calibrail.options.guarantee import Guarantee, Undefined, Unit
from calibrail.options.keywords import options_from_keywords
from calibrail.pipelines import data_reuse, fixed_threshold, independence, look_overlap, scoring
from calibrail.pipelines.estimate import with_repeats
from calibrail.pipelines.examples import origin_of, page_examples
from calibrail.pipelines.loading import Context, calibration_source, open_source
from calibrail.pipelines.run import Run, run_of
from calibrail.pipelines.splitting import BySentence, by_sentence
from calibrail.report.documents.calibrate_sections import add_messages
from calibrail.report.documents.data import alike_names
from calibrail.report.messages import say
from calibrail.scores import custom, members, registry

#: Fewest answers whose lengths are cut into thirds.
_LEAST: Final = 30


def columns_kept(promise: Promise) -> tuple[str, ...]:
    """Return the columns that must be kept to know the groups."""
    by = group_thresholds.columns_of_groups(promise.by)
    return (*by, CHARACTERS) if group_thresholds.reads_length(promise.by) else by


def groups_of(
    scored: scoring.Scored, promise: Promise
) -> tuple[list[str] | None, tuple[float, ...] | None]:
    """Return the group of each answer, and above which lengths the further thirds begin.

    Where several columns name groups, the name is all of them joined.

    Raises
    ------
    DataError
        If thirds of lengths are asked for and there are no texts, or too few answers to cut by.
    """
    kept, cuts = scored.table.kept, None
    if promise.by is None:
        return None, None
    columns, characters = columns_kept(promise), np.zeros(len(scored.table))
    if CHARACTERS in columns:
        characters = np.array([float(cell or 0) for cell in kept[CHARACTERS]])
        cuts = _thirds(scored, characters)
    rows = zip(*(map(group_name, kept[name]) for name in columns), strict=True)
    names = [
        group_thresholds.group_key(promise.by, dict(zip(columns, cells, strict=True)), length, cuts)
        for cells, length in zip(rows, characters.tolist(), strict=True)
    ]
    return names, cuts


def _thirds(scored: scoring.Scored, characters: Floats) -> tuple[float, ...]:
    """Return where thirds of the lengths end, by answers that no threshold comes from.

    Those are the fit part, or, without one, the faithful answers of the calibration part whose
    group holds no hallucinated one there. So the groups do not depend on the hallucinated answers,
    and the promise to them is exact.
    """
    if not characters.any():
        raise DataError(say("refused.no_lengths", column=group_thresholds.LENGTH))
    fit = scored.codes == FIT
    rows = fit
    if not fit.any():
        labels, calibrating = scored.table.labels, scored.codes == CALIBRATION
        wrong = scored.groups[calibrating & (labels == 1)]
        rows = calibrating & (labels == 0) & ~np.isin(scored.groups, wrong)
    if (n := int(rows.sum())) < _LEAST:
        raise DataError(
            say("refused.too_few_for_lengths", length=group_thresholds.LENGTH, least=_LEAST, n=n)
        )
    shares = np.arange(1, len(group_thresholds.THIRDS)) / len(group_thresholds.THIRDS)
    return tuple(np.quantile(characters[rows], shares, method="inverted_cdf").tolist())


def streamed(
    source: Source,
    scored: scoring.Scored,
    sample: Sample,
    rule: Rule,
    promise: Promise,
    names: Sequence[str] | None = None,
    reading: ReadOptions | None = None,
    confidence: float = 0.95,
) -> dict[str, Any] | None:
    """Measure what a stream shows of the test answers that somebody marked.

    Their sentences are those that a stream cuts, whatever sentences the data has. They are scored
    once more, of one answer of each group; what a language model said is looked up.

    Parameters
    ----------
    source : path, str or data in memory
        What was scored; read again for its marks.
    scored : Scored
        Its scores; the first detector is the one that decides.
    sample : Sample
        Which of its answers count.
    rule, promise : Rule and Promise
        What decides.
    names : sequence of str, optional
        Each answer's group, where groups have thresholds of their own.
    reading : ReadOptions, optional
        How the source was read.
    confidence : float
        Level of every interval.

    Returns
    -------
    dict or None
        None where the guardrail cannot stream, the data holds no marks, or can be read only once.
        ``n_answers``, how many are measured; ``n_left_out``, test answers that nobody marked, or
        whose marks contradict their label; ``stream`` (`stopped_streams`), None where it would take
        ``reason``.
    """
    detector = scored.detectors[0]
    if not isinstance(detector, members.WorstSentence) or isinstance(source, Iterator):
        return None
    if why_not_streamed(detector, promise) is not None:
        return None
    test, reading = sample.rows(TEST), optional(reading, ReadOptions, "reading")
    if (marked := _marked(source, scored, test, reading)) is None:
        return None
    unmarked = test.copy()
    unmarked[list(marked)] = False
    measured = sample.aside(unmarked)
    counted = measured.drawn(TEST, sample.labels)
    rows, about = np.flatnonzero(counted), {"n_left_out": int(unmarked.sum())}
    member = detector.member
    by_sentence, options = BySentence(reading.span_share, promise.undefined), engine()
    apart: AbstractContextManager[object] = nullcontext()
    if options.shards is not None:
        # Shards of sentences lie apart from those that the run is made of.
        apart = use_engine(replace(options, shards=options.shards / "sentences"))
    try:
        with no_calls(), apart:
            examples = (marked[row] for row in marked if counted[row])
            table, sentences = by_sentence.score(examples, [member])
    except BudgetError:
        return {"n_answers": 0, **about, "stream": None, "reason": MORE_REQUESTS}
    groups = names if rule.groups is not None else None
    reached = stops_of_worst(
        sentences,
        registry.key_of(member),
        rule.thresholds(len(sample), groups)[rows],
        promise.undefined,
        detector.tolerance,
    )
    stream = stopped_streams(
        sentences,
        reached,
        # Bets on a mean need an order that has nothing to do with the answers.
        hallucinated=np.searchsorted(rows, in_order(measured, counted & (sample.labels == 1))),
        faithful=np.flatnonzero(table.labels == 0),
        confidence=confidence,
    )
    return {"n_answers": len(table), **about, "stream": stream}


def _marked(
    source: Source, scored: scoring.Scored, part: NDArray[np.bool_], reading: ReadOptions
) -> dict[int, Example] | None:
    """Read the answers of a part that are marked, by their rows; None where none can be.

    What is unusable was set aside when the scores were computed.
    """
    table, how = scored.table, replace(reading, quarantine=None, strict=False)
    rows = {table.ids[row].as_py(): row for row in np.flatnonzero(part).tolist()}
    marked = {}
    try:
        opened = open_source(source, how, scored.detectors, by_sentence=True, allow_none=True)
        for example in opened:
            row = rows.get(example.id)
            if row is None or int(example.digest("plain"), 16) != int(table.digests[row]):
                continue
            answer = _by_its_text(example)
            labels = sentence_labels(answer, reading.span_share)
            if None not in labels and (1 in labels) == (table.labels[row] == 1):
                marked[row] = answer
    except DataError:
        # As sentences the data cannot be read at all.
        return None
    marks = opened.columns.marks
    # Rows that were answers may be sentences of others.
    gathered = opened.columns.marked.answer_id is not None
    same = not gathered or "answer_id" in scored.data["reading"]["columns"]
    return marked if same and marks is not None and marks.n_marked > 0 else None


def _by_its_text(example: Example) -> Example:
    """Return an answer whose sentences are those of its text, marked where the data's own are."""
    if example.sentences is None:
        return example
    pairs = zip(sentences_of(example), sentence_labels(example), strict=True)
    spans = tuple((item.start, item.end) for item, label in pairs if label)
    return replace(example, sentences=None, spans=spans)


@options_from_keywords(promise=Promise, requirement=Requirement, reading=ReadOptions, costs=Costs)
def calibrate(
    source: Source | None = None,
    score: custom.ScoreLike | Sequence[custom.ScoreLike] | None = None,
    promise: Promise | None = None,
    requirement: Requirement | None = None,
    *,
    score_column: str | Sequence[str] | None = None,
    costs: Costs | None = None,
    target: Source | None = None,
    reading: ReadOptions | None = None,
    splitting: SplitOptions | None = None,
    context: Context | None = None,
    looks: str | PathLike[str] | None = None,
    threshold: float | None = None,
    cost_miss: float | None = None,
    cost_alarm: float | None = None,
    base_rate: float | None = None,
    alpha: float = 0.05,
    guarantee: Guarantee | None = None,
    delta: float | None = None,
    undefined: Undefined = "flag",
    allow_flag_all: bool = False,
    by: str | Sequence[str] | None = None,
    min_n: int | None = None,
    clustered: bool = False,
    beta: float | None = None,
    unit: Unit = "answer",
    max_false_alarms: float | None = None,
    min_caught: float | None = None,
    confidence: float = 0.95,
    assume_independent: bool = False,
    risks: Sequence[str] = (),
    min_kept: float | None = None,
    n_looks: int | None = None,
    scores: Any = None,
    labels: Any = None,
    groups: Any = None,
    ids: Any = None,
    higher: registry.Higher | None = None,
    baselines: bool = True,
    **how: Unpack[ReadKeywords],
) -> Run:
    """Find the threshold that catches a stated share of hallucinations, and what it costs.

    Promise, bounds and verdict hold for independent answers, or groups, like those to come, rightly
    labelled, where detector, promise and requirement were fixed before these answers were seen.

    Parameters
    ----------
    source : path, str or data in memory
        Labelled answers: a file or folder, ``"example:facts"``; a DataFrame, an Arrow table, a dict
        of columns, a list of dicts or of examples. Left out where ``scores`` are given.
    score : str, Score, callable, estimator or sequence, optional
        The detector, e.g. ``"rad"``, ``"column:column=dae,higher=faithful"``, ``"module:name"``, a
        function of an `Example`, or a fitted object with ``predict_proba`` (see `CustomScore`).
        The first of several is calibrated for export; the others stand beside it in the report.
        Left out, it is the data's own column of scores where its name says what a higher value
        means; ``rouge_l`` where it has none.
    score_column : str or sequence of str, optional
        Columns of scores that the data holds, after the detectors of ``score``.
    promise : Promise, optional
        What the threshold is to keep.
    requirement : Requirement, optional
        What the data is to show of it. A ``certified`` verdict needs ``max_false_alarms``, or
        risks.
    target : path, str or iterable of Example, optional
        Unlabelled production answers: the report says how far they differ from the calibration
        answers, and what weighting towards them would change. No exact promise follows.
    reading, splitting : optional
        How to read the file and how to split it. What is said of reading may stand by itself, e.g.
        ``label_column="verdict", positive="FAIL"``.
    context : Context, optional
        The command, who is told of the progress, and whether ``report.html`` shows texts.
    looks : path, optional
        File that keeps what was looked at. Where a tenth of this data was looked at before, by
        any detector, split or limits, there is no verdict, unless ``n_looks`` were declared with
        the first look: each errs with an equal part. What other detectors showed of this data in
        files of that name in folders beside its own is told, with no certificate where it chose
        this one. The command keeps one in its folder; without ``looks`` nothing is kept.
    threshold : float, optional
        One that was fixed before these answers were seen: nothing is calibrated, and all of them
        test it, as `test` does.
    costs : Costs, optional
        What wrong decisions cost; its fields may stand by themselves. The threshold of least cost
        on the calibration part takes the place of a promise, and the test part bounds its cost.
    cost_miss, cost_alarm, base_rate
        The fields of `Costs`, by themselves in its place.
    alpha : float
        Tolerated miss rate: a share of 1 - alpha of the hallucinations is caught.
    guarantee : {"marginal", "pac", "anytime", "paper"}
        ``marginal``: on average over calibration draws. ``pac``: for this very threshold, with
        probability at least 1 - ``delta``. ``anytime``: for all made as examples come in.
    delta : float
        Error probability of ``pac`` and ``anytime``.
    by : str or sequence of str, optional
        Column of groups: each with enough answers gets a threshold and a promise; several where
        groups overlap.
    undefined, allow_flag_all, min_n, clustered, beta, unit
        Further fields of `Promise`, by themselves in its place.
    max_false_alarms, min_caught : float, optional
        Share of faithful answers that may be flagged, and coverage that is required, of a verdict.
    confidence : float
        Level of every interval and of the verdict.
    assume_independent, risks, min_kept, n_looks
        Further fields of `Requirement`, by themselves in its place.
    scores, labels, groups, ids : array-like, optional
        In place of ``source``, one value per answer each; the last two where there are any.
    higher : {"hallucinated", "faithful"}, optional
        What high ``scores``, or those of ``score_column``, speak for: of ``scores`` hallucinated
        when left out, of a column what its name says.
    baselines : bool
        Whether baselines (answer length, new words, ...) stand beside the detectors.

    Returns
    -------
    Run
        Save it with ``run.save(folder)``; freeze it with ``run.freeze()``.

    Raises
    ------
    DataError
        If no row is usable, or a class is missing from a split, or the score is undefined
        everywhere.
    TooFewExamplesError
        If no threshold short of flagging everything keeps the promise.

    Examples
    --------
    >>> run = calibrate("example:facts", "novel_count", alpha=0.1, max_false_alarms=0.9)
    >>> run.calibration.rank, run.calibration.n == len(run.calibration.scores)
    (20, True)
    """
    arrays = {"scores": scores, "labels": labels, "groups": groups, "ids": ids}
    if threshold is not None:
        promise = optional(promise, Promise, "promise")
        requirement = optional(requirement, Requirement, "requirement")
        given = _beside_fixed(promise, requirement, target)
        if void := [*given, *(["splitting"] if splitting and changed(splitting) else [])]:
            raise InputError(say("refused.threshold_alone", void=void))
        return fixed_threshold.test(
            source,
            None if scores is not None else score,  # type: ignore[arg-type]  # refused there
            threshold=threshold,
            **requirement.keywords(),
            undefined=promise.undefined,
            score_column=score_column,
            higher=higher,
            reading=reading,
            context=context,
            looks=looks,
            costs=costs,
            **arrays,
        )
    if scores is None or score_column is not None:
        score, higher = fixed_threshold.with_columns(score, score_column, higher), None
    source, score = calibration_source(source, score, arrays, higher)
    promise = optional(promise, Promise, "promise")
    requirement = optional(requirement, Requirement, "requirement")
    context = optional(context, Context, "context")
    requirement.check(promise)
    source, score, said = fixed_threshold.with_unnamed(source, score, reading, unit=promise.unit)
    settled: tuple[str, ...] = ()
    named = promise if costs is None or costs.cost_miss is None else None
    if named is not None:
        promise, requirement, settled = scoring.settle(promise, requirement)
    else:
        if void := _beside_fixed(promise, requirement, target):
            raise InputError(say("refused.costs_alone", void=void))
        score, baselines = fixed_threshold.only_one(score, "costs pick the threshold of"), False
        promise = fixed_threshold.asked_of(requirement, undefined=promise.undefined)
    if requirement.risks:
        requirement = replace(requirement, risks=tuple(map(str, parse_risks(requirement.risks))))
    if target is not None and promise.unit == "sentence":
        raise InputError(say("refused.target_of_sentences"))
    history = data_reuse.DataUseHistory(looks)
    splitting, alone = optional(splitting, SplitOptions, "splitting"), not requirement.risks
    scored = scoring.score_source(
        source,
        score,
        reading=reading,
        splitting=splitting.proving(promise) if alone else splitting,
        keep=columns_kept(promise),
        beside=scoring.beside_of(baselines),
        progress=context.progress,
        by_sentence=by_sentence(promise, reading),
    )
    if promise.guarantee == "fixed":
        about = {**scored.data, "baselines": {"none": None, "undefined": {}}}
        scored = replace(scored, data=about)
    scoring.require_usable(scored, test=not (alone and promise.proves_itself))
    names, cuts = groups_of(scored, promise)
    look, standing = data_reuse.begin_report(
        history, scored, scored.keys[:1], promise, requirement, costs=costs, given=named
    )
    promise, requirement = standing.part_of(promise), standing.strict(requirement)
    origin = origin_of(scored, context)
    alike = alike_names(
        " and ".join(group_thresholds.columns_of_groups(promise.by)), names or (), "groups"
    )
    origin = replace(origin, notes=(*said, *origin.notes, *settled, *alike))
    production = _production(scored, target, reading)
    try:
        rule, promise, sample, report = _evaluated(
            scored, promise, requirement, origin, production, names, cuts, costs
        )
    except TooFewExamplesError:
        # Nothing was shown: those that are labelled now come with these.
        history.conclude(data_reuse.SPLIT, look, None)
        raise
    others = tuple(replace(row, score=scored.specs[row.name]) for row in report.detectors)
    report = replace(report, detectors=others)
    if scored.sentences is None:
        level = requirement.confidence
        shown = streamed(source, scored, sample, rule, promise, names, reading, level)
        report = replace(report, sentences=shown)
    report = independence.settled_report(report)
    report = data_reuse.report_after_reuse(report, standing)
    history.conclude(data_reuse.SPLIT, look, report.verdict)
    report = with_repeats(report, scored, sample, rule, names)
    tested = look_overlap.with_reuse_reported(
        scored, everyone=promise.of_this_threshold, verdict=report.verdict
    )
    examples = page_examples(scored, rule, names, text=context.text)
    run = run_of(scored, add_messages(report), rule, sample.split, looked_at=tested.to_dict())
    return replace(run, examples=examples)


def _beside_fixed(promise: Promise, requirement: Requirement, target: Source | None) -> list[str]:
    """Return what was asked for that one threshold, which keeps no promise, cannot give."""
    given = {**changed(promise), "target": target is not None}
    given |= {"risks": requirement.risks, "min_kept": requirement.min_kept}
    return [name for name, value in given.items() if value and name != "undefined"]


def _thresholds(
    sample: Sample,
    promise: Promise,
    requirement: Requirement,
    names: Sequence[str] | None,
    cuts: tuple[float, ...] | None,
    weights: tuple[float, float] | None,
) -> tuple[Rule, RiskControl | None]:
    """Return the thresholds that were asked for, from the calibration part alone."""
    part = sample.rows(CALIBRATION)
    if weights is not None:
        drawn, tolerance = sample.drawn(CALIBRATION, sample.labels), sample.tolerance
        edge = least_cost(sample.values[drawn], sample.labels[drawn], weights, tolerance)
        hallucinated = sample.values[part & (sample.labels == 1)]
        return Rule(given_threshold(hallucinated, edge, promise)), None
    if requirement.risks:
        # Its own threshold plays no part.
        promise = replace(promise, allow_flag_all=True)
    # Thresholds by a column rest on one answer of each group already.
    clusters = sample.clusters if promise.clustered and names is None else None
    with sample.labels_to_add():
        answers = sample.values, sample.labels, part, promise
        rule = fit_rule(*answers, clusters=clusters, names=names, cuts=cuts, together=sample.whole)
    if not requirement.risks:
        return rule, None
    # The guardrail flags at value + tolerance, so that is what the risks are tested on.
    control = control_risks(
        sample.values[part] + sample.tolerance,
        sample.labels[part],
        requirement.risks,
        requirement.confidence,
        undefined=promise.undefined,
        groups=None if sample.groups is None else sample.groups[part],
    )
    if control.threshold is None:
        raise DataError(f"{control.reason}; ask for less, or label more answers")
    return replace(rule, chosen=control.threshold), control


def _evaluated(
    scored: scoring.Scored,
    promise: Promise,
    requirement: Requirement,
    origin: ReportOrigin,
    production: Mapping[str, Floats] | None,
    names: Sequence[str] | None,
    cuts: tuple[float, ...] | None,
    costs: Costs | None,
) -> tuple[Rule, Promise, Sample, Report]:
    """Return the thresholds, what they promise, on which answers, and the report.

    What is promised holds whichever near copies are copies: the thresholds are those where these
    count at worst, and the verdict is the worst.
    """
    columns = scored.table.columns
    readings = independence.readings(scored, requirement)
    ways = [independence.independent(way, promise, requirement, names) for way in readings]
    by = costs if promise.guarantee == "fixed" else None
    weights = None if by is None else by.weights(ways[-1][0][0].base_rate)

    def counted(samples: independence.Samples, kept: Promise, *, may_lack: bool) -> _Counted | None:
        kept = promise if weights else kept
        try:
            made = _thresholds(samples[0], kept, requirement, names, cuts, weights)
        except TooFewExamplesError:
            # Of near copies that count once too few may be left.
            if not may_lack:
                raise
            return None
        return samples, kept, *made

    labels, several = scored.table.labels == HALLUCINATED, len(readings) > 1
    every = [counted(*way, may_lack=way is not ways[-1]) for way in ways]
    decides, lower, lacks = cast(_Counted, every[-1]), several, False
    both, kept = [way[0] for way in ways], ways[-1][1]
    while lower:
        flagged = _flags(decides, names)
        values, at = decides[0][0].values, decides[2].thresholds(len(labels), names)
        above = flagged & ~(values <= at)
        # Of those at the threshold one may be too few to hold it, and all of them too many.
        tried = [
            counted(independence.extreme(both, it != labels), kept, may_lack=True)
            for it in (flagged, above)
        ]
        lower, lacks = False, tried[0] is None
        # What costs least need not move with how copies count.
        for way in tried if None not in tried and not weights else ():
            more = _flags(cast(_Counted, way), names) & ~flagged
            if more.any() and not (flagged & ~_flags(cast(_Counted, way), names)).any():
                decides, lower = cast(_Counted, way), True
                break
    _, promise, rule, control = decides
    if several:
        wrong, withheld = _judged(decides, scored, requirement, names)
        for lacking, *ends in ((lacks, wrong, withheld), (False, ~wrong, ~withheld)):
            end = independence.extreme(both, *ends), kept, rule, control
            own = counted(*end[:2], may_lack=True) if end[0][0].whole else end
            every.append(None if lacking else own)
    about: dict[str, Any] = {"names": names, "risks": control, "sentences": scored.sentences}
    asked = promise, requirement
    decisions: list[VerdictResult | None] = []
    for way in every:
        if way is None:
            decisions.append(None)
            continue
        shown = _at(rule, way[2]) if way[0][0].whole else rule
        decisions.append(decided(shown, way[0][0], *asked, scored.keys[0], costs=costs, **about))

    def measured(place: int) -> Report:
        first, *further = cast(_Counted, every[place])[0]
        others = Others(
            {name: first.with_scores(columns[name]) for name in scored.baselines},
            dict(zip(scored.keys[1:], further, strict=True)),
            production,
            [way[0][0] for way in ways] if several else (),
            decisions[place],
        )
        return evaluate(rule, first, *asked, origin, others=others, **about)

    place, report = independence.joint_report(decisions, measured)
    return rule, promise, cast(_Counted, every[place])[0][0], report


#: Every detector's sample as answers count, what is promised of it, and the thresholds.
_Counted: TypeAlias = tuple[independence.Samples, Promise, Rule, RiskControl | None]


def _flags(way: _Counted, names: Sequence[str] | None) -> NDArray[np.bool_]:
    return way[2].flags(way[0][0].values, names, way[0][0].tolerance)


def _judged(
    way: _Counted, scored: scoring.Scored, requirement: Requirement, names: Sequence[str] | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return about which answers a rule is wrong, and which it withholds or cuts too short."""
    stopped = withheld = _flags(way, names)
    if scored.sentences is not None:
        first, rule, key = way[0][0], way[2], scored.keys[0]
        at = rule.thresholds(len(first), names)
        trimmed = RemovalOutcome.at(at, first, scored.sentences, key, rule.undefined)
        stopped, kept = trimmed.stopped, trimmed.outcomes.kept
        withheld = kept < (requirement.min_kept or 0.0)
    return stopped != (scored.table.labels == HALLUCINATED), withheld


def _at(rule: Rule, own: Rule) -> Rule:
    """Return the thresholds of a rule among the calibration scores of one way to count.

    So many of these below a threshold refute a limit as they would where it came from elsewhere.
    """
    if own is rule:
        return rule
    first = replace(own.calibration, threshold=rule.calibration.threshold)
    if not isinstance(rule.groups, group_thresholds.GroupedCalibration):
        return replace(rule, calibration=first)
    known = cast(group_thresholds.GroupedCalibration, own.groups).groups
    groups = {
        name: replace(known.get(name, item), threshold=item.threshold)
        for name, item in rule.groups.groups.items()
    }
    return replace(rule, calibration=first, groups=replace(rule.groups, groups=groups))


def _production(
    scored: scoring.Scored, target: Source | None, reading: ReadOptions | None
) -> Mapping[str, Floats] | None:
    """Return the baselines of production answers, where there are any."""
    if target is None:
        return None
    if not scored.baselines:
        raise InputError(say("refused.target_without_baselines"))
    options = optional(reading, ReadOptions, "reading")
    options = replace(options, quarantine=None, limit=None, sample=None)
    return dict(scoring.score_only(target, scored.baselines, reading=options)[0].columns)
