"""What is left of an answer is read as a careful editor would read it."""

import re
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from calibrail.text.removal import TrimmedAnswer, trim
from calibrail.text.sentences import Sentence, answer_sentences
from calibrail.text.structure import (
    broken_links,
    connective,
    inner_however,
    joins,
    ordinal_of,
    removed_with,
)
from tests.steps import grows_with
from tests.text.test_joins import anything


def without(text: str, *gone: int) -> TrimmedAnswer:
    sentences = answer_sentences(text)
    removed = [place in gone for place in range(len(sentences))]
    return trim(text, sentences, removed, joins(text, sentences))


@pytest.mark.parametrize(
    ("text", "gone", "left"),
    [
        # Lists, questions and introductions of other scripts.
        (
            "\u4f18\u70b9\uff1a\n1\u3001\u4eae\u3002\n2\u3001\u9ad8\u3002",
            [1],
            "\u4f18\u70b9\uff1a\n1\u3001\u9ad8\u3002",
        ),
        ("\u4f18\u70b9\uff1a\u4eae\u3002\u9ad8\u3002", [0], "\u9ad8\u3002"),
        ("\u65e7\uff1f\u662f\u3002\n\u9ad8\u3002", [1], "\u9ad8\u3002"),
        (
            "\u0642\u062f\u064a\u0645\u061f \u0646\u0639\u0645.\n\n\u0639\u0627\u0644.",
            [1],
            "\u0639\u0627\u0644.",
        ),
        (
            "\u0661. \u0642.\n\u0662. \u0646.\n\u0663. \u0639.",
            [1],
            "\u0661. \u0642.\n\u0662. \u0639.",
        ),
        # Connectives.
        ("It has arches. However, it is old.", [0], "It is old."),
        ("It has arches. However, it is old.", [1], "It has arches."),
        ("Yes. It has arches. However, it is old. Go.", [1], "Yes. It is old. Go."),
        ("It is. In addition, \u00e9t\u00e9 is warm.", [0], "\u00c9t\u00e9 is warm."),
        ("It is. Moreover, iPhones ring.", [0], "iPhones ring."),
        ("It is. Therefore, **the bridge** is old.", [0], "**The bridge** is old."),
        ('It is. However, "the bridge" is old.', [0], '"The bridge" is old.'),
        ("It is. Also `mean` works.", [0], "`mean` works."),
        ("It is. The bridge, however, is old.", [0], "The bridge is old."),
        ("It is. However, the bridge is old.", [], "It is. However, the bridge is old."),
        (
            "One is old. One is new.\n\nHowever, it is shut.",
            [1],
            "One is old.\n\nHowever, it is shut.",
        ),
        ("One is old. One is new.\n\nHowever, it is shut.", [0, 1], "It is shut."),
        ("- One.\n- Two.\n\nTherefore, it is.", [1], "- One.\n\nTherefore, it is."),
        ("It is. but then it closed.", [0], "it closed."),
        # Enumerations.
        ("First, hold. Second, wait. Third, go.", [1], "Hold. Go."),
        ("First, hold. Second, wait.", [0], "Wait."),
        ("First, hold. Second, wait.", [1], "Hold."),
        ("First, hold. It clicks. Second, wait.", [1], "First, hold. Second, wait."),
        ("On the one hand, it is old. On the other hand, it is dear.", [1], "It is old."),
        ("On the one hand, it is old. On the other hand, it is dear.", [0], "It is dear."),
        # Lists.
        ("- One.\n- Two.\n- Three.", [1], "- One.\n- Three."),
        ("1. One.\n2. Two.\n3. Three.\n", [0], "1. Two.\n2. Three.\n"),
        ("2) One.\n3) Two.\n4) Three.", [1], "2) One.\n3) Three."),
        ("1. One.\n1. Two.\n1. Three.", [1], "1. One.\n1. Three."),
        ("1. One.\n2. Two.\n3. Do step 2 again.", [0], "2. Two.\n3. Do step 2 again."),
        (
            "1. One.\n2. Two.\n\nMore.\n\n1. Three.\n2. Four.",
            [0],
            "1. Two.\n\nMore.\n\n1. Three.\n2. Four.",
        ),
        ("- One. More.\n- Two.", [0], "- More.\n- Two."),
        ("- One. More.\n- Two.", [1], "- One.\n- Two."),
        ("- A:\n  - One.\n  - Two.\n- B:\n  - Three.", [1, 2], "- B:\n  - Three."),
        ("1. A:\n   1. One.\n   2. Two.\n2. B.", [1], "1. A:\n   1. Two.\n2. B."),
        ("Two reasons:\n- One.\n- Two.\n\nGo.", [1, 2], "Go."),
        ("Two reasons:\n\n- One.\n- Two.\n\nGo.", [1], "Two reasons:\n\n- Two.\n\nGo."),
        ("Go.\n\nTwo reasons:\n- One.\n- Two.", [2, 3], "Go."),
        ("\u2022 One.\r\n\u2022 Two.\r\n\u2022 Three.", [1], "\u2022 One.\r\n\u2022 Three."),
        # Headings.
        ("# A\n\nOne.\n\n# B\n\nTwo.\n\n# C\n\nThree.", [3], "# A\n\nOne.\n\n# C\n\nThree."),
        ("# A\n\nOne.\n\n# B\n\nTwo.", [3], "# A\n\nOne."),
        ("**A**\n\nOne.\n\n**B**\n\nTwo.", [1], "**B**\n\nTwo."),
        ("A\n===\n\nOne.\n\nB\n---\n\nTwo.", [3], "A\n===\n\nOne."),
        # Spaces, blank lines, rules.
        ("One.  Two.  Three.", [1], "One.  Three."),
        ("One. Two.\tThree.", [0, 1], "Three."),
        ("One.\n\nTwo.\n\nThree.", [1], "One.\n\nThree."),
        ("One.\n\n\n\nTwo.\nThree.", [1], "One.\n\n\n\nThree."),
        ("One.\n\n---\n\nTwo.\n\n---\n\nThree.", [1], "One.\n\n---\n\nThree."),
        ("One.\n\n---\n\nTwo.\n", [1], "One.\n"),
        ("One.\n\n---\n\nTwo.", [0], "Two."),
        ("\n\nOne.\n\nTwo. \n", [0], "\n\nTwo. \n"),
        ("  One. Two.", [0], "  Two."),
        # Marks of Markdown and citations stay with their sentence.
        ("It rained. [1] It blew. [2] It snowed [3].", [1], "It rained. [1] It snowed [3]."),
        (
            "**One.** *Two.* [Three](http://a.example/b.html).",
            [1],
            "**One.** [Three](http://a.example/b.html).",
        ),
        ("> One. Two.\n> Three.", [0], "> Two.\n> Three."),
        ("> One.\n> Two.", [0], "> Two."),
        (
            "| a | b |\n|---|---|\n| c | d |\n| e | f |\n\nEnd.",
            [1],
            "| a | b |\n|---|---|\n| e | f |\n\nEnd.",
        ),
        ("| a | b |\n|---|---|\n| c | d |\n\nEnd.", [1], "End."),
        ("Run:\n\n```py\nx = 1\n\ny = 2\n```\n\nEnd.", [1, 2, 3], "End."),
        ("Start.\n\n```\nx = 1\n\n\ny = 2\n```\nEnd.", [0], "```\nx = 1\n\n\ny = 2\n```\nEnd."),
        # Questions.
        ("Is it open? It is. Is it old? It is.", [1], "Is it old? It is."),
        # Scripts without spaces between sentences.
        ("\u96e8\u3002\u98a8\u3002\u96ea\u3002", [1], "\u96e8\u3002\u96ea\u3002"),
        # What is not read, but touches a sentence.
        ("It rained \U0001f600. It blew. \U0001f600", [1], "It rained \U0001f600."),
    ],
)
def test_what_is_left(text: str, gone: list[int], left: str) -> None:
    trimmed = without(text, *gone)
    assert trimmed.review is None
    assert trimmed.text == left


