"""Do a judge's labels count only as far as its errors are known?"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from calibrail.conformal import confidence_sequence
from calibrail.monitoring import promise
from calibrail.monitoring.prevalence import (
    JudgeSample,
    judge_status,
    labels_saved,
    labels_status,
    prevalence_status,
)
from calibrail.report.messages import is_known
from tests.monitoring.drawn import drawn
from tests.monitoring.test_prevalence import headline, period

BASE, COVERAGE, FPR = 0.3, 0.9, 0.15
FLAGGED = BASE * COVERAGE + (1 - BASE) * FPR
#: Of a log of many rows.
ROWS = (round(20_000 * FLAGGED), 20_000)


def judged(
    full: Any, tpr: float, fpr: float, rng: np.random.Generator, shift: float = 0.0
) -> JudgeSample:
    """Return a judge with these error rates, who errs otherwise where people do not label."""
    positive = rng.random(len(full)) < np.where(full.truth == 1.0, tpr, fpr)
    among = {True: BASE * COVERAGE / FLAGGED, False: BASE * (1 - COVERAGE) / (1 - FLAGGED)}
    counts = []
    for side, n in ((True, ROWS[0]), (False, ROWS[1] - ROWS[0])):
        share = among[side]
        rate = share * (tpr - shift) + (1.0 - share) * (fpr + shift)
        counts.append((int(rng.binomial(n, rate)), n))
    labels = {name: int(yes) for name, yes in zip(full.audited.id, positive, strict=True)}
    return JudgeSample(labels, counts[0], counts[1])


class Known:
    """Draws with the truth of all of them."""

    def __init__(self, n: int, design: str, seed: int) -> None:
        self.audited = drawn(n, COVERAGE, FPR, base=BASE, design=design, seed=seed)
        rng = np.random.default_rng(seed)
        self.truth = (rng.random(n) < BASE).astype(float)  # The first numbers of ``drawn``.
        known = ~np.isnan(self.audited.label)
        assert np.array_equal(self.truth[known], self.audited.label[known])

    def __len__(self) -> int:
        return len(self.truth)


@pytest.mark.parametrize("design", ["uniform", "active"])
def test_bounds_through_a_judge_hold_the_truth(design: str) -> None:
    rng, runs, delta = np.random.default_rng(1), 60, 0.2
    truths, outside, shown = {"": BASE}, 0, 0
    if design == "uniform":
        truths |= {"coverage": COVERAGE, "fpr": FPR}
    for run in range(runs):
        full = Known(300, design, run)
        status = judge_status(judged(full, 0.95, 0.03, rng), full.audited, ROWS, delta)
        parts = {name: status[name] if name else status for name in truths}
        outside += any(
            not parts[name]["lower"] <= truth <= parts[name]["upper"]
            for name, truth in truths.items()
        )
        shown += status["upper"] - status["lower"] < 0.6
    assert outside <= binom.isf(1e-4, runs, delta)
    assert shown > runs / 2


def test_a_judge_who_errs_otherwise_where_people_do_not_look_is_believed_wrongly() -> None:
    full = Known(3000, "uniform", 2)
    rng = np.random.default_rng(3)
    status = judge_status(judged(full, 0.95, 0.05, rng, shift=0.4), full.audited, ROWS, 0.05)
    assert not status["lower"] <= BASE <= status["upper"]


def test_a_judge_that_tells_nothing_bounds_nothing() -> None:
    full = Known(400, "uniform", 4)
    status = judge_status(
        judged(full, 0.5, 0.5, np.random.default_rng(5)), full.audited, ROWS, 0.05
    )
    assert status["reason"] == "not_told_apart"
    assert (status["lower"], status["upper"], status["saved"]) == (0.0, 1.0, 0)
    for name in ("flagged", "passed"):
        assert status[name]["reason"] == "not_told_apart"
        assert status[name]["tpr"]["lower"] <= status[name]["fpr"]["upper"]
    json.dumps(status, allow_nan=False)


def test_a_judge_must_label_the_draws_that_the_lot_passed_over() -> None:
    full, rng = Known(600, "active", 3), np.random.default_rng(4)
    all_of_them = judged(full, 0.95, 0.03, rng)
    known = judge_status(all_of_them, full.audited, ROWS, 0.05)
    assert known["reason"] is None and known["n"] > 100 and known["share_judged"] == 1.0
    ids = full.audited.id[full.audited.handed_out].tolist()
    some = replace(all_of_them, labels={name: all_of_them.labels[name] for name in ids})
    status = judge_status(some, full.audited, ROWS, 0.05)
    assert status["reason"] == "draws_not_judged" and status["share_judged"] == 1.0
    assert (status["lower"], status["upper"]) == (0.0, 1.0)


def test_beside_unequal_draws_a_judge_may_do_as_it_likes() -> None:
    full, rng, rows = Known(1500, "active", 5), np.random.default_rng(6), [period(ROWS[1], ROWS[0])]
    people = labels_status(full.audited, 0.025)
    widths: dict[tuple[float, float], float] = {}
    for rates in ((0.97, 0.03), (0.5, 0.5), (0.03, 0.97)):
        said = judged(full, *rates, rng)
        status = prevalence_status(rows, headline(), full.audited, said)["judge"]
        assert status["reason"] is None and status["lower"] <= BASE <= status["upper"]
        widths[rates] = status["upper"] - status["lower"]
    narrow, useless, inverted = widths.values()
    assert narrow < people["upper"] - people["lower"] < useless < inverted < 0.4
    assert is_known(f"monitor.assumes_{status['assumption']}")
    # Where it labelled some of the other answers its share among all is bounded, not known.
    said = judged(full, 0.97, 0.03, rng)
    some = [(round(called * 0.1), round(n * 0.1)) for called, n in (said.flagged, said.passed)]
    part = judge_status(replace(said, flagged=some[0], passed=some[1]), full.audited, ROWS, 0.05)
    whole = judge_status(said, full.audited, ROWS, 0.05)
    assert part["share_judged"] == pytest.approx(0.1, abs=0.001)
    assert part["lower"] < whole["lower"] < BASE < whole["upper"] < part["upper"]


def test_what_is_saved_is_what_a_direct_count_gives() -> None:
    full = drawn(60, COVERAGE, FPR, base=BASE, seed=6)
    delta, width = 0.05, 0.12
    hits = int(full.label.sum())

    def width_of(times: int) -> float:
        lower, upper = confidence_sequence(hits * times, 60 * times, 1 - delta / 2)
        return float(upper - lower)

    saved = labels_saved(full, delta, width)
    assert saved is not None and saved > 60
    times = (60 + saved) / 60
    assert width_of(int(np.floor(times))) >= width >= width_of(int(np.ceil(times)))
    for times in (2, 3, 5):
        again = labels_saved(full, delta, width_of(times))
        assert again == pytest.approx(60 * (times - 1), abs=1)
    assert labels_saved(full, delta, width_of(1) + 1e-9) == 0
    assert labels_saved(full, delta, 1e-6) is None
    assert labels_saved(promise.watchable(None), delta, 0.5) is None


def test_a_good_judge_saves_labels_and_a_bad_one_none() -> None:
    full, rng = Known(1500, "uniform", 7), np.random.default_rng(8)
    good = judge_status(judged(full, 0.995, 0.002, rng), full.audited, ROWS, 0.05)
    bad = judge_status(judged(full, 0.7, 0.3, rng), full.audited, ROWS, 0.05)
    assert good["saved"] > 0 == bad["saved"]
    assert good["n"] == 1500 and abs(good["estimate"] - BASE) < 0.03
    few = judge_status(judged(Known(20, "uniform", 9), 0.99, 0.01, rng), full.audited, ROWS, 0.05)
    assert few["n"] == 20


def test_all_three_ways_stand_side_by_side() -> None:
    full = Known(1200, "uniform", 13)
    said = judged(full, 0.99, 0.01, np.random.default_rng(14))
    rows = [period(ROWS[1], ROWS[0])]
    status = prevalence_status(rows, headline(), full.audited, said)
    widths = {
        name: status[name]["upper"] - status[name]["lower"] for name in ("flags", "labels", "judge")
    }
    assert status["method"] == min(widths, key=lambda name: widths[name])
    assert status["judge"]["confidence"] == pytest.approx(1 - 0.05 / 3)
    assert status["lower"] <= BASE <= status["upper"]
