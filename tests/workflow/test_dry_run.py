"""Is the time that a run would take told before it, from a few answers that are timed?"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from calibrail import Example
from calibrail.workflow.dry_run import PlannedCalls, PlannedTime, plan_run, plan_time


def test_the_first_answers_are_timed_for_all_of_them() -> None:
    times = count(0.0, 40.0)
    planned = plan_time("example:facts", ["novelty", "fused"], clock=lambda: next(times))
    assert planned == (PlannedTime("novelty", 16, 40.0, 596),)
    assert planned[0].sentence().startswith("novelty: about 25 min for 596 answers")


def test_a_source_that_cannot_be_counted_is_told_by_the_thousand() -> None:
    rows = (Example("Who?", ("Yes.",), "Yes.", label=k % 2, id=str(k)) for k in range(1100))
    (planned,) = plan_time(rows, "novelty", clock=count(0.0, 16.0).__next__)
    assert planned.n_timed == 16 and planned.n_examples is None
    assert "about 17 min for 1,000 answers" in planned.sentence()


def test_quick_scores_are_timed_on_more_answers() -> None:
    quick = count(0.0, 0.1)
    (planned,) = plan_time("example:facts", "novelty", clock=lambda: next(quick))
    # 16, 64, 256 and all but the two that warm up: none of them takes half a second.
    assert (planned.n_timed, planned.seconds) == (594, pytest.approx(0.1))


def test_time_memory_and_cost_of_the_whole_run_are_told() -> None:
    calls = PlannedCalls("judge", "m", "e", 10_000, 10_000, 0, 10_000, 5, 5, False, 12.5)
    times = (PlannedTime("sgi", 16, 1.6, 10_000), PlannedTime("novelty", 160, 0.16, 10_000))
    run = plan_run((calls,), times, 1000, held=lambda: 2 * 10**9, free=lambda: 9 * 10**6)
    assert run is not None and run.seconds == pytest.approx(1010.0)
    assert run.sentence() == (
        "about 10,000 examples will take about 17 min, 2.0 GB of memory and $12.50 for calls to "
        "endpoints"
    )
    assert run.too_large and run.warning().startswith("this run will need about 2.0 GB of memory")
    priceless = replace(calls, dollars=None)
    run = plan_run((priceless,), (), 0, held=lambda: None, free=lambda: None)
    assert run is not None and (run.seconds, run.dollars) == (None, None)
    assert plan_run((), (PlannedTime("sgi", 16, 1.6, None),), 0) is None
