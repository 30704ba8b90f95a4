"""Which characters are marked, and is a span that leads nowhere refused?"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail.data.example import FieldError
from calibrail.data.spans import merged, place, read_spans

TEXT = "The red fox\nsaw  a red hen."


@pytest.mark.parametrize(
    ("value", "spans"),
    [
        (None, None),
        ("", None),
        ([], ()),
        ("[]", ()),
        ([[4, 7]], ((4, 7),)),
        (((4, 7),), ((4, 7),)),
        ([[4.0, 7.0, "red"]], ((4, 7),)),
        ('[{"start": 4, "end": 7, "text": "red", "label": "wrong"}]', ((4, 7),)),
        ([{"begin": 12, "end": 15}, {"start_offset": 4, "end_offset": 7}], ((4, 7), (12, 15))),
        # What overlaps, or touches, is one; what is white space alone is nothing.
        ([[4, 9], [7, 11], [11, 12], [15, 17]], ((4, 11),)),
        # Beside its text by white space only.
        ([{"start": 3, "end": 7, "text": "red"}], ((3, 7),)),
        ([{"start": 11, "end": 14, "text": "saw"}], ((12, 15),)),
        ([{"start": 12, "end": 17, "text": "saw a"}], ((12, 18),)),
    ],
)
def test_spans_are_read(value: Any, spans: Any) -> None:
    assert read_spans(value, TEXT) == spans


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("red", "wrong type"),
        (7, "wrong type"),
        ({"start": 4, "end": 7}, "wrong type"),
        (["red"], "wrong type"),
        ([[4]], "wrong type"),
        ([[4, "7"]], "wrong type"),
        ([[4.5, 7]], "wrong type"),
        ([[True, 7]], "wrong type"),
        ([{"start": 4}], "wrong type"),
        ([[float("nan"), 7]], "wrong type"),
        ([[7, 4]], "end before start"),
        ([[-1, 4]], "outside the response"),
        ([[4, 900]], "outside the response"),
        ([{"start": 4, "end": 7, "text": "hen"}], "text is not at its offsets"),
        # It stands there twice, so that nobody can tell which is meant.
        ([{"start": 5, "end": 8, "text": "red"}], "text is not at its offsets"),
        ([{"start": 4, "end": 7, "text": "dog"}], "text is not at its offsets"),
    ],
)
def test_what_leads_nowhere_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(FieldError, match=reason) as caught:
        read_spans(value, TEXT)
    assert caught.value.field == "spans"
    assert caught.value.remedy


def test_a_cell_that_is_no_list_is_named_as_it_stands() -> None:
    with pytest.raises(FieldError) as caught:
        read_spans("sentence two", TEXT)
    assert caught.value.value == "sentence two"


def test_a_text_far_from_its_offsets_is_no_matter_of_white_space() -> None:
    far = [{"start": 0, "end": 3, "text": "hen"}]
    with pytest.raises(FieldError, match="text is not at its offsets"):
        read_spans(far, "abc" * 30 + " hen")


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)).map(lambda p: (p[0], sum(p)))))
def test_merged_spans_cover_the_same_characters(spans: list[tuple[int, int]]) -> None:
    result = merged(spans)
    covered = {at for start, end in spans for at in range(start, end)}
    assert {at for start, end in result for at in range(start, end)} == covered
    assert all(a[1] < b[0] for a, b in pairwise(result))


def test_a_text_is_found_behind_a_place_whatever_its_white_space() -> None:
    assert place("red", TEXT) == (4, 7)
    assert place("red", TEXT, 5) == (19, 22)
    assert place("fox saw a", TEXT) == (8, 18)
    assert place("  ", TEXT) is None
