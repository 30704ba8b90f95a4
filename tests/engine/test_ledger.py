from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from calibrail.data import Example
from calibrail.engine import score_examples
from calibrail.engine.ledger import Ledger
from calibrail.scores.base import Demand, Scores


class Model:
    def __init__(self) -> None:
        self.n_passes = 0
        self.known: set[str] = set()
        self.forgotten = 0

    def prepare(self, texts: Iterable[str]) -> None:
        if fresh := set(texts) - self.known:
            self.n_passes += 1
            self.known |= fresh

    def forget(self) -> None:
        self.forgotten += 1


class Asking:
    requires = ("response",)
    tolerance = 0.0

    def __init__(self, name: str, *models: Model, later: int = 0) -> None:
        self.name, self.models, self.later = name, models, later
        self.params: dict[str, str] = {}

    def fingerprint(self) -> dict[str, str]:
        return {}

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        texts = tuple(example.response for example in examples)
        return tuple(Demand(model, (texts,)) for model in self.models)

    def score(self, examples: Sequence[Example]) -> Scores:
        for number in range(self.later):
            self.models[0].prepare([f"{examples[0].response} again {number}"])
        return Scores(np.zeros(len(examples)))


def test_scores_that_share_a_model_share_its_passes_and_say_so() -> None:
    shared, own = Model(), Model()
    scores = [Asking("a", shared), Asking("b", shared, own, later=2), Asking("c")]
    examples = [Example("q", ("c",), f"answer {index}") for index in range(6)]
    table = score_examples(examples, scores, block=3)
    first, second, third = table.costs
    # Two blocks: one pass of each model a block, and two that b asks for later in each.
    assert (first.forward_passes, first.shared_with) == (2, ("b",))
    assert (second.forward_passes, second.shared_with) == (2 + 2 + 4, ("a",))
    assert (third.forward_passes, third.shared_with) == (0, ())
    assert [cost.n for cost in table.costs] == [6, 6, 6]
    assert first.seconds_per_1000 == 1000 * first.seconds / 6
    assert first.to_dict()["score"] == "a"


def test_what_an_earlier_run_left_behind_is_forgotten_once() -> None:
    model = Model()
    score_examples(
        [Example("q", ("c",), "x")] * 5, [Asking("a", model), Asking("b", model)], block=2
    )
    assert model.forgotten == 1


def test_a_cost_without_examples_has_no_rate() -> None:
    (cost,) = score_examples([], [Asking("a", Model())]).costs
    assert cost.seconds_per_1000 is None


def test_how_far_a_block_is_goes_by_what_models_took_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr("calibrail.engine.ledger.time.perf_counter", lambda: now[0])
    quick, slow = Model(), Model()
    ledger = Ledger(["a"], [Asking("a", quick, slow)])
    assert ledger.weights([quick, slow]) == [0.5, 0.5]
    for model, seconds in ((quick, 1.0), (slow, 9.0)):
        with ledger.preparing(model):
            now[0] += seconds
    assert ledger.weights([slow, quick]) == [0.9, 0.1]
