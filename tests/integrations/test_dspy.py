"""Does a DSPy program show only what the guardrail passes, and does a metric say so?"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.integrations.frameworks import need

need("dspy")
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import dspy  # noqa: E402
from dspy.utils import DummyLM  # noqa: E402

from calibrail.errors import InputError  # noqa: E402
from calibrail.integrations import Gate  # noqa: E402
from calibrail.integrations.dspy import Guarded, GuardrailMetric  # noqa: E402
from calibrail.integrations.gate import REFUSALS  # noqa: E402
from tests.integrations import trimming  # noqa: E402
from tests.integrations.pages import run_page  # noqa: E402
from tests.integrations.scenario import WHY, Scenario  # noqa: E402


def says(*answers: str) -> Any:
    """Return a context in which DSPy's model gives these answers, one after another."""
    return dspy.context(lm=DummyLM([{"reasoning": text, "response": text} for text in answers]))


def program() -> dspy.Module:
    return dspy.ChainOfThought("context, question -> response")


@pytest.fixture
def asked(scenario: Scenario) -> dict[str, Any]:
    return {"question": scenario.question, "context": list(scenario.contexts)}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with dspy.context(num_threads=1):
        yield


def three(scenario: Scenario) -> list[str]:
    return [scenario.faithful, scenario.doubtful, scenario.made_up]


def evaluated(scenario: Scenario, metric: Any, asked: dict[str, Any], **options: Any) -> Any:
    devset = [dspy.Example(**asked, gold=n).with_inputs(*asked) for n in range(3)]
    with says(*three(scenario)):
        return dspy.Evaluate(devset=devset, metric=metric, **options)(program())


def test_evaluate_counts_what_passes(
    scenario: Scenario, asked: dict[str, Any], tmp_path: Path
) -> None:
    kept = tmp_path / "kept.json"
    result = evaluated(scenario, GuardrailMetric(scenario.file), asked, save_as_json=str(kept))
    assert result.score == 33.33
    ratings = [rating for _, _, rating in result.results]
    assert ratings == [1, 0, 0]
    assert [rating.outcome for rating in ratings] == ["pass", "review", "flag"]
    decision = scenario.guardrail().check(
        question=scenario.question, contexts=scenario.contexts, response=scenario.made_up
    )
    assert ratings[2].decision["p_value"] == decision.p_value
    assert ratings[2].decision["guardrail"] == scenario.guardrail().config.digest
    assert [row["GuardrailMetric"] for row in json.loads(kept.read_text())] == [1, 0, 0]


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
def test_a_detector_that_fails_leaves_it_to_the_policy(
    scenario: Scenario, asked: dict[str, Any], policy: Literal["error", "flag", "review"]
) -> None:
    metric = GuardrailMetric(scenario.failing(policy))
    result = evaluated(scenario, metric, asked, failure_score=-7.0, max_errors=9)
    scores = [rating for _, _, rating in result.results]
    assert scores == ([-7.0] * 3 if policy == "error" else [0.0] * 3)
    with says(scenario.faithful):
        answer = Guarded(program(), scenario.failing(policy))(**asked)
    assert answer.guardrail_decision["outcome"] == policy
    assert WHY in answer.guardrail_decision["reason"]
    assert scenario.faithful not in repr(answer)
    pred = dspy.Prediction(response=scenario.faithful)
    assert metric.reward(asked, pred) == (-1.0 if policy == "error" else 0.0)


def test_optimizers_keep_only_demonstrations_that_pass(
    scenario: Scenario, asked: dict[str, Any]
) -> None:
    trainset = [dspy.Example(**asked).with_inputs(*asked)]
    metric = GuardrailMetric(scenario.file)
    for text, kept in ((scenario.faithful, 1), (scenario.doubtful, 0), (scenario.made_up, 0)):
        with says(*[text] * 3):
            made = dspy.BootstrapFewShot(metric=metric, max_labeled_demos=0).compile(
                program(), trainset=trainset
            )
        assert len(made.predictors()[0].demos) == kept, text


def test_gepa_gets_the_reason_as_feedback(scenario: Scenario, asked: dict[str, Any]) -> None:
    metric = GuardrailMetric(scenario.file)
    dspy.GEPA(metric=metric, max_metric_calls=1, reflection_lm=DummyLM([]))
    pred = dspy.Prediction(response=scenario.made_up)
    rated = metric(dspy.Example(**asked), pred, [], "answer", [])
    assert rated["score"] == 0
    assert rated["feedback"].startswith("flag: score")


@pytest.mark.parametrize("tries", ["BestOfN", "Refine"])
def test_the_reward_finds_the_attempt_that_passes(
    scenario: Scenario, asked: dict[str, Any], tries: str
) -> None:
    metric = GuardrailMetric(scenario.file)
    answers = [
        {"reasoning": "", "response": scenario.made_up},
        *([{"discussion": "", "advice": "{}"}] if tries == "Refine" else []),
        {"reasoning": "", "response": scenario.faithful},
    ]
    best = getattr(dspy, tries)(program(), N=2, reward_fn=metric.reward, threshold=1.0)
    with dspy.context(lm=DummyLM(answers), trace=[]):
        assert best(**asked).response == scenario.faithful
    # Where none is good enough the best of them comes out, unless it is guarded.
    best = dspy.BestOfN(program(), N=2, reward_fn=metric.reward, threshold=1.0)
    with says(scenario.made_up, scenario.made_up):
        assert best(**asked).response == scenario.made_up
    with says(scenario.made_up, scenario.made_up):
        assert Guarded(best, metric.gate)(**asked).guardrail_decision["outcome"] == "flag"


