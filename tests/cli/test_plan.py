"""Does ``calibrail plan`` print, draw and refuse what it should?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from calibrail.cli import start as command
from calibrail.cli.parameters import command as as_command
from calibrail.conformal import Assumption, plan_sequential
from calibrail.errors import InputError
from calibrail.options import Requirement
from calibrail.options.fields import cli_spelling
from tests.plans import planned

APP = as_command(command.plan_command, panel=None, name="plan")
RATES = ("--coverage", "0.97", "--fpr", "0.1", "--max-false-alarms", "0.2", "--base-rate", "0.3")


def calibrail(*arguments: object) -> Result:
    with cli_spelling():
        return CliRunner().invoke(APP, [*map(str, arguments)], env={"COLUMNS": "80"})


def test_alpha_alone() -> None:
    done = calibrail("--alpha", 0.05)
    assert done.exit_code == 0
    assert [line.split()[-1] for line in done.stdout.splitlines()[2:4]] == ["19", "45"]


def test_json_is_the_plan() -> None:
    done = calibrail("--alpha", 0.05, *RATES, "--n", 500, "--n", 4000, "--json")
    assert done.exit_code == 0
    expected = planned(
        0.05, coverage=0.97, fpr=0.1, max_fpr=0.2, base_rate=0.3, n=[500, 4000]
    ).to_dict()
    assert json.loads(done.stdout) == json.loads(json.dumps(expected))
    assert expected["schema"] == "calibrail.plan/1"


def test_a_detector_is_planned_as_calibrate_decides() -> None:
    """The command withholds a certificate where the test part contradicts it; so does the plan."""
    words = "--alpha 0.1 --guarantee pac --auroc 0.95 --max-false-alarms 0.4 --base-rate 0.3"
    words += " --delta 0.05 --confidence 0.9 --power 0.7 --calibration-share 0.4 --json"
    done = calibrail(*words.split())
    assert done.exit_code == 0
    rates = {"auroc": 0.95, "max_fpr": 0.4, "base_rate": 0.3, "delta": 0.05}
    expected = planned(0.1, **rates, confidence=0.9, power=0.7, calibration_share=0.4)
    found = json.loads(done.stdout)
    assert found["n"] == expected.n
    assert found["confidence"] == 0.9 and "joint_confidence" not in found


@pytest.mark.parametrize("name", ["plan.svg", "deep/plan.PNG", "plan.pdf"])
def test_the_figure_is_written(tmp_path: Path, name: str) -> None:
    done = calibrail("--alpha", 0.1, *RATES, "--figure", tmp_path / name)
    assert done.exit_code == 0
    assert (tmp_path / name).stat().st_size > 5000
    assert name.rsplit("/", 1)[-1] in done.stderr
    assert "drawn" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--figure", "plan.gif"), "--figure must end in .svg, .png, .pdf; got 'plan.gif'"),
        (("--figure", "plan.svg"), "plan must hold a curve"),
        (("--guarantee", "paper"), "--guarantee must be one of marginal, pac"),
        (
            ("--max-false-alarms", 0.2),
            "--max-false-alarms needs an assumption",
        ),
        (("--auroc", 0.9, "--max-false-alarms", 0.2), "--base-rate must be given"),
        (("--coverage", 0.9), "fpr must be given too"),
        ((*RATES, "--n", 0), "n must be at least 1"),
    ],
)
def test_wrong_usage_names_the_argument(arguments: tuple[object, ...], message: str) -> None:
    done = calibrail("--alpha", 0.1, *arguments)
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = calibrail("--alpha", 0.1, *RATES, "--figure", tmp_path / "file" / "plan.svg")
    assert "cannot write" in str(done.exception)


def test_the_command_imports_no_heavy_library() -> None:
    code = (
        "import sys; import calibrail.cli.start; "
        "sys.exit(bool({'numpy', 'scipy', 'matplotlib', 'rich.console'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_sequential_stands_beside_the_fixed_plan() -> None:
    arguments = ("--alpha", 0.2, "--coverage", 0.95, "--fpr", 0.1, "--max-false-alarms", 0.3)
    arguments += ("--base-rate", 0.3, "--n", 200, "--sequential")
    done = calibrail(*arguments, "--json")
    assert done.exit_code == 0
    content = json.loads(done.stdout)
    required = Requirement(max_fpr=0.3, min_coverage=0.8)
    made = plan_sequential(required, Assumption(coverage=0.95, fpr=0.1), 0.3)
    assert content["sequential"] == made.to_dict()
    assert content["sequential"]["fixed"] == content["n"]
    shown = calibrail(*arguments).stdout
    for design in ("uniform", "active"):
        found = made.designs[design]
        assert f"{design}: " in shown and f"{found.median:,}" in shown
    last = shown[shown.index("calibrail label") :].splitlines()[0].split()
    assert last[:5] == ["calibrail", "label", "TRACES", "-o", "labels"]
    assert last[-6:-4] == ["--max-false-alarms", "0.3"]
    assert last[-2:] == ["--min-caught", "0.8"]
    assert "sequential" not in json.loads(calibrail(*arguments[:-1], "--json").stdout)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--budget", 50), "--sequential"),
        (
            ("--sequential",),
            "--base-rate (share of hallucinated answers); --max-false-alarms (share",
        ),
        (("--sequential",), "--coverage (share that the threshold truly catches); --fpr (share"),
        (
            ("--sequential", "--base-rate", 0.3, "--auroc", 0.9, "--max-false-alarms", 0.3),
            "--sequential needs --coverage",
        ),
        (("--sequential", "--budget", 0, *RATES), "budget must be at least 1"),
    ],
)
def test_sequential_says_what_it_lacks(arguments: tuple[object, ...], message: str) -> None:
    done = calibrail("--alpha", 0.1, *arguments)
    assert isinstance(done.exception, InputError) and message in str(done.exception)
