"""Is anything that takes longer than two seconds seen to be alive, and nothing shorter?"""

from __future__ import annotations

import io
import sys
import time

import pytest

from calibrail.cli import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Put a terminal where standard error was; pytest sets its own before every test's body."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("TERM", "xterm")
    return found


def test_long_work_is_shown_although_it_never_ends_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    seen = terminal(monkeypatch)
    with progress.counting("comparing") as context:
        context.progress(17)
        until = time.monotonic() + 10
        while "comparing" not in seen.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    assert "comparing" in seen.getvalue() and "17 examples" in seen.getvalue()


def test_short_work_stays_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = terminal(monkeypatch)
    with progress.counting("scoring") as context:
        context.progress(3)
    assert seen.getvalue() == ""


def test_nothing_is_written_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    with progress.counting("scoring") as context:
        assert context.progress is None
    assert capfd.readouterr() == ("", "")
