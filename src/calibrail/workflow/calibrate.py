"""How does one call lead from labelled answers to a threshold with a verdict?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal.risk_spec import parse_risks
from calibrail.conformal.risks import control_risks
from calibrail.conformal.rule import fit_rule
from calibrail.data.splits import CALIBRATION
from calibrail.errors import DataError, InputError
from calibrail.evaluation import evaluate
from calibrail.guardrail.runtime import group_name
from calibrail.scores.base import Score
from calibrail.scores.learned import state_bytes
from calibrail.settings import Promise, ReadOptions, SplitOptions
from calibrail.workflow.context import Progress
from calibrail.workflow.error_examples import worst_errors
from calibrail.workflow.notes import notes_on
from calibrail.workflow.run import (
    Run,
    calibration_digests,
    describe,
    score_config,
)
from calibrail.workflow.scoring import require_usable, score_only, score_source
from calibrail.workflow.sources import Source
from calibrail.workflow.splitting import group_codes
from calibrail.workflow.versions import installed_versions

Guarantee = Literal["marginal", "pac", "paper"]
Undefined = Literal["flag", "review", "pass"]


def calibrate(
    source: Source,
    score: str | Score | Sequence[str | Score] = "sgi",
    *,
    alpha: float = 0.05,
    guarantee: Guarantee = "marginal",
    delta: float = 0.1,
    max_fpr: float | None = None,
    min_coverage: float | None = None,
    confidence: float = 0.95,
    undefined: Undefined = "flag",
    allow_flag_all: bool = False,
    by: str | None = None,
    min_n: int | None = None,
    clustered: bool = False,
    beta: float | None = None,
    risks: Sequence[str] = (),
    target: Source | None = None,
    reading: ReadOptions | None = None,
    splitting: SplitOptions | None = None,
    text: bool = True,
    command: str | None = None,
    progress: Progress | None = None,
) -> Run:
    """Find the threshold that catches a stated share of hallucinations, and what it costs.

    Parameters
    ----------
    source : path, str or iterable of Example
        A file or folder of labelled answers, ``"example:facts"``, or examples in memory.
    score : str, Score or sequence
        The detector, e.g. ``"sgi"`` or ``"column:column=dae,higher=faithful"``. The first of
        several is calibrated for export; the others stand beside it in the report.
    alpha : float
        Tolerated miss rate; 1 - alpha is the target coverage.
    guarantee : {"marginal", "pac", "paper"}
        ``marginal``: misses at most alpha on average over calibration draws. ``pac``: with
        probability 1 - delta, this very threshold misses at most alpha.
    delta : float
        Error probability of ``pac``.
    max_fpr : float, optional
        The share of faithful answers that may be flagged; needed for a ``certified`` verdict.
    min_coverage : float, optional
        The coverage that the verdict requires; 1 - alpha when left out.
    confidence : float
        Level of every interval and of the verdict.
    undefined : {"flag", "review", "pass"}
        What happens to answers whose score is undefined; recorded, and counted accordingly.
    allow_flag_all : bool
        Accept a threshold that flags everything where there are too few calibration examples.
    by : str, optional
        Column of groups (a topic, a source, a model) that get a threshold and a promise each.
    min_n : int, optional
        Fewest hallucinated calibration examples for a group's own threshold; what the promise
        needs when left out. Smaller groups share one.
    clustered : bool
        Count each group of the data (a question, a source) once, so that the promise holds although
        the answers of one group are alike.
    beta : float, optional
        Three-way decision: flag at most this share of faithful answers, and send what neither
        passes nor is flagged to review.
    risks : sequence of str
        Find thresholds that keep all of these at once, e.g. ``("precision>=0.9", "recall>=0.8")``.
    target : path, str or iterable of Example, optional
        Unlabelled production answers: the report says how far they differ from the calibration
        answers, and what weighting towards them would change. No exact promise follows.
    reading, splitting : optional
        How to read the file and how to split it.
    text : bool
        Read the source a second time for the texts of the worst errors, which ``report.html``
        shows; no other file holds them.
    command : str, optional
        The command that a reader would run to get this report again.
    progress : callable, optional
        Called with the number of examples scored so far.

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
    if risks and (by is not None or clustered or beta is not None):
        raise InputError("risks choose one threshold; leave out by, clustered and beta")
    if risks:
        parse_risks(risks)
    if risks and (max_fpr is not None or min_coverage is not None):
        raise InputError(
            "with risks, ask for all limits as risks: fpr<=... for max_fpr, recall>=... for "
            "min_coverage"
        )
    if min_n is not None and by is None:
        raise InputError("min_n is for the thresholds of groups; name their column with by")
    if by is not None and clustered:
        raise InputError("by and clustered exclude each other; calibrate groups or clusters")
    if clustered and guarantee == "paper":
        raise InputError("clustered needs the guarantee marginal or pac; got paper")
    scored = score_source(
        source, score, reading=reading, splitting=splitting or SplitOptions(),
        keep=() if by is None else (by,), progress=progress,
    )  # fmt: skip
    require_usable(scored, 0)
    table, codes = scored.table, scored.codes
    keys = scored.keys
    detector = scored.detectors[0]
    values = table.columns[keys[0]]
    if clustered and table.groups.null_count == len(table):
        raise InputError(
            "clustered needs groups, and no answer has one; name their column (--group-column)"
        )
    names = None if by is None else [group_name(value) for value in table.kept[by]]
    groups = group_codes(table)
    promise = Promise(
        alpha, guarantee, delta, undefined,
        # With risks, its own threshold plays no part.
        allow_flag_all=allow_flag_all or bool(risks), by=by, min_n=min_n, beta=beta,
    )  # fmt: skip
    rule = fit_rule(
        values,
        table.labels,
        codes == CALIBRATION,
        promise,
        clusters=groups if clustered else None,
        names=names,
    )
    control = None
    if risks:
        part = codes == CALIBRATION
        # The guardrail flags at value + tolerance, so that is what the risks are tested on.
        control = control_risks(
            values[part] + detector.tolerance, table.labels[part], risks, confidence,
            undefined=undefined, groups=groups[part],
        )  # fmt: skip
        if control.threshold is None:
            raise DataError(f"{control.reason}; ask for less, or label more answers")
        rule = replace(rule, chosen=control.threshold)
        limits = {risk.name: risk.level for risk in control.risks}
        min_coverage, max_fpr = limits.get("recall", 0.0), limits.get("fpr")
    calibration = rule.calibration
    report = evaluate(
        calibration,
        score=describe(detector, keys[0]),
        values=values,
        labels=table.labels,
        codes=codes,
        tolerance=detector.tolerance,
        confidence=confidence,
        max_fpr=max_fpr,
        min_coverage=min_coverage,
        baselines={name: table.columns[name] for name in scored.baselines},
        others={name: table.columns[name] for name in keys[1:]},
        tolerances={
            name: score.tolerance
            for name, score in zip(keys[1:], scored.detectors[1:], strict=True)
        },
        groups=groups,
        rule=rule,
        by=by,
        names=names,
        risks=control,
        target=None if target is None else _production(target, scored.baselines, reading),
        notes=notes_on(scored),
        reproduce={"command": command, "versions": installed_versions()},
        data={
            **scored.data,
            "undefined_reasons": dict(
                sorted(Counter(table.reasons.get(keys[0], {}).values()).items())
            ),
        },
    )
    state = state_bytes(detector)
    return Run(
        report=report,
        rule=rule,
        by=by,
        spec=score_config(detector),
        data=scored.data,
        # With a second class behind the thresholds, certify must know its examples, too.
        calibration_examples=calibration_digests(
            table,
            codes,
            both=rule.upper is not None or rule.chosen is not None,
            learnt=state is not None,
        ),
        state=state,
        risks=tuple(str(risk) for risk in control.risks) if control is not None else (),
        versions=installed_versions(),
        table=table,
        codes=codes,
        examples=worst_errors(source, scored, rule, names, reading=reading, text=text),
    )


def _production(
    target: Source, baselines: Sequence[str], reading: ReadOptions | None
) -> dict[str, NDArray[np.float64]]:
    """Return the baselines of production answers."""
    if not baselines:
        raise InputError("target needs answers with their texts; this data holds scores alone")
    options = replace(reading or ReadOptions(), quarantine=None)
    table, _ = score_only(target, ",".join(baselines), reading=options)
    return dict(table.columns)
