"""Which simulated detectors do the tests of comparisons put side by side?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import calibrate_threshold
from calibrail.evaluation.compare.candidate import Contender
from calibrail.settings import Promise


class Field:
    """Detectors on common data: normal scores with a common and an own part.

    Half of the groups calibrate, half test. ``better`` moves the first detector's hallucinated
    scores up; ``alike`` is the correlation of the own parts within a group.
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
            own = np.sqrt(alike) * rng.normal(size=2 * n)[self.groups]
            own += np.sqrt(1.0 - alike) * rng.normal(size=n)
            values = np.sqrt(common) * shared + np.sqrt(1.0 - common) * own + 1.5 * self.labels
            self.columns[f"d{place}"] = values + (better * self.labels if place == 0 else 0.0)

    def contenders(self, alpha: float = 0.1, baselines: int = 0) -> list[Contender]:
        """Return the detectors calibrated; the last ones pass for baselines."""
        source = (self.codes == 1) & (self.labels == 1)
        names = list(self.columns)
        return [
            Contender.of(
                name, values, self.labels, self.codes,
                calibrate_threshold(values[source], Promise(alpha)),
                baseline=name in names[len(names) - baselines :],
            )
            for name, values in self.columns.items()
        ]  # fmt: skip
