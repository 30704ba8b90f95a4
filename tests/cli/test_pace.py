"""Rate and time left of a progress line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from calibrail.cli.output import ProgressLine


class Run:
    """A progress line with a time that a test sets."""

    def __init__(self, total: int | None) -> None:
        self.now, self.total = 0.0, total
        self.line = ProgressLine("scoring", lambda: self.now)
        self.reads()

    def reads(self) -> None:
        reading: Any = SimpleNamespace(about_in_all=lambda: self.total)
        self.line.reads(reading)

    def to(self, now: float, done: int) -> str:
        self.now = now
        self.line(done)
        return self.line.words()


def test_what_an_endpoint_chose_does_nothing_to_a_terminal(
    capfd: pytest.CaptureFixture[str],
) -> None:
    ProgressLine("scoring").say("batch \x1b]0;owned\x07\nwarning: [b]n[/b]: 3 questions")
    shown = "batch \ufffd]0;owned\ufffd\ufffdwarning: [b]n[/b]: 3 questions\n"
    assert capfd.readouterr() == ("", shown)


def test_shards_end_in_leaps_and_the_rate_is_even() -> None:
    run = Run(1_000_000)
    # Two workers, each 300 s a shard of 4,096, a few seconds apart.
    for k in range(1, 9):
        words = run.to(300.0 * k, 4096 * (2 * k - 1))
        # The two first shards, 6 s apart, are no rate.
        assert ("a second" in words) == (k > 1)
        words = run.to(300.0 * k + 6.0, 4096 * 2 * k)
        assert ("a second" in words) == (k > 1)
    assert ", 27 a second, about 9." in words
    # Between two shards nothing changes.
    run.now += 250.0
    assert run.line.words() == words


def test_what_an_earlier_run_has_done_does_not_spoil_the_rate() -> None:
    run = Run(10_000_000)
    for k in range(1, 1001):
        run.to(0.002 * k, 4096 * k)
    # The first shard that is computed is under way: nothing is known of it yet.
    run.now = 25.0
    assert run.line.words() == "scoring: 4,096,000 of about 10,000,000 answers"
    words = run.to(32.0, 4096 * 1001)
    assert ", 137 a second, about 12.0 h left" in words
    assert ", 137 a second, about 12.0 h left" in run.to(62.0, 4096 * 1002)


def test_work_that_becomes_slower_is_seen_within_ten_minutes() -> None:
    run = Run(1_000_000)
    for second in range(1, 301):
        words = run.to(float(second), 100 * second)
    assert ", 100 a second" in words
    for second in range(301, 911):
        words = run.to(float(second), 30_000 + 20 * (second - 300))
    assert ", 20 a second" in words


def test_a_standstill_is_seen() -> None:
    run = Run(1000)
    for second in range(1, 21):
        run.to(float(second), 10 * second)
    run.now = 22.0
    assert ", 10 a second, about 80 s left" in run.line.words()
    run.now = 700.0
    assert run.line.words() == "scoring: 200 of about 1,000 answers"


def test_loading_models_is_no_part_of_the_rate() -> None:
    run = Run(10_000)
    run.to(20.0, 100)
    # What comes at once with the first step is no rate, nor are two steps of fewer seconds.
    assert run.to(22.0, 120) == "scoring: 120 of about 10,000 answers"
    assert run.to(32.0, 220) == "scoring: 220 of about 10,000 answers"
    assert ", 10 a second" in run.to(42.0, 320)


def test_another_pass_and_a_restart_begin_anew() -> None:
    run = Run(1000)
    run.to(10.0, 1000)
    run.reads()
    run.now = 14.0
    assert run.line.words() == "starting, 14 s so far"
    run.to(20.0, 100)
    assert "200 of about 1,000 answers, 10 a second" in run.to(30.0, 200)
    # Fewer than before: another set of answers of the same source.
    run.to(35.0, 50)
    assert "150 of about 1,000 answers, 10 a second" in run.to(45.0, 150)


def test_work_of_unknown_size_has_a_rate_and_no_time_left() -> None:
    run = Run(None)
    run.to(1.0, 10)
    assert run.to(21.0, 210) == "scoring: 210 answers, 10 a second"
