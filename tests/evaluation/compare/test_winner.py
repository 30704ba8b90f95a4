"""Is a winner named only where it is one, found where it is, and certified on fresh answers?"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, chi2

from calibrail.data.splits import CALIBRATION, TEST, split
from calibrail.evaluation import winner as candidates
from calibrail.evaluation.scored_answers import Sample
from calibrail.evaluation.stats.tests import mcnemar
from calibrail.evaluation.winner import (
    CHOOSING,
    CONFIRMING,
    Candidate,
    Candidates,
    PairTests,
    Winner,
    find_winner,
    halve,
)
from calibrail.options import Promise, Requirement
from tests.evaluation.compare.candidates import Field


def winner(field: Field, alpha: float = 0.1, baselines: int = 0) -> Winner:
    made = field.candidates(alpha, baselines, seed=1)
    return find_winner(made, Requirement(0.5, 1 - alpha))


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates.intervals, "draws_for", lambda n, *most: 200)


@pytest.mark.parametrize(
    ("detectors", "sizes", "alpha", "baselines", "how"),
    [
        (2, (88, 370), 0.1, 0, {}),
        (2, (60, 120), 0.05, 0, {"common": 0.0}),
        (3, (88, 200), 0.1, 1, {"common": 0.6}),
        (2, (240, 480), 0.1, 0, {"size": 4, "alike": 0.7}),
    ],
)
def test_equal_detectors_rarely_win(
    detectors: int,
    sizes: tuple[int, int],
    alpha: float,
    baselines: int,
    how: dict[str, Any],
    few_draws: None,
) -> None:
    rng = np.random.default_rng(0)
    runs = 120
    named = sum(
        winner(Field(detectors, *sizes, rng, **how), alpha, baselines).name is not None
        for _ in range(runs)
    )
    # More than this in as many runs at a true share of 5 % has a probability of 1 in 1,000.
    assert named <= binom.ppf(0.999, runs, 0.05)


def test_fixed_thresholds_alone_would_name_equal_detectors() -> None:
    rng = np.random.default_rng(1)
    runs, found = 200, 0
    for _ in range(runs):
        field = Field(2, 88, 400, rng)
        one, two = field.candidates()
        faithful = (field.codes == 2) & (field.labels == 0)
        flags = one.flagged[faithful], two.flagged[faithful]
        found += mcnemar(*flags, field.groups[faithful]).p_value <= 0.05
    # Why McNemar never chooses: the luck of calibration looks like merit to it.
    assert found >= binom.ppf(0.001, runs, 1 / 3)


def test_a_better_detector_wins_and_is_confirmed(few_draws: None) -> None:
    rng = np.random.default_rng(2)
    runs = 40
    found = [winner(Field(3, 400, 600, rng, better=0.9), 0.1, 1) for _ in range(runs)]
    right = [item for item in found if item.name == "d0"]
    assert len(right) >= binom.ppf(0.001, runs, 0.9)
    assert sum(bool(item.confirmed) for item in right) >= binom.ppf(0.001, runs, 0.8)


def test_the_halves_are_groups_of_the_test_part_only() -> None:
    field = Field(2, 120, 240, np.random.default_rng(3), size=4)
    halves = halve(field.labels, field.codes, field.groups, seed=5)
    assert ((halves == 0) == (field.codes != 2)).all()
    for group in np.unique(field.groups):
        assert len(np.unique(halves[field.groups == group])) == 1
    for label in (0, 1):
        part = field.labels == label
        sizes = [int(np.sum(part & (halves == half))) for half in (CHOOSING, CONFIRMING)]
        assert abs(sizes[0] - sizes[1]) <= 4
    again = halve(field.labels, field.codes, field.groups, seed=5)
    assert (halves == again).all()
    assert (halves != halve(field.labels, field.codes, field.groups, seed=6)).any()


def decided(field: Field, change: NDArray[np.bool_]) -> Winner:
    """Return the winner after the first detector lost its skill on some answers."""
    field.columns["d0"][change & (field.labels == 0)] += 20.0
    return winner(field)


def test_what_the_confirming_half_shows_does_not_choose(few_draws: None) -> None:
    field = Field(2, 400, 600, np.random.default_rng(4), better=2.0)
    halves = halve(field.labels, field.codes, field.groups, seed=1)
    sound = winner(field)
    assert (sound.name, sound.confirmed) == ("d0", True)
    assert sound.certificate is not None
    some = np.random.default_rng(0).random(len(halves)) < 0.4
    less = decided(deepcopy(field), (halves == CONFIRMING) & some)
    assert (less.name, less.confirmed, less.contradicted_by) == ("d0", False, ())
    lost = decided(field, halves == CONFIRMING)
    # What it shows beyond chance, the other way, takes the name back all the same.
    assert (lost.name, lost.candidate, lost.confirmed) == (None, "d0", None)
    assert (lost.contradicted_by, lost.certificate) == (("d1",), None)
    # No figure of a half that confirms nobody is shown.
    assert (lost.fpr, lost.confirming) == ({}, ())
    assert [test.fpr.p_value for test in lost.choosing] == [
        test.fpr.p_value for test in sound.choosing
    ]


def test_the_certificate_counts_the_confirming_half_only(few_draws: None) -> None:
    field = Field(2, 400, 600, np.random.default_rng(5), better=2.0)
    found = winner(field)
    halves = halve(field.labels, field.codes, field.groups, seed=1)
    confirming = halves == CONFIRMING
    best = field.candidates().members[0]
    assert found.certificate is not None
    for name, label in (("coverage", 1), ("fpr", 0)):
        part = confirming & (field.labels == label)
        assert found.certificate[name]["n"] == int(part.sum())
        assert found.certificate[name]["count"] == int(best.flagged[part].sum())
        assert found.certificate[name]["method"] == "clopper-pearson"
    assert found.certificate["counted"] == "every answer"


def test_shared_groups_count_once_in_the_certificate(few_draws: None) -> None:
    field = Field(2, 400, 600, np.random.default_rng(6), better=3.0, size=4, alike=0.5)
    found = winner(field)
    assert found.certificate is not None
    confirming = halve(field.labels, field.codes, field.groups, seed=1) == CONFIRMING
    groups = len(np.unique(field.groups[confirming & (field.labels == 1)]))
    assert found.certificate["coverage"]["n"] == groups
    assert "each group" in found.certificate["counted"]


def test_a_baseline_stands_in_the_way_and_never_wins(few_draws: None) -> None:
    field = Field(3, 400, 600, np.random.default_rng(7))
    field.columns["d2"] = field.columns["d2"] + 3.0 * field.labels
    found = winner(field, baselines=1)
    assert found.name is None
    assert found.best_baseline == "d2"
    assert "d2" in found.not_separated
    assert {test.name for test in found.baseline_tests} == {"d0", "d1"}
    assert all(test.fpr.p_adjusted < 0.05 for test in found.baseline_tests)


def test_a_claim_about_any_pair_of_equals_is_rare(few_draws: None) -> None:
    """The reference is the best of all: a correction for its rivals alone claims in 13 %."""
    rng, runs, claimed = np.random.default_rng(8), 60, 0
    for _ in range(runs):
        tests = winner(Field(9, 88, 200, rng), baselines=2).choosing
        claimed += any(min(t.fpr.p_adjusted, t.auroc.p_adjusted) <= 0.05 for t in tests)
    assert claimed <= binom.ppf(0.99, runs, 0.05)


def test_one_correction_holds_all_pairs_and_both_measures(few_draws: None) -> None:
    field = Field(5, 88, 200, np.random.default_rng(8), better=1.2)
    made = field.candidates(0.1, 2, seed=1)
    pairs = PairTests(made, np.isin(made.split, (CALIBRATION, TEST)))
    assert pairs.n_pairs == 3 + 6
    names = [(a.name, b.name) for a in made for b in made if a.name < b.name and not a.baseline]
    raw = [t.p_value for n in names for t in (pairs.difference(*n), pairs.ranking(*n))]
    adjusted = [pairs.adjusted(kind, *n) for n in names for kind in ("fpr", "auroc")]
    order = np.argsort(raw)
    assert (np.diff(np.array(adjusted)[order]) >= 0.0).all()
    assert all(p <= q <= min(1.0, 18 * p) for p, q in zip(raw, adjusted, strict=True))
    assert pairs.adjusted("fpr", "d0", "d1") == pairs.adjusted("fpr", "d1", "d0")
    # Two normal deviates of one pair, and 18 of them: their largest reaches farther.
    assert 2.2 < pairs.critical < 3.2


def test_one_detector_alone_has_nobody_to_beat(few_draws: None) -> None:
    found = winner(Field(1, 88, 200, np.random.default_rng(9)))
    assert (found.name, found.candidate, found.choosing) == (None, "d0", ())
    only_baseline = winner(Field(2, 88, 200, np.random.default_rng(9), better=3.0), baselines=1)
    assert only_baseline.name == "d0"


def test_a_part_without_a_class_names_nobody() -> None:
    field = Field(2, 88, 200, np.random.default_rng(10))
    lacking = replace(field.candidates(), labels=np.ones_like(field.labels))
    found = find_winner(lacking, Requirement(min_coverage=0.9))
    assert (found.name, found.candidate) == (None, None)


def test_about_how_much_more_data_would_do(few_draws: None) -> None:
    rng = np.random.default_rng(11)
    said = [winner(Field(2, 120, 240, rng, better=0.6)) for _ in range(12)]
    times = [item.times for item in said if item.name is None and item.times is not None]
    assert times
    assert all(1.0 < value <= 20.0 for value in times)
    assert all(item.times is None for item in said if item.name is not None)


def sized(
    rng: np.random.Generator, sizes: NDArray[np.int64], shift: NDArray[np.float64]
) -> Candidates:
    """Return two detectors on groups of hallucinated answers, and 200 faithful answers.

    ``shift`` moves the first detector's scores of each group; a group's answers are alike.
    """
    groups = np.concatenate([np.repeat(np.arange(len(sizes)), sizes), len(sizes) + np.arange(200)])
    labels = (groups < len(sizes)).astype(np.int8)
    codes = split(labels, groups, seed=int(rng.integers(1000)))
    columns = []
    for place in range(2):
        alike = 0.95 * rng.normal(size=len(sizes)) + 2.0 + shift * (place == 0)
        columns.append(rng.normal(size=len(groups)) * np.where(labels == 1, 0.3, 1.0))
        columns[-1][labels == 1] += alike[groups[labels == 1]]
    whole = Sample(columns[0], labels, codes, groups)
    rows = whole.rows(TEST) | whole.rows(CALIBRATION, 0)
    shared = whole.thinned(rows, rng.permutation(len(groups)), labels)
    promise, members = Promise(0.1, clustered=True), []
    for place, column in enumerate(columns):
        sample = shared.with_scores(column)
        members.append(Candidate.of(f"d{place}", sample, sample.calibrated(promise)))
    return Candidates.on(shared, members, seed=int(rng.integers(1000)))


def test_equal_detectors_rarely_win_where_groups_differ_in_size(few_draws: None) -> None:
    rng, runs, named, ranked = np.random.default_rng(10), 120, 0, 0
    for _ in range(runs):
        sizes = np.minimum(rng.zipf(1.6, 120), 60)
        found = find_winner(sized(rng, sizes, np.zeros(120)), Requirement(0.5, 0.9))
        named += found.name is not None
        ranked += found.choosing[0].auroc.p_value <= 0.05
    assert max(named, ranked) <= binom.ppf(0.999, runs, 0.05)


def test_a_detector_that_is_good_on_the_largest_groups_only_does_not_win(few_draws: None) -> None:
    rng = np.random.default_rng(11)
    sizes = np.repeat([100, 1], [20, 380])
    shift = np.repeat([4.0, -1.0], [20, 380])
    for _ in range(3):
        found = find_winner(sized(rng, sizes, shift), Requirement(0.5, 0.9))
        assert (found.candidate, found.name) == ("d1", "d1")
        # The rankings count each group once, too: of all answers d0 ranks far more right.
        assert found.choosing[0].name == "d0" and found.choosing[0].auroc.estimate < 0.0
        assert all(test.fpr.estimate > 0.0 and test.fpr.lower is None for test in found.confirming)
        # About one group in ten of 300, as the thresholds count them.
        assert 25 <= found.halves["rank"] <= 35


@pytest.mark.parametrize("alone", [0, 1, 2, 3])
def test_few_false_alarms_of_one_detector_alone_shut_out_few_more(
    few_draws: None, alone: int
) -> None:
    """As the exact upper end of a count, where draws of so few say less."""
    n, rng = 200, np.random.default_rng(0)
    labels, codes = np.repeat([1, 0], [60, n]).astype(np.int8), np.ones(60 + n, np.int8)
    low = np.where(labels == 1, 10.0, 0.0) + rng.normal(size=60 + n)
    high = low + np.where(np.arange(60 + n) >= 60 + n - alone, 20.0, 0.0)
    samples = [Sample(values, labels, codes, np.arange(60 + n)) for values in (low, high)]
    made = [
        Candidate.of(name, sample, sample.calibrated(Promise(0.1)))
        for name, sample in zip(("low", "high"), samples, strict=True)
    ]
    upper = PairTests(Candidates.on(samples[0], made), codes == 1).bounds("high", "low").upper
    assert upper > 0.92 * chi2.ppf(0.975, 2 * (alone + 1)) / 2 / n
