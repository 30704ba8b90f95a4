"""In which ways is a file damaged?"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final

#: What editors, exporters and broken programs leave in the middle of a text.
_PIECES: Final[tuple[bytes, ...]] = (
    *(b"\x00", b"\n", b"\r", b"\r\n", b'"', b"'", b",", b"\t", b"\\", b"{", b"}", b"[", b"]"),
    *(b"\xef\xbb\xbf", b"\xff\xfe", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xe2\x80\xa8"),
    *(b"\\ud800", b"\\udfff\\ud800", b"\\u0000", b"NaN", b"-Infinity", b"1e999", b"null", b"true"),
    *(b'{"a": ', b'"label": 7, ', b'"id": [], ', b"9" * 30, b"9" * 5000, b"-0.0", b"0x1F"),
    *(b"[" * 300, b"[" * 2000, b"[" * 100_000, b'{"a":' * 990, b"(" * 200, b"x" * 70_000),
)


def _oddities() -> tuple[Any, ...]:
    nested: Any = 1
    for _ in range(900):
        nested = [nested]
    half: Any = {}
    for _ in range(150):
        half = {"a": half}
    return (
        *(None, True, 0, 1, 2, -1, 0.5, 10**30, -(10**400), 1e308, float("nan"), float("inf")),
        *("", " ", "\x00", "\ud800", "0", "1.0", "yes", "x" * 5000, "[1]", '["a"]', "[" * 500),
        *([], {}, [[]], [None], [1, "a"], ["a", ["b"]], {"": None}, {"text": "a"}, nested, half),
    )


_ODD: Final = _oddities()


def damage(raw: bytes, rng: random.Random, *, text: bool) -> bytes:
    """Return the bytes with one to four changes of any kind."""
    kinds = _TEXT if text else _BINARY
    for _ in range(rng.choice((1, 1, 2, 4))):
        raw = rng.choice(kinds)(raw, rng)
    return raw


def odd_values(raw: bytes, rng: random.Random) -> bytes:
    """Return JSON, or JSON lines, with a few values replaced by others of any type."""
    try:
        whole = json.loads(raw)
    except (ValueError, RecursionError):
        lines = raw.split(b"\n")
        spot = rng.randrange(len(lines))
        try:
            value = json.loads(lines[spot])
        except (ValueError, RecursionError):
            return raw
        lines[spot] = _dumped(_replaced(value, rng))
        return b"\n".join(lines)
    return _dumped(_replaced(whole, rng))


def _dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _replaced(value: Any, rng: random.Random) -> Any:
    """Return the value with one part of it, at any depth, replaced, removed or renamed."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        action = rng.random()
        if action < 0.1:
            return {k: v for k, v in value.items() if k != key}
        if action < 0.2:
            return value | {rng.choice(("x", "", "label", "id", "\ud800")): rng.choice(_ODD)}
        return value | {key: _replaced(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        spot = rng.randrange(len(value))
        return [*value[:spot], _replaced(value[spot], rng), *value[spot + 1 :]]
    return rng.choice(_ODD)


def _flip(raw: bytes, rng: random.Random) -> bytes:
    if not raw:
        return raw
    spot = rng.randrange(len(raw))
    return raw[:spot] + bytes([raw[spot] ^ 1 << rng.randrange(8)]) + raw[spot + 1 :]


def _flip_late(raw: bytes, rng: random.Random) -> bytes:
    """Flip a bit where Parquet keeps its schema and its offsets."""
    if len(raw) < 9:
        return raw
    spot = max(0, len(raw) - 9 - int(rng.expovariate(1 / 600)))
    return raw[:spot] + bytes([raw[spot] ^ 1 << rng.randrange(8)]) + raw[spot + 1 :]


def _overwrite(raw: bytes, rng: random.Random) -> bytes:
    spot, size = rng.randrange(len(raw) + 1), rng.randrange(1, 9)
    return raw[:spot] + rng.choice((rng.randbytes(size), b"\xff" * size)) + raw[spot + size :]


def _insert(raw: bytes, rng: random.Random) -> bytes:
    spot = rng.randrange(len(raw) + 1)
    return raw[:spot] + rng.choice(_PIECES) + raw[spot:]


def _cut(raw: bytes, rng: random.Random) -> bytes:
    return raw[: rng.randrange(len(raw) + 1)]


def _delete(raw: bytes, rng: random.Random) -> bytes:
    spot = rng.randrange(len(raw) + 1)
    return raw[:spot] + raw[spot + int(rng.expovariate(1 / 40)) :]


def _repeat(raw: bytes, rng: random.Random) -> bytes:
    spot = rng.randrange(len(raw) + 1)
    end = spot + int(rng.expovariate(1 / 80))
    return raw[:end] + raw[spot:]


def _encode(raw: bytes, rng: random.Random) -> bytes:
    """Return a text in another encoding."""
    text = raw.decode("utf-8", "replace")
    return text.encode(rng.choice(("utf-16", "utf-8-sig", "cp1252", "utf-32")), "replace")


_BINARY: Final[tuple[Callable[[bytes, random.Random], bytes], ...]] = (
    *(_flip, _flip, _flip_late, _flip_late, _flip_late),
    *(_overwrite, _insert, _cut, _delete, _repeat),
)
_TEXT: Final[tuple[Callable[[bytes, random.Random], bytes], ...]] = (
    *(_flip, _overwrite, _insert, _insert, _cut, _delete, _repeat, _encode),
    *(odd_values, odd_values, odd_values, odd_values),
)
