from __future__ import annotations

import re

import pytest
from markdown_it import MarkdownIt

from calibrail.report import Document, render_markdown
from calibrail.report import blocks as parts

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])

#: What would be markup, a list, a link or HTML if it were not escaped.
ACTIVE = (
    *("<script>alert(1)</script>", "[a](http://b.c)", "![a](b)", "`x`", "**b**", "_i_", "~~s~~"),
    *("# h", "- l", "+ l", "* l", "1. l", "2) l", "> q", "---", "***", "a | b", "&lt;b&gt;"),
    *("<http://b.c>", "\\*a\\*", "<!-- c -->", "==="),
)


def words(html: str) -> str:
    """Return the text of a page of paragraphs, as a reader sees it."""
    text = re.sub(r"</?(p|strong|li|ul|td|th|tr|table|thead|tbody|h1|h2)[^>]*>", "", html)
    for entity, letter in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        text = text.replace(entity, letter)
    return text


@pytest.mark.parametrize("text", ACTIVE)
def test_a_text_is_what_it_was_wherever_it_stands(text: str) -> None:
    table = parts.Table("", parts.texts("A", text), [(text, parts.Cell("b", below=text))])
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
        ),
        footer="",
    )
    html = READER.render(render_markdown(document))
    tags = set(re.findall(r"<(\w+)", html))
    assert tags <= {"h1", "h2", "p", "ul", "li", "strong", "table", "thead", "tbody", "tr"} | {
        "th",
        "td",
    }
    assert words(html).count(text) == 13
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
            parts.Figure("figure", lambda _: "<svg/>"),
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
            "## Part\n\n### More\n\nhidden\n",
            "````text\na ``` b\nc\n````",
            "## Notes\n\n- a note",
            "Next: Look again:\n\n```text\ncalibrail check g.json\n```",
            "- **versions.numpy:** 2",
            "## Data\n\n- **source:** file",
        )
    ]
    assert places == sorted(places)
    assert not {"terminal alone", "svg", "empty"} & set(
        re.findall(r"terminal alone|svg|empty", text)
    )
    assert render_markdown(document) == text
