"""Do the codes of a comparison of a judge with people read as whole sentences?"""

from __future__ import annotations

from typing import Any

import pytest

from calibrail.evaluation.judge_agreement import corrected_rates
from calibrail.report.documents import agree as words
from tests.evaluation.agree.tables import ALONE, BOTH, counted, made


def test_a_judge_that_knows_nothing_in_numbers() -> None:
    coin = made((((20, 10), (20, 10)), ((10, 20), (10, 20))), ALONE)
    found = corrected_rates(coin)["fpr"].rogan_gladen
    assert words.reason("fpr", found) == (
        "sensitivity + specificity - 1 is 0.00, not above 0: the correction divides by it"
    )


@pytest.mark.parametrize(("rate", "missing"), [("coverage", "hallucinated"), ("fpr", "faithful")])
def test_the_missing_class_is_named_as_it_is(rate: Any, missing: str) -> None:
    """Of the answers that people have labelled, all are of one class."""
    label = int(missing == "faithful")
    counts = counted([label] * 9, [0, 1, 1] * 3, [True, False, True] * 3)
    found = corrected_rates(counts)[rate].rogan_gladen
    assert words.reason(rate, found) == (
        f"people call no answer {missing} that the judge has labelled, too"
    )


def test_how_much_narrower_is_said() -> None:
    rates = {name: rate.to_dict() for name, rate in corrected_rates(made(BOTH, ALONE)).items()}
    exact, tuned = rates["fpr"]["human_only"], rates["fpr"]["prediction_powered"]
    gained = 1 - (tuned["upper"] - tuned["lower"]) / (exact["upper"] - exact["lower"])
    assert f"{100 * gained:.1f}% narrower" in words.trust("narrower", rates["fpr"], "")
    assert words.trust("no_sample", rates["fpr"], "they were flagged").endswith("they were flagged")
