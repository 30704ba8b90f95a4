"""Does the guess learn from labels what a score says, and is it never sure?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from calibrail.conformal.sequential import audited_calibration
from calibrail.conformal.sequential.audited_calibration import LearntGuess, features, fitted

values = st.lists(st.one_of(st.floats(-1e6, 1e6), st.just(float("nan"))), min_size=1, max_size=12)


def test_nothing_known_is_a_half_and_undefined_scores_have_a_chance_of_their_own() -> None:
    assert LearntGuess.of([], [], [])([0.3, np.nan]).tolist() == [0.5, 0.5]
    seen = [0.1, 0.2, 0.3, np.nan, np.nan, np.nan]
    low, undefined = LearntGuess.of(seen, [0, 0, 0, 1, 1, 1], seen)([0.2, np.nan])
    assert low < 0.4 < 0.6 < undefined


@given(values, st.integers(0, 2**20))
def test_it_is_never_sure_and_knows_no_scale(scores: list[float], bits: int) -> None:
    labels = [(bits >> place) & 1 for place in range(len(scores))]
    guess = LearntGuess.of(scores, labels, scores)(scores)
    assert np.all((guess > 0.0) & (guess < 1.0))
    order = np.unique(np.array(scores)[~np.isnan(scores)])
    ranked = np.where(np.isnan(scores), np.nan, np.searchsorted(order, scores))
    assert LearntGuess.of(ranked, labels, ranked)(ranked).tolist() == guess.tolist()


@pytest.mark.parametrize("base_rate", [0.03, 0.4])
def test_it_comes_near_the_truth_although_likely_ones_are_labelled_more_often(
    base_rate: float,
) -> None:
    rng, n = np.random.default_rng(0), 40_000
    hallucinated = rng.random(n) < base_rate
    score = rng.standard_normal(n) + 1.5 * hallucinated
    truth = expit(np.log(base_rate / (1.0 - base_rate)) + 1.5 * score - 1.125)
    taken = rng.random(n) < np.clip(2.0 * truth, 0.1, 1.0)
    guess = LearntGuess.of(score[taken], hallucinated[taken], score)(score)
    assert np.mean(np.abs(guess - truth)) < 0.2 * base_rate


def test_a_higher_score_is_suspicious_until_labels_say_otherwise() -> None:
    drawn = np.arange(40.0)
    before = LearntGuess.of([], [], drawn)([5.0, 35.0])
    assert before[0] < 0.4 < 0.6 < before[1]
    taught = LearntGuess.of(drawn, drawn < 20.0, drawn)([5.0, 35.0])
    assert taught[0] > 0.6 > 0.4 > taught[1]


def test_it_is_the_maximum_that_a_regression_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audited_calibration, "_EXPECTED", 0.0)
    rng = np.random.default_rng(1)
    ranks = (np.arange(300) + 0.5) / 300
    hallucinated = rng.random(300) < ranks
    slopes = fitted(features(ranks)[None], hallucinated[None] * 1.0, ~hallucinated[None] * 1.0)[0]
    rows = features(ranks)[:, 1:2]
    model = LogisticRegression(C=1.0, tol=1e-10).fit(rows, hallucinated)
    # The answer that says nothing is all that differs.
    assert slopes[:2] == pytest.approx([model.intercept_[0], model.coef_[0, 0]], abs=0.01)
