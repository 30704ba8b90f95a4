"""Does each decision come into the right span and the log, with what was certified?"""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.integrations.frameworks import need

need("opentelemetry")

from opentelemetry.sdk._logs import LoggerProvider  # noqa: E402
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor  # noqa: E402
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF  # noqa: E402

import calibrail  # noqa: E402
from calibrail import Decision  # noqa: E402
from calibrail.errors import GuardrailError  # noqa: E402
from calibrail.integrations import Gate  # noqa: E402
from calibrail.integrations.opentelemetry import EVENT, Evaluations  # noqa: E402
from tests.integrations.pages import run_example, run_page  # noqa: E402
from tests.integrations.scenario import WHY, Scenario  # noqa: E402

PARTS = ("estimate", "lower", "upper", "confidence", "n")


class Exported:
    """What an SDK that is set up exports."""

    def __init__(self, **options: Any) -> None:
        self.spans, self.logs = InMemorySpanExporter(), InMemoryLogRecordExporter()
        provider = TracerProvider(**options)
        provider.add_span_processor(SimpleSpanProcessor(self.spans))
        self.tracer = provider.get_tracer("app")
        self.provider = LoggerProvider()
        self.provider.add_log_record_processor(SimpleLogRecordProcessor(self.logs))

    def gate(self, guardrail: Any, **options: Any) -> Gate:
        notify = Evaluations(guardrail, logger_provider=self.provider, **options)
        return Gate(guardrail, notify=notify)

    def check(self, gate: Gate, scenario: Scenario, response: str) -> Decision:
        with self.tracer.start_as_current_span("chat"):
            return gate.check(
                question=scenario.question, contexts=scenario.contexts, response=response
            )

    def events(self) -> Iterator[tuple[ReadableSpan, dict[str, Any]]]:
        """Yield each span's one event with its attributes, which a log event repeats."""
        records = {
            item.log_record.span_id: item.log_record for item in self.logs.get_finished_logs()
        }
        for span in self.spans.get_finished_spans():
            (event,) = span.events
            record = records.pop(span.context.span_id)
            assert event.name == record.event_name == EVENT
            assert record.trace_id == span.context.trace_id
            assert dict(event.attributes or {}) == dict(record.attributes or {})
            yield span, dict(event.attributes or {})
        assert not records


def test_an_event_holds_the_decision_and_what_was_certified(scenario: Scenario) -> None:
    exported, guardrail = Exported(), scenario.guardrail()
    gate = exported.gate(guardrail)
    texts = (scenario.faithful, scenario.doubtful, scenario.made_up)
    decisions = [exported.check(gate, scenario, text) for text in texts]
    assert [item.outcome for item in decisions] == ["pass", "review", "flag"]
    coverage, fpr = guardrail.config.headline.coverage, guardrail.config.headline.fpr
    assert 0 < coverage["lower"] < coverage["estimate"] < coverage["upper"] < 1
    for decision, (_, attributes) in zip(decisions, exported.events(), strict=True):
        assert attributes == {
            "gen_ai.evaluation.name": "calibrail",
            "gen_ai.evaluation.score.value": decision.score,
            "gen_ai.evaluation.score.label": decision.outcome,
            "gen_ai.evaluation.explanation": decision.reason,
            "calibrail.threshold": decision.threshold,
            "calibrail.p_value": decision.p_value,
            "calibrail.guardrail.digest": guardrail.config.digest,
            "calibrail.guardrail.verdict": guardrail.config.headline.verdict,
            "calibrail.guarantee": "marginal",
            "calibrail.alpha": 0.1,
            "calibrail.beta": 0.1,
            **{f"calibrail.coverage.{name}": coverage[name] for name in PARTS},
            **{f"calibrail.fpr.{name}": fpr[name] for name in PARTS},
        }


def test_of_a_path_only_the_file_is_read(scenario: Scenario, tmp_path: Path) -> None:
    decision = scenario.guardrail().check(response=scenario.made_up)
    by_path = Evaluations(scenario.file).attributes(decision)
    assert by_path == Evaluations(scenario.guardrail()).attributes(decision)
    assert by_path == Evaluations(Gate(scenario.file)).attributes(decision)
    with pytest.raises(GuardrailError, match="cannot read"):
        Evaluations(tmp_path / "none.json")


def test_a_pac_guarantee_says_its_delta_and_a_column_its_own_numbers() -> None:
    rows = [{"response": f"a{i}", "label": i % 2, "support": 1 - i / 200} for i in range(200)]
    score = "column:column=support,higher=faithful"
    run = calibrail.calibrate(rows, score=score, guarantee="pac", alpha=0.3)
    guardrail = run.freeze()
    decision = guardrail.check(response="a", columns={"support": 0.25})
    held = Evaluations(guardrail).attributes(decision)
    assert (held["calibrail.guarantee"], held["calibrail.delta"]) == ("pac", 0.1)
    assert held["calibrail.column.name"] == "support"
    assert held["calibrail.column.value"] == 0.25 == -held["gen_ai.evaluation.score.value"]
    assert held["calibrail.column.threshold"] == -held["calibrail.threshold"]


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
def test_a_failure_names_the_error_and_quotes_nothing(
    scenario: Scenario, policy: Literal["error", "flag", "review"]
) -> None:
    exported = Exported()
    for texts in (False, True):
        gate = exported.gate(scenario.failing(policy), texts=texts)
        assert exported.check(gate, scenario, "x").failed
    (_, quiet), (_, quoting) = exported.events()
    for held in (quiet, quoting):
        assert held["gen_ai.evaluation.score.label"] == policy
        assert held["error.type"] == "RuntimeError"
        assert not {"gen_ai.evaluation.score.value", "calibrail.p_value"} & set(held)
    assert WHY not in quiet["gen_ai.evaluation.explanation"]
    assert WHY in quoting["gen_ai.evaluation.explanation"]