@pytest.mark.parametrize("awaited", [False, True])
def test_only_what_passes_is_shown(
    scenario: Scenario, asked: dict[str, Any], awaited: bool
) -> None:
    guarded = Guarded(program(), scenario.file)
    shown = []
    with says(*three(scenario)):
        for _ in range(3):
            shown.append(asyncio.run(guarded.acall(**asked)) if awaited else guarded(**asked))
    good, odd, bad = shown
    assert good.response == good.reasoning == scenario.faithful
    assert [item.guardrail_decision["outcome"] for item in shown] == ["pass", "review", "flag"]
    assert "until a person" in odd.response
    assert "not seem to be supported" in bad.response
    for item, text in ((odd, scenario.doubtful), (bad, scenario.made_up)):
        assert text not in repr(item)
        assert "reasoning" not in item


def test_of_several_completions_only_the_judged_one_is_shown(
    scenario: Scenario, asked: dict[str, Any]
) -> None:
    class Several(dspy.Module):  # type: ignore[misc]
        def forward(self, question: str, context: list[str]) -> Any:
            answers = {"response": [scenario.faithful, scenario.made_up]}
            return dspy.Prediction.from_completions(answers)

    pred = Guarded(Several(), scenario.file)(**asked)
    assert pred.response == scenario.faithful
    assert scenario.made_up not in repr(pred) and not pred.completions


def test_nothing_is_streamed_before_it_is_decided(
    scenario: Scenario, asked: dict[str, Any]
) -> None:
    streams = []

    class Talks(dspy.Module):
        async def aforward(self, **inputs: Any) -> dspy.Prediction:
            streams.append(dspy.settings.send_stream)
            return dspy.Prediction(response=scenario.made_up)

    async def received(module: dspy.Module) -> list[Any]:
        stream = dspy.streamify(module, is_async_program=True)
        return [item async for item in stream(**asked)]

    asyncio.run(received(Talks()))
    items = asyncio.run(received(Guarded(Talks(), scenario.file)))
    assert streams[0] is not None
    assert streams[1] is None
    assert scenario.made_up not in repr(items)
    assert items[-1].guardrail_decision["outcome"] == "flag"


def test_copies_share_one_model_and_saved_programs_come_back(
    scenario: Scenario, asked: dict[str, Any], tmp_path: Path
) -> None:
    gate = Gate(scenario.file)
    guarded = Guarded(program(), gate)
    assert guarded.deepcopy().gate is gate
    assert len(guarded.predictors()) == 1
    guarded.save(tmp_path / "program", save_program=True)
    again = dspy.load(str(tmp_path / "program"), allow_pickle=True)
    with says(scenario.made_up):
        assert again(**asked).guardrail_decision["outcome"] == "flag"


def test_fields_of_other_names_and_typed_answers(scenario: Scenario) -> None:
    metric = GuardrailMetric(scenario.file, question="q", contexts="passages", response="answer")
    pred = dspy.Prediction(passages=list(scenario.contexts), answer=[scenario.faithful])
    assert metric(dspy.Example(q=scenario.question, answer="gold"), pred) == 1
    picture = dspy.Prediction(passages=[], answer=dspy.Image("https://example.org/a.png"))
    assert metric.reward({"q": "q"}, picture) == -1


@pytest.mark.parametrize(
    ("left_out", "remedy"),
    [("question", "question="), ("context", "contexts="), ("response", "response=")],
)
def test_a_missing_field_is_named_with_the_remedy(
    scenario: Scenario, left_out: str, remedy: str
) -> None:
    example = {"question": "q", "context": [], "gold": "g"}
    pred = {"response": scenario.faithful, "other": "o"}
    example.pop(left_out, None), pred.pop(left_out, None)
    with pytest.raises(InputError, match=f"no field '{left_out}' in .*{remedy}"):
        GuardrailMetric(scenario.file)(dspy.Example(**example), dspy.Prediction(**pred))


def test_the_page_runs(scenario: Scenario, tmp_path: Path) -> None:
    with says(scenario.made_up, scenario.faithful):
        names = run_page("dspy", scenario, tmp_path)
    assert names["answer"].response == scenario.faithful


def test_what_is_left_of_an_answer_takes_its_place_without_the_reasoning() -> None:
    for text, left in trimming.SHOWN.items():
        with says(text):
            pred = Guarded(program(), trimming.gate())(
                question=trimming.QUESTION, context=list(trimming.CONTEXTS)
            )
        outcome = pred.guardrail_decision["outcome"]
        assert pred.response == (left or REFUSALS[outcome])
        assert ("reasoning" in pred) is (outcome == "pass")
        assert "hums" not in str(pred)