@pytest.mark.parametrize(
    ("text", "gone", "why"),
    [
        ("One is old. The latter is new.", [0], "leans"),
        ("The first reason is cost. The second reason is time.", [0], "leans"),
        ("Is it open? Yes, daily.", [0], "leans"),
        ("- Fruit.\n  - An apple.\n- Bread.", [0], "leans"),
        ("You need:\n- flour\n- sugar", [0], "leans"),
        ("The following statements are myths:\n- It rained.\n- It shone.", [0], "leans"),
        (
            "No serious historian believes these claims:\n1. It rained.\n2. It shone.",
            [0, 1],
            "leans",
        ),
        ("| a | b |\n|---|---|\n| c | d |", [0], "leans"),
        ('It is about music. " The Bell" is a film. It is old.', [0], "together"),
        ('It is about music. " The Bell" is a film. It is old.', [1], "together"),
        ("Run it.\n```\nx = 1\ny = 2\n```", [1], "together"),
        ("He said \u201cOne. Two.\u201d Three.", [0], "together"),
        ("(One. Two.) Three.", [1], "together"),
        ("**One. Two.** Three.", [1], "together"),
    ],
)
def test_what_cannot_be_mended_goes_to_review(text: str, gone: list[int], why: str) -> None:
    trimmed = without(text, *gone)
    assert (trimmed.text, trimmed.review) == (None, why)


