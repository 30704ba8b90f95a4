"""Are inverted labels noticed, and labels that say nothing left alone?"""

from __future__ import annotations

import numpy as np
import pytest

from calibrail.evaluation.stats.tests import CONFIDENCE, look_inverted


def scores(labels: np.ndarray, shift: float, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(shift * labels, 1.0) for name in ("novelty", "rouge_l")}


def test_chance_alone_raises_no_suspicion() -> None:
    labels = np.repeat(np.array([0, 1], np.int8), 60)
    n = 400
    suspected = sum(
        look_inverted(scores(labels, 0.0, seed), labels) is not None for seed in range(n)
    )
    # Each of the two scores errs with 1 - CONFIDENCE at most, and here they are independent.
    assert suspected <= np.ceil(n * (1.0 - CONFIDENCE))


@pytest.mark.parametrize(("shift", "expected"), [(-1.0, True), (1.0, False), (-0.05, False)])
def test_only_a_clear_and_large_inversion_is_suspected(shift: float, expected: bool) -> None:
    labels = np.repeat(np.array([0, 1], np.int8), 2000)
    assert (look_inverted(scores(labels, shift, 1), labels) is not None) == expected


def test_both_scores_are_needed_and_undefined_values_are_left_out() -> None:
    labels = np.repeat(np.array([0, 1], np.int8), 100)
    values = scores(labels, -1.0, 2)
    values["novelty"][::3] = np.nan
    assert look_inverted(values, labels) is not None
    assert look_inverted({"novelty": values["novelty"]}, labels) is None
    one_agrees = {**values, "rouge_l": -values["rouge_l"]}
    assert look_inverted(one_agrees, labels) is None
    assert look_inverted(values, np.ones(200, np.int8)) is None
