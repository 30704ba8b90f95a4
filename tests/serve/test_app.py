"""What is asked is answered as `check` does; what is not right is refused by the field's name."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from calibrail import Example, calibrate
from calibrail.data.reading import read
from calibrail.guardrail import Guardrail
from calibrail.guardrail.decision_log import DecisionLog
from calibrail.serve.schemas import Item, ServiceProblem, read_json
from calibrail.serve.service import Service
from tests.serve.conftest import ANSWER, NOVEL

Visiting = Callable[..., None]


def test_an_answer_is_decided_byte_for_byte_as_check_does(visit: Visiting, surface: Path) -> None:
    guardrail = Guardrail.load(surface)

    async def go(client: Any, _: Service) -> None:
        for answer in (ANSWER, NOVEL):
            said = await client.post("/v1/check", json=answer)
            assert said.status_code == 200
            assert said.headers["content-type"] == "application/json"
            assert said.headers["calibrail-guardrail"] == guardrail.config.digest
            assert said.content.decode() == guardrail.check(**answer).line()
            assert said.json()["guardrail"] == guardrail.config.digest

    visit(go, surface)


def test_a_batch_is_its_answers_one_by_one_and_evidence_is_given_on_request(
    visit: Visiting, surface: Path
) -> None:
    guardrail = Guardrail.load(surface)

    async def go(client: Any, _: Service) -> None:
        items = [{**(NOVEL, ANSWER)[row % 2], "id": str(row)} for row in range(150)]
        said = await client.post("/v1/check/batch", json={"items": items})
        lines = [guardrail.check(**item).line() for item in items]
        assert said.text == f'{{"items": [{", ".join(lines)}]}}'
        said = await client.post("/v1/check", json={**NOVEL, "evidence": True})
        assert said.text == guardrail.check(**NOVEL).line(evidence=True)
        assert "evidence" in said.json()

    visit(go, surface)


@pytest.mark.painted
def test_one_decision_is_shown_as_a_page(visit: Visiting, surface: Path) -> None:
    async def go(client: Any, _: Service) -> None:
        hostile = {**NOVEL, "response": "Vienna banned <script>alert(1)</script> in March."}
        page = await client.post("/v1/check?format=html", json=hostile)
        assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
        assert "script-src" in page.headers["content-security-policy"]
        assert page.headers["calibrail-guardrail"] == Guardrail.load(surface).config.digest
        # The question, the answer with marks in place, its sources, and where its score lies.
        assert ANSWER["question"] in page.text and "<mark>Vienna</mark>" in page.text
        assert ANSWER["contexts"][0] in page.text and "<script>alert" not in page.text
        assert 'data-figure="strip"' in page.text and "this answer" in page.text
        markdown = await client.post("/v1/check?format=md", json=NOVEL)
        assert markdown.headers["content-type"].startswith("text/markdown")
        assert "Vienna" in markdown.text
        for address in ("/v1/check?format=pdf", "/v1/check/batch?format=html"):
            assert (await client.post(address, json=NOVEL)).status_code == 422

    visit(go, surface)


def test_a_page_of_an_endless_answer_is_bounded(visit: Visiting, surface: Path) -> None:
    async def go(client: Any, _: Service) -> None:
        words = " ".join(f"word{n}" for n in range(60_000))
        began = time.process_time()
        page = await client.post("/v1/check?format=html", json={**NOVEL, "response": words})
        assert page.status_code == 200 and len(page.content) < 300_000
        assert "more" in page.text
        assert time.process_time() - began < 20.0

    visit(go, surface)


def test_pages_that_many_ask_for_are_refused_and_later_drawn(
    visit: Visiting, surface: Path
) -> None:
    async def go(client: Any, _: Service) -> None:
        page = "/v1/check?format=html"
        asked = [client.post(page, json=NOVEL) for _ in range(12)]
        codes = [answer.status_code for answer in await asyncio.gather(*asked)]
        assert sorted(codes) == [200] * 8 + [429] * 4
        assert (await client.post(page, json=NOVEL)).status_code == 200

    visit(go, surface)


def test_p_hallucinated_is_told_on_request_as_check_tells_it(
    visit: Visiting, column: Path, tmp_path: Path
) -> None:
    rows = [
        Example(response=f"answer {row}", label=row % 2, columns={"risk": row % 2 + row % 7 / 10})
        for row in range(200)
    ]
    run = calibrate(rows, "column:column=risk,higher=hallucinated", alpha=0.1)
    path = tmp_path / "both.json"
    run.freeze(probability=True).save(path)
    plain = Guardrail.load(path)
    items = [{"id": str(n), "columns": {"risk": n / 10}} for n in range(12)]
    items.append({"id": "none", "columns": {"risk": None}})

    async def go(client: Any, _: Service) -> None:
        for more, told in (
            ({"probability": True}, plain.with_probability()),
            ({"probability": True, "base_rate": 0.05}, plain.with_probability(0.05)),
            ({}, plain),
        ):
            lines = [told.check(**item).line() for item in items]
            said = await client.post("/v1/check/batch", json={"items": items, **more})
            assert said.text == f'{{"items": [{", ".join(lines)}]}}'
            said = await client.post("/v1/check", json={**items[3], **more})
            assert said.text == lines[3] and ("probability" in said.text) == bool(more)
        for more, where, says in (
            ({"base_rate": 0.1}, "", "base_rate is what probability is for"),
            ({"probability": True, "base_rate": 1.0}, "/base_rate", "less than 1"),
            ({"probability": "yes"}, "/probability", "true or false"),
        ):
            said = await client.post("/v1/check", json={**items[0], **more})
            assert said.status_code == 422 and says in said.json()["detail"], said.text
            assert [item["pointer"] for item in said.json().get("errors", [])] == [where][
                : where != ""
            ]

    visit(go, path)
    log = DecisionLog(tmp_path / "log")

    async def refused(client: Any, _: Service) -> None:
        said = await client.post("/v1/check", json={**items[0], "probability": True})
        assert said.status_code == 422 and "--probability" in said.json()["detail"]

    visit(refused, column, log=log)
    # It is refused before anything is decided.
    written = "".join(file.read_text() for file in (tmp_path / "log").glob("*.jsonl"))
    assert '"score"' not in written


def test_evidence_is_the_same_whatever_was_asked_before(visit: Visiting, model: Path) -> None:
    guardrail = Guardrail.load(model)
    answers = [
        {"contexts": [*example.contexts], "response": example.response, "id": example.id}
        for example in islice(read("example:facts", require=(), labelled=False), 12)
    ]
    fresh = []
    for answer in answers:
        guardrail.score.forget()  # type: ignore[attr-defined]
        fresh.append(guardrail.check(**answer).line(evidence=True))

    async def go(client: Any, service: Service) -> None:
        deciding = service.guardrails.get(None).guardrail
        await client.post("/v1/check/batch", json={"items": answers})
        # What the batch left behind shows in some digit of what is scored next.
        assert [deciding.check(**answer).line(evidence=True) for answer in answers] != fresh
        await client.post("/v1/check/batch", json={"items": answers})
        said = await client.post("/v1/check/batch", json={"items": answers, "evidence": True})
        assert said.text == f'{{"items": [{", ".join(fresh)}]}}'
        said = await client.post("/v1/check", json={**answers[3], "evidence": True})
        assert said.text == fresh[3]

    visit(go, model)


def length_and_risk(example: Example) -> float:
    """A detector of one's own, which may read any column."""
    return len(example.response) / 100 + float(example.columns["risk"] or 0.0)


