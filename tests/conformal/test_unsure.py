from __future__ import annotations

import itertools

import numpy as np
import pytest

from calibrail.conformal.sequential.sequential_test import (
    SequentialTest,
    UnsureTest,
    course_of_intervals,
)
from calibrail.errors import InputError
from calibrail.options import Drawing, Requirement

REQUIRED = Requirement(0.3, 0.7, 0.8)
RNG = np.random.default_rng(3)


def stream(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    hallucinated = rng.random(n) < 0.4
    return rng.random(n) < np.where(hallucinated, 0.95, 0.05), hallucinated.astype(float)


DRAWINGS = [
    Drawing(),
    Drawing("active"),
    Drawing(whole_groups=True),
    Drawing("active", whole_groups=True),
]


def extras(drawing: Drawing, n: int) -> dict[str, np.ndarray]:
    rng, made = np.random.default_rng(1), {}
    if drawing.design == "active":
        made |= {"probability": rng.uniform(0.3, 1.0, n), "guess": rng.random(n)}
    if drawing.whole_groups:
        made["groups"] = np.arange(n) // 2
    return made


@pytest.mark.parametrize("drawing", DRAWINGS, ids=str)
def test_without_unsure_answers_it_is_the_same_test(drawing: Drawing) -> None:
    flagged, labels = stream(120)
    more = extras(drawing, 120)
    plain = SequentialTest(REQUIRED, drawing).update(flagged, labels, **more)
    test = UnsureTest.of(SequentialTest(REQUIRED, drawing)).update(flagged, labels, **more)
    assert plain.verdict == "certified"
    assert test.certificate() == plain.certificate()


@pytest.mark.parametrize("drawing", DRAWINGS, ids=str)
def test_one_by_one_and_all_at_once_give_the_same_bytes(drawing: Drawing) -> None:
    n = 60
    flagged, labels = stream(n, 5)
    unsure = np.random.default_rng(2).random(n) < 0.1
    labels[unsure] = np.nan
    more = extras(drawing, n)
    start = UnsureTest.of(SequentialTest(Requirement(0.6, 0.4, 0.6), drawing))
    whole = start.update(flagged, labels, unsure, **more)
    step = start
    for first in range(0, n, 2):
        rows = slice(first, first + 2)
        part = {name: values[rows] for name, values in more.items()}
        step = step.update(flagged[rows], labels[rows], unsure[rows], **part)
        restored = UnsureTest.from_dict(step.to_dict())
        assert restored == step
    assert whole.decided is not None and whole.n_unsure == unsure.sum()
    if drawing.whole_groups:
        assert step == whole
    assert step.certificate().log_wealth == whole.certificate().log_wealth


def test_whatever_the_unsure_answers_are_each_bet_is_worth_less_than_with_their_labels() -> None:
    flagged, labels = stream(24, 8)
    places = [1, 6, 12, 20]
    unsure = np.isin(np.arange(24), places)
    hidden = np.where(unsure, np.nan, labels)
    made = UnsureTest.of(SequentialTest(REQUIRED)).update(flagged, hidden, unsure).certificate()
    for truth in itertools.product((0.0, 1.0), repeat=len(places)):
        known = labels.copy()
        known[places] = truth
        other = SequentialTest(REQUIRED).update(flagged, known).certificate()
        for name, wealth in made.log_wealth.items():
            assert wealth <= other.log_wealth[name] + 1e-12
        assert made.coverage.lower <= other.coverage.lower + 1e-9
        assert made.fpr.upper >= other.fpr.upper - 1e-9
    assert made.coverage.n + made.fpr.n == 20


def test_the_verdict_names_the_label_with_which_it_fell() -> None:
    flagged, labels = stream(200, 4)
    unsure = np.zeros(200, bool)
    unsure[[3, 30]] = True
    labels[unsure] = np.nan
    whole = UnsureTest.of(SequentialTest(REQUIRED)).update(flagged, labels, unsure)
    step, fell = UnsureTest.of(SequentialTest(REQUIRED)), None
    for row in range(200):
        step = step.update(flagged[row], labels[row], unsure[row])
        if fell is None and step.verdict != "inconclusive":
            fell = row + 1
    assert whole.decided == step.decided and whole.decided.drawn == fell


@pytest.mark.parametrize("drawing", DRAWINGS[:2], ids=str)
def test_a_course_holds_the_intervals_of_every_certificate(drawing: Drawing) -> None:
    flagged, labels = stream(30, 6)
    unsure = np.arange(30) % 9 == 4
    labels[unsure] = np.nan
    more, states = extras(drawing, 30), [UnsureTest.of(SequentialTest(REQUIRED, drawing))]
    for row in range(30):
        part = {name: values[row] for name, values in more.items()}
        states.append(states[-1].update(flagged[row], labels[row], unsure[row], **part))
    for state, bounds in zip(states, course_of_intervals(states), strict=True):
        made = state.certificate()
        for bound, expected in zip(bounds, (made.coverage, made.fpr), strict=True):
            assert bound.to_dict() == pytest.approx(expected.to_dict(), abs=1e-12)


def test_many_unsure_answers_decide_nothing_either_way() -> None:
    n = 300
    test = UnsureTest.of(SequentialTest(REQUIRED)).update(
        RNG.random(n) < 0.5, [None] * n, [True] * n
    )
    assert test.verdict == "inconclusive" and test.certificate().coverage.estimate is None
    assert (test.certificate().coverage.lower, test.certificate().coverage.upper) == (0.0, 1.0)


def test_what_cannot_be_is_refused() -> None:
    start = UnsureTest.of(SequentialTest(REQUIRED))
    with pytest.raises(InputError, match="row 2 is both"):
        start.update([1, 0], [None, 1], [True, True])
    with pytest.raises(InputError, match="not have seen"):
        UnsureTest.of(start.update(True, 1).certifying)
