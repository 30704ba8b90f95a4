"""Is nothing written over what a command reads, or over what somebody else made?"""

from __future__ import annotations

import errno
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

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
    (folder / "quarantine.jsonl").write_text('{"row": 1, "field": "label", "reason": "r"}\n')
    calibrail.label(folder / "t.jsonl", folder / "labels", promise=calibrail.Promise()).close()
    (folder / "mine").mkdir()
    row = '{"id": "a", "question": "q", "contexts": ["c"], "response": "r"}\n'
    (folder / "mine" / "FILE").write_text("notes")
    for ending in ("html", "md", "xml", "jsonl", "json", "svg", "csv"):
        (folder / "mine" / f"FILE.{ending}").write_text(row)
    frame = pa.table({"id": ["a"], "group": ["g"], "label": [1], "length": [1.0]})
    pq.write_table(frame, folder / "mine" / "FILE.parquet")
    (folder / "mine" / "quarantine.jsonl").write_text(row)
    (folder / "mine" / "manifest.json").write_text("{}")
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
    (tmp_path / "w" / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path / "w")
    return tmp_path / "w"


def call(line: str) -> Any:
    return CliRunner().invoke(app, line.replace("SCORES", " ".join(SCORES)).split())


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


#: Each replaces FILE, which nothing reads and no command has written.
WRITTEN = (
    "check g.json t.jsonl -o mine/FILE",
    "check g.json t.jsonl -o new.jsonl --page mine/FILE.html",
    "certify g.json t.jsonl --max-fpr 0.5 --fresh --page mine/FILE.md",
    "doctor t.jsonl --page mine/FILE.xml",
    "score t.jsonl --score length -o mine/FILE",
    "score t.jsonl --score length -o mine/FILE.parquet",
    "select g.json t.jsonl --fdr 0.2 -o mine/FILE.jsonl",
    "card g.json -o mine/FILE.md",
    "export run -o mine/FILE.json",
    "plan --alpha 0.2 --max-fpr 0.3 --base-rate 0.5 --auroc 0.9 --figure mine/FILE.svg",
    "label t.jsonl --until calibrated -o new --export mine/FILE.csv",
    "label t.jsonl --until calibrated -o new --export mine/FILE.jsonl",
    "check g.json t.jsonl -o mine/new.jsonl",
)
MINE = "a file that is no result of calibrail stands there"
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
        ("check g.json t.jsonl -o g.looks.json --force", READ),
        ("certify g.json t.jsonl --max-fpr 0.5 --page g.looks.json", READ),
        ("check g.json t.jsonl -o run/calibration.json", THERE),
        ("check g.json t.jsonl -o quarantine.jsonl", SAME),
        ("check g.json t.jsonl -o d.jsonl --page d.jsonl", SAME),
        ("check g.json t.jsonl -o d.jsonl --page t.jsonl", READ),
        ("check g.json data -o data/t.jsonl", AGAIN),
        ("check g.json data -o data/decisions.jsonl", AGAIN),
        ("check g.json deep -o deep/d.jsonl", AGAIN),
        ("check g.json deep -o deep/below/further/d.jsonl", AGAIN),
        ("score t.jsonl data/t.jsonl --score length -o link.jsonl", READ),
        ("score t.jsonl --score length -o g.json", THERE),
        ("score t.jsonl --score judge:template=mine/FILE.md -o mine/FILE.md --force", READ),
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
        ("agree t.jsonl --label-column label --judge-column label --page link.jsonl", READ),
        ("label t.jsonl --guardrail g.json --max-fpr 0.5 -o labels --export t.jsonl", READ),
        ("label t.jsonl --until calibrated -o labels --export a.csv --import a.csv", READ),
        ("monitor g.json t.jsonl -o foreign/report.json", "is a file"),
        ("monitor g.json t.jsonl -o run", "a run stands there"),
        ("calibrate t.jsonl SCORES -o labels", "a folder of labels stands there"),
        ("score t.jsonl --score length -o run/scores.parquet", "scores.parquet of a run"),
        ("doctor t.jsonl --page run/report.html", "report.html of a run"),
        ("check g.json t.jsonl --shards mine -o new.jsonl", THERE),
        ("export run -o loop", "Too many levels of symbolic links"),
        ("check g.json t.jsonl -o loop/d.jsonl", "Too many levels of symbolic links"),
        ("card g.json -o t.jsonl/card.md", "Not a directory"),
        ("label t.jsonl --until calibrated -o new --export t.jsonl/a.csv", "Not a directory"),
        ("label t.jsonl --until calibrated -o new --export a.xlsx", "--export-as"),
        *((line, MINE) for line in WRITTEN),
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


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("check g.json t.jsonl -o FILE", "d.out"),
        ("check g.json t.jsonl data/t.jsonl --evidence -o FILE", "d.jsonl"),
        ("check g.json t.jsonl -o new.jsonl --page FILE", "d.html"),
        ("doctor t.jsonl --page FILE", "d.md"),
        ("certify g.json t.jsonl --max-fpr 0.5 --fresh --page FILE", "d.xml"),
        ("select g.json t.jsonl --fdr 0.2 -o FILE", "s.jsonl"),
        ("score t.jsonl --score length -o FILE", "s.parquet"),
        ("card g.json -o FILE", "card.html"),
        ("plan --alpha 0.2 --max-fpr 0.3 --base-rate 0.5 --auroc 0.9 --figure FILE", "p.png"),
        ("label t.jsonl --until calibrated -o labels --export FILE", "a.csv"),
        ("label t.jsonl --until calibrated -o labels --export-as argilla --export FILE", "a.json"),
        ("label t.jsonl --until calibrated -o labels --export FILE", "a.jsonl"),
    ],
)
def test_an_earlier_result_is_replaced_with_a_word_unless_somebody_changed_it(
    folder: Path, line: str, file: str
) -> None:
    line, made = line.replace("FILE", file), folder / file
    assert "replace" not in call(line).stderr
    again = call(line)
    assert not isinstance(again.exception, CalibrailError), again.exception
    assert f"{file}: an earlier file of this kind" in again.stderr
    if made.suffix in (".out", ".csv", ".jsonl"):
        raw = made.read_bytes()
        changed = raw.replace(b"}\n", b', "label": 1}\n', 1).replace(b",,,\r\n", b",1,,\r\n", 1)
        made.write_bytes(changed)
        assert raw != changed
        assert THERE in str(call(line).exception)
        assert made.read_bytes() == changed
        assert call(f"{line} --force").exception is None or made.read_bytes() != changed


