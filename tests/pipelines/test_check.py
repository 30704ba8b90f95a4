"""Is a file that a guardrail cannot decide about refused, in place of flagged from end to end?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import calibrail
from calibrail.errors import DataError, InputError
from calibrail.pipelines.check import check_source
from calibrail.scores.registry import build_column


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def guardrail() -> calibrail.Guardrail:
    return calibrail.calibrate("example:facts", "rouge_l", alpha=0.2, baselines=False).freeze()


@pytest.fixture(scope="module")
def by_column() -> calibrail.Guardrail:
    scores = [k % 7 + 3.0 * (k % 2) for k in range(200)]
    data = {"s": scores, "label": [k % 2 for k in range(200)]}
    return calibrail.calibrate(data, build_column("s", "hallucinated")).freeze()


def test_answers_in_an_unknown_column_are_an_error_that_names_the_columns(
    guardrail: calibrail.Guardrail, tmp_path: Path
) -> None:
    rows = [{"antwort_text": "Ja.", "contexts": ["Ja."]}] * 3
    path = write(tmp_path / "rows.jsonl", rows)
    message = r"which column holds response.*antwort_text.*mapping={'response': "
    with pytest.raises(DataError, match=message):
        check_source(guardrail, path, tmp_path / "d.jsonl")
    with pytest.raises(DataError, match=message):
        guardrail.decide(rows)
    with pytest.raises(DataError, match=message):
        calibrail.certify(
            guardrail, [{**row, "label": k % 2} for k, row in enumerate(rows)], max_fpr=0.5
        )


def test_a_few_answers_without_contexts_follow_the_policy_and_many_are_an_error(
    guardrail: calibrail.Guardrail, tmp_path: Path
) -> None:
    few = write(tmp_path / "few.jsonl", [{"response": "Yes."}] * 3)
    assert check_source(guardrail, few, tmp_path / "d.jsonl") == {"flag": 3}
    many = write(tmp_path / "many.jsonl", [{"response": "Yes."}] * 150)
    with pytest.raises(DataError, match="which column holds contexts"):
        check_source(guardrail, many, tmp_path / "d.jsonl")
    table = tmp_path / "few.csv"
    table.write_text("response\nYes.\n")
    with pytest.raises(DataError, match="which column holds contexts"):
        check_source(guardrail, table, tmp_path / "d.jsonl")


def test_a_missing_score_column_is_an_error_that_names_the_columns(
    by_column: calibrail.Guardrail, tmp_path: Path
) -> None:
    path = write(tmp_path / "rows.jsonl", [{"response": "Yes.", "t": 0.5}] * 3)
    with pytest.raises(DataError, match="no column 's'; columns seen: response, t; name one"):
        check_source(by_column, path, tmp_path / "d.jsonl")


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_an_empty_file_is_an_error(
    guardrail: calibrail.Guardrail, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("" if name.endswith("jsonl") else "response,contexts\n")
    with pytest.raises(DataError, match="holds no row, so nothing was decided"):
        check_source(guardrail, tmp_path / name, tmp_path / "d.jsonl")


def test_a_run_that_fails_leaves_earlier_decisions_alone(
    guardrail: calibrail.Guardrail, tmp_path: Path
) -> None:
    output = tmp_path / "decisions.jsonl"
    (tmp_path / "none.jsonl").write_text("")
    foreign = tmp_path / "notes.jsonl"
    foreign.write_text("earlier\n")
    with pytest.raises(InputError, match="no result of calibrail stands there"):
        check_source(guardrail, "example:facts", foreign)
    assert foreign.read_text() == "earlier\n"
    check_source(guardrail, "example:facts", output)
    earlier = output.read_bytes()
    assert earlier
    with pytest.raises(DataError, match="holds no row"):
        check_source(guardrail, tmp_path / "none.jsonl", output)
    assert output.read_bytes() == earlier
