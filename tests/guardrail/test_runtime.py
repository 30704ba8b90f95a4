from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibrail import Example, calibrate
from calibrail.errors import GuardrailError
from calibrail.guardrail import FrozenConfig, Guardrail
from calibrail.guardrail.file import content_digest, render
from calibrail.scores import build, parse_spec
from calibrail.scores.base import Scores
from calibrail.scores.ensemble import Ensemble
from tests.chat_server import ChatServer, always, verdicts

from .conftest import labelled

Make = Callable[..., Guardrail]


class Noisy:
    """A detector whose last digits depend on the size of its batch, like a neural network's."""

    name = "noisy"
    params: Mapping[str, Any] = {}
    requires = ("response",)
    tolerance = 1e-6

    def __init__(self, weights: str = "abc", noise: float = 4e-7) -> None:
        self.weights = weights
        self.noise = noise
        self.failing: set[str] = set()
        self.asked: list[int] = []

    def fingerprint(self) -> Mapping[str, Any]:
        return {"weights": self.weights}

    def score(self, examples: Sequence[Example]) -> Scores:
        self.asked.append(len(examples))
        for example in examples:
            if example.id in self.failing:
                raise RuntimeError(f"no answer for {example.id}")
        noise = self.noise if len(examples) > 1 else 0.0
        values = np.array([float(example.response) + noise for example in examples])
        return Scores(values, {i: "not a number" for i in np.flatnonzero(np.isnan(values))})


