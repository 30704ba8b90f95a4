"""Does a console that lacks characters, or that nobody reads, change anything but what is shown?"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import calibrail
from calibrail.serialization import logged_on_one_line
from tests.answers import rows as labelled
from tests.answers import write as write_rows

TEXT = "Le café 漢字 ✓ — naïve \U0001f600."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("consoles")
    row = {"id": "é漢", "question": "Où?", "contexts": ["Le café 漢字."], "response": TEXT}
    rows = [{**row, "id": f"é漢{k}", "label": k % 2, "response": f"{TEXT} {k}"} for k in range(60)]
    lines = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in rows)
    (folder / "é漢.jsonl").write_text(lines, "utf-8")
    run = calibrail.calibrate("example:facts", "novelty", alpha=0.2, baselines=False)
    run.freeze().save(folder / "g.json")
    column = "column:column=detector,higher=hallucinated"
    calibrail.calibrate(labelled(), column, alpha=0.2).freeze().save(folder / "column.json")
    return folder


def run(folder: Path, *words: str, **pipes: Any) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONUTF8": "0", **pipes.pop("env", {})}
    command = pipes.pop("shell", [sys.executable, "-m", "calibrail", *words])
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **pipes}
    return subprocess.run(command, cwd=folder, env=environment, check=False, **pipes)


COMMANDS = [
    ("doctor", "é漢.jsonl"),
    ("doctor", "nö漢.jsonl"),
    ("explain", "g.json", "--response", TEXT, "--context", "Le café"),
    ("certify", "g.json", "example:facts", "--max-fpr", "0.01", "--markdown"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_console_that_lacks_characters_shows_others(folder: Path, words: tuple[str, ...]) -> None:
    expected = run(folder, *words, env={"PYTHONIOENCODING": "utf-8"})
    for encoding in ("cp1252", "ascii"):
        done = run(folder, *words, env={"PYTHONIOENCODING": encoding})
        assert done.returncode == expected.returncode
        assert b"Traceback" not in done.stderr
        assert (done.stdout or done.stderr).decode(encoding)


def test_what_programs_read_loses_nothing(folder: Path) -> None:
    (folder / "out").mkdir()
    words = ("check", "g.json", "é漢.jsonl", "-o")
    done = run(folder, *words, "-", env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert done.returncode == 0, done.stderr
    assert run(folder, *words, "out/d.jsonl", env={"PYTHONIOENCODING": "ascii"}).returncode == 0
    kept = (folder / "out" / "d.jsonl").read_text("utf-8").splitlines()
    assert list(map(json.loads, done.stdout.splitlines())) == list(map(json.loads, kept))
    assert json.loads(kept[0])["id"] == "é漢0"
    shown = run(folder, "doctor", "é漢.jsonl", "--json", env={"PYTHONIOENCODING": "cp1252"})
    assert "é漢.jsonl" in json.loads(shown.stdout)["source"]


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_the_exit_code_is_the_verdicts_where_nobody_reads(folder: Path, closed: str) -> None:
    # Every answer is flagged, whatever it is.
    fresh = [row | {"detector": 0.9} for row in labelled(300, seed=5, prefix="New ")]
    write_rows(folder / "fresh.jsonl", fresh)
    words = ("certify", "column.json", "fresh.jsonl", "--max-fpr", "0.01", "--fresh")
    expected = run(folder, *words)
    assert expected.returncode == 3, expected.stderr
    read, write = os.pipe()
    os.close(read)
    done = run(folder, *words, **{closed: write})
    os.close(write)
    assert done.returncode == 3
    assert b"Traceback" not in (done.stderr or b"")


def test_a_console_that_is_full_or_closed_is_no_traceback(folder: Path) -> None:
    words = f"{sys.executable} -m calibrail plan --alpha 0.2"
    for pipes, code in (("> /dev/full", 1), (">&- 2>&-", 0), (">&-", 0)):
        done = run(folder, shell=["sh", "-c", f"{words} {pipes}"])
        assert done.returncode == code, (pipes, done.stderr)
        assert b"Traceback" not in done.stderr
        assert (b"cannot print the result: No space" in done.stderr) == bool(code)


#: Rings, names the window, colours, clears the screen, turns the order of letters, forges a line,
#: makes two names look like one.
ACTS = (
    "\x1b]0;title\x07\x1b[31m\x9b2J\u202e\u200e\u200f\u061c\u2066\u2069\u2028\x85"
    "\u200b\u2060\ufeff\xad\ufff9\U000e0041\nFORGED"
)

#: Detectors whose library logs what it read, and ends in an error that nobody expects.
LOUD = """
def logs(example):
    import logging
    logging.getLogger("loud").warning("read %s", ACTS)
    return 0.5

def breaks(example):
    class Unexpected(BaseException): pass
    raise Unexpected(ACTS)
"""


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("doctor", "FILE"),
        ("test", "FILE", "--threshold", "1"),
        ("test", "FILE", "--threshold", "1", "--score-column", "SCORE", "--higher", "faithful"),
        ("check", "column.json", "FILE"),
        ("check", "FILE", "column.json"),
        ("certify", "column.json", "FILE", "--json"),
        ("guardrail", "verify", "FILE"),
        ("calibrate", "FILE", "--score", "SCORE", "-o", "FILE"),
        ("FILE",),
        ("guardrail", "card", "FILE", "FILE"),
        ("test", "FILE", "--FILE"),
        ("score", "FILE", "--score", "custom:detector=loud:logs", "-o", "s.parquet"),
        ("score", "FILE", "--score", "custom:detector=loud:breaks", "-o", "s.parquet"),
        pytest.param(
            (
                "score",
                "FILE",
                "--score",
                "custom:detector=loud:logs",
                "--engine",
                "processes",
                "-o",
                "s.parquet",
            ),
            id="processes",
        ),
    ],
)
def test_nothing_of_the_data_acts_on_a_terminal(
    words: tuple[str, ...], folder: Path, tmp_path: Path
) -> None:
    file, score = f"a{ACTS}.jsonl", f"s{ACTS}"
    rows = [{**row, score: k % 7, "id": f"{k}{ACTS}"} for k, row in enumerate(labelled(20))]
    write_rows(tmp_path / file, [{**row, "label": f"{row['label']}{ACTS}"} for row in rows])
    shutil.copy(folder / "column.json", tmp_path)
    (tmp_path / "loud.py").write_text(f"ACTS = {ACTS!r}\n{LOUD}", "utf-8")
    given = [{"FILE": file, "SCORE": score}.get(word, word) for word in words]
    shown = run(tmp_path, *given)
    for text in (shown.stdout.decode(), shown.stderr.decode()):
        acts = "\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9\U000e0041"
        assert not re.search(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{acts}]", text)
    # Tables break long names, which they show on one line, at their spaces.
    assert b"\nFORGED" not in shown.stderr
    assert shown.stdout + shown.stderr


def test_a_log_call_that_does_not_fit_its_template_ends_nothing() -> None:
    record = logging.LogRecord("loud", logging.WARNING, "", 0, "n %d", ("\x1b[2J",), None)
    assert logged_on_one_line(record)
    assert record.getMessage().startswith("n %d") and "\x1b" not in record.getMessage()


def test_letters_that_run_from_right_to_left_stay_as_they_are(tmp_path: Path) -> None:
    # Persian and emoji need their joiners.
    name = "\u0645\u06cc\u200c\u062e\u0648 \u05e9\u05dc \U0001f469\u200d\U0001f52c.jsonl"
    shown = run(tmp_path, "doctor", name)
    assert f"error: there is no file or folder {name}" in shown.stderr.decode()
