from __future__ import annotations

import numpy as np
import pytest

from calibrail.data.example import Example
from calibrail.errors import ModelError
from calibrail.scores import build, parse_spec
from calibrail.scores.entailment import Entailing, Nli, Sec, SelfCheck
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


def test_what_is_asked_is_announced() -> None:
    for score in (with_nli(Nli()), with_nli(Sec())):
        (demand,) = score.demands([example(), example(response=" ")])
        assert demand.model is score.nli
        assert set(demand.parts[0]) == set(score.inputs(example()))


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
