from __future__ import annotations

import numpy as np
import pytest

from calibrail.models.store import VectorStore, text_key


def array(n: int) -> np.ndarray:
    return np.ones(n, dtype=np.float32)


def test_the_least_recently_used_array_goes_first() -> None:
    store = VectorStore(budget=3 * 40)
    for name in "abc":
        store.put(text_key(name), array(10))
    assert store.get(text_key("a")) is not None
    store.put(text_key("d"), array(10))
    assert store.get(text_key("b")) is None
    assert all(store.get(text_key(name)) is not None for name in "acd")


def test_the_newest_array_stays_even_beyond_the_budget() -> None:
    store = VectorStore(budget=8)
    store.put(b"1", array(1))
    store.put(b"2", array(100))
    assert store.get(b"1") is None
    assert len(store.get(b"2")) == 100


def test_replacing_an_array_frees_its_bytes() -> None:
    store = VectorStore(budget=100)
    for _ in range(50):
        store.put(b"1", array(10))
    store.put(b"2", array(10))
    assert store.get(b"1") is not None


def test_what_is_said_of_a_cut_text_goes_with_its_array() -> None:
    store = VectorStore(budget=40)
    store.put(b"1", array(10), cut=True)
    assert store.is_cut(b"1")
    store.put(b"2", array(10))
    assert not store.is_cut(b"1")
    store.put(b"2", array(10), cut=True)
    store.clear()
    assert not store.is_cut(b"2")
    assert store.get(b"2") is None


@pytest.mark.parametrize("text", ["", "a", "\ud800", "\u4e2d"])
def test_any_string_has_a_key(text: str) -> None:
    assert len(text_key(text)) == 16
    assert text_key(text) != text_key(text + " ")
