"""How does one call lead from labelled answers to a threshold with a verdict?"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Unpack

from calibrail.conformal.risk_spec import parse_risks
from calibrail.conformal.risks import RiskControl, control_risks
from calibrail.conformal.rule import Rule, fit_rule
from calibrail.data.sources import Source
from calibrail.data.splits import CALIBRATION
from calibrail.errors import DataError, InputError
from calibrail.evaluation import Origin, Others, Sample, evaluate
from calibrail.models.machine import installed_versions
from calibrail.report.documents.data_notes import data_notes
from calibrail.scores.custom import ScoreLike
from calibrail.scores.learned import state_bytes
from calibrail.scores.registry import DEFAULT_SCORE
from calibrail.settings import Promise, ReadOptions, Requirement, SplitOptions
from calibrail.settings.checks import optional
from calibrail.settings.option import either
from calibrail.settings.short import collect
from calibrail.workflow.alike import settled_report
from calibrail.workflow.arrays import CalibrateShort, calibration_source
from calibrail.workflow.beside import beside_of
from calibrail.workflow.by_groups import columns_kept, groups_of
from calibrail.workflow.by_sentence import by_sentence
from calibrail.workflow.context import Context
from calibrail.workflow.error_examples import ErrorExamples, worst_errors
from calibrail.workflow.independence import independent
from calibrail.workflow.looked_at import look_at, reported
from calibrail.workflow.looks import SPLIT, Looks, looked_at
from calibrail.workflow.run import Run, calibration_digests, score_config
from calibrail.workflow.scored import Scored
from calibrail.workflow.scoring import score_by_sentence, score_only, score_source
from calibrail.workflow.streamed import streamed
from calibrail.workflow.trimmed_examples import TrimmedExamples, trimmed_examples
from calibrail.workflow.usable import require_usable
from calibrail.workflow.wording import worded


def calibrate(
    source: Source | None = None,
    score: ScoreLike | Sequence[ScoreLike] = DEFAULT_SCORE,
    promise: Promise | None = None,
    requirement: Requirement | None = None,
    *,
    target: Source | None = None,
    reading: ReadOptions | None = None,
    splitting: SplitOptions | None = None,
    context: Context | None = None,
    looks: str | PathLike[str] | None = None,
    **short: Unpack[CalibrateShort],
) -> Run:
    """Find the threshold that catches a stated share of hallucinations, and what it costs.

    Parameters
    ----------
    source : path, str or data in memory
        Labelled answers: a file or folder, ``"example:facts"``; a DataFrame, an Arrow table, a dict
        of columns, a list of dicts or of examples. Left out where ``scores`` are given.
    score : str, Score, callable, estimator or sequence
        The detector, e.g. ``"rad"``, ``"column:column=dae,higher=faithful"``, ``"module:name"``, a
        function of an `Example`, or a fitted object with ``predict_proba`` (see `CustomScore`).
        The first of several is calibrated for export; the others stand beside it in the report.
    promise : Promise, optional
        What the threshold is to keep.
    requirement : Requirement, optional
        What the data is to show of it. A ``certified`` verdict needs a ``max_fpr``, or risks.
    target : path, str or iterable of Example, optional
        Unlabelled production answers: the report says how far they differ from the calibration
        answers, and what weighting towards them would change. No exact promise follows.
    reading, splitting : optional
        How to read the file and how to split it.
    context : Context, optional
        The command, who is told of the progress, and whether ``report.html`` shows texts.
    looks : path, optional
        File that keeps what was looked at. Where a tenth of this data was looked at before, by
        another split, with other labels or as a part of less, nothing is certified. The command
        keeps one in its folder; without ``looks`` nothing is kept.
    **short
        In a short call, fields of the promise and the requirement: ``alpha``, ``guarantee``,
        ``delta``, ``undefined``, ``allow_flag_all``, ``by``, ``min_n``, ``clustered``, ``beta``,
        ``max_fpr``, ``min_coverage``, ``confidence``, ``risks``; ``unit`` and ``min_kept``, where
        sentences are removed from their answers. In place of ``source``:
        ``scores`` and ``labels``, arrays or lists with one value per answer, ``groups`` and ``ids``
        where there are any, and ``higher="faithful"`` where high scores speak for that.
        ``baselines=False`` sets no baselines beside the detectors.

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
    >>> run = calibrate("example:facts", "novel_count", alpha=0.1, max_fpr=0.9)
    >>> run.calibration.rank, run.calibration.n == len(run.calibration.scores)
    (15, True)
    """
    keywords: dict[str, Any] = dict(short)
    source, score = calibration_source(source, score, keywords)
    beside = beside_of(keywords)
    promise, requirement = collect(promise, requirement, keywords, calibrate)
    requirement.check(promise)
    if requirement.risks:
        spelled = tuple(str(risk) for risk in parse_risks(requirement.risks))
        requirement = replace(requirement, risks=spelled)
    if target is not None and promise.unit == "sentence":
        raise InputError(
            "target compares whole answers, and sentences are removed here; leave out target"
        )
    context = optional(context, Context, "context")
    history = Looks(looks)
    apart = by_sentence(promise, reading)
    scoring = score_source if apart is None else partial(score_by_sentence, by_sentence=apart)
    scored = scoring(
        source,
        score,
        reading=reading,
        splitting=optional(splitting, SplitOptions, "splitting"),
        keep=columns_kept(promise),
        beside=beside,
        progress=context.progress,
    )
    require_usable(scored)
    table = scored.table
    names, cuts = groups_of(scored, promise)
    samples, promise = independent(scored, promise, requirement, names)
    sample = samples[0]
    rule, control = _thresholds(sample, promise, requirement, names, cuts)
    key, detector = scored.keys[0], scored.detectors[0]
    reasons = Counter(table.reasons.get(key, {}).values())
    report = evaluate(
        rule,
        sample,
        promise,
        requirement,
        Origin(
            score=scored.specs[key],
            data={**scored.data, "undefined_reasons": dict(sorted(reasons.items()))},
            reproduce=context.reproduce(),
            notes=data_notes(scored.data, scored.lessons),
        ),
        others=_others(scored, samples, target, reading),
        names=names,
        risks=control,
        sentences=scored.sentences,
    )
    others = tuple(replace(row, score=scored.specs[row.name]) for row in report.detectors)
    report = replace(report, detectors=others)
    if scored.sentences is None:
        confidence = requirement.confidence
        seen = streamed(
            source, scored, sample, rule, promise, names, reading=reading, confidence=confidence
        )
        report = replace(report, sentences=seen)
    report = settled_report(report)
    state = state_bytes(detector)
    look = look_at(scored, key, promise, assumed=requirement.assume_independent)
    report = looked_at(report, history.record(SPLIT, replace(look, verdict=report.verdict)))
    tested = reported(scored, everyone=promise.of_this_threshold, verdict=report.verdict)
    return Run(
        report=worded(report),
        rule=rule,
        spec=score_config(detector, promise.unit),
        data={**scored.data, "looked_at": tested.to_dict()},
        # With a second class behind the thresholds, certify must know its examples, too.
        calibration_examples=calibration_digests(
            table,
            scored.codes,
            both=rule.upper is not None or rule.chosen is not None,
            learnt=state is not None,
        ),
        state=state,
        versions=installed_versions(),
        table=table,
        codes=sample.split,
        examples=_examples(scored)(source, scored, rule, names, reading=reading, text=context.text),
        sentences=scored.sentences,
    )


def _examples(scored: Scored) -> Callable[..., ErrorExamples | TrimmedExamples]:
    """Return what chooses the answers that the page shows."""
    return worst_errors if scored.sentences is None else trimmed_examples


def _thresholds(
    sample: Sample,
    promise: Promise,
    requirement: Requirement,
    names: Sequence[str] | None,
    cuts: tuple[float, ...] | None,
) -> tuple[Rule, RiskControl | None]:
    """Return the thresholds that were asked for, from the calibration part alone."""
    part = sample.rows(CALIBRATION)
    if requirement.risks:
        # Its own threshold plays no part.
        promise = replace(promise, allow_flag_all=True)
    # Thresholds by a column rest on one answer of each group already.
    clusters = sample.groups if promise.clustered and names is None else None
    rule = fit_rule(
        sample.values, sample.labels, part, promise, clusters=clusters, names=names, cuts=cuts
    )
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


def _others(
    scored: Scored,
    samples: Sequence[Sample],
    target: Source | None,
    reading: ReadOptions | None,
) -> Others:
    """Return what stands beside the first detector: baselines, further detectors, production."""
    sample, columns, production = samples[0], scored.table.columns, None
    if target is not None:
        if not scored.baselines:
            raise InputError(
                "target is compared by the baselines, and none stand beside the detectors; give "
                "answers with their texts, and leave out "
                f"{either('--no-baselines', 'baselines=False')}"
            )
        options = replace(
            optional(reading, ReadOptions, "reading"), quarantine=None, limit=None, sample=None
        )
        production = dict(score_only(target, scored.baselines, reading=options)[0].columns)
    return Others(
        baselines={name: sample.with_scores(columns[name]) for name in scored.baselines},
        detectors=dict(zip(scored.keys[1:], samples[1:], strict=True)),
        target=production,
    )
