"""Judges of every mode before models of every family: what is refused, and what is made of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from calibrail.errors import ModelError
from calibrail.models.llm.transport import CallLimits, limit_calls
from calibrail.scores.judge import UNASKED, Judge
from tests.chat_server import ChatServer, RefusedError, Reply, text_of, verdicts
from tests.scores.test_judge import examples, stated

pytestmark = pytest.mark.usefixtures("fresh_models", "quick_retries")

Answer = Callable[[dict[str, Any]], Reply]

#: Tokens that a reasoning model thinks before it replies, by its effort.
THINKS = {None: 900, "none": 0, "minimal": 300, "low": 900, "medium": 5_000, "high": 12_000}
MODES = ("auto", "verdict", "logprob", "votes", "graded", "rating")


def judged(body: dict[str, Any]) -> Reply:
    """Reply as the prompt, and the shape that is promised, want it."""
    text = text_of(body["messages"])
    p = stated(text)
    if "JSON object" in text:
        return Reply(json.dumps({"hallucination": p}))
    grade = str(5 - round(4 * p))
    word = "hallucination" if p >= 0.5 else "faithful"
    name, said = ("rating", grade) if "number from 1 to 5" in text else ("verdict", word)
    if (body.get("response_format") or {}).get("type") == "json_schema":
        return Reply(json.dumps({name: int(grade) if name == "rating" else word}))
    return Reply(said) if name == "rating" else verdicts(stated)(body)


def refusing(*names: str) -> Answer:
    """Refuse parameters as OpenAI does, and answer else."""

    def answer(body: dict[str, Any]) -> Reply:
        for name in names:
            if body.get(name) is not None:
                says = f"Unsupported parameter: '{name}' is not supported with this model."
                raise RefusedError(400, says, param=name, code="unsupported_parameter")
        return judged(body)

    return answer


def reasoning(body: dict[str, Any]) -> Reply:
    """Think before every reply, as models do that take no temperature and no log-probabilities."""
    effort, thinking = body.get("reasoning_effort"), body.get("reasoning_effort") != "none"
    if body.get("max_tokens") is not None:
        says = "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        says += "'max_completion_tokens' instead."
        raise RefusedError(400, says, param="max_tokens", code="unsupported_parameter")
    if thinking and body.get("temperature", 1) != 1:
        says = "Unsupported value: 'temperature' does not support 0 with this model. Only the "
        says += "default (1) value is supported."
        raise RefusedError(400, says, param="temperature", code="unsupported_value")
    if thinking and body.get("logprobs"):
        says = "You are not allowed to request logprobs from this model."
        raise RefusedError(403, says, param="logprobs")
    if body["max_completion_tokens"] <= THINKS[effort]:
        return Reply("", finish="length", completion_tokens=body["max_completion_tokens"])
    return judged(body)


FAMILIES: dict[str, tuple[Answer, dict[str, Any]]] = {
    "no reasoning": (judged, {}),
    "reasoning": (reasoning, {}),
    "reasoning, effort none": (reasoning, {"effort": "none"}),
    "reasoning, effort medium": (reasoning, {"effort": "medium"}),
    "no log-probabilities": (refusing("logprobs", "top_logprobs"), {}),
    "no structured output": (refusing("response_format"), {"effort": "low"}),
}
UNASKED_LEARNT = {"max_tokens", "temperature"}
#: What is learnt of each, beside log-probabilities where they are asked for.
LEARNT: dict[str, set[str]] = {
    "no reasoning": set(),
    "reasoning": UNASKED_LEARNT,
    "reasoning, effort none": {"max_tokens"},
    "reasoning, effort medium": UNASKED_LEARNT,
    "no log-probabilities": set(),
    "no structured output": {"response_format"},
}
WITHOUT_LOGPROBS = ("reasoning", "reasoning, effort medium", "no log-probabilities")


def build(mode: str, base_url: str | None, model: str = "m", **params: Any) -> Judge:
    more: dict[str, Any] = {"scale": "1-5", "higher": "faithful"} if mode == "rating" else {}
    if mode == "votes":
        more = {"votes": 3}
    return Judge(model=model, base_url=base_url, mode=mode, **more, **params)  # type: ignore[arg-type]


def check_values(score: Judge, mode: str, found: Any) -> None:
    """Hold that ten answers, of probabilities 0 to 0.9, were judged as the mode words them."""
    reads = {
        "graded": lambda p: p,
        "rating": lambda p: round(4 * p) / 4,
        "logprob": lambda p: p,
    }
    mode = (score._reading or mode) if mode == "auto" else mode
    read = reads.get(mode, lambda p: float(p >= 0.5))
    assert [*found.values] == pytest.approx([read(i / 10) for i in range(10)], abs=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_mode_judges_with_every_family_or_says_why_not(family: str, mode: str) -> None:
    answer, params = FAMILIES[family]
    with ChatServer(answer) as server:
        score = build(mode, server.url, **params)
        found = score.score(examples(10))
        learnt = score.llm.unknown(score.effort)
        asks_logprobs = mode in ("auto", "verdict", "logprob")
        none = asks_logprobs and family in WITHOUT_LOGPROBS
        expected = LEARNT[family] | ({"logprobs"} if none else set())
        if mode == "votes":
            # They are drawn at its own temperature.
            expected -= {"temperature"}
        if family == "no structured output" and mode == "logprob":
            expected = {"response_format"}
        assert learnt - {"top_logprobs"} == expected
        if mode == "logprob" and none:
            assert {*found.reasons.values()} == {
                "the endpoint gave no log-probabilities; use mode=votes or mode=graded"
            }
        else:
            check_values(score, mode, found)
        if mode == "auto":
            assert score._reading == ("verdict" if none else "logprob")
        # What was learnt is not asked again: every further answer costs one call.
        n = len(server.seen)
        score.score(examples(41)[10:20])
        assert len(server.seen) - n == (30 if mode == "votes" else 10)


def test_a_model_that_thinks_unasked_is_given_room_once(tmp_path: Any) -> None:
    with (
        ChatServer(reasoning) as server,
        limit_calls(CallLimits(cache=tmp_path / "c.sqlite", concurrency=1)),
    ):
        score = build("verdict", server.url)
        check_values(score, "verdict", score.score(examples(10)))
        limits = [seen.body.get("max_completion_tokens") for seen in server.seen]
        # One answer was empty; all others were allowed more from the start.
        assert limits.count(10) - limits.count(None) <= 3
        assert limits.count(UNASKED) == 10
        lesson = "m thought to the end of 10 tokens, so it was allowed 4,096."
        assert lesson in score.lessons
        assert any("takes no temperature" in lesson for lesson in score.lessons)
        frozen = score.pinned()
        assert (frozen.params["max_tokens"], frozen.params["served"]) == (UNASKED, "m")
        n = len(server.seen)
        again = Judge(**frozen.params)  # type: ignore[arg-type]
        assert [*again.score(examples(10)).values] == [*score.score(examples(10)).values]
        assert len(server.seen) == n


def test_a_new_process_finds_what_was_answered_with_more_room(tmp_path: Any) -> None:
    from calibrail.models.batching import shared_models

    with ChatServer(reasoning) as server, limit_calls(CallLimits(cache=tmp_path / "c.sqlite")):
        first = build("verdict", server.url).score(examples(10))
        n = len(server.seen)
        shared_models.cache_clear()
        score = build("verdict", server.url)
        (request,) = score.inputs(examples(10)[0])
        assert score.llm.knows(score.llm.question(request))
        assert [*score.score(examples(10)).values] == [*first.values]
        assert len(server.seen) == n
        assert "thought to the end" in " ".join(score.lessons)


@pytest.mark.parametrize(
    ("says", "status"),
    [
        ("Could not finish the message because max_tokens or model output limit was reached.", 400),
        ("", 200),
        ("<think>\nIs it faithful? The answer says", 200),
        ("<|channel|>analysis<|message|>faithful or", 200),
        ("[THINK] hallucination", 200),
    ],
)
def test_thoughts_that_end_nowhere_are_no_verdict(says: str, status: int) -> None:
    """Nor where the user's own limit ends them: then the remedy is named."""

    def answer(body: dict[str, Any]) -> Reply:
        if body["max_tokens"] > 1000:
            return Reply("faithful")
        if status == 400:
            raise RefusedError(400, says, code="invalid_request_error")
        return Reply(says, finish="length")

    with ChatServer(answer) as server:
        score = build("verdict", server.url)
        assert [*score.score(examples(1)).values] == [0.0]
        limited = build("verdict", server.url, max_tokens=500)
        (reason,) = limited.score(examples(1)).reasons.values()
        assert "max_tokens" in reason


