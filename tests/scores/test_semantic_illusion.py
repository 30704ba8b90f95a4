from __future__ import annotations

import numpy as np
import pytest

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.base import MOST_READ, TOO_LONG_TO_READ, Scores
from calibrail.scores.grounding import Crg, CrossEncoder, Tfg, best_weights
from tests.scores.fakes import FakeEncoder, FakeRanker, plane, with_encoder

WORDS = {
    "r": [plane(0), plane(60), plane(80), plane(180)],
    "c1": [plane(5)],
    "c2": [plane(-10), plane(-20)],
    "none": [],
}
ENCODER = FakeEncoder(words=WORDS)


def tfg(contexts: tuple[str, ...], gamma: float = 0.3) -> float:
    score = with_encoder(Tfg(gamma=gamma), ENCODER)
    return float(score.score([Example("", contexts, "r")]).values[0])


def test_words_without_a_match_above_gamma_count() -> None:
    # Best cosines with c1: cos 5, cos 55 = 0.57, cos 75 = 0.26, cos 175 < 0.
    assert tfg(("c1",)) == 0.5
    assert tfg(("c1",), gamma=0.6) == 0.75
    assert tfg(("c1",), gamma=0.2) == 0.25


@pytest.mark.parametrize("text", ["\u8fd9\u662f\u3002", "e.g. ", "< ", "| a |"])
def test_an_answer_too_long_to_be_read_to_its_end_is_undefined_and_not_read(text: str) -> None:
    fine, longest = "r", (text * MOST_READ)[:MOST_READ]
    encoder = FakeEncoder(words={**WORDS, longest: [plane(0)]})
    score = with_encoder(Tfg(), encoder)
    long = [longest + "x", text * 50_000, text * 500_000]
    result = score.score([Example("", ("c1",), answer) for answer in (fine, longest, *long)])
    assert result.reasons == dict.fromkeys((2, 3, 4), TOO_LONG_TO_READ)
    # It enters what a guardrail pins.
    assert score.cut() == {"most_read": MOST_READ}


def test_what_has_no_content_word_is_undefined() -> None:
    encoder = FakeEncoder(words={**WORDS, "the": []})
    result = with_encoder(Tfg(), encoder).score(
        [Example("", ("c1",), "the"), Example("", ("none",), "r"), Example("", ("c1",), "r")]
    )
    assert result.reasons == {
        0: "the response holds no content word",
        1: "the contexts hold no content word",
    }
    assert result.values[2] == 0.5


@pytest.mark.parametrize("gamma", [1.0, -1.0, float("nan"), "high", True])
def test_gamma_outside_its_domain_is_refused(gamma: object) -> None:
    with pytest.raises(InputError, match=r"gamma must lie in \(-1, 1\)"):
        Tfg(gamma=gamma)


def test_the_most_relevant_chunk_counts_with_its_raw_logit() -> None:
    score = CrossEncoder()
    asked = []

    def logit(query: str, document: str) -> float:
        asked.append((query, document))
        return {"near": 17.5, "far": -3.0}[document]

    score.reranker = FakeRanker(logit)
    result = score.score(
        [Example("q", ("far", "", "near"), "yes"), Example("q", ("far",), "yes"), Example()]
    )
    assert result.values[:2].tolist() == [-17.5, 3.0]
    assert np.isnan(result.values[2])
    assert result.reasons == {2: "the response is empty"}
    # The response is what is looked for.
    assert set(asked) == {("yes", "near"), ("yes", "far")}
    assert [(item["chunk"], item["relevance"]) for item in result.evidence[0]["items"]] == [
        (0, -3.0),
        (2, 17.5),
    ]


class Column:
    tolerance = 0.0
    requires = ("response",)

    def __init__(self, name: str) -> None:
        self.name = name

    def score(self, examples: list[Example]) -> Scores:
        values = np.array([example.columns[self.name] for example in examples], dtype=np.float64)
        reasons = {int(i): "nothing there" for i in np.flatnonzero(np.isnan(values))}
        return Scores(values, reasons)


def crg(**params: object) -> Crg:
    score = Crg(**params)
    score.members = {name: Column(name) for name in ("rad", "sec", "tfg")}
    return score


def answer(rad: float, sec: float, tfg: float, label: int | None = None) -> Example:
    return Example("q", ("c",), "x", label=label, columns={"rad": rad, "sec": sec, "tfg": tfg})


def test_weights_may_be_given() -> None:
    result = crg(weights="2,1,1").score([answer(0.4, 0.8, 0.0)])
    assert result.values[0] == pytest.approx(0.4)
    assert [item["weight"] for item in result.evidence[0]["items"]] == [0.5, 0.25, 0.25]


def test_a_member_without_weight_may_be_undefined() -> None:
    gone = answer(0.4, float("nan"), 0.8)
    assert crg(weights="1,0,1").score([gone]).values[0] == pytest.approx(0.6)
    assert crg().score([gone]).reasons == {0: "sec: nothing there"}


def test_weights_are_learnt_by_auroc_and_a_reversed_score_gets_none() -> None:
    rng = np.random.default_rng(0)
    labels = (np.arange(200) % 2).astype(np.int8)
    table = np.stack(
        [rng.normal(size=200), rng.normal(3.0 * labels), rng.normal(-3.0 * labels)], axis=1
    )
    weights = best_weights(table, labels)
    assert weights.sum() == pytest.approx(1.0)
    assert weights[1] > 0.7
    assert weights[2] == 0.0


def test_where_all_weights_do_as_well_they_stay_equal() -> None:
    labels = (np.arange(20) % 2).astype(np.int8)
    table = np.repeat(labels[:, None].astype(np.float64), 3, axis=1)
    assert np.abs(best_weights(table, labels) - 1 / 3).max() < 0.05


@pytest.mark.parametrize("weights", ["1,2", "a,b,c", "-1,1,1", "0,0,0", "nan,1,1", 5])
def test_bad_weights_are_refused(weights: object) -> None:
    with pytest.raises(InputError, match="weights must be"):
        Crg(weights=weights)
