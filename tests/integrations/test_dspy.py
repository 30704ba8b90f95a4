"""Does a DSPy program count, choose and withhold answers as a guardrail decides?"""

from __future__ import annotations

import asyncio
import copy
import os
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.integrations.frameworks import need

need("dspy")
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import dspy  # noqa: E402
from dspy.utils import DummyLM  # noqa: E402

from calibrail.errors import InputError, ModelError  # noqa: E402
from calibrail.integrations import Gate  # noqa: E402
from calibrail.integrations.dspy import (  # noqa: E402
    Guarded,
    answer_of,
    guardrail_metric,
    guardrail_reward,
)
from calibrail.integrations.gate import REFUSALS  # noqa: E402
from tests.integrations.pages import heavy_modules, run_page  # noqa: E402
from tests.integrations.scenario import WHY, Scenario  # noqa: E402


class Rag(dspy.Module):  # type: ignore[misc]
    """A program that reasons about what it is given, and answers."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = dspy.ChainOfThought("context, question -> answer")

    def forward(self, question: str, context: list[str]) -> Any:
        return self.answer(question=question, context=context)

    async def aforward(self, question: str, context: list[str]) -> Any:
        return await self.answer.acall(question=question, context=context)


def says(*answers: str) -> DummyLM:
    return DummyLM([{"reasoning": f"I think: {text}", "answer": text} for text in answers])


def texts(scenario: Scenario) -> list[str]:
    return [scenario.faithful, scenario.doubtful, scenario.made_up]


def inputs(scenario: Scenario) -> dict[str, Any]:
    return {"question": scenario.question, "context": list(scenario.contexts)}


def expected(scenario: Scenario, text: str) -> dict[str, Any]:
    gate = Gate(scenario.file)
    decision = gate.check(question=scenario.question, contexts=scenario.contexts, response=text)
    return gate.details(decision)


def examples(scenario: Scenario, n: int) -> list[Any]:
    return [dspy.Example(**inputs(scenario)).with_inputs("question", "context")] * n


def test_an_evaluation_counts_what_would_be_released(scenario: Scenario) -> None:
    evaluate = dspy.Evaluate(
        devset=examples(scenario, 3), metric=guardrail_metric(scenario.file), num_threads=1
    )
    with dspy.context(lm=says(*texts(scenario))):
        result = evaluate(Rag())
    assert result.score == pytest.approx(33.33)
    for (_, pred, value), text in zip(result.results, texts(scenario), strict=True):
        details = expected(scenario, text)
        assert pred.answer == text
        assert value.decision == details
        assert value.score == float(details["outcome"] == "pass")
        assert value.feedback == f"{details['outcome']}: {details['reason']}"


def test_one_model_serves_all_threads_of_an_evaluation(scenario: Scenario) -> None:
    class Echo(dspy.Module):  # type: ignore[misc]
        def forward(self, question: str, context: list[str]) -> Any:
            return dspy.Prediction(answer=scenario.made_up)

    evaluate = dspy.Evaluate(
        devset=examples(scenario, 32), metric=guardrail_metric(scenario.file), num_threads=8
    )
    result = evaluate(Echo())
    assert {value.decision["outcome"] for *_, value in result.results} == {"flag"}


def test_demonstrations_are_kept_where_the_answer_passes(scenario: Scenario) -> None:
    metric = guardrail_metric(scenario.file)
    optimizer = dspy.BootstrapFewShot(
        metric=metric, max_bootstrapped_demos=4, max_labeled_demos=0, max_rounds=1
    )
    questions = [
        dspy.Example(question=f"{scenario.question} {i}", context=list(scenario.contexts))
        for i in range(3)
    ]
    trainset = [item.with_inputs("question", "context") for item in questions]
    with dspy.context(lm=says(*texts(scenario))):
        program = optimizer.compile(Rag(), trainset=trainset)
    (demo,) = program.predictors()[0].demos
    assert demo.answer == scenario.faithful


def test_an_answer_that_could_not_be_judged_is_an_error_of_the_evaluation(
    scenario: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    pred = dspy.Prediction(answer="x")
    metric = guardrail_metric(scenario.failing())
    with pytest.raises(ModelError, match=WHY):
        metric(examples(scenario, 1)[0], pred)
    with pytest.raises(ModelError, match=WHY):
        guardrail_reward(scenario.failing())(inputs(scenario), pred)
    evaluate = dspy.Evaluate(
        devset=examples(scenario, 2), metric=metric, num_threads=1, failure_score=-1.0
    )
    with dspy.context(lm=says("x", "y")):
        assert [value for *_, value in evaluate(Rag()).results] == [-1.0, -1.0]


@pytest.mark.parametrize("policy", ["flag", "review"])
def test_a_failure_that_the_policy_decides_counts_as_that(
    scenario: Scenario, policy: Literal["flag", "review"]
) -> None:
    metric = guardrail_metric(scenario.failing(policy))
    value = metric(examples(scenario, 1)[0], dspy.Prediction(answer="x"))
    assert value.score == 0.0 and value.decision["outcome"] == policy


@pytest.mark.parametrize("chooser", [dspy.BestOfN, dspy.Refine])
def test_it_tries_again_until_an_answer_passes(scenario: Scenario, chooser: Any) -> None:
    best = chooser(Rag(), N=3, reward_fn=guardrail_reward(scenario.file), threshold=1.0)
    advice = {"discussion": "d", "advice": {"answer.predict": "look again"}, "reasoning": "r"}
    steps: list[Any] = [{"reasoning": "r", "answer": scenario.made_up}]
    steps += [advice] * (chooser is dspy.Refine)
    steps += [{"reasoning": "r", "answer": scenario.faithful}]
    with dspy.context(lm=DummyLM(steps)):
        assert best(**inputs(scenario)).answer == scenario.faithful


def test_a_guarded_program_withholds_all_that_led_to_an_answer(scenario: Scenario) -> None:
    guarded = Guarded(Rag(), scenario.file)
    with dspy.context(lm=says(*texts(scenario))):
        preds = [guarded(**inputs(scenario)) for _ in range(3)]
    for pred, text in zip(preds, texts(scenario), strict=True):
        details = expected(scenario, text)
        assert pred.decision == details
        if details["outcome"] == "pass":
            assert (pred.answer, pred.reasoning) == (text, f"I think: {text}")
        else:
            assert pred.answer == REFUSALS[details["outcome"]]
            assert text not in repr(pred) and sorted(pred.keys()) == ["answer", "decision"]

    never = dspy.BestOfN(Rag(), N=2, reward_fn=guardrail_reward(scenario.file), threshold=1.0)
    with dspy.context(lm=says(scenario.made_up, scenario.made_up)):
        assert Guarded(never, scenario.file)(**inputs(scenario)).answer == REFUSALS["flag"]


def test_of_several_completions_only_the_judged_one_is_let_go(scenario: Scenario) -> None:
    class Several(dspy.Module):  # type: ignore[misc]
        def forward(self, question: str, context: list[str]) -> Any:
            return dspy.Prediction.from_completions(
                {"answer": [scenario.faithful, scenario.made_up]}
            )

    pred = Guarded(Several(), scenario.file)(**inputs(scenario))
    assert pred.answer == scenario.faithful
    assert scenario.made_up not in repr(pred) and not pred.completions


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
def test_a_guarded_program_survives_a_failure(
    scenario: Scenario, policy: Literal["error", "flag", "review"]
) -> None:
    with dspy.context(lm=says(scenario.faithful)):
        pred = Guarded(Rag(), scenario.failing(policy))(**inputs(scenario))
    assert (pred.answer, pred.decision["outcome"]) == (REFUSALS[policy], policy)


def test_a_guarded_program_runs_in_a_loop_and_is_copied_with_one_model(scenario: Scenario) -> None:
    guarded = Guarded(Rag(), scenario.file)
    assert guarded.deepcopy().gate is guarded.gate is copy.deepcopy(guarded).gate
    assert [name for name, _ in guarded.named_predictors()] == ["module.answer.predict"]

    async def run() -> list[Any]:
        with dspy.context(lm=says(*[scenario.made_up] * 8)):
            return list(
                await asyncio.gather(*(guarded.acall(**inputs(scenario)) for _ in range(8)))
            )

    assert {pred.decision["outcome"] for pred in asyncio.run(run())} == {"flag"}


def test_a_stream_hears_nothing_before_the_answer_is_decided(scenario: Scenario) -> None:
    heard = []

    class Listens(Rag):
        def forward(self, question: str, context: list[str]) -> Any:
            heard.append(dspy.settings.send_stream)
            return super().forward(question, context)

    async def streamed(program: Any) -> list[Any]:
        with dspy.context(lm=says(scenario.made_up)):
            return [item async for item in dspy.streamify(program)(**inputs(scenario))]

    parts = asyncio.run(streamed(Guarded(Listens(), scenario.file)))
    assert heard == [None]
    assert scenario.made_up not in repr(parts)
    assert parts[-1].answer == REFUSALS["flag"]
    assert scenario.made_up in repr(asyncio.run(streamed(Listens())))
    assert heard[-1] is not None


def test_fields_are_read_by_their_usual_names_or_as_one_says(scenario: Scenario) -> None:
    pred = dspy.Prediction(response="A.", passages=["P."])
    row = {"question": "Q?", "contexts": ["P."], "response": "A."}
    assert answer_of({"query": "Q?", "context": ["C."]}, pred) == row
    assert answer_of({"question": "Q?", "context": ["P."]}, dspy.Prediction(response="A.")) == row
    with pytest.raises(InputError, match=r"the prediction has claim, and no text as answer"):
        answer_of({}, dspy.Prediction(claim="A."))

    def mine(inputs: Any, pred: Any) -> dict[str, Any]:
        return {
            "question": inputs["question"],
            "contexts": inputs["context"],
            "response": pred.claim,
        }

    metric = guardrail_metric(scenario.file, reading=mine)
    value = metric(examples(scenario, 1)[0], dspy.Prediction(claim=scenario.faithful))
    assert value.decision["outcome"] == "pass"
    with dspy.context(lm=DummyLM([{"claim": scenario.made_up}])):
        guarded = Guarded(
            dspy.Predict("context, question -> claim"), scenario.file, response="claim"
        )
        assert guarded(**inputs(scenario)).claim == REFUSALS["flag"]


def test_the_page_runs(scenario: Scenario, tmp_path: Path) -> None:
    given = {"rag": Rag(), "devset": examples(scenario, 1), **inputs(scenario)}
    lm = says(scenario.faithful, scenario.made_up, scenario.faithful, scenario.made_up)
    with dspy.context(lm=lm):
        names = run_page("dspy", scenario, tmp_path, **given)
    assert names["released"] == 100.0
    assert names["best"].answer == scenario.faithful
    assert names["pred"].answer == REFUSALS["flag"]


def test_to_import_it_costs_little() -> None:
    assert heavy_modules("dspy", "dspy") == []