def test_a_detector_of_ones_own_gets_the_columns_that_are_given(
    visit: Visiting, tmp_path: Path
) -> None:
    rows = [
        Example(response=f"answer {row}", label=row % 2, columns={"risk": row % 2 + row % 7 / 10})
        for row in range(200)
    ]
    path = tmp_path / "own.json"
    calibrate(rows, "tests.serve.test_app:length_and_risk", alpha=0.1).freeze().save(path)
    guardrail = Guardrail.load(path)

    async def go(client: Any, _: Service) -> None:
        outcomes = set()
        for columns in ({"risk": 0.2}, {"risk": "1.5", "language": "de"}, {"language": "de"}, {}):
            asked = {"response": "an answer", "id": "one", "columns": columns}
            said = await client.post("/v1/check", json=asked)
            assert said.status_code == 200, said.text
            assert said.text == guardrail.check(**asked).line()
            outcomes.add(said.json()["outcome"])
        assert outcomes == {"pass", "flag", "error"}

    visit(go, path)


def test_a_column_is_read_as_from_a_file(visit: Visiting, column: Path) -> None:
    async def go(client: Any, _: Service) -> None:
        numbers = ((1.5, 1.5), ("1.5", 1.5), (1, 1.0), ("+.5e0", 0.5), ("0,5", 0.5), ("50 %", 0.5))
        for cell, score in (*numbers, (True, 1.0), ("false", 0.0), ("\u0661", 1.0), (None, None)):
            said = await client.post("/v1/check", json={"columns": {"risk": cell}})
            assert said.json()["score"] == score, cell
            assert (score is None) <= (said.json()["outcome"] != "pass")
        for cell in ("1_000", "none", "", "nan", "1e999", "0x1", "1,234"):
            said = await client.post("/v1/check", json={"columns": {"risk": cell}})
            assert said.status_code == 422, cell
            assert said.json()["errors"][0]["pointer"] == "/columns/risk"
            # What the guardrail does not read may be anything.
            body = {"columns": {"risk": 1, "other": cell}}
            assert (await client.post("/v1/check", json=body)).status_code == 200

    visit(go, column)


