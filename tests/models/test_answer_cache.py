from __future__ import annotations

import base64
import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrail.models import embeddings
from calibrail.models.batching import shared_models
from calibrail.models.embeddings import load_encoder
from calibrail.models.llm.chat import AnswerCache, CacheError, ChatRequest, Source, load_llm
from calibrail.models.llm.transport import CallLimits, limit_calls
from tests.chat_server import ChatServer

WRITER = """
import sys, time
from pathlib import Path
from calibrail.models.llm.chat import AnswerCache, Source

path, name, first, last, shared = sys.argv[1:]
cache = AnswerCache(Path(path))
for i in range(int(first), int(last)):
    key = f"{i}" if shared == "shared" else f"{name}-{i}"
    source = Source("e", name, "chat")
    cache.put(key, {"by": name, "i": i}, source, 4, (1, 1))
    print(key, flush=True)
"""


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[AnswerCache]:
    opened = AnswerCache(tmp_path / "answers.sqlite")
    yield opened
    opened.close()


def put(cache: AnswerCache, key: str, value: Any = None, **more: Any) -> None:
    source = {"endpoint": "http://a/v1", "model": "m", "kind": "chat"}
    source |= {name: more[name] for name in source if name in more}
    tokens = more.get("tokens_in", 10), more.get("tokens_out", 1)
    text = {"text": key} if value is None else value
    cache.put(key, text, Source(**source), more.get("characters", 40), tokens)


def writer(path: Path, name: str, first: int, last: int, keys: str) -> subprocess.Popen[str]:
    arguments = [str(path), name, str(first), str(last), keys]
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("where", ["file", "memory"])
def test_a_value_comes_back_as_it_was(where: str, tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "deep" / "er" / "a.sqlite" if where == "file" else None)
    value = {"text": 'it\'s \ud83d "x" é\n\0', "n": None, "top": [["a", -0.1]], "big": 10**30}
    assert cache.get("k") is None
    put(cache, "k", value)
    assert cache.get("k") == value
    assert cache.get("K") is None
    cache.close()


def test_what_is_there_stays(cache: AnswerCache) -> None:
    put(cache, "k", {"text": "first"})
    put(cache, "k", {"text": "second"}, tokens_in=99)
    assert cache.get("k") == {"text": "first"}
    (kept,) = cache.contents()
    assert (kept.n, kept.tokens_in) == (1, 10)


def test_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "answers.sqlite"
    started = [writer(path, f"p{i}", 0, 150, "own" if i % 2 else "shared") for i in range(4)]
    for process in started:
        out, err = process.communicate(timeout=50)
        assert process.returncode == 0, err
        assert len(out.split()) == 150
    cache = AnswerCache(path)
    counts = {kept.model: kept.n for kept in cache.contents()}
    assert counts["p1"] == counts["p3"] == 150
    assert counts.get("p0", 0) + counts.get("p2", 0) == 150
    for i in range(150):
        value = cache.get(f"{i}")
        assert value is not None
        assert value["i"] == i
    cache.close()


def test_a_new_file_is_opened_by_many_at_once(tmp_path: Path) -> None:
    ready = threading.Barrier(8)

    def open_one(round_: int) -> None:
        ready.wait()
        opened = AnswerCache(tmp_path / f"{round_}.sqlite")
        put(opened, "k")
        opened.close()

    with ThreadPoolExecutor(8) as pool:
        for round_ in range(10):
            list(pool.map(open_one, [round_] * 8))


