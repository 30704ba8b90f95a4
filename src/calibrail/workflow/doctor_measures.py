"""Which guarantees do so many answers allow, and how well does a column tell them apart?"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.findings import ENOUGH
from calibrail.data.splits import CALIBRATION
from calibrail.data.support import Support
from calibrail.evaluation.stats.auroc import auroc

#: Guarantees that are looked up, each at every one of these tolerated miss rates.
ALPHAS: Final = (0.01, 0.05, 0.1, 0.2)
GUARANTEES: Final = ("marginal", "pac")
DELTA: Final = 0.1


def supports_at(
    labels: NDArray[np.int8], codes: NDArray[np.int8], groups: NDArray[np.int64]
) -> tuple[Support, ...]:
    """Return the guarantees for which a split leaves enough hallucinated answers.

    Of answers that share a group one counts, as for a threshold.
    """
    from calibrail.conformal import minimum_n

    available = len(np.unique(groups[(codes == CALIBRATION) & (labels == 1)]))
    return tuple(
        Support(alpha, guarantee, needed, available, available >= needed)
        for guarantee in GUARANTEES
        for alpha in ALPHAS
        for needed in (minimum_n(alpha, guarantee, DELTA),)
    )


def tells_label(area: float | None, n_labelled: int) -> bool:
    """Say whether a column separates the classes as well as only one made from the labels does."""
    return area in (0.0, 1.0) and n_labelled >= ENOUGH


def area_of(values: NDArray[np.float64], labels: NDArray[np.int8]) -> float | None:
    """Return the AUROC of the examples that have a value and a label; None without both classes."""
    there = ~np.isnan(values)
    return auroc(values[there & (labels == 1)], values[there & (labels == 0)]).estimate
