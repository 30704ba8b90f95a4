"""A service of a guardrail of sentences gives what may be shown, and keeps no text of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from calibrail.client._core import answer
from calibrail.guardrail import Decision, Guardrail
from calibrail.guardrail.decision_log import DecisionLog
from calibrail.serve.guardrails import Loaded
from calibrail.serve.process import describe_guardrail
from calibrail.serve.service import Service
from tests.command_line import calibrail
from tests.guardrail.decision_log.logs import decided, lines
from tests.guardrail.test_sentences import columns_guardrail

Visiting = Callable[..., None]

TRIMMED = {
    "contexts": ["Tungsten is a metal."],
    "response": "Tungsten is a metal. However, basalt hums loudly.",
    "id": "trimmed",
}
EMPTIED = {**TRIMMED, "response": "Basalt hums loudly.", "id": "emptied"}
REVIEW = {**TRIMMED, "response": "Basalt hums loudly. The latter is a metal.", "id": "review"}
WHOLE = {**TRIMMED, "response": "Tungsten is a metal.", "id": "whole"}
ALL = [TRIMMED, EMPTIED, REVIEW, WHOLE]


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("serve") / "numbers.json"
    columns_guardrail().save(path)
    return path


def test_it_is_announced_with_scores_of_sentences(words: Path) -> None:
    guardrail = Guardrail.load(words, probe=True)
    probed = guardrail.probed
    assert probed is not None and probed.n > 16
    said = describe_guardrail(Loaded("words", words, guardrail, datetime.now(UTC)))
    assert f"; {probed.n} probe scores agree; " in said
    asked = guardrail.config.asked
    assert (", no verdict was asked for; " in said) != asked
    assert asked or "inconclusive" not in said


def test_the_service_says_what_check_does(visit: Visiting, words: Path) -> None:
    guardrail = Guardrail.load(words)

    async def go(client: Any, _: Service) -> None:
        for item in ALL:
            said = await client.post("/v1/check", json=item)
            assert said.text == guardrail.check(**item).line()
            decision = Decision.from_dict(said.json())
            assert decision.text == guardrail.check(**item).text
        said = await client.post("/v1/check/batch", json={"items": ALL})
        assert [item["text"] for item in said.json()["items"]] == [
            "Tungsten is a metal.",
            "",
            None,
            "Tungsten is a metal.",
        ]
        said = await client.post("/v1/check", json={**TRIMMED, "evidence": True})
        assert said.text == guardrail.decide([_example(TRIMMED)], alone=True)[0].line(evidence=True)
        known = (await client.get("/v1/guardrail")).json()
        assert known["guardrail"]["promise"]["unit"] == "sentence"
        page = await client.get("/v1/guardrail?format=md")
        assert "It removes each sentence" in page.text

    visit(go, words)


def _example(item: dict[str, Any]) -> Any:
    from calibrail import Example

    return Example(**{**item, "contexts": tuple(item["contexts"])})


def test_removed_sentences_are_counted(visit: Visiting, words: Path) -> None:
    async def go(client: Any, _: Service) -> None:
        before = (await client.get("/metrics")).text
        assert 'calibrail_removed_sentences_total{guardrail="words"} 0.0' in before
        await client.post("/v1/check/batch", json={"items": [*ALL, TRIMMED]})
        text = (await client.get("/metrics")).text
        for line in (
            'calibrail_removed_sentences_total{guardrail="words"} 3.0',
            'calibrail_trimmed_total{guardrail="words",left="something"} 2.0',
            'calibrail_trimmed_total{guardrail="words",left="nothing"} 1.0',
            'calibrail_decisions_total{guardrail="words",outcome="flag"} 3.0',
            'calibrail_decisions_total{guardrail="words",outcome="review"} 1.0',
        ):
            assert line in text

    visit(go, words)


@pytest.mark.parametrize("texts", [False, True])
def test_the_log_keeps_places_and_scores_and_texts_only_where_asked(
    visit: Visiting, words: Path, tmp_path: Path, texts: bool
) -> None:
    with DecisionLog(tmp_path / "log", texts=texts) as log:

        async def go(client: Any, _: Service) -> None:
            await client.post("/v1/check/batch", json={"items": ALL})

        visit(go, words, log=log)
    assert decided(tmp_path / "log") == [item["id"] for item in ALL]
    raw = "".join(path.read_text() for path in (tmp_path / "log").glob("*.jsonl"))
    assert ("hums" in raw) is texts
    first, *_ = [line for line in lines(tmp_path / "log") if "outcome" in line]
    decision = Decision.from_dict(first)
    assert decision.removed is not None
    assert [(item.start, item.end, item.score) for item in decision.removed] == [(21, 49, 3.0)]
    assert decision.text == ("Tungsten is a metal." if texts else None)
    done = calibrail("log", "verify", tmp_path / "log")
    assert done.returncode == 0, done.stdout
    done = calibrail("log", "export", tmp_path / "log", "-o", tmp_path / "log.parquet")
    assert done.returncode == 0, done.stderr
    table = pq.read_table(tmp_path / "log.parquet")
    assert table["n_removed"].to_pylist() == [1, 1, 1, 0]
    assert table["text"].to_pylist()[0] == ("Tungsten is a metal." if texts else None)


def test_a_column_takes_a_number_for_each_sentence(visit: Visiting, numbers: Path) -> None:
    text = "It is old. It is new."

    async def go(client: Any, _: Service) -> None:
        for cell in ([1, 149.0], "[1, 149.0]"):
            item = {"response": text, "columns": {"nli": cell}}
            said = (await client.post("/v1/check", json=item)).json()
            assert (said["text"], said["column_value"]) == ("It is old.", 149.0)
        item = {"response": text, "columns": {"nli": [1]}}
        said = await client.post("/v1/check", json=item)
        assert said.status_code == 422
        what = "column nli holds 1 number, and the answer has 2 sentences"
        assert what in said.json()["detail"]
        assert said.json()["errors"][0]["pointer"] == "/columns"
        said = await client.post("/v1/check/batch", json={"items": [item]})
        assert said.json()["errors"][0]["pointer"] == "/items/0/columns"
        for cell in ([1, "x"], [1, True], [[1], 2], {"a": 1}):
            wrong = {"response": text, "columns": {"nli": cell}}
            assert (await client.post("/v1/check", json=wrong)).status_code == 422

    visit(go, numbers)


def test_a_list_is_no_score_of_a_whole_answer(visit: Visiting, column: Path) -> None:
    async def go(client: Any, _: Service) -> None:
        item = {"response": "It is old.", "columns": {"risk": [1.0]}}
        said = await client.post("/v1/check", json=item)
        assert said.status_code == 422
        assert "must be a number or null" in said.json()["detail"]

    visit(go, column)


def test_the_client_sends_lists_and_reads_what_may_be_shown() -> None:
    sent, _ = answer({"response": "It is.", "columns": {"nli": (1, None, float("nan"))}})
    assert json.dumps(sent["columns"]) == '{"nli": [1.0, null, null]}'


def test_what_counts_flags_of_answers_is_refused(visit: Visiting, words: Path) -> None:
    async def go(client: Any, _: Service) -> None:
        said = await client.post("/v1/select", json={"items": [WHOLE], "fdr": 0.1})
        assert said.status_code == 422
        assert "select counts flags of whole answers" in said.json()["detail"]

    visit(go, words)
