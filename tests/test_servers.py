"""The servers that other tests talk to do what they say, as the openai SDK sees it."""

from __future__ import annotations

import base64
import http.client
import json
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from tests.chat_server import (
    CHAT_FAULTS,
    FAULTS,
    ChatServer,
    Reply,
    always,
    key_of,
    sampled,
    scattered,
    script,
    verdicts,
)
from tests.served_models import LogprobServer, TransformersServe
from tests.tiny_models import WORDS

openai = pytest.importorskip("openai")

ASKED = [
    {"role": "system", "content": "You are a judge. Answer faithful or hallucination."},
    {"role": "user", "content": "Context: the Rhine flows north.\nAnswer: the Rhine flows."},
]


def connect(server: Any, **settings: Any) -> Any:
    settings = {"api_key": "key", "max_retries": 0, "timeout": 20.0, **settings}
    return openai.OpenAI(base_url=server.url, **settings)


def ask(client: Any, text: str | None = None, **settings: Any) -> Any:
    messages = ASKED if text is None else [{"role": "user", "content": text}]
    return client.chat.completions.create(**{"model": "judge", "messages": messages, **settings})


def post(server: Any, body: Any, path: str = "/chat/completions") -> tuple[int, Any]:
    """Send a body by plain HTTP; the status and the JSON (or the text) of the answer."""
    url = urlsplit(server.url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=20)
    try:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", url.path + path, raw, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        return answer.status, json.loads(text) if text.startswith("{") else text
    finally:
        connection.close()


# What the SDK raises, and the code that the error carries.
RAISED = {
    "429": ("RateLimitError", "rate_limit_exceeded"),
    "429_quota": ("RateLimitError", "insufficient_quota"),
    "500": ("InternalServerError", None),
    "503": ("InternalServerError", None),
    "401": ("AuthenticationError", "invalid_api_key"),
    "404": ("NotFoundError", "model_not_found"),
    "400": ("BadRequestError", None),
    # Exactly this class, which derives from APIConnectionError.
    "slow": ("APITimeoutError", None),
    "cut": ("APIConnectionError", None),
    "refused_line": ("APIConnectionError", None),
}


@pytest.mark.parametrize("fault", RAISED)
def test_a_fault_is_raised_as(fault: str) -> None:
    name, code = RAISED[fault]
    with ChatServer(faults=script(fault)) as server:
        client = connect(server, timeout=0.5 if fault == "slow" else 20.0)
        with pytest.raises(openai.APIError) as caught:
            ask(client)
        assert type(caught.value).__name__ == name
        assert caught.value.code == code
        if fault == "429":
            assert float(caught.value.response.headers["retry-after"]) == 0.05
        assert ask(client).choices[0].message.content == "faithful"
        assert [(seen.attempt, seen.fault) for seen in server.seen] == [(0, fault), (1, None)]


def test_a_broken_body_is_raised_as_what_json_raises() -> None:
    # Not an openai.APIError: the SDK leaves the parser's error as it is.
    with ChatServer(faults=always("invalid_json")) as server, pytest.raises(json.JSONDecodeError):
        ask(connect(server))


def test_a_page_is_returned_as_text() -> None:
    # The SDK returns a str where it promises a ChatCompletion.
    with ChatServer(faults=always("html")) as server:
        assert "<html>" in ask(connect(server))


def test_a_drip_never_pauses_for_long() -> None:
    # A time-out between bytes does not end it: the SDK's own, for one.
    with ChatServer(faults=always("drip")) as server:
        url = urlsplit(server.url)
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=1.0)
        body = json.dumps({"model": "m", "messages": ASKED})
        connection.request("POST", url.path + "/chat/completions", body)
        answer = connection.getresponse()
        assert answer.read(10) == b'{"id": "ch'
        assert int(answer.headers["Content-Length"]) * 0.05 > 15.0
        connection.close()


SHAPES: dict[str, Callable[[Any], bool]] = {
    "no_message": lambda choice: choice.message.content is None and not choice.message.refusal,
    "refusal": lambda choice: choice.message.content is None and bool(choice.message.refusal),
    "filtered": lambda choice: (
        (choice.finish_reason, choice.message.content) == ("content_filter", "")
    ),
    "length": lambda choice: (choice.finish_reason, choice.message.content) == ("length", ""),
    "no_logprobs": lambda choice: choice.logprobs is None,
    "wrong_logprobs": lambda choice: min(_logprobs(choice)) > 0,
    "nan_logprobs": lambda choice: (
        any(value is None for value in _logprobs(choice))
        and any(value is not None and math.isnan(value) for value in _logprobs(choice))
    ),
    "other_tokens": lambda choice: (
        "".join(one.token for one in choice.logprobs.content) != choice.message.content
    ),
}


