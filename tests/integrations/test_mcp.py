"""Does an assistant that speaks MCP hear what the guardrail says, over each transport?"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.integrations.frameworks import need

need("mcp")

from mcp import Client, StdioServerParameters  # noqa: E402

import calibrail  # noqa: E402
from calibrail.integrations import Gate  # noqa: E402
from calibrail.integrations.mcp import main, server  # noqa: E402
from tests.integrations.pages import ROOT, run_example, run_page  # noqa: E402
from tests.integrations.scenario import WHY, Scenario  # noqa: E402
from tests.ports import free_port  # noqa: E402


def arguments(scenario: Scenario, response: str) -> dict[str, Any]:
    asked = {"question": scenario.question, "contexts": list(scenario.contexts)}
    return {**asked, "response": response}


def called(made: Any, *answers: dict[str, Any]) -> list[Any]:
    async def calls() -> list[Any]:
        async with Client(made) as client:
            asked = (client.call_tool("check_answer", answer) for answer in answers)
            return list(await asyncio.gather(*asked))

    return asyncio.run(calls())


def answers(scenario: Scenario) -> list[dict[str, Any]]:
    texts = (scenario.faithful, scenario.doubtful, scenario.made_up)
    return [arguments(scenario, text) for text in texts]


def test_the_tool_returns_the_decision(scenario: Scenario) -> None:
    gate = Gate(scenario.file)
    results = called(server(gate), *(item | {"id": "7"} for item in answers(scenario)))
    assert [item.structured_content["outcome"] for item in results] == ["pass", "review", "flag"]
    for result, answer in zip(results, answers(scenario), strict=True):
        held = dict(result.structured_content)
        assert {held.pop(f"column{end}") for end in ("", "_value", "_threshold")} == {None}
        assert {held.pop(name) for name in ("text", "removed")} == {None}
        assert held == gate.details(gate.check(**answer, id="7"))
        assert held["guardrail"] == gate.digest
        assert json.loads(result.content[0].text) == result.structured_content


def test_the_server_has_one_tool_that_only_reads_and_says_what_it_takes_and_returns(
    scenario: Scenario,
) -> None:
    async def listed() -> list[Any]:
        async with Client(server(scenario.file)) as client:
            return list((await client.list_tools()).tools)

    (tool,) = asyncio.run(listed())
    assert tool.name == "check_answer"
    assert tool.annotations.read_only_hint and tool.annotations.idempotent_hint
    assert tool.annotations.open_world_hint is False
    assert tool.input_schema["required"] == ["question", "contexts", "response"]
    assert all(item["description"] for item in tool.input_schema["properties"].values())
    outcome = tool.output_schema["properties"]["outcome"]
    assert outcome["enum"] == ["pass", "flag", "review", "error"]


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
def test_a_failure_is_an_outcome(
    scenario: Scenario, policy: Literal["error", "flag", "review"]
) -> None:
    (result,) = called(server(scenario.failing(policy)), arguments(scenario, "x"))
    assert not result.is_error
    assert result.structured_content["outcome"] == policy
    assert WHY in result.structured_content["reason"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"response": None}, "response"),
        ({"response": 3}, "response"),
        ({"contexts": "one text"}, "contexts"),
        ({"contexts": [1]}, "contexts.0"),
        ({"question": ["q"]}, "question"),
        ({"columns": [1]}, "columns"),
    ],
)
def test_a_wrong_argument_is_an_error_of_the_tool_that_names_it(
    scenario: Scenario, wrong: dict[str, Any], field: str
) -> None:
    good = arguments(scenario, scenario.faithful)
    made = server(scenario.file)
    missing = {name: value for name, value in good.items() if name != "contexts"}
    for result, name in zip(called(made, good | wrong, missing), (field, "contexts"), strict=True):
        assert result.is_error and result.structured_content is None
        assert re.search(rf"^{re.escape(name)}", result.content[0].text, re.MULTILINE)


def test_a_guardrail_on_a_column_asks_for_it(scenario: Scenario) -> None:
    rows = [{"response": f"a{i}", "label": i % 2, "support": 1 - i / 200} for i in range(200)]
    run = calibrail.calibrate(rows, score="column:column=support,higher=faithful", alpha=0.3)
    given = arguments(scenario, "x") | {"columns": {"support": 0.2}}
    without, right = called(server(run.freeze()), arguments(scenario, "x"), given)
    assert without.is_error and "columns: this guardrail reads support" in without.content[0].text
    held = right.structured_content
    assert (held["column"], held["column_value"]) == ("support", 0.2)


def test_the_servers_entry_of_the_page_runs_over_stdio(scenario: Scenario) -> None:
    page = (ROOT / "docs" / "integrations" / "mcp.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (entry,) = json.loads(block)["mcpServers"].values()
    assert entry["command"] == "python"
    named = [str(scenario.file) if item.endswith(".json") else item for item in entry["args"]]
    command = StdioServerParameters(command=sys.executable, args=named, env=environment())
    results = called(command, *answers(scenario))
    assert [item.structured_content["outcome"] for item in results] == ["pass", "review", "flag"]


def environment() -> dict[str, str]:
    """Return where this repository's modules are: MCP hands little of an environment on."""
    return {"PYTHONPATH": str(ROOT / "src")}


def test_one_server_answers_several_assistants_over_http(
    scenario: Scenario, tmp_path: Path
) -> None:
    port = free_port()
    command = [sys.executable, "-m", "calibrail.integrations.mcp", str(scenario.file)]
    command += ["--transport", "streamable-http", "--port", str(port)]
    process = subprocess.Popen([*command, "--log", str(tmp_path / "log")])
    try:
        for _ in range(300):
            with socket.socket() as trying:
                if trying.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        outcomes: list[str] = []

        def assistant() -> None:
            results = called(f"http://127.0.0.1:{port}/mcp", *answers(scenario))
            outcomes.extend(item.structured_content["outcome"] for item in results)

        threads = [threading.Thread(target=assistant) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        process.terminate()
        process.wait(30)
    assert sorted(outcomes) == ["flag"] * 3 + ["pass"] * 3 + ["review"] * 3
    lines = "".join(path.read_text("utf-8") for path in (tmp_path / "log").glob("*.jsonl"))
    assert lines.count('"outcome"') == 9


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["none.json"], "error: cannot read none.json"),
        (["http://127.0.0.1:9", "--log", "log"], "error: log is for a guardrail of this process"),
    ],
)
def test_a_server_that_cannot_start_says_why(
    given: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=re.escape(said)):
        main(given)


def test_the_page_and_the_example_run(
    scenario: Scenario,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = arguments(scenario, scenario.made_up)
    assert run_page("mcp", scenario, tmp_path, **given)["decision"]["outcome"] == "flag"
    monkeypatch.setattr("mcp.client.stdio.get_default_environment", environment)
    output = run_example("mcp", tmp_path, capsys)
    assert "pass: Tungsten has the symbol W. (p-value 0.0" in output
    assert "flag: Copper melts at 4 degrees in the town of Lyon. (p-value 1.000)" in output
