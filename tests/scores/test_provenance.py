from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.grounding import Provenance, select
from tests.scores.fakes import FakeEncoder, FakeNli, FakeRanker, plane

CHUNKS = ("alpha", "beta", " ", "gamma", "delta")
LOGITS = {"alpha": 1.0, "beta": 3.0, "gamma": 2.5, "delta": -4.0}
FACTUAL = {"alpha": 0.3, "beta": 0.2, "gamma": 0.7, "delta": 0.99}
EXAMPLE = Example("Who?", CHUNKS, "Ada")


def provenance(**params: object) -> Provenance:
    score = Provenance(**params)
    score.nli = FakeNli(lambda premise, claim: (FACTUAL[premise], None))
    score.ranker = FakeRanker(lambda query, document: LOGITS[document])
    return score


def test_top_p_keeps_the_fewest_chunks_whose_mass_reaches_it() -> None:
    shares = softmax(np.array([1.0, 3.0, 2.5, -4.0]))
    assert select(shares, "top_p", 0.6, 5)[0] == [1, 2] if shares[1] < 0.6 else [1]
    assert select(shares, "top_p", 0.9, 5)[0] == [1, 2]
    assert select(shares, "top_p", 1.0, 5)[0] == [0, 1, 2, 3]


def test_top_k_keeps_so_many_in_their_original_order() -> None:
    chosen, weights = select(np.array([0.2, 0.1, 0.4, 0.3]), "top_k", 0.9, 3)
    assert chosen == [0, 2, 3]
    assert weights.tolist() == pytest.approx([0.2 / 0.9, 0.4 / 0.9, 0.3 / 0.9])


@pytest.mark.parametrize(
    ("aggregation", "factuality"),
    [
        ("max", 0.7),
        ("min", 0.2),
        ("weighted", (0.2 * np.exp(3.0) + 0.7 * np.exp(2.5)) / (np.exp(3.0) + np.exp(2.5))),
    ],
)
def test_factuality_is_aggregated_over_the_sources_kept(
    aggregation: str, factuality: float
) -> None:
    result = provenance(aggregation=aggregation).score([EXAMPLE])
    assert result.values.tolist() == [pytest.approx(1.0 - factuality)]


def test_the_claim_holds_question_and_answer() -> None:
    score = provenance()
    score.score([EXAMPLE])
    assert score.nli.asked == [
        ("beta", "The answer to question Who? is Ada."),
        ("gamma", "The answer to question Who? is Ada."),
    ]


def test_the_evidence_names_the_sources_in_their_original_order() -> None:
    (evidence,) = provenance().score([EXAMPLE]).evidence
    assert evidence["kind"] == "sources"
    assert [(item["chunk"], item["quote"]) for item in evidence["items"]] == [
        (1, "beta"),
        (3, "gamma"),
    ]
    assert [item["factuality"] for item in evidence["items"]] == [0.2, 0.7]
    assert sum(item["weight"] for item in evidence["items"]) == pytest.approx(1.0)


@pytest.mark.parametrize("relevance", ["dot", "cosine"])
def test_relevance_may_come_from_embeddings(
    relevance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Vectors(FakeEncoder):
        model, revision = "fake", None

        def sentences(self, texts: list[str], *, normal: bool = True) -> np.ndarray:
            rows = np.array([self._sentences[text] for text in texts])
            return rows / np.linalg.norm(rows, axis=1, keepdims=True) if normal else rows

    monkeypatch.setattr("calibrail.scores.grounding.Encoder", Vectors)
    score = provenance(relevance=relevance, selection="top_k", top_k=1)
    near, far = plane(10), tuple(5.0 * part for part in plane(60))
    score.ranker = Vectors(
        {"Who?": plane(0), "alpha": near, "beta": far, "gamma": plane(90), "delta": plane(120)}
    )
    (evidence,) = score.score([EXAMPLE]).evidence
    # The longer vector wins by its length where only products count.
    assert [item["quote"] for item in evidence["items"]] == [
        "beta" if relevance == "dot" else "alpha"
    ]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"question": ""}, "the question is empty"),
        ({"contexts": (" ",)}, "there is no context"),
        ({"response": ""}, "the response is empty"),
    ],
)
def test_what_leaves_it_undefined(changes: dict, reason: str) -> None:
    fields = {"question": "Who?", "contexts": CHUNKS, "response": "Ada", **changes}
    result = provenance().score([Example(**fields)])
    assert result.reasons == {0: reason}


@pytest.mark.parametrize(
    "params",
    [
        {"selection": "best"},
        {"aggregation": "median"},
        {"relevance": "bm25"},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"top_k": 0},
        {"top_k": 2.0},
    ],
)
def test_parameters_out_of_range_are_refused(params: dict) -> None:
    with pytest.raises(InputError, match=next(iter(params))):
        Provenance(**params)


@pytest.mark.parametrize(
    ("logits", "params", "settled"),
    [
        ([1.0, 3.0, 2.5, -4.0], {}, False),
        ([1.0, 1.0 + 1e-5, 0.0, 0.0], {"selection": "top_k", "top_k": 1}, True),
        ([1.0, 2.0, 0.0, 0.0], {"selection": "top_k", "top_k": 1}, False),
        ([np.log(9.0), 0.0, -99.0, -99.0], {"top_p": 0.9}, True),
    ],
)
def test_relevance_at_the_edge_is_computed_chunk_by_chunk(
    logits: list[float], params: dict, settled: bool
) -> None:
    score = provenance(**params)
    table = dict(zip(("alpha", "beta", "gamma", "delta"), logits, strict=True))
    score.ranker = FakeRanker(lambda query, document: table[document])
    score.score([EXAMPLE])
    asked = getattr(score.ranker, "settled", [])
    assert asked == ([("Who?", chunk) for chunk in CHUNKS if chunk.strip()] if settled else [])