def _logprobs(choice: Any) -> list[float | None]:
    listed = [one for entry in choice.logprobs.content for one in (entry, *entry.top_logprobs)]
    return [one.logprob for one in listed]


@pytest.mark.parametrize("fault", SHAPES)
def test_a_fault_is_returned_as(fault: str) -> None:
    with ChatServer(verdicts(lambda text: 0.2), faults=script(fault)) as server:
        client = connect(server)
        (choice,) = ask(client, logprobs=True, top_logprobs=3).choices
        assert SHAPES[fault](choice)
        (choice,) = ask(client, logprobs=True, top_logprobs=3).choices
        assert not SHAPES[fault](choice)


def test_no_choices() -> None:
    with ChatServer(faults=always("empty_choices")) as server:
        assert ask(connect(server)).choices == []


def test_every_fault_is_tried_here() -> None:
    elsewhere = {"invalid_json", "html", "drip", "empty_choices", "echoed", "swapped"}
    assert {*RAISED, *SHAPES, *elsewhere} == {*FAULTS, *CHAT_FAULTS}


def test_an_unknown_fault_is_an_error_of_the_test() -> None:
    with pytest.raises(ValueError, match="no fault 'typo'"), ChatServer(faults=always("typo")) as s:
        assert post(s, {"model": "judge", "messages": ASKED})[0] == 500


@pytest.mark.parametrize("p", [0.0, 0.03, 0.5, 0.8, 1.0])
def test_verdicts_carry_their_probability(p: float) -> None:
    with ChatServer(verdicts(lambda text: p if "Rhine" in text else math.nan)) as server:
        (choice,) = ask(connect(server), logprobs=True, top_logprobs=20).choices
    assert choice.message.content == ("hallucination" if p >= 0.5 else "faithful")
    assert "".join(one.token for one in choice.logprobs.content) == choice.message.content
    for entry in choice.logprobs.content:
        listed = {one.token: one.logprob for one in entry.top_logprobs}
        assert listed[entry.token] == entry.logprob
        assert sum(math.exp(value) for value in listed.values()) <= 1.0 + 1e-12
        assert all(first >= second for first, second in pairwise(listed.values()))
    first = {one.token: one.logprob for one in choice.logprobs.content[0].top_logprobs}
    hall, faith = math.exp(first["hall"]), math.exp(first["faith"])
    assert hall / (hall + faith) == pytest.approx(p)


def test_what_is_asked_for_is_what_is_listed() -> None:
    with ChatServer(verdicts(lambda text: 0.2)) as server:
        client = connect(server)
        assert ask(client).choices[0].logprobs is None
        (choice,) = ask(client, logprobs=True).choices
        assert [one.top_logprobs for one in choice.logprobs.content] == [[], []]
        (choice,) = ask(client, logprobs=True, top_logprobs=2).choices
        tokens = [one.token for one in choice.logprobs.content[0].top_logprobs]
        assert tokens == ["faith", "hall"]
        for wrong in ({"top_logprobs": 3}, {"logprobs": True, "top_logprobs": 21}):
            with pytest.raises(openai.BadRequestError) as caught:
                ask(client, **wrong)
            assert caught.value.param == "top_logprobs"
    with ChatServer(logprobs=False) as server:
        _, answer = post(server, {"model": "m", "messages": ASKED, "logprobs": True})
        assert "logprobs" not in answer["choices"][0]


def test_sampled_verdicts_follow_the_seed() -> None:
    with ChatServer(sampled(0.3)) as server:
        client = connect(server)

        def drawn(seed: int) -> list[str]:
            return [choice.message.content for choice in ask(client, seed=seed, n=8).choices]

        said = [verdict for seed in range(40) for verdict in drawn(seed)]
        assert drawn(7) == said[7 * 8 : 8 * 8]
    share = said.count("hallucination") / len(said)
    # 320 draws of a fixed hash: within four standard errors.
    assert abs(share - 0.3) < 4 * math.sqrt(0.3 * 0.7 / 320)


