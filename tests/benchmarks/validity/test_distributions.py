from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.validity import KINDS, Kind
from benchmarks.validity.check import below, draw, quantile, up_to

RUNS = 20_000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loc", [0.0, -1.0])
def test_probabilities_are_those_of_the_scores_drawn(kind: Kind, loc: float) -> None:
    rng = np.random.default_rng(3)
    scores = draw(rng, kind, RUNS, loc)
    for value in np.unique(draw(rng, kind, 8)):
        for count, p in (
            (np.count_nonzero(scores < value), below(kind, value, loc)),
            (np.count_nonzero(scores <= value), up_to(kind, value, loc)),
        ):
            assert binom.ppf(1e-6, RUNS, p) <= count <= binom.isf(1e-6, RUNS, p)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.01, 0.05, 0.1, 0.2])
def test_a_quantile_is_the_highest_score_that_misses_no_more(kind: Kind, share: float) -> None:
    score = quantile(kind, share)
    assert below(kind, score) <= share + 1e-12
    if kind == "continuous":
        assert below(kind, score) == pytest.approx(share)
    elif score < 2.0:
        assert up_to(kind, score) > share


@pytest.mark.parametrize("kind", ["discrete", "tied"])
def test_ties_are_many(kind: Kind) -> None:
    assert len(np.unique(draw(np.random.default_rng(0), kind, 1000))) < 20
