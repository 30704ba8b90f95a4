"""Do simulated streams get the verdicts that the same answers get one by one?"""

from __future__ import annotations

import numpy as np
import pytest

from calibrail.conformal import SequentialTest, log_wealth
from calibrail.conformal.sequential.forecast import Units, follow, gaussian, most_or_least
from calibrail.options import Drawing, Requirement

REQUIRED = Requirement(max_fpr=0.2, min_coverage=0.8, confidence=0.9)


@pytest.mark.parametrize("drawing", [Drawing(), Drawing("active", 1.0), Drawing(whole_groups=True)])
@pytest.mark.parametrize("coverage, fpr", [(0.95, 0.05), (0.6, 0.1), (0.8, 0.2)])
def test_every_stream_is_decided_as_its_answers_are(
    drawing: Drawing, coverage: float, fpr: float
) -> None:
    n, streams, size = 120, 20, 2 if drawing.whole_groups else 1
    rng = np.random.default_rng(4)
    hallucinated = rng.random((streams, n, size)) < 0.4
    flagged = rng.random(hallucinated.shape) < np.where(hallucinated, coverage, fpr)
    guess = np.full(hallucinated.shape, 0.3)
    done = 0

    def draw(_: np.random.Generator, rows: int, units: int) -> Units:
        nonlocal done
        part = slice(done, done + units)
        done += units
        weight = np.full((rows, units, size), 1.0 / size)
        return Units(flagged[:, part], hallucinated[:, part], guess[:, part], weight)

    found = follow(draw, REQUIRED, drawing, streams=streams, units=n)
    certified, rejected = found.decided(found.labelled)
    for row in range(streams):
        more = {}
        if drawing.design == "active":
            more = {"probability": np.ones(n), "guess": guess[row].ravel()}
        if drawing.whole_groups:
            more = {"groups": np.repeat(np.arange(n), size)}
        test = SequentialTest(REQUIRED, drawing).update(
            flagged[row].ravel(), hallucinated[row].ravel(), **more
        )
        decided = np.inf if test.decided is None else test.decided.labelled
        assert certified[row] == (decided if test.verdict == "certified" else np.inf)
        assert rejected[row] == (decided if test.verdict == "rejected" else np.inf)
        goals = np.log([10.0, 20.0, 10.0, 20.0])
        assert (np.isfinite(found.labelled[row]) == (np.array(test.highest) >= goals)).all()


@pytest.mark.parametrize("limit", [0.1, 0.9])
def test_the_counts_that_reach_a_goal_are_the_first_that_do(limit: float) -> None:
    n, goal = 60, np.log(10.0)
    least = most_or_least(limit, goal, n, above=True)
    most = most_or_least(limit, goal, n, above=False)
    for total in range(n + 1):
        counts = np.arange(total + 1)
        above = log_wealth(counts, total, limit) >= goal
        below = log_wealth(counts, total, limit, above=False) >= goal
        assert least[total] == (np.argmax(above) if above.any() else total + 1)
        assert most[total] == (np.flatnonzero(below)[-1] if below.any() else -1)


def test_gaussian_answers_have_the_rates_and_a_guess_that_is_the_posterior() -> None:
    unit = gaussian(0.9, 0.15, 0.3)(np.random.default_rng(1), 400, 500)
    flagged, bad, guess = (item.ravel() for item in unit[:3])
    error = 4.0 / np.sqrt(len(bad))
    assert np.mean(bad) == pytest.approx(0.3, abs=error)
    assert np.mean(flagged[bad]) == pytest.approx(0.9, abs=error)
    assert np.mean(flagged[~bad]) == pytest.approx(0.15, abs=error)
    for low in (0.0, 0.1, 0.5, 0.9):
        among = (guess >= low) & (guess < low + 0.1)
        assert np.mean(bad[among]) == pytest.approx(
            float(np.mean(guess[among])), abs=4.0 / np.sqrt(among.sum())
        )
