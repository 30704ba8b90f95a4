"""Does a gate decide for any thread and loop, whatever fails, and say the same as its guardrail?"""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pytest

import calibrail
from calibrail import Decision
from calibrail.errors import GuardrailError, InputError, ServiceError
from calibrail.integrations import Gate
from calibrail.integrations.gate import REFUSALS
from tests.integrations.scenario import WHY, Scenario


def answers(scenario: Scenario) -> list[dict[str, Any]]:
    texts = (scenario.faithful, scenario.doubtful, scenario.made_up)
    return [
        {"question": scenario.question, "contexts": scenario.contexts, "response": text}
        for text in texts
    ]


def test_a_gate_says_what_its_guardrail_says(scenario: Scenario) -> None:
    guardrail, gate = scenario.guardrail(), Gate(scenario.file)
    decisions = [gate.check(**answer) for answer in answers(scenario)]
    assert decisions == [guardrail.check(**answer) for answer in answers(scenario)]
    assert [item.outcome for item in decisions] == ["pass", "review", "flag"]
    assert asyncio.run(gate.acheck(**answers(scenario)[2])) == decisions[2]
    assert gate.details(decisions[2])["guardrail"] == guardrail.config.digest == gate.digest
    assert json.loads(json.dumps(gate.details(decisions[2])))["p_value"] == decisions[2].p_value
    assert Gate.of(gate) is gate


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
def test_a_detector_that_fails_leaves_it_to_the_policy(
    scenario: Scenario, policy: Literal["error", "flag", "review"]
) -> None:
    gate = Gate(scenario.failing(policy))
    for decision in (gate.check(response="x"), asyncio.run(gate.acheck(response="x"))):
        assert (decision.outcome, decision.failed, decision.flagged) == (policy, True, True)
        assert WHY in decision.reason
        assert gate.shown(decision, "x") == REFUSALS[policy]


def test_what_is_shown_depends_on_the_outcome_or_is_what_the_user_says(scenario: Scenario) -> None:
    passed, review, flag = map(
        lambda answer: Gate(scenario.file).check(**answer), answers(scenario)
    )
    gate = Gate(scenario.file)
    assert gate.shown(passed, scenario.faithful) == scenario.faithful
    assert gate.shown(review, "x") == REFUSALS["review"] != REFUSALS["flag"]
    assert Gate(scenario.file, refusal="No.").shown(flag, "x") == "No."
    told = Gate(scenario.file, refusal=lambda decision: f"No: {decision.reason}")
    assert told.shown(flag, "x") == f"No: {flag.reason}"


class Service:
    """A service as its client shows it, which may be away."""

    away = False

    def check(self, **answer: Any) -> Decision:
        if self.away:
            raise ServiceError("nobody is there")
        return Decision("", "pass", 0.1, 0.5, 0.01, "score 0.1 is below the threshold 0.5")


def test_a_service_decides_and_one_that_is_away_passes_nothing() -> None:
    service = Service()
    gate = Gate(service)  # type: ignore[arg-type]
    assert gate.check(response="x").outcome == "pass"
    service.away = True
    decision = gate.check(response="x")
    assert (decision.outcome, decision.failed) == ("error", True)
    assert "nobody is there" in decision.reason
    assert gate.digest is None
    with pytest.raises(InputError, match="a service keeps its own"):
        Gate(service, log="log")  # type: ignore[arg-type]


def test_one_model_serves_all_threads_one_answer_at_a_time(scenario: Scenario) -> None:
    guardrail = scenario.guardrail()
    score, inside, most = guardrail.score, threading.Semaphore(0), []
    original = type(score).score

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(score, name)

        def score(self, examples: Any) -> Any:
            inside.release()
            most.append(inside._value)
            try:
                return original(score, examples)
            finally:
                inside.acquire()

    guardrail._score = Watched()  # type: ignore[assignment]
    gate = Gate(guardrail)
    with ThreadPoolExecutor(8) as pool:
        decisions = list(pool.map(lambda _: gate.check(**answers(scenario)[2]), range(64)))
    assert {item.outcome for item in decisions} == {"flag"}
    assert max(most) == 1
    assert copy.deepcopy(gate) is gate is copy.copy(gate)


def test_the_loop_goes_on_while_a_detector_works(scenario: Scenario) -> None:
    guardrail = scenario.failing()
    may_end = threading.Event()

    def slow(examples: Any) -> Any:
        assert may_end.wait(30)
        raise RuntimeError(WHY)

    guardrail.score.score = slow  # type: ignore[method-assign]

    async def go() -> Decision:
        task = asyncio.create_task(Gate(guardrail).acheck(response="x"))
        await asyncio.sleep(0)
        # Only a loop that goes on gets here.
        may_end.set()
        return await task

    assert asyncio.run(go()).outcome == "error"


def test_every_decision_is_logged_before_it_is_given(scenario: Scenario, tmp_path: Path) -> None:
    gate = Gate(scenario.file, log=tmp_path / "log")
    for answer in answers(scenario):
        gate.check(**answer)
    asyncio.run(gate.acheck(**answers(scenario)[0]))
    watch = calibrail.monitor(scenario.file, [tmp_path / "log"])
    assert watch.to_dict()["n"] == 4


def test_an_answer_that_cannot_be_logged_is_not_released(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(scenario.file, log=tmp_path / "log")

    def full(*_: object) -> None:
        raise calibrail.LogError("the disk is full")

    monkeypatch.setattr(gate._log, "write", full)
    decision = gate.check(**answers(scenario)[0])
    assert decision.outcome == "error"
    assert "the disk is full" in decision.reason


def test_whoever_asked_to_be_told_is_told(scenario: Scenario) -> None:
    heard: list[Decision] = []
    gate = Gate(scenario.file, notify=heard.append)
    first = gate.check(**answers(scenario)[0])
    second = asyncio.run(gate.acheck(**answers(scenario)[2]))
    assert heard == [first, second]


def test_a_gate_travels_to_another_process(scenario: Scenario, tmp_path: Path) -> None:
    gate = Gate(scenario.file, refusal="No.", log=tmp_path / "log")
    there = pickle.loads(pickle.dumps(gate))
    decision = there.check(**answers(scenario)[2])
    assert (decision.outcome, there.shown(decision, "x")) == ("flag", "No.")
    assert there.digest == gate.digest


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"response": None}, "response must be a text"),
        ({"response": "x", "question": ["q"]}, "question must be a text"),
        ({"response": "x", "contexts": [1]}, "contexts"),
        ({"response": "x", "columns": [1]}, "columns must be a dict"),
    ],
)
def test_what_is_no_answer_is_the_callers_mistake(
    scenario: Scenario, wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        Gate(scenario.file).check(**wrong)


def test_what_decides_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="guardrail must be a Guardrail"):
        Gate(3)  # type: ignore[arg-type]
    with pytest.raises(GuardrailError):
        Gate(tmp_path / "none.json")


def test_to_import_a_gate_loads_nothing_heavy() -> None:
    code = "import sys, calibrail.integrations; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    heavy = {"numpy", "scipy", "pyarrow", "pydantic", "matplotlib", "torch", "sklearn"}
    assert not heavy & {name.partition(".")[0] for name in loaded.split()}
    assert loaded
