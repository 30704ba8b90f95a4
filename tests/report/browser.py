"""How is a page shown to a browser without a window, and what does the browser do with it?"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

REMEDY = (
    "no chromium on PATH, so pages are not tried in a browser; on Debian install it with "
    "`apt-get install -y --no-install-recommends chromium`"
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--enable-logging=stderr",
    "--v=0",
)


def chromium() -> str:
    """Return the browser, or skip the test with a remedy."""
    found = shutil.which("chromium")
    if found is None:
        pytest.skip(REMEDY)
    return found


@dataclass(frozen=True)
class Visit:
    """What a visit to a page left behind."""

    console: tuple[str, ...]
    requests: tuple[str, ...]
    told: dict[str, Any]


def visit(
    page: str, folder: Path, ask: str, *flags: str, width: int = 1000, attrs: str = ""
) -> Visit:
    """Serve a page on this machine, open it in a frame, and return what happened.

    ``ask`` is the body of a function of ``page``, the document, and ``view``, its window; what it
    returns is told. It runs in the page around the frame, so that the page itself stays as it is.
    """
    around = f"""<!doctype html><html><head><meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,"></head>
<body><script>
const told = (frame) => {{
  const page = frame.contentDocument, view = frame.contentWindow;
  document.body.dataset.told = JSON.stringify((() => {{ {ask} }})());
}};
</script><iframe src="report.html" width="{width}" height="900" style="border: 0" {attrs}
onload="told(this)"></iframe></body></html>"""
    with serving({"/": around, "/report.html": page}) as (address, requests):
        command = [
            chromium(),
            *FLAGS,
            f"--user-data-dir={folder / 'profile'}",
            "--window-size=1200,1000",
            *flags,
            "--dump-dom",
            address,
        ]
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    dom = done.stdout.decode("utf-8", "replace")
    stderr = done.stderr.decode("utf-8", "replace")
    told = re.search(r'<body[^>]* data-told="([^"]*)"', dom)
    console = tuple(line for line in stderr.splitlines() if "CONSOLE" in line)
    assert told is not None, (console, stderr[-2000:])
    return Visit(console, tuple(requests), json.loads(unescape(told[1])))


@contextmanager
def serving(pages: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Serve pages on a free port, and record every request."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_response(200 if self.path in pages else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(pages.get(self.path, "").encode())

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
