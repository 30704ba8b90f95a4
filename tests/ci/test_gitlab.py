"""Does the job for GitLab certify, report and fail as it should, in a real shell?"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

import calibrail
from tests.answers import rows, write

ROOT = Path(__file__).resolve().parents[2]
(JOB,) = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text(encoding="utf-8")).values()
HOSTILE = "a $(touch pwned) `touch pwned` ' \" ; touch pwned *"

pytestmark = pytest.mark.skipif(shutil.which("sh") is None, reason="needs a shell")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    score = "column:column=detector,higher=hallucinated"
    calibrail.calibrate(rows(), score, alpha=0.2).freeze().save(folder / "guardrail.json")
    write(folder / "heldout.jsonl", rows(prefix="New ", seed=1))
    bin = folder / "bin"
    bin.mkdir()
    for name, text in (
        ("pip", 'printf "%s\\n" "$@" > asked\n'),
        ("calibrail", f'exec "{sys.executable}" -P -m calibrail "$@"\n'),
    ):
        (bin / name).write_text(f"#!/bin/sh\n{text}")
        (bin / name).chmod(0o755)
    return folder


def run(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the job's script as a runner does: one shell, which ends where a command fails."""
    assert set(variables) <= set(JOB["variables"])
    env = {**os.environ, **JOB["variables"], **variables}
    env |= {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
    script = ["sh", "-e", "-c", "\n".join(JOB["script"])]
    return subprocess.run(script, capture_output=True, text=True, cwd=folder, env=env, check=False)


@pytest.mark.parametrize(
    ("limits", "code", "outcome"),
    [
        ({"MAX_FPR": "0.9", "MIN_COVERAGE": "0.4"}, 0, None),
        ({"MAX_FPR": "0.01"}, 3, "failure"),
        ({"MAX_FPR": "0.3", "MIN_COVERAGE": "0.85"}, 4, "skipped"),
    ],
)
def test_the_job_ends_as_the_verdict_and_reports_it(
    made: Path, tmp_path: Path, limits: dict[str, str], code: int, outcome: str | None
) -> None:
    folder = Path(shutil.copytree(made, tmp_path / "w"))
    done = run(folder, **limits, ARGUMENTS="--confidence 0.9")
    assert done.returncode == code, done.stderr
    assert (folder / "asked").read_text().split() == ["install", "--quiet", "calibrail==0.1.0"]
    artifacts = JOB["artifacts"]
    assert artifacts["when"] == "always" and all((folder / p).stat() for p in artifacts["paths"])
    assert "┃ required" in (folder / "certificate.md").read_text(encoding="utf-8")
    report = ElementTree.parse(folder / artifacts["reports"]["junit"])
    (suite,) = report.getroot()
    (case,) = suite
    assert case.attrib["name"] == "certificate of guardrail.json"
    assert {child.tag for child in case} == {"system-out"} | ({outcome} - {None})
    assert int(suite.attrib["failures"]) == (outcome == "failure")
    assert "90% confidence" in (folder / "certificate.md").read_text(encoding="utf-8")


def test_variables_are_values_whatever_they_hold(made: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made, tmp_path / "w"))
    (folder / "bin" / "calibrail").write_text('#!/bin/sh\nprintf "%s\\n" "$@" > given\n')
    hostile = {name: HOSTILE for name in JOB["variables"]}
    assert run(folder, **hostile).returncode == 0
    assert not list(tmp_path.rglob("pwned"))
    words = (folder / "given").read_text().splitlines()
    options = [f"--{name}={HOSTILE}" for name in ("max-fpr", "min-coverage", "trusted")]
    pages = [f"certificate.{ending}" for ending in ("html", "md", "xml")]
    shown = [word for page in pages for word in ("--page", page)]
    # Only further arguments are parted, by nothing but spaces.
    assert words == ["certify", *options, *HOSTILE.split(), *shown, "--", HOSTILE, HOSTILE]
    assert (folder / "asked").read_text().splitlines() == ["install", "--quiet", HOSTILE]


def test_the_documented_job_extends_the_template() -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(# \.gitlab-ci\.yml\n.*?)```", page, re.DOTALL)
    shown = yaml.safe_load(block)
    assert shown["include"][0]["remote"].endswith("/ci/gitlab.yml")
    assert shown["guardrail"]["extends"] == ".calibrail-certify"
    assert set(shown["guardrail"]["variables"]) <= set(JOB["variables"])
