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


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("TERM", "xterm")
    return found


def test_long_work_is_shown_although_it_never_reports(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    with progress.counting("comparing") as show:
        show(17)
        until = time.monotonic() + 10
        while "comparing" not in terminal.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    assert "comparing" in terminal.getvalue() and "17 examples" in terminal.getvalue()


def test_short_work_stays_silent(terminal: Terminal) -> None:
    with progress.counting("scoring") as show:
        show(3)
    assert terminal.getvalue() == ""


def test_nothing_is_written_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    with progress.counting("scoring") as show:
        show(3)
    assert capfd.readouterr() == ("", "")
