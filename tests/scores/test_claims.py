from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.claims import Claims
from tests.scores.fakes import FakeNli

CHUNK = "Tea comes from China. It is green or black."


def claims(says: object, **params: float) -> Claims:
    score = Claims(**params)
    score.nli = FakeNli(says)
    return score


def test_the_value_is_the_share_of_claims_without_entailment() -> None:
    said = {"Tea comes from China.": 0.8, "Tea is blue.": 0.2, "Tea is green.": 0.6}
    score = claims(lambda premise, claim: (said[claim], 0.0))
    example = Example("q", (CHUNK, "x"), "Tea comes from China. Tea is blue. Tea is green.")
    result = score.score([example])
    assert result.values.tolist() == [pytest.approx(1 / 3)]
    assert [item["verdict"] for item in result.evidence[0]["items"]] == [
        "supported",
        "unsupported",
        "supported",
    ]


def test_the_threshold_decides_about_a_claim() -> None:
    example = Example("q", (CHUNK,), "Tea comes from China.")
    for threshold, value in ((0.5, 0.0), (0.7, 1.0)):
        score = claims(lambda premise, claim: (0.6, 0.0), threshold=threshold)
        result = score.score([example])
        assert result.values.tolist() == [value]
        verdict = result.evidence[0]["items"][0]["verdict"]
        assert verdict == ("supported" if value == 0.0 else "unsupported")


def test_a_claim_within_rounding_of_the_threshold_is_judged_by_itself() -> None:
    edge = {"near": 0.5 - 4e-6}

    class Rounding(FakeNli):
        def settle(self, pairs: Iterable[tuple[str, str]]) -> None:
            super().settle(pairs)
            if self.settled:
                edge["near"] = 0.5 + 4e-6

    score = Claims()
    score.nli = Rounding(lambda premise, claim: (edge["near"] if "green" in claim else 0.9, 0.0))
    result = score.score([Example("q", (CHUNK,), "Tea comes from China. Tea is green.")])
    assert score.nli.settled == [(CHUNK, "Tea is green.")]
    assert result.values.tolist() == [0.0]


def test_the_best_chunk_counts() -> None:
    score = claims(lambda premise, claim: (0.9 if premise == CHUNK else 0.1, 0.0))
    result = score.score([Example("q", ("Other.", CHUNK), "Tea comes from China.")])
    assert result.values.tolist() == [0.0]
    assert result.evidence[0]["items"][0]["chunk"] == 1


def test_a_list_item_is_asked_with_what_introduces_it() -> None:
    score = claims(lambda premise, claim: (0.9, 0.0))
    score.score([Example("q", (CHUNK,), "The colours of tea are:\n* Green\n* Black")])
    assert [claim for _, claim in score.nli.asked] == [
        "The colours of tea are: Green",
        "The colours of tea are: Black",
    ]


@pytest.mark.parametrize(
    "response", ["Sure!", "I am unable to answer this based on the given passages."]
)
def test_a_response_that_claims_nothing_is_undefined(response: str) -> None:
    result = claims(lambda premise, claim: (0.9, 0.0)).score([Example("q", (CHUNK,), response)])
    assert np.isnan(result.values[0])
    assert result.reasons == {0: "the response makes no claim"}


@pytest.mark.parametrize("threshold", [0.0, 1.0, -1, True, "high", float("nan")])
def test_the_threshold_must_be_a_share(threshold: object) -> None:
    with pytest.raises(InputError, match="threshold must"):
        Claims(threshold=threshold)
