from __future__ import annotations

import html
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.answers import rows, write
from tests.command_line import calibrail

COLUMN = ("--score-column", "detector", "--higher", "hallucinated")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("data") / "answers.jsonl", rows())


@pytest.fixture(scope="module")
def guardrail(answers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    made = calibrail("calibrate", answers, *COLUMN, "--alpha", 0.1, "-o", folder / "run")
    assert made.returncode == 0, made.stderr
    frozen = calibrail("export", folder / "run", "-o", folder / "guardrail.json")
    assert frozen.returncode == 0, frozen.stderr
    return folder / "guardrail.json"


def test_an_interrupt_is_told_from_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("calibrail.cli.start.diagnose", interrupted, raising=False)
    monkeypatch.setattr("calibrail.diagnose", interrupted, raising=False)
    assert calibrail("doctor", "example:facts").returncode == 130


def test_calibrate_prints_the_report_as_json(answers: Path, tmp_path: Path) -> None:
    done = calibrail(
        "calibrate", answers, *COLUMN, "--alpha", 0.1, "-o", tmp_path / "run", "--json"
    )
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert report == json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["reproduce"]["command"].startswith("calibrail calibrate ")
    assert str(tmp_path / "run") not in report["reproduce"]["command"]


@pytest.mark.parametrize(("limit", "code"), [("0.01", 3), ("0.35", 4)])
def test_an_asked_verdict_sets_the_exit_code(
    answers: Path, tmp_path: Path, limit: str, code: int
) -> None:
    done = calibrail(
        "calibrate", answers, *COLUMN, "--alpha", 0.1, "--max-fpr", limit, "-o", tmp_path / "run"
    )
    assert done.returncode == code, done.stdout


def test_a_promise_that_the_test_refutes_ends_with_its_exit_code(tmp_path: Path) -> None:
    # The first answers are easy, the others, which test, are not: no limit was asked.
    made = rows(400)
    for place, row in enumerate(made):
        easy = place < 200
        row["split"] = "calibration" if easy else "test"
        row["detector"] = float(place if row["label"] == easy else -place)
    write(tmp_path / "answers.jsonl", made)
    done = calibrail(
        "calibrate",
        "answers.jsonl",
        *COLUMN,
        "--alpha",
        0.1,
        "--split-column",
        "split",
        "-o",
        "run",
        cwd=tmp_path,
    )
    assert "REJECTED" in done.stdout
    assert done.returncode == 3


def test_check_writes_one_decision_a_row(guardrail: Path, answers: Path, tmp_path: Path) -> None:
    head, tail = rows(30)[:20], rows(30)[20:]
    traces = write(tmp_path / "traces.jsonl", [*head, "{broken", *tail, '{"detector": null}'])
    done = calibrail("check", guardrail, traces, "-o", tmp_path / "out" / "decisions.jsonl")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "out" / "decisions.jsonl").open()]
    assert [line["row"] for line in lines] == list(range(1, 63))
    always = {"id", "outcome", "score", "threshold", "p_value", "reason", "row", "guardrail"}
    assert set(lines[0]) == always | {"column", "column_value", "column_threshold"}
    digest = json.loads(guardrail.read_bytes())["digest"]
    assert {line["guardrail"] for line in lines} == {digest}
    by_id = {line["id"]: line for line in lines}
    assert by_id["row-21"]["outcome"] == "error"
    assert by_id["row-62"]["outcome"] == "flag"
    assert by_id["row-62"]["score"] is None
    assert "62 answers" in done.stdout
    assert (tmp_path / "out" / "quarantine.jsonl").is_file()


