"""Is the rate that of the recent past, and is it told in time what a run will need?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from calibrail.cli.progress import SETTLED, Pace
from calibrail.formatting import spoken_bytes
from calibrail.pipelines.estimate import SCORES_KEPT, TEXTS_KEPT

GB = 10**9


class Run:
    """A pace with a time, an amount of memory and lines that a test sets and sees."""

    def __init__(self, total: int | None, *, kept: int = 0, texts: bool = True) -> None:
        self.now, self.held, self.free, self.lines = 0.0, GB, 100 * GB, list[str]()
        self.total = total
        self.pace = Pace(
            "scoring",
            lambda: self.now,
            held=lambda: self.held,
            free=lambda: self.free,
            kept=kept,
        )
        self.pace.say = self.lines.append
        self.reads(texts)

    def reads(self, texts: bool = True) -> None:
        present = frozenset({"response", "label"} if texts else {"label"})
        reading: Any = SimpleNamespace(
            about_in_all=lambda: self.total, columns=SimpleNamespace(present=present)
        )
        self.pace.reads(reading)

    def to(self, now: float, done: int) -> str:
        self.now = now
        self.pace(done)
        return self.pace.words()


def test_shards_end_in_leaps_and_the_rate_is_even() -> None:
    run = Run(1_000_000)
    # Two workers, each 300 s a shard of 4,096, a few seconds apart.
    for k in range(1, 9):
        run.to(300.0 * k, 4096 * (2 * k - 1))
        words = run.to(300.0 * k + 5.0, 4096 * 2 * k)
    assert "65,536 of about 1,000,000 examples, 2" in words
    seconds = (1_000_000 - 65_536) * 300.0 / 8192
    assert abs(float(words.split()[-3]) - seconds / 3600.0) < 0.15 * seconds / 3600.0
    # Between two shards nothing changes.
    run.now += 250.0
    assert run.pace.words() == words


def test_what_an_earlier_run_has_done_does_not_spoil_the_rate() -> None:
    run = Run(10_000_000)
    for k in range(1, 1001):
        run.to(0.002 * k, 4096 * k)
    # The first shard that is computed is under way: nothing is known of it yet.
    run.now = 25.0
    assert run.pace.words() == "scoring: 4,096,000 of about 10,000,000 examples"
    words = run.to(32.0, 4096 * 1001)
    assert ", 137 a second, about 12.0 h left" in words
    assert ", 137 a second, about 12.0 h left" in run.to(62.0, 4096 * 1002)


def test_work_that_becomes_slower_or_faster_is_seen_within_two_minutes() -> None:
    run = Run(100_000)
    done = 0
    for second in range(1, 301):
        done += 100
        words = run.to(float(second), done)
    assert ", 100 a second" in words
    for second in range(301, 421):
        done += 20
        words = run.to(float(second), done)
    assert ", 20 a second" in words
    for second in range(421, 541):
        done += 200
        words = run.to(float(second), done)
    assert ", 200 a second" in words


def test_a_standstill_is_seen() -> None:
    run = Run(1000)
    for second in range(1, 11):
        run.to(float(second), 10 * second)
    run.now = 12.0
    assert ", 10 a second, about 90 s left" in run.pace.words()
    run.now = 100.0
    assert run.pace.words() == "scoring: 100 of about 1,000 examples"


def test_loading_models_is_no_part_of_the_rate() -> None:
    run = Run(10_000)
    run.to(60.0, 100)
    # Of the loading and the first step together there is no rate.
    assert run.to(62.0, 120) == "scoring: 120 of about 10,000 examples"
    assert ", 10 a second" in run.to(65.0, 150)


@pytest.mark.parametrize(("total", "left"), [(300, "20 s"), (30_000, "50 min")])
def test_one_answer_after_ten_seconds_of_loading_foretells_nothing(total: int, left: str) -> None:
    run = Run(total)
    run.to(10.1, 1)
    for done in range(2, 50):
        assert run.to(10.0 + 0.1 * done, done).endswith("examples") and run.lines == []
    for done in range(50, 101):
        words = run.to(10.0 + 0.1 * done, done)
    assert words.endswith(f"{total:,} examples, 10 a second, about {left} left")
    # What takes less than a minute is not worth a line.
    told = [line.split(" and ")[0] for line in run.lines]
    foretold = "scoring about 30,000 examples will take about 50 min"
    assert told == ([foretold] if total == 30_000 else [])


def test_shares_of_a_block_that_follow_its_loading_foretell_what_the_blocks_take() -> None:
    run = Run(100_000)
    # A block of 1,024 in sixteen batches of half a second; what follows it tells nothing new.
    run.to(10.5, 64)
    for k in range(2, 17):
        run.to(10.0 + 0.5 * k, 64 * k)
        assert (run.lines == []) == (run.now < 15.5)
    run.to(26.0, 1024)
    for k in range(1, 17):
        words = run.to(26.0 + 0.5 * k, 1024 + 64 * k)
    (line,) = run.lines
    assert line.startswith("scoring about 100,000 examples will take about 13 min")
    assert "84 a second, about 19 min left" in words


def test_one_step_that_lasts_is_no_rate_until_another_lies_after_it() -> None:
    run = Run(1_000_000)
    run.to(10.0, 1024)
    # The end of the block is told again, long after its last share.
    run.to(16.0, 1024)
    assert run.lines == []
    run.to(20.0, 2048)
    assert [line.split(" and ")[0] for line in run.lines] == [
        "scoring about 1,000,000 examples will take about 2.7 h"
    ]


def test_another_pass_and_a_restart_begin_anew() -> None:
    run = Run(1000)
    run.to(10.0, 1000)
    run.reads()
    run.now = 14.0
    assert run.pace.words() == "scoring: 0 examples, 4 s so far"
    run.to(20.0, 100)
    assert "150 of about 1,000 examples, 10 a second" in run.to(25.0, 150)
    # Fewer than before: another set of answers of the same source.
    run.to(30.0, 50)
    assert "100 of about 1,000 examples, 10 a second" in run.to(35.0, 100)


def test_after_the_first_blocks_it_is_told_once_what_the_run_will_need() -> None:
    run = Run(1_000_000)
    run.to(3.0, 1024)
    assert run.lines == []
    run.to(6.0, 2048)
    assert run.lines == []
    run.to(9.0, 3072)
    assert run.lines == [
        "scoring about 1,000,000 examples will take about 49 min and 1.0 GB of memory"
    ]
    for k in range(4, 100):
        run.to(3.0 * k, 1024 * k)
    assert len(run.lines) == 1


def test_the_first_block_alone_and_short_runs_say_nothing() -> None:
    one_block = Run(1_000_000)
    one_block.to(100.0, 1024)
    short = Run(10_240)
    for k in range(1, 11):
        short.to(3.0 * k, 1024 * k)
    unknown = Run(None)
    for k in range(1, 100):
        unknown.to(3.0 * k, 1024 * k)
    assert one_block.lines == short.lines == unknown.lines == []


def test_a_run_that_turns_out_far_longer_says_so_again() -> None:
    run = Run(1_000_000)
    for second in range(1, 60):
        run.to(float(second), 1000 * second)
    for second in range(60, 400):
        run.to(float(second), 59_000 + 100 * (second - 59))
    assert (
        run.lines[0]
        == "scoring about 1,000,000 examples will take about 17 min and 1.0 GB of memory"
    )
    assert 2 <= len(run.lines) <= 5 and run.lines[-1].startswith(
        "scoring about 1,000,000 examples will take about 2."
    )


@pytest.mark.parametrize(("texts", "each"), [(True, TEXTS_KEPT), (False, SCORES_KEPT)])
def test_memory_that_will_not_suffice_is_told_in_time(texts: bool, each: int) -> None:
    run = Run(100_000_000, kept=TEXTS_KEPT, texts=texts)
    run.free = 4 * GB
    run.to(3.0, 100_000)
    run.to(8.0, 200_000)
    more = each * (100_000_000 - 200_000)
    needed = f"{spoken_bytes(GB + more)} of memory"
    assert run.lines[0].endswith(needed)
    assert run.lines[1].startswith(
        f"warning: this run will need about {needed}, {spoken_bytes(more)} more than now, and "
        "4.0 GB are free: read a part with limit=... or sample=...; with shards=..."
    )
    run.to(14.0, 400_000)
    assert len(run.lines) == 2


def test_memory_that_grows_with_the_rows_is_foreseen_and_a_store_that_fills_is_not() -> None:
    growing, filling = Run(10_000_000), Run(10_000_000)
    for run, most in ((growing, 10**12), (filling, 5000 * SETTLED)):
        run.free = 20 * GB
        for k in range(1, 60):
            done = 4096 * k
            run.held = GB + min(5000 * done, most)
            run.to(6.0 * k, done)
    assert [line.split(":")[0] for line in growing.lines] == [
        "scoring about 10,000,000 examples will take about 4.1 h and 1.0 GB of memory",
        "warning",
    ]
    assert "about 51 GB of memory" in growing.lines[1] and "20 GB are free" in growing.lines[1]
    assert growing.pace.done > 4 * SETTLED
    assert len(filling.lines) == 1


def test_what_judges_cost_follows_from_the_recent_calls() -> None:
    run = Run(100_000)
    spent: list[float] = [0.0]
    run.pace.cost = lambda: spent[0]
    # Kept answers cost nothing, and come at once.
    for k in range(1, 11):
        run.to(0.01 * k, 1000 * k)
    for second in range(1, 60):
        spent[0] = 0.02 * second
        run.to(float(second), 10_000 + 20 * second)
    assert run.lines[-1] == (
        "scoring about 100,000 examples will take about 75 min, 1.0 GB of memory and $90.00 for "
        "calls to endpoints"
    )
