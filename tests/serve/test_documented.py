"""What docs/http-api.md says there is, is what there is."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from string import Formatter
from typing import Any

from benchmarks.reference_pages import filled
from calibrail.serve.service import Service

Visiting = Callable[..., None]

#: Figures of a watch are there with `--monitor`; tests of the watch compare them with the page.
_OF_A_WATCH = "calibrail_watch_"


def test_the_page_names_every_metric_with_its_labels_and_every_route(
    visit: Visiting, surface: Path, words: Path, repository: Path
) -> None:
    page = filled((repository / "docs" / "http-api.md").read_text())
    rows = re.findall(r"^\| (`calibrail_[^|]+) \| ?([^|]*) \|", page, re.MULTILINE)
    shown = {
        name: set(re.findall(r"`(\w+)`", labels))
        for names, labels in rows
        for name in re.findall(r"`(calibrail_\w+)`", names)
    }

    async def go(client: Any, _: Service) -> None:
        body = {"contexts": ["a"], "response": "b"}
        for name in ("surface", "words"):
            said = await client.post(f"/v1/check?guardrail={name}", json=body)
            assert said.status_code == 200
        text = (await client.get("/metrics")).text
        there: dict[str, set[str]] = {}
        for name, labels in re.findall(r"^(calibrail_\w+?)(?:\{(.*)\})? \S+$", text, re.MULTILINE):
            name = re.sub(r"_(bucket|sum|count)$", "", name)
            named = set(re.findall(r'(\w+)="', labels)) - {"le"}
            there[name] = there.get(name, set()) | named
        assert {name: on for name, on in shown.items() if not name.startswith(_OF_A_WATCH)} == there
        routes = set((await client.get("/openapi.json")).json()["paths"])
        assert {route for route in routes if f" {route}`" in page} == routes

    visit(go, surface, words)


def test_the_page_names_every_problem(repository: Path) -> None:
    page = (repository / "docs" / "http-api.md").read_text()
    rows = re.findall(r"^\| ([\d, ]+) \| ([^|]+) \|", page, re.MULTILINE)
    shown = {name for _, names in rows for name in re.findall(r"`([a-z-]+)`", names)}
    folder = repository / "src" / "calibrail" / "serve"
    cases = tomllib.loads((folder / "problems.toml").read_text(encoding="utf-8"))
    del cases["words"], cases["fields"], cases["example"]
    kinds = {case["kind"] for case in cases.values()}
    assert kinds | {"no-such-route", "no-such-method"} == shown
    given: dict[str, set[str | None]] = {}
    for node in (
        node for path in folder.glob("*.py") for node in ast.walk(ast.parse(path.read_text()))
    ):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("ServiceProblem.of"):
            given[ast.literal_eval(node.args[0])] = {item.arg for item in node.keywords}
    # A refusal that lacks a word of its own would be an error in the place of an answer.
    assert given == {
        case: {field for _, field, _, _ in Formatter().parse(of["detail"]) if field}
        for case, of in cases.items()
    }
