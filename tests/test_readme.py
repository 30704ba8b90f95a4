"""Does the first screen of the README show what a reader will see?"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from calibrail.cli import app

pytestmark = pytest.mark.painted

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short() -> None:
    assert len(README.split()) <= 900


def test_the_first_run_prints_and_draws_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = next(line for line in README.splitlines() if line.startswith("    calibrail"))
    code = app(shlex.split(command)[1:], standalone_mode=False)
    assert code == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    shown = README.split("begins with (measured, not made up):\n\n")[1].split("\n\nand writes")[0]
    assert [line[4:] for line in shown.splitlines()] == printed[: len(shown.splitlines())]
    figure = ROOT / "docs" / "figures" / "first_run.svg"
    assert figure.read_bytes() == (tmp_path / "runs/first/figures/curve.svg").read_bytes()
