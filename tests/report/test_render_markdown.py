from __future__ import annotations

import re

import pytest
from markdown_it import MarkdownIt

from calibrail.report import Document, render_markdown
from calibrail.report import document as parts
from calibrail.report.markdown import render_comment

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])

#: What would be markup, a list, a link or HTML if it were not escaped.
ACTIVE = (
    *("<script>alert(1)</script>", "[a](http://b.c)", "![a](b)", "`x`", "**b**", "_i_", "~~s~~"),
    *("# h", "- l", "+ l", "* l", "1. l", "2) l", "> q", "---", "***", "a | b", "&lt;b&gt;"),
    *("<http://b.c>", "\\*a\\*", "<!-- c -->", "==="),
    *("</details>", "</summary><b>", "thanks @team/all", "like #12", "GH-12", "!7"),
)


TAGS = (
    *("h1", "h2", "p", "ul", "li", "strong", "table", "thead", "tbody", "tr", "th", "td"),
    *("details", "summary", "pre", "code"),
)


def words(html: str) -> str:
    """Return the text of a page of paragraphs, as a reader sees it."""
    text = re.sub(rf"</?({'|'.join(TAGS)})[^>]*>|<!-- -->", "", html)
    for entity, letter in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        text = text.replace(entity, letter)
    return text


@pytest.mark.parametrize("text", ACTIVE)
def test_a_text_is_what_it_was_wherever_it_stands(text: str) -> None:
    table = parts.table("", ("A", parts.TableColumn(text)), [(text, parts.Cell("b", below=text))])
    document = Document(
        "of",
        subject=text,
        summary=text,
        blocks=(
            parts.Text(text),
            parts.Bullets("", [text, parts.Bullet(text, text)]),
            parts.Facts([(text, text)]),
            table,
            parts.section(text, parts.Text(text)),
            parts.folded(text, parts.Text(text)),
        ),
        footer="",
    )
    html = READER.render(render_markdown(document))
    tags = set(re.findall(r"<(\w+)", html))
    assert tags <= set(TAGS)
    assert words(html).count(text) == 15
    assert html.count("<details>") == html.count("</details>") == 1
    # What names somebody, or another pull request, is parted where it is seen, too.
    assert not re.search(r"@\w|[#!]\d|GH-\d", html)
    assert html.count("<tr>") == 2 and html.count("<td>") == 2 and html.count("<li>") == 3


def test_everything_of_a_page_that_is_text_stands_in_order() -> None:
    document = Document(
        "report for",
        subject="a detector",
        headline="Certified",
        verdict="certified",
        summary="It is so.",
        tiles=(parts.Tile("Caught", "91%", "88 to 94%", ">= 90%"),),
        blocks=(
            parts.section("Part", parts.folded("More", parts.Text("hidden")), parts.Text("")),
            parts.Text("terminal alone", where="terminal"),
            parts.Code("a ``` b\nc"),
            parts.section("Drawn alone", parts.Figure("figure", lambda _: "<svg/>")),
            parts.Figure("drawn", lambda _: "<svg/>", lines=["0%  100%", "  ├●┤"]),
        ),
        warnings=[parts.Bullet("careful", "Warned")],
        notes=["a note"],
        next_step="Look again: calibrail check g.json",
        reproduce={"command": "calibrail x", "versions": {"numpy": "2"}},
        data={"source": "file", "empty": None},
    )
    text = render_markdown(document)
    places = [
        text.index(part)
        for part in (
            "# calibrail report for a detector\n",
            "**Certified**",
            "It is so.",
            "| Caught | 91% | 88 to 94% | \\>= 90% |",
            "## Warnings\n\n- **Warned.** careful",
            "## Part\n\n<details>\n<summary>More</summary>\n\nhidden\n\n</details>\n",
            "````text\na ``` b\nc\n````",
            "```text\n0%  100%\n  ├●┤\n```",
            "## Notes\n\n- a note",
            "<summary>Reproduce</summary>",
            "- **versions.numpy:** 2",
            "<summary>Data</summary>\n\n- **source:** file",
            "Next: Look again:\n\n```text\ncalibrail check g.json\n```",
        )
    ]
    assert places == sorted(places)
    assert not re.search(r"terminal alone|svg|empty|Drawn alone", text)
    assert render_markdown(document) == text


def long_document() -> Document:
    table = parts.table("", ("A", "B"), [(f"row {i}", "x" * 40) for i in range(300)])
    text = parts.Text("word " * 50)
    return Document(
        "report for",
        headline="Rejected",
        verdict="rejected",
        summary="It is so.",
        warnings=["careful"],
        blocks=(
            parts.section("First", parts.Code("\n".join(["a line to copy"] * 30)), text),
            parts.folded("More", parts.folded("And more", table, text), text),
            parts.section("Last", text),
        ),
        next_step="Look again: calibrail check g.json",
        reproduce={"command": "calibrail x"},
    )


def test_a_comment_is_cut_where_nothing_is_torn() -> None:
    document = long_document()
    whole = render_markdown(document)
    for most in (*range(420, 2_500, 7), *range(len(whole) - 200, len(whole), 7)):
        text = render_comment(document, most)
        assert len(text) <= most
        left = re.search(r"\n\n\*The rest, ([\d,]+) lines?, is left out here", text)
        assert left is not None and int(left[1].replace(",", "")) > 0
        kept = text[: left.start()].removesuffix("</details>\n\n</details>").rstrip()
        kept = kept.removesuffix("</details>").rstrip()
        assert whole.startswith(kept)
        # No heading, fold or head of a table stands over nothing.
        assert not re.match(r"#|<details>|<summary>|\| -", kept.splitlines()[-1])
        assert text.count("<details>") == text.count("</details>") and text.count("```") % 2 == 0
        assert text.endswith("Every number on this page is in what --json prints.\n")
        assert "calibrail check g.json\n```" in text and "**Rejected**" in text
    assert render_comment(document, len(whole)) == whole


def test_a_long_document_fits_into_a_comment() -> None:
    document = Document("of", blocks=[parts.Bullets("Many", ["a finding " * 20] * 2_000)])
    assert len(render_markdown(document)) > 400_000
    assert 60_000 < len(render_comment(document)) < 65_536
