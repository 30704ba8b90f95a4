"""`calibrail label --from-log`, and labelling what it drew, from the command line."""

from __future__ import annotations

import io
import json
import shlex
import sys
from datetime import timedelta
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from calibrail.labelling.log_sampling import read_sample
from tests.command_line import calibrail
from tests.labelling.logs import BEGIN, examples, logged
from tests.labelling.rows import frozen, write

DRAW = ("label", "--from-log", "--guardrail")


def draw(log: Path, guardrail: Path, audit: Path, *more: object) -> CompletedProcess[str]:
    return calibrail("label", "--from-log", log, "--guardrail", guardrail, "-o", audit, *more)


@pytest.fixture
def guardrail(tmp_path: Path) -> Path:
    frozen().save(tmp_path / "g.json")
    return tmp_path / "g.json"


def test_what_was_logged_is_drawn_labelled_and_drawn_again(
    tmp_path: Path, guardrail: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, audit = tmp_path / "log", tmp_path / "audit"
    logged(log, frozen(), examples(50), hours=12)
    done = draw(log, guardrail, audit, "--per-day", 4)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "4 answers to label" in said and "at random from 50 new answers" in said
    # What is pasted labels them: no traces, no guardrail, no model.
    last = shlex.split(done.stdout.splitlines()[-1])
    assert last == ["calibrail", "label", "-o", str(audit)]
    monkeypatch.setattr(sys, "stdin", io.StringIO("f\nh\nu\nq\n"))
    done = calibrail(*last[1:], "--terminal", "--annotator", "ada")
    assert done.returncode == 0, done.stderr
    assert "3 answers labelled, 3 by you" in done.stdout
    assert "still to label: 1 answer" in " ".join(done.stdout.split())
    # Nothing more is drawn by who labels.
    monkeypatch.setattr(sys, "stdin", io.StringIO("f\nq\n"))
    done = calibrail(*last[1:], "--terminal", "--annotator", "ada")
    said = " ".join(done.stdout.split())
    assert "Every answer that was drawn from the log is labelled" in said
    # A terminal parts long paths.
    assert f"--labels{audit}" in "".join(said.split())
    assert "draw more: calibrail label --from-log LOG" in said
    found = read_sample(audit)
    assert found.settled.all() and found.unsure.sum() == 1 and len(found) == 4
    done = draw(log, guardrail, audit, "--json")
    content = json.loads(done.stdout)
    assert content["schema"] == "calibrail.audit_sample/1"
    assert (content["outcome"], content["n_labelled"]) == ("nothing new", 4)
    done = draw(log, guardrail, audit)
    assert "Nothing was drawn" in done.stdout
    assert f"calibrail monitor {guardrail} {log}" in " ".join(done.stdout.split())
    logged(log, frozen(), examples(9, 50), begin=BEGIN + timedelta(hours=14), hours=1)
    done = draw(log, guardrail, audit, "--forbid-own-code")
    assert "they wait in the log for the next call" in " ".join(done.stdout.split())


def test_a_file_goes_out_and_comes_back_with_texts_of_traces(
    tmp_path: Path, guardrail: Path
) -> None:
    log, audit, sheet = tmp_path / "log", tmp_path / "audit", tmp_path / "sheet.jsonl"
    logged(log, frozen(), examples(20), hours=12, texts=False)
    rows = [
        {"key": item.id, "question": item.question, "docs": item.contexts, "answer": item.response}
        for item in examples(15)
    ]
    traces = write(tmp_path / "traces.jsonl", rows)
    done = calibrail(
        *(
            "label",
            "--from-log",
            log,
            "--guardrail",
            guardrail,
            "-o",
            audit,
            "--per-day",
            20,
            "--design",
            "active",
        ),
        *("--floor", 0.5, "--traces", traces, "--map", "contexts=docs", "--map", "response=answer"),
        *("--id-column", "key", "--page", tmp_path / "page.html"),
    )
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "20 of 20 new answers were drawn at random" in said
    assert "texts are not known" in said and (tmp_path / "page.html").exists()
    label = ("label", "-o", audit, "--annotator", "ada")
    done = calibrail(*label, "--export", sheet, "--export-n", 50)
    assert done.returncode == 0 and "the watch waits for their labels" in (
        " ".join(done.stdout.split())
    )
    handed = [json.loads(line) for line in sheet.read_text(encoding="utf-8").splitlines()]
    assert len(handed) == sum(read_sample(audit).handed_out)
    lacking = [row for row in handed if not row["response"]]
    assert lacking and all("look it up" in row["question"].lower() for row in lacking)
    write(sheet, [row | {"label": 0} for row in handed])
    done = calibrail(*label, "--import", sheet, "--json")
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["imported"]["labelled"] == len(handed)
    assert read_sample(audit).settled.all()


def test_what_cannot_be_done_says_what_to_do(tmp_path: Path, guardrail: Path) -> None:
    log, audit = tmp_path / "log", tmp_path / "audit"
    logged(log, frozen(), examples(20), hours=12)
    for arguments, code, words in (
        ((log,), 2, "--per-day must be given"),
        ((log, "--per-day", -1), 2, "per_day must be above 0"),
        ((tmp_path / "gone", "--per-day", 2), 1, "cannot read the decision log"),
    ):
        done = calibrail(*DRAW, guardrail, *arguments, "-o", audit)
        assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    draw(log, guardrail, audit, "--per-day", 2)
    for command, words in (
        (
            (*DRAW, guardrail, log, "-o", audit, "--seed", 4),
            "--seed was 0 and is now 4",
        ),
        (("certify", guardrail, "--labels", audit), "calibrail monitor"),
        (("label", log, "-o", audit, "--terminal"), "come from a decision log"),
        (("label", "-o", audit, "--until", "calibrated", "--terminal"), "go on without limits"),
    ):
        done = calibrail(*command)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr


def test_drawing_says_what_it_needs_and_what_it_does_not_do(
    tmp_path: Path, guardrail: Path
) -> None:
    log, audit = tmp_path / "log", tmp_path / "audit"
    logged(log, frozen(), examples(20), hours=12)
    drawn = (*DRAW, guardrail, log, "-o", audit, "--per-day", 2)
    for words, says in (
        (("label", "--from-log", log, "-o", audit, "--per-day", 2), "and --guardrail FILE"),
        ((*DRAW, guardrail, "-o", audit, "--per-day", 2), "name its decision logs"),
        ((*drawn, "--terminal", "--until", "calibrated"), "leave out --terminal and --until"),
        ((*drawn, "--max-false-alarms", 0.1), "leave out --max-false-alarms"),
        ((*drawn, "--label-column", "label"), "say what labels of --import mean"),
        ((*drawn, "--whole-groups"), "each line of a log is drawn by itself"),
        (("label", log, "-o", audit, "--per-day", 2), "add --from-log"),
        (("label", "-o", audit, "--traces", log), "add --from-log"),
    ):
        done = calibrail(*words)
        assert (done.returncode, says in " ".join(done.stderr.split())) == (2, True), done.stderr
    assert not audit.exists()
    # Who decided is checked where a key is named, and more than one log is a source.
    refused = calibrail(*drawn, "--trusted", tmp_path / "key.pub.pem")
    assert refused.returncode == 1 and not audit.exists()
    logged(tmp_path / "more", frozen(), examples(9, 50), hours=1)
    made = json.loads(calibrail(*drawn, tmp_path / "more", "--shared", 1, "--json").stdout)
    assert made["n_rows"] == 29 and json.loads((audit / "session.json").read_text())["shared"] == 1


def test_a_log_that_was_changed_or_whose_clock_jumps_is_told(
    tmp_path: Path, guardrail: Path
) -> None:
    log, audit = tmp_path / "log", tmp_path / "audit"
    logged(log, frozen(), examples(20), hours=12)
    logged(log, frozen(), examples(4, 30), begin=BEGIN + timedelta(days=40_000), hours=400)
    logged(log, frozen(0.3), examples(5, 40), hours=2)
    path = next(file for file in log.iterdir() if '"t7"' in file.read_text(encoding="utf-8"))
    text = path.read_text(encoding="utf-8")
    assert '"id": "t7"' in text
    path.write_text(text.replace('"id": "t7"', '"id": "t8"'), encoding="utf-8")
    options = ("--per-day", 30)
    content = json.loads(draw(log, guardrail, audit, *options, "--json").stdout)
    # Days that lie in the future have no budget; their answers are drawn from all the same.
    assert content["days"] == ["2026-03-02"] and content["n_rows"] == 23
    assert content["n_drawn"] == 23 and content["last"] < "2026-03-03"
    assert content["log"]["skipped"]["changed"] == 1
    assert content["log"]["skipped"]["other_guardrail"] == 5
    done = draw(log, guardrail, tmp_path / "again", *options)
    said = " ".join(done.stdout.split())
    assert "1 changed after being written" in said and "5 of other guardrails" in said
    assert "calibrail log verify says which" in said