def test_a_killed_process_loses_nothing_that_it_kept(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    process = writer(path, "p", 0, 10**6, "own")
    assert process.stdout is not None
    printed = [process.stdout.readline().strip() for _ in range(100)]
    os.kill(process.pid, signal.SIGKILL)
    # Not communicate(), which would pass over what was read ahead.
    rest = process.stdout.read()
    process.wait()
    whole = rest.rpartition("\n")[0].split("\n") if "\n" in rest else []
    cache = AnswerCache(path)
    for i, key in enumerate([*printed, *whole]):
        assert cache.get(key) == {"by": "p", "i": i}
    put(cache, "after")
    assert cache.get("after") == {"text": "after"}
    cache.close()


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_explained(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    path.write_bytes(content)
    with pytest.raises(CacheError, match="CALIBRAIL_CACHE") as caught:
        AnswerCache(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content


def test_another_layout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(CacheError, match=r"layout 7, this one is 1\); remove the file"):
        AnswerCache(path)


def test_a_broken_value_is_explained(cache: AnswerCache) -> None:
    put(cache, "k")
    assert cache.path is not None
    with sqlite3.connect(cache.path) as connection:
        connection.execute("UPDATE answers SET value = substr(value, 1, 4)")
    connection.close()
    with pytest.raises(CacheError, match="cannot be used"):
        cache.get("k")


DAMAGED: dict[str, Any] = {
    **{"list": [], "object": {}, "null": None, "text": "x", "number": 1e400, "deep": "[" * 100_000},
    **{"unknown field": {"more": 1}, "positions": {"positions": [[]]}},
    **{"no text": {"text": 5}, "served": {"served": []}, "tokens": {"tokens_in": 2**1100}},
    "token": {"positions": [{"token": 1, "logprob": -1.0, "top": []}]},
    "top": {"positions": [{"token": "a", "logprob": -1.0, "top": [["a"]]}]},
}


@pytest.mark.parametrize("kind", DAMAGED)
@pytest.mark.parametrize("field", ["text", "vector"])
def test_what_was_put_into_the_file_is_looked_at(kind: str, field: str, tmp_path: Path) -> None:
    value, path = DAMAGED[kind], tmp_path / "answers.sqlite"
    with ChatServer() as server, limit_calls(CallLimits(cache=path)):

        def ask() -> Any:
            shared_models.cache_clear()
            if field == "text":
                return load_llm("m", server.url).answers([ChatRequest((("user", "p=0.2"),))])
            return load_encoder(f"openai:m@{server.url}").sentences(["a text"])

        first = ask()
        with closing(sqlite3.connect(path)) as connection:
            good = json.loads(connection.execute("SELECT value FROM answers").fetchone()[0])
        if isinstance(value, dict) and value:
            value = {**good, **value} if field == "text" else {**good, "more": 1}
        text = value if kind == "deep" else json.dumps(value)

        def write(text: str) -> None:
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("UPDATE answers SET value = ?", (text,))

        write(text)
        with pytest.raises(CacheError, match=r"an answer that it keeps cannot .*CALIBRAIL_CACHE"):
            ask()
        write(json.dumps(good))
        assert str(ask()) == str(first)
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    "vector", [[math.nan, 1.0], [math.inf, 1.0], [0.0, 0.0], [], b"abc", "\u00e9", 5]
)
def test_a_kept_vector_is_of_finite_numbers(vector: Any) -> None:
    raw = np.array(vector, "<f4").tobytes() if isinstance(vector, list) else vector
    kept = base64.b64encode(raw).decode() if isinstance(raw, bytes) else raw
    cache = AnswerCache(None)
    put(cache, "k", {"vector": kept, "cut": False, "tokens": 3})
    with pytest.raises(CacheError, match="an answer that it keeps cannot be read"):
        cache.get("k", embeddings._kept)
    cache.close()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("created", value) for value in (math.inf, -1e300, "x", b"x")),
        *(("tokens_in", value) for value in (math.inf, "x")),
        *(("characters", 1e-300), ("characters", "x"), ("model", b"m"), ("endpoint", b"\x00")),
    ],
)
def test_what_is_summed_of_a_file_is_a_number_and_a_day(
    cache: AnswerCache, column: str, value: Any
) -> None:
    put(cache, "k")
    assert cache.path is not None
    with closing(sqlite3.connect(cache.path)) as connection, connection:
        connection.execute(f"UPDATE answers SET {column} = ?", (value,))
    (kept,) = cache.contents()
    assert json.loads(json.dumps(kept.to_dict(), allow_nan=False))["n"] == 1
    for moment in (kept.oldest, kept.newest):
        assert datetime.fromtimestamp(moment, UTC).year >= 1970
    rate = cache.tokens_per_character(Source("http://a/v1", "m", "chat"))
    assert rate is None or 0.0 <= rate < 1e6


def test_contents_are_summed_by_model(cache: AnswerCache) -> None:
    before = time.time()
    put(cache, "1", tokens_in=3, tokens_out=None)
    put(cache, "2", tokens_in=None, tokens_out=5)
    put(cache, "3", model="n", kind="embedding")
    put(cache, "4", endpoint="http://b/v1")
    first, second, third = cache.contents()
    assert (first.endpoint, first.model, first.kind, first.n) == ("http://a/v1", "m", "chat", 2)
    assert (first.tokens_in, first.tokens_out) == (3, 5)
    assert before <= first.oldest <= first.newest <= time.time()
    assert (second.model, second.kind, second.n) == ("n", "embedding", 1)
    assert third.endpoint == "http://b/v1"
    assert json.dumps(first.to_dict())


def test_tokens_per_character(cache: AnswerCache) -> None:
    assert cache.tokens_per_character(Source("http://a/v1", "m", "chat")) is None
    put(cache, "uncounted", tokens_in=None, characters=1000)
    assert cache.tokens_per_character(Source("http://a/v1", "m", "chat")) is None
    put(cache, "1", tokens_in=10, characters=40)
    put(cache, "2", tokens_in=20, characters=60)
    put(cache, "3", tokens_in=999, characters=1, model="n")
    assert cache.tokens_per_character(Source("http://a/v1", "m", "chat")) == pytest.approx(0.3)


def test_clear_by_model_and_age(cache: AnswerCache) -> None:
    for i in range(6):
        put(cache, f"{i}", model="old" if i < 4 else "new")
    assert cache.path is not None
    with sqlite3.connect(cache.path) as connection:
        connection.execute("UPDATE answers SET created = created - 10 * 86400 WHERE key < '3'")
    connection.close()
    assert cache.clear("nobody") == 0
    assert cache.clear(older_than=11) == 0
    assert cache.clear("new", 9) == 0
    assert cache.clear("old", 9) == 3
    assert cache.get("2") is None
    assert cache.get("3") is not None
    assert cache.clear("new") == 2
    assert cache.clear() == 1
    assert cache.contents() == []
