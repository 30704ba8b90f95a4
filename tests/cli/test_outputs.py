"""Is nothing written over what a command reads, or over what somebody else made?"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import calibrail
from calibrail.cli import app
from calibrail.errors import CalibrailError, InputError
from calibrail.scores.registry import build_column

SCORES = ("--score-column", "s", "--higher", "hallucinated")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, a run and its guardrail."""
    folder = tmp_path_factory.mktemp("made")
    rows = [
        {"id": f"a{k}", "response": f"Answer {k}.", "s": k % 97 / 100 + k % 2, "label": k % 2}
        for k in range(200)
    ]
    for name in ("t.jsonl", "data/t.jsonl", "data/deep/u.jsonl", "deep/below/t.jsonl"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    detector = build_column("s", "hallucinated")
    run = calibrail.calibrate(folder / "t.jsonl", detector)
    run.save(folder / "run")
    run.freeze().save(folder / "g.json")
    (folder / "link.jsonl").symlink_to("t.jsonl")
    (folder / "hard.jsonl").hardlink_to(folder / "t.jsonl")
    (folder / "quarantine.jsonl").write_text('{"row": 1}\n')
    (folder / "foreign" / "figures").mkdir(parents=True)
    (folder / "foreign" / "report.json").write_text('{"tests": 4}')
    (folder / "figures" / "figures").mkdir(parents=True)
    (folder / "figures" / "figures" / "mine.svg").write_text("<svg/>")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made, tmp_path / "w", symlinks=True)
    (tmp_path / "w" / "hard.jsonl").unlink()
    (tmp_path / "w" / "hard.jsonl").hardlink_to(tmp_path / "w" / "t.jsonl")
    monkeypatch.chdir(tmp_path / "w")
    return tmp_path / "w"


def call(line: str) -> Any:
    return CliRunner().invoke(app, line.replace("SCORES", " ".join(SCORES)).split())


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


READ = "which is read"
AGAIN = "which is read as data"
SAME = "are the same file"
THERE = "stands there"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("check g.json t.jsonl -o t.jsonl", READ),
        ("check g.json t.jsonl -o ./run/../t.jsonl", READ),
        ("check g.json t.jsonl -o link.jsonl", READ),
        ("check g.json link.jsonl -o hard.jsonl", READ),
        ("check g.json t.jsonl -o g.json", READ),
        ("check g.json t.jsonl -o run/calibration.json", THERE),
        ("check g.json t.jsonl -o quarantine.jsonl", SAME),
        ("check g.json t.jsonl -o d.jsonl --page d.jsonl", SAME),
        ("check g.json t.jsonl -o d.jsonl --page t.jsonl", READ),
        ("check g.json data -o data/t.jsonl", AGAIN),
        ("check g.json data -o data/decisions.jsonl", AGAIN),
        ("check g.json deep -o deep/d.csv", AGAIN),
        ("check g.json deep -o deep/below/further/d.csv", AGAIN),
        ("score t.jsonl data/t.jsonl --score length -o link.jsonl", READ),
        ("score t.jsonl --score length -o g.json", THERE),
        ("score data --score length --shards data -o x.parquet", AGAIN),
        ("select g.json t.jsonl --fdr 0.2 -o t.jsonl", READ),
        ("certify g.json t.jsonl --max-fpr 0.5 --page t.jsonl", READ),
        ("certify g.json t.jsonl --max-fpr 0.5 --page a.html --page a.html", SAME),
        ("doctor t.jsonl --page g.json", THERE),
        ("plan --alpha 0.2 --figure a.svg --page a.svg", SAME),
        ("export run -o run/report.json", READ),
        ("export run -o t.jsonl", THERE),
        ("card g.json -o g.json", READ),
        ("calibrate run/scores.parquet SCORES -o run", READ),
        ("calibrate t.jsonl SCORES -o foreign", THERE),
        ("calibrate t.jsonl SCORES -o figures", THERE),
        ("calibrate data SCORES -o data", AGAIN),
        ("compare deep SCORES -o deep/run", AGAIN),
        ("audit t.jsonl SCORES -o foreign", THERE),
        ("shift t.jsonl SCORES --test hard.jsonl -o foreign", THERE),
        ("agree t.jsonl --human label --judge label --page link.jsonl", READ),
        ("label t.jsonl --guardrail g.json --max-fpr 0.5 -o labels --export t.jsonl", READ),
        ("label t.jsonl --until calibrated -o labels --export a.csv --import a.csv", READ),
        ("monitor g.json t.jsonl -o foreign/report.json", "is a file"),
    ],
)
def test_what_is_read_or_somebody_elses_is_not_written_over(
    folder: Path, line: str, why: str
) -> None:
    before = contents(folder)
    done = call(line)
    assert isinstance(done.exception, CalibrailError), (done.output, done.exception)
    assert why in str(done.exception)
    assert contents(folder) == before


@pytest.mark.parametrize(
    "line",
    [
        "check g.json t.jsonl -o d.jsonl",
        "check g.json t.jsonl data/t.jsonl -o data/d.jsonl",
        "check g.json data -o data/out/d.jsonl",
        "check g.json data -o data/d.txt",
        "export run -o run/guardrail.json",
        "export run -o g.json",
        "check g.json t.jsonl --shards work -o work/d.jsonl",
        "calibrate t.jsonl SCORES -o .",
        "calibrate data SCORES -o data/run",
        "doctor quarantine.jsonl --page doctor.md --map response=row",
    ],
)
def test_what_is_ordinary_goes_on_and_again(folder: Path, line: str) -> None:
    for _ in range(2):
        done = call(line)
        assert not isinstance(done.exception, CalibrailError), done.exception


def test_a_guardrail_and_a_foreign_folder_are_replaced_with_force(folder: Path) -> None:
    other = "export run -o g.json --on-failure flag"
    assert "another guardrail stands there" in str(call(other).exception)
    assert call(f"{other} --force").exit_code == 0
    assert json.loads((folder / "g.json").read_bytes())["policy"]["failure"] == "flag"
    assert call("calibrate t.jsonl SCORES -o foreign --force").exit_code == 0
    assert "schema" in json.loads((folder / "foreign" / "report.json").read_bytes())
    # What is read is not written over by force either.
    assert READ in str(call("check g.json t.jsonl -o t.jsonl --force").exception)


def test_a_run_of_our_own_is_replaced_with_a_word(folder: Path) -> None:
    done = call("calibrate t.jsonl SCORES --alpha 0.3 -o run")
    assert (done.exit_code, "run holds an earlier run; it is replaced" in done.stderr) == (0, True)
    assert "replaced" not in call("calibrate t.jsonl SCORES -o new").stderr


def test_python_refuses_the_same(folder: Path) -> None:
    run = calibrail.calibrate("run/scores.parquet", build_column("s", "hallucinated"))
    guardrail = calibrail.Guardrail.load("g.json")
    before = contents(folder)
    with pytest.raises(InputError, match=f"run/scores.parquet, {READ}"):
        run.save("run")
    with pytest.raises(InputError, match=r"report.json.*force=True"):
        run.save("foreign")
    with pytest.raises(InputError, match=r"a file that is no guardrail.*force=True"):
        guardrail.save("t.jsonl")
    selected = calibrail.select(guardrail, "link.jsonl", fdr=0.2)
    for place, why in (("hard.jsonl", READ), ("g.json", "a guardrail of calibrail")):
        with pytest.raises(InputError, match=why):
            selected.save(place)
    assert contents(folder) == before
    guardrail.save("g.json")
    guardrail.save("t.jsonl", force=True)
    run.save("foreign", force=True)
