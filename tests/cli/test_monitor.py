from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import calibrail as package
from calibrail import Guardrail
from calibrail.guardrail.decision_log import DecisionLog
from tests.cli.test_audit_sample import draw
from tests.command_line import calibrail
from tests.labelling.logs import examples
from tests.labelling.logs import logged as timed
from tests.labelling.rows import frozen
from tests.pipelines.logs import column_guardrail, entries, logged

FEW = ("--reference", 20, "--arl", 2000)


@pytest.fixture(scope="module")
def guardrail() -> Guardrail:
    return column_guardrail()


@pytest.fixture(scope="module")
def file(guardrail: Guardrail, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("guardrail") / "g.json"
    guardrail.save(path)
    return path


@pytest.fixture
def log(tmp_path: Path, guardrail: Guardrail) -> Path:
    return logged(tmp_path / "log", guardrail, [0.1, 0.5, 1.5, None] * 10)


def test_a_watch_is_written_and_goes_on(
    tmp_path: Path, log: Path, guardrail: Guardrail, file: Path
) -> None:
    folder = tmp_path / "w"
    done = calibrail("monitor", file, log, "-o", folder, *FEW)
    assert done.returncode == 0, done.stderr
    assert "wrote" in done.stderr
    logged(log, guardrail, [0.1], start=40)
    done = calibrail("monitor", file, log, "-o", folder, *FEW, "--json")
    printed = json.loads(done.stdout)
    assert printed == json.loads((folder / "status.json").read_bytes())
    assert printed["n"] == 41 and printed["log"]["chains"] == 2
    done = calibrail("monitor", file, log, "-o", folder)
    assert done.returncode == 2 and "begun with --reference 20; it is 1000 now" in done.stderr
    assert "name a new folder" in done.stderr


def test_standard_input_is_watched(
    tmp_path: Path, log: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = log.iterdir()
    raw = path.read_bytes()
    half = raw.index(b"\n", len(raw) // 2) + 1
    for given in (raw[:half], raw[half:]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        done = calibrail("monitor", file, "-", "-o", tmp_path / "w", *FEW, "--json")
        assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["n"] == 40 and found["log"]["whole"]


def test_what_check_writes_is_watched(tmp_path: Path, file: Path) -> None:
    rows = [{"id": f"r{row}", "response": "x", "risk": row % 5 / 3} for row in range(30)]
    traces, decisions = tmp_path / "traces.jsonl", tmp_path / "decisions.jsonl"
    traces.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert calibrail("check", file, traces, "-o", decisions).returncode == 0
    done = calibrail("monitor", file, decisions, "-o", tmp_path / "w", "--json", *FEW)
    found = json.loads(done.stdout)
    assert (found["n"], found["from"]) == (30, None)
    assert [item["code"] for item in found["log"]["findings"]] == ["no_chain"]
    # Decisions of another guardrail name it.
    other, folder = tmp_path / "other.json", tmp_path / "made" / "v"
    column_guardrail(alpha=0.9).save(other)
    done = calibrail("monitor", other, decisions, "-o", folder, "--json", *FEW)
    assert done.returncode == 1 and "30 of other guardrails" in done.stderr
    assert not folder.parent.exists()
    done = draw(decisions, other, folder, "--per-day", 5)
    assert done.returncode == 1 and "30 of other guardrails" in done.stderr
    # Where nothing can be used for several reasons, each is named.
    decisions.write_text(decisions.read_text() + "{}\n")
    done = calibrail("monitor", other, decisions, "-o", folder, "--json", *FEW)
    assert done.returncode == 1 and "none of the 31 decisions in this log" in done.stderr
    assert "1 without the fields of a decision" in done.stderr, done.stderr
    assert not folder.exists()


def test_what_cannot_be_read_or_written_is_an_error(tmp_path: Path, log: Path, file: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    (path,) = log.iterdir()
    for words, code, why in (
        ((tmp_path / "none", "-o", tmp_path / "w"), 1, "No such file"),
        ((tmp_path / "empty", "-o", tmp_path / "w"), 1, "there is no decision log in"),
        ((log, "-o", tmp_path / "file"), 1, "is a file, and -o names a folder"),
        ((log, "-o", tmp_path / "w", "--arl", 0), 2, "arl must be at least 1"),
        ((log, "-o", tmp_path / "w", "--max-fpr", 1.5), 2, "--max-false-alarms"),
        ((log,), 2, "-o"),
    ):
        done = calibrail("monitor", file, *words)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
        assert why in done.stderr, done.stderr
    path.rename(log / f"{path.name}.moved")
    (log / path.name).mkdir()
    (log / f"{path.name}.moved").rename(log / path.name.replace(".0001.", ".0002."))
    done = calibrail("monitor", file, log, "-o", tmp_path / "w", "--json")
    # A folder in the place of a file is no part of the log.
    assert done.returncode == 0 and json.loads(done.stdout)["n"] == 40


def test_a_watch_that_follows_ends_in_order(
    tmp_path: Path, log: Path, guardrail: Guardrail, file: Path, repository: Path
) -> None:
    folder = tmp_path / "w"
    words = [sys.executable, "-m", "calibrail", "monitor", file, log, "-o", folder, "--follow"]
    environment = os.environ | {"PYTHONPATH": str(repository / "src")}
    process = subprocess.Popen(
        list(map(str, (*words, *FEW))),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def n() -> int:
        path = folder / "status.json"
        return int(json.loads(path.read_bytes())["n"]) if path.exists() else 0

    try:
        _until(lambda: n() == 40, process)
        with DecisionLog(log) as chain:
            chain.write(entries(guardrail, [0.1] * 5, 40))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0 and "Traceback" not in err, err
    assert out and n() >= 40
    done = calibrail("monitor", file, log, "-o", folder, *FEW, "--json")
    assert json.loads(done.stdout)["n"] == 45


def _until(holds: object, process: subprocess.Popen[str]) -> None:
    assert callable(holds)
    for _ in range(1200):
        if holds():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("it did not come about")


def test_a_broken_promise_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    file, audit, log = tmp_path / "g.json", tmp_path / "audit", tmp_path / "log"
    frozen().save(file)
    timed(log, frozen(), examples(90))
    assert draw(log, file, audit, "--per-day", 90).returncode == 0
    words = ("monitor", file, log, "-o", tmp_path / "w", "--labels", audit, "--max-fpr", 0.3)
    assert calibrail(*words).returncode == 0
    with package.label(None, audit) as session:
        while (task := session.next("ada")) is not None:
            session.put("ada", task.order, 1)
    done = calibrail(*words)
    assert done.returncode == 3 and "BROKEN" in done.stdout, done.stdout
    assert json.loads(calibrail(*words, "--json").stdout)["promise"]["state"] == "broken"


def test_labels_that_cannot_count_are_named_and_traffic_is_watched(tmp_path: Path) -> None:
    file, audit, log, judge = (tmp_path / name for name in ("g.json", "audit", "log", "j.csv"))
    frozen().save(file)
    timed(log, frozen(), examples(30))
    words = ("monitor", file, log, "-o", tmp_path / "w", "--labels", audit)
    done = calibrail(*words)
    assert done.returncode == 1 and "there are no labels in" in done.stderr
    found = json.loads((tmp_path / "w" / "status.json").read_bytes())
    assert found["n"] == 30 and "there are no labels in" in found["labels"]["problems"][0]
    page = (tmp_path / "w" / "watch.html").read_text()
    assert "LABELS NOT READ" in page.upper() and page.count("there are no labels in") == 2
    assert draw(log, file, audit, "--per-day", 30).returncode == 0
    # Labels of a judge that contradict each other, or name no answer of the log.
    judge.write_text("id,label\nt1,1\nt1,0\nt2,1\nt2,1\nelsewhere,0\n")
    done = calibrail(*words, "--judge-labels", judge)
    assert done.returncode == 0, done.stderr
    for shown in (done.stdout, (tmp_path / "w" / "watch.html").read_text()):
        assert "t1 is labelled 1 and 0, and neither counts" in shown
        assert "1 label names no answer of this log" in shown
    done = calibrail(*words, "--judge-labels", tmp_path / "none.csv")
    assert done.returncode == 1 and "cannot read the judge's labels" in done.stderr
