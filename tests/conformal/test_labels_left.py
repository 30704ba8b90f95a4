from __future__ import annotations

import numpy as np
import pytest

from calibrail.conformal.sequential.forecast import labels_left
from calibrail.conformal.sequential.sequential_test import SequentialTest, UnsureTest
from calibrail.options import Drawing, Requirement

REQUIRED = Requirement(0.25, 0.8, 0.9)
DRAWINGS = [Drawing(), Drawing("active")]


class Labelling:
    """A stream of answers that is labelled one after another."""

    def __init__(self, drawing: Drawing, coverage: float, fpr: float, seed: int) -> None:
        self.rng, self.rates, self.drawing = np.random.default_rng(seed), (fpr, coverage), drawing
        self.test = UnsureTest.of(SequentialTest(REQUIRED, drawing))
        self.flagged: list[bool] = []
        self.guess: list[float] = []
        self.labels = 0

    def draw(self) -> None:
        bad = self.rng.random() < 0.4
        flagged = bool(self.rng.random() < self.rates[bad])
        guess = float(np.clip(0.8 * bad + 0.1 + self.rng.normal(0, 0.1), 0.02, 0.98))
        more = {}
        label: float = float(bad)
        if self.drawing.design == "active":
            q = float(self.test.probability([flagged], [guess])[0])
            label = float(bad) if self.rng.random() < q else float("nan")
            more = {"probability": [q], "guess": [guess]}
        if self.drawing.whole_groups:
            more["groups"] = [0]
        self.labels += not np.isnan(label)
        self.flagged.append(flagged)
        self.guess.append(guess)
        self.test = self.test.update([flagged], [label], **more)


@pytest.mark.parametrize("drawing", DRAWINGS, ids=str)
def test_what_is_foreseen_holds_what_then_happens_about_as_often_as_it_says(
    drawing: Drawing,
) -> None:
    inside, streams = 0, 8
    for seed in range(streams):
        labelling = Labelling(drawing, 0.95, 0.08, seed)
        while labelling.labels < 30 and labelling.test.verdict == "inconclusive":
            labelling.draw()
        left = labels_left(labelling.test, labelling.flagged, labelling.guess)
        if left.unforeseeable is not None:
            inside += 1
            continue
        before = labelling.labels
        while labelling.test.verdict == "inconclusive" and labelling.labels < 1000:
            labelling.draw()
        after = labelling.labels - before
        assert left.low is not None
        inside += left.low <= after <= (left.high or np.inf)
    # At 0.8 each, three or fewer of eight have a probability of 0.01.
    assert inside >= 4


def test_the_same_test_and_seed_foresee_the_same() -> None:
    labelling = Labelling(Drawing("active"), 0.95, 0.08, 1)
    for _ in range(40):
        labelling.draw()
    one, other = (
        labels_left(labelling.test, labelling.flagged, labelling.guess, seed=3) for _ in range(2)
    )
    assert one == other
    assert one.certified + one.rejected + one.inconclusive == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("labels", "reason"),
    [([1] * 4 + [0] * 30, "few_hallucinated"), ([1] * 30 + [0] * 4, "few_faithful")],
)
def test_what_cannot_be_foreseen_is_not(labels: list[int], reason: str) -> None:
    flagged = [i % 3 == 0 for i in range(34)]
    test = UnsureTest.of(SequentialTest(Requirement(0.3, 0.5, 0.999))).update(flagged, labels)
    left = labels_left(test, flagged)
    assert (left.unforeseeable, left.median) == (reason, None)


def test_on_the_limit_most_futures_stay_open() -> None:
    flagged = np.array([True] * 40 + [False] * 10 + [True] * 12 + [False] * 38)
    order = np.random.default_rng(0).permutation(100)
    flagged, labels = flagged[order], (order < 50).astype(int)
    test = UnsureTest.of(SequentialTest(Requirement(0.25, 0.8, 0.99))).update(flagged, labels)
    left = labels_left(test, flagged)
    assert left.inconclusive > 0.1 and left.high is None


def test_a_decided_one_needs_none() -> None:
    flagged = [True] * 60 + [False] * 60
    test = UnsureTest.of(SequentialTest(REQUIRED)).update(flagged, [1] * 60 + [0] * 60)
    assert labels_left(test, flagged).unforeseeable == "decided"
