"""Judges at providers by their names: the real litellm before servers that answer as they do."""

from __future__ import annotations

import json
import logging
import math
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from calibrail.errors import ModelError
from calibrail.models.llm import transport
from calibrail.models.llm.chat import ChatAnswer, ChatRequest, read_answer
from calibrail.models.llm.transport import CallLimits, limit_calls
from calibrail.scores.judge import Judge
from tests.chat_server import Line, LocalServer
from tests.scores.test_judge import examples, stated
from tests.scores.test_judge_families import MODES, build, check_values
from tests.scores.test_odd_replies import none_is_misread, odd, replies

pytest.importorskip("litellm", reason="needs calibrail[providers]: make test-integrations")

pytestmark = pytest.mark.usefixtures("fresh_models", "quick_retries")

KEY = "CANARY-of-a-key"
MODELS = {
    "anthropic": "anthropic/claude-haiku-5-5",
    "gemini": "gemini/gemini-3.8-flash",
    "bedrock": "bedrock/converse/us.anthropic.claude-haiku-5-5",
    "azure": "azure/my-deployment",
    "openai": "openai/gpt-6-luna",
}
#: Which of them give log-probabilities.
WITH_LOGPROBS = ("gemini", "azure", "openai")
FILTER = "The response was filtered due to the prompt triggering Azure OpenAI's content management"


class RefusedError(Exception):
    """A status, headers and a body."""


def anthropic(text: str, p: float, finish: str) -> dict[str, Any]:
    parts = [{"type": "thinking", "thinking": "hallucination", "signature": "s"}]
    return {
        **{"id": "m", "type": "message", "role": "assistant", "model": "claude-haiku-5-5-20261001"},
        "content": [*parts, *([{"type": "text", "text": text}] if text else [])],
        "stop_reason": {"stop": "end_turn", "length": "max_tokens"}.get(finish, finish),
        "usage": {"input_tokens": 9, "output_tokens": 2},
    }


def tokens(p: float) -> list[tuple[str, float]]:
    return sorted([("hall", max(p, 1e-6)), ("faith", 1 - p)], key=lambda item: -item[1])


def gemini(text: str, p: float, finish: str) -> dict[str, Any]:
    named = [{"token": name, "logProbability": math.log(share)} for name, share in tokens(p)]
    rest = {"token": "ucination" if named[0]["token"] == "hall" else "ful", "logProbability": 0.0}
    listed = {
        "chosenCandidates": [named[0], rest],
        "topCandidates": [{"candidates": named}, {"candidates": [rest]}],
    }
    parts = [{"text": "It is a hallucination", "thought": True}, {"text": text}]
    candidate = {
        "content": {"role": "model", "parts": parts if text else parts[:1]},
        "finishReason": {"stop": "STOP", "length": "MAX_TOKENS"}.get(finish, finish),
        "index": 0,
    }
    if text in ("faithful", "hallucination"):
        candidate["logprobsResult"] = listed
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-3.8-flash"}


def bedrock(text: str, p: float, finish: str) -> dict[str, Any]:
    thought = {"reasoningContent": {"reasoningText": {"text": "hallucination", "signature": "s"}}}
    content = [thought, *([{"text": text}] if text else [])]
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": {"stop": "end_turn", "length": "max_tokens"}.get(finish, finish),
        "usage": {"inputTokens": 9, "outputTokens": 2, "totalTokens": 11},
        "metrics": {"latencyMs": 1},
    }


