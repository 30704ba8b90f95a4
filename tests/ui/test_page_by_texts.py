"""Does the page show any text on any screen, and does none of them do anything?"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.ui.driven import Tab
from tests.ui.sessions import HOSTILE, labels, plain
from tests.ui.visits import ID, STATUS, VIEW, label, opened, quiet, serving, where


@pytest.mark.parametrize(("width", "phone"), [(390, True), (640, False), (1200, False)])
def test_hostile_texts_do_nothing_and_nothing_scrolls_sideways(
    tmp_path: Path, tab: Tab, width: int, phone: bool
) -> None:
    with serving(tmp_path, HOSTILE) as address:
        tab.size(width, 844, phone=phone)
        opened(tab, address)
        seen = []
        for n in range(1, len(HOSTILE) + 1):
            seen.append(tab.ask("document.getElementById('response').textContent"))
            assert tab.ask("document.documentElement.scrollWidth <= innerWidth")
            for selector in ("iframe", "script:not([src])", "#task a", "#task img", "#task style"):
                assert tab.ask(f"document.querySelectorAll({selector!r}).length") == 0
            tab.press("e")
            tab.press("m")
            tab.press(" ")
            time.sleep(0.15)
            tab.press("h")
            said = "document.getElementById('progress').textContent"
            tab.until(f"{said}.startsWith('ada · {n} labelled')")
        # Letter for letter, so that places stay.
        assert {len(text) for text in seen} == {len(row["response"]) for row in HOSTILE}
        assert not any(set("\x00\u202e\u200b\u2028") & set(text) for text in seen)
        assert quiet(tab, address)


def test_a_phone_has_everything_under_the_thumb(tmp_path: Path, tab: Tab) -> None:
    with serving(tmp_path, plain(3)) as address:
        tab.size(390, 844, phone=True)
        opened(tab, address)
        boxes = tab.ask(
            "[...document.querySelectorAll('#actions button')].filter((b) => !b.hidden).map((b) => "
            "(({left, right, top, bottom}) => [left, right, top, bottom])"
            "(b.getBoundingClientRect()))"
        )
        assert len(boxes) == 4
        for left, right, top, bottom in boxes:
            assert 0 <= left < right <= 390 and bottom - top >= 44 and bottom <= 844
        # Words are marked by a tap each, and neighbours are one place.
        tab.ask("document.getElementById('mark').click()")
        assert "Tap the words" in tab.ask("document.getElementById('mark-hint').textContent")
        for word in ("Ships", "have", "Roman"):
            tab.click(*tab.ask(where(word)))
        first = tab.ask(ID)
        tab.ask("document.querySelector('.hallucinated').click()")
        tab.until(f"{ID} !== {first!r}")
        (kept,) = labels(tmp_path)
        assert kept["label"] == 1
        assert [text for _, _, text in kept["spans"]] == ["Ships have", "Roman"]


def test_a_long_answer_says_that_it_goes_on(tmp_path: Path, tab: Tab) -> None:
    tab.size(390, 844, phone=True)
    rows = [dict(row, response=row["response"] + "\n\nAnother paragraph." * 30) for row in plain(2)]
    with serving(tmp_path, rows) as address:
        opened(tab, address)
        more = "document.getElementById('more')"
        tab.until(f"!{more}.hidden && document.getElementById('response').matches('.more')")
        before = tab.ask("document.getElementById('response').scrollTop")
        tab.ask(f"{more}.click()")
        tab.until(f"document.getElementById('response').scrollTop > {before}")
        tab.ask("document.getElementById('response').scrollTop = 1e6")
        tab.until(f"{more}.hidden && !document.getElementById('response').matches('.more')")
        name = tab.ask("document.getElementById('progress').textContent")
        assert name.startswith("ada · 0 labelled")
        label(tab, tmp_path, "f", 1)
        # A phone has no keys to name.
        assert tab.ask(STATUS) == "No. 1 saved as faithful. Undo takes it back."


def test_code_and_tables_line_up(tmp_path: Path, tab: Tab) -> None:
    code = ["```py\nx = {'a': 1}\n```", "`y`", "| a | b |\n|---|---|\n| 1 | 2 |", "    z = 3"]
    table = "left | right\n-----|------\n1    | 2"
    prose = "Some words, 3 < 4 | 5."
    text = "\n\n".join([prose, *code, table, "More `words that never end."])
    rows = [dict(plain(1)[0], response=text, contexts=[text])]
    with serving(tmp_path, rows) as address:
        opened(tab, address)
        told = tab.ask(
            "[...document.querySelectorAll('.code')].map((e) => "
            "[e.textContent, getComputedStyle(e).fontFamily.includes('monospace')])"
        )
        found = "".join(text for text, _ in told[: len(told) // 2])
        assert all(mono for _, mono in told) and len(told) == 2 * (len(code) + 1)
        assert all(part in found for part in [*code, table])
        assert "words" not in found
        assert tab.ask("document.getElementById('response').textContent") == text
        # A line of nothing but dashes, or of bars, costs no time.
        tab.ask(
            """import('/text.js').then(({ TextView }) => {
              const long = ['a|b\\n' + '-'.repeat(4e5) + 'x', '|'.repeat(4e5), '`'.repeat(4e5)];
              for (const text of long) new TextView(document.createElement('div')).set(text);
            })"""
        )


def test_what_hallucinated_means_stands_beside_the_buttons(tmp_path: Path, tab: Tab) -> None:
    with serving(tmp_path, plain(2)) as address:
        for width in (390, 1200):
            tab.size(width, 844, phone=width == 390)
            opened(tab, address) if width == 390 else tab.reload()
            tab.until(VIEW, "task")
            rule = "document.getElementById('rule')"
            assert "no support" in tab.ask(f"{rule}.textContent")
            assert tab.ask(f"{rule}.getBoundingClientRect().height") < 30
            assert tab.ask(f"{rule}.getBoundingClientRect().bottom <= innerHeight")


def test_everything_that_is_pressed_has_a_name(tmp_path: Path, tab: Tab) -> None:
    with serving(tmp_path, plain(1, chunks=12)) as address:
        opened(tab, address)
        roles = tab.roles()
        pressed = [name for role, name in roles if role in ("button", "checkbox")]
        assert "" not in pressed
        assert {"Faithful f", "Hallucinated h", "Unsure u", "Skip s", "Chunk 12"} <= set(pressed)
        assert ("status", "") in roles and ("main", "") in roles
        assert {"Question", "Answer", "Chunks"} <= {
            name for role, name in roles if role == "region"
        }
