"""Is labelling with another seed no second chance, as a user gets it?"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from calibrail.labelling.session import Session
from tests.command_line import calibrail
from tests.labelling.rows import frozen, traces, truth, write

EASY = ("--max-fpr", 0.9, "--min-coverage", 0.4)


@pytest.fixture
def label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return what labels so many answers truthfully, by ``calibrail label``."""
    frozen().save(tmp_path / "g.json")
    write(tmp_path / "traces.jsonl", traces(300))

    def run(folder: str, n: int, *more: object, named: bool = True) -> CompletedProcess[str]:
        def knows(opened: Session, annotator: str, *_: Any, **__: Any) -> None:
            for _ in range(n):
                if opened.counts(annotator).decided:
                    return
                task = opened.next(annotator)
                assert task is not None
                opened.put(annotator, task.order, truth(task.id))

        monkeypatch.setattr("calibrail.ui.server.serve", knows)
        begun = ("traces.jsonl", "--guardrail", "g.json", *EASY) if named else ()
        return calibrail("label", *begun, "-o", folder, *more, cwd=tmp_path)

    return run


def pasted(done: CompletedProcess[str], folder: Path) -> CompletedProcess[str]:
    """Run the command that the last line names."""
    return calibrail(*shlex.split(done.stdout.splitlines()[-1])[1:], cwd=folder)


def level(folder: Path) -> float:
    return float(json.loads((folder / "verdict.json").read_text())["look"]["level"])


def test_labels_of_another_seed_are_a_further_look(
    tmp_path: Path, label: Callable[..., Any]
) -> None:
    assert label("first", 0).returncode == 4
    second = label("second", 200, "--seed", 12)
    assert pasted(second, tmp_path).returncode == second.returncode
    assert level(tmp_path / "second") == pytest.approx(0.009375)
    first = label("first", 200, named=False)
    assert first.returncode == 0 and level(tmp_path / "first") == pytest.approx(0.0375)
    # A copy of the guardrail stands for the original one.
    copy = tmp_path / "second" / "guardrail.json"
    done = calibrail("certify", copy, "--labels", tmp_path / "second")
    assert done.returncode == second.returncode
    assert not copy.with_suffix(".looks.json").exists()


def test_a_verdict_stays_byte_for_byte_whatever_is_looked_at_later(
    tmp_path: Path, label: Callable[..., Any]
) -> None:
    def certified(name: str) -> bytes:
        done = calibrail("certify", "g.json", "--labels", name, cwd=tmp_path)
        assert done.returncode in (0, 4), done.stderr
        return (tmp_path / name / "verdict.json").read_bytes()

    label("first", 20)
    early = certified("first")
    label("second", 200, "--seed", 1)
    withheld = certified("second")
    assert certified("first") == early
    # The second one stays, too, when the first goes on.
    label("first", 200, named=False)
    fallen = certified("first")
    assert json.loads(fallen)["verdict"] == "certified" and certified("second") == withheld
    held_out = [{**row, "label": truth(row["id"])} for row in traces(300)]
    write(tmp_path / "held_out.jsonl", held_out)
    looked = calibrail("certify", "g.json", "held_out.jsonl", *EASY, cwd=tmp_path)
    assert looked.returncode in (0, 4)
    assert (certified("first"), certified("second")) == (fallen, withheld)


def test_after_the_last_declared_look_labelling_says_that_there_will_be_no_verdict(
    tmp_path: Path, label: Callable[..., Any]
) -> None:
    answers = [row | {"label": truth(row["id"])} for row in traces(200)]
    write(tmp_path / "labelled.jsonl", answers)
    done = calibrail("certify", "g.json", "labelled.jsonl", *EASY, "--looks", 1, cwd=tmp_path)
    assert done.returncode in (0, 3, 4), done.stderr
    begun = label("labels", 60)
    said = " ".join((begun.stdout + begun.stderr).split())
    assert begun.returncode == 4 and "There will be no verdict" in said
    assert "were begun in" not in said and "rejected" not in said