def openai(text: str, p: float, finish: str) -> dict[str, Any]:
    top = [{"token": n, "logprob": math.log(share), "bytes": None} for n, share in tokens(p)]
    rest = {"token": "ucination" if top[0]["token"] == "hall" else "ful", "logprob": 0.0}
    content = [{**top[0], "top_logprobs": top}, {**rest, "bytes": None, "top_logprobs": []}]
    message = {"role": "assistant", "content": text, "reasoning_content": "hallucination"}
    words = text in ("faithful", "hallucination")
    return {
        **{"id": "x", "object": "chat.completion", "created": 0, "model": "gpt-6-luna-2026-09-22"},
        "choices": [
            {
                **{"index": 0, "finish_reason": finish, "message": message},
                "logprobs": {"content": content} if words else None,
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
    }


def responses(text: str) -> dict[str, Any]:
    said = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    thought = {"type": "reasoning", "id": "r", "summary": []}
    details = {"input_tokens_details": {"cached_tokens": 0}}
    details |= {"output_tokens_details": {"reasoning_tokens": 0}}
    return {
        **{"id": "resp", "object": "response", "created_at": 0, "status": "completed"},
        **{"model": "gpt-6-luna", "output": [thought, {**message, "content": [said]}]},
        "usage": {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11, **details},
        **{"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None},
        **{"incomplete_details": None, "instructions": None, "metadata": {}},
        **{"temperature": 1.0, "top_p": 1.0},
    }


SHAPES: dict[str, Callable[[str, float, str], dict[str, Any]]] = {
    **{"anthropic": anthropic, "gemini": gemini, "bedrock": bedrock},
    **{"azure": openai, "openai": openai},
}


class Provider(LocalServer):
    """A provider of one of the shapes; ``refuse`` may raise ``RefusedError`` about a request."""

    def __init__(self, shape: str, refuse: Callable[[str, str], None] = lambda *_: None) -> None:
        super().__init__()
        self.shape, self.refuse = shape, refuse
        self.seen: list[tuple[str, str, str]] = []

    def handle(self, line: Line) -> None:
        raw = line.raw.decode()
        with self.lock:
            self.seen.append((line.path, raw, str(line.headers)))
        try:
            self.refuse(line.path, raw)
        except RefusedError as refused:
            status, headers, body = refused.args
            line.send(status, body, headers=headers)
            return
        # The texts of prompts stand in JSON, escaped.
        p = stated(raw)
        word = "hallucination" if p >= 0.5 else "faithful"
        text = word
        if "JSON object" in raw:
            text = json.dumps({"hallucination": p})
        elif "number from 1 to 5" in raw:
            text = str(5 - round(4 * p))
        if self.says:
            text = self.says(raw)
        if line.path.partition("?")[0].endswith("/responses"):
            line.send(200, responses(text))
            return
        limit = re.search(r'"max_?(?:output_|completion_)?[tT]okens": ?(\d+)', raw)
        starved = limit is not None and int(limit[1]) <= self.thinks
        said = ("", p, "length") if starved else (text, p, "stop")
        if self.drips:
            line.send_slowly(SHAPES[self.shape](*said), 0.05)
            return
        line.send(200, SHAPES[self.shape](*said))

    #: Whether it sends a byte at a time, and never pauses for long.
    drips = False
    #: Tokens that it thinks before it replies.
    thinks = 0
    #: What it replies to a request, if not what is wanted of it.
    says: Callable[[str], str] | None = None


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC", "GEMINI", "AZURE", "OPENAI"):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    monkeypatch.setenv("AWS_REGION_NAME", "us-east-1")
    monkeypatch.setenv("AZURE_API_VERSION", "2025-04-01-preview")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.fixture
def serve(keys: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Provider]]:
    """Open providers, and let the environment lead to them."""
    opened: list[Provider] = []

    def start(shape: str, refuse: Callable[[str, str], None] = lambda *_: None) -> Provider:
        provider = Provider(shape, refuse)
        opened.append(provider.__enter__())
        root = provider.url.removesuffix("/v1")
        for name in ("ANTHROPIC", "GEMINI", "AZURE"):
            monkeypatch.setenv(f"{name}_API_BASE", root)
        monkeypatch.setenv("OPENAI_API_BASE", provider.url)
        monkeypatch.setenv("AWS_BEDROCK_RUNTIME_ENDPOINT", root)
        return provider

    yield start
    for provider in opened:
        provider.__exit__(None, None, None)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("provider", MODELS)
def test_every_mode_judges_at_every_provider_or_says_why_not(
    provider: str, mode: str, serve: Callable[..., Provider]
) -> None:
    server = serve(provider)
    score = build(mode, None, MODELS[provider])
    assert score.params["base_url"] == provider
    found = score.score(examples(10))
    none = provider not in WITH_LOGPROBS
    if mode == "logprob" and none:
        assert {*found.reasons.values()} == {
            "the endpoint gave no log-probabilities; use mode=votes or mode=graded"
        }
    else:
        check_values(score, mode, found)
    if mode == "auto":
        assert score._reading == ("verdict" if none else "logprob")
    n = len(server.seen)
    score.score(examples(41)[10:20])
    assert len(server.seen) - n == (30 if mode == "votes" else 10)
    if provider == "azure":
        path = "/openai/deployments/my-deployment/chat/completions?api-version=2025-04-01-preview"
        assert {path} == {path for path, _, _ in server.seen}


@pytest.mark.parametrize("mode", ["verdict", "graded", "rating"])
@pytest.mark.parametrize("provider", MODELS)
def test_no_odd_reply_of_any_provider_is_misread(
    provider: str, mode: str, serve: Callable[..., Provider]
) -> None:
    server = serve(provider)
    server.says = lambda raw: odd(mode, raw)
    n_read = none_is_misread(build(mode, None, MODELS[provider]), mode)
    assert n_read == sum(value is not None for _, value in replies(mode))


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "azure", "openai"])
def test_a_model_that_thinks_unasked_is_given_room(
    provider: str, serve: Callable[..., Provider]
) -> None:
    server = serve(provider)
    server.thinks = 900
    score = build("verdict", None, MODELS[provider])
    check_values(score, "verdict", score.score(examples(10)))
    assert "thought to the end of 10 tokens" in " ".join(score.lessons)


