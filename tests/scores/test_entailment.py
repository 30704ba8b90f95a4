from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from calibrail.data.example import Example
from calibrail.data.sentences import MOST_CHARACTERS
from calibrail.errors import ModelError
from calibrail.scores import build, parse_spec
from calibrail.scores.base import MOST_PIECES, TOO_LONG
from calibrail.scores.entailment import Claims, Entailing, Nli, Sec, SelfCheck
from tests.scores.fakes import FakeNli

CHUNKS = ("The tower is old. It was built in 1853.", " ", "Bread needs an oven.")
RESPONSE = "It was built in 1853. It is red."

#: P(entailment), P(contradiction) by premise and hypothesis.
SAID = {
    (CHUNKS[0], "It was built in 1853."): (0.9, 0.05),
    (CHUNKS[2], "It was built in 1853."): (0.2, 0.1),
    (CHUNKS[0], "It is red."): (0.1, 0.7),
    (CHUNKS[2], "It is red."): (0.3, 0.2),
    (f"{CHUNKS[0]}\n{CHUNKS[2]}", RESPONSE): (0.25, 0.6),
}


def with_nli(score: Entailing, says: object = None) -> Entailing:
    score.nli = FakeNli(says or (lambda premise, hypothesis: SAID[premise, hypothesis]))
    return score


def example(**changes: object) -> Example:
    return Example(**{"question": "When?", "contexts": CHUNKS, "response": RESPONSE, **changes})


def test_sec_is_decided_by_the_least_supported_sentence() -> None:
    result = with_nli(Sec()).score([example()])
    assert result.values.tolist() == [pytest.approx(1 - 0.3)]


def test_sec_shows_each_sentence_with_the_chunk_that_speaks_for_or_against_it() -> None:
    (evidence,) = with_nli(Sec()).score([example()]).evidence
    first, second = evidence["items"]
    assert evidence["kind"] == "sentences"
    assert (first["verdict"], first["chunk"], first["quote"]) == (
        "supported",
        0,
        "It was built in 1853.",
    )
    # Chunk 2 supports more, but not enough; chunk 0 contradicts.
    assert (second["verdict"], second["chunk"]) == ("contradicted", 0)
    assert (second["support"], second["contradiction"]) == (0.3, 0.7)
    assert RESPONSE[second["start"] : second["end"]] == second["text"] == "It is red."


def test_nli_reads_the_whole_response_against_all_chunks() -> None:
    result = with_nli(Nli()).score([example()])
    assert result.values.tolist() == [0.75]
    (item,) = result.evidence[0]["items"]
    assert (item["verdict"], item["chunk"], item["quote"]) == (
        "contradicted",
        0,
        "It was built in 1853.",
    )


def test_selfcheck_averages_contradiction_over_sentences_and_samples() -> None:
    table = {
        ("yes", "Ada reads."): 0.1,
        ("no", "Ada reads."): 0.5,
        ("yes", "Bob sings."): 0.3,
        ("no", "Bob sings."): 0.9,
    }
    score = with_nli(SelfCheck(), lambda premise, hypothesis: (0.0, table[premise, hypothesis]))
    result = score.score([example(response="Ada reads. Bob sings.", samples=("yes", "", "no"))])
    assert result.values.tolist() == [pytest.approx(0.45)]
    items = result.evidence[0]["items"]
    assert [item["contradicted_by"] for item in items] == [1, 1]


def test_selfcheck_needs_a_model_that_knows_contradiction() -> None:
    score = with_nli(SelfCheck(), lambda premise, hypothesis: (0.4, None))
    with pytest.raises(ModelError, match="needs a model with three classes"):
        score.score([example(samples=("yes",))])


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("sec", {"response": ""}, "the response is empty"),
        ("sec", {"contexts": ("", " ")}, "there is no context"),
        ("sec", {"response": "?!"}, "the response holds no sentence"),
        ("nli", {"contexts": ()}, "there is no context"),
        ("selfcheck", {}, "there are no further answers sampled to compare with (samples)"),
        ("selfcheck", {"samples": ("a",), "response": "..."}, "the response holds no sentence"),
    ],
)
def test_what_leaves_them_undefined(name: str, changes: dict, reason: str) -> None:
    score = with_nli(build(parse_spec(name)), lambda premise, hypothesis: (0.5, 0.5))
    result = score.score([example(**changes)])
    assert np.isnan(result.values[0])
    assert result.reasons == {0: reason}
    assert result.evidence == ({},)


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


@pytest.mark.parametrize("score", [Sec, SelfCheck, Claims])
def test_an_answer_of_too_many_pieces_is_undefined_and_nothing_is_asked(
    score: type[Entailing],
) -> None:
    model = with_nli(score(), lambda premise, hypothesis: (0.9, 0.05))
    samples = ("It rained.",)
    most = "It rained.\n" * MOST_PIECES
    fine, many, long = (
        example(response=text, samples=samples)
        for text in (most, most + "It rained.", "It rained " * (MOST_CHARACTERS // 10) + ".")
    )
    result = model.score([many, fine, long])
    assert result.reasons == {0: TOO_LONG, 2: TOO_LONG}
    assert {hypothesis for _, hypothesis in model.nli.asked} == {"It rained."}
    # It enters what a guardrail pins.
    assert "pieces" in model.fingerprint() and "pieces" not in with_nli(Nli()).fingerprint()