def test_a_text_in_place_of_a_score_is_refused_and_why_there_is_none_is_not_logged(
    visit: Visiting, column: Path, tmp_path: Path
) -> None:
    guardrail = Guardrail.load(column)
    body: dict[str, Any] = {"columns": {"risk": None}, "id": "1"}

    async def go(client: Any, _: Service) -> None:
        said = await client.post("/v1/check", json=body)
        assert said.text.removesuffix("\n") == guardrail.check(**body).line()
        assert "column risk is empty" in said.json()["reason"]
        said = await client.post("/v1/check", json={"columns": {"risk": "Ann is ill"}})
        assert said.status_code == 422

    visit(go, column, log=DecisionLog(tmp_path / "log"))
    (path,) = (tmp_path / "log").iterdir()
    logged = path.read_text()
    assert (
        "Ann" not in logged
        and "is empty" not in logged
        and "undefined score of column risk; policy: " in logged
    )


def test_a_number_that_python_does_not_read_has_too_many_digits() -> None:
    assert read_json(b'{"x": -7}') == {"x": -7}
    with pytest.raises(ServiceProblem, match=r"-1000.* has too many digits") as raised:
        read_json(b'{"x": -1' + b"0" * 5000 + b"}")
    assert raised.value.status == 422 and "sys." not in raised.value.detail


@pytest.mark.parametrize(
    ("body", "status", "pointers"),
    [
        (b"{", 400, None),
        (b"\xff", 400, None),
        (b"[" * 100_000, 400, None),
        (b'{"response": ' + b"[" * 150 + b"]" * 150 + b"}", 422, ["/response", "/contexts"]),
        (b"", 400, None),
        (b"[]", 422, [""]),
        (b"null", 422, [""]),
        ({**ANSWER, "contxts": []}, 422, ["/contxts"]),
        ({**ANSWER, "contexts": ["a", 3]}, 422, ["/contexts/1"]),
        ({**ANSWER, "response": None}, 422, ["/response"]),
        ({"contexts": "one text is one chunk"}, 422, ["/response"]),
        ({**ANSWER, "columns": {"a/b": [1]}}, 422, ["/columns/a~1b"]),
        (b'{"response": "", "contexts": [], "columns": {"x": 1e999}}', 422, ["/columns/x"]),
        (b'{"response": "\\ud800", "contexts": []}', 400, None),
        (b'{"response": "", "contexts": ["a", "\\uDC00x"]}', 400, None),
        (b'{"response": "\\ud83d\\ude00 \\u12", "contexts": []}', 400, None),
        (b'{"response": "a", "contexts": [], "response": "b"}', 422, None),
        (b'{"response": "a", "contexts": [], "columns": {"x": 1, "x": 1}}', 422, None),
        (
            b'{"response": "", "contexts": [], "columns": {"x": 1%b}}' % (b"0" * 400),
            422,
            ["/columns/x"],
        ),
        ({**ANSWER, "evidence": "yes"}, 422, ["/evidence"]),
    ],
)
def test_a_body_that_is_not_right_is_refused_by_the_names_of_its_fields(
    visit: Visiting, surface: Path, body: Any, status: int, pointers: list[str] | None
) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def go(client: Any, _: Service) -> None:
        said = await client.post(
            "/v1/check", content=raw, headers={"Content-Type": "application/json"}
        )
        assert said.status_code == status, said.text
        assert said.headers["content-type"] == "application/problem+json"
        problem = said.json()
        assert problem["status"] == status
        assert problem["type"].startswith("urn:calibrail:problem:")
        if pointers is not None:
            assert {item["pointer"] for item in problem["errors"]} >= {*pointers[:1]}
            assert {item["pointer"] for item in problem["errors"]} <= {*pointers}
            assert pointers[0] in problem["detail"]

    visit(go, surface)


