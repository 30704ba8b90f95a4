"""Does the token classifier's score say what the model marked, answer by answer and sentence?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from calibrail.data.example import Example
from calibrail.data.sentences import sentence_examples
from calibrail.errors import InputError
from calibrail.models.classifiers import TokenProbabilities, reading
from calibrail.scores import build, parse_spec
from calibrail.scores.entailment import TokenScore
from calibrail.testing import check_score
from tests.installed import need
from tests.tiny_models import make_token_classifier, make_token_matcher

need("transformers")

ANSWER = Example(
    "the city",
    ("the old bridge is closed.",),
    "the bridge is old. the museum is open. the bridge is closed.",
    id="a",
)


@pytest.fixture(scope="module")
def matcher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_token_matcher(tmp_path_factory.mktemp("models") / "matcher", max_length=500)


def test_the_worst_token_decides_or_their_mean(matcher: Path) -> None:
    highest = build(parse_spec(f"tokens:model={matcher}")).score([ANSWER])
    mean = build(parse_spec(f"tokens:model={matcher},aggregate=mean")).score([ANSWER])
    assert highest.values[0] > 0.95
    # Two words of 15 tokens, full stops counted.
    assert mean.values[0] == pytest.approx(2 / 15, abs=0.05)
    (entry,) = highest.evidence or ()
    assert [(item["text"], item["verdict"]) for item in entry["items"]] == [
        ("museum", "unsupported"),
        ("open", "unsupported"),
    ]
    assert all(item["probability"] > 0.95 for item in entry["items"])


def test_of_a_sentence_the_model_reads_what_came_before_and_judges_the_rest(matcher: Path) -> None:
    score = build(parse_spec(f"tokens:model={matcher}"))
    assert isinstance(score, TokenScore)
    sentences = sentence_examples(ANSWER)
    assert [item[3] for part in sentences for item in score.inputs(part)] == [
        ANSWER.response[:end] for end in (18, 38, 60)
    ]
    found = score.score(sentences)
    assert [value > 0.5 for value in found.values.tolist()] == [False, True, False]
    assert found.evidence is not None
    assert [item["text"] for item in found.evidence[1]["items"]] == ["museum", "open"]
    place = found.evidence[1]["items"][0]
    assert sentences[1].response[place["start"] : place["end"]] == "museum"


def test_white_space_and_what_came_before_count_nowhere(matcher: Path) -> None:
    score = build(parse_spec(f"tokens:model={matcher}"))
    assert isinstance(score, TokenScore)
    sentence = replace(ANSWER, before="It is. ", response="So so.")
    # A byte-level tokenizer lets a token begin with the space before it, and end a line by itself.
    places, values = ((0, 6), (6, 9), (9, 10), (10, 13)), (0.9, 0.2, 0.8, 0.3)

    class Model:
        reading = staticmethod(reading)

        def probabilities(self, items: object) -> list[TokenProbabilities]:
            return [TokenProbabilities(places, values)]

    score.classifier = Model()  # type: ignore[assignment]
    value, evidence = score.value(sentence)  # type: ignore[misc]
    assert value == 0.3
    assert evidence == {"kind": "spans", "items": []}


def test_it_keeps_the_rules(tmp_path: Path) -> None:
    folder = make_token_classifier(tmp_path / "modernbert")
    check_score(build(parse_spec(f"tokens:model={folder}")), polarity=False, huge=2_000)


def test_its_parameters_are_checked() -> None:
    with pytest.raises(InputError, match="aggregate must be one of max, mean; got 'min'"):
        build(parse_spec("tokens:aggregate=min"))
    # Nothing is loaded before it is needed.
    assert build(parse_spec("tokens")).params["model"].startswith("KRLabsOrg/")
