"""Does anything that lies in the working folder run, but the detector that was named?"""

from __future__ import annotations

import importlib.util
import json
import os
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from calibrail.scores.custom import modules_in_folder
from calibrail.working_folder import working_folder
from tests.answers import rows, write
from tests.cli.test_markdown import CODES, SCENARIOS, desk, words
from tests.command_line import calibrail
from tests.serve.process import Service

__all__ = ["desk"]

#: Runs commands in one process, and before anything is imported lays a file of its name in the
#: working folder: of what is installed, of what is not, of what libraries try.
LAID: Final = """
import contextlib, importlib, io, json, os, sys
from pathlib import Path

class Lays:
    def find_spec(self, name, path, target=None):
        if path is None and not Path(name + ".py").exists():
            Path(name + ".py").write_text(TRAP)
            importlib.invalidate_caches()

TRAP = f"open({str(Path('RAN').absolute())!r}, 'a').write(__name__ + chr(10))\\nraise ImportError"
sys.meta_path.insert(0, Lays())
from calibrail.cli import main

codes = []
for line in json.loads(sys.argv[1]):
    sys.argv = ["calibrail", *line]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            main()
        codes.append(0)
    except SystemExit as end:
        codes.append(end.code or 0)
print(json.dumps(codes))
# A trap does run where the folder is on the path.
sys.path.append(os.getcwd())
with contextlib.suppress(ImportError):
    import no_such_library
"""

#: What libraries try to import that calibrail stands on, or Python itself, and some more.
TRIED: Final = ("org", "bcrypt", "uarray", "cython", "brotli", "simplejson", "orjson", "ujson")

DETECTOR: Final = """
import own_helper

def score(example):
    from own_package import late
    return own_helper.length(example) + late.NOTHING
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with a detector, what it imports, and traps."""
    for name in TRIED:
        (tmp_path / f"{name}.py").write_text(
            f"open({str(tmp_path / 'RAN')!r}, 'a').write('{name} ')\nraise ImportError"
        )
    (tmp_path / "own_detector.py").write_text(DETECTOR)
    (tmp_path / "own_helper.py").write_text("def length(e):\n    return float(len(e.response))\n")
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "__init__.py").touch()
    (tmp_path / "own_package" / "late.py").write_text("NOTHING = 0.0\n")
    write(tmp_path / "answers.jsonl", rows(60))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


def test_no_command_imports_what_lies_in_the_working_folder(desk: Path, tmp_path: Path) -> None:
    place = tmp_path / "desk"
    shutil.copytree(desk, place)
    lines, expected = [], []
    for name in SCENARIOS:
        (tmp_path / name).mkdir()
        lines.append([str(word) for word in words(name, tmp_path / name)])
        expected.append(CODES.get(name, 0))
    key = str(tmp_path / "signs.pem")
    signed = str(tmp_path / "signed.json")
    lines += [
        ["export", "run", "-o", signed, "--new-key", key],
        ["guardrail", "verify", signed, "--key", str(tmp_path / "signs.pub.pem"), "--no-probe"],
        ["score", "judged.jsonl", "--score", "length", "--engine", "processes", "--workers", "1"],
    ]
    lines[-1] += ["-o", str(tmp_path / "scored")]
    expected += [0] * 3
    done = subprocess.run(
        [sys.executable, "-P", "-c", LAID, json.dumps(lines)],
        capture_output=True,
        text=True,
        cwd=place,
        env={**os.environ, "CALIBRAIL_CACHE": str(tmp_path / "answers.sqlite")},
    )
    assert done.returncode == 0, done.stderr
    assert (place / "RAN").read_text().split() == ["no_such_library"]
    codes = dict(zip(map(" ".join, lines), json.loads(done.stdout), strict=True))
    assert codes == dict(zip(codes, expected, strict=True)), done.stderr
    assert all((place / f"{name}.py").exists() for name in ("numpy", "org", "uarray", "pickle"))


@pytest.mark.parametrize("engine", ["local", "processes"])
def test_as_a_module_only_the_named_detector_runs(folder: Path, engine: str) -> None:
    line = ("score", "answers.jsonl", "--score", "own_detector:score", "-o", "out")
    done = subprocess.run(
        [sys.executable, "-m", "calibrail", *line, "--engine", engine],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    assert "own_detector:score  " in done.stdout
    assert not (folder / "RAN").exists()


@pytest.mark.parametrize("module", ["mcp", "nemo"])
def test_an_adapter_that_is_started_as_a_module_imports_nothing_of_the_folder(
    tmp_path: Path, module: str
) -> None:
    # What is installed is found there first: the adapter ends at its first library.
    for name in (*TRIED, "mcp", "pydantic", "nemoguardrails"):
        (tmp_path / f"{name}.py").write_text('open("RAN", "a")\nraise ImportError("a trap")')
    for option in ("-m", "-um"):
        line = [sys.executable, option, f"calibrail.integrations.{module}", "--help"]
        done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path)
        assert not (tmp_path / "RAN").exists() and "a trap" not in done.stderr


