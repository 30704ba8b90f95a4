"""Does DeepEval fail an answer where the guardrail withholds it, and only there?"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.integrations.frameworks import need

need("deepeval")
os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "YES"
os.environ["DEEPEVAL_NO_INSPECT_PROMPT"] = "1"

from deepeval import assert_test, evaluate  # noqa: E402
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig  # noqa: E402
from deepeval.test_case import LLMTestCase  # noqa: E402

from calibrail.errors import InputError  # noqa: E402
from calibrail.integrations import Gate  # noqa: E402
from calibrail.integrations.deepeval import CalibrailMetric  # noqa: E402
from tests.integrations.pages import run_page  # noqa: E402
from tests.integrations.scenario import WHY, Scenario  # noqa: E402


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DeepEval leaves files of its own where it runs."""
    monkeypatch.chdir(tmp_path)


def case(scenario: Scenario, text: str) -> LLMTestCase:
    return LLMTestCase(
        input=scenario.question, actual_output=text, retrieval_context=list(scenario.contexts)
    )


def cases(scenario: Scenario) -> list[LLMTestCase]:
    return [
        case(scenario, text) for text in (scenario.faithful, scenario.doubtful, scenario.made_up)
    ]


def measured(scenario: Scenario, guardrail: Any, *, at_once: bool = True) -> list[Any]:
    """Return what DeepEval's own runner keeps of the metric, in the order of the cases."""
    result = evaluate(
        cases(scenario),
        [CalibrailMetric(guardrail)],
        async_config=AsyncConfig(run_async=at_once),
        display_config=DisplayConfig(show_indicator=False, print_results=False),
        cache_config=CacheConfig(write_cache=False),
    )
    by_text = {item.actual_output: item for item in result.test_results}
    return [by_text[item.actual_output].metrics_data[0] for item in cases(scenario)]


@pytest.mark.parametrize("at_once", [True, False])
def test_it_succeeds_where_the_guardrail_passes(scenario: Scenario, at_once: bool) -> None:
    rows = measured(scenario, scenario.file, at_once=at_once)
    assert [row.success for row in rows] == [True, False, False]
    assert [row.score for row in rows] == [1.0, 0.0, 0.0]
    assert [row.error for row in rows] == [None, None, None]
    assert [row.reason.partition(":")[0] for row in rows] == ["pass", "review", "flag"]
    decision = scenario.guardrail().check(
        question=scenario.question, contexts=scenario.contexts, response=scenario.made_up
    )
    kept = json.loads(rows[2].verbose_logs)
    assert (kept["p_value"], kept["threshold"]) == (decision.p_value, decision.threshold)
    assert kept["guardrail"] == scenario.guardrail().config.digest


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
def test_a_detector_that_fails_leaves_it_to_the_policy(
    scenario: Scenario, policy: Literal["error", "flag", "review"]
) -> None:
    rows = measured(scenario, scenario.failing(policy))
    assert [row.success for row in rows] == [False] * 3
    for row in rows:
        if policy == "error":
            assert (row.score, WHY in row.error) == (None, True)
        else:
            assert (row.score, row.error) == (0.0, None)
            assert row.reason.startswith(f"{policy}: ")


def test_assert_test_fails_for_what_is_withheld(scenario: Scenario) -> None:
    good, odd, bad = cases(scenario)
    assert_test(good, [CalibrailMetric(scenario.file)])
    for item, outcome in ((odd, "review"), (bad, "flag")):
        with pytest.raises(AssertionError, match=f"calibrail .*{outcome}: score"):
            assert_test(item, [CalibrailMetric(scenario.file)])
    with pytest.raises(AssertionError, match=WHY):
        assert_test(good, [CalibrailMetric(scenario.failing())])


def test_copies_of_the_metric_share_one_model(scenario: Scenario) -> None:
    gate = Gate(scenario.file)
    from deepeval.metrics.utils.metrics import copy_metrics

    (copied,) = copy_metrics([CalibrailMetric(gate)])
    assert copied.guardrail is gate


def test_a_case_without_an_answer_is_named(scenario: Scenario) -> None:
    with pytest.raises(InputError, match="response must be a text"):
        CalibrailMetric(scenario.file).measure(LLMTestCase(input="q"))


def test_the_page_runs(scenario: Scenario, tmp_path: Path) -> None:
    names = run_page("deepeval", scenario, tmp_path)
    assert [item.success for item in names["result"].test_results] == [True]
