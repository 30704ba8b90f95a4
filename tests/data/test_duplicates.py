"""Are near-duplicates across splits found, and only those?"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from calibrail.data.duplicates import (
    N_HASHES,
    Sketcher,
    Sketches,
    cross_split_duplicates,
    normalise,
)
from calibrail.data.example import Example

WORDS = np.array([f"word{i}" for i in range(5000)])


def _sketch(texts: Iterable[str]) -> Sketches:
    sketcher = Sketcher()
    for text in texts:
        question, _, response = text.partition("|")
        sketcher.add(Example(question=question, response=response))
    return sketcher.finish()


def _random_texts(n: int, words: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return ["|" + " ".join(rng.choice(WORDS, words)) for _ in range(n)]


def _jaccard(one: str, two: str) -> float:
    pairs = []
    for text in (one, two):
        words = [*normalise(text).split(), "\x00"]
        pairs.append(set(pairwise(words)))
    return len(pairs[0] & pairs[1]) / len(pairs[0] | pairs[1])


def test_the_estimate_is_unbiased_with_the_error_that_its_size_implies() -> None:
    rng = np.random.default_rng(1)
    texts, truth = [], []
    for text in _random_texts(400, 40, 2):
        words = text.split()
        for place in rng.choice(40, int(rng.integers(0, 9)), replace=False):
            words[place] = f"|changed{place}" if place == 0 else f"changed{place}"
        texts += [text, " ".join(words)]
        truth.append(_jaccard(texts[-2], texts[-1]))
    minhash = _sketch(texts).minhash
    estimate = (minhash[::2] == minhash[1::2]).mean(axis=1)
    exact = np.array(truth)
    error = np.sqrt(exact * (1 - exact) / N_HASHES)
    assert abs((estimate - exact).sum()) < 5 * np.sqrt((error**2).sum())
    assert (abs(estimate - exact) <= 5 * error + 1e-12).all()


def test_identical_after_normalisation_is_always_found() -> None:
    texts = ["Who?|Ada  Lovelace.", "who|ada lovelace", "?|x", "!|X!", "q|other", "|", "|"]
    codes = np.array([1, 2, 1, 2, 1, 1, 2], dtype=np.int8)
    names = list("abcdefg")
    duplicates = cross_split_duplicates(_sketch(texts), codes, names, ids=names)
    assert (duplicates.count, duplicates.exact) == (4, 4)
    assert (duplicates.n_groups, duplicates.n) == (4, 5)
    assert set(duplicates.pairs) == {(0, 1), (2, 3)}
    assert set(duplicates.names) == {("a", "b"), ("c", "d")}
    written = json.loads(json.dumps(duplicates.to_dict()))
    assert written["pairs"] == [list(pair) for pair in duplicates.names]
    bare = cross_split_duplicates(_sketch(texts), codes, np.arange(7) // 2)
    assert (bare.n_groups, bare.names) == (2, ())
    assert bare.to_dict()["pairs"] == [list(pair) for pair in bare.pairs]


def test_the_same_side_is_no_leak() -> None:
    texts = _random_texts(5, 30, 3) * 2
    duplicates = cross_split_duplicates(_sketch(texts), np.ones(10, dtype=np.int8))
    assert (duplicates.count, duplicates.exact, duplicates.pairs) == (0, 0, ())


def test_near_duplicates_are_found_and_strangers_are_not() -> None:
    originals = _random_texts(300, 60, 4)
    # One word of sixty changed: 59 of 63 distinct pairs stay, similarity about 0.94.
    changed = [
        text.rsplit(" ", 30)[0] + " changed " + text.split(" ", 31)[31] for text in originals
    ]
    assert min(map(_jaccard, originals, changed)) > 0.9
    strangers = _random_texts(300, 60, 5)
    sketches = _sketch([*originals, *changed, *strangers])
    codes = np.repeat([1, 2, 2], 300).astype(np.int8)
    groups = [str(i // 2) for i in range(900)]
    duplicates = cross_split_duplicates(sketches, codes, groups)
    assert (duplicates.count, duplicates.exact, duplicates.n_groups) == (600, 0, 300)
    assert len(duplicates.pairs) == 10
    assert all(right == left + 300 for left, right in duplicates.pairs)


def test_a_crowd_from_one_template_is_seen_in_bounded_time() -> None:
    texts = [f"|{' '.join(WORDS[:60])} number {i}" for i in range(1000)]
    codes = (np.arange(1000) % 2 + 1).astype(np.int8)
    duplicates = cross_split_duplicates(_sketch(texts), codes)
    assert duplicates.count > 900


def test_batches_make_no_difference() -> None:
    texts = [*_random_texts(3000, 30, 6), "|" + " ".join(_random_texts(1, 80_000, 7)), "|one", "|"]
    whole = _sketch(texts)
    parts = [_sketch([text]) for text in texts[-5:]]
    assert (np.concatenate([p.minhash for p in parts[:-1]]) == whole.minhash[-5:-1]).all()
    assert [int(p.exact[0]) for p in parts] == whole.exact[-5:].tolist()
    assert whole.exact[-1] == 0
    assert len(_sketch([])) == 0


def test_nothing_holds_no_duplicates() -> None:
    empty = cross_split_duplicates(_sketch([]), np.zeros(0, dtype=np.int8))
    assert (empty.count, empty.n) == (0, 0)
