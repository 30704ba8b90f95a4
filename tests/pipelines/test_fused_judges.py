"""Are several judges fused as other detectors are: none dropped, each reply paid once?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrail import Guardrail, calibrate, compare, read
from calibrail.data.splits import FIT
from calibrail.pipelines.estimate import plan_calls
from calibrail.scores import build, parse_spec
from tests.answers import rows, write
from tests.chat_server import ChatServer, Reply, text_of
from tests.pipelines.test_repeat import apart, unit  # noqa: F401

#: How often each judge is wrong.
WRONG = {"sharp": 0.15, "middling": 0.3, "weak": 0.42}


def three(body: dict[str, Any]) -> Reply:
    """Answer as the label is, wrongly at the judge's own rate, and sometimes not at all."""
    text, model = text_of(body["messages"]), body["model"]
    if unit(text, model, "odd") < 0.05:
        return Reply("perhaps")
    hallucinated = ("taller" in text) != (unit(text, model) < WRONG[model])
    return Reply("hallucination" if hallucinated else "faithful")


def members(server: ChatServer) -> list[str]:
    return [f"judge:model={name},mode=verdict,base_url={server.url}" for name in WRONG]


def fused(server: ChatServer, name: str = "fused") -> str:
    return f"{name}:scores={json.dumps(','.join([*members(server), 'novelty']))}"


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    return write(tmp_path / "answers.jsonl", rows(150))


def test_weak_judges_keep_a_weight_and_every_reply_is_paid_once(answers: Path) -> None:
    with ChatServer(three, logprobs=False) as server:
        plans = plan_calls(str(answers), fused(server))
        assert not server.seen and sorted(plan.n_calls for plan in plans) == [300] * 3
        run = compare(answers, [fused(server), *members(server)], alpha=0.3)
        # Its members and it itself ask the same.
        assert len(server.seen) == 3 * 300
    scored = run.scored
    state = scored.detectors[0].state()
    weights = dict(zip(WRONG, state["weights"].tolist(), strict=False))
    assert weights["sharp"] > weights["middling"] > weights["weak"] > 0.0
    # A reply that cannot be read leaves the others' word.
    values = [scored.table.columns[key] for key in scored.keys]
    assert np.isnan(values[1]).sum() > 5 and np.isnan(values[0]).sum() == 0
    names = [name for name, _ in run.comparison.detectors]
    assert names[0] == scored.keys[0], "three judges raise fewer false alarms than one"
    assert len(names) == 4 and run.to_dict()["winner"]


@pytest.mark.parametrize("name", ["fused", "ensemble"])
def test_it_learns_on_the_fit_split_alone_and_pins_who_answered(
    answers: Path, tmp_path: Path, name: str
) -> None:
    with ChatServer(three, logprobs=False, served="judge-2026-10-01") as server:
        run = calibrate(answers, fused(server, name), alpha=0.3)
        assert run.codes is not None and run.table is not None
        fit = {run.table.ids[int(row)].as_py() for row in np.flatnonzero(run.codes == FIT)}
        examples = list(read(answers))
        alone = build(parse_spec(fused(server, name)))
        again = alone.fit([item for item in examples if item.id in fit])  # type: ignore[attr-defined]
        values = again.score(examples).values
        key = next(iter(run.table.columns))
        assert values.tolist() == run.table.columns[key].tolist()
        run.freeze().save(tmp_path / "g.json")
        n = len(server.seen)
        guardrail = Guardrail.load(tmp_path / "g.json")
        assert [item.score for item in guardrail.decide(examples)] == values.tolist()
        assert len(server.seen) == n
        # A judge that answers under another name is none that was calibrated.
        server.served = "judge-2026-12-01"
        fresh = replace(examples[0], response=f"{examples[0].response} Indeed.")
        (decision,) = guardrail.decide([fresh])
        assert decision.outcome == "error" and "judge-2026-12-01" in decision.reason


def test_a_failed_call_teaches_nothing(answers: Path) -> None:
    def fault(key: str, attempt: int) -> str | None:
        return "400" if unit(key) < 0.1 else None

    with ChatServer(three, faults=fault, logprobs=False) as server:
        run = calibrate(answers, fused(server), alpha=0.3)
        assert run.data["n_unanswered"] > 10
    with ChatServer(lambda body: replace(three(body)), logprobs=False) as server:
        examples = list(read(answers))
        score = build(parse_spec(fused(server)))
        server.faults = fault
        half = score.fit(examples)  # type: ignore[attr-defined]
        failed = {
            row
            for item in half.scored(examples).values()
            for row, why in item.reasons.items()
            if "400" in why
        }
        kept = [item for row, item in enumerate(examples) if row not in failed]
        assert len(failed) > 10
        other = score.fit(kept)  # type: ignore[attr-defined]
        assert half.state()["weights"].tolist() == other.state()["weights"].tolist()
