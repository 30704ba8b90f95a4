"""Are precision, recall and F1 those of the single characters, and do their intervals hold?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrail.data import Example
from calibrail.data.sentences import marked_characters, sentences_of
from calibrail.evaluation.sentence_removal import FEWEST, find_spans
from calibrail.report.messages import spell

NAMES = ("precision", "recall", "f1")


@st.composite
def answers(draw: st.DrawFn) -> tuple[list[Example], list[bool]]:
    """Return answers with marks anywhere, and which of their sentences are removed."""
    words = st.lists(st.sampled_from(["It", "rained", "A\tb.", "sun.\n", "-", "1."]), max_size=9)
    examples = []
    for number in range(draw(st.integers(1, 4))):
        text = " ".join(draw(words))
        spans, at = [], 0
        for gap, length in draw(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 6)))):
            start, end = at + gap, at + gap + length
            if end <= len(text):
                spans.append((start, end))
            at = end
        examples.append(Example(response=text, spans=tuple(spans), id=str(number)))
    n = sum(len(sentences_of(example)) for example in examples)
    return examples, draw(st.lists(st.booleans(), min_size=n, max_size=n))


def arrays(examples: list[Example], removed: list[bool]) -> dict[str, Any]:
    first, chars, marked, outside = [0], [], [], []
    for example in examples:
        found = sentences_of(example)
        counts = [marked_characters(example, item.start, item.end) for item in found]
        whole, _ = marked_characters(example, 0, len(example.response))
        marked += [count for count, _ in counts]
        chars += [count for _, count in counts]
        outside.append(whole - sum(count for count, _ in counts))
        first.append(len(chars))
    ints = {"first": first, "chars": chars, "marked": marked, "outside": outside}
    return {
        **{name: np.array(values, dtype=np.int64) for name, values in ints.items()},
        "removed": np.array(removed, dtype=np.bool_),
    }


def by_characters(examples: list[Example], removed: list[bool]) -> tuple[int, int, int]:
    """Return how many characters are removed and marked, removed, and marked, one by one."""
    both = gone = there = 0
    fate = iter(removed)
    for example in examples:
        of_sentences = [(item.start, item.end) for item in sentences_of(example) if next(fate)]
        for at, character in enumerate(example.response):
            if character.isspace():
                continue
            is_gone = any(start <= at < end for start, end in of_sentences)
            is_marked = any(start <= at < end for start, end in example.spans or ())
            both += is_gone and is_marked
            gone += is_gone
            there += is_marked
    return both, gone, there


@given(answers())
@settings(max_examples=200, deadline=None)
def test_every_character_counts_once_and_white_space_never(
    drawn: tuple[list[Example], list[bool]],
) -> None:
    examples, removed = drawn
    both, gone, there = by_characters(examples, removed)
    found = find_spans(**arrays(examples, removed), draws=2)
    assert found["characters"] == {"both": both, "removed": gone, "marked": there}
    expected = {
        "precision": both / gone if gone else None,
        "recall": both / there if there else None,
        "f1": 2 * both / (gone + there) if there else None,
    }
    for name in NAMES:
        assert found[name]["estimate"] == pytest.approx(expected[name])
        assert (found[name]["reason"] is None) <= (found[name]["estimate"] is not None)


def test_marks_outside_of_sentences_are_never_found() -> None:
    one = np.array([1], dtype=np.int64)
    first, everything = np.array([0, 1]), np.array([True])
    found = find_spans(first, 9 * one, 3 * one, 3 * one, everything, draws=2)
    assert (found["precision"]["estimate"], found["recall"]["estimate"]) == (3 / 9, 3 / 6)
    assert found["f1"]["estimate"] == 2 * 3 / (9 + 6)


def test_without_anything_to_find_there_is_a_reason() -> None:
    first, none = np.array([0, 1, 2]), np.array([False, False])
    zero = np.zeros(2, dtype=np.int64)
    found = find_spans(first, zero + 5, zero, zero, none)
    assert [found[name]["reason"] for name in NAMES] == [
        "nothing_removed",
        "nothing_marked",
        "nothing_marked",
    ]
    assert all(found[name]["estimate"] is None for name in NAMES)
    assert spell("nothing_marked") != "nothing_marked"
    # An answer may have no sentence at all.
    assert find_spans(np.array([0, 0]), zero[:0], zero[:0], zero[:1], none[:0])["answers"]["n"] == 1


def _drawn(rng: np.random.Generator, n: int, size: int = 1) -> dict[str, Any]:
    """Return n answers, ``size`` of them to a group, a third of which hold marks."""
    per = rng.integers(2, 8, n)
    first = np.concatenate(([0], np.cumsum(per)))
    answer = np.repeat(np.arange(n), per)
    group = np.arange(n) // size
    chars = rng.integers(30, 160, first[-1])
    unsupported = (rng.random(n) < 0.35)[answer] & (rng.random(first[-1]) < 0.4)
    marked = np.where(unsupported, chars * rng.choice([0.3, 0.7, 1.0], first[-1]), 0).astype(int)
    score = rng.normal(size=first[-1]) + 1.3 * unsupported + rng.normal(size=n)[group][answer]
    outside = np.zeros(n, dtype=np.int64)
    return {
        "first": first,
        "chars": chars,
        "marked": marked,
        "outside": outside,
        "removed": score >= 1.0,
        "groups": group,
    }


@pytest.mark.parametrize(("n", "size"), [(150, 1), (400, 4)])
def test_the_intervals_hold_the_truth(n: int, size: int) -> None:
    rng = np.random.default_rng(5)
    whole = _drawn(rng, 200_000, size)
    both = float((whole["marked"] * whole["removed"]).sum())
    gone = float((whole["chars"] * whole["removed"]).sum())
    there = float(whole["marked"].sum())
    truth = {"precision": both / gone, "recall": both / there, "f1": 2 * both / (gone + there)}
    held, runs = dict.fromkeys(NAMES, 0), 300
    for seed in range(runs):
        found = find_spans(**_drawn(rng, n, size), draws=300, seed=seed)
        for name in NAMES:
            held[name] += found[name]["lower"] <= truth[name] <= found[name]["upper"]
    # Percentile intervals of a ratio fall short by up to 0.03 at such sizes.
    least = 0.92 - 4.0 * np.sqrt(0.92 * 0.08 / runs)
    assert min(held.values()) / runs > least, held


def test_groups_widen_and_seeds_repeat() -> None:
    rng = np.random.default_rng(2)
    drawn = _drawn(rng, 400, 8)
    together = find_spans(**drawn)
    alone = find_spans(**{**drawn, "groups": None})
    assert together == find_spans(**drawn)
    widths = [
        found["precision"]["upper"] - found["precision"]["lower"] for found in (alone, together)
    ]
    assert widths[0] < widths[1]
    assert alone["precision"]["estimate"] == together["precision"]["estimate"]


def test_few_answers_make_no_interval() -> None:
    drawn = _drawn(np.random.default_rng(3), 12)
    found = find_spans(**drawn)
    assert found["recall"]["estimate"] is not None
    assert found["recall"]["lower"] is None
    assert found["recall"]["reason"] == f"few_answers_marked:{FEWEST}"
    assert str(FEWEST) in spell(found["recall"]["reason"])