def numbered(n: int = 100) -> list[Example]:
    return [
        Example(response=str(index / 10), label=int(index >= n // 2), id=f"n{index}")
        for index in range(n)
    ]


@pytest.fixture
def noisy() -> tuple[Noisy, Guardrail]:
    detector = Noisy()
    return detector, calibrate(numbered(), detector, alpha=0.2).freeze(score=detector)


def test_decisions_follow_threshold_and_p_value(make_guardrail: Make) -> None:
    guardrail = make_guardrail()
    calibration = guardrail.calibration
    rng = np.random.default_rng(1)
    for value in [*rng.normal(0.5, 1.5, 200), calibration.threshold]:
        decision = guardrail.check(columns={"detector": float(value)}, id="x")
        assert decision.flagged == (value >= calibration.threshold)
        expected = (1 + int((calibration.scores <= value).sum())) / (calibration.n + 1)
        assert decision.p_value == pytest.approx(expected, abs=0)
        assert (decision.outcome == "pass") == (expected <= calibration.alpha)


def test_a_batch_decides_like_a_batch_of_one(noisy: tuple[Noisy, Guardrail]) -> None:
    _, guardrail = noisy
    edge = guardrail.calibration.threshold - 1e-6
    offsets = (-2e-6, -6e-7, -3e-7, -1e-7, 0.0, 1e-7, 3e-7, 6e-7, 2e-6)
    examples = [Example(response=repr(edge + offset), id=str(offset)) for offset in offsets]
    together = [decision.outcome for decision in guardrail.decide(examples)]
    alone = [guardrail.decide([example])[0].outcome for example in examples]
    assert together == alone
    assert set(alone) == {"pass", "flag"}


def test_only_near_ties_are_scored_again(noisy: tuple[Noisy, Guardrail]) -> None:
    detector, guardrail = noisy
    edge = guardrail.calibration.threshold - 1e-6
    examples = [Example(response=repr(value), id="x") for value in (0.0, edge, 9.0)]
    detector.asked.clear()
    decisions = guardrail.decide(examples)
    assert detector.asked == [3, 1]
    # The noise of a batch is nowhere to be seen.
    assert [decision.score for decision in decisions] == [0.0, 5.9, 9.0]


def test_no_byte_of_a_decision_depends_on_its_batch(noisy: tuple[Noisy, Guardrail]) -> None:
    detector, guardrail = noisy
    rng = np.random.default_rng(0)
    edges = guardrail.calibration.scores[:, None] + [-2e-6, -1e-6, -4e-7, 0.0, 3e-7, 1e-6]
    digits = np.round(rng.uniform(0.0, 10.0, 300), 4) + 5e-5 + rng.uniform(-1e-6, 1e-6, 300)
    values = [*edges.ravel(), *digits, *rng.uniform(-20.0, 20.0, 300), np.nan]
    examples = [Example(response=repr(float(value)), id=f"{value}") for value in values]
    alone = [guardrail.decide([example])[0] for example in examples]
    for noise in (-9.9e-7, -3e-7, 4e-7, 9.9e-7):
        detector.noise = noise
        together = guardrail.decide(examples)
        assert [one.line() for one in together] == [one.line() for one in alone]


def test_a_guardrail_that_remembers_decides_as_one_that_does_not() -> None:
    """The first answer of a text is kept; it may come from another batch."""

    class Remembering(Noisy):
        kept: dict[str, float]

        def score(self, examples: Sequence[Example]) -> Scores:
            found = super().score(examples).values
            rows = zip(examples, found, strict=True)
            values = [self.kept.setdefault(example.response, value) for example, value in rows]
            return Scores(np.array(values), {})

        def forget(self) -> None:
            self.kept.clear()

    detector = Remembering()
    detector.kept = {}
    guardrail = calibrate(numbered(), detector, alpha=0.2).freeze(score=detector)
    edge = Example(response=repr(guardrail.calibration.threshold - 1e-6 - 2e-7), id="edge")
    alone = guardrail.decide([edge])[0]
    detector.forget()
    detector.score([edge, *numbered()])
    assert detector.kept[edge.response] != float(edge.response)
    assert guardrail.decide([edge])[0] == alone and alone.outcome == "pass"


def test_each_answer_meets_the_threshold_of_its_group() -> None:
    examples = []
    for index, example in enumerate(labelled(400)):
        topic = index // 2 % 2
        score = float(example.columns["detector"]) + 10.0 * topic
        columns = {"detector": score, "topic": "ab"[topic]}
        examples.append(replace(example, columns=columns))
    spec = "column:column=detector,higher=hallucinated"
    guardrail = calibrate(examples, spec, alpha=0.2, by="topic").freeze()
    for example, decision in zip(examples, guardrail.decide(examples), strict=True):
        assert decision.threshold is not None
        assert (decision.threshold > 5.0) == (example.columns["topic"] == "b")
        assert decision.flagged == (example.columns["detector"] >= decision.threshold)


class Reluctant(Noisy):
    """A detector that gives evidence for high scores alone."""

    def score(self, examples: Sequence[Example]) -> Scores:
        scores = super().score(examples)
        entries = tuple({"kind": "why"} if value > 5.0 else None for value in scores.values)
        return replace(scores, evidence=entries)  # type: ignore[arg-type]


def test_an_answer_without_evidence_does_not_end_its_batch() -> None:
    detector = Reluctant(noise=0.0)
    guardrail = calibrate(numbered(), detector, alpha=0.2).freeze(score=detector)
    for example, decision in zip(numbered(), guardrail.decide(numbered()), strict=True):
        assert decision.evidence == ({"kind": "why"} if float(example.response) > 5.0 else None)


def test_a_near_tie_is_flagged_and_says_so(noisy: tuple[Noisy, Guardrail]) -> None:
    _, guardrail = noisy
    decision = guardrail.check(response=repr(guardrail.calibration.threshold - 5e-7))
    assert decision.outcome == "flag"
    assert "within rounding" in decision.reason


@pytest.mark.parametrize("policy", ["flag", "review", "pass"])
def test_undefined_scores_follow_the_recorded_policy(make_guardrail: Make, policy: str) -> None:
    decision = make_guardrail(undefined=policy).check(columns={"detector": None}, id="x")
    assert decision.outcome == policy
    assert decision.score is None
    assert decision.p_value is None
    assert "undefined" in decision.reason


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
def test_a_failure_costs_one_answer_only(policy: Any) -> None:
    detector = Noisy()
    guardrail = calibrate(numbered(), detector, alpha=0.2).freeze(on_failure=policy, score=detector)
    detector.failing = {"n3"}
    decisions = guardrail.decide(numbered())
    assert [d.id for d in decisions if "failed" in d.reason] == ["n3"]
    assert decisions[3].outcome == policy
    assert decisions[3].flagged
    assert "no answer for n3" in decisions[3].reason
    assert len(decisions) == 100


def test_other_weights_are_refused(noisy: tuple[Noisy, Guardrail]) -> None:
    _, guardrail = noisy
    with pytest.raises(GuardrailError, match=r"weights.*'abc'.*'xyz'"):
        Guardrail(guardrail.config, Noisy(weights="xyz"))


def test_a_policy_other_than_the_calibrations_is_refused(make_guardrail: Make) -> None:
    content = json.loads(make_guardrail().config.to_bytes())
    content["policy"]["undefined"] = "pass"
    content["digest"] = content_digest(content)
    with pytest.raises(GuardrailError, match="calibrate again"):
        Guardrail(FrozenConfig.from_bytes(render(content)))


@pytest.mark.parametrize("name", ["score", "rule", "config", "decimals"])
def test_nothing_that_decides_is_changed_under_a_guardrail(
    noisy: tuple[Noisy, Guardrail], name: str
) -> None:
    guardrail = noisy[1]
    before = guardrail.decide(labelled())
    with pytest.raises(AttributeError, match=f"cannot assign to field '{name}'"):
        setattr(guardrail, name, Noisy())
    assert guardrail.decide(labelled()) == before


def test_streams_of_any_length_keep_their_order(make_guardrail: Make) -> None:
    guardrail = make_guardrail()
    examples = labelled(103)
    streamed = list(guardrail.stream(iter(examples), block=10))
    assert [d.id for d in streamed] == [e.id for e in examples]
    assert streamed == guardrail.decide(examples)
    assert guardrail.decide([]) == []


@pytest.mark.parametrize("within", ["judge", "ensemble"])
def test_a_judge_that_fails_lets_nothing_pass_where_undefined_scores_do(within: str) -> None:
    with ChatServer(verdicts(lambda text: 0.9 if "wrong" in text else 0.2), served="j-1") as server:
        spec = f"judge:model=j-1,mode=logprob,base_url={server.url}"
        examples = [
            Example("q", ("c",), f"{'wrong' if n % 2 else 'right'} {n}", label=n % 2, id=str(n))
            for n in range(80)
        ]
        judge = build(parse_spec(spec))
        score = Ensemble(scores=f"length,{spec}") if within == "ensemble" else judge
        guardrail = calibrate(examples, score, alpha=0.2, undefined="pass").freeze()
        assert guardrail.check(response="right here", contexts="c").outcome == "pass"
        for fault in ("400", "nan_logprobs", "other_tokens", "no_logprobs"):
            server.faults = always(fault)
            decision = guardrail.check(response=f"right but {fault}", contexts="c")
            assert (decision.outcome, decision.score, decision.p_value) == ("error", None, None)
            assert "the detector failed" in decision.reason
        # What the judge says of an answer is no failure of the judge.
        server.faults = always("filtered")
        decision = guardrail.check(response="right but refused", contexts="c")
        assert decision.outcome == "pass"
        assert decision.score is None or within == "ensemble"
