"""Are sentences the same, whichever way an answer comes in?"""

from hypothesis import given
from hypothesis import strategies as st

from calibrail.text.answer_sentences import SentenceStream, answer_sentences
from calibrail.text.sentences import Sentence

ANSWERS = st.lists(
    st.sampled_from(
        ["It rained", ". ", "\n", "- ", "1. ", "Dr. ", "! ", "no", "\r\n", " 3.5 ", "?"]
    )
).map("".join)


@given(ANSWERS, st.data())
def test_every_chunking_gives_the_same_sentences(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    stream = SentenceStream()
    found: list[Sentence] = []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        found += stream.feed(text[start:end])
    found += stream.close()
    assert found == answer_sentences(text)
    assert all(text[item.start : item.end] == item.text for item in found)


def test_a_sentence_is_given_when_the_next_word_is_over() -> None:
    stream = SentenceStream()
    assert stream.feed("It rained. The") == []
    assert [item.text for item in stream.feed(" ")] == ["It rained."]
