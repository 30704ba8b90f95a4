"""Is the time that a run would take told before it, from a few answers that are timed?"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from calibrail import Example, use_engine
from calibrail.options import EngineOptions
from calibrail.pipelines import estimate
from calibrail.pipelines.estimate import (
    PlannedCalls,
    PlannedTime,
    longest_share,
    plan_run,
    plan_time,
    times_sooner,
    what_it_rests_on,
)


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


def planned_with(options: EngineOptions, *, step: float = 40.0, worked: float = 0.0) -> PlannedTime:
    clock, work = count(0.0, step), count(0.0, worked)
    with use_engine(options):
        (planned,) = plan_time(
            "example:facts", "novelty", clock=lambda: next(clock), worked=lambda: next(work)
        )
    return planned


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "cores", lambda: 4)


@pytest.mark.usefixtures("four_cores")
def test_workers_share_what_one_process_was_timed_for(tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    # 596 answers in shards of 149: one for each of four workers.
    planned = planned_with(EngineOptions("processes", shards=shards, shard_rows=149))
    assert planned == PlannedTime("novelty", 16, 40.0, 596, 4, 4.0)
    assert planned.sentence() == (
        "novelty: about 6 min for 596 answers with 4 workers at a time, computed from about 25 min "
        "in one process of this machine, by 16 that were timed"
    )
    run = plan_run((), (planned,), 0)
    assert run is not None and run.seconds == pytest.approx(596 * 40.0 / 16 / 4)
    # Nothing was computed elsewhere, and nothing kept.
    assert not shards.exists()
    # More workers than cores, and fewer.
    assert planned_with(EngineOptions("processes", 64, shard_rows=149)).sooner == 4.0
    assert planned_with(EngineOptions("processes", 2, shard_rows=149)).sooner == 2.0
    # One shard: one worker has it all.
    assert planned_with(EngineOptions("processes")).sooner == 1.0


@pytest.mark.usefixtures("four_cores")
def test_cores_that_one_process_kept_busy_are_not_gained_again() -> None:
    each = EngineOptions("processes", shard_rows=149)
    assert planned_with(each, worked=80.0).sooner == pytest.approx(2.0)
    assert planned_with(each, worked=160.0).sooner == pytest.approx(1.0)
    # Two workers have two threads each; a single one, of four that could be, has one of four cores.
    two = EngineOptions("processes", 2, shard_rows=149)
    assert planned_with(two, worked=80.0).sooner == pytest.approx(2.0)
    one_shard = planned_with(EngineOptions("processes"), worked=160.0)
    assert one_shard.sooner == pytest.approx(0.25)
    assert "about 99 min for 596 answers with 4 workers" in one_shard.sentence()
    assert "from about 25 min in one process" in one_shard.sentence()


def test_processes_share_one_gpu_and_actors_may_have_their_own() -> None:
    assert times_sooner(EngineOptions("processes", 2), None, 100.0, on_gpu=True) == 1.0
    assert times_sooner(EngineOptions("ray", 8, gpus=1.0), None, 100.0, on_gpu=True) == 8.0


@pytest.mark.usefixtures("four_cores")
def test_of_a_cluster_the_workers_count_and_nothing_else_is_known() -> None:
    cluster = EngineOptions("ray", 8, shard_rows=10, ray_address="head:6379", shards=Path("/s"))
    planned = planned_with(cluster, worked=160.0)
    # 59 shards of 10 and one of 6: eight full rounds.
    assert (planned.workers, planned.sooner) == (8, pytest.approx(596 / 80))
    assert "how fast the cluster's machines are is not known" in what_it_rests_on(cluster)
    assert planned_with(replace(cluster, workers=(1, 8))) == planned
    unsaid = planned_with(replace(cluster, workers=None))
    assert (unsaid.workers, unsaid.sooner) == (None, 1.0)
    assert unsaid.sentence() == (
        "novelty: about 25 min for 596 answers in one process of this machine, by 16 that were "
        "timed, to be divided by the cluster's workers"
    )
    # One that is started on this machine has its cores.
    assert planned_with(EngineOptions("ray", shard_rows=149)).workers == 4


@pytest.mark.usefixtures("four_cores")
def test_what_cannot_be_sent_is_done_by_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "is_portable", lambda score: False)
    planned = planned_with(EngineOptions("processes", shard_rows=149))
    assert planned == PlannedTime("novelty", 16, 40.0, 596)
    assert "on this machine" in planned.sentence()


def test_the_longest_share_is_what_taking_shards_in_turn_gives() -> None:
    for n in (1, 7, 40, 95, 100, 101):
        for rows in (1, 10, 33, 200):
            for workers in (1, 2, 3, 8):
                ends = [0] * workers
                for first in range(0, n, rows):
                    ends.sort()
                    ends[0] += min(rows, n - first)
                assert longest_share(n, rows, workers) == max(ends)


@pytest.mark.usefixtures("four_cores")
def test_long_texts_make_small_shards() -> None:
    options = EngineOptions("processes", 2)
    assert times_sooner(options, 4096, 1_000.0) == 1.0
    # 1,000 answers of 8,000 characters are a shard: five of them, in three rounds.
    assert times_sooner(options, 5000, 8_000.0) == pytest.approx(5 / 3)
