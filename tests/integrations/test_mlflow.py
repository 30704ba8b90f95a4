"""Does MLflow score, log and serve a guardrail as it decides?"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.integrations.frameworks import need

need("mlflow")
os.environ |= {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "GIT_PYTHON_REFRESH": "quiet",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}

import mlflow  # noqa: E402
from mlflow.entities import Document, SpanType, Trace  # noqa: E402
from mlflow.exceptions import MlflowException  # noqa: E402

import calibrail  # noqa: E402
from calibrail.errors import GuardrailError, InputError  # noqa: E402
from calibrail.integrations import Gate  # noqa: E402
from calibrail.integrations.mlflow import GuardrailScorer, answer_of, log_guardrail  # noqa: E402
from tests.integrations.pages import run_page  # noqa: E402
from tests.integrations.scenario import WHY, Scenario  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def tracking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Track into a database of these tests."""
    folder = tmp_path_factory.mktemp("mlflow")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    artifacts = (folder / "artifacts").as_uri()
    mlflow.set_experiment(experiment_id=mlflow.create_experiment("e", artifact_location=artifacts))
    yield
    mlflow.set_tracking_uri(before)


def texts(scenario: Scenario) -> list[str]:
    return [scenario.faithful, scenario.doubtful, scenario.made_up]


def inputs(scenario: Scenario) -> dict[str, Any]:
    return {"question": scenario.question, "contexts": list(scenario.contexts)}


def expected(scenario: Scenario, text: str) -> dict[str, Any]:
    gate = Gate(scenario.file)
    return gate.details(gate.check(**inputs(scenario), response=text))


def test_an_evaluation_counts_what_would_be_released(scenario: Scenario) -> None:
    data = [{"inputs": inputs(scenario), "outputs": text} for text in texts(scenario)]
    scorers = [GuardrailScorer(scenario.file), GuardrailScorer(scenario.failing(), name="down")]
    result = mlflow.genai.evaluate(data=data, scorers=scorers)
    assert result.metrics["calibrail/mean"] == pytest.approx(1 / 3)
    assert "down/mean" not in result.metrics
    assert not result.passed
    seen = set()
    for assessments in result.result_df["assessments"]:
        held = {item["assessment_name"]: item for item in assessments}
        metadata, feedback = held["calibrail"]["metadata"], held["calibrail"]["feedback"]
        details = next(
            item
            for text in texts(scenario)
            if (item := expected(scenario, text))["outcome"] == metadata["outcome"]
        )
        seen.add(metadata["outcome"])
        assert feedback["value"] == ("yes" if metadata["outcome"] == "pass" else "no")
        assert held["calibrail"]["rationale"].startswith(f"{metadata['outcome']}: ")
        assert float(metadata["p_value"]) == details["p_value"]
        assert metadata["guardrail"] == details["guardrail"]
        assert WHY in held["down"]["feedback"]["error"]["error_message"]
        assert held["down"]["feedback"].get("value") is None
        assert held["down"]["metadata"]["outcome"] == "error"
    assert seen == {"pass", "review", "flag"}


@pytest.mark.parametrize("policy", ["flag", "review"])
def test_a_failure_that_the_policy_decides_is_a_no(
    scenario: Scenario, policy: Literal["flag", "review"]
) -> None:
    scorer = GuardrailScorer(scenario.failing(policy))
    feedback = scorer.run(inputs=inputs(scenario), outputs=scenario.faithful)
    assert feedback.value == "no" and feedback.error is None
    assert feedback.rationale.startswith(f"{policy}: ") and WHY in feedback.rationale


def traced(scenario: Scenario) -> Trace:
    @mlflow.trace(span_type=SpanType.RETRIEVER)
    def retrieve(question: str) -> list[Document]:
        return [Document(page_content=text) for text in scenario.contexts]

    @mlflow.trace
    def answer(question: str) -> str:
        retrieve(question)
        return scenario.faithful

    answer(scenario.question)
    trace = mlflow.get_trace(mlflow.get_last_active_trace_id(), flush=True)
    assert trace is not None
    return trace


def test_the_sources_of_a_trace_are_what_its_retrievers_gave(scenario: Scenario) -> None:
    trace = traced(scenario)
    row = {**inputs(scenario), "response": scenario.faithful}
    assert answer_of(None, None, trace) == row
    assert answer_of({"question": "Other?", "contexts": ["x"]}, "y", trace) == {
        **row,
        "question": "Other?",
        "response": "y",
    }
    assert GuardrailScorer(scenario.file).run(trace=trace).value == "yes"