def test_what_was_done_has_a_schema_and_a_page(
    guardrail: Path, answers: Path, tmp_path: Path
) -> None:
    page = tmp_path / "pages" / "page.html"
    options = ("--page", page, "--json")
    done = calibrail("check", guardrail, answers, "-o", tmp_path / "d.jsonl", *options)
    content = json.loads(done.stdout)
    assert content["schema"] == "calibrail.check/1"
    assert content["checked"] == 240 == sum(content["outcomes"].values())
    assert "240 answers: " in page.read_text() and f"wrote {page}" in done.stderr
    done = calibrail("score", answers, "--score", "length", "-o", tmp_path / "s.parquet", *options)
    content = json.loads(done.stdout)
    assert content["schema"] == "calibrail.score/1"
    assert (content["examples"], content["undefined"]) == (240, {"length": 0})
    assert "240 answers, 0 undefined" in page.read_text()
    # The decisions themselves have taken standard output.
    done = calibrail("check", guardrail, answers, "-o", "-", "--page", page, "--json", cwd=tmp_path)
    assert len(done.stdout.splitlines()) == 240 and "240 answers: " in page.read_text()
    folder = guardrail.parent / "run"
    done = calibrail("export", folder, "-o", tmp_path / "guardrail.json", "--json")
    content = json.loads(done.stdout)
    assert content["schema"] == "calibrail.export/1"
    assert content["digest"] == json.loads((tmp_path / "guardrail.json").read_text())["digest"]


def test_what_is_next_is_said_once_with_the_folder(answers: Path, tmp_path: Path) -> None:
    run = ("calibrate", answers, *COLUMN, "--alpha", 0.1, "-o", "my runs/one")
    command = "  calibrail export 'my runs/one' -o guardrail.json"
    certified = calibrail(*run, "--max-fpr", 0.9, "--min-coverage", 0.5, cwd=tmp_path)
    assert certified.returncode == 0 and "next: " not in certified.stderr
    assert command in certified.stdout.splitlines() and certified.stdout.count("Next: ") == 1
    page = (tmp_path / "my runs/one/report.html").read_text(encoding="utf-8")
    # No option is parted from a short value.
    whole = '<span class="option">-o guardrail.json</span>'
    assert f"calibrail export &#39;my runs/one&#39; {whole}" in page
    # What is not certified is not sent on to be frozen. A further look decides nothing.
    rejected = ("--max-fpr", 0.0)
    for name, options, code in (("one", (), 0), ("one", rejected, 4), ("two", rejected, 3)):
        done = calibrail(*run[:-1], f"my runs/{name}", *options, cwd=tmp_path)
        assert done.returncode == code
        assert done.stdout.count("Next: ") == 1 and "next: " not in done.stderr