@pytest.mark.parametrize(
    ("line", "report"),
    [
        ("compare t.jsonl SCORES --score length -o run", "compare.json"),
        ("audit t.jsonl SCORES -o run", "audit.json"),
        ("shift t.jsonl SCORES --test data/deep/u.jsonl -o run", "shift.json"),
        ("calibrate t.jsonl SCORES -o run", "report.json"),
    ],
)
def test_the_folder_of_a_run_is_one_command_s(folder: Path, line: str, report: str) -> None:
    call("compare t.jsonl SCORES --score length -o run")
    (folder / "run" / "state.safetensors").write_bytes(b"learnt")
    call("export run -o run/guardrail.json")
    done = call(line)
    assert done.exit_code == 0, done.exception
    assert "which this one replaces" in done.stderr
    there = {path.name for path in (folder / "run").iterdir()}
    assert there & {"report.json", "compare.json", "audit.json", "shift.json"} == {report}
    assert ("calibration.json" in there) == (report == "report.json")
    assert "state.safetensors" not in there
    exported = call("export run -o again.json").exit_code == 0
    assert exported == (report in ("report.json", "compare.json"))


def test_a_run_of_our_own_is_replaced_with_a_word(folder: Path) -> None:
    done = call("calibrate t.jsonl SCORES --alpha 0.3 -o run")
    assert "run holds an earlier run, which this one replaces" in done.stderr
    assert done.exit_code == 3 and "REJECTED" in done.stdout
    assert "replaced" not in call("calibrate t.jsonl SCORES -o new").stderr


