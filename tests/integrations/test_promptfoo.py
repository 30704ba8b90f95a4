"""Does an assertion of promptfoo pass where the guardrail does, and only there?"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from calibrail.integrations.promptfoo import assertion
from tests.integrations.pages import ROOT, run_page
from tests.integrations.scenario import WHY, Scenario


def context(scenario: Scenario) -> dict[str, Any]:
    return {"vars": {"question": scenario.question, "context": list(scenario.contexts)}}


def test_it_passes_where_the_guardrail_does(scenario: Scenario, tmp_path: Path) -> None:
    get_assert = run_page("promptfoo", scenario, tmp_path)["get_assert"]
    texts = {"pass": scenario.faithful, "review": scenario.doubtful, "flag": scenario.made_up}
    for outcome, text in texts.items():
        result = json.loads(json.dumps(get_assert(text, context(scenario))))
        assert result["pass"] is (outcome == "pass")
        assert result["score"] == float(outcome == "pass")
        assert result["reason"].startswith(f"{outcome}: score")
        kept = result["metadata"]["calibrail"]
        assert kept["outcome"] == outcome
        assert kept["p_value"] == result["namedScores"]["calibrail_p_value"]
        assert kept["guardrail"] == scenario.guardrail().config.digest


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
def test_a_detector_that_fails_leaves_it_to_the_policy(
    scenario: Scenario, policy: Literal["error", "flag", "review"]
) -> None:
    result = assertion(scenario.failing(policy))(scenario.faithful, context(scenario))
    assert (result["pass"], result["namedScores"]) == (False, {})
    assert result["reason"].startswith(f"{policy}: ")
    assert WHY in result["reason"]


def test_a_test_without_its_variable_fails_and_says_so(scenario: Scenario) -> None:
    get_assert = assertion(scenario.file, question="query", contexts="passages")
    result = get_assert(scenario.faithful, context(scenario))
    assert result["pass"] is False
    assert "no variable 'passages'" in result["reason"]
    other = {"vars": {"query": scenario.question, "passages": scenario.contexts[0]}}
    assert get_assert(scenario.faithful, other)["pass"] is True


def test_it_stands_in_promptfoos_own_runner(scenario: Scenario, tmp_path: Path) -> None:
    promptfoo = shutil.which("promptfoo")
    if promptfoo is None:
        pytest.skip("promptfoo is not on the path: npm install --global promptfoo")
    page = (ROOT / "docs" / "integrations" / "promptfoo.md").read_text(encoding="utf-8")
    for kind, name in (("python", "guard.py"), ("yaml", "promptfooconfig.yaml")):
        (shown,) = re.findall(rf"^```{kind}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        (tmp_path / name).write_text(shown, encoding="utf-8")
    texts = (scenario.faithful, scenario.doubtful, scenario.made_up)
    tests = [{"vars": {**context(scenario)["vars"], "answer": text}} for text in texts]
    more = {"prompts": ["{{answer}}"], "providers": ["echo"], "tests": tests}
    with (tmp_path / "promptfooconfig.yaml").open("a", encoding="utf-8") as config:
        config.write("".join(f"{name}: {json.dumps(value)}\n" for name, value in more.items()))
    shutil.copy(scenario.file, tmp_path / "guardrail.json")
    environment = os.environ | {
        "PROMPTFOO_PYTHON": sys.executable,
        "PROMPTFOO_CONFIG_DIR": str(tmp_path / "config"),
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
        "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
        "PYTHONPATH": str(ROOT / "src"),
    }
    command = [promptfoo, "eval", "--no-cache", "--output", "out.json"]
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    results = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["results"]["results"]
    outcomes = {
        row["vars"]["answer"]: row["gradingResult"]["componentResults"][0]["metadata"]["calibrail"]
        for row in results
    }
    assert [outcomes[text]["outcome"] for text in texts] == ["pass", "review", "flag"]
    assert [row["success"] for row in results].count(True) == 1
