"""A batch that came by HTTP is selected from as a file is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calibrail import Example, select
from calibrail.guardrail import Guardrail
from calibrail.guardrail.decision_log import DecisionLog
from calibrail.serve.service import Service
from tests.serve.test_batching import holding

Visiting = Callable[..., None]
RISKS = [-2.0, -1.5, 0.3, 0.9, 1.4, -1.0, None, -0.5] * 4
ITEMS = [
    {"response": f"new {row}", "id": str(row), "columns": {"risk": risk}}
    for row, risk in enumerate(RISKS)
]


def digest(response: str) -> str:
    return Example(response=response).digest()


def test_what_is_released_is_what_select_releases_from_a_file(
    visit: Visiting, column: Path, tmp_path: Path
) -> None:
    examples = [
        Example(response=item["response"], id=item["id"], columns=item["columns"]) for item in ITEMS
    ]
    expected = select(column, examples, fdr=0.1)
    # It set the threshold, so that nothing is known of it.
    known = Guardrail.load(column).config.data.calibration_examples
    old = next(text for row in range(200) if digest(text := f"answer {row}") in known)
    calibrated = {"response": old, "id": "old", "columns": {"risk": 1.1}}

    async def go(client: Any, _: Service) -> None:
        said = await client.post("/v1/select", json={"items": ITEMS, "fdr": 0.1})
        assert said.status_code == 200, said.text
        content = said.json()
        items = content.pop("items")
        assert content == {**expected.to_dict(), "source": "request"}
        assert [{**item, "row": row} for row, item in enumerate(items, 1)] == expected.items()
        assert 0 < content["n_released"] < len(items)
        more = await client.post("/v1/select", json={"items": [calibrated, *ITEMS], "fdr": 0.1})
        first, *rest = more.json()["items"]
        assert first == {
            **{"id": "old", "released": False, "score": None, "p_value": None},
            **{"seen_before": True, "column": "risk", "column_value": None},
        }
        assert rest == items
        assert more.json()["n_seen_before"] == 1
        none = await client.post("/v1/select", json={"items": [calibrated], "fdr": 0.1})
        assert none.status_code == 200, none.text
        assert (none.json()["n"], none.json()["n_released"]) == (0, 0)
        assert none.json()["items"] == [first]
        metrics = (await client.get("/metrics")).text
        assert 'decisions_total{guardrail="column",outcome="error"} 2.0' in metrics
        assert 'undefined_total{guardrail="column"} 8.0' in metrics

    visit(go, column, log=DecisionLog(tmp_path / "log"))
    lines = [
        json.loads(line)
        for file in (tmp_path / "log").iterdir()
        for line in file.read_text().splitlines()
    ]
    logged = [line for line in lines if line.get("kind") == "select"]
    seen = {"released": False}
    assert [line["released"] for line in logged] == [
        item["released"] for item in [*expected.items(), seen, *expected.items(), seen]
    ]
    assert {line["outcome"] for line in logged if "seen_before" in line["reason"]} == {"error"}


def test_a_selection_that_comes_too_late_is_a_timeout(visit: Visiting, column: Path) -> None:
    held, load = holding(column)

    async def go(client: Any, _: Service) -> None:
        said = await client.post("/v1/select", json={"items": ITEMS[:3], "fdr": 0.1})
        assert said.json()["n_released"] == 0
        metrics = (await client.get("/metrics")).text
        assert 'calibrail_failures_total{guardrail="column",kind="timeout"} 3.0' in metrics
        assert 'calibrail_failures_total{guardrail="column",kind="detector"} 0.0' in metrics
        held.may.set()

    visit(go, column, load=load, deadline=0.1)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"fdr": 1.5}, "/fdr"),
        ({"confidence": 0}, "/confidence"),
        ({"method": "guess"}, "/method"),
        ({"items": []}, "/items"),
        ({"items": [{"columns": {}}]}, "/items/0/columns/risk"),
    ],
)
def test_what_promises_nothing_is_refused(
    visit: Visiting, column: Path, change: dict[str, Any], place: str
) -> None:
    async def go(client: Any, _: Service) -> None:
        said = await client.post("/v1/select", json={"items": ITEMS, "fdr": 0.1} | change)
        assert said.status_code == 422
        assert said.json()["errors"][0]["pointer"] == place

    visit(go, column)
