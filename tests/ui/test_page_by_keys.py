"""Is a session done by keyboard alone, through undo, reload, a crash and a second tab?"""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from calibrail.options import Promise
from tests.ui.driven import Pipe, Tab
from tests.ui.sessions import EMOJI, labels, plain
from tests.ui.visits import ID, STATUS, VIEW, command, label, opened, quiet, serving


def test_thirty_labels_by_keys_alone_through_undo_reload_and_a_crash(
    tmp_path: Path, tab: Tab
) -> None:
    keys = "fhu" * 10
    meaning = {"f": 0, "h": 1, "u": None}
    with command(tmp_path, plain(40)) as (process, address):
        opened(tab, address)
        assert "token" not in tab.ask("location.href")
        for n, key in enumerate(keys[:12], start=1):
            label(tab, tmp_path, key, n)
        # Undo gives the answer back, with what was said of it; Enter keeps it.
        here = tab.ask(ID)
        tab.press("z")
        tab.until(f"{ID} !== {here!r}")
        assert len(labels(tmp_path)) == 11
        assert tab.ask("document.querySelector('[aria-pressed=true]').className") == "unsure"
        label(tab, tmp_path, "Enter", 12)
        assert tab.ask(ID) == here
        tab.reload()
        tab.until(f"{VIEW} === 'task' && {ID} === {here!r}")
        for n, key in enumerate(keys[12:20], start=13):
            label(tab, tmp_path, key, n)
        on_screen = tab.ask(ID)
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(0.15)
        tab.press("f")
        tab.until("document.getElementById('banner').textContent.includes('does not answer')")
        assert tab.ask(ID) == on_screen
        tab.console.clear()
    with command(tmp_path, None) as (process, address):
        opened(tab, address)
        assert tab.ask(ID) == on_screen
        tab.console.clear()
        for n, key in enumerate(keys[20:], start=21):
            label(tab, tmp_path, key, n)
        assert tab.console == []
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
        assert process.returncode == 0 and "30 answers labelled, 30 by you" in out
    kept = labels(tmp_path)
    assert [line["label"] for line in kept] == [meaning[key] for key in keys]
    assert len({line["id"] for line in kept}) == 30


def test_words_are_marked_by_keys_and_by_mouse(tmp_path: Path, tab: Tab) -> None:
    with serving(tmp_path, plain(4)) as address:
        opened(tab, address)
        # From the first word on: three words to the right, two more taken in, marked.
        tab.press("m")
        tab.press("ArrowRight", times=3)
        tab.press("ArrowRight", shift=True, times=2)
        tab.press(" ")
        # The next sentence has an emoji before its first word.
        tab.press("ArrowDown")
        tab.press("ArrowRight")
        tab.press(" ")
        tab.press("Escape")
        marked = tab.ask("[...document.querySelectorAll('mark')].map((m) => m.textContent)")
        label(tab, tmp_path, "h", 1)
        first = labels(tmp_path)[0]
        assert [text for _, _, text in first["spans"]] == marked and len(marked) == 2
        row = next(row for row in plain(4) if row["id"] == first["id"])
        for start, end, text in first["spans"]:
            assert row["response"][start:end] == text
        words = row["response"].split()
        assert marked[0] == " ".join(words[3:6]).rstrip(".")
        # By mouse: half a word is enough for all of it.
        edges = tab.ask(
            """(() => {
              const node = document.querySelector('#response span').firstChild;
              const from = node.textContent.indexOf('Ships') + 2;
              const to = node.textContent.indexOf('Roman') + 3;
              const range = document.createRange();
              return [from, to].map((place) => {
                range.setStart(node, place); range.setEnd(node, place + 1);
                const box = range.getBoundingClientRect();
                return [box.left + 1, box.top + box.height / 2];
              });
            })()"""
        )
        tab.drag(*edges)
        tab.press("m")
        text = "Ships have used it since Roman"
        tab.until(f"document.querySelector('mark')?.textContent === {text!r}")
        label(tab, tmp_path, "h", 2)
        (span,) = labels(tmp_path)[1]["spans"]
        assert span[2] == text and text in EMOJI
        # A mark is taken away again.
        tab.press("m")
        tab.press(" ")
        tab.press(" ")
        label(tab, tmp_path, "f", 3)
        assert not labels(tmp_path)[2].get("spans")
        assert quiet(tab, address)


def test_the_nearest_chunk_is_one_key_away_and_the_label_says_so(tmp_path: Path, tab: Tab) -> None:
    rows = plain(2, chunks=50)
    for row in rows:
        row["contexts"][36] = "Filler words. " * 150 + "Ships have used it since Roman times."
    with serving(tmp_path, rows) as address:
        opened(tab, address)
        tab.press("1")
        tab.press("2")
        tab.until("document.querySelector('#rail [aria-current]').textContent", "12")
        top = "document.querySelectorAll('article')[11].getBoundingClientRect().top"
        assert 0 < tab.ask(top) < 400
        for _ in range(3):
            before = tab.ask(STATUS)
            tab.press("e")
            tab.until(f"{STATUS} !== {before!r}")
        tab.until(f"{STATUS}.includes('nearest is chunk 37')")
        quote = "document.querySelector('.quote')"
        assert tab.ask(f"{quote}.textContent").strip() == "Ships have used it since Roman times."
        box = tab.ask(f"(({{top, bottom}}) => [top, bottom])({quote}.getBoundingClientRect())")
        assert 50 < box[0] < box[1] < 800
        label(tab, tmp_path, "f", 1)
        time.sleep(0.15)
        tab.press("f")
        tab.until(VIEW, "rest")
        assert [line.get("evidence", False) for line in labels(tmp_path)] == [True, False]


