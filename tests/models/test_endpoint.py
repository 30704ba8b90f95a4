from __future__ import annotations

import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail.errors import CalibrailError, InputError, ModelError
from calibrail.models.llm.chat import ChatRequest, load_llm
from calibrail.models.llm.transport import OPENAI, is_trusted, key_for, resolve_endpoint
from calibrail.scores.judge import Judge

KEY = "sk-very-secret"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.mark.parametrize(
    ("given", "resolved"),
    [
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1//", "http://localhost:8000/v1"),
        (" https://host.example/a/b/ \n", "https://host.example/a/b"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_an_address_loses_its_last_slash(given: str, resolved: str) -> None:
    assert resolve_endpoint(given) == resolved
    assert resolve_endpoint(resolved) == resolved


def test_the_environment_names_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_endpoint(None) == OPENAI
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    assert resolve_endpoint(None) == OPENAI
    monkeypatch.setenv("OPENAI_BASE_URL", "http://models.example/v1/")
    assert resolve_endpoint(None) == "http://models.example/v1"
    assert resolve_endpoint("http://other.example/v1") == "http://other.example/v1"


@pytest.mark.parametrize(
    "given",
    [
        "",
        "localhost:8000",
        "ftp://host/v1",
        "http:///v1",
        "http://host:99999/v1",
        "http://[::1/v1",
        "http://a b/v1",
        "http://127.0.0.1\n.example/v1",
        "http://host\\@localhost/v1",
        8000,
    ],
)
def test_what_is_no_address_is_refused(given: object) -> None:
    with pytest.raises(InputError, match="base_url is no address"):
        resolve_endpoint(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        f"https://user:{KEY}@host/v1",
        f"https://host/v1?key={KEY}",
        f"https://host/v1#{KEY}",
        f"ftp://user:{KEY}@host",
        f"ftp://host#{KEY}",
        f"http://user:{KEY}@[::1/v1",
    ],
)
def test_secrets_in_an_address_are_refused_and_not_repeated(given: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve_endpoint(given)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "endpoint",
    [
        OPENAI,
        "http://localhost:8000/v1",
        "http://127.0.0.1:1/v1",
        "http://[::1]:8000/v1",
    ],
)
def test_openai_and_this_machine_may_see_the_key(endpoint: str) -> None:
    assert is_trusted(endpoint)
    assert key_for(endpoint) == KEY


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://models.example/v1",
        "https://api.openai.com.example/v1",
        "http://api.openai.com/v1",
        "http://localhost.example/v1",
        "http://10.0.0.1/v1",
        "http://0.0.0.0:8000/v1",
        "https://evil.example/https://api.openai.com/v1",
    ],
)
def test_another_address_sees_no_key(endpoint: str) -> None:
    assert not is_trusted(endpoint)
    assert key_for(endpoint) is None


def test_the_endpoint_of_the_environment_may_see_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://models.example/v1/")
    assert key_for("https://models.example/v1") == KEY
    assert key_for("https://models.example/v2") is None
    assert key_for("https://models.example:444/v1") is None


def test_openai_wants_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for empty in ("", " \n"):
        monkeypatch.setenv("OPENAI_API_KEY", empty)
        with pytest.raises(ModelError, match="OPENAI_API_KEY"):
            key_for(OPENAI)
        assert key_for("http://localhost/v1") is None


@pytest.mark.parametrize("held", [f"{KEY}\nX-More: 1", f"{KEY}é", f"{KEY}\t1"])
def test_what_no_header_can_hold_is_no_key(held: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", held)
    with pytest.raises(ModelError, match="OPENAI_API_KEY") as caught:
        key_for(OPENAI)
    assert KEY not in str(caught.value)
    assert key_for("https://models.example/v1") is None


@given(st.text(max_size=60) | st.from_regex(r"https?://[a-z@:/?#\[\]0-9.\\]{0,30}", fullmatch=True))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        endpoint = resolve_endpoint(text)
    except CalibrailError:
        return
    assert endpoint.lower().startswith(("http://", "https://"))
    assert resolve_endpoint(endpoint) == endpoint
    assert key_for(endpoint) in (None, KEY)


@pytest.mark.parametrize(
    ("base_url", "environment", "model", "resolved"),
    [
        (None, None, "anthropic/claude-haiku-5-5", "anthropic"),
        ("anthropic", None, "anthropic/claude-haiku-5-5", "anthropic"),
        ("anthropic", "http://localhost:8000/v1", "anthropic/claude-haiku-5-5", "anthropic"),
        (None, None, "bedrock/arn:aws:bedrock:us-east-1:1:inference-profile/x", "bedrock"),
        # Names with a slash at an endpoint of one's own are that endpoint's.
        ("http://localhost:8000/v1", None, "openai/gpt-oss-20b", "http://localhost:8000/v1"),
        (None, "http://localhost:8000/v1", "openai/gpt-oss-20b", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1", None, "meta-llama/Llama-4", "http://localhost:8000/v1"),
        # What can be no provider's name goes to OpenAI, as it always did.
        (None, None, "meta-llama/Llama-4", OPENAI),
        (None, None, "Qwen/Qwen4-8B", OPENAI),
        (None, None, "gpt-6-luna", OPENAI),
        (None, None, "/models/judge.gguf", OPENAI),
    ],
)
def test_a_provider_is_named_where_no_address_is(
    base_url: str | None,
    environment: str | None,
    model: str,
    resolved: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    if environment is not None:
        monkeypatch.setenv("OPENAI_BASE_URL", environment)
    assert resolve_endpoint(base_url, model) == resolved
    assert Judge(model=model, base_url=base_url).params["base_url"] == resolved


def test_a_provider_without_its_library_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr("os.environ", {**os.environ})
    with pytest.raises(ModelError, match=r"providers extra: pip install .*base_url"):
        load_llm("anthropic/claude-haiku-5-5").answers([ChatRequest((("user", "x"),))])