def test_an_allowance_that_a_server_has_no_room_for_is_not_insisted_on() -> None:
    def answer(body: dict[str, Any]) -> Reply:
        if body["max_tokens"] > 1000:
            says = "max_tokens is too large: 4096. This model's maximum context length is 1000."
            raise RefusedError(400, says)
        return Reply("", finish="length") if "p=0.0" in text_of(body["messages"]) else judged(body)

    with ChatServer(answer) as server:
        found = build("verdict", server.url).score(examples(10))
        assert found.values[5:].tolist() == [1.0] * 5
        assert "ended before its verdict" in found.reasons[0]


@pytest.mark.parametrize(
    "parts",
    [
        [{"type": "thinking", "thinking": [{"type": "text", "text": "hallucination"}]}],
        [{"type": "reasoning", "text": "hallucination"}],
    ],
)
def test_what_is_thought_in_parts_of_its_own_is_no_verdict(parts: list[Any]) -> None:
    from calibrail.models.llm.chat import read_answer

    message = {"content": [*parts, {"type": "text", "text": "faithful"}]}
    assert read_answer({"choices": [{"message": message}]}).text == "faithful"
    message = {"content": None, "reasoning_content": "hallucination"}  # type: ignore[dict-item]
    body = {"choices": [{"message": message, "finish_reason": "length"}]}
    assert read_answer(body).is_starved