def ask(provider: str, timeout: float = 5.0, **fields: Any) -> ChatAnswer:
    """Ask once, and whatever comes of it is raised."""
    request = ChatRequest((("user", "Is p=0.2 a SECRET?"),), **{"max_tokens": 10, **fields})
    body = {"model": MODELS[provider], **request.parameters()}
    spent = transport.Account(CallLimits(attempts=1, timeout=timeout))
    model = transport.ModelRequest("chat", body, spent, threading.Event(), read_answer)
    answer: ChatAnswer = transport.Caller(provider).call(model)
    return answer


@pytest.mark.parametrize("provider", MODELS)
def test_an_answer_that_drips_in_keeps_to_the_time_of_a_call(
    provider: str, serve: Callable[..., Provider]
) -> None:
    server = serve(provider)
    assert ask(provider).text
    server.drips = True
    with pytest.raises(transport.RefusedError, match=r"no complete answer within 0\.5 s"):
        ask(provider, timeout=0.5)
    assert len(server.seen) == 2


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("provider", MODELS)
def test_a_redirection_takes_no_key_elsewhere(
    provider: str, status: int, serve: Callable[..., Provider]
) -> None:
    other = serve(provider)
    moved = serve(provider, always(status, {}, Location=f"{other.url}/elsewhere"))
    with pytest.raises(ModelError, match=f"HTTP {status}.*: it has moved"):
        ask(provider)
    assert len(moved.seen) == 1 and not other.seen


@pytest.mark.parametrize("provider", MODELS)
def test_an_answer_has_an_end_and_gives_no_key_back(
    provider: str, serve: Callable[..., Provider]
) -> None:
    server = serve(provider)
    server.says = lambda raw: f"faithful {KEY}"
    assert ask(provider).text == "faithful [key]"
    most = transport.most_bytes("chat", {"max_tokens": 10})
    good = json.dumps(SHAPES[provider]("faithful", 0.0, "stop")).encode()
    # What is not JSON any more within the limit would be without one.
    server.refuse = always(200, b" " * (most - len(good)) + good)
    assert ask(provider).text == "faithful"
    server.refuse = always(200, b" " * (most - len(good) + 1) + good)
    with pytest.raises((ModelError, transport.RefusedError)):
        ask(provider)


def test_calls_of_others_stay_as_they_are(serve: Callable[..., Provider]) -> None:
    import httpx

    other = serve("anthropic")
    moved = serve("anthropic", always(307, {}, Location=f"{other.url}/elsewhere"))
    with pytest.raises(ModelError, match="it has moved"):
        ask("anthropic")
    with httpx.Client(follow_redirects=True) as client:
        assert client.post(moved.url, json={"p": "p=0.2"}).status_code == 200
    assert len(other.seen) == 1


def always(status: int, body: Any, **headers: str) -> Callable[[str, str], None]:
    def refuse(path: str, raw: str) -> None:
        raise RefusedError(status, headers, body)

    return refuse


def error(text: str, kind: str = "invalid_request_error", code: str | None = None) -> Any:
    inner = {"message": text, "type": kind, "code": code}
    return {"type": "error", "message": text, "error": inner}


