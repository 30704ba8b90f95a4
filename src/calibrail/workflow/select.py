"""Which answers of a batch may be released, with how many hallucinations at most among them?"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from os import PathLike
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import (
    ClusteredCalibration,
    Selection,
    conformal_selection,
    discoveries,
    labelled_share,
    p_values,
    storey_share,
)
from calibrail.conformal.audited import AuditedCalibration
from calibrail.conformal.pvalues import add_tolerance
from calibrail.data.example import Example
from calibrail.data.reading import Reading
from calibrail.data.sources import Source, spoken
from calibrail.errors import DataError, InputError
from calibrail.guardrail.decision import Decision
from calibrail.guardrail.runtime import Guardrail
from calibrail.guardrail.units import require_answers
from calibrail.settings import Promise, ReadOptions, Release, SelectionMethod
from calibrail.settings.option import option_of
from calibrail.workflow.batch_selection import BatchSelection, Obstacle
from calibrail.workflow.check import decide_source
from calibrail.workflow.context import Progress
from calibrail.workflow.freshness import Fresh

_REMEDIES: Final[Mapping[Obstacle, str]] = {
    "grouped_batch": (
        "method storey needs independent answers, and answers of this batch share a group; take "
        "the method bh, or select from one answer per group"
    ),
    "grouped_labels": (
        "method both-classes needs independent labelled answers, and this guardrail counts groups "
        "of them once; take the method storey or bh, or calibrate on one answer per group"
    ),
    "unknown_mix": (
        "method both-classes needs the labelled answers of both classes, and this guardrail does "
        "not say how many there were; calibrate and export it again, or take the method storey"
    ),
}


def select(
    guardrail: Guardrail | str | PathLike[str],
    source: Source,
    *,
    fdr: float,
    method: Literal["auto", SelectionMethod] = "auto",
    confidence: float = 0.95,
    reading: ReadOptions | None = None,
    progress: Progress | None = None,
) -> BatchSelection:
    """Release what can be released of a batch of answers with the false discovery rate bounded.

    The expected share of hallucinated answers among the released is at most ``fdr``; by the method
    ``bh``, at most ``fdr`` times the batch's share of hallucinated answers. Besides, for every
    cut-off of the p-value at once, the number of hallucinated answers below it is bounded with
    ``confidence``. Nothing is drawn by chance: the same batch gives the same answers.

    Parameters
    ----------
    guardrail : Guardrail
        Its detector and calibration scores give the p-values; its threshold plays no part. Where it
        counts groups once, one calibration answer of each group does.
    source : path, str or iterable of Example
        The batch, not the answers that the guardrail was calibrated on. Labels are not read.
    fdr, method, confidence
        As for ``settings.Release``.

    Raises
    ------
    DataError
        If there is no answer.
    InputError
        If the method promises nothing for this guardrail and batch, or the guardrail has thresholds
        by group: its p-values then do not come from one set of exchangeable scores. Also where it
        counts groups once and the batch holds several answers of one.
    """
    guardrail = Guardrail.of(guardrail)
    release = Release(fdr, method, confidence)
    batch, read = NewAnswers(guardrail), list[Reading]()

    def decisions() -> Iterator[Decision]:
        decided = decide_source(
            guardrail, source, reading=reading, wanted=batch.admits, opened=read.append
        )
        for done, decision in enumerate(decided, start=1):
            yield decision
            if progress is not None:
                progress(done)

    result = selected(batch, decisions(), release, spoken(source))
    if not result.ids:
        raise DataError(
            "there is no answer to select from: the source is empty"
            + (", or holds calibration examples alone" if batch.n_seen_before else "")
        )
    return replace(result, part=read[0].part())


class NewAnswers:
    """Which answers of a batch did not set the guardrail's threshold, and how they are grouped.

    Parameters
    ----------
    guardrail : Guardrail
        What decides about them.

    Raises
    ------
    InputError
        If the guardrail has thresholds by group.
    """

    def __init__(self, guardrail: Guardrail) -> None:
        require_answers(guardrail.config, "select")
        if guardrail.rule.groups is not None:
            raise InputError(
                "select needs a guardrail with one threshold; this one was calibrated with "
                f"{option_of(Promise, 'by')}. "
                "Calibrate without, or on the answers of one group"
            )
        self.guardrail = guardrail
        self._fresh, self._groups = Fresh(guardrail), Counter[str]()

    def admits(self, example: Example) -> bool:
        """Return whether an answer may be released at all, and count it."""
        admitted = self._fresh.admits(example)
        if admitted and example.group is not None:
            self._groups[example.group] += 1
        return admitted

    @property
    def n_seen_before(self) -> int:
        """Calibration examples so far."""
        return self._fresh.n_seen_before

    @property
    def n_grouped(self) -> int:
        """Answers so far that share a group with another."""
        return sum(size for size in self._groups.values() if size > 1)


def selected(
    batch: NewAnswers, decisions: Iterable[Decision], release: Release, source: str
) -> BatchSelection:
    """Return what is released of answers that were decided about.

    Parameters
    ----------
    batch : NewAnswers
        Has admitted the answers once ``decisions`` are all taken.
    decisions : iterable of Decision
        About each of them.
    release : Release
        What is promised of those that are released.
    source : str
        What the batch is called.

    Raises
    ------
    InputError
        As for ``select``.
    """
    guardrail, calibration = batch.guardrail, batch.guardrail.calibration
    rows = [(item.id, item.p_value, item.score, item.outcome) for item in decisions]
    ids, *numbers, outcomes = zip(*rows, strict=True) if rows else ((), (), (), ())
    # What is undefined is NaN.
    p, scores = np.array(numbers, dtype=np.float64)
    n, n_grouped = calibration.n, batch.n_grouped
    if isinstance(calibration, AuditedCalibration):
        raise InputError(
            "the answers that set this guardrail's threshold do not all count alike, so that its "
            "p-values select nothing: select with a guardrail that `calibrail calibrate` made, or "
            "recalibrate from answers drawn uniformly that are all labelled"
        )
    if isinstance(calibration, ClusteredCalibration):
        n = calibration.n_clusters
        if n_grouped:
            raise InputError(
                f"{n_grouped} of {len(ids)} answers share a group with another, and this guardrail "
                "counts each group once: select from one answer per group"
            )
        p = _clustered_p_values(calibration, scores, guardrail.score.tolerance)
    found = _selections(guardrail, p, n, release.fdr, grouped=n_grouped > 0)
    automatic: SelectionMethod = "bh" if n_grouped else "storey"
    chosen = automatic if release.method == "auto" else release.method
    selection = found.pop(chosen)
    if not isinstance(selection, Selection):
        raise InputError(_REMEDIES[selection])
    failed = np.array(outcomes) == "error"
    return BatchSelection(
        selection=selection,
        bounds=discoveries(p, n, release.confidence),
        method=chosen,
        others=found,
        ids=ids,
        scores=scores,
        n_calibration=n,
        n_labelled=guardrail.config.data.n_examples,
        n_grouped=n_grouped,
        n_undefined=int((np.isnan(scores) & ~failed).sum()),
        n_errors=int(failed.sum()),
        n_seen_before=batch.n_seen_before,
        source=source,
    )


def _selections(
    guardrail: Guardrail, p: NDArray[np.float64], n: int, fdr: float, *, grouped: bool
) -> dict[SelectionMethod, Selection | Obstacle]:
    """Return what each method releases, or why it promises nothing."""
    found: dict[SelectionMethod, Selection | Obstacle] = {
        "bh": conformal_selection(p, fdr),
        "storey": "grouped_batch" if grouped else conformal_selection(p, fdr, storey_share(p, n)),
    }
    data = guardrail.config.data
    if isinstance(guardrail.calibration, ClusteredCalibration):
        found["both-classes"] = "grouped_labels"
    elif data.n_hallucinated is None:
        found["both-classes"] = "unknown_mix"
    else:
        share = labelled_share(data.n_hallucinated, data.n_examples)
        found["both-classes"] = conformal_selection(p, fdr, share)
    return found


def _clustered_p_values(
    calibration: ClusteredCalibration, scores: NDArray[np.float64], tolerance: float
) -> NDArray[np.float64]:
    """Return p-values from one calibration score of each group, NaN where undefined.

    An undefined calibration score is above every other, as an answer without one is never released.
    """
    drawn = calibration.one_per_cluster()
    p, defined = np.full(len(scores), np.nan), ~np.isnan(scores)
    ordered = np.sort(np.where(np.isnan(drawn), np.inf, drawn))
    p[defined] = p_values(ordered, add_tolerance(scores[defined], tolerance))
    return p