def test_an_effort_that_a_model_does_not_take_ends_the_run() -> None:
    says = "Unsupported value: 'reasoning_effort' does not support 'none' with this model."

    def answer(body: dict[str, Any]) -> Reply:
        if body.get("reasoning_effort") == "none":
            raise RefusedError(400, says, param="reasoning_effort", code="unsupported_value")
        return judged(body)

    with ChatServer(answer) as server:
        with pytest.raises(ModelError, match=r"does not take effort=none .*another effort"):
            build("auto", server.url, effort="none").score(examples(1))
        # What one effort does not take says nothing of another.
        check_values(score := build("auto", server.url), "auto", score.score(examples(10)))


def test_effort_is_part_of_what_is_pinned_and_asked() -> None:
    with ChatServer(judged) as server:
        score = build("auto", server.url, effort="low")
        assert (score.params["effort"], build("auto", server.url).params.get("effort")) == (
            "low",
            None,
        )
        score.score(examples(1))
        assert server.seen[0].body["reasoning_effort"] == "low"
        assert score.pinned().params["effort"] == "low"
        sizes = [
            build("auto", server.url, effort=effort).inputs(examples(1)[0])[0].max_tokens
            for effort in (None, "none", "minimal", "low", "medium", "high")
        ]
        assert sizes == [10, 10, 2058, 4106, 8202, 16394]


#: How those who take no temperature say so; none of these is a field of its own.
NO_TEMPERATURE = [
    "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) "
    "value is supported.",
    "Unsupported parameter: 'temperature' is not supported with this model.",
    "`temperature` is deprecated for this model.",
    "`temperature` may only be set to 1 when thinking is enabled.",
    "[{'type': 'extra_forbidden', 'loc': ('body', 'temperature'), 'msg': 'Extra inputs are not "
    "permitted', 'input': 0.0}]",
    "The model returned the following errors: inferenceConfig.temperature is not available.",
    "o-series models don't support temperature=0.0. Only temperature=1 is supported.",
    "Invalid value for temperature: must be 1 for reasoning models",
    "Unrecognized request argument supplied: temperature",
    "azure does not support parameters: ['temperature'], for model=judge. Unknown reasoning_effort",
]


@pytest.mark.parametrize("says", NO_TEMPERATURE)
@pytest.mark.parametrize("param", [None, "temperature"])
def test_a_refusal_of_temperature_is_learnt_in_every_wording(says: str, param: str | None) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        if "temperature" in body:
            raise RefusedError(400, says, param=param)
        return judged(body)

    with ChatServer(answer) as server:
        score = build("graded", server.url)
        check_values(score, "graded", score.score(examples(10)))
        assert score.llm.unknown(None) == {"temperature"}


@pytest.mark.parametrize(
    "says", ["Invalid prompt: 'the temperature rose to 20 degrees'", "The input was flagged."]
)
def test_a_quoted_prompt_that_speaks_of_temperature_teaches_nothing(says: str) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        if "p=0.3" in text_of(body["messages"]):
            raise RefusedError(400, says)
        return judged(body)

    with ChatServer(answer) as server:
        score = build("graded", server.url)
        assert len(score.score(examples(10)).reasons) == 1
        assert score.llm.unknown(None) == set()
        assert all("temperature" in seen.body for seen in server.seen)


def test_what_is_promised_in_json_is_read_and_else_said_in_words() -> None:
    with ChatServer(judged) as server:
        score = build("verdict", server.url, effort="low")
        check_values(score, "verdict", score.score(examples(10)))
        shape = server.seen[-1].body["response_format"]["json_schema"]["schema"]
        assert shape["properties"]["verdict"]["enum"] == ["faithful", "hallucination"]
        # With no effort, or with none, a word is asked for, as guardrails of before do.
        for effort in (None, "none"):
            build("verdict", server.url, effort=effort).score(examples(1))
            assert "response_format" not in server.seen[-1].body
    with ChatServer(refusing("response_format")) as server:
        score = build("verdict", server.url, effort="low")
        check_values(score, "verdict", score.score(examples(10)))
        assert "m promises no JSON, so it was asked in words alone." in score.lessons
        assert len(re.findall("faithful", str(score.score(examples(1)).evidence))) > 0
