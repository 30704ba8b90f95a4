from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrail.data.example import Example
from calibrail.errors import InputError, ModelError
from calibrail.models.batching import isolated_cache, shared_models, text_key
from calibrail.models.embeddings import ApiEncoder, load_encoder, read_vectors
from calibrail.models.llm.transport import BudgetError, CallLimits, limit_calls
from calibrail.scores.registry import build, parse_spec
from tests.chat_server import WIDTH, ChatServer, Line, RefusedError, always, embed, script

pytestmark = pytest.mark.usefixtures("fresh_models", "quick_retries")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "answers.sqlite"


def load(server: ChatServer, prompt: str = "") -> ApiEncoder:
    found = load_encoder(f"openai:emb@{server.url}", prompt=prompt)
    assert isinstance(found, ApiEncoder)
    return found


class ShortReader(ChatServer):
    """Refuses a call with any text of more than ``limit`` characters, as models with a context."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def handle(self, line: Line) -> None:
        if any(len(text) > self.limit for text in line.json()["input"]):
            with self.lock:
                self.refused = getattr(self, "refused", 0) + 1
            raise RefusedError(
                400, "This model's maximum context length is 5.", code="context_length_exceeded"
            )
        super().handle(line)


def test_vectors_come_in_order_and_once() -> None:
    texts = [f"text number {i} of these" for i in range(150)]
    with ChatServer(latency=0.01) as server:
        model = load(server)
        found = model.sentences([*texts, texts[0]], normal=False)
        assert found.shape == (151, WIDTH)
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found[:150], [embed(text) for text in texts])
        np.testing.assert_array_equal(found[150], found[0])
        assert sorted(len(seen.body["input"]) for seen in server.seen) == [22, 64, 64]
        np.testing.assert_allclose(np.linalg.norm(model.sentences(texts), axis=1), 1.0)
        assert len(server.seen) == 3
        used = model.usage
        assert (used.n_answers, used.n_sent, used.n_cached, used.n_counted) == (150, 3, 0, 150)
        assert model.n_embedded == 150
        assert model.n_truncated == 0
        assert model.n_passes == 0
        assert model.sentences([]).shape == (0, 0)


def test_the_cache_serves_a_second_run(cache: Path) -> None:
    texts = [f"text {i}" for i in range(70)]
    with ChatServer() as server, limit_calls(CallLimits(cache=cache)):
        first = load(server)
        said = first.sentences(texts)
        shared_models.cache_clear()
        second = load(server)
        assert second is not first
        np.testing.assert_array_equal(second.sentences(texts), said)
        assert len(server.seen) == 2
        assert (second.usage.n_cached, second.usage.n_sent, second.n_embedded) == (70, 0, 70)
        assert second.usage.tokens_in == first.usage.tokens_in
        other = load(server, prompt="query: ")
        other.sentences(texts[:3])
        assert server.seen[-1].body["input"] == [f"query: {text}" for text in texts[:3]]


def test_what_is_embedded_apart_is_asked_for_once_and_kept_apart() -> None:
    texts = [f"text {i}" for i in range(70)]
    with ChatServer() as server:
        model = load(server)
        with isolated_cache():
            said = model.sentences(texts)
        assert (len(server.seen), model.usage.n_cached) == (2, 0)
        # Out of the cache: none is left in memory.
        np.testing.assert_array_equal(model.sentences(texts), said)
        assert (len(server.seen), model.usage.n_cached) == (2, 70)


def test_a_spent_budget_keeps_what_was_embedded(cache: Path) -> None:
    texts = [f"text {i}" for i in range(64 * 4)]
    with ChatServer() as server:
        with limit_calls(CallLimits(cache=cache, max_calls=2)), pytest.raises(BudgetError):
            load(server).sentences(texts)
        shared_models.cache_clear()
        with limit_calls(CallLimits(cache=cache, max_calls=2)):
            assert load(server).sentences(texts).shape == (256, WIDTH)
        assert len(server.seen) == 4
        assert set(server.requests_per_key().values()) == {1}


def test_a_long_text_is_cut_and_counted(cache: Path) -> None:
    long = " ".join(f"word{i}" for i in range(200))
    texts = ["short one", long, "short two", "short three"]
    with ShortReader(400) as server, limit_calls(CallLimits(cache=cache)):
        model = load(server)
        found = model.sentences(texts, normal=False)
        for row, text in ((0, "short one"), (2, "short two"), (3, "short three")):
            np.testing.assert_array_equal(found[row], embed(text))
        beginning = long
        while len(beginning) > 400:
            beginning = beginning[: len(beginning) // 2]
        np.testing.assert_array_equal(found[1], embed(beginning))
        assert model.n_truncated == 1
        # The key of the text, and of the rules by which it was cut to words.
        assert [key[:-1] for key in model.cut(texts)] == [text_key(long)]
        shared_models.cache_clear()
        again = load(server)
        np.testing.assert_array_equal(again.sentences(texts, normal=False), found)
        assert again.n_truncated == 1
        assert [key[:-1] for key in again.cut(texts)] == [text_key(long)]
        assert again.usage.n_sent == 0


def test_what_refuses_even_short_texts_is_an_error() -> None:
    with ShortReader(2) as server, pytest.raises(ModelError, match="even short texts"):
        load(server).sentences(["this is long"])


@pytest.mark.parametrize("fault", ["500", "empty_choices", "html", "invalid_json", "cut"])
def test_a_fault_is_asked_again_or_ends_in_a_reason(fault: str) -> None:
    with ChatServer(faults=script(fault)) as server:
        np.testing.assert_array_equal(load(server).sentences(["x"], normal=False), [embed("x")])
        assert len(server.seen) == 2
    with ChatServer(faults=always(fault)) as server, limit_calls(CallLimits(attempts=2)):
        with pytest.raises(ModelError, match=r"embedded not every text \(.*asked 2 times"):
            load(server).sentences(["x"])
        assert len(server.seen) == 2


def item(index: Any, *numbers: Any) -> dict[str, Any]:
    return {"index": index, "embedding": list(numbers)}


def test_vectors_are_sorted_by_their_index() -> None:
    vectors, tokens = read_vectors(
        {"data": [item(1, 0.0, 2.0), item(0, 1.0, 0.0)], "usage": {"prompt_tokens": 9}}, 2
    )
    assert [vector.tolist() for vector in vectors] == [[1.0, 0.0], [0.0, 2.0]]
    assert tokens == 9


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"data": [item(0, 1.0)]},
        {"data": [item(0, 1.0), item(1, 1.0), item(2, 1.0)]},
        {"data": [item(0, 1.0), item(1, 1.0, 2.0)]},
        {"data": [item(0), item(1)]},
        {"data": [item(0, 0.0), item(1, 1.0)]},
        {"data": [item(0, float("nan")), item(1, 1.0)]},
        {"data": [item(0, 1e39), item(1, 1.0)]},
        {"data": [item(0, "x"), item(1, 1.0)]},
        {"data": [item(0, 1.0), item("1", 1.0)]},
        {"data": [item(0, 1.0), item(0, 2.0)]},
        {"data": [{"embedding": [1.0]}, item(1, 1.0)]},
        {"data": [{"index": 0}, item(1, 1.0)]},
        {"data": [{"index": 0, "embedding": "AACAPw=="}, item(1, 1.0)]},
    ],
)
def test_what_is_no_answer_is_refused(body: Any) -> None:
    with pytest.raises(ValueError, match=r"^the endpoint answered with"):
        read_vectors(body, 2)


def test_another_model_under_the_same_name_is_noticed(cache: Path) -> None:
    class Narrow(ChatServer):
        def _embed(self, body: dict[str, Any], fault: str | None) -> dict[str, Any]:
            return super()._embed({**body, "dimensions": 8}, fault)

    with Narrow() as server, limit_calls(CallLimits(cache=cache)):
        load(server).sentences(["old"])
        shared_models.cache_clear()
        server.__class__ = ChatServer  # type: ignore[assignment]
        with pytest.raises(ModelError, match=r"of 8 numbers before.* cache clear --model emb"):
            load(server).sentences(["old", "new"])


def test_an_encoder_behind_an_endpoint_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    named = load_encoder("openai:emb@http://host/v1/")
    assert isinstance(named, ApiEncoder)
    assert (named.name, named.endpoint, named.model) == (
        "emb",
        "http://host/v1",
        "openai:emb@http://host/v1",
    )
    assert load_encoder(named.model) is named
    monkeypatch.setenv("OPENAI_BASE_URL", "http://host/v1")
    assert load_encoder("openai:emb") is named
    assert named.fingerprint() == {"model": "emb", "endpoint": "http://host/v1", "prompt": ""}
    for wrong in ("openai:", "openai:@http://host/v1"):
        with pytest.raises(InputError, match="openai:MODEL"):
            load_encoder(wrong)
    with pytest.raises(InputError, match="base_url"):
        load_encoder("openai:emb@host")
    with pytest.raises(InputError, match="not ours to choose"):
        load_encoder("openai:emb@http://host/v1", dtype="float16")


def test_words_have_no_vectors_there() -> None:
    with ChatServer() as server:
        score = build(parse_spec(f'tfg:model="openai:emb@{server.url}"'))
        with pytest.raises(InputError, match="vectors of whole texts only"):
            score.score([EXAMPLE])
        with pytest.raises(InputError, match="vectors of whole texts only"):
            load(server).words("text")
        assert server.seen == []


EXAMPLE = Example(
    "Where does the river rise?",
    ("The river rises in the Alps.", "It flows north to the sea."),
    "The river rises in the Alps near the lake.",
)


def angle(left: str, right: str) -> float:
    one, two = (embed(text).astype(np.float64) for text in (left, right))
    return float(np.arccos(one @ two / np.linalg.norm(one) / np.linalg.norm(two)))


def test_sgi_and_rad_are_those_of_the_vectors() -> None:
    with ChatServer() as server:
        spec = f'model="openai:emb@{server.url}"'
        sgi, rad = build(parse_spec(f"sgi:{spec}")), build(parse_spec(f"rad:{spec}"))
        response, context = EXAMPLE.response, "\n".join(EXAMPLE.contexts)
        expected = -angle(response, EXAMPLE.question) / (angle(response, context) + 1e-8)
        assert sgi.score([EXAMPLE]).values[0] == pytest.approx(expected, rel=1e-6)
        nearest = max(np.cos(angle(response, chunk)) for chunk in EXAMPLE.contexts)
        assert rad.score([EXAMPLE]).values[0] == pytest.approx(1 - nearest, abs=1e-6)
        sent = [text for seen in server.seen for text in seen.body["input"]]
        assert len(sent) == len(set(sent)) == 5
        again = build(parse_spec(f"sgi:{spec}"))
        assert again.params == sgi.params
        assert again.score([EXAMPLE]).values[0] == sgi.score([EXAMPLE]).values[0]
