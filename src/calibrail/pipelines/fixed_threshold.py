"""Test(): what a threshold that somebody ships already catches and costs.

It was fixed before these answers were seen, so that all of them test it, exactly. What is asked of
it may be named with the first look, and then both requirements may take the whole error, or after
it; then each takes half.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from os import PathLike
from typing import Any, Final, Unpack, cast

import numpy as np

from calibrail.conformal.bounds import Bound
from calibrail.conformal.threshold import fixed_threshold
from calibrail.conformal.threshold_rule import Rule
from calibrail.data.aliases import NAMES
from calibrail.data.columns import likely_labels
from calibrail.data.example import FAITHFUL, HALLUCINATED
from calibrail.data.labels import is_of_people, label_key, meaning_of_one, side_of
from calibrail.data.reading import Reading, read
from calibrail.data.sources import Source, reusable
from calibrail.data.splits import TEST
from calibrail.data.suggested_options import direction_of, words_of
from calibrail.data.traces._spans import SCORE
from calibrail.data.values import column_value, likely_number, value_at
from calibrail.errors import DataError, InputError
from calibrail.evaluation import Report, Sample, evaluate
from calibrail.evaluation.evaluate import Others, decided
from calibrail.models.hardware import installed_versions
from calibrail.options import Costs, Detectors, Promise, ReadOptions, Requirement
from calibrail.options.data import ReadKeywords
from calibrail.options.fields import direction, number, optional
from calibrail.options.guarantee import Undefined
from calibrail.options.keywords import options_from_keywords
from calibrail.pipelines import data_reuse, independence, scoring
from calibrail.pipelines.estimate import with_repeats
from calibrail.pipelines.examples import origin_of, page_examples
from calibrail.pipelines.loading import Context, calibration_source
from calibrail.pipelines.run import Run, class_scores, score_config, traffic_sketch
from calibrail.report.documents.calibrate_sections import add_messages
from calibrail.report.messages import say
from calibrail.scores import custom, registry
from calibrail.scores.base import Score

_OF_RUNS: Final = frozenset(NAMES["directions"]["of_runs"].split())
#: Parts of a column's name that speak of a score, whatever its direction.
_SPEAKING: Final = ("score", "prob", "confidence", "judge", "verdict", "flag", "predict", "grade")


@options_from_keywords(reading=ReadOptions, costs=Costs)
def test(
    source: Source | None = None,
    score: custom.ScoreLike | None = None,
    *,
    threshold: float | None = None,
    min_caught: float | None = None,
    max_false_alarms: float | None = None,
    confidence: float = 0.95,
    undefined: Undefined = "flag",
    assume_independent: bool = False,
    n_looks: int | None = None,
    costs: Costs | None = None,
    cost_miss: float | None = None,
    cost_alarm: float | None = None,
    base_rate: float | None = None,
    score_column: str | None = None,
    higher: str | None = None,
    reading: ReadOptions | None = None,
    context: Context | None = None,
    looks: str | PathLike[str] | None = None,
    scores: Any = None,
    labels: Any = None,
    groups: Any = None,
    ids: Any = None,
    **how: Unpack[ReadKeywords],
) -> Run:
    """Test a threshold that was fixed beforehand on all labelled answers, with exact bounds.

    Parameters
    ----------
    source : path, str or data in memory
        Labelled answers, as `calibrate` takes them.
    score : str, Score or callable, optional
        The detector, one that does not learn. Left out, a column of scores is looked for.
    threshold : float, optional
        In the numbers of the score: an answer is flagged at it and beyond, towards hallucinated. It
        must have been fixed before these answers were looked at. A score that says only yes or no
        needs none.
    min_caught, max_false_alarms : float, optional
        What it is to keep, for a verdict: the share of hallucinated answers that is flagged at
        least, and of faithful ones at most. Both or neither.
    confidence : float
        Of both intervals together, and of the verdict.
    undefined : {"flag", "review", "pass"}
        What happens to answers without a score.
    assume_independent : bool
        Count every answer, although answers of one group are alike.
    n_looks : int, optional
        How many verdicts there will be, declared with the first.
    costs : Costs, optional
        What wrong decisions cost: the report then bounds what the threshold is to cost.
    cost_miss, cost_alarm, base_rate
        The fields of `Costs`, by themselves in its place.
    score_column : str, optional
        The column of scores.
    higher : {"hallucinated", "faithful"}, optional
        What a higher value of the column, or of ``scores``, means; what its name says where that is
        clear. It is never told from the labels.
    reading : ReadOptions, optional
        How to read the source. Its fields may stand by themselves.
    context : Context, optional
        The command, who is told of the progress, and whether the page shows texts.
    looks : path, optional
        File that keeps what was looked at, as that of `calibrate`.
    scores, labels, groups, ids : array-like, optional
        In place of ``source``, one value per answer each; the last two where there are any.

    Returns
    -------
    Run
        ``run.report.test`` holds both shares with their exact intervals; ``run.freeze()`` makes a
        guardrail with this very threshold.

    Raises
    ------
    InputError
        If the threshold is missing or lies beyond all scores, or the score is not clear.
    DataError
        If no row is usable, or a class is missing.

    Examples
    --------
    >>> run = test(scores=[0.9, 0.8, 0.2, 0.1] * 30, labels=[1, 1, 0, 0] * 30, threshold=0.7,
    ...            ids=range(120), min_caught=0.8, max_false_alarms=0.2)
    >>> run.verdict, run.report.test.coverage.count, round(run.report.test.coverage.lower, 3)
    ('certified', 60, 0.93)
    """
    context = optional(context, Context, "context")
    requirement = Requirement(
        max_false_alarms=max_false_alarms,
        min_caught=min_caught,
        confidence=confidence,
        assume_independent=assume_independent,
        n_looks=n_looks,
    )
    promise = asked_of(requirement, undefined=undefined)
    asked = min_caught is not None
    if not asked and n_looks is not None:
        raise InputError(say("refused.one_goal", nothing=True))
    arrays = {"scores": scores, "labels": labels, "groups": groups, "ids": ids}
    if source is None or any(values is not None for values in arrays.values()):
        given = registry.DEFAULT_SCORE if score is None else score
        if higher is not None:
            direction(higher, Detectors)
        source, score = calibration_source(source, given, arrays, cast(Any, higher))
    elif score is None:
        source, score = found_column(source, threshold, reading, score_column, higher)
    elif score_column is not None or higher is not None:
        raise InputError("score_column and higher name a column; leave them out beside a score")
    detectors = scoring.resolve_unlearnt(only_one(score, "test takes"))
    history = data_reuse.DataUseHistory(looks)
    scored = scoring.score_source(
        source, detectors, reading=reading, beside=None, companions=False, progress=context.progress
    )
    scoring.require_usable(scored, split=False)
    split = {**scored.data["split"], "seed": None, "calibration_share": 0.0, "fit_share": 0.0}
    about = {**scored.data, "split": split, "baselines": {"none": None, "undefined": {}}}
    scored = replace(scored, data=about)
    edge = _edge(scored, threshold)
    values = scored.table.columns[scored.keys[0]]
    n_tied, beyond = int(np.sum(values == edge)), values[values > edge]
    if threshold is not None and len(beyond) and n_tied >= _MANY_TIED * len(values):
        tied = {"n": n_tied, "beyond": float(beyond.min())}
        scored = replace(scored, data={**scored.data, "ties": tied})
    look, standing = data_reuse.begin_report(
        history, scored, scored.keys, promise, requirement, costs=costs, threshold=edge, asked=asked
    )
    halved = standing.share == 0.5 and standing.declared is None
    requirement = standing.strict(requirement) if asked else requirement
    origin = origin_of(scored, context)
    rule, sample, report = _tested(scored, edge, promise, requirement, origin, costs)
    report = data_reuse.report_after_reuse(independence.settled_report(report), standing)
    history.conclude(data_reuse.SPLIT, look, report.verdict)
    coverage, fpr = (Bound(**report.certificate["region"][name]) for name in ("coverage", "fpr"))
    notes = [say("fixed_threshold.halved")] if asked and halved else []
    report = replace(
        report,
        rank=0,
        n_calibration=0,
        test=replace(report.test, coverage=coverage, fpr=fpr),
        notes=(*report.notes, *notes),
    )
    report = with_repeats(report, scored, sample, rule, None)
    looked_at = data_reuse.with_reuse_reported(scored, everyone=False, verdict=report.verdict)
    return Run(
        report=add_messages(report),
        rule=rule,
        spec=score_config(scored.detectors[0]),
        data={**scored.data, "looked_at": looked_at.to_dict()},
        calibration_examples=(),
        versions=installed_versions(),
        table=scored.table,
        codes=sample.split,
        classes=class_scores(scored, assume_independent=assume_independent),
        sketched=cache(partial(traffic_sketch, scored, report)),
        examples=page_examples(scored, rule, None, text=context.text),
    )


#: It is no test of whoever imports it into a file of tests.
test.__test__ = False  # type: ignore[attr-defined]


def asked_of(requirement: Requirement, *, undefined: Undefined) -> Promise:
    """Return the promise of a threshold of which no more is known than what is asked of it.

    Raises
    ------
    InputError
        If one of both rates is asked for without the other.
    """
    caught = requirement.min_coverage
    if (caught is None) != (requirement.max_fpr is None):
        raise InputError(say("refused.one_goal", nothing=False))
    return Promise(1.0 if caught is None else 1.0 - caught, "fixed", undefined=undefined)


#: Share of the answers that lie exactly at the threshold from which on that is said.
_MANY_TIED: Final = 0.02


def only_one(score: Any, what: str) -> Score:
    """Return the one score that is given; ``what`` says what takes no more than one."""
    detectors = scoring.resolve_scores(score)
    if len(detectors) != 1:
        names = ", ".join(map(registry.key_of, detectors))
        raise InputError(f"{what} one score; got {names}")
    return detectors[0]


def _tested(
    scored: scoring.Scored,
    edge: float,
    promise: Promise,
    requirement: Requirement,
    origin: Any,
    costs: Costs | None,
) -> tuple[Rule, Sample, Report]:
    """Return the threshold, which answers count, and the report: the worse of all ways to count.

    Near copies count once, each, at worst and at best, as `certify` counts them.
    """
    labels, values = scored.table.labels, scored.table.columns[scored.keys[0]]
    rule = Rule(fixed_threshold(values[(scored.codes == TEST) & (labels == 1)], edge, promise))
    readings = independence.readings(scored, requirement)
    ways = [independence.independent(way, promise, requirement)[0] for way in readings]
    if len(ways) > 1:
        wrong = rule.flags(values, None, scored.detectors[0].tolerance) != (labels == 1)
        ways += [independence.extreme(ways, apart) for apart in (wrong, ~wrong)]
    asked = promise, requirement
    decisions = [decided(rule, way[0], *asked, scored.keys[0], costs=costs) for way in ways]

    def measured(place: int) -> Report:
        both = [way[0] for way in ways[:2]] if len(ways) > 1 else ()
        others = Others(ways=both, decision=decisions[place])
        return evaluate(rule, ways[place][0], *asked, origin, others=others)

    place, report = independence.joint_report(decisions, measured)
    return rule, ways[place][0], report


def _edge(scored: scoring.Scored, threshold: float | None) -> float:
    """Return the threshold as the score is kept; that of a yes/no score where none is given."""
    detector, key = scored.detectors[0], scored.keys[0]
    scale = registry.scale_of(detector)
    known = scored.table.columns[key]
    known = known[~np.isnan(known)]
    ends = sorted(float(scale.shown(end)) for end in (known.min(), known.max()))
    about: dict[str, Any] = {"name": scale.column or key, "ends": ends}
    if threshold is None:
        if not set(scale.shown(known).tolist()) <= {0.0, 1.0}:
            raise InputError(say("refused.threshold_missing", about))
        return 0.0 if scale.negated else 1.0
    if not ends[0] <= (given := number(threshold, "threshold")) <= ends[1]:
        kept = scale.shown(given)
        about["all"] = bool(kept <= known.min())
        shares = (100.0 * given, given / 100.0)
        about["nearer"] = next((x for x in shares if ends[0] <= x <= ends[1]), None)
        raise InputError(say("refused.threshold_beyond", about, threshold=given))
    return float(scale.shown(given))


def found_column(
    source: Source,
    threshold: float | None = None,
    reading: ReadOptions | None = None,
    named: str | None = None,
    higher: str | None = None,
) -> tuple[Source, Score]:
    """Return the column of scores, the one that is named or the one that there is.

    Verdicts go before numbers where there is no threshold. What a higher value, or a yes, means is
    taken from words and the column's name where nobody says it, never from the labels.

    Parameters
    ----------
    source, threshold, reading, higher
        As in `test`.
    named : str, optional
        The column.

    Returns
    -------
    source : path, str or data in memory
        What can be read again.
    score : Score

    Raises
    ------
    InputError
        If several columns may be it, or none; or if it may mean either.
    """
    source = reusable(source)
    how = replace(optional(reading, ReadOptions, "reading"), quarantine=None, strict=False)
    opened, unlabelled = _opened(source, how)
    try:
        return source, _chosen(opened, threshold, named, higher)
    except InputError as error:
        if unlabelled is None:
            raise
        # Both are said at once.
        raise DataError(f"{unlabelled}. And: {error}") from error


def _opened(source: Source, how: ReadOptions) -> tuple[Reading, DataError | None]:
    """Open answers; where no column of labels is found, give that error beside them."""
    try:
        return read(source, how, require=(), allow_none=True), None
    except DataError as error:
        opened = read(source, how, require=(), labelled=False, allow_none=True)
        return opened, error


def _chosen(
    opened: Reading, threshold: float | None, named: str | None, higher: str | None
) -> Score:
    named = named or _likeliest(opened, threshold)
    known, strange = _held(opened.head, named)
    verdict = bool(known) and known <= _VERDICTS
    if higher is None and verdict and known.isdisjoint(("yes", "no")):
        higher = "hallucinated"
    higher = direction_of(named) if higher is None else higher
    if higher is None and verdict and (means := meaning_of_one(named)) is not None:
        higher = ("faithful", "hallucinated")[means]
    if higher is None:
        about = {"column": named, "strange": strange, "verdict": verdict}
        raise InputError(say("refused.which_direction", about))
    direction(higher, Detectors)
    return registry.build_column(named, higher)


def _likeliest(opened: Reading, threshold: float | None) -> str:
    """Return the one column that may be the score: by its name, else as the only one."""
    columns = opened.columns
    used = {columns.by_field[field] for field in columns.present}
    used |= {*columns.label_columns, *columns.marked.names, *filter(is_of_people, opened.fields)}
    if "label" not in columns.present:
        used |= {*likely_labels(opened.head)[:1]}
    # First what speaks of a score, and of that what is of the kind that is asked for.
    ranks: dict[tuple[bool, bool, bool, bool], list[str]] = {}
    for name in (name for name in opened.fields if name not in used):
        known, strange = _held(opened.head, name)
        # MLflow's metrics end in /score, whatever they are about.
        own, verdict = name.removeprefix(SCORE).partition("/")[0], known <= _VERDICTS
        speaks = bool(direction_of(own)) or any(part in own.lower() for part in _SPEAKING)
        speaks |= not known.isdisjoint((FAITHFUL, HALLUCINATED))
        speaks |= verdict and meaning_of_one(own) is not None
        if known and (None not in known or (strange and speaks)):
            constant = len({str(value_at(row, name)) for row in opened.head}) == 1
            aside = not speaks and (constant or not _OF_RUNS.isdisjoint(words_of(own)))
            rank = bool(strange), aside, not speaks, verdict != (threshold is None)
            ranks.setdefault(rank, []).append(name)
    names = ranks[min(ranks)] if ranks else []
    # Of promptfoo it is the mean of the others.
    names = [name for name in names if name != f"{SCORE}score"] or names
    cells = {tuple(str(value_at(row, name)) for row in opened.head): name for name in names[::-1]}
    if len(cells) != 1:
        raise InputError(say("refused.which_column", names=names))
    return names[0]


#: What `_held` says of verdicts.
_VERDICTS: Final = frozenset((FAITHFUL, HALLUCINATED, "yes", "no"))


def _held(
    rows: Sequence[Mapping[str, object]], name: str
) -> tuple[set[int | str | None], list[str]]:
    """Return what a column holds: classes, yes and no (1 and 0 among them), numbers, or None.

    Beside it its two words, where it holds no more, and one says nothing.
    """
    cells = [cell for row in rows if (cell := column_value(value_at(row, name))) is not None]
    numbers = {likely_number(cell) for cell in cells}
    if cells and None not in numbers and not numbers <= {0.0, 1.0}:
        return {"number"}, []
    words = sorted({label_key(cell) for cell in cells})
    known = {side_of(word) for word in words}
    return known, words if None in known and len(words) == 2 else []
