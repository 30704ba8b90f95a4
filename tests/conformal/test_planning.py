"""Do the planned probabilities come out, count by count and run by run?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from calibrail.conformal import calibrate_threshold, coverage_band, minimum_n, rank
from calibrail.conformal.power import VerdictProbabilities
from calibrail.errors import InputError
from calibrail.options import Promise
from tests.conformal.counted import certify, certify_joint
from tests.plans import planned

FIXED: dict[str, Any] = {"coverage": 0.97, "fpr": 0.1, "max_fpr": 0.2, "base_rate": 0.3}
DETECTOR: dict[str, Any] = {"separation": 2.2, "max_fpr": 0.35, "base_rate": 0.3}


def at(n: int, alpha: float = 0.1, **options: Any) -> VerdictProbabilities:
    (odds,) = planned(alpha, n=[n], **options).points
    return odds


def within(hits: int, runs: int, share: float) -> bool:
    """Whether a binomial count lies inside limits that chance leaves once in a million."""
    low, high = binom.interval(1 - 1e-6, runs, share)
    return bool(low <= hits <= high)


@pytest.mark.parametrize(
    ("coverage", "fpr", "required", "limit", "confidence", "n", "base"),
    [
        (0.95, 0.1, 0.9, 0.25, 0.9, 101, 0.5),
        (0.95, 0.1, 0.8, 0.25, 0.95, 60, 0.3),
        (0.7, 0.4, 0.8, 0.3, 0.8, 75, 0.6),
        (1.0, 0.0, 0.9, 0.1, 0.95, 90, 0.4),
        (0.6, 0.5, 0.0, 1.0, 0.9, 20, 0.5),
        (1.0, 0.0, 1.0, 0.0, 0.9, 40, 0.5),
        (0.9, 0.2, 0.5, 0.5, 0.5, 3, 0.9),
        (0.9, 0.2, 0.5, 0.5, 0.9, 1, 0.2),
    ],
)
def test_the_odds_are_the_sum_over_all_counts(
    coverage: float,
    fpr: float,
    required: float,
    limit: float,
    confidence: float,
    n: int,
    base: float,
) -> None:
    odds = at(
        n,
        coverage=coverage,
        fpr=fpr,
        min_coverage=required,
        max_fpr=limit,
        confidence=confidence,
        base_rate=base,
    )
    m, f = odds.n_hallucinated, odds.n_faithful
    assert m + f == n and abs(m - base * n) <= 0.5
    # Undeclared, the first look at a guardrail has three quarters of the error.
    confidence = 1.0 - 0.75 * (1.0 - confidence)
    expected = dict.fromkeys(("certified", "rejected", "inconclusive"), 0.0)
    caught, alarms = binom.pmf(range(m + 1), m, coverage), binom.pmf(range(f + 1), f, fpr)
    for i, hit in enumerate(caught):
        for j, alarm in enumerate(alarms):
            verdict = certify(i, m, j, f, required, limit, confidence).verdict
            expected[verdict] += hit * alarm
    for verdict, share in expected.items():
        assert getattr(odds, verdict) == pytest.approx(share, abs=1e-11)


def test_a_share_set_aside_leaves_the_rest_to_certify() -> None:
    whole = at(500, **FIXED)
    half = at(1000, calibration_share=0.5, **FIXED)
    assert (half.n_hallucinated, half.n_faithful) == (whole.n_hallucinated, whole.n_faithful)
    assert half.certified == whole.certified


def simulate(
    n: int, runs: int, guarantee: str, alpha: float, delta: float, confidence: float, **options: Any
) -> tuple[dict[str, int], int]:
    """Calibrate and decide on drawn scores, as ``calibrail calibrate`` divides them.

    A ``pac`` threshold is set by all hallucinated answers unless a share of them is asked for.
    """
    rng = np.random.default_rng(7)
    seen = dict.fromkeys(("certified", "rejected", "inconclusive"), 0)
    withheld = 0
    base, limit = options["base_rate"], options["max_fpr"]
    hallucinated = math.floor(n * base + 0.5)
    share = options.get("calibration_share", 1.0 if guarantee == "pac" else 0.5)
    used = math.floor(hallucinated * share + 0.5)
    m, faithful = hallucinated - used, n - hallucinated
    tested = faithful - math.floor(faithful / 2 + 0.5)
    place: Any = rank(used, alpha, guarantee, delta)  # type: ignore[arg-type]
    least = coverage_band((place, used), m, confidence)[0] if m else 0
    for _ in range(runs):
        scores = rng.normal(options["separation"], 1.0, used)
        calibration = calibrate_threshold(scores, Promise(alpha, guarantee, delta))  # type: ignore[arg-type]
        caught = int(np.sum(rng.normal(options["separation"], 1.0, m) >= calibration.threshold))
        drawn = faithful if guarantee == "pac" else tested
        alarms = int(np.sum(rng.normal(0.0, 1.0, drawn) >= calibration.threshold))
        if guarantee == "pac":
            found = certify_joint(calibration, caught, m, alarms, drawn, limit, confidence)
        else:
            required = options["min_coverage"]
            found = certify(caught, m, alarms, drawn, required, limit, confidence)
        seen[found.verdict] += 1
        withheld += found.verdict == "certified" and caught < least
    return seen, withheld


@pytest.mark.parametrize(
    ("guarantee", "alpha", "delta", "confidence", "n", "more"),
    [
        ("pac", 0.1, 0.1, 0.85, 901, {"max_fpr": 0.25}),
        ("pac", 0.2, 0.05, 0.8, 250, {"max_fpr": 0.25}),
        ("pac", 0.1, 0.1, 0.85, 901, {"calibration_share": 0.5}),
        ("marginal", 0.1, 0.1, 0.9, 1203, {"min_coverage": 0.85}),
    ],
)
def test_the_odds_come_out_in_simulated_calibrations(
    guarantee: str, alpha: float, delta: float, confidence: float, n: int, more: dict[str, Any]
) -> None:
    options = DETECTOR | more
    runs = 1500 if guarantee == "pac" else 500
    seen, withheld = simulate(n, runs, guarantee, alpha, delta, confidence, **options)
    how = {"alpha": alpha, "guarantee": guarantee, "delta": delta, "confidence": confidence}
    odds = at(n, withhold=False, **how, **options)
    assert 0.2 < odds.certified < 0.98
    for verdict, hits in seen.items():
        assert within(hits, runs, getattr(odds, verdict)), (verdict, hits / runs)
    if guarantee == "pac":
        cautious = at(n, **how, **options)
        assert within(seen["certified"] - withheld, runs, cautious.certified)
        # Nothing is withheld where no answer tests the threshold.
        assert (cautious.certified < odds.certified) == ("calibration_share" in more)
        assert cautious.certified <= odds.certified
        assert cautious.rejected == odds.rejected


def test_five_thousand_answers_certify_a_detector_of_known_separation() -> None:
    """The figure quoted for n = 5,000 needs the means about 2.06 standard deviations apart."""
    share = {"delta": 0.05, "confidence": 0.9, "max_fpr": 0.3, "base_rate": 0.3}
    share |= {"withhold": False, "calibration_share": 0.5}
    assert at(5000, separation=2.06, **share).certified == pytest.approx(0.93, abs=0.005)
    assert at(5000, separation=1.0, **share).rejected > 0.999


@pytest.mark.parametrize("withhold", [False, True])
@pytest.mark.parametrize("n", [301, 4000])
def test_what_is_withheld_lies_below_the_coverage_band(n: int, withhold: bool) -> None:
    """Without a limit on false alarms only the band can withhold."""
    options = {**DETECTOR, "max_fpr": 1.0, "withhold": withhold}
    odds = at(n, confidence=0.9, **options)
    k = rank(odds.n_calibration, 0.1, "pac")
    m, used = odds.n_hallucinated, odds.n_calibration
    lowest, _ = coverage_band((k, used), m, 0.9)
    required = min(
        c for c in range(m + 1) if certify(c, m, 0, 1, 0.9, 1.0, 0.9).coverage.upper >= 0.9
    )
    from scipy.stats import betabinom

    least = max(required, lowest) if withhold else required
    assert odds.certified == pytest.approx(betabinom.sf(least - 1, m, used + 1 - k, k), abs=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"alpha": 0.1, **FIXED},
        {"alpha": 0.05, **FIXED, "coverage": 0.99},
        {"alpha": 0.05, **FIXED, "fpr": 0.17, "coverage": 0.995, "power": 0.9},
        {"alpha": 0.1, **DETECTOR},
        {"alpha": 0.1, **DETECTOR, "withhold": False},
        {"alpha": 0.2, **DETECTOR, "max_fpr": 0.3, "calibration_share": 0.2},
        {"alpha": 0.1, **DETECTOR, "guarantee": "marginal", "min_coverage": 0.8},
        {"alpha": 0.05, **DETECTOR, "max_fpr": 0.9},
    ],
)
def test_the_number_found_is_the_first_from_which_on_the_power_stays(
    options: dict[str, Any],
) -> None:
    found = planned(**options)
    assert found.n is not None and found.at is not None
    wanted = options.get("power", 0.8)
    assert found.at.certified >= wanted
    after = planned(**options, n=range(found.n, 2 * found.n)).points
    assert min(odds.certified for odds in after) >= wanted
    if found.n > 1:
        (before,) = planned(**options, n=[found.n - 1]).points
        assert before.certified < wanted


def test_with_hardly_any_requirement_the_minimum_is_the_plan() -> None:
    found = planned(0.05, separation=2.0, max_fpr=1.0, base_rate=0.3)
    assert found.minimum_labels is not None
    assert found.n == found.minimum_labels["pac"]
    assert found.at is not None and found.at.n_calibration == minimum_n(0.05, "pac", 0.025)
    few = at(found.n - 1, 0.05, separation=2.0, max_fpr=1.0, base_rate=0.3)
    assert (few.certified, few.rejected, few.inconclusive) == (0.0, 0.0, 1.0)


@pytest.mark.parametrize("base", [0.01, 0.3, 0.5, 0.97])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_minimum_of_labels_is_the_smallest_that_leaves_enough(
    base: float, share: float
) -> None:
    made = planned(0.05, base_rate=base, calibration_share=share)
    assert made.minimum == {"marginal": 19, "pac": 45}
    assert (made.base_rate, made.calibration_share) == (base, share)
    assert made.minimum_labels is not None

    def used(n: int) -> int:
        return math.floor(math.floor(n * base + 0.5) * share + 0.5)

    for promise, least in made.minimum.items():
        n = made.minimum_labels[promise]
        assert used(n) >= least > used(n - 1)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({**FIXED, "coverage": 0.9}, "catches"),
        ({**FIXED, "coverage": 0.5}, "catches"),
        # No further above what is required than rounding might put it.
        ({**FIXED, "coverage": 0.9 + 1e-12}, "not more than"),
        ({**FIXED, "fpr": 0.2}, "flags"),
        ({**FIXED, "coverage": 0.900001}, "not even"),
        ({**DETECTOR, "separation": 1.0}, "flags"),
        ({**DETECTOR, "separation": -3.0}, "flags"),
        ({**DETECTOR, "guarantee": "marginal"}, "catches"),
        ({**DETECTOR, "min_coverage": 0.95}, "catches"),
    ],
)
def test_what_no_number_of_labels_proves_has_a_reason(options: dict[str, Any], word: str) -> None:
    made = planned(0.1, **options)
    assert made.n is None and made.at is None
    assert made.reason is not None and word in made.reason
    assert max(odds.certified for odds in made.points) < 0.8


def test_the_bottleneck_is_the_side_that_is_met_less_often() -> None:
    assert planned(0.05, **FIXED).bottleneck == "coverage"
    assert planned(0.05, **{**FIXED, "coverage": 0.999, "fpr": 0.19}).bottleneck == "fpr"
    assert planned(0.05).bottleneck is None


def test_auroc_and_separation_are_one_assumption() -> None:
    by_distance = planned(0.1, **DETECTOR)
    area = float(norm.cdf(2.2 / math.sqrt(2)))
    by_area = planned(0.1, **{**DETECTOR, "separation": None, "auroc": area})
    assert by_area.n == by_distance.n
    assert by_area.assumed["separation"] == pytest.approx(2.2)
    assert by_distance.assumed["auroc"] == pytest.approx(area)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": math.nan}, "alpha"),
        ({"alpha": 1e-12}, "alpha"),
        ({"delta": 1.0}, "delta"),
        ({"guarantee": "paper"}, "guarantee"),
        ({"coverage": 1.2}, "coverage"),
        ({"fpr": -0.1}, "fpr"),
        ({"fpr": None}, "fpr"),
        ({"coverage": None}, "coverage"),
        ({"coverage": None, "fpr": None}, "max_false_alarms"),
        ({"max_fpr": None}, "max_false_alarms"),
        ({"max_fpr": 2}, "max_false_alarms"),
        ({"base_rate": None}, "base_rate"),
        ({"base_rate": 0.0}, "base_rate"),
        ({"base_rate": 1e-9}, "base_rate"),
        ({"calibration_share": 1.0}, "calibration_share"),
        ({"calibration_share": -1}, "calibration_share"),
        ({"coverage": None, "fpr": None, "auroc": 0.9, "calibration_share": 0}, "calibration_s"),
        ({"coverage": None, "fpr": None, "auroc": 1.0}, "auroc"),
        ({"coverage": None, "fpr": None, "separation": math.inf}, "separation"),
        ({"coverage": None, "fpr": None, "separation": "far"}, "separation"),
        ({"auroc": 0.9}, "auroc"),
        ({"confidence": 1.0}, "confidence"),
        ({"min_coverage": 1.5}, "min_caught"),
        ({"power": 0.4}, "power"),
        ({"power": 1.0}, "power"),
        ({"n": []}, "n must"),
        ({"n": 100}, "n must"),
        ({"n": [0]}, "n must"),
        ({"n": [1.5]}, "n must"),
        ({"n": [10**9]}, "n must"),
    ],
)
def test_bad_input_is_named(options: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError, match=f"^{name}"):
        planned(**{"alpha": 0.1, **FIXED, **options})


def test_no_joint_confidence_is_refused() -> None:
    with pytest.raises(InputError, match=r"^delta = 0.9 and confidence 0.7 leave no confidence"):
        planned(0.1, delta=0.9, confidence=0.7, **DETECTOR)
