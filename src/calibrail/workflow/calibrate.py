"""How does one call lead from labelled answers to a threshold with a verdict?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from calibrail.conformal import Calibration
from calibrail.conformal import calibrate as calibrate_scores
from calibrail.data.splits import CALIBRATION
from calibrail.errors import DataError, InputError
from calibrail.evaluation import Report, evaluate
from calibrail.scores.base import Score
from calibrail.workflow.run import Run, calibration_digests, installed_versions, score_config
from calibrail.workflow.scoring import (
    Progress,
    ReadOptions,
    Scored,
    Source,
    SplitOptions,
    group_codes,
    score_source,
)

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
    reading: ReadOptions | None = None,
    splitting: SplitOptions | None = None,
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
    reading, splitting : optional
        How to read the file and how to split it.
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
    scored = score_source(
        source, score, reading=reading, splitting=splitting, progress=progress
    )
    primary = scored.detectors[0]
    calibration, report = calibrate_detector(
        scored,
        0,
        alpha=alpha,
        guarantee=guarantee,
        delta=delta,
        max_fpr=max_fpr,
        min_coverage=min_coverage,
        confidence=confidence,
        undefined=undefined,
        allow_flag_all=allow_flag_all,
    )
    return Run(
        report=report,
        calibration=calibration,
        spec=score_config(primary),
        data=scored.data,
        calibration_examples=calibration_digests(scored.table, scored.codes),
        versions=installed_versions(),
        table=scored.table,
        codes=scored.codes,
    )


def calibrate_detector(
    scored: Scored,
    index: int,
    *,
    alpha: float,
    guarantee: Guarantee,
    delta: float,
    max_fpr: float | None,
    min_coverage: float | None,
    confidence: float,
    undefined: Undefined,
    allow_flag_all: bool = False,
) -> tuple[Calibration, Report]:
    """Calibrate and evaluate one of the detectors of a scored table."""
    table, codes = scored.table, scored.codes
    keys = list(table.columns)
    values = table.columns[keys[index]]
    detector = scored.detectors[index]
    _require_usable(scored, index)
    calibration_rows = (codes == CALIBRATION) & (table.labels == 1)
    calibration = calibrate_scores(
        values[calibration_rows],
        alpha,
        guarantee=guarantee,
        delta=delta,
        undefined=undefined,
        allow_flag_all=allow_flag_all,
    )
    names = keys[: len(scored.detectors)]
    report = evaluate(
        calibration,
        score={"name": detector.name, "params": dict(detector.params)},
        values=values,
        labels=table.labels,
        codes=codes,
        tolerance=detector.tolerance,
        confidence=confidence,
        max_fpr=max_fpr,
        min_coverage=min_coverage,
        baselines={name: table.columns[name] for name in scored.baselines},
        others={name: table.columns[name] for i, name in enumerate(names) if i != index},
        tolerances={
            name: scored.detectors[i].tolerance for i, name in enumerate(names) if i != index
        },
        groups=group_codes(table),
        data=_report_data(scored, keys[index]),
    )
    return calibration, report


def _report_data(scored: Scored, key: str) -> dict[str, Any]:
    reasons: dict[str, int] = {}
    for reason in scored.table.reasons.get(key, {}).values():
        reasons[reason] = reasons.get(reason, 0) + 1
    return {
        **scored.data,
        "n_truncated": scored.table.n_truncated,
        "undefined_reasons": dict(sorted(reasons.items())),
    }


def _require_usable(scored: Scored, index: int) -> None:
    """Refuse a table on which nothing can be calibrated, naming what is missing and the remedy."""
    table, codes = scored.table, scored.codes
    key = list(table.columns)[index]
    values = table.columns[key]
    if np.isnan(values).all():
        examples = list(dict.fromkeys(table.reasons.get(key, {}).values()))[:3]
        raise DataError(
            f"the score {key} is undefined for all {len(values)} examples "
            f"({'; '.join(examples)}); choose another score or column "
            "(`calibrail doctor DATA` lists the columns that hold numbers)"
        )
    for label, name in ((1, "hallucinated"), (0, "faithful")):
        if not (table.labels == label).any():
            raise DataError(
                f"no example is labelled {name} ({label}); calibration needs both classes. Is the "
                "label column right (--label-column), and is 1 = hallucinated?"
            )
    for code, name in ((1, "calibration"), (2, "test")):
        if not (codes == code).any():
            raise DataError(
                f"the {name} split is empty; change --calibration-share or the split column"
            )
    if not ((codes == 2) & (table.labels == 0)).any():
        raise InputError(
            "the test split holds no faithful example, so false alarms cannot be measured; "
            "change --seed or --calibration-share, or label more faithful answers"
        )