def test_items_are_counted_before_they_are_looked_at(visit: Visiting, surface: Path) -> None:
    async def go(client: Any, service: Service) -> None:
        for path in ("/v1/check/batch", "/v1/select"):
            for items in ([1] * 5, [{}] * 5):
                said = await client.post(path, json={"items": items, "fdr": 0.1})
                assert (said.status_code, said.json()["type"]) == (
                    413,
                    "urn:calibrail:problem:too-many-items",
                )
                assert said.json()["detail"] == "5 answers in one request; send 4 at most"
            said = await client.post(path, json={"items": [ANSWER] * 3 + [{"a": 1}], "fdr": 0.1})
            assert said.status_code == 422
            assert said.json()["errors"][0]["pointer"] == "/items/3/a"

    visit(go, surface, queue=4)


def test_cells_for_sentences_are_told_apart_beside_the_loop(
    visit: Visiting, surface: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, example = list[bool](), Item.example

    def noting(item: Item, *args: Any, **given: Any) -> Any:
        beside.append(threading.current_thread() is not threading.main_thread())
        return example(item, *args, **given)

    monkeypatch.setattr(Item, "example", noting)

    async def go(client: Any, service: Service) -> None:
        for cell in (1, [1], "[1]"):
            body = {**ANSWER, "response": "? " * 100, "columns": {"mine": cell}}
            said = await client.post("/v1/check", json=body)
            assert said.status_code == (422 if cell == [1] else 200)
        many = {"items": [ANSWER] * 51}
        assert (await client.post("/v1/check/batch", json=many)).status_code == 200

    visit(go, surface)
    assert beside == [False] + [True] * 53


def test_one_bad_item_refuses_the_batch_before_anything_is_decided(
    visit: Visiting, surface: Path
) -> None:
    async def go(client: Any, service: Service) -> None:
        decided = []
        service.batcher._keep = lambda *given: decided.append(given)
        for bad, place in (
            ({**ANSWER, "id": 3}, "/items/1/id"),
            ({**ANSWER, "response": None}, "/items/1/response"),
        ):
            said = await client.post("/v1/check/batch", json={"items": [ANSWER, bad]})
            assert said.status_code == 422
            assert said.json()["errors"][0]["pointer"] == place
        assert decided == []

    visit(go, surface)


def test_several_guardrails_decide_by_name(visit: Visiting, surface: Path, column: Path) -> None:
    async def go(client: Any, _: Service) -> None:
        said = await client.post("/v1/check", json=ANSWER)
        assert said.status_code == 422
        assert "surface, column" in said.json()["detail"]
        said = await client.post("/v1/check?guardrail=other", json=ANSWER)
        assert said.status_code == 404
        said = await client.post("/v1/check?gaurdrail=surface", json=ANSWER)
        assert said.status_code == 422
        assert "gaurdrail" in said.json()["detail"]
        for route in ("check", "check/batch", "select"):
            said = await client.post(
                f"/v1/{route}?guardrail=surface&guardrail=column", json={**ANSWER, "fdr": 0.1}
            )
            assert said.status_code == 422
        said = await client.get("/v1/guardrail?guardrail=column&format=md&format=json")
        assert said.status_code == 422
        assert "?format= more than once" in said.json()["detail"]
        answers = await asyncio.gather(
            client.post("/v1/check?guardrail=surface", json=ANSWER),
            client.post("/v1/check?guardrail=column", json={"columns": {"risk": 0.1}}),
        )
        assert [said.json().get("column") for said in answers] == [None, "risk"]

    visit(go, surface, column)


def test_what_there_is_no_route_for_is_a_problem_too(visit: Visiting, surface: Path) -> None:
    async def go(client: Any, _: Service) -> None:
        for method, path, status in (("GET", "/nothing", 404), ("GET", "/v1/check", 405)):
            said = await client.request(method, path)
            assert said.status_code == said.json()["status"] == status
            assert said.headers["content-type"] == "application/problem+json"

    visit(go, surface)


def test_what_openapi_shows_is_what_is_taken_and_given(visit: Visiting, surface: Path) -> None:
    async def go(client: Any, _: Service) -> None:
        content = (await client.get("/openapi.json")).json()
        schemas = content["components"]["schemas"]
        named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(content)))
        assert named == schemas.keys()
        shown = 0
        for path, routes in content["paths"].items():
            for example in _examples(routes.get("post", {}).get("requestBody")):
                said = await client.post(path, json=example)
                if "columns" in str(example) or path.endswith("/stream"):
                    # Another guardrail reads columns, and another one takes answers in pieces.
                    assert said.status_code == 422
                    continue
                assert said.status_code == 200, said.text
                shown += 1
                reply = routes["post"]["responses"]["200"]["content"]["application/json"]
                model = schemas[reply["schema"]["$ref"].rpartition("/")[2]]
                assert {*model["required"]} <= said.json().keys()
        assert shown == 3
        for status, reply in content["paths"]["/v1/check"]["post"]["responses"].items():
            decision = {"application/json", "text/html", "text/markdown"}
            kinds = decision if status == "200" else {"application/problem+json"}
            assert reply["content"].keys() == kinds

    visit(go, surface)


