"""Is what one answer scores alone the same whatever others are scored, and is theirs left?"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

from calibrail import Example
from calibrail.scores import build, parse_spec
from calibrail.scores.alone import scored_alone
from calibrail.scores.base import Scores
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
        fresh.append(score.score([answer]).values[0])
    score.forget()
    batch = score.score(ANSWERS).values
    assert batch.tolist() != fresh
    assert [scored_alone(score, answer).values[0] for answer in ANSWERS] == fresh
    known = score.encoder.n_embedded
    np.testing.assert_array_equal(score.score(ANSWERS).values, batch)
    assert score.encoder.n_embedded == known


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
