"""What is told before the first label, and where labels come to an end without a verdict."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import calibrail as package
from calibrail.errors import InputError
from tests.command_line import calibrail
from tests.labelling.rows import frozen, label_some, traces, write


@pytest.fixture(scope="module")
def guardrail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("frozen") / "g.json"
    frozen().save(path)
    return path


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def run(keys: str, *arguments: object) -> Any:
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(keys) + "\n"))
        return calibrail("label", *arguments, "--terminal", "--annotator", "ada")

    return run


LIMITS = ("--max-fpr", 0.5, "--min-coverage", 0.5)


def test_a_floor_that_cannot_decide_is_said_before_the_first_label(
    guardrail: Path, tmp_path: Path, piped: Callable[..., Any]
) -> None:
    new = write(tmp_path / "traces.jsonl", traces(400))

    def looked_at_by_nobody(name: str) -> Path:
        (tmp_path / name).mkdir()
        return Path(shutil.copy(guardrail, tmp_path / name))

    limits = (*LIMITS, "--design", "active")
    options = (new, "--guardrail", looked_at_by_nobody("first"), *limits)
    done = piped("q", *options, "--floor", 0.001, "-o", tmp_path / "low")
    said = done.stderr.split("Question")[0]
    assert "even of a guardrail that makes no error, and these traces hold 400" in said
    # What is begun in another folder is a second look, with what the first one leaves of the error.
    assert "--floor 0.1 takes 56 and 62" in said and "--design uniform takes 10 and 10" in said
    done = piped("q", *options, "-o", tmp_path / "second")
    assert "takes about 56 hallucinated and 62 faithful answers" in done.stderr
    usual = (new, "--guardrail", looked_at_by_nobody("other"), *limits)
    done = piped("q", *usual, "-o", tmp_path / "usual")
    assert "makes no error" not in done.stderr
    few = write(tmp_path / "few.jsonl", traces(12))
    third = looked_at_by_nobody("third")
    done = piped("q", few, "--guardrail", third, *LIMITS, "-o", tmp_path / "few")
    assert "takes at least 7 hallucinated and 7 faithful answers drawn, even" in done.stderr
    assert "these traces hold 12" in done.stderr and "--floor" not in done.stderr


def test_traces_that_cannot_be_told_from_those_of_the_threshold(
    tmp_path: Path, piped: Callable[..., Any]
) -> None:
    """Said at the start, with a remedy that is there, then and after the labels."""
    old = [{"s": (i % 2) * 0.4 + i / 120, "label": i % 2} for i in range(60)]
    made = package.calibrate(old, "column:column=s,higher=hallucinated", alpha=0.3)
    made.freeze().save(tmp_path / "g.json")
    # Rows were known by what they held then, and are known by their texts now.
    rows = [{**row, "s": 0.95 if i % 3 == 0 else 0.01} for i, row in enumerate(traces(200))]
    new = write(tmp_path / "new.jsonl", rows)
    folder, begun = tmp_path / "labels", (new, "--guardrail", tmp_path / "g.json", *LIMITS)
    done = piped("q", *begun, "-o", folder)
    said = done.stderr.split("Question")[0]
    assert "It cannot be told whether these traces set the guardrail's threshold" in said
    assert "(--fresh, now or with calibrail certify --labels LABELS)" in said
    with package.label(None, folder) as session:
        label_some(session, "ada", 40)
        assert session.counts("ada").verdict == "certified"
    certify = ("certify", tmp_path / "g.json", "--labels", folder)
    done = calibrail(*certify)
    assert done.returncode == 4 and "nothing shows whether these rows" in " ".join(
        done.stdout.split()
    )
    assert "(--fresh)" in done.stdout.split("Next: ")[1]
    assert "--fresh" in done.stdout.partition("Next: ")[2]
    done = calibrail(*certify, "--fresh")
    assert done.returncode == 0, done.stdout
    assert "taken as new because --fresh says so" in " ".join(done.stdout.split())
    # Said at the start, it is kept.
    done = piped("q", *begun, "--fresh", "-o", tmp_path / "declared")
    assert "cannot be told" not in done.stderr
    plan = json.loads((tmp_path / "declared" / "session.json").read_bytes())
    assert plan["traces"]["freshness"] == "declared"


def test_where_all_is_drawn_nobody_is_told_to_go_on(
    guardrail: Path, tmp_path: Path, piped: Callable[..., Any]
) -> None:
    new = write(tmp_path / "traces.jsonl", traces(6))
    folder = tmp_path / "labels"
    piped("ffq", new, "--guardrail", guardrail, *LIMITS, "-o", folder)
    done = calibrail("certify", guardrail, "--labels", folder)
    assert "Go on labelling" in done.stdout
    piped("fffsq", "-o", folder)
    done = calibrail("certify", guardrail, "--labels", folder)
    assert "Go on labelling" in done.stdout  # one is put off
    with package.label(None, folder) as session:
        task = session.next("ada")
        assert task is not None
        session.put("ada", task.order, 0)
        assert session.next("ada") is None
    done = calibrail("certify", guardrail, "--labels", folder)
    assert done.returncode == 4
    said = " ".join(done.stdout.split())
    assert "All answers of these traces are drawn, and the labels do not decide." in said
    assert "another folder (calibrail label NEW -o OTHER --guardrail " in said
    assert "--max-false-alarms LIMIT)" in said
    assert "Go on labelling" not in said and "To expect" not in said
    first = (folder / "verdict.json").read_bytes()
    assert json.loads(first)["sequential"]["exhausted"]
    calibrail("certify", guardrail, "--labels", folder)
    assert (folder / "verdict.json").read_bytes() == first


def test_fresh_is_about_a_guardrail(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="threshold of a guardrail"):
        package.label(traces(5), tmp_path, fresh=True)
