"""Is the threshold where the new answer leaves the fit, by a program for each score?"""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mapie.conditional_conformal_prediction import _solve_dual
from scipy.optimize import linprog

from calibrail.conformal.overlapping_groups import QuantileFit
from calibrail.conformal.threshold import rank

CHECK = settings(max_examples=40, deadline=None)
ALPHAS = st.sampled_from([0.05, 0.1, 0.13, 0.2, 0.25])

#: Answers: a score, one of three models, one of two topics.
ANSWERS = st.lists(
    st.tuples(st.integers(-9, 9), st.integers(0, 2), st.integers(0, 1)), min_size=12, max_size=40
)


def _vector(model: int, topic: int) -> list[int]:
    """Return an indicator of all, of each model and of each topic: more than are independent."""
    return [1, *(int(model == item) for item in range(3)), *(int(topic == k) for k in range(2))]


def _parts(answers: list[Any]) -> tuple[Any, Any]:
    scores = np.array([row[0] for row in answers], dtype=np.float64)
    return scores, np.array([_vector(*row[1:]) for row in answers], dtype=np.int64)


def _fitted(answers: list[Any], model: int, topic: int, alpha: float) -> tuple[Any, ...]:
    """Return the answers' scores and vectors, a new answer's vector and its threshold."""
    scores, design = _parts(answers)
    new = np.array(_vector(model, topic), dtype=np.int64)
    return scores, design, new, QuantileFit(scores, design).threshold(new, Fraction(str(alpha)))


def _best(scores: Any, design: Any, new: Any, at: float, alpha: float, lowest: bool) -> float:
    """Return the optimum of the dual with the new answer at a score; NaN where there is none."""
    ends = [(alpha - 1.0, alpha)] * len(scores)
    ends.append((alpha - 1.0, alpha - 1.0 if lowest else alpha))
    cost, equal = -np.append(scores, at), np.vstack([design, new]).T.astype(float)
    found = linprog(cost, A_eq=equal, b_eq=np.zeros(len(equal)), bounds=ends, method="highs")
    return -float(found.fun) if found.status == 0 else math.nan


def _leaves(scores: Any, design: Any, new: Any, at: float, alpha: float) -> bool:
    """Return whether the new answer's dual variable can be above its lowest value at a score."""
    fixed, free = (_best(scores, design, new, at, alpha, lowest) for lowest in (True, False))
    return math.isnan(fixed) or free > fixed + 1e-7


@CHECK
@given(ANSWERS, st.integers(0, 2), st.integers(0, 1), ALPHAS)
def test_a_program_for_each_score_gives_the_same_threshold(
    answers: list[Any], model: int, topic: int, alpha: float
) -> None:
    scores, design, new, threshold = _fitted(answers, model, topic, alpha)
    if threshold == -math.inf:
        # At every score, however low; or at none, where too few answers share the groups.
        everywhere = {_leaves(scores, design, new, at, alpha) for at in (-1e4, 0.0, 1e4)}
        assert len(everywhere) == 1
        return
    assert not _leaves(scores, design, new, threshold - 1e-3, alpha)
    assert _leaves(scores, design, new, threshold + 1e-3, alpha)


@CHECK
@given(ANSWERS, st.integers(0, 2), st.integers(0, 1), ALPHAS)
def test_mapie_finds_the_same_side(
    answers: list[Any], model: int, topic: int, alpha: float
) -> None:
    # Its dual program for one score; its own search for the threshold takes cvxpy, and stops where
    # scores are tied.
    scores, design, new, threshold = _fitted(answers, model, topic, alpha)
    if threshold == -math.inf:
        return
    fitted = SimpleNamespace(
        infinite_params={}, scores_calib=scores, phi_calib=design, feature_map=lambda x: x
    )
    levels = np.full((len(scores) + 1, 1), alpha)
    below, above = (
        _solve_dual(threshold + step, fitted, new[np.newaxis], levels) for step in (-0.01, 0.01)
    )
    assert below == pytest.approx(0.0, abs=1e-9)
    assert above > 1e-6


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.29, 0.3])
def test_one_group_of_all_is_split_conformal(alpha: float) -> None:
    scores = np.random.default_rng(4).normal(size=99)
    fit = QuantileFit(scores, np.ones((99, 1), dtype=np.int64))
    expected = np.sort(scores)[rank(99, alpha) - 1]
    assert fit.threshold(np.array([1]), Fraction(str(alpha))) == expected


def test_groups_that_part_all_answers_have_their_own_quantile() -> None:
    rng = np.random.default_rng(5)
    scores, member = rng.normal(size=80), rng.integers(2, size=80)
    design = np.column_stack([np.ones(80), member == 0, member == 1]).astype(np.int64)
    fit = QuantileFit(scores, design)
    for group in range(2):
        own = np.sort(scores[member == group])
        new = np.array([1, group == 0, group == 1], dtype=np.int64)
        assert fit.threshold(new, Fraction(1, 10)) == own[rank(len(own), 0.1) - 1]


def test_groups_of_no_answer_settle_no_threshold() -> None:
    scores, design = _parts([(k, 0, 0) for k in range(30)])
    fit = QuantileFit(scores, design)
    assert fit.threshold(np.array(_vector(0, 0)), Fraction(1, 10)) == 2.0
    assert fit.threshold(np.array(_vector(1, 0)), Fraction(1, 10)) == -math.inf
    assert fit.threshold(np.array(_vector(0, 0)), Fraction(1, 100)) == -math.inf


def test_a_fit_that_would_rest_on_infinite_scores_passes_nothing() -> None:
    ones = np.ones((40, 1), dtype=np.int64)
    scores = np.where(np.arange(40) < 2, np.arange(40.0), math.inf)
    fit = QuantileFit(scores, ones)
    assert fit.threshold(np.array([1]), Fraction(1, 20)) == 1.0
    assert fit.threshold(np.array([1]), Fraction(1, 5)) == -math.inf
    missed = QuantileFit(np.where(np.arange(40) < 2, -math.inf, np.arange(40.0)), ones)
    assert missed.threshold(np.array([1]), Fraction(1, 10)) == 3.0


def test_a_group_that_is_too_small_for_a_level_needs_no_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    scores, rare = rng.normal(size=60), (np.arange(60) < 5).astype(np.int64)
    fit = QuantileFit(scores, np.column_stack([np.ones(60, np.int64), rare, 1 - rare]))
    common, new = np.array([1, 0, 1]), np.array([1, 1, 0])
    assert fit.threshold(new, Fraction("0.3")) > -math.inf
    solved = list[Any]()

    def told(*given: Any, **options: Any) -> Any:
        solved.append(given)
        return linprog(*given, **options)

    monkeypatch.setattr("scipy.optimize.linprog", told)
    # 5 examples give five tenths of an example in a group that is asked for nine.
    assert fit.threshold(new, Fraction("0.1")) == -math.inf
    assert not solved
    assert fit.threshold(common, Fraction("0.1")) > -math.inf
    assert len(solved) == 1
