"""Is a change between two sessions named, and is nothing lost by it?"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

import calibrail
from calibrail.errors import DataError, InputError
from calibrail.options import Drawing, Promise, ReadOptions, Requirement
from tests.command_line import calibrail as calibrail_command
from tests.labelling.rows import frozen, label_some, lines, traces, write


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 3}, "seed was 0 and is now 3"),
        ({"shared": 0.5}, "shared was 0.0 and is now 0.5"),
        ({"judge_column": "suspicion"}, "judge_column was not given and is now suspicion"),
        ({"drawing": Drawing(whole_groups=True)}, "whole_groups was off and is now on"),
        ({"requirement": Requirement(0.4)}, "max_false_alarms was 0.3 and is now 0.4"),
        ({"promise": Promise()}, "are for the verdict on a guardrail, not for a threshold"),
        ({"reading": ReadOptions(limit=5)}, "limit was not given and is now 5"),
    ],
)
def test_another_setting_is_refused_by_name(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    rows = traces(30)
    with calibrail.label(rows, tmp_path, guardrail=frozen(), max_fpr=0.3) as session:
        label_some(session, "ada", 4)
    before = content(tmp_path)
    with pytest.raises(InputError, match=said):
        calibrail.label(rows, tmp_path, **change)
    assert content(tmp_path) == before
    # What is said again as it was is no change.
    calibrail.label(rows, tmp_path, guardrail=frozen(), max_fpr=0.3, seed=0).close()


def test_the_command_line_names_its_own_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    begun = ("label", write(tmp_path / "t.jsonl", traces(30)), "-o", tmp_path / "l", "--terminal")
    assert calibrail_command(*begun, "--until", "calibrated", "--alpha", 0.3).returncode == 0
    # What is left out is as it was, the promise, too.
    done = calibrail_command(*begun, "--until", "calibrated")
    assert done.returncode == 0, done.stderr
    done = calibrail_command(*begun, "--until", "calibrated", "--alpha", 0.2, "--seed", 7)
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert "--alpha was 0.3 and is now 0.2; --seed was 0 and is now 7. Leave that out" in said


def test_a_folder_of_other_files_is_refused_and_a_failure_leaves_none(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds no session.json, but other files .notes.txt"):
        calibrail.label(traces(5), mine)
    assert [item.name for item in mine.iterdir()] == ["notes.txt"]
    (mine / "notes.txt").rename(mine / "guardrail.json")
    with pytest.raises(InputError, match=r"guardrail\.json"):
        calibrail.label(traces(5), mine)
    with pytest.raises(InputError, match="a judge saves labels of a verdict about a guardrail"):
        calibrail.label(traces(5), tmp_path / "new", judge_column="suspicion")
    assert not (tmp_path / "new").exists()
    # Labels whose session.json is lost are not taken for an empty folder.
    with calibrail.label(traces(5), tmp_path / "lost") as session:
        label_some(session, "ada", 2)
    (tmp_path / "lost" / "session.json").unlink()
    with pytest.raises(InputError, match=r"restore session\.json"):
        calibrail.label(traces(5), tmp_path / "lost")
    assert len(lines(tmp_path / "lost" / "labels.jsonl")) == 2


def test_a_folder_of_a_newer_calibrail_says_so(tmp_path: Path) -> None:
    calibrail.label(traces(5), tmp_path / "l").close()
    plan = tmp_path / "l" / "session.json"
    plan.write_text(plan.read_text().replace("calibrail.labels/1", "calibrail.labels/2"))
    with pytest.raises(DataError, match=r"newer calibrail \(calibrail.labels/2.*update calibrail"):
        calibrail.label(None, tmp_path / "l")
    plan.write_text(plan.read_text().replace("calibrail.labels/2", "something/else"))
    with pytest.raises(DataError, match="damaged"):
        calibrail.label(None, tmp_path / "l")


def test_another_guardrail_is_refused_and_the_copy_serves_without_the_file(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    frozen().save(path)
    calibrail.label(traces(30), tmp_path / "l", guardrail=path, max_fpr=0.3).close()
    path.unlink()
    with calibrail.label(None, tmp_path / "l") as session:
        label_some(session, "ada", 3)
    with pytest.raises(InputError, match=r"the guardrail is another one \(sha256:"):
        calibrail.label(None, tmp_path / "l", guardrail=frozen(alpha=0.3))


def test_changed_traces_are_refused_and_the_answers_set_aside_still_serve(tmp_path: Path) -> None:
    source, folder = write(tmp_path / "t.jsonl", traces(30)), tmp_path / "l"
    with calibrail.label(source, folder) as session:
        label_some(session, "ada", 4)
    # Written again with the same bytes it is the same.
    write(source, traces(30))
    calibrail.label(source, folder).close()
    write(source, traces(31))
    with pytest.raises(DataError, match=r"t.jsonl is not what the labels .* SHA-256 was"):
        calibrail.label(source, folder)
    with calibrail.label(None, folder) as session:
        label_some(session, "ada", 26)
    assert len(lines(folder / "labels.jsonl")) == 30


def test_answers_that_set_the_threshold_are_passed_over(tmp_path: Path) -> None:
    rows = [{**row, "label": i % 2} for i, row in enumerate(traces(200))]
    run = calibrail.calibrate(rows, "column:column=suspicion,higher=hallucinated", alpha=0.2)
    guardrail = run.freeze()
    fresh = [{**row, "response": f"Nobody says, {row['id']}."} for row in traces(100)]
    with calibrail.label(rows[:60] + fresh, tmp_path, guardrail=guardrail, max_fpr=0.3) as session:
        seen = session.plan.traces.n_seen_before
    known = set(guardrail.config.data.calibration_examples)
    assert seen > 0
    assert not known & {line["digest"] for line in lines(tmp_path / "pool.jsonl")}
    with pytest.raises(DataError, match="set the guardrail's threshold"):
        calibrail.label(rows, tmp_path / "same", guardrail=guardrail, max_fpr=0.3)