def test_requests_are_noted_and_counted() -> None:
    answer = Reply("yes", prompt_tokens=11, completion_tokens=2)
    with ChatServer(lambda body: answer, served="judge-2025") as server:
        client = connect(server)
        made = [ask(client, "a"), ask(client, "a"), ask(client, "b"), ask(client, "a", seed=1)]
        assert {(one.model, one.usage.total_tokens) for one in made} == {("judge-2025", 13)}
        assert client.models.list().data[0].id == "judge-2025"
        assert sorted(server.requests_per_key().values()) == [1, 1, 2]
        seen = server.seen[1]
        assert (seen.path, seen.attempt, seen.fault) == ("/v1/chat/completions", 1, None)
        assert seen.key == key_of(seen.body)
        assert seen.headers["authorization"] == "Bearer key"
        server.reset()
        ask(client, "a")
        assert [(one.attempt, one.key) for one in server.seen] == [(0, seen.key)]


def test_what_is_refused() -> None:
    with ChatServer(reject=("seed",), context=100, api_key="secret") as server:
        with pytest.raises(openai.AuthenticationError):
            ask(connect(server))
        client = connect(server, api_key="secret")
        with pytest.raises(openai.BadRequestError) as caught:
            ask(client, "a", seed=3)
        assert (caught.value.param, caught.value.code) == ("seed", "unsupported_parameter")
        with pytest.raises(openai.BadRequestError) as caught:
            ask(client, "a" * 101)
        assert caught.value.code == "context_length_exceeded"
        assert ask(client, "a" * 100).choices


def test_requests_at_once_and_clients_that_leave(capfd: pytest.CaptureFixture[str]) -> None:
    with ChatServer(latency=0.3) as server:
        client = connect(server)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda i: ask(client, str(i)), range(8)))
        # The latency outlasts what eight threads need to send.
        assert 2 <= server.max_in_flight <= 8
        server.reset()
        for i in range(3):
            with pytest.raises(openai.APITimeoutError):
                ask(connect(server, timeout=0.05), str(i))
        time.sleep(0.2)
        server.reset()
        ask(client)
        assert server.max_in_flight == 1
    with pytest.raises(openai.APIConnectionError):
        ask(client)
    assert capfd.readouterr().err == ""


def test_scattered_faults_have_their_rate() -> None:
    faults = scattered(0.2, "500", "cut")
    drawn = [faults(str(key), attempt) for key in range(500) for attempt in range(2)]
    assert drawn == [faults(str(key), attempt) for key in range(500) for attempt in range(2)]
    for name in ("500", "cut"):
        assert abs(drawn.count(name) / 1000 - 0.1) < 4 * math.sqrt(0.1 * 0.9 / 1000)


def test_embeddings() -> None:
    texts = ["the river flows", "the river flows north", "a bell rings"]
    with ChatServer() as server:
        client = connect(server)
        made = client.embeddings.create(model="e", input=texts, dimensions=64)
        vectors = np.array([one.embedding for one in made.data])
        # The SDK asks for base64 where it is told nothing, and decodes it.
        assert server.seen[-1].body["encoding_format"] == "base64"
        body = {"model": "e", "input": texts, "dimensions": 64}
        _, plain = post(server, {**body, "encoding_format": "float"}, "/embeddings")
        _, coded = post(server, {**body, "encoding_format": "base64"}, "/embeddings")
        assert post(server, {"model": "e", "input": ["a", ""]}, "/embeddings")[0] == 400
    assert np.array_equal(vectors, [one["embedding"] for one in plain["data"]])
    raw = [base64.b64decode(one["embedding"]) for one in coded["data"]]
    assert np.array_equal(vectors, [np.frombuffer(one, "<f4") for one in raw])
    near = vectors @ vectors.T
    assert vectors.shape == (3, 64)
    assert np.allclose(np.diag(near), 1.0)
    assert near[0, 1] > 0.6 > abs(near[0, 2])
    assert plain["usage"]["prompt_tokens"] > 0


def test_transformers_serve_answers_and_ignores_logprobs(
    transformers_serve: TransformersServe,
) -> None:
    client = connect(transformers_serve, timeout=60.0)
    settings = {"model": transformers_serve.model, "temperature": 0, "max_tokens": 8}
    answer = ask(client, **settings)
    assert answer.choices[0].message.content in ("hallucination", "faithful")
    assert answer.choices[0].finish_reason == "stop"
    # Two tokens and the end; the revision is appended to the name.
    assert answer.usage.completion_tokens == 3
    assert answer.model == f"{transformers_serve.model}@main"
    # A 200 without what was asked for, not an error.
    fields = {"logprobs": True, "top_logprobs": 5, "n": 3, "response_format": {"type": "text"}}
    ignored = ask(client, **settings, **fields)
    assert len(ignored.choices) == 1
    assert ignored.choices[0].logprobs is None
    assert ignored.choices[0].message.content == answer.choices[0].message.content
    # FastAPI's own form of error, not OpenAI's.
    status, error = post(transformers_serve, {"messages": ASKED, "top_k": 3})
    assert (status, list(error)) == (422, ["detail"])
    status, error = post(transformers_serve, {"messages": ASKED, "model": "another"})
    assert (status, list(error)) == (400, ["detail"])


