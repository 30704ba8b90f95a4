"""Is an answer as bad as its worst sentence, whatever comes after it?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibrail.data.example import Example
from calibrail.data.sentences import sentence_examples
from calibrail.engine.distributed import local_only_reason, serialise_score
from calibrail.errors import InputError
from calibrail.report.documents.guardrail import objections
from calibrail.scores import Scores, ScoreSpec, build, parse_spec
from calibrail.scores.base import DetectorFailure
from calibrail.scores.members import WorstSentence
from calibrail.scores.registry import spell
from calibrail.testing import check_score
from tests.answers import rows, write
from tests.command_line import calibrail

CONTEXT = ("The bridge was built in 1932. It spans the harbour.",)
ANSWER = Example(
    "When was it built?",
    CONTEXT,
    "The bridge was built in 1932. Quintessential zebras admired purple lanterns. It is so.",
    id="a",
)


def built(spec: str) -> WorstSentence:
    score = build(parse_spec(spec))
    assert isinstance(score, WorstSentence)
    return score


@pytest.mark.parametrize("detector", ["novelty", "rad", "rouge_l"])
def test_it_is_the_highest_score_of_the_sentences(detector: str) -> None:
    inner = build(parse_spec(detector))
    found = built(f"worst_sentence:detector={detector}").score([ANSWER, *_others()])
    for value, example in zip(found.values, [ANSWER, *_others()], strict=True):
        each = inner.score(sentence_examples(example)).values
        assert value == pytest.approx(np.nanmax(each), abs=inner.tolerance)
    (first, *_) = found.evidence or ()
    assert [item["text"] for item in first["items"]] == [
        ANSWER.response[item["start"] : item["end"]] for item in first["items"]
    ]
    assert max(item["value"] or 0.0 for item in first["items"]) == found.values[0]


def test_an_undefined_sentence_does_not_count_and_says_why() -> None:
    found = built("worst_sentence:detector=novelty").score(
        [ANSWER, replace(ANSWER, response="It is so. It is."), replace(ANSWER, response=" ")]
    )
    assert found.values[0] == 1.0
    assert found.evidence is not None
    assert found.evidence[0]["items"][2]["reason"] == "the response holds no content word"
    assert found.reasons == {
        1: "no sentence has a score: the response holds no content word",
        2: "the response is empty",
    }


def test_where_the_detector_failed_on_a_sentence_it_failed() -> None:
    score = built("worst_sentence:detector=novelty")
    inner = score.member

    class Failing:
        name, requires, tolerance = inner.name, inner.requires, 0.0

        def score(self, batch: Sequence[Example]) -> Scores:
            values = np.linspace(0.0, 1.0, len(batch))
            values[1] = np.nan
            return Scores(values, {1: DetectorFailure("no reply")})

    score.members = {"detector": Failing()}
    found = score.score([ANSWER])
    assert isinstance(found.reasons[0], DetectorFailure)


def test_evidence_of_a_sentence_lies_where_it_stands_in_the_answer() -> None:
    (entry,) = built("worst_sentence:detector=novelty").score([ANSWER]).evidence or ()
    words = entry["items"][1]["evidence"]["items"]
    assert [ANSWER.response[item["start"] : item["end"]] for item in words][:2] == [
        "Quintessential",
        "zebras",
    ]
    places = [ANSWER.response[slice(*place)] for place in objections(entry, len(ANSWER.response))]
    assert "zebras" in places
    assert "It is so." not in places
    assert "Quintessential zebras admired purple lanterns." in places


def test_a_sentence_is_its_own_worst() -> None:
    score = built("worst_sentence:detector=novelty")
    part = sentence_examples(ANSWER)
    found = score.score(part)
    assert found.values.tolist()[:2] == score.member.score(part).values.tolist()[:2]
    assert found.evidence is not None
    assert found.evidence[1]["items"][0]["start"] == 0


def test_what_the_data_says_of_its_sentences_goes_before() -> None:
    column = "column:column=s,higher=hallucinated"
    score = build(ScoreSpec("worst_sentence", {"detector": column}))
    assert score.columns == ("s",)  # type: ignore[attr-defined]
    cells = {"s": "[0.25, 0.75, null]"}
    assert score.score([replace(ANSWER, columns=cells)]).values.tolist() == [0.75]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"detector": "dgi"}, "detector cannot be dgi, which learns"),
        ({"detector": "worst_sentence:detector=rad"}, "cannot be worst_sentence itself"),
        ({"detector": 1}, 'detector must name a score, e.g. detector="rad"'),
        ({"detector": "displacement_consistency"}, "it compares consecutive sentences"),
        ({"detector": "nonsense"}, "unknown score 'nonsense'"),
        ({}, "detector"),
    ],
)
def test_what_cannot_score_sentences_is_refused(params: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(ScoreSpec("worst_sentence", params))


def test_parameters_of_its_detector_are_its_own() -> None:
    score = built('worst_sentence:detector="rad:weighting=question"')
    assert score.requires == ("question", "contexts", "response")
    again = build(parse_spec(spell(score)))
    assert again.params == score.params == {"detector": 'rad:weighting="question"'}
    assert again.fingerprint() == score.fingerprint()
    assert score.tolerance == score.member.tolerance > 0.0
    assert local_only_reason(score) is None
    assert serialise_score(score).opened().params == score.params


@pytest.mark.parametrize("detector", ["novelty", "rad", "novel_stretch"])
def test_it_keeps_the_rules(detector: str) -> None:
    check_score(built(f"worst_sentence:detector={detector}"), huge=20_000)


def test_from_labelled_answers_to_a_decision(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", rows(60))
    spec, run = "worst_sentence:detector=novelty", tmp_path / "run"
    done = calibrail("calibrate", data, "--score", spec, "--alpha", 0.2, "-o", run)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "guardrail.json"
    assert calibrail("export", run, "-o", path).returncode == 0
    done = calibrail("check", path, data, "--evidence", "-o", tmp_path / "d.jsonl")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "d.jsonl").open()]
    for line in lines:
        values = [item["value"] for item in line["evidence"]["items"] if item["value"] is not None]
        assert line["score"] == max(values)


def _others() -> list[Example]:
    texts = ["It spans the harbour.", "It was built of steel. The harbour is wide and old."]
    return [replace(ANSWER, response=text, id=text) for text in texts]
