"""Is a session done by keys alone, where there is no browser?"""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from calibrail import Promise
from calibrail.errors import DataError
from calibrail.labelling.session import Session
from calibrail.ui.terminal import Keys, Terminal
from tests.ui.sessions import HOSTILE, labels, plain, session, written


def typed(opened: Session, *lines: str) -> str:
    """Give lines to a session, and return what stood on the screen."""
    shown = io.StringIO()
    keys = Keys(io.StringIO("".join(f"{line}\n" for line in lines)))
    console = Console(file=shown, width=80, height=24, highlight=False)
    Terminal(opened, "ada", keys, console).run()
    return shown.getvalue()


def given(folder: Path) -> list[Any]:
    return [kept["label"] for kept in labels(folder)]


def test_letters_label_until_the_end_of_the_pipe(tmp_path: Path) -> None:
    with session(tmp_path, plain(6)) as opened:
        shown = typed(opened, "f", "h", "", "u", "nonsense", "s")
        assert given(tmp_path) == [0, 1, None]
        assert "Saved as hallucinated" in shown and "No key does 'nonsense'" in shown
        assert opened.counts("ada").skipped == 1
        # The next sitting goes on.
        assert "3 labelled · 1 skipped" in typed(opened, "f", "q", "f")
        assert given(tmp_path) == [0, 1, None, 0]


def test_undo_opens_the_answer_again(tmp_path: Path) -> None:
    with session(tmp_path, plain(3)) as opened:
        shown = typed(opened, "z", "f", "z", "h")
    assert "nothing to undo" in shown and given(tmp_path) == [1]


def test_the_end_is_said_and_a_pipe_without_end_ends(tmp_path: Path) -> None:
    with session(tmp_path, plain(2)) as opened:
        shown = typed(opened, *"ff", "z", *"hhhh")
    assert given(tmp_path) == [0, 1] and "nothing to label now" in shown


def test_enough_labels_end_it_unless_somebody_goes_on(tmp_path: Path) -> None:
    with session(tmp_path, plain(40), promise=Promise(alpha=0.5)) as opened:
        # A pipe that goes on all the same ends there.
        shown = typed(opened, *"hf" * 30)
        enough = len(given(tmp_path))
        assert "The labels are enough" in shown and enough < 40
        typed(opened, "g", "h", "h", "q")
        assert len(given(tmp_path)) == enough + 2


def test_words_are_marked_where_they_stand(tmp_path: Path) -> None:
    with session(tmp_path, plain(1)) as opened:
        shown = typed(opened, "m first. Ships", "m nowhere", "m", "m e", "m e", "h")
    (kept,) = labels(tmp_path)
    response = plain(1)[0]["response"]
    assert [text for _, _, text in kept["spans"]] == ["e", "e", "first. Ships"]
    assert all(response[start:end] == text for start, end, text in kept["spans"])
    assert len({start for start, _, _ in kept["spans"]}) == 3
    assert shown.count("nothing is marked") == 2


def test_a_faithful_answer_has_no_marks_and_unsure_says_what_it_does(tmp_path: Path) -> None:
    with session(tmp_path, plain(2)) as opened:
        shown = typed(opened, "m first. Ships", "f", "?", "c", "f", "q")
    assert "Words are marked that nothing supports" in shown
    assert "unsure: it takes no part in the threshold" in shown
    assert [(kept["label"], kept.get("spans")) for kept in labels(tmp_path)] == [(0, None)]


def test_evidence_and_chunks_are_one_key_away(tmp_path: Path) -> None:
    with session(tmp_path, plain(2, chunks=12)) as opened:
        shown = typed(opened, "e", "12", "99", "f", "f")
    assert "Nearest, in chunk 1" in shown and "There is no chunk 99; there are 12." in shown
    assert [kept.get("evidence", False) for kept in labels(tmp_path)] == [True, False]


def test_evidence_asked_for_before_a_stop_stands_in_the_label(tmp_path: Path) -> None:
    for keys in (("e", "q"), ("h", "q")):
        with session(tmp_path, plain(2)) as opened:
            shown = typed(opened, *keys)
    assert labels(tmp_path)[0]["evidence"] is True
    # An id may tell the model, or even the label.
    assert "No. 1" in shown and "river-" not in shown


def test_hostile_texts_do_not_steer_the_terminal(tmp_path: Path) -> None:
    with session(tmp_path, HOSTILE) as opened:
        shown = typed(opened, "e", "m alert", "h", "f", "e", "h", "f")
    assert len(given(tmp_path)) == 3
    assert not set("\x00\x07\x1b\u202e\u200b") & set(shown)
    assert "<script>alert(1)</script>" in shown and "[bold]x" in shown


def test_what_cannot_be_written_is_said_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, refusals = Session.put, ["No space left on device"]

    def full(*arguments: Any, **options: Any) -> None:
        if refusals:
            raise DataError(refusals.pop())
        put(*arguments, **options)

    monkeypatch.setattr(Session, "put", full)
    with session(tmp_path, plain(2)) as opened:
        shown = typed(opened, "h", "f", "q")
    assert "Not saved: No space left" in shown and given(tmp_path) == [0]


def test_lines_of_a_real_terminal(tmp_path: Path) -> None:
    """Lines are read as they are typed, and Ctrl-C ends the sitting."""
    traces = written(tmp_path, plain(4))
    ours, theirs = pty.openpty()
    code = "from calibrail.cli import main; main()"
    options = [str(traces), "-o", str(tmp_path / "labels"), "--terminal"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, "label", *options], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    seen = ""

    def until(words: str) -> None:
        nonlocal seen
        end = time.monotonic() + 300
        while words not in seen:
            assert time.monotonic() < end, seen
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    seen += os.read(ours, 65536).decode("utf-8", "replace")
                except OSError:
                    pytest.fail(f"it ended before {words!r}: {seen}")
        seen = seen.rpartition(words)[2]

    try:
        until("q stop")
        os.write(ours, b"f\n")
        until("q stop")
        # An arrow does nothing.
        os.write(ours, b"\x1b[A\n")
        until("No key does")
        # So does Enter alone.
        os.write(ours, b"\nm kilometres\nh\n")
        until("Saved as hallucinated")
        process.send_signal(signal.SIGINT)
        until("2 answers labelled")
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert given(tmp_path) == [0, 1]
    assert labels(tmp_path)[1]["spans"][0][2] == "kilometres"