def test_certify_on_fresh_data(guardrail: Path, tmp_path: Path) -> None:
    fresh = write(tmp_path / "fresh.jsonl", rows(300, seed=5, prefix="New "))
    done = calibrail(
        "certify", guardrail, fresh, "--max-fpr", 0.9, "--min-coverage", 0.7, "--json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["verdict"] == "certified"
    assert result["coverage"]["method"] == "clopper-pearson"
    assert set(result["needed"]) == {"hallucinated", "faithful"}
    rejected = calibrail("certify", guardrail, fresh, "--max-fpr", 0.01, cwd=tmp_path)
    assert rejected.returncode == 3
    assert "REJECTED" in rejected.stdout.upper()


def test_compare_and_score(answers: Path, tmp_path: Path) -> None:
    run = ("--alpha", 0.1, "-o", tmp_path / "run")
    done = calibrail("compare", answers, "--score", "length,rouge_l", *COLUMN, *run)
    assert done.returncode == 0, done.stderr
    content = json.loads((tmp_path / "run" / "compare.json").read_text())
    assert {item["name"] for item in content["detectors"]} == {"length", "rouge_l", "detector"}
    scored = calibrail("score", answers, "--score", "length", "-o", tmp_path / "scores.parquet")
    assert scored.returncode == 0, scored.stderr
    import pyarrow.parquet as pq

    names = pq.read_table(tmp_path / "scores.parquet").column_names
    assert names == ["id", "group", "label", "row", "length"]


def test_doctor_reports_without_writing(answers: Path, tmp_path: Path) -> None:
    done = calibrail("doctor", answers, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "240" in done.stdout
    assert list(tmp_path.iterdir()) == []
    assert json.loads(calibrail("doctor", answers, "--json").stdout)["usable"] == 240


MISTAKES: list[tuple[tuple[str, ...], int, str]] = [
    (("calibrate", "{data}", "--score", "sgl", "-o", "x"), 2, "did you mean 'sgi'"),
    (("calibrate", "{data}", "--score", "rad:gama=1", "-o", "x"), 2, "no parameter 'gama'"),
    (("calibrate", "{data}", "--score-column", "detector", "-o", "x"), 2, "--higher"),
    (("calibrate", "{data}", "--score", "length", "--alpha", "1.3", "-o", "x"), 2, "alpha"),
    (("calibrate", "{data}", "--score", "length", "--guarantee", "some", "-o", "x"), 2, "pac"),
    (("calibrate", "{data}", "--score", "length", "--map", "q", "-o", "x"), 2, "KEY=VALUE"),
    (("calibrate", "{data}", "--score", "length"), 2, "--output"),
    (("calibrate", "nowhere.jsonl", "--score", "length", "-o", "x"), 1, "nowhere.jsonl"),
    (("calibrate", "{data}", "--score", "length", "--alpha", "0.001", "-o", "x"), 1, "999"),
    (("check", "nowhere.json", "{data}", "-o", "d.jsonl"), 1, "nowhere.json"),
    (("export", "nowhere", "-o", "g.json"), 1, "calibrail calibrate"),
]


def test_mistakes_are_explained(answers: Path, tmp_path: Path) -> None:
    for arguments, code, explanation in MISTAKES:
        filled = [argument.replace("{data}", str(answers)) for argument in arguments]
        done = calibrail(*filled, cwd=tmp_path)
        assert done.returncode == code, (arguments, done.stderr)
        assert explanation in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("calibrate", "--help"),
        ("doctor", "{data}"),
        ("calibrate", "{data}", *COLUMN, "--alpha", "0.1", "-o", "run"),
    ],
)
def test_nothing_heavy_is_imported_without_need(
    arguments: tuple[str, ...], answers: Path, tmp_path: Path
) -> None:
    filled = [argument.replace("{data}", str(answers)) for argument in arguments]
    program = (
        "import sys, atexit\n"
        "heavy = ('torch', 'transformers', 'sentence_transformers', 'sklearn', 'pandas')\n"
        "heavy += ('openai', 'litellm')\n"
        "atexit.register(lambda: print([m for m in heavy if m in sys.modules], file=sys.stderr))\n"
        "from calibrail.cli import main\n"
        f"sys.argv = ['calibrail', *{filled!r}]\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.stderr.strip().endswith("[]"), done.stderr


#: What a threshold on a column, tested in a terminal, does without.
UNNEEDED = (
    *("scipy.stats", "scipy.optimize", "scipy.sparse", "scipy.integrate", "matplotlib", "httpx2"),
    *("numpy.ctypeslib", "numpy.f2py", "numpy.testing", "numpy.ma.core", "pydoc", "unittest"),
    *("pyarrow.parquet", "pyarrow.compute", "pyarrow.dataset", "pydantic", "nupunkt"),
    *("multiprocessing", "concurrent.futures.process", "xml.etree.ElementTree"),
    *(f"calibrail.models.{name}" for name in ("loading", "networks", "classifiers", "embeddings")),
    *("calibrail.conformal.sequential.audited_calibration", "calibrail.options.labelling"),
    *("calibrail.evaluation.shift", "calibrail.report.markdown", "calibrail.report.html"),
    *("calibrail.models.llm.chat", "sqlite3", "calibrail.scores.judge_replies"),
    *("calibrail.conformal.risk_control", "calibrail.evaluation.sentence_removal"),
)


def test_a_first_test_takes_no_longer_than_it_must(tmp_path: Path) -> None:
    """No module, no text of an error and no search for garbage that it can do without."""
    program = (
        "import atexit, gc, json, sys\n"
        "def end():\n"
        "    told = sys.modules['calibrail.errors']._texts.cache_info().currsize\n"
        "    searched = sum(item['collections'] for item in gc.get_stats())\n"
        "    said = sys.modules['calibrail.report.messages'].message.cache_info().currsize\n"
        # What is named in it, and did not run, holds nothing yet but what the import gave it.
        "    ran = [name for name, it in sys.modules.items() if 'Lazy' not in str(type(it))]\n"
        "    seen = [ran, told, searched, gc.get_freeze_count(), said]\n"
        "    print(json.dumps(seen), file=sys.stderr)\n"
        "atexit.register(end)\n"
        "from calibrail.cli import main\n"
        "sys.argv = ['calibrail', 'test', 'example:judge', '--threshold', '0.7']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    loaded, told, searched, kept, said = json.loads(done.stderr)
    assert not {*UNNEEDED} & {*loaded}
    # Of a page nothing is said, and what is not said is not read.
    assert told == 0 and 0 < said < 20
    # There were 190, and one more look through all that is kept when the process ended.
    assert searched < 90 and kept > 50_000


def test_what_is_loaded_late_serves_whoever_uses_it() -> None:
    program = (
        "import sys\n"
        "from contextlib import suppress\n"
        "from calibrail.cli import main\n"
        "sys.argv = ['calibrail', '--version']\n"
        "with suppress(SystemExit):\n"
        "    main()\n"
        # Other commands run code of others, in several threads, where loading late is not safe.
        "assert '_WhereUsed' not in str(sys.meta_path)\n"
        "sys.argv = ['calibrail', 'test', '--help']\n"
        "for _ in range(2):\n"
        "    with suppress(SystemExit):\n"
        "        main()\n"
        "assert len({*sys.meta_path}) == len(sys.meta_path)\n"
        "import scipy.special, numpy\n"
        "assert 'Lazy' in str(type(sys.modules['numpy.testing']))\n"
        "from numpy.testing import assert_equal\n"
        "assert_equal(numpy.testing.assert_equal, assert_equal)\n"
        "assert numpy.f2py.run_main and 'Lazy' not in str(type(numpy.f2py))\n"
        "assert numpy.ma.masked_array([1], [True]).count() == 0\n"
        "assert numpy.random.default_rng(0).integers(9) == 7\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


def test_the_command_is_installed_and_ends_with_the_code_of_a_mistake(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).parent / "calibrail"), "doctor", "nowhere.jsonl"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    alike = calibrail("doctor", "nowhere.jsonl", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (alike.returncode, alike.stderr)
    assert done.returncode == 1 and "nowhere.jsonl" in done.stderr


def test_importing_the_package_is_light() -> None:
    program = "import sys, calibrail; print(len([m for m in sys.modules if m == 'numpy']))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "0"


def test_what_weakens_a_certificate_stands_wherever_it_is_shown(
    guardrail: Path, answers: Path, tmp_path: Path
) -> None:
    """The test half of the very file that calibrated is no fresh data."""
    page = tmp_path / "page.html"
    options = ("certify", guardrail, answers, "--max-fpr", 0.5, "--page", page)
    shown = " ".join(calibrail(*options).stdout.split())
    content = json.loads(calibrail(*options, "--json").stdout)
    assert any("This is the very file" in warning for warning in content["warnings"])
    on_page = html.unescape(" ".join(page.read_text(encoding="utf-8").split()))
    for warning in content["warnings"]:
        assert warning in shown
        assert warning in on_page


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("calibrate", "-o", "file"), 1, "file is a file, and -o names a folder of results"),
        (("calibrate", "-o", "file/run"), 1, "cannot write file/run: Not a directory"),
        (("score", "-o", "folder"), 1, "folder is a folder; name a file in it"),
        (("score", "-o", "scores.parquet", "--page", "folder"), 1, "folder is a folder"),
    ],
)
def test_where_nothing_can_be_written_is_said_before_the_work(
    tmp_path: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    name, *options = arguments
    # The data is not there: whoever looked at it first would say so.
    done = calibrail(name, "no such data", *options, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"error: {says}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