def test_what_goes_with_others_is_named() -> None:
    assert without("# A\nTwo reasons:\n- One.\n- Two.\n\n# B\nThree.", 2, 3).also_removed == (0, 1)
    assert without("Two reasons:\n- One.", 1) == ("", (0,), None)


@given(anything)
def test_nothing_removed_leaves_every_byte_and_all_removed_leaves_none(text: str) -> None:
    sentences = answer_sentences(text)
    found = joins(text, sentences)
    assert trim(text, sentences, [False] * len(sentences), found) == (text, (), None)
    if sentences:
        assert trim(text, sentences, [True] * len(sentences), found) == ("", (), None)


def mended(sentence: str) -> set[str]:
    """Return how a sentence that lost a connective may be written."""
    forms = {sentence}
    if (number := ordinal_of(sentence)) is not None:
        forms.add(sentence[number.length :])
    for form in list(forms):
        if place := inner_however(form):
            forms.add(form[: place[0]] + form[place[1] :])
    forms |= {form[connective(form) :] for form in forms}
    return {form.casefold() for form in forms}


@settings(max_examples=300)
@given(anything, st.integers(0, 2**25))
def test_what_is_left_are_the_sentences_that_stay_and_nothing_else(text: str, bits: int) -> None:
    sentences = answer_sentences(text)
    removed = np.array([bool(bits >> place & 1) for place in range(len(sentences))], dtype=bool)
    trimmed = trim(text, sentences, removed, joins(text, sentences))
    assume(trimmed.text is not None and removed.any())
    assert trimmed.text is not None
    gone = removed.copy()
    gone[list(trimmed.also_removed)] = True
    at = 0
    lowered = trimmed.text.casefold()
    for place, sentence in enumerate(sentences):
        if gone[place]:
            continue
        # Each stands behind the one before it, whole but for its connective.
        ends = [
            at + match.end()
            for form in mended(sentence.text)
            for match in re.finditer(re.escape(form), lowered[at:])
            # Between them there is nothing to read but the number or the mark of an item.
            if not re.search(r"[^\W_]", MARKS.sub("", lowered[at : at + match.start()]))
        ]
        assert ends, lowered[at:]
        at = min(ends)
    assert not re.search(r"[^\W_]", MARKS.sub("", lowered[at:]))


SENTENCES = ("It is old.", "It has arches.", "Go on foot.", "Is it open?", "It is, too, small.")
LEADS = ("", "", "However, ", "In addition, ", "First, ", "Second, ", "Also, ", "Therefore, ")
said = st.builds(str.__add__, st.sampled_from(LEADS), st.sampled_from(SENTENCES))
paragraphs = st.lists(said, min_size=1, max_size=4).map(" ".join)
listed = st.builds(
    lambda mark, items: "\n".join(
        mark.format(place + 1) + item for place, item in enumerate(items)
    ),
    st.sampled_from(["- ", "* ", "{}. ", "{}) "]),
    st.lists(st.one_of(paragraphs, st.just("")), min_size=1, max_size=3),
)
fenced = st.builds(
    lambda mark, lines: "\n".join([mark, *lines, mark[:3]]),
    st.sampled_from(["```", "```sh", "~~~"]),
    st.lists(st.sampled_from(["", "x = 5", "{", "run it.", "3"]), max_size=3),
)
OTHERS = (
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "|  |  |\n|--|--|\n|  |  |",
    "# Why",
    "A\n===",
    "---",
)
quoted = st.builds(str.__add__, st.sampled_from(["> ", ">", "Two reasons:\n"]), paragraphs)
blocks = st.one_of(paragraphs, paragraphs, listed, fenced, quoted, st.sampled_from(OTHERS))
laid_out = st.lists(st.tuples(blocks, st.sampled_from(["\n", "\n\n"])), max_size=5).map(
    lambda parts: "".join(block + between for block, between in parts)
)


