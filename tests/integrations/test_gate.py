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
import calibrail.guardrail.decision_log
from calibrail import Decision
from calibrail.errors import GuardrailError, InputError, LogError, ServiceError
from calibrail.guardrail.decision import Cause, Outcome
from calibrail.integrations import Gate
from calibrail.integrations.gate import REFUSALS
from tests.integrations import trimming
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

    guardrail.__dict__["score"] = Watched()
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
        raise LogError("the disk is full")

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


class Hanging:
    """A guardrail's stand-in that answers when it is told to."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.asked = 0

    def check(self, **answer: Any) -> Decision:
        self.asked += 1
        assert self.may_end.wait(30)
        return Decision("", "pass", 0.1, 0.5, 0.01, "score 0.1 is below the threshold 0.5")


def test_a_detector_that_hangs_leaves_it_to_the_policy() -> None:
    hanging = Hanging()
    gate = Gate(hanging, timeout=0.05)  # type: ignore[arg-type]
    try:
        for decision in (gate.check(response="x"), asyncio.run(gate.acheck(response="x"))):
            assert (decision.outcome, decision.failed) == ("error", True)
            assert "no decision within 0.05 s" in decision.reason
    finally:
        hanging.may_end.set()


def test_one_that_comes_late_is_not_logged_twice(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guardrail, may_end = scenario.guardrail(), threading.Event()
    check = guardrail.check

    def late(**answer: Any) -> Decision:
        assert may_end.wait(30)
        return check(**answer)

    monkeypatch.setattr(guardrail, "check", late)
    gate = Gate(guardrail, log=tmp_path / "log", timeout=0.05)
    assert gate.check(**answers(scenario)[0]).outcome == "error"
    may_end.set()
    patient = Gate(gate.guardrail, log=tmp_path / "log")  # type: ignore[arg-type]
    assert patient.check(**answers(scenario)[0]).outcome == "pass"
    assert outcomes(tmp_path / "log") == ["error", "pass"]


def outcomes(log: Path) -> list[str]:
    lines = [json.loads(line) for file in log.iterdir() for line in file.open(encoding="utf-8")]
    return sorted(line["outcome"] for line in lines if "outcome" in line)


def test_who_goes_away_gets_no_decision_and_leaves_none() -> None:
    hanging = Hanging()
    gate = Gate(hanging)  # type: ignore[arg-type]
    heard: list[Decision] = []
    gate._notify = heard.append

    async def go() -> None:
        tasks = [asyncio.create_task(gate.acheck(response="x")) for _ in range(20)]
        while not hanging.asked:
            await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        hanging.may_end.set()
        assert (await gate.acheck(response="x")).outcome == "pass"

    asyncio.run(go())
    assert len(heard) == 1
    # Those that had not begun never do.
    assert hanging.asked <= 9


def test_a_process_ends_though_a_detector_hangs() -> None:
    code = (
        "import threading\nfrom calibrail.integrations import Gate\n"
        "class Hanging:\n    def check(self, **answer):\n        threading.Event().wait()\n"
        "print(Gate(Hanging(), timeout=0.05).check(response='x').outcome)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "error")


def test_a_detector_that_would_end_the_process_is_one_that_fails(scenario: Scenario) -> None:
    guardrail = scenario.failing("review")

    def leave(examples: Any) -> Any:
        raise SystemExit(3)

    guardrail.score.score = leave  # type: ignore[method-assign]
    for decision in (
        Gate(guardrail).check(response="x"),
        asyncio.run(Gate(guardrail).acheck(response="x")),
    ):
        assert (decision.outcome, decision.failed) == ("review", True)
        assert "SystemExit" in decision.reason


def test_what_cannot_be_handed_over_is_logged_and_told(scenario: Scenario, tmp_path: Path) -> None:
    heard: list[Decision] = []
    gate = Gate(scenario.file, log=tmp_path / "log", notify=heard.append)
    decision = gate.failed(ValueError("a picture"), question=scenario.question)
    assert (decision.outcome, heard) == ("error", [decision])
    assert outcomes(tmp_path / "log") == ["error"]


def test_a_log_keeps_its_options_in_another_process(scenario: Scenario, tmp_path: Path) -> None:
    log = calibrail.guardrail.decision_log.DecisionLog(tmp_path / "log", texts=True)
    there = pickle.loads(pickle.dumps(Gate(scenario.file, log=log)))
    there.check(**answers(scenario)[2])
    assert any(scenario.made_up in file.read_text() for file in (tmp_path / "log").iterdir())


@pytest.mark.parametrize("wrong", [0, -1.0, "5", float("nan")])
def test_a_timeout_is_a_number_of_seconds(scenario: Scenario, wrong: Any) -> None:
    with pytest.raises(InputError, match="timeout must be a number of seconds"):
        Gate(scenario.file, timeout=wrong)


@pytest.mark.parametrize("trim", [False, True])
def test_what_is_left_of_an_answer_is_shown_only_where_that_is_asked_for(trim: bool) -> None:
    gate = trimming.gate(trim=trim)
    for text, left in trimming.SHOWN.items():
        decision = gate.check(response=text, contexts=trimming.CONTEXTS)
        withheld = left is None or (text != left and not trim)
        assert gate.releases(decision) is not withheld
        shown = gate.shown(decision, text)
        assert shown == (REFUSALS[decision.outcome] if withheld else left)
        details = gate.details(decision)
        # Nothing of what is withheld stands beside what is shown.
        assert "hums" not in str(details)
        assert details["text"] == (None if withheld else left)
        assert [item["start"] for item in details["removed"]] == [
            item.start for item in decision.removed or ()
        ]


def test_a_refusal_of_ones_own_is_for_what_nothing_is_left_of() -> None:
    gate = Gate(trimming.guardrail(), trim=True, refusal="No.")
    said = [
        gate.shown(gate.check(response=text, contexts=trimming.CONTEXTS), text)
        for text in trimming.SHOWN
    ]
    assert said == [trimming.KEPT, trimming.KEPT, "No.", "No."]


def test_a_gate_that_trims_travels_and_knows_what_it_can(scenario: Scenario) -> None:
    again = pickle.loads(pickle.dumps(trimming.gate()))
    decision = again.check(response=trimming.TRIMMED, contexts=trimming.CONTEXTS)
    assert again.shown(decision, trimming.TRIMMED) == trimming.KEPT
    with pytest.raises(InputError, match="trim is for a guardrail that removes sentences"):
        Gate(scenario.file, trim=True)


def test_a_failure_releases_nothing_of_an_answer_that_could_be_trimmed() -> None:
    gate = trimming.gate()
    outcomes: tuple[Outcome, ...] = ("flag", "review", "error")
    for policy in outcomes:
        decision = trimming.guardrail().unjudged("a", policy, Cause("detector_failed", "x"))
        assert not gate.releases(decision)
        assert gate.shown(decision, trimming.TRIMMED) == REFUSALS[policy]