def test_openapi_names_every_answer_that_a_route_gives(
    visit: Visiting, surface: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALIBRAIL_TOKEN", "secret")
    trusted = {"Authorization": "Bearer secret"}

    async def go(client: Any, service: Service) -> None:
        assert (await client.get("/openapi.json")).status_code == 401
        content = (await client.get("/openapi.json", headers=trusted)).json()
        assert content["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
        for path, routes in content["paths"].items():
            for method, route in routes.items():
                other = "GET" if method == "post" else "POST"
                asked: list[tuple[str, str, dict[str, str]]] = [
                    (method, path, {}),
                    (method, path, trusted),
                    (method, path, {**trusted, "Host": "elsewhere"}),
                    (other, path, {**trusted, "Content-Type": "application/json"}),
                ]
                for parameter in route.get("parameters", []):
                    asked.append((method, f"{path}?{parameter['name']}=none", trusted))
                given = set()
                for how, where, headers in asked:
                    said = await client.request(how.upper(), where, headers=headers)
                    given.add(str(said.status_code))
                    kind = said.headers["content-type"].partition(";")[0]
                    assert kind in route["responses"][str(said.status_code)]["content"], path
                assert ("401" in given) == (route.get("security") == [{"token": []}]), path
        taken = content["paths"]["/v1/guardrail"]["get"]["parameters"]
        assert {item["name"] for item in taken} == {"guardrail", "format"}
        service.draining = True
        said = await client.get("/readyz")
        assert str(said.status_code) in content["paths"]["/readyz"]["get"]["responses"]
        service.draining = False

    visit(go, surface)


def _examples(said: Any) -> list[Any]:
    parts = (said or {}).get("content", {}).get("application/json", {}).get("examples", {})
    return [part["value"] for part in parts.values()]
