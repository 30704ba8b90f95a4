"""Do the codes of a comparison of a judge with people read as whole sentences?"""

from __future__ import annotations

from typing import Any

import pytest

from calibrail.evaluation.agree.corrected_rates import corrected_rates
from calibrail.report.documents import agree_words as words
from tests.evaluation.agree.tables import ALONE, BOTH, counted, made


@pytest.mark.parametrize(
    ("hallucinated", "sentence"),
    [
        (
            ((1, 10), (1, 38)),
            "only 2 of the 120 rows with both labels are hallucinated and passed; the normal "
            "approximation wants 5: about 300 human labels",
        ),
        (
            ((0, 10), (0, 40)),
            "none of the 120 rows with both labels is hallucinated and passed; the normal "
            "approximation wants 5: about 200 human labels or more",
        ),
    ],
)
def test_few_labels_of_a_kind(hallucinated: Any, sentence: str) -> None:
    few = made((((50, 10), (6, 4)), hallucinated), ALONE)
    estimate = corrected_rates(few)["coverage"].prediction_powered
    assert words.caution("coverage", estimate) == sentence


def test_few_labels_of_a_class_name_the_other_one() -> None:
    small = made((((15, 4), (2, 1)), ((3, 5), (7, 35))), ALONE)
    estimate = corrected_rates(small)["coverage"].rogan_gladen
    assert words.caution("coverage", estimate) == (
        "the judge's error rate on faithful answers rests on 22 human labels; about 30 are wanted, "
        "so about 99 human labels in all"
    )


def test_a_judge_that_knows_nothing_in_numbers() -> None:
    coin = made((((20, 10), (20, 10)), ((10, 20), (10, 20))), ALONE)
    found = corrected_rates(coin)["fpr"].rogan_gladen
    assert str(words.reason("fpr", found)).startswith(
        "sensitivity + specificity - 1 is 0.00, not clearly above 0 (Fisher's exact test, p = "
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
