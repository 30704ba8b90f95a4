"""Is a promise said to be broken only where it is, and found to be where it is?"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from calibrail.conformal.sequential.sequential_test import SequentialTest, UnsureTest
from calibrail.labelling.log_sampling import LabelledSample
from calibrail.monitoring import promise
from calibrail.monitoring import promise as draws
from calibrail.monitoring.promise import LabelledBets, promise_status
from calibrail.options import Requirement
from tests.monitoring.drawn import drawn

LIMITS = (0.9, 0.2)
DESIGNS = ["uniform", "active"]


def known(full: LabelledSample, there: np.ndarray) -> LabelledSample:
    """Return what is known once so many labels are there."""
    there = there | ~full.handed_out
    return replace(full, settled=there, label=np.where(there, full.label, np.nan))


def strict(status: dict[str, Any]) -> str:
    return json.dumps(status, allow_nan=False, sort_keys=True)


@pytest.mark.parametrize("design", DESIGNS)
def test_intervals_and_wealth_are_those_of_the_test_while_labelling(design: str) -> None:
    full = drawn(300, design=design, seed=1)
    rng = np.random.default_rng(2)
    there = rng.random(300) < 0.9
    status = promise_status(known(full, there), LIMITS)
    waiting = full.handed_out & ~there
    more = {}
    if design == "active":
        more = {"probability": full.probability, "guess": full.guess}
    test = UnsureTest.of(SequentialTest(Requirement(0.2, 0.9, 0.95), full.drawing)).update(
        full.flagged, np.where(there, full.label, np.nan), waiting, **more
    )
    made = test.certificate()
    assert status["n_pending"] == int(waiting.sum())
    for name, bound in (("coverage", made.coverage), ("fpr", made.fpr)):
        shown = {key: status[name][key] for key in bound.to_dict()}
        assert shown == pytest.approx(bound.to_dict())
        assert status[name]["log_wealth_kept"] <= test.log_wealth()[0 if name == "coverage" else 2]


def test_the_states() -> None:
    assert promise_status(None, LIMITS)["state"] == "undecided"
    assert promise_status(drawn(20), LIMITS)["state"] == "undecided"
    kept = promise_status(drawn(600), LIMITS)
    assert kept["state"] == "kept" and kept["decided"] is None
    assert kept["coverage"]["lower"] >= 0.9 and kept["fpr"]["upper"] <= 0.2
    since = kept["since"]["draw"]
    assert promise_status(drawn(600), LIMITS, delta=1e-6)["since"] is None
    full = drawn(600)
    rows = np.arange(600) < since
    one_less = replace(known(full, rows), batch=np.arange(1, 601))
    assert promise_status(one_less, LIMITS)["state"] == "kept"
    one_less = replace(known(full, np.arange(600) < since - 1), batch=np.arange(1, 601))
    assert promise_status(one_less, LIMITS)["state"] == "undecided"


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("rate", ["coverage", "fpr"])
def test_a_break_after_300_labels_is_found(design: str, rate: str) -> None:
    n = 300 + 500
    late = np.arange(n) >= 300
    rates = {"coverage": np.full(n, 0.95), "fpr": np.full(n, 0.1)}
    rates[rate] = np.where(late, 0.6, 0.95) if rate == "coverage" else np.where(late, 0.5, 0.1)
    status = promise_status(drawn(n, **rates, design=design, seed=4), LIMITS)
    decided = status["decided"]
    assert status["state"] == "broken" and decided["rate"] == rate
    assert decided["draw"] > 300 and decided["log_wealth"] >= decided["at"] == np.log(2 / 0.05)
    assert status["since"]["time"] == decided["time"] is not None
    assert status["lately"]["alarm"] and abs(status["lately"]["since"]["draw"] - 300) < 60
    assert status["lately"]["first"]["draw"] > 300


def test_broken_is_for_ever_and_kept_is_not() -> None:
    n = 1500
    rates = np.where(np.arange(n) < 300, 0.5, 0.99)
    whole = drawn(n, rates, seed=5)
    parts = [draws.take_rows(whole, np.arange(n) < 300), whole]
    first, later = (promise_status(part, LIMITS) for part in parts)
    assert later["coverage"]["estimate"] > first["coverage"]["estimate"]
    assert later["decided"]["draw"] == first["decided"]["draw"]
    assert not later["lately"]["alarm"]
    # Labels that were changed since do not take it back either.
    mended = replace(parts[0], label=np.where(parts[0].flagged, 1.0, 0.0))
    again = promise_status(mended, LIMITS, decided=first["decided"])
    assert again["state"] == "broken" and not again["decided"]["shown"]
    assert promise_status(mended, LIMITS)["state"] == "kept"
    turned = drawn(n, np.where(np.arange(n) < 700, 0.96, 0.87), 0.05, seed=6)
    early = draws.take_rows(turned, np.arange(n) < 700)
    assert promise_status(early, LIMITS)["state"] == "kept"
    assert promise_status(turned, LIMITS)["state"] == "undecided"


@pytest.mark.parametrize("design", DESIGNS)
def test_labels_in_any_order_never_show_more_than_all_of_them(design: str) -> None:
    full = drawn(160, 0.5, 0.5, design=design, groups=3, seed=7)
    rng = np.random.default_rng(8)
    limits = {"coverage": 0.9, "fpr": 0.2}
    ends = LabelledBets(full, limits, 0.05, 160).worth("broken")
    seen_broken = False
    order = rng.permutation(np.flatnonzero(full.handed_out))
    for n_there in range(0, len(order), 7):
        there = np.isin(np.arange(160), order[:n_there])
        now = LabelledBets(known(full, there), limits, 0.05, 160)
        for rate, path in now.worth("broken").items():
            assert np.all(path <= ends[rate] + 1e-9)
        fallen = now.decided(now.worth("broken")) is not None
        assert fallen or not seen_broken
        seen_broken = fallen
    status = promise_status(full, LIMITS, by="group")
    assert seen_broken and status["state"] == "broken"
    assert status["decided"]["draw"] <= 160


def delayed(full: LabelledSample, kind: str, rng: np.random.Generator) -> list[np.ndarray]:
    """Return which labels are there at each look: one after every ten draws, and at the end."""
    n = len(full)
    hallucinated = full.label == 1.0
    delay = {
        "none": np.zeros(n),
        "random": rng.exponential(30.0, n),
        # Bad news first, and good news the later the more bad news there was.
        "by labels": np.where(hallucinated & ~full.flagged, 0.0, np.cumsum(hallucinated) * 2.0),
        "for ever": np.where(rng.random(n) < 0.2, np.inf, 0.0),
    }[kind]
    due = np.arange(n) + delay
    return [due <= look for look in [*range(0, n, 10), n]]


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("kind", ["none", "random", "by labels", "for ever"])
def test_rates_on_the_limit_are_rarely_called_broken_at_any_look(design: str, kind: str) -> None:
    runs, delta, rng = 150, 0.2, np.random.default_rng(9)
    fallen = 0
    for run in range(runs):
        full = drawn(100, 0.9, 0.2, base=0.5, design=design, seed=1000 + run)
        limits = {"coverage": 0.9, "fpr": 0.2}
        looks = delayed(full, kind, rng)
        chosen = looks if kind != "none" else looks[-1:]
        # With every label there the wealth at its highest is that of every look so far.
        watched = (LabelledBets(known(full, there), limits, delta, 100) for there in chosen[::5])
        fallen += any(item.decided(item.worth("broken")) is not None for item in watched)
    assert fallen <= binom.isf(1e-4, runs, delta)


def test_groups_have_their_own_share_of_the_error() -> None:
    rng = np.random.default_rng(10)
    n = 1200
    third = np.arange(n) % 3 == 2
    full = drawn(n, np.where(third, 0.6, 0.99), 0.1, groups=3, seed=11)
    status = promise_status(full, LIMITS, by="group")
    assert [item["group"] for item in status["groups"]] == ["g0", "g1", "g2"]
    assert [item["delta"] for item in status["groups"]] == [0.0125, 0.025 / 6, 0.025 / 12]
    assert [item["state"] for item in status["groups"]][2] == "broken"
    assert status["delta_all"] == 0.025 and status["coverage"]["confidence"] == 0.975
    assert sum(item["n_labels"] for item in status["groups"]) == n == status["n_labels"]
    mine = status["groups"][2]["decided"]
    assert mine["draw"] % 3 == 0 and full.group[mine["draw"] - 1] == mine["group"] == "g2"
    assert full.batch[mine["draw"] - 1] == mine["batch"]
    each = promise_status(full, LIMITS, by="group", each=True)
    assert each["state"] == "broken" and each["decided"] == {**mine, "shown": True}
    # A group unknown belongs to none; all answers count for all.
    names = full.group.copy()
    names[rng.random(n) < 0.5] = None
    some = promise_status(replace(full, group=names), LIMITS, by="group")
    assert sum(item["n_labels"] for item in some["groups"]) < n == some["n_labels"]
    assert promise_status(replace(full, language=names), LIMITS, by="language")["groups"]


@pytest.mark.parametrize("by", [None, "group"])
def test_false_alarms_about_all_and_groups_together(
    by: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promise, "_POINTS", 1)
    runs, delta = 40, 0.3
    fallen = sum(
        promise_status(
            drawn(80, 0.9, 0.2, base=0.5, groups=4, seed=2000 + run),
            LIMITS,
            delta,
            by=by,
            each=True,
        )["state"]
        == "broken"
        for run in range(runs)
    )
    assert fallen <= binom.isf(1e-4, runs, delta)


def test_intervals_hold_the_mean_rate_at_all_times_while_rates_drift(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(promise, "_POINTS", 10)
    runs, n, outside, rng = 80, 200, 0, np.random.default_rng(12)
    for run in range(runs):
        # The rate follows what was caught last: a bad label makes bad ones likelier.
        rates = np.clip(0.85 + 0.15 * np.sin(np.arange(n) / 20 + rng.random()), 0.0, 1.0)
        full = drawn(n, rates, base=0.5, seed=3000 + run)
        of_class = full.label == 1.0
        course = promise_status(full, LIMITS, delta=0.2)["course"]
        at = np.array(course["draw"]) - 1
        total = np.maximum(np.cumsum(of_class), 1)
        mean = (np.cumsum(rates * of_class) / total)[at]
        seen = np.cumsum(of_class)[at] > 0
        low, high = (np.array(course["coverage"][end]) for end in ("lower", "upper"))
        outside += bool(np.any(seen & ((mean < low) | (mean > high))))
    assert outside <= binom.isf(1e-4, runs, 0.2)


def test_one_limit_alone_has_the_whole_error() -> None:
    full = drawn(100, 0.5)
    status = promise_status(full, (0.9, None))
    assert status["limits"] == {"coverage": 0.9, "fpr": None}
    assert status["coverage"]["wanted"] == pytest.approx(np.log(1 / 0.05))
    assert status["fpr"]["wanted"] is None and status["fpr"]["n"] > 0
    assert status["state"] == "broken" and status["decided"]["rate"] == "coverage"
    # What cannot be bet on is not watched.
    assert promise_status(full, (1.0, None))["state"] == "undecided"


@pytest.mark.parametrize("design", DESIGNS)
def test_the_status_is_strict_json_and_the_same_each_time(design: str) -> None:
    full = drawn(150, 0.7, design=design, groups=2, seed=13)
    assert strict(promise_status(full, LIMITS, by="group")) == strict(
        promise_status(full, LIMITS, by="group")
    )
    for n in (0, 1, 2):
        few = promise_status(drawn(n, design=design, groups=2), LIMITS, by="group")
        assert json.loads(strict(few))["n_drawn"] == n
    timeless = replace(full, time=np.full(150, np.nan))
    assert promise_status(timeless, LIMITS)["course"]["time"][-1] is None
    course = promise_status(full, LIMITS)["course"]
    assert len(course["draw"]) <= 60 and course["draw"][-1] == 150
    assert all(len(course[name]) == len(course["draw"]) for name in ("time", "log_e_lately"))


def test_the_latest_labels_have_plain_intervals() -> None:
    full = drawn(400, seed=14)
    latest = promise_status(full, LIMITS)["lately"]["latest"]
    assert latest["n"] == promise.LATEST and latest["from"]["draw"] == 301
    rows = (np.arange(400) >= 300) & (full.label == 1.0)
    assert latest["coverage"]["count"] == int(full.flagged[rows].sum())
    assert latest["coverage"]["method"] == "clopper-pearson" and latest["n_left_out"] == 0
    waiting = np.isin(np.arange(400), (350, 390))
    late = replace(full, settled=~waiting, label=np.where(waiting, np.nan, full.label))
    latest = promise_status(late, LIMITS)["lately"]["latest"]
    assert (latest["n"], latest["n_left_out"], latest["from"]["draw"]) == (100, 2, 299)


def test_a_group_that_falls_leaves_the_state_of_all_as_it_is() -> None:
    n = 900
    full = drawn(n, np.where(np.arange(n) % 9 == 0, 0.3, 0.99), 0.05, groups=9, seed=5)
    status = promise_status(full, LIMITS, by="group")
    assert [item["state"] for item in status["groups"]].count("broken") == 1
    assert status["state"] != "broken" and status["decided"] is None
    assert promise_status(full, LIMITS, by="group", each=True)["decided"]["group"] == "g0"


def test_with_repeated_questions_what_is_said_holds_for_all_draws_and_for_the_first() -> None:
    full = drawn(200, 0.97, 0.05)
    alone = promise_status(full, LIMITS)
    assert alone["repeated"] == 0
    again = np.concatenate([np.arange(200), np.repeat(np.arange(20), 10)])
    ids = full.id[again].copy()
    ids[200:] = [f"b{number}" for number in range(200)]
    many = replace(draws.take_rows(full, again), id=ids, order=None, question=full.id[again])
    many = replace(many, batch=np.sort(many.batch), settled=np.arange(400) != 399)
    found = promise_status(many, LIMITS)
    assert (found["repeated"], found["n_drawn"], found["n_pending"]) == (200, 400, 1)
    every = promise_status(replace(many, question=None), LIMITS)
    for rate in draws.RATES:
        assert found[rate]["lower"] <= min(alone[rate]["lower"], every[rate]["lower"]) + 1e-12
        assert found[rate]["upper"] >= max(alone[rate]["upper"], every[rate]["upper"]) - 1e-12


def asked(kind: str, run: int) -> LabelledSample:
    """Return draws of which many are of five questions, or ten each of questions of their own."""
    rng, n = np.random.default_rng(run), 600
    full, hallucinated, popular = drawn(n, seed=run), rng.random(n) < 0.5, rng.random(n) < 0.6
    question = np.where(popular, rng.integers(0, 5, n), rng.integers(10, 20_000, n))
    coverage = np.where(popular, *{"kept": (0.97, 0.82), "broken": (0.6, 0.98)}.get(kind, (1, 1)))
    flagged = rng.random(n) < np.where(hallucinated, coverage, 0.1)
    if kind == "alike":
        question = np.arange(n) // 10
        hallucinated, caught, alarm = (
            (rng.random(60) < share)[question] for share in (0.5, 0.93, 0.1)
        )
        flagged = np.where(hallucinated, caught, alarm)
    names = np.array([f"q{number}" for number in question], object)
    label, batch = hallucinated.astype(float), 1 + np.arange(n) // 20
    return replace(full, flagged=flagged, label=label, batch=batch, question=names)


@pytest.mark.parametrize(
    ("kind", "never"), [("kept", "broken"), ("broken", "kept"), ("alike", "broken")]
)
def test_repeated_questions_make_no_false_verdict(
    kind: str, never: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promise, "_POINTS", 1)
    runs = 20
    wrong = sum(promise_status(asked(kind, run), LIMITS)["state"] == never for run in range(runs))
    assert wrong <= binom.ppf(0.999, runs, 0.05)


def test_a_false_alarm_of_late_breaks_takes_as_many_labels_as_stated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(promise, "_POINTS", 1)
    runs, n = 80, 300
    first = []
    for run in range(runs):
        full = drawn(n, 0.9, 0.2, base=0.5, seed=4000 + run)
        at = promise_status(full, LIMITS)["lately"]["first"]
        first.append(at["draw"] if at else np.inf)
    # P(T <= t) <= t / 1,001.
    assert np.sum(np.array(first) <= n) <= binom.isf(1e-4, runs, n / 1001)


def test_a_promise_for_each_group_is_kept_where_each_group_is() -> None:
    full = drawn(3000, 0.97, 0.05, groups=2, seed=3)
    both = promise_status(full, LIMITS, by="group", each=True)
    assert both["state"] == "kept" and [item["state"] for item in both["groups"]] == ["kept"] * 2
    assert both["since"] == max((g["since"] for g in both["groups"]), key=lambda at: at["draw"])
    # Of one group next to nothing is labelled, and all answers together are shown.
    few = draws.take_rows(full, (full.group == "g0") | (np.arange(3000) < 40))
    together, each = (promise_status(few, LIMITS, by="group", each=own) for own in (False, True))
    assert (together["state"], each["state"], each["since"]) == ("kept", "undecided", None)


@pytest.mark.parametrize("design", ["uniform", "active"])
def test_windows_show_when_a_rate_fell(design: str) -> None:
    coverage = np.where(np.arange(1_600) < 800, 0.97, 0.5)
    full = drawn(1_600, coverage, design=design, seed=3)
    windows = promise_status(full, (0.9, 0.3))["windows"]
    assert sum(window["n"] for window in windows) == np.count_nonzero(full.handed_out)
    # 67 days: weeks hold labels enough.
    assert len(windows) == 10 and windows[0]["from"] < windows[0]["to"] < windows[1]["from"]
    rates = [window["coverage"] for window in windows]
    assert all(rate["lower"] < 0.97 < rate["upper"] or rate["estimate"] > 0.9 for rate in rates[:4])
    assert all(rate["estimate"] < 0.75 for rate in rates[5:])
    assert rates[-2]["upper"] < 0.9


def test_windows_need_neither_times_nor_many_labels() -> None:
    full = drawn(400, seed=4)
    undated = promise_status(replace(full, time=np.full(400, np.nan)), (0.9, 0.3))["windows"]
    assert [window["from"] for window in undated] == [None] * len(undated)
    assert len(undated) == int((full.label == 1).sum()) // 20
    one = promise_status(drawn(15, seed=5), (0.9, 0.3))["windows"]
    assert len(one) == 1 and one[0]["n"] == 15
    waiting = replace(full, label=np.full(400, np.nan), settled=np.zeros(400, bool))
    assert promise_status(waiting, (0.9, 0.3))["windows"] == []
