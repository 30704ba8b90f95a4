"""Does Spark decide as calibrail does, by the recipe that the documentation shows?"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calibrail
from tests.integrations.frameworks import need

need("spark")

from pyspark.sql import SparkSession  # noqa: E402

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scale.md"


def recipe() -> str:
    """Return what the page shows under the heading of Spark."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## Spark\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return str(block)


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[calibrail.Example]:
    """Return the answers that stand in the folder of the test, in three partitions."""
    monkeypatch.chdir(tmp_path)
    examples = list(calibrail.read("example:facts"))[:300]
    columns: dict[str, list[Any]] = {
        name: [getattr(item, name) for item in examples] for name in ("id", "question", "response")
    }
    columns["contexts"] = [list(item.contexts) for item in examples]
    (tmp_path / "answers.parquet").mkdir()
    for part in range(3):
        rows = pa.table(columns).slice(100 * part, 100)
        pq.write_table(rows, tmp_path / "answers.parquet" / f"{part}.parquet")
    return examples


def test_the_recipe_decides_as_check_does(
    answers: list[calibrail.Example], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guardrail = calibrail.calibrate("example:facts", "rouge_l", alpha=0.1).freeze()
    guardrail.save(tmp_path / "guardrail.json")
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        # Several batches a partition, of which the decisions must not depend.
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "37")
        .getOrCreate()
    )
    try:
        exec(compile(recipe(), "scale.md", "exec"), {"__name__": "page"})
        decided = pq.read_table(tmp_path / "decisions.parquet").to_pylist()
    finally:
        session.stop()
    by_id = {row["id"]: row for row in decided}
    assert len(decided) == len(by_id) == len(answers)
    for decision in guardrail.decide(answers):
        expected = decision.to_dict()
        assert by_id[decision.id] == {name: expected[name] for name in by_id[decision.id]}
