from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from calibrail.models import batching
from calibrail.models.classifiers import EntailmentModel
from calibrail.scores.grounding import Reranker


def test_the_least_recently_used_result_goes_first() -> None:
    store = batching.ResultStore[bytes](budget=3)
    for name in (b"a", b"b", b"c"):
        store.put(name, name)
    assert store.get(b"a") == b"a"
    store.put(b"d", b"d")
    assert store.get(b"b") is None
    assert [store.get(name) for name in (b"a", b"c", b"d")] == [b"a", b"c", b"d"]


def test_the_newest_result_stays_even_beyond_the_budget() -> None:
    store = batching.ResultStore[str](budget=8)
    store.put(b"1", "small", size=4)
    store.put(b"2", "large", size=400)
    assert (store.get(b"1"), store.get(b"2")) == (None, "large")


def test_a_look_does_not_count_as_use() -> None:
    store = batching.ResultStore[str](budget=2)
    store.put(b"1", "first")
    store.put(b"2", "second")
    assert store.peek(b"1") == "first"
    store.put(b"3", "third")
    assert store.peek(b"1") is None


def test_what_was_dropped_is_computed_again() -> None:
    store = batching.ResultStore[str](budget=1)
    computed = []

    def compute() -> None:
        computed.append(1)
        store.put(b"1", "again")

    assert store.get_or(b"1", compute) == store.get_or(b"1", compute) == "again"
    assert computed == [1]


def test_a_model_is_made_once_per_specification() -> None:
    assert batching.shared(batching.ResultStore, 7) is batching.shared(batching.ResultStore, 7)
    assert batching.shared(batching.ResultStore, 7) is not batching.shared(batching.ResultStore, 8)


def test_parameters_are_the_same_however_they_are_given() -> None:
    named = batching.shared(EntailmentModel, model="x/y", dtype="float32", revision=None)
    assert batching.shared(EntailmentModel, "x/y") is named
    assert batching.shared(EntailmentModel, "x/y", window=100) is not named
    assert batching.shared(Reranker, "x/y") is not named


def test_batches_hold_similar_lengths_within_the_limit() -> None:
    lengths = [int(n) for n in np.random.default_rng(0).integers(1, 600, 500)]
    found = list(batching.batches(lengths))
    assert sorted(index for batch in found for index in batch) == list(range(500))
    assert all(
        max(lengths[i] for i in batch) * len(batch) <= batching.BATCH_TOKENS for batch in found
    )
    assert sum(max(lengths[i] for i in b) * len(b) for b in found) < 1.1 * sum(lengths)
    assert list(batching.batches([2, 100, 90, 3, 80, 79, 9])) == [[1, 2, 4], [5], [6, 3, 0]]
    assert [len(b) for b in batching.batches([3, 3, 3], lambda length: 2)] == [2, 1]
    assert [len(b) for b in batching.batches([10**6, 10**6])] == [1, 1]
    assert list(batching.batches([])) == []


def test_blocks_keep_the_order_and_both_limits() -> None:
    words = ["one", "two", "threethree", "six", "x", "y", "z"]
    assert list(batching.blocks(words, len, 3, 6)) == [
        ["one", "two"],
        ["threethree"],
        ["six", "x", "y"],
        ["z"],
    ]
    assert list(batching.blocks([], len, 3, 6)) == []


def test_what_is_computed_apart_neither_knows_nor_tells() -> None:
    store, other = batching.ResultStore[int](10), batching.ResultStore[int](10)
    store.put(b"known", 1)
    with batching.isolated_cache():
        assert store.get(b"known") is None and store.peek(b"known") is None
        assert store.get_or(b"known", lambda: store.put(b"known", 2)) == 2
        assert other.get(b"known") is None
        store.put(b"further", 3)
        with batching.isolated_cache():
            assert store.get(b"further") is None
        assert store.get(b"further") == 3
        store.clear()
        assert store.get(b"further") is None
        with ThreadPoolExecutor(1) as pool:
            # Another thread is not apart.
            assert pool.submit(store.get, b"known").result() == 1
    assert store.get(b"known") == 1 and store.get(b"further") is None


def test_what_ran_together_alone_is_taken_up_by_the_same_inputs_together() -> None:
    store, run = batching.ResultStore[int](10), batching.run_key([b"one", b"two"])
    assert run not in (
        batching.run_key([b"two", b"one"]),
        batching.run_key([b"one"]),
        batching.text_key("one", "two"),
    )
    store.put(b"one", 0)
    store.note(run, [b"one"])
    # Results of other batches may have other digits.
    assert not store.repeat(run)
    with batching.single_input_batches():
        assert not store.repeat(run) and store.get(b"one") is None
        store.put(b"one", 1)
        store.put(b"two", 2)
        store.note(run, [b"one", b"two"])
    with batching.single_input_batches():
        assert store.get(b"one") is None
        assert not store.repeat(batching.run_key([b"one"]))
        assert store.repeat(run) and (store.get(b"one"), store.get(b"two")) == (1, 2)
        with batching.single_input_batches():
            assert store.get(b"one") is None and store.repeat(run) and store.get(b"one") == 1
        store.clear()
        assert store.get(b"one") is None and store.repeat(run)
    with batching.isolated_cache():
        assert not store.repeat(run)
        with batching.single_input_batches():
            assert not store.repeat(run)
            store.note(run, [])
    assert store.get(b"one") == 0
    with batching.single_input_batches():
        assert store.repeat(run) and store.get(b"two") == 2
    store.clear()
    with batching.single_input_batches():
        assert not store.repeat(run)