def test_a_detector_of_the_working_folder_goes_through_every_step(folder: Path) -> None:
    run, guardrail = folder / "run", folder / "g.json"
    made = calibrail(
        *("calibrate", "answers.jsonl", "--score", "own_detector:score", "--alpha", 0.2),
        *("-o", run),
        cwd=folder,
    )
    assert made.returncode == 0, made.stderr
    for line in (
        ("export", run, "-o", guardrail),
        ("guardrail", "verify", guardrail),
        ("check", guardrail, "answers.jsonl", "-o", folder / "decisions.jsonl"),
        ("explain", guardrail, "--response", "r", "--question", "q", "--context", "c"),
        ("certify", guardrail, "answers.jsonl", "--max-fpr", 0.99, "--fresh"),
    ):
        done = calibrail(*line, cwd=folder)
        assert done.returncode in (0, 3, 4), done.stderr
    # Elsewhere it is not found.
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    done = calibrail("check", guardrail, folder / "answers.jsonl", "-o", "d.jsonl", cwd=elsewhere)
    assert done.returncode != 0 and "No module named 'own_detector'" in done.stderr
    # Bytecode beside it that is of other code is not run.
    ran, compiled = folder / "RAN", folder / "compiled.py"
    compiled.write_text(f"open({str(ran)!r}, 'a').write('bytecode')")
    py_compile.compile(
        str(compiled),
        importlib.util.cache_from_source(str(folder / "own_detector.py")),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]
    line = ("check", guardrail, "answers.jsonl", "-o", folder / "again.jsonl", "--json")
    done = calibrail(*line, cwd=folder)
    assert done.returncode == 0 and not ran.exists(), done.stderr
    assert json.loads(done.stdout)["guardrail"] == json.loads(guardrail.read_text())["digest"]
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]
    # Changed it is refused before it runs.
    (folder / "own_detector.py").write_text(f"open({str(ran)!r}, 'a').write('changed')")
    done = calibrail("check", guardrail, "answers.jsonl", "-o", "d.jsonl", cwd=folder)
    assert done.returncode != 0 and "it was not imported" in done.stderr
    assert not ran.exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_service_decides_with_a_detector_of_its_folder(folder: Path, workers: int) -> None:
    pytest.importorskip("httpx2")
    guardrail = folder / "g.json"
    for line in (
        ("calibrate", "answers.jsonl", "--score", "own_detector:score", "--alpha", 0.2, "-o", "r"),
        ("export", "r", "-o", guardrail),
    ):
        assert calibrail(*line, cwd=folder).returncode == 0
    with Service(
        guardrail,
        "--workers",
        workers,
        "--log",
        "log",
        "--monitor",
        "watch",
        before=lambda: os.chdir(folder),
    ) as service:
        answer = service.check({"response": "four", "question": "q", "contexts": ["c"]})
        assert answer.status == 200, service.stderr
        assert answer.json()["score"] == 4.0
    assert not (folder / "RAN").exists()


def test_what_a_detector_imports_by_name_is_known_before_it_runs(folder: Path) -> None:
    (folder / "own_unused.py").touch()
    (folder / "json.py").touch()
    (folder / "own_helper.py").write_text("import json, numpy, no_such_library\n")
    assert modules_in_folder("own_detector") == set()
    with working_folder(folder):
        assert modules_in_folder("own_detector") == {"own_detector", "own_helper", "own_package"}
        assert modules_in_folder("calibrail.scores.custom") == set()
    assert "own_detector" not in sys.modules


def test_a_package_that_is_also_installed_is_not_that_of_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (folder, folder / "installed"):
        (place / "own_bare").mkdir(parents=True)
        (place / "own_bare" / "part.py").touch()
    with working_folder(folder):
        assert modules_in_folder("own_bare.part") == {"own_bare"}
        monkeypatch.syspath_prepend(folder / "installed")
        assert modules_in_folder("own_bare.part") == set()


@pytest.mark.parametrize("command", ["check", "serve", "explain", "guardrail verify"])
def test_where_own_code_is_forbidden_no_guardrail_loads_any(folder: Path, command: str) -> None:
    ran = f"open({str(folder / 'RAN')!r}, 'a').write('ran ')\n"
    (folder / "own_alone.py").write_text(f"{ran}def score(e):\n    return 1.0 * len(e.id)\n")
    asked = ("calibrate", "answers.jsonl", "--score", "own_alone:score", "--alpha", 0.2)
    assert calibrail(*asked, "-o", "run", cwd=folder).returncode == 0
    assert calibrail("export", "run", "-o", "g.json", cwd=folder).returncode == 0
    (folder / "RAN").unlink()
    rest = {
        "check": ("answers.jsonl", "-o", "out.jsonl"),
        "explain": ("--response", "r", "--question", "q", "--context", "c"),
    }
    line = (*command.split(), "g.json", *rest.get(command, ()), "--forbid-own-code")
    refused = calibrail(*line, cwd=folder)
    assert refused.returncode in (1, 2)
    assert "own_alone:score is code of its own, and --forbid-own-code forbids" in refused.stderr
    assert not (folder / "RAN").exists()
    if command == "check":
        # The next command of the same process may load it again.
        assert calibrail(*line[:-1], cwd=folder).returncode == 0
