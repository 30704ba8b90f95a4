"""A session served to a browser, and what a person does with it there."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from calibrail.ui.server import serve
from tests.report.browser import chromium
from tests.ui.driven import Tab
from tests.ui.sessions import labels, session, written

VIEW = "document.body?.dataset.view"
ID = "document.getElementById('answer-note')?.textContent"
STATUS = "document.getElementById('status').textContent"


@contextmanager
def command(folder: Path, rows: Sequence[dict[str, Any]] | None) -> Iterator[Any]:
    """Run the command as a user does; yield the process and the address that it tells."""
    chromium()
    code = "from calibrail.cli import main; main()"
    traces = [] if rows is None else [str(written(folder, rows))]
    options = ["-o", str(folder / "labels"), "--no-browser", "--annotator", "ada"]
    with subprocess.Popen(
        [sys.executable, "-c", code, "label", *traces, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", first)
            assert address is not None, first + process.stderr.read()
            yield process, address[0]
        finally:
            process.kill()


@contextmanager
def serving(folder: Path, rows: Sequence[dict[str, Any]], **options: Any) -> Iterator[str]:
    """Serve the page from here; yield its address."""
    told: queue.Queue[str] = queue.Queue()
    with session(folder, rows, **options) as begun:
        run = partial(serve, begun, "ada", told.put, lambda counts: None, browser=False)
        thread = threading.Thread(target=run)
        thread.start()
        address = told.get(timeout=60)
        try:
            yield address
        finally:
            place, _, token = address.partition("?token=")
            stop = {"Authorization": f"Bearer {token}"}
            with suppress(OSError):  # stopped already
                urlopen(Request(f"{place}api/stop", b"{}", stop), timeout=30).close()
            thread.join()


def opened(tab: Tab, address: str) -> None:
    tab.open(address)
    tab.until(VIEW, "task")


def quiet(tab: Tab, address: str) -> bool:
    """Return whether the page asked for nothing elsewhere, and complained of nothing."""
    origin = address.split("?")[0]
    assert tab.console == [] and tab.dialogs == []
    assert tab.requests and all(url.startswith(origin) for url in tab.requests), tab.requests
    return True


def where(word: str) -> str:
    """Return the expression of the middle of a word of the answer."""
    return f"""(() => {{
      const walker = document.createTreeWalker(document.getElementById('response'), 4);
      for (let node; (node = walker.nextNode());) {{
        const start = node.data.indexOf({word!r});
        if (start < 0) continue;
        const range = document.createRange();
        range.setStart(node, start); range.setEnd(node, start + {len(word)});
        const box = range.getBoundingClientRect();
        return [box.left + box.width / 2, box.top + box.height / 2];
      }}
    }})()"""


def label(tab: Tab, folder: Path, key: str, n: int) -> None:
    """Press a key, and see that the label is on disk once the next answer is on screen."""
    before = tab.ask(ID)
    time.sleep(0.15)  # a key pressed twice labels one answer
    tab.press(key)
    tab.until(f"{ID} !== {before!r} && !document.body.classList.contains('waits')")
    assert len(labels(folder)) == n
