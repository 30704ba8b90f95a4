"""Do the codes of a comparison of a judge with people read as whole sentences?"""

from __future__ import annotations

from calibrail.evaluation.judge_agreement import rogan_gladen
from calibrail.report.document import Figure
from calibrail.report.documents import agree as words
from calibrail.report.messages import spell
from tests.evaluation.agree.tables import ALONE, made


def test_a_judge_that_knows_nothing_in_numbers() -> None:
    coin = made((((20, 10), (20, 10)), ((10, 20), (10, 20))), ALONE)
    assert spell(str(rogan_gladen(coin, 0.95).reason)) == (
        "sensitivity + specificity - 1 is 0.00, not above 0: the correction divides by it"
    )


def test_rows_that_were_chosen_are_said_to_be() -> None:
    rows = {"human_labelled": {"count": 5, "n": 10}, "others": {"count": 9, "n": 90}}
    test = {"share": "flagged", **rows, "p_value": 0.001, "differs": True}
    assert words.differing([test, {**test, "differs": False}]) == (
        "50% of them are flagged, of the rest 10% (Fisher's exact test, p = 0.001)"
    )


def test_a_page_draws_what_is_shown_of_a_judge_and_of_several() -> None:
    rate = {"estimate": 0.8, "lower": 0.7, "upper": 0.9, "count": 8, "n": 10}
    certificate = {"coverage": rate, "fpr": rate, "min_coverage": 0.6, "max_fpr": None}
    certificate |= {"region": {"coverage": rate, "fpr": rate}, "confidence": 0.95}
    judges = [
        {"judge": name, "certificate": certificate | {"verdict": "inconclusive"}} for name in "ab"
    ]
    for shown, name in ((judges[:1], "target"), (judges, "judges")):
        section = words._figure(shown, {"confidence": 0.95})
        assert section is not None
        (figure,) = section.blocks
        assert isinstance(figure, Figure) and figure.name == name and "<svg" in figure.draw(False)
