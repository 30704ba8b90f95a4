"""Which simulated detectors do the tests of comparisons put side by side?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import calibrate_threshold
from calibrail.data.splits import CALIBRATION
from calibrail.evaluation.scored_answers import Sample
from calibrail.evaluation.winner import Candidate, Candidates
from calibrail.options import Promise


class Field:
    """Detectors on common data: normal scores with a common part and one of their own.

    Half of the groups calibrate, half test. ``better`` moves the first detector's hallucinated
    scores up; ``alike`` is the correlation of the latter within a group.
    """

    def __init__(
        self,
        n_detectors: int,
        n_hallucinated: int,
        n_faithful: int,
        rng: np.random.Generator,
        *,
        better: float = 0.0,
        common: float = 0.3,
        size: int = 1,
        alike: float = 0.0,
    ) -> None:
        kinds = np.repeat([1, 0], [n_hallucinated, n_faithful])
        self.labels: NDArray[np.int8] = kinds.astype(np.int8)
        within = np.concatenate([np.arange(n_hallucinated), np.arange(n_faithful)]) // size
        self.codes: NDArray[np.int8] = np.where(within % 2 == 0, 1, 2).astype(np.int8)
        self.groups: NDArray[np.int64] = within + np.where(kinds == 1, 0, len(kinds))
        n = len(kinds)
        shared = rng.normal(size=n)
        self.columns: dict[str, NDArray[np.float64]] = {}
        for place in range(n_detectors):
            alone = np.sqrt(alike) * rng.normal(size=2 * n)[self.groups]
            alone += np.sqrt(1.0 - alike) * rng.normal(size=n)
            values = np.sqrt(common) * shared + np.sqrt(1.0 - common) * alone + 1.5 * self.labels
            self.columns[f"d{place}"] = values + (better * self.labels if place == 0 else 0.0)

    def sample(self, name: str = "d0") -> Sample:
        """Return one detector's scores."""
        return Sample(self.columns[name], self.labels, self.codes, self.groups)

    def candidates(self, alpha: float = 0.1, baselines: int = 0, **options: Any) -> Candidates:
        """Return the detectors calibrated; the last ones pass for baselines."""
        names = list(self.columns)
        last = names[len(names) - baselines :]
        members = [candidate(name, self.sample(name), alpha, name in last) for name in names]
        return Candidates.on(self.sample(), members, **options)


def candidate(name: str, sample: Sample, alpha: float = 0.1, baseline: bool = False) -> Candidate:
    """Return one score calibrated on its own."""
    made = calibrate_threshold(sample.scores(CALIBRATION, 1), Promise(alpha))
    return Candidate.of(name, sample, made, baseline=baseline)
