"""Which of several detectors costs the fewest false alarms at the same coverage?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrail.errors import CalibrailError, InputError
from calibrail.evaluation import compare_detectors
from calibrail.guardrail.frozen import write_atomically
from calibrail.scores.base import Score
from calibrail.workflow.calibrate import Guarantee, Undefined, calibrate_detector
from calibrail.workflow.run import write_json
from calibrail.workflow.scoring import (
    Progress,
    ReadOptions,
    Scored,
    Source,
    SplitOptions,
    score_source,
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Detectors on the same split at the same target, with the scores behind them."""

    content: Mapping[str, Any]
    scored: Scored

    @property
    def data(self) -> Mapping[str, Any]:
        """Source, digests and counts."""
        return self.scored.data

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``compare.json``."""
        return dict(self.content)

    def save(self, folder: str | Path) -> Path:
        """Write ``compare.json``, ``report.html`` and ``scores.parquet``."""
        from calibrail.report import render_compare_html

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.scored.table.to_parquet(folder / "scores.parquet", self.scored.codes)
        write_json(folder / "compare.json", self.content)
        write_atomically(
            folder / "report.html", render_compare_html(self.to_dict()).encode("utf-8")
        )
        return folder


def compare(
    source: Source,
    scores: str | Score | Sequence[str | Score],
    *,
    alpha: float = 0.05,
    guarantee: Guarantee = "marginal",
    delta: float = 0.1,
    max_fpr: float | None = None,
    min_coverage: float | None = None,
    confidence: float = 0.95,
    undefined: Undefined = "flag",
    reading: ReadOptions | None = None,
    splitting: SplitOptions | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Calibrate several detectors to the same coverage on the same split.

    Parameters are those of ``calibrate``. A detector that cannot be calibrated keeps its row, with
    the reason.

    Returns
    -------
    Comparison
        ``to_dict()["detectors"]`` holds one report a detector, fewest false alarms first.
    """
    scored = score_source(
        source, scores, reading=reading, splitting=splitting, progress=progress
    )
    keys = list(scored.table.columns)[: len(scored.detectors)]
    if len(set(keys)) != len(scored.detectors):
        raise InputError(f"each detector may be named once; got {', '.join(keys)}")
    reports = {}
    failures = {}
    for index, key in enumerate(keys):
        try:
            _, reports[key] = calibrate_detector(
                scored,
                index,
                alpha=alpha,
                guarantee=guarantee,
                delta=delta,
                max_fpr=max_fpr,
                min_coverage=min_coverage,
                confidence=confidence,
                undefined=undefined,
            )
        except CalibrailError as error:
            failures[key] = error
    if not reports:
        raise next(iter(failures.values()))
    content = compare_detectors(
        reports, {key: str(error) for key, error in failures.items()}, data=scored.data
    )
    return Comparison(content, scored)
