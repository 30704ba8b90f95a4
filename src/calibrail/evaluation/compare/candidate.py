"""What takes part in a comparison: which scores, at which threshold, with which decisions?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Calibration
from calibrail.conformal.pvalues import add_tolerance
from calibrail.evaluation.sample import (
    CALIBRATION,
    TEST,
    Codes,
    Floats,
    Mask,
    Sample,
    one_of_each,
)
from calibrail.evaluation.stats.resampling import with_singletons
from calibrail.evaluation.stats.undefined import ranked_values


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A detector or a baseline with its threshold, on the answers that all candidates share.

    Attributes
    ----------
    name : str
        Of the score.
    baseline : bool
        Whether it is a baseline, which stands beside the detectors unasked.
    calibration : Calibration
        Its threshold; rank and n are the same for all candidates.
    ranked : ndarray of float64, shape (n,)
        Scores of all answers, higher = more likely hallucinated; undefined ones at the end that
        their policy implies.
    decided : ndarray of float64, shape (n,)
        The same plus the numerical tolerance: flagged where at or above the threshold.
    flagged : ndarray of bool, shape (n,)
        Decisions.
    """

    name: str
    baseline: bool
    calibration: Calibration
    ranked: Floats
    decided: Floats
    flagged: Mask

    @classmethod
    def of(
        cls, name: str, sample: Sample, calibration: Calibration, *, baseline: bool = False
    ) -> Candidate:
        """Return the candidate of a score that could be calibrated."""
        ranked = ranked_values(sample.values, calibration.undefined)
        decided = add_tolerance(ranked, sample.tolerance)
        flagged = calibration.flags(sample.values, sample.tolerance)
        return cls(name, baseline, calibration, ranked, decided, flagged)


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """All candidates of one comparison, and the answers that they share.

    Attributes
    ----------
    members : tuple of Candidate
        Detectors and baselines.
    labels, split : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful; 0 = fit, 1 = calibration, 2 = test.
    groups : ndarray of int64, shape (n,)
        What answers share; a number of its own for one that stands alone.
    ranking : ndarray of bool, shape (n,)
        Which answers show how well a score ranks: where others were set aside, one of each group
        and class among the hallucinated calibration answers, too, of which a threshold sees all.
    confidence : float
        Level of every interval and claim.
    seed : int
        Of the halves of the test part and of every bootstrap.
    thinned, independent : bool
        Whether answers were set aside, so that one of each group and class counts; whether every
        answer counts whatever it shares with others.
    """

    members: tuple[Candidate, ...]
    labels: Codes
    split: Codes
    groups: NDArray[np.int64]
    ranking: Mask
    confidence: float = 0.95
    seed: int = 0
    thinned: bool = False
    independent: bool = False

    @classmethod
    def on(
        cls, sample: Sample, members: list[Candidate], *, confidence: float = 0.95, seed: int = 0
    ) -> Candidates:
        """Return candidates on the answers of a sample, whichever detector's scores it holds."""
        groups = with_singletons(sample.groups, len(sample))
        ranking = np.isin(sample.split, (CALIBRATION, TEST))
        if sample.lot is not None:
            ranking = one_of_each(ranking, sample.lot, groups, sample.labels)
        return cls(
            tuple(members),
            sample.labels,
            sample.split,
            groups,
            ranking,
            confidence,
            seed,
            sample.n_set_aside > 0,
            sample.independent,
        )

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)
