"""Is what was removed seen in every medium, with colours and without, whatever the texts hold?"""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console
from trimmed import ANSWER, attacked, examples, trimmed

from calibrail.formatting import Scale
from calibrail.report import Document, print_document, render_markdown, render_page
from calibrail.report.document import AnswerCard, Struck, all_blocks
from calibrail.report.documents.examples import trimmed_examples


def page(content: dict[str, object], scale: Scale | None = None) -> str:
    return render_page(
        Document("report for", blocks=(trimmed_examples(content, scale or Scale()),))
    )


def struck(content: dict[str, object]) -> list[Struck]:
    blocks = all_blocks([trimmed_examples(content, Scale())])
    cards = [block for block in blocks if isinstance(block, AnswerCard)]
    return [quote for card in cards for quote in card.quotes if isinstance(quote, Struck)]


def printed(content: dict[str, object], **options: object) -> str:
    console = Console(file=io.StringIO(), width=80, **options)  # type: ignore[arg-type]
    document = Document("report for", blocks=struck(content))
    print_document(document, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def sentences(shown: str) -> list[tuple[str, str]]:
    """Return every judged sentence of a page: its title, and its markup."""
    return re.findall(r'<span class="sentence [a-z]*" title="([^"]*)">(.*?)</span>', shown)


def test_a_page_strikes_out_what_was_removed_and_says_whether_rightly() -> None:
    shown = sentences(page(examples(losses=[trimmed()])))[4:]  # after those of the legend
    told = [title for title, _ in shown]
    assert told == [
        "left, supported; score 0.2",
        "left, supported; score 0.21",
        "removed, though supported; score 0.72",
        "removed, unsupported; score 0.73",
        "left, though unsupported; score 0.24",
    ]
    # Beside its colour each of the three has a sign with a name, and a line of its own.
    assert "<del>However, no more.</del>" in shown[2][1] and ">\u2717</b>" in shown[2][1]
    assert (
        "<del><mark>Feed them fish oil</mark>.</del>" in shown[3][1] and ">\u2713<" in shown[3][1]
    )
    assert "<u><mark>It was found in 1880</mark>.</u>" in shown[4][1] and ">!</b>" in shown[4][1]
    assert all('role="img" aria-label="' in markup for _, markup in shown[2:])
    assert "<del>" not in shown[0][1] + shown[1][1]


def test_a_page_says_that_answers_are_shown_that_do_not_count() -> None:
    for clustered in (True, False):
        shown = trimmed_examples(examples(losses=[trimmed()]), Scale(), clustered=clustered)
        text = render_page(Document("report for", blocks=(shown,)))
        assert ("Answers that do not count above" in text) is clustered


def test_a_page_shows_what_is_released_or_why_nothing_is() -> None:
    shown = page(examples(freed=[trimmed()]))
    assert "Released in its place" in shown and "2. It was found in 1880.</blockquote>" in shown
    nothing = page(examples(emptied=[trimmed(fates=("with others",) + ("removed",) * 4, text="")]))
    assert "Nothing is released: every sentence was removed." in nothing
    assert "Released in its place" not in nothing and ">+</b><del>Three things" in nothing
    sent = page(examples(reviewed=[trimmed(outcome="review", why="leans", text=None)]))
    assert (
        "goes to review, since a sentence that would be left cannot do without one that would go."
        in sent
    )


def test_a_column_of_the_data_keeps_its_own_numbers_and_side() -> None:
    scale = Scale("support", negated=True)
    shown = page(examples(losses=[trimmed(threshold=-0.6)]), scale)
    assert "threshold 0.6" in shown
    assert "The number after each sentence is its support; sentences at most the" in shown


def test_a_terminal_says_in_words_what_it_strikes_out() -> None:
    content = examples(losses=[trimmed()], misses=[trimmed(id="b-2", place=4)])
    bare = printed(content, no_color=True)
    assert "\x1b" not in bare
    assert re.search(r"^removed, though supported +0\.72 +However, no more\.", bare, re.MULTILINE)
    assert re.search(r"^left, though unsupported +0\.24 +It was found in 1880", bare, re.MULTILINE)
    styled = printed(content, force_terminal=True, color_system="standard")
    found = re.search(r"\x1b\[([\d;]*)mHowever, no more\.", styled)
    assert found is not None and "9" in found[1].split(";")


def test_markdown_strikes_out_too() -> None:
    (block,) = struck(examples(losses=[trimmed()]))
    text = render_markdown(Document("decision of", blocks=(block,)))
    assert "- ~~Feed them fish oil.~~ (removed, unsupported, 0.73)" in text
    assert "- Give them 14 hours of light. (left, supported, 0.21)" in text


@pytest.mark.parametrize("place", [0, 499])
def test_a_long_answer_is_cut_around_the_sentence_that_it_is_shown_for(place: int) -> None:
    response = " ".join(f"Sentence {number} is here." for number in range(500))
    fates = tuple("removed" if number == place else "left" for number in range(500))
    item = trimmed(response, (0,) * 500, fates)
    shown = page(examples(losses=[item]))
    assert f"<del>Sentence {place} is here.</del>" in shown
    assert f"Shortened; {len(response):,} characters in all." in shown
    assert len(re.findall("is here", shown)) < 150
    assert ANSWER not in shown


def test_hostile_texts_are_text() -> None:
    shown = page(attacked())
    assert "<script>" not in shown and "<img" not in shown and "<svg" not in shown
    assert shown.count("<h1>") == 1 and "\u202e" not in shown and "\x1b" not in shown
    assert len(shown) < 2_000_000
    bare = printed(attacked(), no_color=True)
    assert "\x1b" not in bare and "\u202e" not in bare
