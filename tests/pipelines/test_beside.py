"""Do baselines stand beside a user's own columns, whatever these are called, and do they not?"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import calibrail
from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.lexical import ANGLES, ContextLength, QuestionLength, QuestionWords
from calibrail.scores.registry import BASELINES, BUILT_IN, FEATURES, build_column, key_of


def answers(n: int = 240, column: str = "rouge_l", **without: Any) -> list[Example]:
    rng, made = np.random.default_rng(3), []
    for index in range(n):
        label = index % 2
        fields = {
            "question": f"How long is river {index}?",
            "contexts": (f"River {index} is {index} km long.",),
            "response": f"In Bonn, the Rhine is {index + label} km long.",
            "columns": {column: float(rng.normal(1.5 * label))},
        }
        made.append(Example(**fields | without, label=label, id=f"a{index}"))
    return made


def scores_file(path: Path, column: str) -> Path:
    rng = np.random.default_rng(3)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", column, "label"])
        for index in range(240):
            table.writerow([f"a{index}", rng.normal(1.5 * (index % 2)), index % 2])
    return path


def test_the_features_of_an_audit_are_known_by_name() -> None:
    kinds = (QuestionLength, ContextLength, QuestionWords, *ANGLES)
    assert tuple(kind.name for kind in kinds) == FEATURES


@pytest.mark.parametrize("name", [*BUILT_IN, *FEATURES, "rad:weighting=question"])
def test_a_column_called_like_a_score_says_that_it_is_a_column(name: str) -> None:
    assert key_of(build_column(name, "faithful")) == f"column:{name}"


def test_a_column_called_like_a_baseline_stands_beside_that_baseline(tmp_path: Path) -> None:
    column = build_column("rouge_l", "hallucinated")
    run = calibrail.calibrate(answers(), [column, "novelty"], allow_flag_all=True)
    assert {row.name for row in run.report.baselines} == {*BASELINES} - {"novelty"}
    assert [row.name for row in run.report.detectors] == ["novelty"]
    run.save(tmp_path / "run")
    written = pq.read_table(tmp_path / "run" / "scores.parquet")
    assert written["column:rouge_l"].to_pylist() != written["rouge_l"].to_pylist()
    compared = calibrail.compare(answers(), [column, "rouge_l"], allow_flag_all=True).to_dict()
    assert {item["name"] for item in compared["detectors"]} == {"column:rouge_l", "rouge_l"}
    run.freeze().save(tmp_path / "guardrail.json")
    guardrail = calibrail.Guardrail.load(tmp_path / "guardrail.json")
    decision = guardrail.check(response="x", columns={"rouge_l": 99.0})
    assert decision.outcome == "flag" and decision.score == 99.0 and "rouge_l" in decision.reason
    fresh = scores_file(tmp_path / "fresh.csv", "rouge_l")
    assert calibrail.certify(guardrail, fresh, max_fpr=0.9).n_undefined == 0


def test_scores_without_texts_say_in_one_line_that_no_baseline_stands_beside(
    tmp_path: Path,
) -> None:
    path, column = scores_file(tmp_path / "s.csv", "length"), build_column("length", "hallucinated")
    run = calibrail.calibrate(path, column)
    assert run.report.baselines == () and list(run.table.columns) == ["column:length"]
    assert [note for note in run.report.notes if "without the answers' texts" in note]
    compared = calibrail.compare(path, column).to_dict()
    assert compared["baselines"] == compared["uncalibrated"] == []
    assert "without the answers' texts" in str(compared["detectors"][0]["notes"])


def test_baselines_that_no_answer_has_are_left_out_in_one_line() -> None:
    run = calibrail.calibrate(answers(column="s", contexts=()), build_column("s", "hallucinated"))
    assert [row.name for row in run.report.baselines] == ["length"]
    (note,) = [note for note in run.report.notes if "Baselines left out" in note]
    assert "novelty" in note and "there is no context" in note
    assert set(run.data["baselines"]["undefined"]) == {*BASELINES} - {"length"}


def test_an_empty_first_answer_costs_no_baseline() -> None:
    made = answers(column="s")
    made[0] = Example(**{**{name: getattr(made[0], name) for name in ("id", "label", "columns")}})
    run = calibrail.calibrate(made, build_column("s", "hallucinated"), allow_flag_all=True)
    assert {row.name for row in run.report.baselines} == {*BASELINES}


def test_baselines_are_refused_on_request() -> None:
    made, column = answers(column="s"), build_column("s", "hallucinated")
    run = calibrail.calibrate(made, column, baselines=False)
    assert run.report.baselines == () and list(run.table.columns) == ["s"]
    assert run.report.to_dict()["data"]["baselines"]["none"] == "not asked for"
    compared = calibrail.compare(made, column, baselines=False)
    assert "--no-baselines" in json.dumps(compared.to_dict()["detectors"][0]["notes"])
    with pytest.raises(InputError, match="leave out baselines=False"):
        calibrail.calibrate(made, column, target=made, baselines=False)
    with pytest.raises(InputError, match="baselines must be True or False"):
        calibrail.compare(made, column, baselines="none")  # type: ignore[arg-type]
