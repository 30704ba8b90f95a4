"""Does ``calibrail audit`` print, write and refuse what it should?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from calibrail.cli import evidence as command
from calibrail.cli.parameters import command as as_command
from calibrail.errors import DataError, InputError
from tests.answers import rows, write

APP = as_command(command.audit_command, panel=None, name="audit")


def calibrail(*arguments: object) -> Result:
    return CliRunner().invoke(APP, [*map(str, arguments)], env={"COLUMNS": "80"})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    items = [{**row, "model": f"m[{index % 3}]"} for index, row in enumerate(rows(60))]
    return write(tmp_path / "data.jsonl", items)


def test_conclusions_first_then_tables(data: Path, tmp_path: Path) -> None:
    done = calibrail(
        data,
        "--score",
        "novelty",
        "--score-column",
        "detector",
        "--higher",
        "hallucinated",
        "--by",
        "model",
        "--no-geometry",
        "-o",
        tmp_path / "run",
    )
    assert done.exit_code == 0, done.output
    content = json.loads((tmp_path / "run" / "audit.json").read_text())
    lead = content["conclusions"][0]["message"]
    assert " ".join(done.stdout.split()).startswith(lead)
    assert done.stdout.index("What the data shows") < done.stdout.index("strata")
    assert "m[0]" in done.stdout
    assert "Left out" in done.stdout
    files = {path.name for path in (tmp_path / "run").rglob("*.*")}
    assert {"audit.json", "report.html", "scores.parquet", "2-strata.svg"} <= files
    assert [item["name"] for item in content["detectors"]] == ["novelty", "detector"]


def test_json_is_what_is_written(data: Path, tmp_path: Path) -> None:
    done = calibrail(
        data,
        "--score",
        "length",
        "--no-geometry",
        "--confidence",
        0.9,
        "--json",
        "-o",
        tmp_path / "run",
    )
    assert done.exit_code == 0
    assert json.loads(done.stdout) == json.loads((tmp_path / "run" / "audit.json").read_text())
    assert json.loads(done.stdout)["confidence"] == 0.9


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--score", "length", "--confidence", "2"), InputError),
        (("--score", "length", "--undefined", "maybe"), InputError),
        (("--score-column", "detector"), InputError),
        (("--score", "length", "--by", "nowhere"), DataError),
    ],
)
def test_mistakes_are_named(
    data: Path, tmp_path: Path, arguments: tuple[str, ...], error: type[Exception]
) -> None:
    done = calibrail(data, *arguments, "--no-geometry", "-o", tmp_path / "run")
    assert isinstance(done.exception, error)