def test_a_second_tab_is_told(tmp_path: Path, tab: Tab, window: Pipe) -> None:
    with serving(tmp_path, plain(5)) as address:
        opened(tab, address)
        first = tab.ask(ID)
        other = Tab(window)
        opened(other, address)
        assert other.ask(ID) == first
        label(other, tmp_path, "f", 1)
        other.close()
        tab.press("h")
        tab.until("document.getElementById('banner').textContent.includes('done elsewhere')")
        assert tab.ask(ID) != first and [line["label"] for line in labels(tmp_path)] == [0]
        label(tab, tmp_path, "h", 2)
        tab.until("document.getElementById('banner').hidden")


def test_a_server_that_is_ended_from_outside_says_what_came_out(tmp_path: Path, tab: Tab) -> None:
    with command(tmp_path, plain(4)) as (process, address):
        opened(tab, address)
        label(tab, tmp_path, "h", 1)
        process.terminate()
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0 and "1 answer labelled" in out and "--annotator ada" in out
        # The page says that nobody is there, and takes nothing for saved.
        tab.press("f")
        banner = "document.getElementById('banner').textContent"
        tab.until(f"{banner}.includes('Nothing but this answer is lost')")
        assert tab.ask(STATUS) == "Not saved."
        assert tab.ask("document.querySelector('[data-label][aria-pressed=true]') === null")
        assert tab.ask("document.getElementById('next').hidden")
        tab.press("Enter")
        assert "does not answer" in tab.ask(STATUS)
    assert [line["label"] for line in labels(tmp_path)] == [1]


def test_a_key_that_comes_too_fast_is_told(tmp_path: Path, tab: Tab) -> None:
    with serving(tmp_path, plain(4)) as address:
        opened(tab, address)
        first = tab.ask(ID)
        twice = (
            "['f', 'h'].map((key) => document.dispatchEvent(new KeyboardEvent('keydown', {key})))"
        )
        tab.ask(
            twice.replace("document.", "document.body.").replace("{key}", "{key, bubbles: true}")
        )
        tab.until(f"{ID} !== {first!r}")
        tab.until(f"{STATUS}.includes('saved as faithful')")
        assert "did nothing" in tab.ask(STATUS)
        assert [line["label"] for line in labels(tmp_path)] == [0]


def test_own_labels_are_listed_and_one_is_changed(tmp_path: Path, tab: Tab) -> None:
    with serving(tmp_path, plain(5)) as address:
        opened(tab, address)
        tab.press("w")
        for letter in "fh":
            tab.press(letter)
        assert tab.ask(VIEW) == "task" and not (tmp_path / "labels" / "labels.jsonl").exists()
        tab.press("Enter")
        for n in (1, 2, 3):
            label(tab, tmp_path, "f", n)
        here = tab.ask(ID)
        said = tab.ask("document.getElementById('progress').textContent")
        assert said == "ada · 3 labelled · at most 2 answers to go"
        assert tab.ask("[bar.value, bar.max, bar.hidden]") == [3, 5, False]
        tab.press("l")
        rows = "[...document.querySelectorAll('#mine-list button')]"
        tab.until(f"{rows}.length", 3)
        assert tab.ask(f"{rows}[2].textContent").startswith("faithfulNo. 1")
        assert tab.ask(f"{rows}[2].querySelector('i').textContent") == "fh"
        tab.ask(f"{rows}[2].click()")
        tab.until(ID, "No. 1")
        assert tab.ask("document.getElementById('note').value") == "fh"
        assert tab.ask("document.querySelector('[aria-pressed=true]').className") == "faithful"
        label(tab, tmp_path, "h", 3)
        assert tab.ask(ID) == here
        kept = {line["order"]: (line["label"], line.get("note")) for line in labels(tmp_path)}
        assert kept == {1: (1, "fh"), 2: (0, None), 3: (0, None)}
        assert quiet(tab, address)


@pytest.mark.parametrize(
    ("keys", "says", "full"),
    [("hf" * 4, "labelled", True), ("f" * 8, "Of these 0", False)],
)
def test_the_end_says_enough_or_what_is_missing(
    tmp_path: Path, tab: Tab, keys: str, says: str, full: bool
) -> None:
    progress = "document.getElementById('progress').textContent"
    with serving(tmp_path, plain(8), promise=Promise(alpha=0.5)) as address:
        opened(tab, address)
        for key in keys:
            if tab.ask(VIEW) != "task":
                break
            time.sleep(0.2)
            tab.press(key)
            time.sleep(0.2)
        tab.until(VIEW, "rest")
        assert tab.ask(progress).endswith("· enough") is full and "to go" not in tab.ask(progress)
        assert (tab.ask("bar.value") == tab.ask("bar.max")) is full
        said = tab.ask("document.getElementById('rest').textContent")
        assert says in said + tab.ask(progress)


def test_help_explains_the_keys_and_labels_can_wait_for_enter(tmp_path: Path, tab: Tab) -> None:
    with serving(tmp_path, plain(3)) as address:
        opened(tab, address)
        tab.press("?")
        tab.until("document.getElementById('help').open")
        tab.press("f")
        tab.ask("document.getElementById('wait').click()")
        tab.press("Escape")
        tab.until("!document.getElementById('help').open")
        tab.press("h")
        tab.until("document.querySelector('[aria-pressed=true]')?.className", "hallucinated")
        time.sleep(0.2)
        assert not (tmp_path / "labels" / "labels.jsonl").exists() or labels(tmp_path) == []
        label(tab, tmp_path, "n", 1)
        assert labels(tmp_path)[0]["label"] == 1
