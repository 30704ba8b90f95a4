from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from calibrail.text import lcs_length


def textbook(left: list[int], right: list[int]) -> int:
    row = [0] * (len(right) + 1)
    for item in left:
        previous = row
        row = [0]
        for index, other in enumerate(right):
            row.append(
                previous[index] + 1 if item == other else max(previous[index + 1], row[index])
            )
    return row[-1]


sequences = st.lists(st.integers(0, 5), max_size=90)


@given(sequences, sequences)
def test_it_agrees_with_the_textbook(left: list[int], right: list[int]) -> None:
    assert lcs_length(left, right) == textbook(left, right) == lcs_length(right, left)


def test_ends_of_the_range() -> None:
    assert lcs_length([], ["a"]) == 0
    assert lcs_length(list("abc"), list("abc")) == 3
    assert lcs_length(list("abc"), list("xyz")) == 0


def test_twenty_thousand_words_are_within_reason() -> None:
    context = [f"w{index % 997}" for index in range(20_000)]
    started = time.perf_counter()
    assert lcs_length(context[:500], context) == 500
    assert time.perf_counter() - started < 5.0
