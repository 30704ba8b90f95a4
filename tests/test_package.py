"""Does the wheel hold the whole package, and work without the repository or its extras?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import yaml

from tests import package

#: What an installation without extras does not have.
EXTRAS = (
    *("torch", "transformers", "sentence_transformers", "huggingface_hub", "openai", "litellm"),
    *("fastapi", "uvicorn", "httpx2", "prometheus_client", "py3langid"),
    *("onnx", "onnxruntime", "openvino", "ray", "pyspark"),
    *("matplotlib", "mapie", "sklearn", "safetensors", "cryptography", "securesystemslib"),
    *("statsmodels", "pandas", "joblib"),
)
WITHOUT = f"""
import sys


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Absent())
"""


NOVELTY = ("--score", "novelty", "-o", "run")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package.build(tmp_path_factory.mktemp("dist"))[1]


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and all that calibrail needs from this one."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    install = ["install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    into = ["--python", str(folder), *install, str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *into], check=True)
    # Behind the wheel, so that the package of this environment is not met.
    (site / "of_this_environment.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return folder / "bin" / "python"


def run(python: Path, folder: Path, *arguments: str, without: bool = False) -> tuple[int, str, str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if without:
        (folder / "sitecustomize.py").write_text(WITHOUT, encoding="utf-8")
        environment["PYTHONPATH"] = str(folder)
    command = [str(python), "-m", "calibrail", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout, done.stderr


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    assert list(package.wrong_in(wheel)) == []


def test_the_same_tree_gives_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    assert package.build(tmp_path)[1].read_bytes() == wheel.read_bytes()


def test_the_version_is_the_same_everywhere() -> None:
    assert list(package.disagreeing()) == []
    wrong = list(package.disagreeing("v9.9.9"))
    assert f"the tag is v9.9.9, and the version {package.VERSION}" in wrong


def test_the_wheel_is_what_runs(python: Path, tmp_path: Path) -> None:
    code = "import calibrail; print(calibrail.__file__)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    where = subprocess.run(
        [str(python), "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert Path(where.stdout.strip()).is_relative_to(python.parents[1])


def test_the_readme_runs_from_the_wheel(python: Path, tmp_path: Path) -> None:
    # What needs no model; `make package` runs all of it in an environment of its own.
    package.run_readme(python, tmp_path, only=4)
    assert (tmp_path / "runs/first/report.html").is_file()
    assert (tmp_path / "decisions.jsonl").is_file()


def test_help_and_a_detector_without_a_model_need_no_extra(python: Path, tmp_path: Path) -> None:
    code, said, _ = run(python, tmp_path, "--help", without=True)
    assert code == 0
    assert "calibrate" in said
    first = ["calibrate", "example:facts", "--score", "novelty", "--alpha", "0.2", "-o", "run"]
    assert run(python, tmp_path, *first, without=True)[0] == 0
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "calibrail[report]" in page and not list((tmp_path / "run" / "figures").iterdir())
    assert run(python, tmp_path, "export", "run", "-o", "guardrail.json", without=True)[0] == 0
    check = ["check", "guardrail.json", "example:facts", "-o", "decisions.jsonl"]
    assert run(python, tmp_path, *check, without=True)[0] == 0
    scores = ["--score", "novelty", "--score", "length", "--score", "rouge_l"]
    compare = ["compare", "example:facts", *scores, "--alpha", "0.2", "-o", "compared"]
    assert run(python, tmp_path, *compare, without=True)[0] in (0, 3, 4)


def test_the_core_is_light() -> None:
    project = tomllib.loads((package.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert len(project["dependencies"]) <= 8
    extras = project["optional-dependencies"]
    (full,) = extras["full"]
    named = re.fullmatch(r"calibrail\[(.*)\]", full)
    assert named and {*named[1].split(",")} < {*extras}


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("score", "example:facts", "--score", "rad", "-o", "s.parquet"), "models"),
        (("serve", "guardrail.json"), "serve"),
        (("export", "none", "-o", "g.json", "--sign", "key.pem"), "signing"),
        (("audit", "example:facts", *NOVELTY), "learning"),
        (("calibrate", "example:facts", "--risk", "precision>=0.5", *NOVELTY), "risks"),
    ],
)
def test_what_needs_an_extra_names_it(
    python: Path, tmp_path: Path, arguments: tuple[str, ...], extra: str
) -> None:
    code, _, said = run(python, tmp_path, *arguments, without=True)
    assert code == 1
    assert f"calibrail[{extra}]" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("workflow", ["ci", "release"])
def test_a_workflow_runs_what_is_here_with_pinned_actions(workflow: str) -> None:
    content = yaml.safe_load((package.ROOT / f".github/workflows/{workflow}.yml").read_text())
    assert content["permissions"] == {"contents": "read"}
    targets = set(re.findall(r"^([a-z-]+):", (package.ROOT / "Makefile").read_text(), re.MULTILINE))
    steps = [step for job in content["jobs"].values() for step in job["steps"]]
    for step in steps:
        if "uses" in step:
            pin = step["uses"].partition("@")[2]
            # The publisher asks for its branch of releases: it checks itself what it runs.
            assert re.fullmatch(r"[0-9a-f]{40}|release/v1", pin), step["uses"]
            continue
        # What a stranger may have named, such as a branch, is no part of a script.
        assert "${{" not in step["run"]
        program, argument = step["run"].split()[:2]
        assert (program, argument) == ("bash", ".ci/run") or argument in targets
    assert any(step.get("run") == "bash .ci/run" for step in steps)


def test_a_release_needs_only_its_tag() -> None:
    content = yaml.safe_load((package.ROOT / ".github/workflows/release.yml").read_text())
    # YAML reads "on" as true.
    assert content[True] == {"push": {"tags": ["v*"]}}
    assert content["jobs"]["publish"]["needs"] == "package"
    asked = content["jobs"]["package"]["permissions"]
    assert asked == {"contents": "read", "id-token": "write", "attestations": "write"}
