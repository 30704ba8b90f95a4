"""Does any text come out clean, short and marked where it was?"""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from reports import error, errors

from calibrail.report.document import AnswerCard, Text, all_blocks
from calibrail.report.documents.examples import error_examples
from calibrail.report.text import clean, excerpt, short

ANY = st.text(st.characters(), max_size=200)
LETTERS = st.text(st.sampled_from("ab \u05d0\u0645é\n"), max_size=200)
SPANS = st.lists(st.tuples(st.integers(-5, 250), st.integers(-5, 250)), max_size=5)
#: What a detector that nobody has seen could give as evidence.
WILD = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 99) | st.floats() | ANY,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    "kind",
                    "items",
                    "text",
                    "start",
                    "end",
                    "score",
                    "value",
                    "reason",
                    "evidence",
                    "quote",
                    "chunk",
                    "chunk_start",
                    "chunk_end",
                    "verdict",
                    "support",
                    "contradiction",
                )
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(ANY)
def test_clean_text_can_be_written_and_acts_on_nothing(text: str) -> None:
    found = clean(text)
    found.encode("utf-8")
    for letter in found:
        assert letter in "\n\t\u200c\u200d" or unicodedata.category(letter)[0] != "C"
    assert clean(found) == found


@given(LETTERS)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


@given(ANY, st.integers(4, 50))
def test_short_text_is_one_line(text: str, most: int) -> None:
    assert len(short(text, most)) <= most
    assert "\n" not in short(text, most)


@given(LETTERS, SPANS, st.integers(8, 250))
def test_an_excerpt_is_a_stretch_of_the_text(
    text: str, spans: list[tuple[int, int]], most: int
) -> None:
    segments, before, after = excerpt(text, spans, most)
    joined = "".join(piece for piece, _ in segments)
    assert joined in text and len(joined) <= most
    assert (before or text.startswith(joined)) and (after or text.endswith(joined))
    if len(text) <= most:
        assert joined == text
        covered = {i for a, b in spans for i in range(max(0, a), min(len(text), b))}
        marked, place = set(), 0
        for piece, is_marked in segments:
            marked |= set(range(place, place + len(piece))) if is_marked else set()
            place += len(piece)
        assert marked == covered


def test_the_first_mark_is_seen_whatever_the_length() -> None:
    text = "word " * 200_000
    segments, before, after = excerpt(text, [(500_000, 500_004)], 600)
    assert ("word", True) in segments and before and after
    assert sum(len(piece) for piece, _ in segments) <= 600


#: A report of a detector whose scores are shown as they are.
PLAIN: dict[str, object] = {"score": None, "warnings": []}


@given(WILD)
def test_any_evidence_has_a_view(evidence: object) -> None:
    content = error_examples(errors(misses=[error(evidence=evidence)]), PLAIN)
    card = next(block for block in all_blocks([content]) if isinstance(block, AnswerCard))
    assert [quote.about for quote in card.quotes] == ["Question", "Answer"]
    assert card.quotes[1].segments


def test_errors_without_texts_are_one_line() -> None:
    bare = error(question="", contexts=[], response="", evidence=None)
    content = error_examples(errors(misses=[bare], alarms=[bare], n_alarms=9), PLAIN)
    blocks = list(all_blocks([content]))
    assert not any(isinstance(block, AnswerCard) for block in blocks)
    lines = [block.text for block in blocks if isinstance(block, Text)]
    assert "1 among the answers tested: a-1." in lines
    assert any(line.startswith("9 among the answers tested; here is the one ") for line in lines)
