"""Do the intervals hold what they promise where their assumption holds, and what if it does not?"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from calibrail.conformal import clopper_pearson, confidence_sequence
from calibrail.errors import InputError
from calibrail.guardrail.file import Headline
from calibrail.labelling.log_sampling import LabelledSample
from calibrail.monitoring import promise
from calibrail.monitoring.history import moment
from calibrail.monitoring.prevalence import JudgeSample, prevalence_status
from tests.monitoring.drawn import DAY, drawn


def headline(caught: int = 940, alarms: int = 150, n: int = 1000, **known: Any) -> Headline:
    rates = {"coverage": {"count": caught, "n": n}, "fpr": {"count": alarms, "n": n}}
    return Headline(
        verdict="certified",
        reason="",
        max_fpr=0.3,
        min_coverage=0.9,
        confidence=0.95,
        auroc=None,
        warnings=[],
        **(rates | known),
    )


def period(n: int, flagged: int, at: int = 0, failed: int = 0) -> dict[str, Any]:
    begin = DAY + 86_400.0 * at
    return {
        "from": moment(begin),
        "to": moment(begin + 80_000.0),
        "n": n,
        "flagged": flagged,
        "failed": failed,
    }


def periods(full: LabelledSample, per_row: int = 20) -> list[dict[str, Any]]:
    """Return the days of a log of which one row in so many was drawn, with the same flag rate."""
    days = ((full.time - DAY) // 86_400.0).astype(int)
    found = []
    for day in range(days.max() + 1):
        mine = days == day
        found.append(
            period(int(mine.sum()) * per_row, int(full.flagged[mine].sum()) * per_row, day)
        )
    return found


def test_flags_alone_give_the_worst_corner_of_the_three_bounds() -> None:
    status = prevalence_status([period(4000, 1800), period(6000, 2100, 1)], headline())
    flag = confidence_sequence(3900, 10_000, 1 - 0.05 / 3)
    coverage, fpr = (clopper_pearson(count, 1000, 1 - 0.05 / 3) for count in (940, 150))
    lowest = (flag[0] - fpr[1]) / (coverage[1] - fpr[1])
    highest = (flag[1] - fpr[0]) / (coverage[0] - fpr[0])
    assert (status["lower"], status["upper"]) == pytest.approx((lowest, highest))
    assert status["estimate"] == pytest.approx((0.39 - 0.15) / (0.94 - 0.15))
    assert (status["method"], status["assumption"]) == ("flags", "within_class_scores")
    assert status["labels"] is None and status["judge"] is None
    assert [item["flag_rate"]["estimate"] for item in status["periods"]] == [0.45, 0.35]
    first = status["periods"][0]["flags"]
    assert first["lower"] > status["periods"][1]["flags"]["estimate"]
    assert (status["periods"][0]["from"], status["periods"][1]["from"]) == (
        moment(DAY),
        moment(DAY + 86_400),
    )


def test_rows_on_which_the_detector_failed_are_left_out() -> None:
    plain = prevalence_status([period(4000, 1800)], headline())
    failed = prevalence_status([period(4100, 1900, failed=100)], headline())
    assert failed == plain
    assert prevalence_status([period(10, 10, failed=10)], headline())["upper"] == 1.0


@pytest.mark.parametrize(
    ("timeline", "frozen", "reason"),
    [
        ([], headline(), "nothing_logged"),
        ([period(1000, 400)], headline(500, 480), "not_told_apart"),
        ([period(1000, 990)], headline(), "contradiction"),
    ],
)
def test_where_nothing_follows_a_reason_is_given(
    timeline: list[Any], frozen: Headline, reason: str
) -> None:
    status = prevalence_status(timeline, frozen)
    assert (status["estimate"], status["lower"], status["upper"]) == (None, 0.0, 1.0)
    assert status["flags"]["reason"] == reason
    assert all(item["flags"] is None for item in status["periods"])
    json.dumps(status, allow_nan=False)


def test_a_rate_without_counts_has_its_frozen_bounds_and_says_so() -> None:
    known = {"coverage": {"estimate": 0.94, "lower": 0.92, "upper": 0.96}}
    status = prevalence_status([period(4000, 1800)], headline(**known))
    assert status["flags"]["notes"] == ["bounds_as_frozen"]
    assert status["flags"]["coverage"]["lower"] == 0.92 and status["flags"]["confidence"] is None
    stated = {"coverage": {**known["coverage"], "confidence": 0.9}}
    status = prevalence_status([period(4000, 1800)], headline(**stated))
    assert status["flags"]["confidence"] == pytest.approx(1.0 - 0.1 - 2 * 0.05 / 3)
    grouped = prevalence_status([period(4000, 1800)], headline(), noted=["clustered"])
    assert grouped["flags"]["notes"] == ["clustered"]
    nothing = prevalence_status([period(4000, 1800)], headline(coverage={"estimate": None}))
    assert nothing["flags"]["reason"] == "not_told_apart"


@pytest.mark.parametrize("design", ["uniform", "active"])
def test_flags_and_labels_hold_the_truth_and_the_narrower_is_shown(design: str) -> None:
    rng, runs, delta = np.random.default_rng(1), 60, 0.2
    outside = {"flags": 0, "labels": 0, "shown": 0}
    for run in range(runs):
        full = drawn(200, 0.94, 0.15, base=0.3, design=design, seed=run)
        rows = period(5000, int(rng.binomial(5000, 0.3 * 0.94 + 0.7 * 0.15)))
        frozen = headline(int(rng.binomial(500, 0.94)), int(rng.binomial(500, 0.15)), 500)
        status = prevalence_status([rows], frozen, full, delta=delta)
        for name in ("flags", "labels"):
            outside[name] += not status[name]["lower"] <= 0.3 <= status[name]["upper"]
        outside["shown"] += not status["lower"] <= 0.3 <= status["upper"]
        widths = {
            name: status[name]["upper"] - status[name]["lower"] for name in ("flags", "labels")
        }
        assert status["upper"] - status["lower"] == min(widths.values())
        assert status[status["method"]]["lower"] == status["lower"]
    assert outside["flags"] <= binom.isf(1e-4, runs, delta / 2)
    assert outside["labels"] <= binom.isf(1e-4, runs, delta / 2)
    assert outside["shown"] <= binom.isf(1e-4, runs, delta)


def test_flags_alone_are_wrong_where_the_scores_have_changed_and_labels_are_not() -> None:
    # Coverage has fallen to 0.6: flags miss a third of what is hallucinated.
    full = drawn(800, 0.6, 0.15, base=0.5, seed=2)
    rows = period(20_000, round(20_000 * (0.5 * 0.6 + 0.5 * 0.15)))
    status = prevalence_status([rows], headline(), full)
    assert status["flags"]["upper"] < 0.5
    assert status["labels"]["lower"] <= 0.5 <= status["labels"]["upper"]


def test_flags_that_labels_refute_are_not_shown() -> None:
    # Hardly anything is flagged, as if hallucinations were rare; labels say that they are not.
    found = prevalence_status([period(50_000, 7_600)], headline(), drawn(2000, base=0.4, seed=5))
    assert found["flags"]["upper"] < found["labels"]["lower"]
    assert found["method"] == "labels" and found["lower"] == found["labels"]["lower"]


def test_draws_without_a_label_may_be_either() -> None:
    full = drawn(300, base=0.3, seed=3)
    there = np.random.default_rng(4).random(300) < 0.8
    held = replace(full, settled=there, label=np.where(there, full.label, np.nan))
    rows = period(6000, int(full.flagged.mean() * 6000))
    few = prevalence_status([rows], headline(), held)["labels"]
    assert few["n_unknown"] == int((~there).sum()) and few["n"] == int(there.sum())
    for truth in (0.0, 1.0):
        known = replace(held, settled=np.ones(300, bool), label=np.where(there, full.label, truth))
        full_labels = prevalence_status([rows], headline(), known)["labels"]
        assert few["lower"] <= full_labels["lower"] and full_labels["upper"] <= few["upper"]
    # What is hardly labelled at the end waits.
    late = np.arange(300) < 280
    held = replace(full, settled=late, label=np.where(late, full.label, np.nan))
    found = prevalence_status([rows], headline(), held)
    assert found["labels"]["n_unknown"] == 0 and found["confidence"] == pytest.approx(0.95)


def test_each_period_has_the_labels_of_its_draws() -> None:
    full = drawn(240, base=0.3, seed=5)
    timeline = periods(full)
    status = prevalence_status(timeline, headline(), full)
    assert [item["labels"]["n"] for item in status["periods"]] == [24] * 10
    narrow = status["labels"]["upper"] - status["labels"]["lower"]
    assert all(
        item["labels"]["upper"] - item["labels"]["lower"] > narrow for item in status["periods"]
    )
    timeless = [item | {"from": None, "to": None} for item in timeline]
    unknown = prevalence_status(timeless, headline(), full)
    assert all(item["labels"] is None for item in unknown["periods"])
    assert unknown["labels"] == status["labels"]


def test_each_draw_stands_for_the_rows_that_it_was_drawn_from() -> None:
    full = drawn(2000, base=0.3, seed=6)
    busy = np.arange(2000) >= 1000
    label = np.where(busy, np.arange(2000) % 2 == 0, 0.0)
    uneven = replace(full, label=label.astype(float), share=np.where(busy, 0.01, 0.04))
    status = prevalence_status([period(125_000, 50_000)], headline(), uneven)["labels"]
    # Four in five rows are from the busy time, when half were hallucinated.
    assert status["estimate"] == pytest.approx(0.4)
    assert 0.25 < status["lower"] < 0.4 < status["upper"] < 0.55


@pytest.mark.parametrize("code", ["compared_before", "others_tried"])
def test_rates_of_answers_that_may_have_chosen_the_detector_are_told(code: str) -> None:
    frozen = headline().model_copy(update={"warnings": ["few_rows", code]})
    status = prevalence_status([period(4000, 1800)], frozen)
    assert status["flags"]["notes"] == [code]


def test_no_draws_yet_say_nothing_and_cost_their_part() -> None:
    status = prevalence_status([period(4000, 1800)], headline(), promise.watchable(None))
    assert status["method"] == "flags" and status["labels"]["reason"] == "nothing_drawn"
    alone = prevalence_status([period(4000, 1800)], headline())
    assert status["lower"] < alone["lower"] and status["flags"]["confidence"] == 0.975
    with pytest.raises(InputError, match="labels of people"):
        prevalence_status([], headline(), judged=JudgeSample({}, (0, 0), (0, 0)))


def test_counts_of_audited_answers_are_not_taken_for_all_of_them() -> None:
    ends = {"estimate": 0.94, "lower": 0.85, "upper": 0.99, "count": 940, "n": 1000}
    known = {"coverage": {**ends, "method": "betting", "confidence": 0.95}}
    status = prevalence_status([period(4000, 1800)], headline(**known))
    assert status["flags"]["notes"] == ["bounds_as_frozen"]
    assert (status["flags"]["coverage"]["lower"], status["flags"]["coverage"]["upper"]) == (
        ends["lower"],
        ends["upper"],
    )
