"""Do the steps of action.yml certify, summarise, annotate and fail as they should, in a real shell?

The steps run in bash as a runner has them: expressions are filled in, outputs and the summary go to
files. Installing is looked at, not done.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

import calibrail
from tests.answers import rows, write

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
HOSTILE = "a $(touch pwned) `touch pwned` ' \" ; touch pwned"

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


@dataclass
class Job:
    """What a run of the action left behind."""

    code: int = 0
    log: str = ""
    summary: str = ""
    steps: dict[str, dict[str, str]] = field(default_factory=dict)
    used: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def outputs(self) -> dict[str, str]:
        return {
            name: filled(output["value"], {}, self.steps)
            for name, output in ACTION["outputs"].items()
        }

    def annotations(self) -> list[tuple[str, str]]:
        """Return the kind and the text of every workflow command that a runner would obey."""
        found, stopped = [], ""
        for line in self.log.splitlines():
            if stopped:
                stopped = "" if line == f"::{stopped}::" else stopped
            elif line.startswith("::stop-commands::"):
                stopped = line.removeprefix("::stop-commands::")
            elif match := re.match(r"::([\w-]+)(?: (.*?))?::(.*)$", line):
                found.append((match[1], f"{match[2]} {match[3]}"))
        return found


def filled(text: str, inputs: Mapping[str, str], steps: Mapping[str, Mapping[str, str]]) -> str:
    """Return a text with its expressions filled in."""

    def value(match: re.Match[str]) -> str:
        path = match[1].split(".")
        if path[0] == "inputs":
            return inputs[path[1]]
        assert (path[0], path[2]) == ("steps", "outputs")
        return steps[path[1]].get(path[3], "")

    return re.sub(r"\$\{\{\s*([\w.-]+)\s*\}\}", value, str(text))


def outputs_of(path: Path) -> dict[str, str]:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return {m[1]: m[3] for m in re.finditer(r"^([\w-]+)<<(\w+)\n(.*?)\n\2$", text, re.M | re.S)}


def act(folder: Path, **given: str) -> Job:
    """Run the action's steps in a workspace, until one fails."""
    inputs = {name: item.get("default", "") for name, item in ACTION["inputs"].items()}
    inputs |= {name.replace("_", "-"): value for name, value in given.items()}
    assert set(inputs) == set(ACTION["inputs"])
    temp = folder.parent / "runner"
    temp.mkdir(exist_ok=True)
    # What `python` is on the runner.
    shim = temp / "bin" / "python"
    shim.parent.mkdir(exist_ok=True)
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    shim.chmod(0o755)
    job = Job()
    for number, step in enumerate(ACTION["runs"]["steps"]):
        if condition := step.get("if"):
            name = re.fullmatch(r"inputs\.([\w-]+) != ''", condition)
            assert name is not None, condition
            if inputs[name[1]] == "":
                continue
        if "uses" in step:
            values = step["with"].items()
            job.used[step["uses"]] = {k: filled(v, inputs, job.steps) for k, v in values}
            continue
        output, summary = temp / f"output-{number}", temp / "summary"
        env = {name: filled(value, inputs, job.steps) for name, value in step["env"].items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            capture_output=True,
            text=True,
            cwd=folder,
            check=False,
            env={
                **{name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ},
                **env,
                "PATH": f"{shim.parent}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT / "src"),
                "PIP_NO_INDEX": "1",
                "GITHUB_ACTION_PATH": str(ROOT),
                "GITHUB_OUTPUT": str(output),
                "GITHUB_STEP_SUMMARY": str(summary),
                "RUNNER_TEMP": str(temp),
            },
        )
        assert "Traceback" not in done.stderr, done.stderr
        job.log += done.stdout
        job.summary = summary.read_text(encoding="utf-8") if summary.exists() else ""
        if "id" in step:
            job.steps[step["id"]] = outputs_of(output)
        if done.returncode:
            job.code = done.returncode
            break
    return job


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A guardrail that flags by a column, and answers to certify it on."""
    folder = tmp_path_factory.mktemp("made")
    score = "column:column=detector,higher=hallucinated"
    calibrail.calibrate(rows(), score, alpha=0.2).freeze().save(folder / "guardrail.json")
    write(folder / "heldout.jsonl", rows(prefix="New ", seed=1))
    return folder


@pytest.fixture
def workspace(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "workspace"))


EASY = {"max_fpr": "0.9", "min_coverage": "0.4"}
GIVEN = {"guardrail": "guardrail.json", "data": "heldout.jsonl", "version": "installed"}


def test_a_certified_guardrail_passes_with_a_summary_and_a_page(workspace: Path) -> None:
    job = act(workspace, **GIVEN, **EASY)
    assert job.code == 0, job.log
    outputs = job.outputs
    assert (outputs["verdict"], outputs["exit-code"]) == ("certified", "0")
    certificate = json.loads(Path(outputs["json"]).read_text(encoding="utf-8"))
    assert float(outputs["coverage"]) == certificate["coverage"]["estimate"] > 0.5
    assert float(outputs["fpr"]) == certificate["fpr"]["estimate"]
    assert job.summary.startswith("# calibrail certificate of guardrail.json\n\n**Certified**")
    assert "┃ required" in job.summary
    assert job.summary == Path(outputs["markdown"]).read_text(encoding="utf-8")
    assert "<svg" in Path(outputs["page"]).read_text(encoding="utf-8")
    assert [text for kind, text in job.annotations() if kind == "error"] == []
    assert len(job.annotations()) == len(certificate["warnings"])
    upload = next(value for name, value in job.used.items() if "upload-artifact" in name)
    assert upload["name"] == "calibrail-certificate"
    assert {path.name for path in Path(upload["path"]).iterdir()} == {
        *("certificate.html", "certificate.md", "certificate.json", "guardrail.looks.json")
    }


REJECTED = ({"max_fpr": "0.01"}, "rejected", 3)
OPEN = ({"max_fpr": "0.3", "min_coverage": "0.85"}, "inconclusive", 4)


@pytest.mark.parametrize(
    ("asked", "fail_on", "ends", "kind"),
    [
        (REJECTED, "rejected", 3, "error"),
        (REJECTED, "never", 0, "error"),
        (OPEN, "not-certified", 4, "error"),
        (OPEN, "rejected", 0, "warning"),
    ],
)
def test_a_verdict_fails_the_step_where_it_is_to(
    workspace: Path, asked: tuple[dict[str, str], str, int], fail_on: str, ends: int, kind: str
) -> None:
    limits, verdict, code = asked
    job = act(workspace, **GIVEN, **limits, fail_on=fail_on)
    assert (job.outputs["verdict"], job.outputs["exit-code"]) == (verdict, str(code))
    assert job.code == ends, job.log
    # The page is there whatever the verdict is.
    assert any("upload-artifact" in name for name in job.used)
    first, text = job.annotations()[0]
    assert first == kind
    assert text.startswith(f"file=guardrail.json,title=calibrail%3A {verdict} ")
    assert f"**{verdict.capitalize()}**" in job.summary


def test_a_group_that_is_rejected_fails_the_step_and_is_named(workspace: Path) -> None:
    fresh = rows(120, prefix="New ", seed=1)
    for number, row in enumerate(fresh):
        row["team"] = "legal" if number % 4 < 2 else "sales"
        # In one group the detector finds nothing.
        row["detector"] = 0.0 if row["team"] == "legal" else 9.0 * row["label"] - 3.0
    write(workspace / "heldout.jsonl", fresh)
    limits = {"max_fpr": "0.9", "min_coverage": "0.3", "arguments": "--by team"}
    job = act(workspace, **GIVEN, **limits)
    assert (job.outputs["verdict"], job.code) == ("certified", 3)
    assert any(
        "By itself the group legal (team) is rejected." in text for _, text in job.annotations()
    )
    assert act(workspace, **GIVEN, **limits, fail_on="never").code == 0


def test_the_looks_are_handed_out(workspace: Path) -> None:
    job = act(workspace, **GIVEN, **EASY)
    assert job.outputs["looks"] == "guardrail.looks.json"
    assert Path(job.outputs["json"]).with_name("guardrail.looks.json").is_file()


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        ({"data": "nowhere.jsonl", **EASY}, 1, "nowhere.jsonl"),
        ({"max_fpr": "much"}, 2, "'--max-false-alarms'"),
        ({**EASY, "arguments": "--by 'kind"}, 2, "arguments cannot be read as a shell would"),
        ({**EASY, "arguments": "--help"}, 2, "something else than a certificate"),
        ({**EASY, "fail_on": "always"}, 2, "fail-on must be one of not-certified, rejected, never"),
        ({**EASY, "trusted": "missing.pem"}, 1, "guardrail.json is not signed"),
    ],
)
def test_what_cannot_be_certified_fails_and_says_why(
    workspace: Path, given: dict[str, str], code: int, message: str
) -> None:
    job = act(workspace, **GIVEN | given)
    assert job.code == code, job.log
    assert job.outputs["verdict"] == "error" and job.outputs["exit-code"] == str(code)
    assert (job.outputs["coverage"], job.outputs["page"]) == ("", "")
    ((kind, text),) = job.annotations()
    assert kind == "error" and message in text and "nothing was certified" in text
    assert job.summary.startswith("# Nothing was certified") and message in job.summary


def test_inputs_are_values_whatever_they_hold(workspace: Path) -> None:
    (workspace / "guardrail.json").rename(workspace / f"{HOSTILE}.json")
    (workspace / "heldout.jsonl").rename(workspace / "-o x, y: 50%.jsonl")
    hostile = {"guardrail": f"{HOSTILE}.json", "data": "-o x, y: 50%.jsonl"}
    job = act(workspace, **GIVEN | hostile, max_fpr="0.01", artifact=HOSTILE)
    assert job.outputs["verdict"] == "rejected" and job.code == 3, job.log
    assert not list(workspace.parent.rglob("pwned"))
    assert job.annotations()[0][1].startswith("file=a $(touch pwned) `touch pwned`")
    for name in ("max-fpr", "arguments", "trusted", "fail-on"):
        job = act(workspace, **GIVEN | EASY | {name.replace("-", "_"): HOSTILE})
        assert job.code in (1, 2) and not list(workspace.parent.rglob("pwned")), name
    for name in ("version", "extras"):
        job = act(workspace, **GIVEN | {"version": "0.1", name: HOSTILE})
        assert job.code == 2 and not list(workspace.parent.rglob("pwned")), name


def test_what_data_says_is_no_workflow_command(workspace: Path) -> None:
    hostile = workspace / "rows.jsonl"
    row = {"id": "::add-mask::a", "response": "r", "label": "::error::1\n::error::2"}
    write(hostile, [row | {"detector": "\r\n::set-output name=x::y"}])
    for given in ({"data": str(hostile)}, {"guardrail": "x\n::error::from a name.json"}):
        job = act(workspace, **GIVEN | EASY | given)
        assert job.code in (1, 2)
        assert [kind for kind, _ in job.annotations()] == ["error"]
    # A name forges no line of its own.
    assert "::error::from a name" in job.log and "\n::error::from a name" not in job.log
    certificate = {"verdict": "rejected", "reason": "50%\n::error::x", "warnings": ["w"] * 12}
    program = (
        "import sys, json; sys.path.insert(0, sys.argv[1]); import github\n"
        "for finding in github.findings(json.loads(sys.argv[2]), True):\n"
        "    github.annotate(*finding, 'a,b:c\\n::error::d')\n"
    )
    words = [sys.executable, "-c", program, str(ROOT / "ci"), json.dumps(certificate)]
    log = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    shown = Job(log=log).annotations()
    # GitHub shows ten of a kind.
    assert [kind for kind, _ in shown] == ["error", *["warning"] * 10]
    assert "50%25%0A::error::x" in shown[0][1] and "file=a%2Cb%3Ac%0A" in shown[0][1]
    assert "3 more warnings stand in the summary" in shown[-1][1]


def test_what_is_installed_is_the_action_s_own_or_the_version_asked_for(workspace: Path) -> None:
    program = workspace / "pip.sh"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > asked\n')
    program.chmod(0o755)
    for given, wanted in (
        ({}, str(ROOT)),
        ({"INPUT_EXTRAS": "models, judge"}, f"{ROOT}[models, judge]"),
        ({"INPUT_VERSION": "0.1.0", "INPUT_EXTRAS": "models"}, "calibrail[models]==0.1.0"),
    ):
        code = (
            "import sys; sys.path.insert(0, sys.argv[1]); import github\n"
            "sys.executable = sys.argv[2]; sys.exit(github.install())\n"
        )
        words = [sys.executable, "-c", code, str(ROOT / "ci"), str(program)]
        subprocess.run(words, check=True, cwd=workspace, env={**os.environ, **given})
        asked = (workspace / "asked").read_text().splitlines()
        assert asked[:4] == ["-P", "-m", "pip", "install"] and asked[-1] == wanted


def test_no_expression_stands_in_a_script_and_every_action_is_pinned() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", step["uses"])


def steps_of(block: str) -> list[dict[str, Any]]:
    (job,) = yaml.safe_load(block)["jobs"].values()
    return list(job["steps"])


def test_the_documented_workflow_uses_inputs_and_outputs_that_are_there() -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(# \.github/workflows/.*?)```", page, re.DOTALL)
    assert blocks
    for block in blocks:
        used = [step for step in steps_of(block) if "/calibrail@" in step.get("uses", "")]
        assert used and all(set(step["with"]) <= set(ACTION["inputs"]) for step in used)
        named = re.findall(r"steps\.\w+\.outputs\.([\w-]+)", block)
        assert set(named) <= set(ACTION["outputs"])
        assert all("${{" not in step.get("run", "") for step in steps_of(block))