@settings(max_examples=400, deadline=None)
@given(laid_out, st.integers(0, 2**25))
def test_every_layout_is_trimmed_and_loses_what_is_measured(text: str, bits: int) -> None:
    sentences = answer_sentences(text)
    removed = np.array([bool(bits >> place & 1) for place in range(len(sentences))], dtype=bool)
    found = joins(text, sentences)
    trimmed = trim(text, sentences, removed, found)
    # What reports count from the joins alone.
    gone = removed_with(found, removed)
    assert trimmed.also_removed == tuple(np.flatnonzero(gone & ~removed).tolist())
    assert (trimmed.text is None) is bool(gone.any() and broken_links(found, gone).any())
    if trimmed.text is None:
        return
    left = [item for item, lost in zip(sentences, gone, strict=True) if not lost]
    at, lowered = 0, trimmed.text.casefold()
    for item in left:
        places = [lowered.find(form, at) for form in mended(item.text)]
        assert max(places) >= 0, item.text
        at = min(place for place in places if place >= 0)
    # The fences that are left are those of the answer.
    assert trimmed.text.count("```") % 2 == text.count("```") % 2


@pytest.mark.parametrize(
    ("text", "gone", "left"),
    [
        ("One. However, it is.\n\n```\nx = 5\n```\n", [0], "It is.\n\n```\nx = 5\n```\n"),
        ("1. One.\n2. Also, two.\n\n~~~\n3\n~~~\n", [0], "1. Two.\n\n~~~\n3\n~~~\n"),
        ("1. One.\n\n```\nx = 5\n```\n2. Two.", [0], "```\nx = 5\n```\n1. Two."),
    ],
)
def test_lines_that_hold_no_sentence_stay_as_they_are(
    text: str, gone: list[int], left: str
) -> None:
    assert without(text, *gone).text == left


MARKS = re.compile(r"(?<!\w)\(?\w{1,3}[.)]|```\w*")
WORDS = ("alder", "birch", "cedar", "ebony", "elm", "hazel", "larch", "maple", "oak", "pine", "yew")


@given(st.randoms(use_true_random=False))
def test_no_word_of_a_removed_sentence_survives(random: Random) -> None:
    words = random.sample(WORDS, random.randint(2, 9))
    lead = ["- ", "1. ", "", "", "", "> ", "## ", "  - ", "However, ", "Second, "]
    ends = [". ", ".\n", ".\n\n", ":\n", "? ", ". [1] ", "!\n"]
    text = "".join(f"{random.choice(lead)}The {word} grows{random.choice(ends)}" for word in words)
    sentences = answer_sentences(text)
    removed = np.array([random.random() < 0.4 for _ in sentences], dtype=bool)
    trimmed = trim(text, sentences, removed, joins(text, sentences))
    assume(trimmed.text is not None)
    assert trimmed.text is not None
    gone = removed.copy()
    gone[list(trimmed.also_removed)] = True
    for place, sentence in enumerate(sentences):
        for word in words:
            if word in sentence.text:
                assert (word in trimmed.text) is not bool(gone[place]), trimmed.text
    lines = trimmed.text.splitlines()
    assert not any(re.fullmatch(r"\s*(?:[-*>#]+|\d+[.)])\s*", line) for line in lines)
    # What was trimmed is an answer like any other: nothing is left to do.
    again = answer_sentences(trimmed.text)
    nothing = [False] * len(again)
    assert trim(trimmed.text, again, nothing, joins(trimmed.text, again)).text == trimmed.text


def test_sentences_of_the_data_may_cross_lines_and_leave_gaps() -> None:
    text = "One goes\nover two lines. (aside) Two is short."
    places = [Sentence("", 0, 24), Sentence("", 33, 46)]
    found = joins(text, places)
    assert trim(text, places, [True, False], found).text == "Two is short."
    assert trim(text, places, [False, True], found).text == "One goes\nover two lines. (aside)"


@pytest.mark.parametrize("piece", ["One is. ", "1. One is.\n", "a:\n- b.\n", "# a\n\nOne.\n"])
def test_time_is_linear(piece: str) -> None:
    def made(n: int) -> tuple[object, ...]:
        text = piece * n
        sentences = answer_sentences(text)
        removed = [place % 3 == 0 for place in range(len(sentences))]
        return text, sentences, removed, joins(text, sentences)

    assert grows_with(lambda made: trim(*made), made)
