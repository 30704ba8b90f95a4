"""Is a detector called non-inferior to a reference only where it is, whichever is the reference?"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.special import ndtr

from calibrail.evaluation import winner as winners
from calibrail.evaluation.stats.intervals import Measure
from calibrail.evaluation.winner import NOT_COMPARABLE, against_reference, find_winner
from calibrail.options import Requirement
from tests.evaluation.compare.candidates import Field

#: What a detector flags of faithful answers at 90 % caught, whose hallucinated ones are 1.5 higher.
FPR = float(ndtr(1.2815515655 - 1.5))


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winners.intervals, "draws_for", lambda n, *most: 200)


def shown(field: Field, reference: str, margin: float, seed: int = 0) -> dict[str, str]:
    """Return the verdicts about the other detectors, by their names."""
    candidates = field.candidates(confidence=0.9, seed=seed)
    winner = find_winner(candidates, Requirement(None, 0.9, 0.9), (reference, margin))
    assert winner.reference is not None
    return {row["name"]: row["verdict"] for row in winner.reference["detectors"]}


def test_the_margin_that_is_just_reached_is_rarely_called_kept(few_draws: None) -> None:
    """Of three detectors, with whichever as the reference that comes out best."""
    better, runs, wrong = 0.5, 40, 0
    margin = FPR - float(ndtr(1.2815515655 - 1.5 - better))
    for seed in range(runs):
        field = Field(3, 200, 300, np.random.default_rng(seed), better=better)
        found = shown(field, "d0", margin, seed)
        wrong += "non-inferior" in found.values()
    assert wrong <= 0.1 * runs + 3.0 * np.sqrt(0.09 * runs)


def test_equal_detectors_are_non_inferior_and_worse_ones_inferior(few_draws: None) -> None:
    field = Field(2, 1200, 1200, np.random.default_rng(1), better=1.5, common=0.8)
    assert shown(field, "d1", 0.05) == {"d0": "non-inferior"}
    assert shown(field, "d0", 0.05) == {"d1": "inferior"}
    equal = Field(3, 1200, 1200, np.random.default_rng(2), common=0.9)
    assert set(shown(equal, "d1", 0.2).values()) == {"non-inferior"}
    assert set(shown(equal, "d1", 0.001).values()) == {"open"}


def test_one_set_of_intervals_serves_every_reference(few_draws: None) -> None:
    candidates = Field(3, 200, 300, np.random.default_rng(3)).candidates()
    rows = {}
    for name in ("d0", "d1", "d2"):
        reference = find_winner(candidates, Requirement(None, 0.9), (name, 0.1)).reference
        assert reference is not None
        rows |= {(row["name"], name): row["fpr"] for row in reference["detectors"]}
    for one, other in permutations(("d0", "d1", "d2"), 2):
        ends = rows[one, other], rows[other, one]
        assert ends[0].lower == pytest.approx(-ends[1].upper)
        alone = find_winner(candidates, Requirement(None, 0.9)).choosing
        pair = [test.fpr for test in alone if {test.name, test.against} == {one, other}]
        assert all(test.upper - test.lower < ends[0].upper - ends[0].lower for test in pair)


def test_the_widest_way_of_counting_copies_decides() -> None:
    ways = [Measure(0.0, -0.01, 0.02, "x", 0.95), Measure(0.0, -0.02, 0.04, "x", 0.95)]
    assert (
        against_reference("a", 0.03, {"b": ways[:1]}, {})["detectors"][0]["verdict"]
        == "non-inferior"
    )
    (row,) = against_reference("a", 0.03, {"b": ways}, {})["detectors"]
    assert row["verdict"] == "open" and (row["fpr"].lower, row["fpr"].upper) == (-0.02, 0.04)


def test_scores_that_never_differ_have_an_interval(few_draws: None) -> None:
    field = Field(1, 200, 300, np.random.default_rng(4))
    field.columns["same"] = field.columns["d0"]
    reference = find_winner(field.candidates(), Requirement(None, 0.9), ("d0", 0.03)).reference
    assert reference is not None
    (row,) = reference["detectors"]
    assert row["fpr"].lower < 0.0 < row["fpr"].upper < 0.3


@pytest.mark.parametrize(("caught", "alarms"), [(0.7, 0.02), (0.05, 0.05)])
def test_a_yes_or_no_detector_that_flags_everything_is_not_at_the_same_coverage(
    few_draws: None, caught: float, alarms: float
) -> None:
    """Whether it is good or useless: to catch 90 % it flags all, which compares nothing."""
    field = Field(2, 1200, 1200, np.random.default_rng(5), common=0.9)
    rng, labels = np.random.default_rng(6), field.labels == 1
    says = rng.random(len(labels)) < np.where(labels, caught, alarms)
    field.columns["yes"] = says.astype(float)
    assert shown(field, "d1", 0.2) == {"d0": "non-inferior", "yes": NOT_COMPARABLE}
    assert shown(field, "yes", 0.2) == {"d0": NOT_COMPARABLE, "d1": NOT_COMPARABLE}


def test_a_yes_or_no_detector_that_catches_what_is_asked_is_compared(few_draws: None) -> None:
    field = Field(1, 1200, 1200, np.random.default_rng(7))
    rng, labels = np.random.default_rng(8), field.labels == 1
    field.columns["yes"] = (rng.random(len(labels)) < np.where(labels, 0.98, 0.05)).astype(float)
    # It catches more, and raises fewer false alarms all the same.
    assert shown(field, "d0", 0.03) == {"yes": "non-inferior"}
    assert shown(field, "yes", 0.03) == {"d0": "inferior"}


@pytest.mark.parametrize(
    ("detector", "reference", "said"),
    [
        (None, None, ("non-inferior", "inferior")),
        (False, None, ("non-inferior", NOT_COMPARABLE)),
        (None, False, (NOT_COMPARABLE, "inferior")),
        (False, False, (NOT_COMPARABLE, NOT_COMPARABLE)),
        (True, None, (NOT_COMPARABLE, NOT_COMPARABLE)),
        (None, True, (NOT_COMPARABLE, NOT_COMPARABLE)),
    ],
)
def test_one_that_catches_more_may_still_raise_fewer_false_alarms(
    detector: bool | None, reference: bool | None, said: tuple[str, str]
) -> None:
    each = {"b": detector, "a": reference}
    apart = {name: everything for name, everything in each.items() if everything is not None}
    for (lower, upper), verdict in zip(((-0.3, 0.02), (0.1, 0.3)), said, strict=True):
        ways = {"b": [Measure(0.0, lower, upper, "x", 0.95)]}
        (row,) = against_reference("a", 0.03, ways, apart)["detectors"]
        assert row["verdict"] == verdict
