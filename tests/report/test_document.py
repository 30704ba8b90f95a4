"""Does each medium show the blocks that are its own, and none that say nothing?"""

from __future__ import annotations

import io
from dataclasses import replace
from functools import partial
from typing import Any

from rich.console import Console

from calibrail.report import Document, print_document, render_page
from calibrail.report.document import (
    Bullet,
    Bullets,
    Cell,
    Figure,
    Folded,
    Heading,
    Section,
    Table,
    TableColumn,
    Text,
    Tile,
    all_blocks,
    listing,
)
from calibrail.report.html import figure_files

SVG = '<svg viewBox="0 0 10 10" role="img" aria-label="a square"><path d="M 0 0 L 9 9 z"/></svg>\n'


def draw(calls: list[bool], narrow: bool = False) -> str:
    calls.append(narrow)
    return SVG


def said(document: Document, width: int = 80) -> str:
    stream = io.StringIO()
    print_document(document, Console(file=stream, width=width, no_color=True))
    return stream.getvalue()


def document(calls: list[bool], **changes: Any) -> Document:
    table = Table(
        "Scores",
        (
            TableColumn("Score"),
            TableColumn("Method", where="page"),
            TableColumn("Share caught", brief="Caught"),
        ),
        [("rad", "geometry", Cell("91%", below="88 to 94%")), Heading("Baselines")],
    )
    blocks = (
        None,
        Text(""),
        Text("only printed", where="terminal"),
        Text("only on the page", where="page"),
        Section("Empty", (Text(""), Bullets("Nothing", []))),
        Section("All scores", (table, Figure("square", partial(draw, calls), "A square."))),
        Folded("More", (Text("folded"),)),
        listing("Left out", ["a part: no texts"]),
    )
    content: dict[str, Any] = {"headline": "no winner", "blocks": blocks, **changes}
    return Document("comparison", **content)


def test_a_terminal_prints_what_is_its_own_and_draws_nothing() -> None:
    calls: list[bool] = []
    text = said(document(calls))
    assert "only printed" in text and "only on the page" not in text and "folded" not in text
    assert "Empty" not in text and "Nothing" not in text
    assert "Caught" in text and "Share caught" not in text and "geometry" not in text
    assert "88 to 94%" not in text and "Baselines" in text and "- a part: no texts" in text
    assert calls == []


def test_a_page_shows_what_is_its_own_and_each_picture_is_drawn_once_a_width() -> None:
    calls: list[bool] = []
    content = document(calls)
    page = render_page(content)
    assert page == render_page(content)
    assert "only printed" not in page and "only on the page" in page
    assert "<h2><bdi>Empty" not in page and "<summary>More</summary>" in page
    assert "Share caught" in page and "geometry" in page and "88 to 94%" in page
    assert list(figure_files(content)) == ["square"]
    assert sorted(calls) == [False, True]


def test_the_verdict_is_last_in_a_terminal_below_the_next_step_which_is_first_on_a_page() -> None:
    content = document(
        [],
        warnings=[Bullet("the classes are alike", "Alike")],
        notes=["a note"],
        next_step="calibrate again (--alpha)",
        tiles=[Tile("Caught", "91%", "88 to 94%", ">= 90%")],
        verdict="inconclusive",
    )
    lines = said(content).splitlines()
    next_step = lines.index("Next: calibrate again (--alpha)")
    assert lines.index("1 warning") < lines.index("Notes") < next_step
    assert lines[next_step + 1 :] == ["NO WINNER: Caught 91% (88 to 94%; required >= 90%)"]
    page = render_page(content)
    order = [page.index(part) for part in ("<b>Next:</b>", "required: ≥ 90%", "Warnings", "Notes")]
    assert order == sorted(order)
    assert '<span class="option">--alpha</span>' in page


def test_all_blocks_are_found_in_reading_order() -> None:
    kinds = [type(block).__name__ for block in all_blocks(document([]).blocks)]
    assert kinds[-4:] == ["Folded", "Text", "Section", "Bullets"]
    assert kinds.index("Table") < kinds.index("Figure")


def test_a_long_text_in_a_terminal_ends_in_what_it_comes_to() -> None:
    long = [Text(f"Line {number}.") for number in range(12)]
    finding = "Nothing fell."
    told = Document("shift of", headline=finding, blocks=long, next_step="Keep watching.")
    assert said(told).splitlines()[-1] == finding
    assert said(replace(told, blocks=long[:2])).splitlines()[-1] == "Next: Keep watching."
    assert said(replace(told, ends=False)).splitlines()[-1] == "Next: Keep watching."
    rates = [Tile("Caught", "91%", "88 to 94%"), Tile("False alarms", "7%")]
    assert said(replace(told, tiles=rates)).endswith("Caught 91% (88 to 94%); False alarms 7%\n")
    verdict = said(replace(told, tiles=rates, verdict="rejected")).splitlines()[-1]
    assert verdict == "NOTHING FELL: Caught 91% (88 to 94%); False alarms 7%"


def test_code_within_a_sentence_stands_in_no_backticks_on_a_page() -> None:
    said = "Run `calibrail label --per-day 20` first, `calibrail doctor` too."
    page = render_page(Document("x", summary=said, next_step=said))
    code = '<code>calibrail label <span class="option">--per-day 20</span></code>'
    assert (
        code in page
        and "<code>calibrail doctor</code>" in page
        and "`" not in page.split("<main")[1]
    )
