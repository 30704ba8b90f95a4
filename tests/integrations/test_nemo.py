"""Does the rail of NeMo Guardrails block what the guardrail does not pass?"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.integrations.frameworks import need

need("nemo")
os.environ["NEMO_GUARDRAILS_NO_USAGE_STATS"] = "1"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

from nemoguardrails import LLMRails, RailsConfig  # noqa: E402
from nemoguardrails.exceptions import StreamingNotSupportedError  # noqa: E402
from nemoguardrails.testing.fake_model import FakeLLMModel  # noqa: E402

from calibrail.errors import InputError  # noqa: E402
from calibrail.integrations import Gate, nemo  # noqa: E402
from calibrail.integrations.gate import REFUSALS  # noqa: E402
from tests.integrations.pages import ROOT, run_example, run_page  # noqa: E402
from tests.integrations.scenario import CONTEXTS, QUESTION, WHY, Scenario  # noqa: E402

MESSAGES = [
    {"role": "context", "content": {"relevant_chunks": "\n".join(CONTEXTS)}},
    {"role": "user", "content": QUESTION},
]
PLAIN = "models: []\n"
HELD_BACK = """
rails:
  output:
    streaming: {enabled: true, stream_first: false, chunk_size: 1000000}
"""
PARALLEL = "rails: {output: {parallel: true}}\n"


def rails(*answers: str, yaml: str = PLAIN, colang: str = nemo.COLANG) -> LLMRails:
    """Return rails with the guardrail's flow, and a model that says what it is told to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nemo, "COLANG", colang)
        config = nemo.guarded(RailsConfig.from_content(yaml_content=yaml))
    return LLMRails(config, llm=FakeLLMModel(responses=list(answers)))


def answered(judged: LLMRails) -> tuple[str, Any]:
    """Return what the user sees, and the decision."""
    result = judged.generate(messages=MESSAGES, options={"output_vars": ["calibrail"]})
    return result.response[0]["content"], result.output_data["calibrail"]


@pytest.mark.parametrize("yaml", [PLAIN, PARALLEL], ids=["in turn", "in parallel"])
def test_only_a_passed_answer_is_released(scenario: Scenario, yaml: str) -> None:
    guardrail = scenario.guardrail()
    texts = (scenario.faithful, scenario.made_up, scenario.doubtful)
    judged = rails(*texts, yaml=yaml)
    nemo.register(judged, guardrail)
    for text in texts:
        decision = guardrail.check(question=QUESTION, contexts=CONTEXTS, response=text)
        shown, details = answered(judged)
        assert shown == (text if decision.outcome == "pass" else REFUSALS[decision.outcome])
        assert details == decision.to_dict() | {"guardrail": guardrail.config.digest}


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
def test_a_failing_detector_releases_nothing(
    scenario: Scenario, policy: Literal["error", "flag", "review"]
) -> None:
    judged = rails(scenario.faithful)
    nemo.register(judged, scenario.failing(policy))
    shown, details = answered(judged)
    assert (shown, details["outcome"]) == (REFUSALS[policy], policy)
    assert WHY in details["reason"]


def test_exceptions_of_rails_hold_the_decision(scenario: Scenario) -> None:
    judged = rails(scenario.made_up, yaml=PLAIN + "enable_rails_exceptions: true\n")
    nemo.register(judged, scenario.file)
    raised = judged.generate(messages=MESSAGES)
    assert raised["role"] == "exception"
    assert raised["content"]["type"] == "CalibrailRailException"
    assert raised["content"]["message"] == REFUSALS["flag"]
    assert raised["content"]["decision"]["p_value"] == 1


@pytest.mark.parametrize("yaml", [PLAIN, PARALLEL], ids=["in turn", "in parallel"])
def test_a_rail_without_its_action_blocks(scenario: Scenario, yaml: str) -> None:
    shown = rails(scenario.faithful, yaml=yaml).generate(messages=MESSAGES)["content"]
    assert shown == "Action 'calibrail_check' not found."


def test_a_rail_whose_action_raises_blocks(scenario: Scenario) -> None:
    judged = rails(scenario.faithful)

    async def raises(**_: Any) -> None:
        raise RuntimeError

    judged.register_action(raises, nemo.ACTION)
    assert scenario.faithful not in judged.generate(messages=MESSAGES)["content"]


