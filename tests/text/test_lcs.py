from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from calibrail.text.words import lcs_length
from tests.steps import steps


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


def test_a_step_compares_a_word_with_the_whole_of_the_shorter_text() -> None:
    context = [f"w{index % 97}" for index in range(5000)]
    assert lcs_length(context[:400], context) == 400
    few, many = (steps(lcs_length, context[:short], context) for short in (200, 400))
    assert many <= 1.1 * few