def test_the_servers_of_one_model_agree(
    transformers_serve: TransformersServe, logprob_server: LogprobServer
) -> None:
    def verdict(server: Any, model: str, text: str) -> str:
        said: str = ask(connect(server), text, model=model, temperature=0, max_tokens=8)
        return said.choices[0].message.content

    texts = [f"{first} {second}" for first, second in product(WORDS[:4], WORDS[-4:])]
    served = [verdict(transformers_serve, transformers_serve.model, text) for text in texts]
    assert served == [verdict(logprob_server, "judge", text) for text in texts]
    assert set(served) == {"hallucination", "faithful"}


def test_logprobs_are_those_of_a_forward_pass(logprob_server: LogprobServer) -> None:
    import torch

    answer = ask(connect(logprob_server), temperature=0, logprobs=True, top_logprobs=20)
    (choice,) = answer.choices
    prompt = logprob_server.prompt(ASKED)
    tokenizer = logprob_server.tokenizer
    said = tokenizer(choice.message.content, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits = logprob_server.model(torch.cat([prompt, said], dim=1)).logits[0].double()
    expected = logits.log_softmax(-1)[prompt.shape[1] - 1 :]
    assert len(choice.logprobs.content) == said.shape[1]
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (
        prompt.shape[1],
        said.shape[1] + 1,
    )
    for entry, token, row in zip(choice.logprobs.content, said[0].tolist(), expected, strict=False):
        # The server reuses keys and values, here all positions are computed at once: float32.
        assert entry.logprob == pytest.approx(row[token].item(), abs=1e-3)
        listed = [one.logprob for one in entry.top_logprobs]
        assert listed == pytest.approx(row.topk(20).values.tolist(), abs=1e-3)
        assert sum(map(math.exp, listed)) <= 1.0 + 1e-12
        assert (entry.token, entry.logprob) == (entry.top_logprobs[0].token, listed[0])
    assert "".join(one.token for one in choice.logprobs.content) == choice.message.content


def test_the_tiny_model_gives_verdicts_that_vary_with_the_prompt(
    logprob_server: LogprobServer,
) -> None:
    client = connect(logprob_server)
    shares = []
    for i in range(12):
        text = f"Context: the old bell rings at noon. Answer: the bell number {i} rings."
        (choice,) = ask(client, text, temperature=0, logprobs=True, top_logprobs=5).choices
        assert choice.message.content in ("hallucination", "faithful")
        first = {one.token: one.logprob for one in choice.logprobs.content[0].top_logprobs}
        hall, faith = math.exp(first["hall"]), math.exp(first["faith"])
        assert hall + faith > 0.9
        shares.append(hall / (hall + faith))
    assert max(shares) - min(shares) > 0.3


def test_sampling_follows_the_seed_and_the_probabilities(logprob_server: LogprobServer) -> None:
    client = connect(logprob_server)
    settings = {"temperature": 1.0, "max_tokens": 1, "n": 200, "logprobs": True, "top_logprobs": 2}
    said = [ask(client, seed=seed, **settings) for seed in (5, 5, 6)]
    first, again, other = ([one.message.content for one in made.choices] for made in said)
    assert first == again != other
    listed = said[0].choices[0].logprobs.content[0].top_logprobs
    p = next(math.exp(one.logprob) for one in listed if one.token == "hall")
    share = [*first, *other].count("hall") / 400
    assert abs(share - p) < 4 * math.sqrt(p * (1 - p) / 400)
    assert {choice.finish_reason for choice in said[0].choices} == {"length"}


def test_the_logprob_server_refuses_what_it_does_not_honour(logprob_server: LogprobServer) -> None:
    client = connect(logprob_server)
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, response_format={"type": "json_object"})
    assert (caught.value.param, caught.value.code) == ("response_format", "unsupported_parameter")
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, "the river " * 3000)
    assert caught.value.code == "context_length_exceeded"


def test_a_server_that_does_not_start_is_told(chat_decoder: Path) -> None:
    server = TransformersServe(chat_decoder, patience=0.0)
    with pytest.raises(RuntimeError, match="transformers serve was not up after 0 s"), server:
        pass
    assert server._process.poll() is not None
