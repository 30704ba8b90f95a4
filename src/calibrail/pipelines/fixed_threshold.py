"""Test(): what a threshold that somebody ships already catches and costs.

It was fixed before these answers were seen, so that all of them test it, exactly. What is asked of
it may be named with the first look, and then both requirements may take the whole error, or after
it; then each takes half.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import filterfalse
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack, cast

import numpy as np

from calibrail.conformal.bounds import Bound
from calibrail.conformal.threshold import fixed_threshold
from calibrail.conformal.threshold_rule import Rule
from calibrail.data import suggested_options
from calibrail.data.columns import is_of_program, likely_labels, which_label
from calibrail.data.example import FAITHFUL, HALLUCINATED, Example
from calibrail.data.labels import is_of_people, label_key, meaning_of_one, side_of
from calibrail.data.reading import Reading, read
from calibrail.data.sources import Source, reusable
from calibrail.data.splits import TEST
from calibrail.data.suggested_options import direction_of, is_apart, speaks_of_score, words_of
from calibrail.data.traces._spans import SCORE
from calibrail.data.values import ABSENT, column_value, likely_number, nested_names, value_at
from calibrail.errors import CalibrailError, DataError, InputError
from calibrail.evaluation import Report, Sample, evaluate
from calibrail.evaluation.evaluate import Others, decided
from calibrail.models.hardware import installed_versions
from calibrail.options import Costs, Detectors, Promise, ReadOptions, Requirement, ScoreThreshold
from calibrail.options.data import ReadKeywords
from calibrail.options.fields import direction, number, optional, texts
from calibrail.options.guarantee import Undefined, Unit
from calibrail.options.keywords import options_from_keywords
from calibrail.pipelines import data_reuse, independence, look_overlap, scoring
from calibrail.pipelines.estimate import with_repeats
from calibrail.pipelines.examples import origin_of, page_examples
from calibrail.pipelines.loading import Context, calibration_source
from calibrail.pipelines.run import Run, class_scores, score_config, traffic_sketch
from calibrail.report.documents.calibrate_sections import add_messages
from calibrail.report.messages import say
from calibrail.scores import custom, registry
from calibrail.scores.base import Score

if TYPE_CHECKING:
    from calibrail.guardrail.runtime import Guardrail


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
    score_column: str | Sequence[str] | None = None,
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

    They hold for independent answers, or groups, like those to come, that are rightly labelled.

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
    score_column : str or sequence of one str, optional
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
    if not isinstance(score_column, str | None):
        score, score_column, higher = with_columns(score, score_column, higher), None, None
    if source is None or any(values is not None for values in arrays.values()):
        if higher is not None:
            direction(higher, Detectors)
        source, score = calibration_source(source, score_column or score, arrays, cast(Any, higher))
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
    edge, values = _edge(scored, threshold), scored.table.columns[scored.keys[0]]
    if threshold is not None and (far := _far(scored, edge)) is not None:
        about["far"] = far
    n_tied, beyond = int(np.sum(values == edge)), values[values > edge]
    if threshold is not None and len(beyond) and n_tied >= _MANY_TIED * len(values):
        about["ties"] = {"n": n_tied, "beyond": float(beyond.min())}
    scored = replace(scored, data=about)
    look, standing = data_reuse.begin_report(
        history, scored, scored.keys, promise, requirement, costs=costs, threshold=edge, asked=asked
    )
    named, halved = requirement, asked and standing.halves
    requirement = standing.strict(requirement) if asked else requirement
    origin = origin_of(scored, context)
    rule, sample, report = _tested(scored, edge, promise, requirement, origin, costs)
    if halved:
        stated = data_reuse.at_confidence(report.certificate, named)
        report = replace(report, certificate=stated, requirement=named)
    report = data_reuse.report_after_reuse(independence.settled_report(report), standing)
    history.conclude(data_reuse.SPLIT, look, report.verdict)
    coverage, fpr = (Bound(**report.certificate["region"][name]) for name in ("coverage", "fpr"))
    notes = [say("fixed_threshold.halved")] if halved else []
    shown, notes = replace(report.test, coverage=coverage, fpr=fpr), [*report.notes, *notes]
    report = replace(report, rank=0, n_calibration=0, test=shown, notes=tuple(notes))
    report = with_repeats(report, scored, sample, rule, None)
    looked_at = look_overlap.with_reuse_reported(scored, everyone=False, verdict=report.verdict)
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
    scale, known = registry.scale_of(detector), scored.table.columns[key]
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


#: Share of the answers, and of scores on the other side of 1, from which on a threshold is far.
_FAR: Final = 0.01
_OTHER_UNIT: Final = 0.95


def _far(scored: scoring.Scored, edge: float) -> dict[str, Any] | None:
    """Return between what nearly all scores lie, where a threshold parts next to none of them.

    So is one in another unit than the scores, a share of per cents or a per cent of shares, which
    is given in theirs, too.
    """
    known = scored.table.columns[scored.keys[0]]
    known = known[~np.isnan(known)]
    scale, n_flagged = registry.scale_of(scored.detectors[0]), int(np.sum(known >= edge))
    shown, given = np.asarray(scale.shown(known)), float(scale.shown(edge))
    # As numpy's quantile, which loads more of numpy than all else here.
    places = np.array((0.05, 0.95, 1.0 - _FAR)) * (len(shown) - 1)
    low, high, most = map(float, np.interp(places, np.arange(len(shown)), np.sort(shown)))
    # A zero is of either unit.
    others = shown[shown != 0.0]
    nearer = float(f"{100 * given if given <= 1.0 else given / 100:.12g}")
    apart = len(others) and np.mean((others > 1.0) != (given > 1.0)) >= _OTHER_UNIT
    unit = nearer if apart and given > 0.0 and shown.min() <= nearer <= most else None
    if unit is None and min(n_flagged, len(known) - n_flagged) > max(1, _FAR * len(known)):
        return None
    return {"n": len(known), "n_flagged": n_flagged, "ends": [low, high], "nearer": unit}


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
    # Before anything is asked of a column that is named, it must be there.
    opened, unlabelled = _opened(source, how, *filter(None, [named]))
    if not opened.head:
        # Of a file without a row, reading says that there is none.
        list(read(source, how, require=()))
    try:
        return source, _chosen(opened, threshold, named, higher)
    except InputError as error:
        if unlabelled is None:
            raise
        # Both are said at once.
        raise DataError(f"{unlabelled}. And: {error}") from error


def _opened(source: Source, how: ReadOptions, *keep: str) -> tuple[Reading, DataError | None]:
    """Open answers; where no column of labels is found, give that error beside them."""
    try:
        opened = read(source, how, keep=keep, require=(), allow_none=True)
        columns, marks = opened.columns, opened.columns.marks
        given = filterfalse(columns.labels.is_missing, map(columns.label_of, opened.head))
        listed = (value if isinstance(value, list | tuple) else (value,) for value in given)
        words = [word for item in listed for word in item if isinstance(word, str | int | float)]
        n_unread = sum(columns.labels.of_one(word) is None for word in words)
        known = "label" in columns.present and 2 * n_unread <= len(words)
        if known or (marks is not None and marks.gives_labels):
            return opened, None
        # Of JSON lines a later row may have one.
        there = columns.label_columns if "label" in columns.present else ()
        return opened, DataError(f"{opened.source}: {which_label(opened.head, there)}")
    except DataError as error:
        return read(source, how, keep=keep, require=(), labelled=False, allow_none=True), error


#: What is written for a number, and is none: ~0.7, 7/10, 4 stars; or before an answer by promptfoo.
_NO_NUMBER: Final = re.compile(
    r"[~\u2248<>]\s*[\d.]+|[\d.]+\s*(/\s*\d+|stars?|points?)|[\u2605\u2606\u2b50]+|(\[(?:PASS|FAIL)\]).*",
    re.DOTALL,
)


def _chosen(
    opened: Reading, threshold: float | None, named: str | None, higher: str | None
) -> Score:
    choice = choose_score(opened, threshold, named, higher)
    path = shlex.quote(opened.source) if len(opened.files) == 1 else "DATA"
    if len(choice.names) != 1:
        cells = (cell for row in opened.head for cell in row.items())
        found = ((name, cell, _NO_NUMBER.fullmatch(str(cell))) for name, cell in cells)
        odd = ((k, cell, m[2]) for k, cell, m in found if m and (m[2] or speaks_of_score(k)))
        more = {"odd": next(odd, None), "path": path}
        raise InputError(say("refused.which_column", more, names=choice.names))
    if choice.higher is None or choice.strange:
        about = {"column": choice.names[0], "strange": choice.strange, "verdict": choice.verdict}
        # Confidence in a verdict, whatever that is, has no direction.
        sure = "confidence" in words_of(choice.names[0]) and choose_score(opened)
        about |= {"of": sure.names[0] if sure and sure.verdict else None}
        raise InputError(say("refused.which_direction", about, path=path))
    direction(choice.higher, Detectors)
    return registry.build_column(choice.names[0], choice.higher)


class ScoreChoice(NamedTuple):
    """Which column of a source may be its score, and what is known of it.

    Parameters
    ----------
    names : list of str
        The column; several where nobody can tell which, none where none is there.
    higher : str or None
        What a higher value, or a yes, means; None where nothing says it.
    verdict : bool
        Whether it says yes or no, or a class.
    strange : list of str
        Its two words, where neither says a class.
    speaks : bool
        Whether its name speaks of a score.
    """

    names: list[str]
    higher: str | None = None
    verdict: bool = False
    strange: Sequence[str] = ()
    speaks: bool = True


def with_columns(score: Any, score_column: str | Sequence[str] | None, higher: str | None) -> Any:
    """Return the detectors of a call, with columns of scores after those that are named otherwise.

    Raises
    ------
    InputError
        If nothing says what a higher value of a column means, or ``higher`` stands by itself.
    """
    named = (score_column,) if isinstance(score_column, str) else score_column
    names = texts(() if named is None else named, "score_column")
    if not names and higher is not None:
        raise InputError(say("refused.higher_alone"))
    told = {name: higher or direction_of(name) for name in names}
    for said in told.values():
        direction(said, Detectors)
    columns = [registry.build_column(name, str(said)) for name, said in told.items()]
    if not columns:
        return score
    return columns if score is None else [*scoring.resolve_scores(score), *columns]


def with_unnamed(
    source: Source,
    score: Any,
    reading: ReadOptions | None,
    *,
    several: bool = False,
    unit: Unit = "answer",
) -> tuple[Source, Any, tuple[str, ...]]:
    """Return what can be read again, the detectors, and a note where nobody named any.

    That is the source's own column of numbers that speaks of a score by its name and of what a
    higher one means, or where ``several`` may be, all of these; one default where there is none.

    Raises
    ------
    InputError
        If several columns may be meant, or no name says what a higher value means.
    """
    if score is not None:
        return source, score, ()
    source = reusable(source)
    how = replace(optional(reading, ReadOptions, "reading"), quarantine=None, strict=False)
    choice = ScoreChoice([])
    with suppress(CalibrailError):
        choice = choose_score(_opened(source, how)[0], 0.0)
    if unit == "sentence" or choice.verdict or not choice.speaks or not choice.names:
        return source, [registry.DEFAULT_SCORE], ()
    known = {name: higher for name in choice.names if (higher := direction_of(name))}
    if not known or not (several or len(choice.names) == 1):
        raise InputError(say("refused.own_scores", names=choice.names, known=known))
    others = [name for name in choice.names if name not in known]
    columns = [registry.build_column(name, cast(Any, higher)) for name, higher in known.items()]
    return source, columns, (say("command.own_score", taken=known, others=others),)


def choose_score(
    opened: Reading,
    threshold: float | None = None,
    named: str | None = None,
    higher: str | None = None,
) -> ScoreChoice:
    """Return the column that may be the score, and what a higher value of it means."""
    names, speaks = ([named], True) if named else _likeliest(opened, threshold)
    if len(names) != 1:
        return ScoreChoice(names, higher, speaks=speaks)
    named = names[0]
    known, strange = held_in(opened.head, named)
    verdict = bool(known) and known <= _VERDICTS
    if higher is None and verdict and known.isdisjoint(("yes", "no")):
        higher = "hallucinated"
    higher = direction_of(named) if higher is None else higher
    if higher is None and verdict and (means := meaning_of_one(named)) is not None:
        higher = ("faithful", "hallucinated")[means]
    return ScoreChoice(names, higher, verdict, strange, speaks)


def _likeliest(opened: Reading, threshold: float | None) -> tuple[list[str], bool]:
    """Return the columns that may be the score, and whether their names speak of one."""
    columns = opened.columns
    # What is empty wherever there is a label is no score.
    missing, label_of = columns.labels.is_missing, columns.label_of
    head = [row for row in opened.head if not missing(label_of(row))] or opened.head
    used = {columns.by_field[field] for field in columns.present}
    inside = dict.fromkeys(name for row in head for name in nested_names(row))
    used |= {*columns.label_columns, *columns.marked.names, *filter(is_of_people, inside)}
    if "label" not in columns.present:
        likely = [name for name in likely_labels(head) if not is_of_program(name)][:1]
        advised = suggested_options.suggest_labels(head, likely).options.get("label_column", "")
        used |= {*likely, advised, *advised.split(",")}
    # First what speaks of a score, and of that what is of the kind that is asked for.
    ranks: dict[tuple[bool, bool, bool, bool], list[str]] = {}
    for name in (name for name in inside if is_apart(name, used) and words_of(name)[-1:] != ["id"]):
        known, strange = held_in(head, name)
        # MLflow's metrics end in /score, whatever they are about.
        own, verdict = name.removeprefix(SCORE).partition("/")[0], known <= _VERDICTS
        speaks = bool(direction_of(own)) or speaks_of_score(own)
        speaks |= not known.isdisjoint((FAITHFUL, HALLUCINATED))
        constant = len({str(value_at(row, name)) for row in head}) == 1
        # What never happened, such as failure, judges no answer.
        speaks |= verdict and not constant and meaning_of_one(own) is not None
        if known and (None not in known or (strange and speaks)):
            # One class alone is what a judge is called rather than what it says.
            aside = constant and known in ({FAITHFUL}, {HALLUCINATED})
            of_run = not suggested_options.OF_RUNS.isdisjoint(words_of(own))
            aside |= not speaks and (constant or of_run)
            rank = bool(strange), aside, not speaks, verdict != (threshold is None)
            ranks.setdefault(rank, []).append(name)
    rank = min(ranks, default=(False, False, True, False))
    names = ranks.get(rank, [])
    # Of promptfoo it is the mean of the others.
    names = [name for name in names if name != f"{SCORE}score"] or names
    cells = {tuple(str(value_at(row, name)) for row in head) for name in names}
    return names[:1] if len(cells) == 1 else names, not rank[2]


#: What `held_in` says of verdicts.
_VERDICTS: Final = frozenset((FAITHFUL, HALLUCINATED, "yes", "no"))


def held_in(
    rows: Sequence[Mapping[str, object]], name: str
) -> tuple[set[int | str | None], list[str]]:
    """Return what a column holds: classes, yes and no (1 and 0 among them), numbers, or None.

    Beside it its two words, where it holds no more, and one says nothing; first what more likely
    means hallucinated.
    """
    held = (column_value(value_at(row, name)) for row in rows)
    cells = [x for x in held if x is not None and str(x).strip().lower() not in ABSENT]
    numbers = [likely_number(cell) for cell in cells]
    # What could not be scored may have a word there, such as error.
    if 10 * numbers.count(None) <= len(cells) and not {*numbers} <= {None, 0.0, 1.0}:
        return {"number"}, []
    words = sorted({label_key(cell) for cell in cells})
    known = {side_of(word) for word in words}
    words = words if None in known and len(words) == 2 else []
    return known, sorted(words, key=suggested_options.likelihood, reverse=True)


#: From answers to flags, with how many scores were undefined, and on how many it failed.
Decide = Callable[[Sequence[Example]], tuple[Sequence[bool], int, int]]


def flagging(
    guardrail: "Guardrail | None", scores: ScoreThreshold | None
) -> tuple[tuple[str, ...], Mapping[str, Any] | None, Decide]:
    """Return the columns that what flags answers reads, how a result names it, and what decides."""
    if guardrail is not None and scores is not None:
        raise InputError("give a guardrail or a score column with its threshold, not both")
    if scores is not None:
        column, higher, edge = str(scores.column), str(scores.higher), float(scores.threshold or 0)
        # The column's score is turned so that higher means hallucinated; so is its threshold.
        score = registry.build_column(column, higher=higher)
        edge = edge if higher == "hallucinated" else -edge

        def reach(examples: Sequence[Example]) -> tuple[Sequence[bool], int, int]:
            values = score.score(examples).values
            undefined = np.isnan(values)
            return ((values >= edge) | undefined).tolist(), int(undefined.sum()), 0

        return (column,), scores.to_dict(), reach
    if guardrail is None:
        return (), None, lambda examples: ([False] * len(examples), 0, 0)
    calibration, decide_all = guardrail.rule.calibration, guardrail.decide

    def decide(examples: Sequence[Example]) -> tuple[Sequence[bool], int, int]:
        decisions = decide_all(examples)
        failed = sum(decision.outcome == "error" for decision in decisions)
        undefined = sum(decision.score is None for decision in decisions) - failed
        # Every answer that the guardrail does not pass.
        return [decision.flagged for decision in decisions], undefined, failed

    threshold = None if calibration.flag_all else float(calibration.threshold)
    return guardrail.columns, {"guardrail": guardrail.score.name, "threshold": threshold}, decide