def test_python_refuses_the_same(folder: Path) -> None:
    run = calibrail.calibrate("run/scores.parquet", build_column("s", "hallucinated"))
    guardrail = calibrail.Guardrail.load("g.json")
    before = contents(folder)
    with pytest.raises(InputError, match=f"run/scores.parquet, {READ}"):
        run.save("run")
    with pytest.raises(InputError, match=r"report.json.*force=True"):
        run.save("foreign")
    with pytest.raises(InputError, match=rf"{MINE}.*force=True"):
        guardrail.save("t.jsonl")
    selected = calibrail.select(guardrail, "link.jsonl", fdr=0.2)
    for place, why in (("hard.jsonl", READ), ("g.json", "another guardrail")):
        with pytest.raises(InputError, match=why):
            selected.save(place)
    assert contents(folder) == before
    guardrail.save("g.json")
    with pytest.raises(InputError, match="run is a folder"):
        guardrail.save("run")
    with pytest.raises(CalibrailError, match=r"cannot write t.jsonl/g.json"):
        guardrail.save("t.jsonl/g.json")
    with pytest.raises(InputError, match=MINE):
        calibrail.card(guardrail).save("mine/FILE.html")
    with pytest.raises(InputError, match=MINE):
        calibrail.calibrate(
            "t.jsonl", "length", reading=calibrail.ReadOptions(quarantine=Path("mine/FILE"))
        )
    call("check g.json t.jsonl -o d.jsonl")
    for place, why in (("figures", "mine.svg"), ("run", "a run stands"), ("labels", "a folder")):
        with pytest.raises(InputError, match=why):
            calibrail.monitor(guardrail, "d.jsonl", place)
    guardrail.save("t.jsonl", force=True)
    run.save("foreign", force=True)


LASTING = ("looks.json", "quarantine.jsonl")


def _beside(folder: Path) -> dict[str, bytes]:
    """Return what stands in a folder, but for looks and rows that could not be read."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in LASTING]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def _folders(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_dir()}


FULL = [
    f"calibrate t.jsonl -o new {' '.join(SCORES)}",
    f"calibrate t.jsonl -o run {' '.join(SCORES)} --alpha 0.2",
    f"test t.jsonl -o run {' '.join(SCORES)} --threshold 0.9",
    f"compare t.jsonl -o run {' '.join(SCORES)} --score length --force",
    f"audit t.jsonl -o new {' '.join(SCORES)}",
    f"shift t.jsonl --test t.jsonl -o new {' '.join(SCORES)}",
    "export run -o new.json --new-key key.pem",
    "export run -o g.json --force",
    "guardrail card g.json -o card.html",
    "check g.json t.jsonl -o decisions.jsonl",
    "doctor t.jsonl --page doctor.html",
    "label t.jsonl -o fresh --export answers.csv",
    "label d.jsonl -o fresh --guardrail g.json --from-log --per-day 5",
    "monitor g.json d.jsonl -o fresh",
    "plan --alpha 0.2 --max-fpr 0.3 --base-rate 0.5 --auroc 0.9 --figure fresh/below/plan.svg",
    "score t.jsonl --score length -o fresh/scores.parquet",
]


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of a process")
@pytest.mark.parametrize("words", FULL)
def test_on_a_full_disk_a_command_ends_in_one_line_and_leaves_nothing(
    folder: Path, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import resource

    from calibrail.cli import main

    call("check g.json t.jsonl -o d.jsonl")
    before, folders = _beside(folder), _folders(folder)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(sys, "argv", ["calibrail", *words.split()])
    resource.setrlimit(resource.RLIMIT_FSIZE, (900, limit[1]))
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    told = capsys.readouterr().err
    assert ended.value.code == 1
    assert told.splitlines()[-1].startswith("error: ")
    assert "File too large" in told and "/." not in told
    assert _beside(folder) == before
    assert _folders(folder) <= {*folders, folder / "new"}


@pytest.mark.parametrize("kind", ["shift", "audit"])
def test_what_nobody_could_read_is_no_look(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*about: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("calibrail.pipelines.run.write_page", full)
    test = f" --test {folder / 't.jsonl'}" * (kind == "shift")
    other = " --score length" * (kind == "audit")
    failed = call(f"{kind} t.jsonl{test} -o new SCORES{other}")
    assert "No space left" in str(failed.exception), failed.output
    assert not (folder / "new").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="other words of the system")
def test_what_the_system_refuses_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from calibrail.cli import main

    monkeypatch.setattr(sys, "argv", ["calibrail", "audit", "t.jsonl", "-o", "a" * 300])
    with pytest.raises(SystemExit) as ended:
        main()
    (told,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 1
    assert told.startswith("error: aaa") and told.endswith(": File name too long")
