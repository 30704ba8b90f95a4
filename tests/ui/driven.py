"""A browser without a window that real keys are pressed in, over its debugging pipe."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.report.browser import FLAGS, chromium

#: Seconds after which a browser that says nothing has failed.
PATIENCE = 300.0

_CODES = {
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    "Tab": ("Tab", 9, ""),
    " ": ("Space", 32, " "),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
}
_SHIFT = 8


class Pipe:
    """What is said to a browser, and what it says: JSON, a zero byte after each message."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back, self._buffer = to, back, b""
        self._sent = 0

    def call(self, method: str, session: str | None = None, **params: Any) -> Iterator[Any]:
        """Yield what comes before the answer, which is returned."""
        self._sent += 1
        message: dict[str, Any] = {"id": self._sent, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (told := self._read()).get("id") != message["id"]:
            yield told
        assert "error" not in told, (method, told)
        return told["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._back], [], [], PATIENCE)
            assert ready, "the browser says nothing"
            got = os.read(self._back, 1 << 20)
            assert got, "the browser has gone"
            self._buffer += got
        message, self._buffer = self._buffer.split(b"\0", 1)
        told: dict[str, Any] = json.loads(message)
        return told


class Tab:
    """One page of a browser, with storage of its own: what it says, asks for and opens."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._session: str | None = None
        self.console: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self._context = self._call("Target.createBrowserContext")["browserContextId"]
        made = {"url": "about:blank", "browserContextId": self._context}
        target = self._call("Target.createTarget", **made)["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def close(self) -> None:
        self._session = None
        self._call("Target.disposeBrowserContext", browserContextId=self._context)

    def open(self, address: str) -> None:
        self._call("Page.navigate", url=address)

    def reload(self) -> None:
        self._call("Page.reload")

    def size(self, width: int, height: int, *, phone: bool = False) -> None:
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        self._call("Emulation.setTouchEmulationEnabled", enabled=phone)

    def scheme(self, name: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": name}]
        self._call("Emulation.setEmulatedMedia", features=features)

    def press(self, key: str, *, shift: bool = False, times: int = 1) -> None:
        """Press a key as a keyboard does."""
        code, number, text = _CODES.get(key) or (f"Key{key.upper()}", ord(key.upper()), key)
        if key.isdigit():
            code = f"Digit{key}"
        if key == "?":
            code, number, shift = "Slash", 191, True
        key = key.upper() if shift and len(key) == 1 else key
        event = {
            "key": key,
            "code": code,
            "windowsVirtualKeyCode": number,
            "modifiers": _SHIFT if shift else 0,
        }
        for _ in range(times):
            down = {"text": key if len(text) == 1 and text != "\r" else text} if text else {}
            kind = "keyDown" if text else "rawKeyDown"
            self._call("Input.dispatchKeyEvent", type=kind, **event, **down)
            self._call("Input.dispatchKeyEvent", type="keyUp", **event)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press the mouse at one point and let go at another one."""
        for kind, (x, y) in (
            ("mousePressed", start),
            ("mouseMoved", end),
            ("mouseReleased", end),
        ):
            self._call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=x,
                y=y,
                button="left",
                buttons=1,
                clickCount=1,
            )

    def click(self, x: float, y: float) -> None:
        """Press the mouse and let it go."""
        self.drag((x, y), (x, y))

    def roles(self) -> list[tuple[str, str]]:
        """Return role and name of everything that a screen reader meets."""
        nodes = self._call("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node["ignored"]
        ]

    def violations(self) -> list[list[str]]:
        """Return what axe-core objects to: each rule, and the elements that break it."""
        spec = find_spec("axe_playwright_python")
        assert spec is not None and spec.origin is not None
        self.ask(f"{Path(spec.origin).with_name('axe.min.js').read_text(encoding='utf-8')};0")
        found = "found.violations.map((rule) => [rule.id, ...rule.nodes.map((it) => it.html)])"
        told: list[list[str]] = self.ask(f"axe.run().then((found) => {found})")
        return told

    def ask(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        told = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def until(self, expression: str, value: Any = True) -> Any:
        """Wait until an expression has a value, or any that is true."""
        end = time.monotonic() + PATIENCE
        while (found := self.ask(expression)) != value:
            assert time.monotonic() < end, (expression, found, self.console)
            time.sleep(0.02)
        return found

    def picture(self, path: Path) -> None:
        """Write what is seen, to be looked at."""
        data = self._call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command; what other tabs say meanwhile is left out."""
        answers = self._pipe.call(method, self._session, **params)
        while True:
            try:
                told = next(answers)
            except StopIteration as end:
                result: dict[str, Any] = end.value
                return result
            if told.get("sessionId") == self._session:
                self._note(told)

    def _note(self, told: dict[str, Any]) -> None:
        params = told.get("params", {})
        match told.get("method"):
            case "Runtime.consoleAPICalled":
                self.console.append(str(params["args"]))
            case "Runtime.exceptionThrown":
                self.console.append(str(params["exceptionDetails"]))
            case "Log.entryAdded":
                self.console.append(str(params["entry"]))
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Page.javascriptDialogOpening":
                self.dialogs.append(params["message"])


@contextmanager
def browser(folder: Path) -> Iterator[Pipe]:
    """Start a browser whose debugging pipe is read and written here; no port is opened."""
    command = [
        chromium(),
        *(flag for flag in FLAGS if "logging" not in flag),
        "--remote-debugging-pipe",
        f"--user-data-dir={folder / 'profile'}",
    ]
    its_in, to = os.pipe()
    back, its_out = os.pipe()
    # The browser reads from 3 and writes to 4, so neither may be an end of a pipe itself.
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in (its_in, its_out)]
    nothing = os.open(os.devnull, os.O_RDWR)
    process = os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[
            *((os.POSIX_SPAWN_DUP2, nothing, stream) for stream in (0, 1, 2)),
            (os.POSIX_SPAWN_DUP2, high[0], 3),
            (os.POSIX_SPAWN_DUP2, high[1], 4),
        ],
        setpgroup=0,
    )
    for end in (its_in, its_out, *high, nothing):
        os.close(end)
    try:
        yield Pipe(to, back)
    finally:
        os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(to), os.close(back)
