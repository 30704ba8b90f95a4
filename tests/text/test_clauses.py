from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail.text.claims import clauses

WORDS = (
    'he|It|was|built|and|but|, and |, but |; | the |tower|is|if|that|(|)|"|\u201c|\u201d| |,|1853|'
)
WORDS += "although|not|only|passages|do not mention| There |will|'s|\n|\u2019t"
ragged = st.lists(st.sampled_from(WORDS.split("|")), max_size=40).map(" ".join)


def parts(sentence: str) -> list[str]:
    return [sentence[start:end] for start, end in clauses(sentence)]


@pytest.mark.parametrize(
    ("left", "joint", "right"),
    [
        ("It was built in 1853", ", and ", "its tower is 90 m high."),
        ("The lake is deep", ", but ", "the river is not deep."),
        ("The lake is deep", "; ", "the river is shallow."),
        ("The lake is deep", "; however, ", "rivers are shallow."),
        ("Ada is a diver", ", but ", "Grace was a pilot in those days."),
        ("He moved to Paris", ", and ", "he died there."),
        ("Paris is large", ", and ", "it\u2019s old."),
        ("Ada was born on May 30, 1943", ", but ", "her mother was born in 1921."),
        ("However, the lake is deep", ", and ", "the river isn't deep."),
        ("For example, the base can be wide", ", and ", "the height can be low."),
        ("The lake (it is old, and it is deep) is blue", ", and ", "the river is green."),
        ("The lake is deep (about 90 m, or 300 ft)", ", and ", "the river is wide."),
        ("There are two lakes", ", and ", "both of them are deep."),
        # An abstention is cut off whatever it follows, and needs no subject.
        ("Passage 3 names the lake", ", but ", "does not provide any details on it."),
        ("This text says that it is deep", ", although ", "the passages do not mention the depth."),
    ],
)
def test_main_clauses_are_split(left: str, joint: str, right: str) -> None:
    assert parts(left + joint + right) == [left, right]


@pytest.mark.parametrize(
    "sentence",
    [
        "He visited lakes, rivers, and the sea.",
        "It is known for lakes, rivers, and the sea is part of it.",
        "Lakes, rivers, and seas are wet.",
        "The city of Paris, which is old, and the city of Rome are large.",
        "He was born in Paris, and died in Rome.",
        "If the lake is deep, and the river is not, go home.",
        "He said the lake is deep, and the river is not.",
        "It is known that the lake is deep, and the river is shallow.",
        "It is not only a lake, but it is also a river.",
        "In winter, the lake is frozen, and the river is low.",
        "As the lake is deep, and the river is low, stay.",
        "The lake is deep, and rivers are wide.",
        "Things to do in the north, and the river is wide.",
        "Rub the potato, and the skin should come off.",
        "Rub the baked potato, and it will open.",
        'The sign "It is deep, and it is cold" is old.',
        "The sign \u201cIt is deep, and it is cold\u201d is old.",
        "The lake (it is deep, and it is cold) is old.",
        "Choose one that is safe, and make sure it is closed.",
        "The steps are: open the tap; close the door; rest.",
        "The lake is deep, although the river is not.",
        "The lake is deep.",
        "",
    ],
)
def test_in_doubt_nothing_is_split(sentence: str) -> None:
    assert parts(sentence) == [sentence]


def test_three_clauses() -> None:
    sentence = "The lake is deep, and the river is wide; it is old."
    assert parts(sentence) == ["The lake is deep", "the river is wide", "it is old."]


def test_a_very_long_sentence_stays_whole() -> None:
    sentence = "the lake is deep, and the river is wide, and " * 20_000
    assert parts(sentence) == [sentence]


@given(st.one_of(st.text(), ragged))
def test_offsets(sentence: str) -> None:
    spans = list(clauses(sentence))
    assert spans[0][0] == 0
    assert spans[-1][1] == len(sentence)
    for (start, end), (following, _) in pairwise(spans):
        assert start < end < following
        # What lies between holds no more than the words that join.
        assert len(sentence[end:following].split()) <= 12
