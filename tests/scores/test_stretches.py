from __future__ import annotations

import itertools

import numpy as np
import pytest

from calibrail.data.example import Example
from calibrail.scores.stretches import NovelRun, NovelStretch, heaviest

CONTEXT = "The tower was built in 1853 of grey granite and measured thirty metres."


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
        .score([Example("q", (CONTEXT,), clause), Example("q", (CONTEXT,), scattered)])
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
        assert score.score([Example("q", (CONTEXT,), text)]).values[0] == value


def test_a_run_ends_where_three_words_in_a_row_are_copied() -> None:
    response = "It was built in 1853 by a man from far away."
    result = NovelRun().score([Example("q", (CONTEXT,), response)])
    # "was built in 1853" is copied; six words follow.
    assert result.values[0] == 6.0
    (item,) = result.evidence[0]["items"]
    assert item["text"] == "by a man from far away"
    assert response[item["start"] : item["end"]] == item["text"]


@pytest.mark.parametrize("score", [NovelStretch(), NovelRun()])
def test_an_answer_that_repeats_its_context_weighs_nothing(score: NovelRun) -> None:
    result = score.score([Example("q", (CONTEXT,), CONTEXT)])
    assert result.values[0] == 0.0
    assert result.evidence == ({"kind": "stretch", "items": []},)
