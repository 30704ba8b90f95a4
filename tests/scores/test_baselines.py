from __future__ import annotations

import itertools

import numpy as np
import pytest

from calibrail.data.example import Example
from calibrail.scores import build, lexical, parse_spec
from calibrail.scores.lexical import NovelRun, NovelStretch, heaviest

CONTEXT = "The Nile is 6,650 km long and flows through Khartoum."


def value(name: str, response: str, context: str = CONTEXT, question: str = "") -> float:
    example = Example(question, (context,), response)
    return float(build(parse_spec(name)).score([example]).values[0])


def reason(name: str, example: Example) -> str:
    result = build(parse_spec(name)).score([example])
    assert np.isnan(result.values[0])
    return result.reasons[0]


@pytest.mark.parametrize(
    ("name", "response", "expected"),
    [
        ("length", "Cairo", 5.0),
        ("novel_count", "The Nile flows through old Cairo.", 2.0),
        ("novelty", "The Nile flows through old Cairo.", 0.5),
        # the + nile + is + long out of five words
        ("rouge_l", "The Nile is very long", 1 - 4 / 5),
        ("rouge_l", "The Nile is 6,650 km long", 0.0),
        ("numbers", "It is 6650 km long, not 7000.", 0.5),
        ("entities", "It passes Khartoum and Cairo.", 0.5),
    ],
)
def test_values_by_hand(name: str, response: str, expected: float) -> None:
    assert value(name, response) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "response"),
    [
        ("novel_count", "Cairo"),
        ("novelty", "Cairo"),
        ("numbers", "In 1999"),
        ("entities", "in Cairo"),
    ],
)
def test_the_question_supports_too(name: str, response: str) -> None:
    assert value(name, response) > 0
    assert value(name, response, question="Was Cairo there in 1999?") == 0


def test_why_there_is_no_value() -> None:
    good = Example("", (CONTEXT,), "?!")
    assert reason("novelty", good) == "the response holds no content word"
    assert reason("rouge_l", good) == "the response holds no word"
    assert reason("numbers", good) == "the response holds no number"
    assert reason("entities", good) == "the response holds no capitalised name"
    assert reason("length", Example("", (CONTEXT,), "")) == "the response is empty"
    assert reason("novelty", Example("", (), "Nile")) == "there is no context"


def test_the_evidence_names_what_no_source_holds() -> None:
    example = Example(
        "How tall is Mount Ard?",
        ("Mount Ard is 1,200 metres high.",),
        "Mount Ard, near Belm, is 1,300 metres high and measured 1200 m before.",
    )
    for spec, texts in (
        ("numbers", ["1,300"]),
        ("entities", ["Belm"]),
        ("novel_count", ["near", "Belm", "1,300", "measured", "1200"]),
    ):
        (evidence,) = build(parse_spec(spec)).score([example]).evidence
        found = [item["text"] for item in evidence["items"]]
        assert set(texts) <= set(found) if spec == "novel_count" else found == texts
        for item in evidence["items"]:
            assert example.response[item["start"] : item["end"]] == item["text"]


TOWER = "The tower was built in 1853 of grey granite and measured thirty metres."


def test_the_heaviest_run_is_the_best_of_all() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        weights = rng.choice([1.0, -0.5, -1.0], size=12)
        best, first, last = heaviest(weights)
        sums = [weights[i:j].sum() for i, j in itertools.combinations(range(13), 2)]
        assert best == max(0.0, *sums)
        assert weights[first:last].sum() == best


def test_an_invented_clause_weighs_more_than_scattered_words() -> None:
    clause = "The tower was built in 1853, financed by wealthy merchants overseas."
    scattered = "Wealthy builders made the tower in 1853 of grey granite for merchants."
    values = (
        NovelStretch()
        .score([Example("q", (TOWER,), clause), Example("q", (TOWER,), scattered)])
        .values
    )
    assert values[0] == 4.0
    assert values[1] < values[0]


def test_another_form_of_a_word_is_known_and_words_about_the_sources_do_not_count() -> None:
    score = NovelStretch()
    for text, value in (
        ("Measurements.", 0.0),
        ("Based on the provided passages.", 0.0),
        ("Lighthouse keepers.", 2.0),
    ):
        assert score.score([Example("q", (TOWER,), text)]).values[0] == value


def test_a_run_ends_where_three_words_in_a_row_are_copied() -> None:
    response = "It was built in 1853 by a man from far away."
    result = NovelRun().score([Example("q", (TOWER,), response)])
    # "was built in 1853" is copied; six words follow.
    assert result.values[0] == 6.0
    (item,) = result.evidence[0]["items"]
    assert item["text"] == "by a man from far away"
    assert response[item["start"] : item["end"]] == item["text"]


@pytest.mark.parametrize("score", [NovelStretch(), NovelRun()])
def test_an_answer_that_repeats_its_context_weighs_nothing(score: NovelRun) -> None:
    result = score.score([Example("q", (TOWER,), TOWER)])
    assert result.values[0] == 0.0
    assert result.evidence == ({"kind": "stretch", "items": []},)


def test_rouge_compares_no_more_words_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexical.words, "MOST_PAIRS", 12)
    assert value("rouge_l", "a b c", "a b c d") == 0.0
    assert reason("rouge_l", Example("", ("a b", "c d e"), "a b c")) == lexical.TOO_MANY_WORDS
