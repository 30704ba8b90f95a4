"""Are the four estimates what they claim, and is the right one trusted?"""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from statsmodels.stats.proportion import proportion_confint

from calibrail.evaluation.judge_agreement import (
    LabelCounts,
    ReliableEstimates,
    alike_tests,
    corrected_rates,
    sample_tests,
    trusted,
)
from tests.evaluation.agree.tables import ALONE, BOTH, estimates, files, held, judge_only, law, made


def test_the_judge_alone_is_surely_wrong() -> None:
    cells = law(0.3, 0.9, 0.2, 0.9, 0.9)
    found = estimates(judge_only, files(cells, 200, 3000, 200, seed=4))
    expected = (0.27 * 0.9 + 0.07 * 0.2) / 0.34
    assert found[:, 0].mean() == pytest.approx(expected, abs=0.01) and expected < 0.76
    assert held(found, 0.9) == 0.0


def test_human_only_and_judge_only_are_exact_counts() -> None:
    cells = made(BOTH, ALONE).cells.copy()
    cells[1, 2] = (2, 3)  # hallucinated, says a person; no judge label
    rates = corrected_rates(LabelCounts(cells), 0.9)
    human, judge = rates["coverage"].human_only, rates["coverage"].judge_only
    assert (human.n_human, judge.n_judge) == (55, 402)
    expected = (
        (human, 43, 55),
        (judge, 299, 402),
        (rates["fpr"].human_only, 14, 70),
        (rates["fpr"].judge_only, 135, 688),
        (rates["prevalence"].judge_only, 402, 1090),
        (rates["prevalence"].human_only, 55, 125),
    )
    for found, count, n in expected:
        ends = proportion_confint(count, n, alpha=0.1, method="beta")
        assert found.measure.estimate == pytest.approx(count / n)
        assert (found.measure.lower, found.measure.upper) == pytest.approx(ends, abs=1e-9)
    for name, rate in rates.items():
        for method in ("rogan_gladen", "prediction_powered"):
            without = corrected_rates(made(BOTH, ALONE), 0.9)[name]
            assert getattr(rate, method) == getattr(without, method)


def test_what_to_trust() -> None:
    rates = corrected_rates(made(BOTH, ALONE))
    chosen = trusted(rates)
    assert {trust.method for trust in chosen.values()} == {"prediction_powered"}
    exact, tuned = rates["fpr"].human_only.measure, rates["fpr"].prediction_powered.measure
    assert tuned.upper - tuned.lower < exact.upper - exact.lower
    assert {trust.reason for trust in chosen.values()} == {"narrower"}
    assert {trust.method for trust in trusted(rates, random=False).values()} == {None}
    # Most human labels stand where the judge has none: the corrections cannot use them.
    cells = made(BOTH, ALONE).cells.copy()
    cells[:2, 2] = (900, 100), (100, 400)
    wider = trusted(corrected_rates(LabelCounts(cells)))["coverage"]
    assert wider == ReliableEstimates("human_only", "not_narrower")
    # People have labelled every row: their exact share, whatever the judge says of the same rows.
    every = corrected_rates(made(BOTH, np.zeros_like(ALONE)))
    assert {trust.method for trust in trusted(every).values()} == {"human_only"}
    assert {trust.reason for trust in trusted(every).values()} == {"all_labelled"}
    one_class = trusted(corrected_rates(made((((50, 10), (6, 4)), ((0, 0), (0, 0))), ALONE)))
    assert one_class["coverage"] == ReliableEstimates(None, "no_label")


@settings(max_examples=60, deadline=None)
@given(arrays(np.int64, (3, 3, 2), elements=st.integers(0, 8)), st.booleans())
def test_no_table_gives_nan_or_an_interval_without_its_estimate(
    cells: np.ndarray, decided: bool
) -> None:
    if not decided:
        cells[..., 1] = 0
    counts = LabelCounts(cells, decided)
    rates = corrected_rates(counts)
    assert set(rates) == ({"prevalence", "coverage", "fpr"} if decided else {"prevalence"})
    for rate in rates.values():
        for _, found in rate:
            measure = found.measure
            assert (measure.estimate is None) == (measure.reason is not None)
            if measure.estimate is not None:
                assert 0 <= measure.lower <= measure.estimate <= measure.upper <= 1
                assert measure.lower < measure.upper
    tests = [test.to_dict() for test in (*sample_tests(counts), *alike_tests(counts))]
    chosen = [trust.to_dict() for trust in trusted(rates).values()]
    json.dumps([{k: r.to_dict() for k, r in rates.items()}, tests, chosen], allow_nan=False)
