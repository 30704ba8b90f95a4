"""Is the AUROC that a report names the one from which so much is kept?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from calibrail.evaluation.sentence_removal import needed_auroc


@pytest.mark.parametrize("alpha", [0.05, 0.2])
@pytest.mark.parametrize("min_kept", [None, 0.3, 0.9])
def test_normal_scores_of_that_auroc_keep_that_share(alpha: float, min_kept: float | None) -> None:
    rng = np.random.default_rng(7)
    unsupported = rng.integers(1, 6, size=40_000)
    found = needed_auroc(unsupported, alpha, min_kept)
    assert found is not None and found["unsupported"] == pytest.approx(unsupported.mean())
    assert [row["kept"] for row in found["rows"]] == sorted({0.5, min_kept or 0.7})
    for row in found["rows"]:
        if row["auroc"] == 0.5:
            continue
        apart = float(np.sqrt(2.0) * ndtri(row["auroc"]))
        # The lowest of u normal scores, by its distribution function.
        lowest = apart - ndtri(rng.random(len(unsupported)) ** (1.0 / unsupported))
        # The share kept at thresholds four standard errors of their rank to either side.
        error = 4.0 * np.sqrt(alpha * (1.0 - alpha) / len(unsupported))
        low, high = ndtr(np.quantile(lowest, [alpha - error, alpha + error]))
        assert low < row["kept"] < high
        assert high - low < 0.05


def test_guessing_is_enough_where_hardly_anything_is_asked() -> None:
    found = needed_auroc(np.ones(5, np.int64), 0.5, 0.01)
    assert found is not None and found["rows"][0] == {"kept": 0.01, "auroc": 0.5}
    assert needed_auroc(np.array([], np.int64), 0.1, 0.5) is None