def test_an_error_that_names_no_class_is_an_error(scenario: Scenario) -> None:
    decision = Decision("", "error", None, None, None, "the answer holds an image")
    assert Evaluations(scenario.file).attributes(decision)["error.type"] == "_OTHER"


def test_threads_and_coroutines_record_on_their_own_span(scenario: Scenario) -> None:
    exported = Exported()
    gate = exported.gate(scenario.file)
    texts = [scenario.made_up, scenario.faithful] * 16

    def in_thread(text: str) -> None:
        with exported.tracer.start_as_current_span(text):
            gate.check(question=scenario.question, contexts=scenario.contexts, response=text)

    async def in_coroutine(text: str) -> None:
        with exported.tracer.start_as_current_span(text):
            await gate.acheck(question=scenario.question, contexts=scenario.contexts, response=text)

    async def all_of_them() -> None:
        await asyncio.gather(*map(in_coroutine, texts))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(in_thread, texts))
    asyncio.run(all_of_them())
    expected = {scenario.made_up: "flag", scenario.faithful: "pass"}
    labels = [
        (span.name, held["gen_ai.evaluation.score.label"]) for span, held in exported.events()
    ]
    assert len(labels) == 2 * len(texts)
    assert all(expected[name] == label for name, label in labels)


def test_the_models_id_is_read_from_the_span_or_given(scenario: Scenario) -> None:
    exported, decision = Exported(), scenario.guardrail().check(response="x", id="row 7")
    evaluations = Evaluations(scenario.file, logger_provider=exported.provider)
    with exported.tracer.start_as_current_span("a", attributes={"gen_ai.response.id": "r1"}):
        evaluations(decision)
    with exported.tracer.start_as_current_span("b"):
        evaluations.record(decision, response_id="r2")
    ids = [(held["gen_ai.response.id"], held["calibrail.id"]) for _, held in exported.events()]
    assert ids == [("r1", "row 7"), ("r2", "row 7")]


@pytest.mark.filterwarnings("error")
def test_a_span_that_is_over_or_not_sampled_is_named_in_the_log(
    scenario: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    decision = scenario.guardrail().check(response=scenario.made_up)
    for options in ({}, {"sampler": ALWAYS_OFF}):
        exported = Exported(**options)
        with exported.tracer.start_as_current_span("chat") as span:
            pass
        evaluations = Evaluations(scenario.file, logger_provider=exported.provider)
        evaluations.record(decision, span=span)
        (item,) = exported.logs.get_finished_logs()
        assert item.log_record.span_id == span.get_span_context().span_id
        assert all(not span.events for span in exported.spans.get_finished_spans())
    assert not caplog.records


def test_without_an_sdk_nothing_happens(scenario: Scenario) -> None:
    """In a process of its own: another test may have set up an SDK in this one."""
    code = (
        "from calibrail.integrations import Gate\n"
        "from calibrail.integrations.opentelemetry import Evaluations\n"
        f"gate = Gate({str(scenario.file)!r}, notify=Evaluations({str(scenario.file)!r}))\n"
        f"print(gate.check(response={scenario.made_up!r}).outcome)\n"
        "import sys; print('opentelemetry.sdk' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert (run.stdout.split(), run.stderr) == (["flag", "False"], "")


def test_a_gate_that_records_travels_to_another_process(scenario: Scenario) -> None:
    gate = Gate(scenario.file, notify=Evaluations(scenario.file))
    assert pickle.loads(pickle.dumps(gate)).check(response=scenario.made_up).outcome == "flag"


def test_the_client_of_a_service_knows_no_interval() -> None:
    class Service:
        def check(
            self, *, question: str = "", contexts: Sequence[str] = (), response: str, **_: Any
        ) -> Decision:
            return Decision("", "pass", 0.1, 0.5, 0.01, "score 0.1 is below the threshold 0.5")

    service: Any = Service()
    decision = Gate(service).check(response="x")
    held = Evaluations(service).attributes(decision)
    assert held["calibrail.p_value"] == 0.01
    assert not {name for name in held if "coverage" in name or "digest" in name}


def test_the_page_and_the_example_run(
    scenario: Scenario, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {
        "question": scenario.question,
        "contexts": scenario.contexts,
        "response": scenario.made_up,
    }
    names = run_page("opentelemetry", scenario, tmp_path, **given)
    assert names["decision"].outcome == "flag"
    output = run_example("opentelemetry", tmp_path, capsys)
    assert "gen_ai.evaluation.result: pass\n" in output
    assert "gen_ai.evaluation.result: flag\n" in output
    assert "coverage 0.9" in output


def test_telemetry_that_fails_costs_nobody_an_answer(
    scenario: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    class Down:
        def get_logger(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("the provider is down")

    down: Any = Down()
    gate = Gate(scenario.file, notify=Evaluations(scenario.file, logger_provider=down))
    decision = gate.check(
        question=scenario.question, contexts=scenario.contexts, response=scenario.faithful
    )
    assert decision.outcome == "pass"
    assert "could not be recorded" in caplog.text