@pytest.mark.parametrize("provider", MODELS)
@pytest.mark.parametrize(
    ("status", "body", "kind", "says"),
    [
        (401, error("wrong key"), ModelError, "answered HTTP 401 .*is the key .*accepted"),
        (403, error("may not"), ModelError, "answered HTTP 403 .*is the key .*accepted"),
        (404, error("no model", "not_found_error"), ModelError, "HTTP 404.*name of the model"),
        (400, error("prompt is too long: 9 tokens > 8 maximum"), None, "longer than the model"),
        (500, error("server error", "server_error"), None, "HTTP 500"),
        (400, error("not this"), None, "HTTP 400"),
        (200, {"strange": True}, None, "without|no answer that can be used|HTTP 500"),
    ],
)
def test_what_a_provider_refuses_is_explained_in_words_of_our_own(
    provider: str,
    status: int,
    body: Any,
    kind: type[Exception] | None,
    says: str,
    serve: Callable[..., Provider],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(transport, "FIRST_FAIL", 40)
    stated_body = json.loads(json.dumps(body).replace("not this", f"not SECRET with {KEY}"))
    serve(provider, always(status, stated_body))
    with pytest.raises(kind or transport.RefusedError, match=says) as caught:
        ask(provider)
    told = f"{caught.value}{caplog.text}"
    assert KEY not in told and "SECRET" not in told


@pytest.mark.parametrize("provider", MODELS)
def test_a_rate_limit_is_waited_for_as_long_as_it_asks(
    provider: str, serve: Callable[..., Provider]
) -> None:
    from calibrail.models.llm.providers import ProviderTransport

    body = {"model": MODELS[provider], "messages": [{"role": "user", "content": "x"}]}
    serve(provider, always(429, error("slow", "rate_limit_error"), **{"retry-after": "7"}))
    with pytest.raises(transport.AgainError) as caught:
        ProviderTransport(provider).send("chat", body, 5.0)
    assert caught.value.wait == 7.0


def test_a_filter_is_a_refusal(serve: Callable[..., Provider]) -> None:
    serve("azure", always(400, error(FILTER, code="content_filter")))
    assert ask("azure").refusal
    serve("anthropic").refuse = lambda path, raw: None
    SHAPES["refusing"] = lambda text, p, finish: anthropic("", p, "refusal")
    serve("refusing")
    assert ask("anthropic").refusal


@pytest.mark.parametrize("provider", ["openai", "azure"])
@pytest.mark.parametrize("fields", [{}, {"effort": "low", "max_tokens": 4096}])
def test_a_model_without_chat_completions_answers_by_the_responses_api(
    provider: str, fields: dict[str, Any], serve: Callable[..., Provider]
) -> None:
    says = "This model is only supported in v1/responses and not in v1/chat/completions."

    def refuse(path: str, raw: str) -> None:
        if "chat/completions" in path:
            raise RefusedError(404, {}, {"error": {"message": says, "param": "model"}})

    server = serve(provider, refuse)
    assert ask(provider, **fields).text == "faithful"
    assert "/responses" in server.seen[-1][0]
    sent = json.loads(server.seen[-1][1])
    assert (sent.get("reasoning") or {}).get("effort") == fields.get("effort")


def test_no_key_is_in_what_is_kept_and_two_accounts_share_no_answers(
    serve: Callable[..., Provider], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "answers.sqlite"
    with limit_calls(CallLimits(cache=path)):
        for _ in range(2):
            server = serve("azure")
            from calibrail.models.batching import shared_models

            shared_models.cache_clear()
            score = build("auto", None, MODELS["azure"])
            score.score(examples(3))
            assert len(server.seen) == 3
            # Frozen, it is the same judge.
            again = Judge(**score.pinned().params)  # type: ignore[arg-type]
            assert again.score(examples(3)).reasons == {} and len(server.seen) == 3
    rows = sqlite3.connect(path).execute("SELECT endpoint, model FROM answers").fetchall()
    assert set(rows) == {("azure", "azure/my-deployment")} and len(rows) == 6
    assert KEY not in caplog.text and KEY.encode() not in path.read_bytes()
    assert "answer p=" not in caplog.text


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("nosuch/model", "no provider that litellm knows.*base_url"),
        ("huggingface/https://evil.example/x", "no address; use base_url"),
    ],
)
def test_what_names_no_provider_ends_the_run(model: str, says: str, keys: None) -> None:
    with pytest.raises(ModelError, match=says):
        Judge(model=model).score(examples(1))
