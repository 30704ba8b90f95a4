"""Do the codes of a comparison of a judge with people read as whole sentences?"""

from __future__ import annotations

import pytest

from calibrail.evaluation.judge_agreement import rogan_gladen
from calibrail.report.document import Figure
from calibrail.report.documents import agree as words
from calibrail.report.documents.agree import _tiles
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
    certificate |= {"region": {"coverage": rate, "fpr": rate, "confidence": 0.95}}
    judges = [
        {"judge": name, "certificate": certificate | {"verdict": "inconclusive"}} for name in "ab"
    ]
    for shown, name in ((judges[:1], "target"), (judges, "judges")):
        section = words._figure(shown)
        assert section is not None
        (figure,) = section.blocks
        assert isinstance(figure, Figure) and figure.name == name and "<svg" in figure.draw(False)


@pytest.mark.parametrize(
    ("code", "shown"), [(None, "measured 5.8%"), ("looked_before", "0.8 to 17.6%")]
)
def test_tiles_have_the_ranges_of_the_sentence_where_nothing_is_decided(
    code: str | None, shown: str
) -> None:
    rate = {"estimate": 0.058, "lower": 0.008, "upper": 0.176, "count": 3, "n": 52, "reason": None}
    caught = {**rate, "estimate": 0.182, "lower": 0.083, "upper": 0.326, "count": 12, "n": 66}
    limits = {"min_coverage": 0.3, "max_fpr": 0.4, "coverage_at_least": 0.102, "fpr_at_most": 0.143}
    certificate = {"reason_code": code, "coverage": caught, "fpr": rate, **limits}
    row = {"caught": caught, "false_alarms": rate, "verdict": "inconclusive"}
    tiles = _tiles({**row, "certificate": certificate}, "")
    assert [tile.interval for tile in tiles] == ["8.3 to 32.6%", shown]
