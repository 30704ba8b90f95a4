"""Who gets an answer, and with which headers?"""

from __future__ import annotations

import queue
import threading
from functools import partial
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from calibrail.ui.server import HEADERS, Access, serve
from tests.ui.sessions import plain, session

TOKEN = "the-token"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


async def _inside(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("inside")(scope, receive, send)


@pytest.fixture
def client() -> TestClient:
    return TestClient(Access(_inside, TOKEN, 8123), base_url="http://127.0.0.1:8123")


def test_the_printed_address_opens_the_page_and_its_files(client: TestClient) -> None:
    assert client.get("/page.css").status_code == 403
    opened = client.get(f"/?token={TOKEN}")
    assert (opened.status_code, opened.text) == (200, "inside")
    cookie = opened.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and TOKEN not in cookie
    assert client.get("/page.css").text == "inside"
    assert client.get("/").text == "inside"


def test_answers_and_labels_take_the_token_itself(client: TestClient) -> None:
    client.get(f"/?token={TOKEN}")
    assert client.get("/api/state").status_code == 403
    assert client.get(f"/api/state?token={TOKEN}").status_code == 403
    assert client.get("/api/state", headers=BEARER).text == "inside"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": TOKEN},
        {"Cookie": f"calibrail-8123={TOKEN}"},
        {"Authorization": b"Bearer \xff\xfe"},
    ],
    ids=str,
)
def test_without_the_token_there_is_no_answer(
    client: TestClient, headers: dict[str, str | bytes]
) -> None:
    for path in ("/api/state", "/page.js", "/", "/?token=wrong", "/?token=%ff", "/?token="):
        refused = client.get(path, headers=headers)
        assert refused.status_code == 403, path
        assert "inside" not in refused.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:8123"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:9"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:9"},
        {"Origin": "null"},
    ],
    ids=str,
)
def test_a_foreign_name_or_page_gets_nothing_whatever_it_holds(
    client: TestClient, headers: dict[str, str]
) -> None:
    for refused in (
        client.get(f"/?token={TOKEN}", headers=headers),
        client.post("/api/label", headers={**BEARER, **headers}),
    ):
        assert refused.status_code == 421
        assert "set-cookie" not in refused.headers


def test_every_answer_forbids_what_a_page_could_do(client: TestClient) -> None:
    for answer in (client.get(f"/?token={TOKEN}"), client.get("/nothing"), client.get("/api/x")):
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    assert "*" not in HEADERS["Content-Security-Policy"]


def test_the_secret_is_on_no_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: queue.Queue[str] = queue.Queue()
    monkeypatch.setattr("webbrowser.open", opened.put)
    monkeypatch.setenv("DISPLAY", ":0")
    with session(tmp_path, plain(2)) as begun:
        told: queue.Queue[str] = queue.Queue()
        run = partial(serve, begun, "ada", told.put, lambda counts: None)
        thread = threading.Thread(target=run)
        thread.start()
        address = told.get(timeout=60)
        way = opened.get(timeout=60)
        token = address.partition("token=")[2]
        assert token not in way
        file = Path(way.removeprefix("file://"))
        assert f"url={address}" in file.read_text()
        assert not (file.stat().st_mode | file.parent.stat().st_mode) & 0o077
        done = Request(address.replace("/?token=" + token, "/api/stop"), b"{}")
        done.add_header("Authorization", f"Bearer {token}")
        urlopen(done, timeout=60).close()
        thread.join(timeout=60)
    assert not file.exists()
