from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from calibrail.data import Example
from calibrail.engine import score_examples
from calibrail.models.loading import LocalModel
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

    def __init__(self, name: str, *models: Model | Opened, later: int = 0) -> None:
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


class Opened(LocalModel):
    """A model whose opening and passes take a time of their own, on a clock of the test's."""

    def __init__(self, now: list[float], opening: float, each: float) -> None:
        super().__init__("none")
        self.now, self.opens_in, self.each, self.is_open = now, opening, each, False

    def prepare(self, texts: Iterable[str]) -> None:
        if not self.is_open:
            with self.opening():
                self.now[0] += self.opens_in
                # What is opened in order to be exported is a part of it.
                with self.opening():
                    self.now[0] += self.opens_in
            self.is_open = True
        self.n_passes += 1
        self.now[0] += self.each

    def forget(self) -> None: ...


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("demanding", [True, False])
def test_opening_a_model_is_no_part_of_what_answers_take(
    monkeypatch: pytest.MonkeyPatch, turned: bool, demanding: bool
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    slow, quick = Opened(now, 8.0, 2.0), Opened(now, 0.25, 0.5)
    scores = [Asking("slow", slow), Asking("quick", quick), Asking("both", slow, quick)]
    if not demanding:
        # Opened by the score itself, not by what is announced.
        for score in scores:
            monkeypatch.setattr(score, "demands", lambda examples: ())
            score.later = 1
        scores.pop()
    examples = [Example("q", ("c",), f"answer {index}") for index in range(4)]
    table = score_examples(examples, scores[::-1] if turned else scores, block=2)
    costs = {cost.score: cost for cost in table.costs}
    assert (costs["slow"].seconds, costs["slow"].seconds_opening) == (4.0, 16.0)
    assert (costs["quick"].seconds, costs["quick"].seconds_opening) == (1.0, 0.5)
    assert costs["slow"].seconds_per_1000 == 1000.0
    if demanding:
        assert (costs["both"].seconds, costs["both"].seconds_opening) == (5.0, 16.5)
    # Open models stay open.
    (again,) = score_examples(examples, scores[:1], block=2).costs
    assert (again.seconds, again.seconds_opening) == (4.0, 0.0)
    added = costs["slow"] + again
    assert (added.n, added.seconds, added.seconds_opening) == (8, 8.0, 16.0)
    assert added.to_dict()["seconds_opening"] == 16.0
