"""Does the first screen of the README show what a reader will see?"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from benchmarks.results import both_modes
from calibrail.cli import app

pytestmark = pytest.mark.painted

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short() -> None:
    assert len(README.split()) <= 500


def test_the_first_runs_print_and_draw_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    commands = [line for line in README.splitlines() if line.startswith("    calibrail")]
    test, calibrate = (shlex.split(line)[1:] for line in commands[:2])
    assert app(test, standalone_mode=False) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    shown = README.split("prints first:\n\n")[1].split("\n\nand goes on")[0]
    assert [line[4:] for line in shown.splitlines()] == printed[: len(shown.splitlines())]
    assert app(calibrate, standalone_mode=False) == 0
    # No white card on a dark page: both modes are drawn, and the README names both.
    both_modes(
        (tmp_path / "runs/first/figures/target.svg").read_text("utf-8"), tmp_path / "first.svg"
    )
    for mode in ("light", "dark"):
        figure = f"docs/figures/first_run-{mode}.svg"
        assert figure in README
        assert (ROOT / figure).read_bytes() == (tmp_path / f"first-{mode}.svg").read_bytes()
    # Nor white edges around letters.
    assert b"#ffffff" not in (tmp_path / "first-dark.svg").read_bytes()
