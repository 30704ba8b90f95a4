"""Which answers of a batch may be released, with how many hallucinations at most among them?"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import (
    ClusteredCalibration,
    Discoveries,
    Selection,
    conformal_selection,
    discoveries,
    minimum_n_for_selection,
)
from calibrail.data.sources import Source
from calibrail.errors import DataError, InputError
from calibrail.guardrail.frozen import write_atomically
from calibrail.guardrail.runtime import Guardrail
from calibrail.record import plain
from calibrail.settings import ReadOptions
from calibrail.workflow.check import decide_source
from calibrail.workflow.context import Progress
from calibrail.workflow.sources import Fresh

#: Cut-offs of the p-value that a table for people shows.
CUTOFFS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)


@dataclass(frozen=True, slots=True)
class BatchSelection:
    """What of a batch is released, with the bound for every other choice.

    Attributes
    ----------
    selection : Selection
        Released answers and p-values, in the order of ``ids``.
    bounds : Discoveries
        For every cut-off at once: the most hallucinated answers among the released.
    ids : tuple of str
        Ids of the answers.
    scores : ndarray of float64, shape (m,)
        Scores, NaN where undefined.
    n_calibration : int
        Hallucinated calibration examples behind the p-values.
    n_undefined, n_errors : int
        Answers without a score, and answers or rows that could not be judged: never released.
    n_seen_before : int
        Calibration examples found in the batch and left out.
    """

    selection: Selection
    bounds: Discoveries
    ids: tuple[str, ...]
    scores: NDArray[np.float64]
    n_calibration: int
    n_undefined: int
    n_errors: int
    n_seen_before: int

    def table(self) -> list[dict[str, Any]]:
        """Return a few cut-offs and the selection's own: released, most hallucinated among them."""
        chosen = self.selection.cutoff if self.selection.n_released else None
        cutoffs = {*CUTOFFS} | ({chosen} if chosen is not None else set())
        return [
            {
                "cutoff": cutoff,
                "released": released,
                "most_hallucinated": most,
                "share": most / released if released else None,
                "chosen": cutoff == chosen,
            }
            for cutoff in sorted(cutoffs)
            for released, most in (self.bounds.at(cutoff),)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return what ``calibrail select --json`` prints: counts and bounds, no answers."""
        counts = ("n_calibration", "n_undefined", "n_errors", "n_seen_before")
        return {
            "schema": "calibrail.selection/1",
            "n": len(self.ids),
            "n_released": self.selection.n_released,
            "fdr": self.selection.fdr,
            "cutoff": self.selection.cutoff,
            **{name: getattr(self, name) for name in counts},
            "confidence": self.bounds.confidence,
            "most_hallucinated_in_batch": self.bounds.most_hallucinated,
            "n_calibration_for_one": minimum_n_for_selection(
                self.selection.fdr, len(self.ids) or 1
            ),
            "table": self.table(),
        }

    def lines(self) -> str:
        """Return one JSON object a line: id, released, score, p_value."""
        names = ("id", "released", "score", "p_value")
        p_values = np.where(np.isnan(self.scores), np.nan, self.selection.p_values)
        columns = plain([self.ids, self.selection.released, self.scores, p_values])
        lines = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)

    def save(self, path: str | Path) -> None:
        """Write ``lines`` to a file, whole or not at all."""
        write_atomically(Path(path), self.lines().encode("utf-8", "surrogatepass"))


def select(
    guardrail: Guardrail,
    source: Source,
    *,
    fdr: float,
    confidence: float = 0.95,
    reading: ReadOptions | None = None,
    progress: Progress | None = None,
) -> BatchSelection:
    """Release what can be released of a batch of answers with the false discovery rate bounded.

    The expected share of hallucinated answers among the released is at most ``fdr`` times the
    batch's share of hallucinated answers. Besides, for every cut-off of the p-value at once, the
    number of hallucinated answers below it is bounded with ``confidence``.

    Parameters
    ----------
    guardrail : Guardrail
        Its detector and calibration scores give the p-values; its threshold plays no part.
    source : path, str or iterable of Example
        The batch, not the answers that the guardrail was calibrated on. Labels are not read.
    fdr : float
        In (0, 1).
    confidence : float
        Of the bounds.

    Raises
    ------
    DataError
        If there is no answer.
    InputError
        If the guardrail has thresholds by group or counts groups once: its p-values then do not
        come from one set of exchangeable scores, and nothing is promised for a selection by them.
    """
    calibration = guardrail.calibration
    if guardrail.rule.groups is not None or isinstance(calibration, ClusteredCalibration):
        raise InputError(
            "select needs a guardrail with one threshold from independent answers; this one was "
            "calibrated with --by or --clustered. Calibrate without, one answer per group"
        )
    rows = []
    fresh = Fresh(guardrail)
    for decision in decide_source(guardrail, source, reading=reading, wanted=fresh.admits):
        rows.append((decision.id, decision.p_value, decision.score, decision.outcome))
        if progress is not None:
            progress(len(rows))
    if not rows:
        raise DataError(
            "there is no answer to select from: the source is empty"
            + (", or holds calibration examples alone" if fresh.n_seen_before else "")
        )
    ids, *numbers, outcomes = zip(*rows, strict=True)
    # What is undefined is NaN.
    p_values, scores = np.array(numbers, dtype=np.float64)
    failed = np.array(outcomes) == "error"
    return BatchSelection(
        selection=conformal_selection(p_values, fdr),
        bounds=discoveries(p_values, calibration.n, confidence),
        ids=ids,
        scores=scores,
        n_calibration=calibration.n,
        n_undefined=int((np.isnan(scores) & ~failed).sum()),
        n_errors=int(failed.sum()),
        n_seen_before=fresh.n_seen_before,
    )
