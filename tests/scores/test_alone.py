"""Is what one answer scores alone the same whatever others are scored, and is theirs left?"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from calibrail import Example
from calibrail.data.sentences import sentence_examples
from calibrail.scores import build, parse_spec
from calibrail.scores.base import Scores, background_of, scored_alone
from tests.chat_server import ChatServer, verdicts

ANSWERS = [
    Example(
        f"What lies on river {row}?",
        (f"City {row} lies on river {row}.", "It has " + "very " * row + "old bridges."),
        f"River {row} flows past city {row % 3}.",
    )
    for row in range(12)
]


def test_what_others_made_known_is_kept_and_not_taken_up() -> None:
    score: Any = build(parse_spec("rad"))
    score.forget()
    fresh = []
    for answer in ANSWERS:
        score.forget()
        fresh.append(scored_alone(score, answer).values[0])
    score.forget()
    batch = score.score(ANSWERS).values
    assert batch.tolist() != fresh
    np.testing.assert_allclose(batch, fresh, atol=score.tolerance, rtol=0.0)
    assert [scored_alone(score, answer).values[0] for answer in reversed(ANSWERS)] == fresh[::-1]
    known = score.encoder.n_embedded
    np.testing.assert_array_equal(score.score(ANSWERS).values, batch)
    # What ran together alone does not run again, nor does it for an answer to the same contexts.
    assert [scored_alone(score, answer).values[0] for answer in ANSWERS] == fresh
    assert score.encoder.n_embedded == known
    other = replace(ANSWERS[0], response="It has bridges.")
    assert scored_alone(score, other).values[0] != fresh[0]
    assert score.encoder.n_embedded == known + 1


@pytest.mark.parametrize(
    "name", ["rad:level=sentence", "rad:weighting=question", "sgi", "local_sgi", "worst_sentence:"]
)
def test_the_sentences_of_an_answer_share_what_is_no_part_of_them(name: str) -> None:
    if name.endswith(":"):
        name += "detector=rad"
    score: Any = build(parse_spec(name))
    encoder = getattr(score, "member", score).encoder
    encoder.forget()
    answer = replace(ANSWERS[0], response="Rain fell in May. The bridges of city 0 are older yet.")
    parts = sentence_examples(answer)
    assert background_of(score, answer) == background_of(score, parts[1]) != ()
    n_texts = len(set(score.demands(parts)[0].parts[0]))
    known = encoder.n_embedded
    first = [scored_alone(score, part).values[0] for part in parts]
    assert encoder.n_embedded == known + n_texts
    encoder.forget()
    assert [scored_alone(score, part).values[0] for part in reversed(parts)] == first[::-1]
    assert encoder.n_embedded == known + 2 * n_texts
    if "detector" in name:
        assert scored_alone(score, answer).values[0] == max(first)
        assert encoder.n_embedded == known + 2 * n_texts


def test_what_has_no_value_asks_for_nothing() -> None:
    for name in ("sgi", "rad", "worst_sentence:detector=rad"):
        score: Any = build(parse_spec(name))
        encoder = getattr(score, "member", score).encoder
        known = encoder.n_embedded
        asked = Example("", ("A context that nobody reads.",), "")
        assert np.isnan(scored_alone(score, asked).values[0])
        assert (background_of(score, asked), encoder.n_embedded) == ((), known)


def test_an_endpoint_is_asked_for_contexts_once() -> None:
    with ChatServer() as server:
        address = f'model="openai:m@{server.url}"'
        score: Any = build(parse_spec(f"rad:{address}"))
        parts = [replace(ANSWERS[0], response=f"Sentence {row}.") for row in range(4)]
        values = [scored_alone(score, part).values[0] for part in parts]
        # The two contexts in one call, and each sentence in one.
        assert [len(asked.body["input"]) for asked in server.seen] == [2, 1, 1, 1, 1]
        assert [scored_alone(score, part).values[0] for part in parts] == values
        assert len(server.seen) == 5


def test_threads_that_score_alone_take_nothing_from_each_other() -> None:
    score: Any = build(parse_spec("rad"))
    fresh = [scored_alone(score, answer).values[0] for answer in ANSWERS]
    with ThreadPoolExecutor(8) as pool:
        together = pool.submit(score.score, ANSWERS)
        found = list(pool.map(partial(scored_alone, score), ANSWERS * 4))
        np.testing.assert_allclose(together.result().values, fresh, atol=score.tolerance)
    assert [item.values[0] for item in found] == fresh * 4


@pytest.mark.usefixtures("fresh_models")
def test_no_endpoint_is_asked_twice() -> None:
    with ChatServer(verdicts(lambda text: 0.9 if "city 0" in text else 0.2)) as server:
        specification = f'judge:model="m",base_url="{server.url}",mode=verdict'
        score: Any = build(parse_spec(specification))
        asked = score.score(ANSWERS).values
        assert set(asked) == {0.0, 1.0}
        n = len(server.seen)
        alone = [scored_alone(score, answer).values[0] for answer in ANSWERS]
        np.testing.assert_array_equal(alone, asked)
        # Nor was any reply looked up: it was still held.
        assert (len(server.seen), score.llm.usage.n_cached) == (n, 0)


class Keeps:
    """Keeps, by itself, what the first call made of a text: it may be another batch's."""

    name, params, requires, tolerance = "keeps", {}, ("response",), 1e-6

    def __init__(self) -> None:
        self.kept: dict[str, float] = {}

    def fingerprint(self) -> dict[str, Any]:
        return {}

    def forget(self) -> None:
        self.kept.clear()

    def score(self, examples: Sequence[Example]) -> Scores:
        value = float(len(examples))
        return Scores(np.array([self.kept.setdefault(each.response, value) for each in examples]))


class Asks(Keeps):
    """Has a model that does so."""

    def __init__(self) -> None:
        super().__init__()
        self.models = (Keeps(),)

    def score(self, examples: Sequence[Example]) -> Scores:
        return self.models[0].score(examples)

    def forget(self) -> None:
        raise AssertionError


@pytest.mark.parametrize("kind", [Keeps, Asks])
def test_what_a_score_of_ones_own_keeps_is_forgotten(kind: type[Keeps]) -> None:
    score = kind()
    assert score.score(ANSWERS).values[0] == len(ANSWERS)
    assert scored_alone(score, ANSWERS[0]).values[0] == 1.0