def test_a_rail_that_names_another_action_is_refused_and_blocks(scenario: Scenario) -> None:
    misnamed = nemo.COLANG.replace(nemo.ACTION, "calibrail_chek")
    judged = rails(scenario.faithful, colang=misnamed)
    with pytest.raises(InputError, match="does not execute calibrail_check"):
        nemo.register(judged, scenario.file)
    assert scenario.faithful not in judged.generate(messages=MESSAGES)["content"]


def test_a_configuration_that_asks_no_guardrail_is_refused(scenario: Scenario) -> None:
    plain = LLMRails(RailsConfig.from_content(yaml_content=PLAIN), llm=FakeLLMModel(responses=[]))
    with pytest.raises(InputError, match=r"build LLMRails from guarded\(config\)"):
        nemo.register(plain, scenario.file)
    other = RailsConfig.from_content(yaml_content='models: []\ncolang_version: "2.x"\n')
    with pytest.raises(InputError, match=r"Colang 1\.0, and this configuration in 2\.x"):
        nemo.guarded(other)


def streamed(judged: LLMRails) -> list[str]:
    async def run() -> list[str]:
        return [chunk async for chunk in judged.stream_async(messages=MESSAGES)]

    return asyncio.run(run())


def test_a_stream_is_held_back_until_it_was_judged_whole(scenario: Scenario) -> None:
    decided: set[str] = set()
    gate = Gate(scenario.file, notify=lambda decision: decided.add(decision.outcome))
    for text, passed in (
        (scenario.faithful, True),
        (scenario.made_up, False),
        (scenario.doubtful, False),
    ):
        judged = rails(text, yaml=PLAIN + HELD_BACK)
        nemo.register(judged, gate)
        chunks = streamed(judged)
        if passed:
            assert "".join(chunks) == text
        else:
            (chunk,) = chunks
            assert json.loads(chunk)["error"]["code"] == "content_blocked"
    assert decided == {"pass", "flag", "review"}


def test_a_stream_of_a_failing_detector_shows_nothing(scenario: Scenario) -> None:
    judged = rails(scenario.faithful, yaml=PLAIN + HELD_BACK)
    nemo.register(judged, scenario.failing())
    (chunk,) = streamed(judged)
    assert "error" in json.loads(chunk)


@pytest.mark.parametrize(
    "change",
    [("stream_first: false", "stream_first: true"), ("1000000", "200")],
    ids=["shown first", "in pieces"],
)
def test_a_stream_that_would_be_shown_before_it_is_decided_is_refused(
    scenario: Scenario, change: tuple[str, str]
) -> None:
    judged = rails(scenario.made_up, yaml=PLAIN + HELD_BACK.replace(*change))
    with pytest.raises(InputError, match="shown before they are decided; set rails: output"):
        nemo.register(judged, scenario.file)


def test_a_stream_that_no_configuration_speaks_of_is_refused(scenario: Scenario) -> None:
    judged = rails(scenario.made_up)
    nemo.register(judged, scenario.file)
    with pytest.raises(StreamingNotSupportedError):
        streamed(judged)


def test_a_folder_of_configuration_asks_the_guardrail(scenario: Scenario, tmp_path: Path) -> None:
    # As the page says.
    page = (ROOT / "docs" / "integrations" / "nemo.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    module = re.findall(r"^    (from calibrail.*\n)    (def init.*\n)", page, re.MULTILINE)
    program = [sys.executable, "-m", "calibrail.integrations.nemo"]
    printed = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    (tmp_path / "calibrail.co").write_text(printed, encoding="utf-8")
    (tmp_path / "config.yml").write_text(PLAIN + shown, encoding="utf-8")
    content = "".join(module[0]).replace("guardrail.json", str(scenario.file))
    (tmp_path / "config.py").write_text(content, encoding="utf-8")
    config = RailsConfig.from_path(str(tmp_path))
    answers = [scenario.faithful, scenario.made_up]
    judged = LLMRails(config, llm=FakeLLMModel(responses=answers))
    assert answered(judged)[0] == scenario.faithful
    assert answered(judged)[0] == REFUSALS["flag"]


def test_the_page_runs(scenario: Scenario, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yml").write_text(PLAIN, encoding="utf-8")
    model = FakeLLMModel(responses=[scenario.made_up])
    names = run_page("nemo", scenario, tmp_path, model=model)
    assert names["answer"].response[0]["content"] == REFUSALS["flag"]
    assert names["decision"]["outcome"] == "flag"


def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run_example("nemo", tmp_path, capsys).splitlines()
    assert lines[-2:] == ["pass: Tungsten has the symbol W.", f"flag: {REFUSALS['flag']}"]
