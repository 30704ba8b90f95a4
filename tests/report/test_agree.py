"""Do the codes of a comparison of a judge with people read as whole sentences?"""

from __future__ import annotations

from typing import Any

import pytest

from calibrail.evaluation.judge_agreement import corrected_rates, rogan_gladen
from calibrail.report.documents import agree as words
from tests.evaluation.agree.tables import ALONE, counted, made


def test_a_judge_that_knows_nothing_in_numbers() -> None:
    coin = made((((20, 10), (20, 10)), ((10, 20), (10, 20))), ALONE)
    assert words.reason("prevalence", rogan_gladen(coin, 0.95)) == (
        "sensitivity + specificity - 1 is 0.00, not above 0: the correction divides by it"
    )


@pytest.mark.parametrize(("rate", "missing"), [("coverage", "hallucinated"), ("fpr", "faithful")])
def test_the_missing_class_is_named_as_it_is(rate: Any, missing: str) -> None:
    """Of the answers that people have labelled, all are of one class."""
    label = int(missing == "faithful")
    counts = counted([label] * 9, [0, 1, 1] * 3, [True, False, True] * 3)
    found = corrected_rates(counts)[rate]["prediction_powered"]
    assert words.reason(rate, found) == f"no row with both labels is {missing}"
