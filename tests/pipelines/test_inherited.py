"""Is fresh data read with a guardrail's own options exactly where it has the same layout?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from calibrail import Guardrail, calibrate, certify
from calibrail.cli import app
from calibrail.options import ReadOptions
from calibrail.pipelines.run import inherited_reading

HOW = ReadOptions(mapping={"contexts": "grounds.body", "response": "ours"}, positive=0)


def rows(n: int, start: int = 0) -> list[dict[str, Any]]:
    """Return answers in an odd layout in which 1 means consistent."""
    return [
        {
            "grounds": {"body": f"fact{i} one two three four"},
            "ours": f"fact{i} one {'made up' if bad else 'two'} four",
            "label": int(not bad),
        }
        for i in range(start, start + n)
        for bad in (i % 2 == 0,)
    ]


def save(path: Path, content: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def guardrail(tmp_path_factory: pytest.TempPathFactory) -> Guardrail:
    path = save(tmp_path_factory.mktemp("data") / "a.jsonl", rows(120))
    return calibrate(path, "novelty", alpha=0.2, reading=HOW).freeze()


def test_a_file_of_the_same_layout_is_read_alike(guardrail: Guardrail, tmp_path: Path) -> None:
    fresh = save(tmp_path / "fresh.jsonl", rows(80, start=200))
    result = certify(guardrail, fresh, max_fpr=0.5)
    assert result == certify(guardrail, fresh, max_fpr=0.5, reading=HOW)
    assert (result.certificate.coverage.n, result.certificate.coverage.count) == (40, 40)
    assert result.reading["options"][-2:] == ["--positive", "0"]
    guardrail.save(tmp_path / "g.json")
    words = [str(tmp_path / "g.json"), str(fresh)]
    said = CliRunner().invoke(app, ["certify", *words, "--max-fpr", "0.5"])
    assert "read with --map contexts=grounds.body,response=ours --positive 0" in " ".join(
        said.stdout.split()
    )
    target = tmp_path / "decisions.jsonl"
    CliRunner().invoke(app, ["check", *words, "-o", str(target)])
    outcomes = [json.loads(line)["outcome"] for line in target.open()]
    assert outcomes == ["flag", "pass"] * 40


def test_a_file_of_another_layout_is_read_by_what_it_shows(
    guardrail: Guardrail, tmp_path: Path
) -> None:
    own = [
        {"contexts": row["grounds"]["body"], "response": row["ours"], "label": 1 - row["label"]}
        for row in rows(80, start=200)
    ]
    result = certify(guardrail, save(tmp_path / "own.jsonl", own), max_fpr=0.5)
    assert (result.certificate.coverage.n, result.certificate.coverage.count) == (40, 40)
    assert result.reading["options"] == []


def test_what_is_said_wins_over_what_was_frozen(guardrail: Guardrail, tmp_path: Path) -> None:
    fresh = save(tmp_path / "fresh.jsonl", rows(10, start=200))
    chosen = inherited_reading(
        ReadOptions(label_map={"1": 1, "0": 0}), guardrail, fresh, labelled=True
    )
    assert (chosen.positive, chosen.mapping) == (None, HOW.mapping)
    unlabelled = inherited_reading(None, guardrail, fresh, labelled=False)
    assert (unlabelled.positive, unlabelled.mapping) == (None, HOW.mapping)


def test_nothing_is_frozen_where_nothing_was_said() -> None:
    guardrail = calibrate("example:facts", "novelty", alpha=0.2).freeze()
    assert guardrail.config.data.reading is None