@pytest.mark.parametrize(
    ("given", "outputs", "row"),
    [
        ("Q?", "A.", ("Q?", [], "A.")),
        ({"query": "Q?", "documents": [{"text": "C."}]}, {"answer": "A."}, ("Q?", ["C."], "A.")),
        ({"question": "Q?"}, {"response": "A.", "context": "C."}, ("Q?", ["C."], "A.")),
        (
            {
                "messages": [
                    {"role": "user", "content": "Before?"},
                    {"role": "assistant", "content": "Yes."},
                    {"role": "user", "content": "Q?"},
                ]
            },
            {"choices": [{"message": {"role": "assistant", "content": "A."}}]},
            ("Q?", [], "A."),
        ),
    ],
)
def test_rows_are_read_by_the_names_they_usually_have(
    given: Any, outputs: Any, row: tuple[str, list[str], str]
) -> None:
    names = ("question", "contexts", "response")
    assert answer_of(given, outputs) == dict(zip(names, row, strict=True))


def test_a_row_without_an_answer_is_an_error_that_says_how_to_read_it(scenario: Scenario) -> None:
    scorer = GuardrailScorer(scenario.file)
    with pytest.raises(InputError, match=r"outputs must be a text.*reading="):
        scorer.run(inputs=inputs(scenario), outputs={"tool": 1})
    reads = GuardrailScorer(
        scenario.file,
        reading=lambda inputs, outputs, trace: {**inputs, "response": outputs["mine"]},
    )
    assert reads.run(inputs=inputs(scenario), outputs={"mine": scenario.faithful}).value == "yes"


def test_a_logged_guardrail_decides_in_another_process(scenario: Scenario, tmp_path: Path) -> None:
    with mlflow.start_run():
        logged = log_guardrail(scenario.file)
    model = mlflow.pyfunc.load_model(logged.model_uri)
    rows = [{**inputs(scenario), "response": text} for text in texts(scenario)]
    wrong = {"question": None, "contexts": [], "response": None, "id": "7"}
    frame = model.predict([*rows, wrong])
    for (_, row), text in zip(frame.iterrows(), texts(scenario), strict=False):
        assert dict(row) == expected(scenario, text)
    last = frame.iloc[-1]
    assert (last["id"], last["outcome"]) == ("7", "error")
    assert last["reason"] == "response must be a text; got None"
    with pytest.raises(MlflowException, match=r"missing inputs \['response'\]"):
        model.predict([{"question": "q"}])
    with pytest.raises(GuardrailError):
        log_guardrail(tmp_path / "none.json")

    folder = mlflow.artifacts.download_artifacts(logged.model_uri, dst_path=str(tmp_path))
    assert not list(Path(folder).rglob("*.pkl"))
    code = (
        "import mlflow, sys; model = mlflow.pyfunc.load_model(sys.argv[1]); "
        f"print(*model.predict({rows!r})['outcome'])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, folder], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["pass", "review", "flag"]


def test_a_guardrail_on_a_column_is_a_model_that_takes_it() -> None:
    rows = [{"response": f"a{i}", "label": i % 2, "support": 1 - i / 200} for i in range(200)]
    run = calibrail.calibrate(rows, score="column:column=support,higher=faithful", alpha=0.3)
    path = Path(mlflow.get_tracking_uri().removeprefix("sqlite:///")).parent / "column.json"
    run.freeze().save(path)
    with mlflow.start_run():
        logged = log_guardrail(path)
    model = mlflow.pyfunc.load_model(logged.model_uri)
    frame = model.predict([{"response": "a", "support": value} for value in (1.0, 0.0)])
    assert list(frame["outcome"]) == ["pass", "flag"]


def test_the_page_runs(scenario: Scenario, tmp_path: Path) -> None:
    names = run_page("mlflow", scenario, tmp_path, **inputs(scenario), response=scenario.made_up)
    assert names["released"] == 0.0
    assert list(names["decisions"]["outcome"]) == ["flag"]


def test_the_answer_is_what_a_client_shows() -> None:
    def said(text: str, role: str = "assistant") -> dict[str, str]:
        return {"role": role, "content": text}

    both = {"choices": [{"message": said("first")}, {"message": said("second")}]}
    assert answer_of("q", both)["response"] == "first"
    then = {"messages": [said("the answer"), said("thanks", "user")]}
    assert answer_of({"messages": [said("q", "user")]}, then)["response"] == "the answer"
    graph = {"messages": [{"type": "human", "content": "q"}, {"type": "ai", "content": "a"}]}
    assert answer_of(graph, graph)["question"] == "q"
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert answer_of("q", {"messages": [{"role": "assistant", "content": parts}]})["response"] == (
        "one\ntwo"
    )
