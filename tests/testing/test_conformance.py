"""Each rule of the suite, shown by a score that breaks it and no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

from calibrail.data import Example
from calibrail.errors import InputError
from calibrail.scores import Scores
from calibrail.testing import ConformanceError, check_score


class Good:
    """Share of the response's words that the contexts lack."""

    name = "good"
    requires: tuple[str, ...] = ("contexts", "response")
    tolerance = 0.0
    params: Mapping[str, Any]

    def __init__(self, *, weight: float = 1.0) -> None:
        self.params = {"weight": weight}

    def fingerprint(self) -> Mapping[str, Any]:
        return {"version": 1}

    def score(self, examples: Sequence[Example]) -> Scores:
        values, reasons = np.full(len(examples), np.nan), {}
        for row, example in enumerate(examples):
            words = example.response.split()
            if words and any(chunk.strip() for chunk in example.contexts):
                known = " ".join(example.contexts).split()
                share = sum(word not in known for word in words) / len(words)
                values[row] = self.params["weight"] * share
            else:
                reasons[row] = "nothing to compare"
        return Scores(values, reasons)


def test_a_score_that_keeps_the_rules_passes() -> None:
    check_score(Good())
    check_score(Good)
    check_score(lambda weight=2.0: Good(weight=weight))


def shifted(result: Scores, change: Any) -> Scores:
    return Scores(result.values + change, result.reasons)


class Upside(Good):
    def score(self, examples: Sequence[Example]) -> Scores:
        result = super().score(examples)
        return Scores(-result.values, result.reasons)


class Peeking(Good):
    def score(self, examples: Sequence[Example]) -> Scores:
        return shifted(super().score(examples), [float(e.label or 0) for e in examples])


class Positional(Good):
    def score(self, examples: Sequence[Example]) -> Scores:
        return shifted(super().score(examples), np.arange(len(examples)))


class Relative(Good):
    def score(self, examples: Sequence[Example]) -> Scores:
        return shifted(super().score(examples), float(len(examples)))


class Wavering(Good):
    calls: ClassVar[list[int]] = []

    def score(self, examples: Sequence[Example]) -> Scores:
        self.calls.append(1)
        return shifted(super().score(examples), float(len(self.calls)))


class Foreseeing(Good):
    """Knows what it has once seen behind a sentence."""

    seen: ClassVar[set[str]] = set()

    def score(self, examples: Sequence[Example]) -> Scores:
        texts = [f"{example.before or ''}{example.response}" for example in examples]
        self.seen.update(text for text, e in zip(texts, examples, strict=True) if e.before)
        return shifted(super().score(examples), [float(self._behind(text)) for text in texts])

    def _behind(self, text: str) -> int:
        return sum(len(other) > len(text) and other.startswith(text) for other in self.seen if text)


class Unsteady(Good):
    """Lets sentences of one batch change one another."""

    def score(self, examples: Sequence[Example]) -> Scores:
        n = sum(example.before is not None for example in examples)
        return shifted(super().score(examples), float(n))


class Silent(Good):
    def score(self, examples: Sequence[Example]) -> Scores:
        result = super().score(examples)
        # Goes round the check that Scores makes of itself.
        return _unchecked(result.values, {})


class Inventing(Good):
    def score(self, examples: Sequence[Example]) -> Scores:
        return Scores(np.nan_to_num(super().score(examples).values, nan=0.5))


class Single(Good):
    def score(self, examples: Sequence[Example]) -> Scores:
        result = super().score(examples)
        return _unchecked(result.values.astype(np.float32), result.reasons)


class Losing(Good):
    def score(self, examples: Sequence[Example]) -> Scores:
        return Scores(np.zeros(max(len(examples) - 1, 0)))


class Bare(Good):
    def score(self, examples: Sequence[Example]) -> Any:
        return super().score(examples).values


class Unbuildable(Good):
    def __init__(self) -> None:
        super().__init__()


class Opaque(Good):
    def fingerprint(self) -> Mapping[str, Any]:
        return {"seed": float("nan")}


class Drifting(Good):
    calls: ClassVar[list[int]] = []

    def fingerprint(self) -> Mapping[str, Any]:
        self.calls.append(1)
        return {"call": len(self.calls)}


class Unsure(Good):
    tolerance = float("nan")


class Greedy(Good):
    requires = ("label",)


def _unchecked(values: Any, reasons: Mapping[int, str]) -> Scores:
    result = object.__new__(Scores)
    for name, value in (("values", values), ("reasons", reasons), ("evidence", None)):
        object.__setattr__(result, name, value)
    return result


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (Upside, "higher must mean more likely hallucinated"),
        (Peeking, "label, group and id must have no influence"),
        (Positional, "order of the examples must not matter"),
        (Relative, "alone, .* in a batch"),
        (Wavering, "the same batch must give the same values"),
        (Foreseeing, "what an answer says after a sentence must not matter"),
        (Unsteady, "#1: .* alone, .* in a batch"),
        (Silent, "NaN without a reason"),
        (Inventing, "an empty response must be undefined"),
        (Single, "must be float64; got float32"),
        (Losing, r"examples gave \("),
        (Bare, "must return Scores"),
        (Unbuildable, "params do not rebuild the score"),
        (Opaque, "must be JSON-able"),
        (Drifting, "must be stable"),
        (Unsure, "tolerance must be finite"),
        (Greedy, "requires may name"),
    ],
)
def test_each_broken_rule_is_named(broken: type[Good], rule: str) -> None:
    with pytest.raises(ConformanceError, match=rule):
        check_score(broken())


def test_polarity_may_be_left_out() -> None:
    check_score(Upside(), polarity=False)


def test_what_is_no_score_is_refused() -> None:
    with pytest.raises(ConformanceError, match="lacks a member of the Score protocol"):
        check_score(dict)


def test_a_score_that_learns_must_learn_the_same_again() -> None:
    class Learner(Good):
        name = "learner"

        def __init__(self) -> None:
            super().__init__()
            self.mean: float | None = None

        @property
        def fitted(self) -> bool:
            return self.mean is not None

        def fit(self, examples: list[Example]) -> Learner:
            Learner.fits += 1
            return self.restore({"mean": np.array([float(Learner.fits)])})

        def state(self) -> dict[str, np.ndarray]:
            return {"mean": np.array([self.mean])}

        def restore(self, state: dict[str, np.ndarray]) -> Learner:
            learnt = type(self)()
            learnt.mean = float(state["mean"][0])
            return learnt

    Learner.fits = 0
    with pytest.raises(ConformanceError, match="a score that learns must not score before"):
        check_score(Learner())

    class Late(Learner):
        def score(self, examples: list[Example]) -> Scores:
            if self.mean is None:
                raise InputError("late learns first")
            return super().score(examples)

    with pytest.raises(ConformanceError, match="the same examples must give the same state"):
        check_score(Late())


def test_evidence_must_say_what_stands_there() -> None:
    class Misplaced(Good):
        def score(self, examples: list[Example]) -> Scores:
            found = super().score(examples)
            entry = {"kind": "words", "items": [{"text": "x", "start": 0, "end": 3}]}
            return Scores(found.values, found.reasons, (entry,) * len(examples))

    with pytest.raises(ConformanceError, match="evidence misplaces"):
        check_score(Misplaced())
