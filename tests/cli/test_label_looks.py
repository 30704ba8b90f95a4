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


def test_the_command_named_next_and_a_copy_of_the_guardrail_see_other_seeds(
    tmp_path: Path, label: Callable[..., Any]
) -> None:
    first = label("first", 200, "--seed", 11)
    assert first.returncode == 0 and "were begun in" not in first.stderr
    assert pasted(first, tmp_path).returncode == 0
    second = label("second", 200, "--seed", 12)
    assert second.returncode == 4 and "withheld" in second.stdout
    # It is said before the first label, with the folder to go on in.
    assert f"calibrail label -o {tmp_path / 'first'}" in second.stderr
    # Going on without the guardrail names the original one, too, and not the copy.
    on = label("second", 0, named=False)
    assert on.stdout.splitlines()[-1].split()[2] == str(tmp_path / "g.json")
    for done in (pasted(second, tmp_path), pasted(on, tmp_path)):
        assert done.returncode == 4 and "labels of these traces" in " ".join(done.stdout.split())
    copy = tmp_path / "second" / "guardrail.json"
    assert calibrail("certify", copy, "--labels", tmp_path / "second").returncode == 4
    assert not copy.with_suffix(".looks.json").exists()


def test_labels_that_were_only_begun_come_first_however_few_are_shared(
    tmp_path: Path, label: Callable[..., Any]
) -> None:
    assert label("first", 0).returncode == 4
    second = label("second", 200, "--seed", 1)
    assert "labels of these traces" in " ".join(second.stdout.split())
    first = label("first", 200, named=False)
    assert first.returncode == 0 and "were begun in" not in first.stderr


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
    assert looked.returncode == 4
    assert (certified("first"), certified("second")) == (fallen, withheld)
