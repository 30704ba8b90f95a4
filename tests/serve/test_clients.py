"""Several tokens, limits by client, older guardrails, and the log's end noted elsewhere."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import httpx
import pyarrow.parquet as pq
import pytest

from calibrail import Guardrail
from calibrail.errors import DataError, GuardrailError, InputError
from calibrail.guardrail.decision_log import DecisionLog
from calibrail.guardrail.decision_log.verify import export_log, verify_log
from calibrail.guardrail.signing import SignatureTerms, make_keys, signature_path
from calibrail.options import ServeOptions
from calibrail.pipelines.data_reuse import DataUseHistory
from calibrail.pipelines.run import read_json
from calibrail.serve import guardrails, process
from calibrail.serve import service as served
from calibrail.serve.guardrails import Guardrails, Serials
from calibrail.serve.metrics import TOGETHER
from calibrail.serve.service import TokenHolder, Tokens
from tests.answers import write
from tests.command_line import calibrail
from tests.guardrail.sentences import by_sentence_of_words
from tests.labelling.rows import lines
from tests.serve.process import Service, request_bytes, until

ANSWER = {"question": "W?", "contexts": ["W is tungsten."], "response": "W is tungsten."}


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_two_tokens_of_a_client_are_valid_until_one_line_goes(
    surface: Path, tmp_path: Path
) -> None:
    tokens, log = tmp_path / "tokens", tmp_path / "log"
    tokens.write_text("# who asks\nshop old-secret\nshop new-secret\n\nbank their-secret 6000\n")
    asked = ("--tokens", tokens, "--log", log)
    with Service(surface, *asked, environment={"CALIBRAIL_TOKEN": "one"}, ready=False) as refused:
        assert refused.process.wait(60) == 2 and "unset the variable" in refused.stderr
    with Service(surface, *asked) as service, httpx.Client(base_url=service.url) as client:

        def status(token: str) -> int:
            return client.post("/v1/check", json=ANSWER, headers=_bearer(token)).status_code

        assert [status(f"{name}-secret") for name in ("old", "new", "their")] == [200, 200, 200]
        assert status("other-secret") == 401 and client.get("/readyz").status_code == 200
        tokens.write_text("shop new-secret\nbank their-secret 6000\n")
        end = time.monotonic() + 20
        while status("old-secret") == 200 and time.monotonic() < end:
            time.sleep(0.2)
        assert [status("old-secret"), status("new-secret")] == [401, 200]
        # A file that says nothing leaves who may ask as it is.
        tokens.write_text("shop\n")
        time.sleep(2.5)
        assert status("new-secret") == 200
        assert "line 1" in service.stderr and "secret" not in service.stderr
    who = {line["client"] for path in log.glob("*.jsonl") for line in lines(path) if "id" in line}
    assert who == {"shop", "bank"} and verify_log(log).verdict == "whole"
    n, _ = export_log(log, tmp_path / "log.parquet")
    asked = pq.read_table(tmp_path / "log.parquet")["client"].to_pylist()
    assert len(asked) == n and asked.count("bank") == 1 and set(asked) == {"shop", "bank"}


def test_streams_selections_and_shared_batches_are_logged_by_who_asked(
    visit: Callable[..., None], surface: Path, tmp_path: Path
) -> None:
    tokens, log = tmp_path / "tokens", tmp_path / "log"
    tokens.write_text("shop a\nbank b\n")
    guardrail = tmp_path / "words.json"
    by_sentence_of_words().save(guardrail)

    async def go(client: httpx.AsyncClient, _: served.Service) -> None:
        async def ask(token: str, path: str, body: object) -> None:
            answer = await client.post(path, json=body, headers=_bearer(token))
            assert answer.status_code == 200, answer.text

        # One behind the other in the queue, they share a batch and its line in the log's file.
        await asyncio.gather(
            *(
                ask(token, "/v1/check?guardrail=surface", {**ANSWER, "id": f"{token}{i}"})
                for i in range(8)
                for token in "ab"
            )
        )
        await ask("b", "/v1/check/stream?guardrail=words", {**ANSWER, "id": "b-stream"})
        batch = {"items": [{**ANSWER, "id": "a-select"}], "fdr": 0.5}
        await ask("a", "/v1/select?guardrail=surface", batch)

    visit(go, surface, guardrail, tokens=tokens, log=DecisionLog(log))
    kept = [line for path in log.glob("*.jsonl") for line in lines(path) if "id" in line]
    assert len(kept) == 18
    names = {"a": "shop", "b": "bank"}
    assert all(line["client"] == names[line["id"][0]] for line in kept)


def test_who_is_refused_before_the_body_may_ask_again_on_the_same_connection(
    surface: Path, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("shop secret\n")
    body = json.dumps(ANSWER).encode()
    with Service(surface, "--tokens", tokens) as service, service.connect() as connection:
        wrong, right = (
            request_bytes(body, "/v1/check", f"Authorization: Bearer {word}")
            for word in ("none", "secret")
        )
        connection.sendall(wrong[: -len(body)])
        said = connection.recv(65_536)
        assert b" 401 " in said
        connection.sendall(wrong[-len(body) :] + right)
        while b" 200 " not in said and (more := connection.recv(65_536)):
            said += more
        assert b" 200 " in said


def test_a_client_may_ask_so_often(
    visit: Callable[..., None], surface: Path, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("bank a 3\nshop b\n")

    async def go(client: httpx.AsyncClient, service: served.Service) -> None:
        async def ask(token: str) -> httpx.Response:
            return await client.post("/v1/check", json=ANSWER, headers=_bearer(token))

        assert [(await ask("a")).status_code for _ in range(5)] == [200, 200, 200, 429, 429]
        refused = await ask("a")
        assert 0 < int(refused.headers["retry-after"]) <= 20
        assert "bank may send 3 requests a minute" in refused.json()["detail"]
        assert [(await ask("b")).status_code for _ in range(5)] == [200] * 5
        # Whatever is made for a client counts, and what is read by a monitor does not.
        for path, status in (("/v1/guardrail", 429), ("/metrics", 200), ("/readyz", 200)):
            assert (await client.get(path, headers=_bearer("a"))).status_code == status
        later = time.monotonic() + 20.1
        with mock.patch.object(served.time, "monotonic", return_value=later):
            assert service.tokens.find(b"a").wait() == 0.0  # type: ignore[union-attr]

    visit(go, surface, tokens=tokens)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "holds no token"),
        ("# nobody\n", "holds no token"),
        ("shop\n", "line 1 .* there are 1 words"),
        ("shop s3cret 5 6\n", "line 1 .* there are 4 words"),
        ("a/b s3cret\n", "line 1 .* other characters"),
        ("shop s3crét\n", "line 1 .* other characters"),
        ("shop s3cr\0t\n", "line 1 .* other characters"),
        ("shop s3cret none\n", "line 1 .* no number"),
        ("shop s3cret nan\n", "line 1 .* no number"),
        ("shop s3cret 0\n", "line 1 .* is no number above 0"),
        ("shop s3cret\n\nbank s3cret\n", "line 3 .* another line has the same token"),
    ],
)
def test_a_file_of_no_tokens_is_refused_without_its_secrets(
    tmp_path: Path, content: str, said: str
) -> None:
    path = tmp_path / "tokens"
    path.write_text(content)
    with pytest.raises(InputError, match=said) as caught:
        Tokens(path)
    assert "s3cr" not in str(caught.value)
    with pytest.raises(InputError, match="cannot be read"):
        Tokens(tmp_path / "nowhere")


def test_files_of_other_systems_hold_the_same_tokens(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(b"\xef\xbb\xbfshop a 5\r\n# new\r\n\r\n  shop\tb 5 \r\nbank c\r\n#end")
    tokens = Tokens(path)
    names = {word: tokens.find(word.encode()).name for word in "abc"}  # type: ignore[union-attr]
    assert names == {"a": "shop", "b": "shop", "c": "bank"}
    assert tokens.find(b"a") is tokens.find(b"b") and tokens.find(b"b\r") is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
@pytest.mark.parametrize("kind", ["pipe", "device", "3 GiB"])
def test_what_is_no_file_of_that_kind_is_neither_waited_for_nor_read(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "serials.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(3 * 2**30)
    said = "it is larger than 1 GiB" if kind == "3 GiB" else "it is no regular file"
    with pytest.raises(InputError, match=said):
        Tokens(path)
    with pytest.raises(GuardrailError, match=r"serials\.json should say"):
        Serials(tmp_path, allow_rollback=False).take("g", mock.Mock())
    with pytest.raises(DataError, match=said):
        DataUseHistory.read(path)
    with pytest.raises(DataError, match=said):
        read_json(path)
    with pytest.raises((DataError, InputError), match=f"{said}|holds none"):
        verify_log(tmp_path, noted=[str(path)])


def test_what_a_client_may_ask_is_shared_by_the_processes_and_survives_a_reload(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tokens"
    path.write_text("bank a 4\n")
    tokens = Tokens(path, 2)
    client = tokens.find(b"a")
    assert isinstance(client, TokenHolder) and client.rate == 2.0 and client.wait() == 0.0
    for written in ("bank b 4\nbank", "bank b 4\nbank a 4\n"):
        # One that is being written is not read.
        path.write_text(written)
        os.utime(path, ns=(1, 1))
        tokens.look()
        assert tokens.find(b"b") is None
    tokens.look()
    assert tokens.find(b"a") is tokens.find(b"b") is client


def _signed(guardrail: Path, folder: Path, name: str, at: float, key: Path) -> Path:
    path = folder / name
    with mock.patch("calibrail.guardrail.file.time.time", return_value=at):
        Guardrail.load(guardrail).save(path, sign=key)
    return path


def test_an_older_guardrail_does_not_take_over(surface: Path, tmp_path: Path) -> None:
    key, log = tmp_path / "key.pem", tmp_path / "log"
    public, _, _ = make_keys(key)
    for folder in ("new", "old"):
        (tmp_path / folder).mkdir()
    new = _signed(surface, tmp_path / "new", "g.json", 1.6e9, key)
    old = _signed(surface, tmp_path / "old", "g.json", 1e9, key)

    def begin(path: Path, folder: Path | None = log, allow: bool = False) -> Guardrails:
        def load(file: Path) -> Guardrail:
            return Guardrail.load(file, trusted=[public])

        return Guardrails({"g": path}, load, Serials(folder, allow_rollback=allow))

    running = begin(new)
    # In its place, while it runs ...
    for put, there in ((old, new), (signature_path(old), signature_path(new))):
        there.write_bytes(put.read_bytes())
    refusal = running.reload("g")
    assert refusal is not None and "2001-09-09 01:46:40 UTC" in refusal.reason
    assert "2020-09-13 12:26:40 UTC" in refusal.reason and "--allow-rollback" in refusal.reason
    # ... also where the record of what was served is gone ...
    record = (log / "serials.json").read_bytes()
    (log / "serials.json").unlink()
    refusal = running.reload("g")
    assert refusal is not None and "older than what g served last" in refusal.reason
    (log / "serials.json").write_bytes(record)
    # ... and after the process has ended.
    with pytest.raises(GuardrailError, match="older than what g served last"):
        begin(old)
    assert begin(old, None).get("g").guardrail.signature.serial == 1e9  # type: ignore[union-attr]
    again = begin(old, allow=True)
    assert again.reload("g") is None and begin(old).get("g")
    # A signer's clock that was ahead does not keep what is signed rightly from deciding later.
    ahead = _signed(surface, tmp_path, "ahead.json", time.time() + 400, key)
    for put, there in ((ahead, old), (signature_path(ahead), signature_path(old))):
        there.write_bytes(put.read_bytes())
    refusal = again.reload("g")
    assert refusal is not None and "yet to come by the clock of this machine" in refusal.reason
    for at in (time.time() + 200, 1.7e9):
        right = _signed(surface, tmp_path, "right.json", at, key)
        for put, there in ((right, old), (signature_path(right), signature_path(old))):
            there.write_bytes(put.read_bytes())
        assert (again.reload("g") is None) is (at > 1.7e9)
    for wrong in ("[]", '{"g": 1e400}', '{"g": 1e30}'):
        (log / "serials.json").write_text(wrong)
        with pytest.raises(GuardrailError, match=r"serials\.json should say"):
            begin(old)


def test_guardrails_that_change_at_once_in_several_processes_are_all_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, both = threading.Event(), threading.Event()
    write = guardrails.write_atomically

    def slow(path: Path, raw: bytes, **others: Any) -> None:
        # The first one writes once the second has had time to read what was there before.
        if not reading.is_set():
            reading.set()
            both.wait(1)
        write(path, raw, **others)

    def take(name: str) -> None:
        guardrail = mock.Mock(signature=mock.Mock(serial=5))
        Serials(tmp_path, allow_rollback=False).take(name, guardrail)

    monkeypatch.setattr(guardrails, "write_atomically", slow)
    first = threading.Thread(target=take, args=("a",))
    first.start()
    assert reading.wait(30)
    take("b")
    both.set()
    first.join(30)
    assert json.loads((tmp_path / "serials.json").read_bytes()) == {"a": 5, "b": 5}


class _Process:
    """A process that answers, and has ended when it is looked at."""

    pid, exitcode = None, 0
    started: ClassVar = list[Any]()

    def __init__(self, target: object, args: tuple[Any, Any]) -> None:
        self._work, self._line = args
        self.sentinel, end = os.pipe()
        os.close(end)

    def start(self) -> None:
        self._line.send([])
        self.started.append(self._work)

    def is_alive(self) -> bool:
        return False

    def join(self) -> None:
        os.close(self.sentinel)


def test_a_process_in_the_place_of_another_one_lets_no_older_guardrail_in(
    surface: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = mock.Mock(Pipe=multiprocessing.Pipe, Process=_Process)
    monkeypatch.setattr("multiprocessing.get_context", lambda _: context)
    monkeypatch.setattr(process, "_FIRST_WAIT", 0.01)
    monkeypatch.setattr(process, "_LONGEST_WAIT", 0.01)

    def note(line: str) -> None:
        if len(_Process.started) > 2:
            signal.raise_signal(signal.SIGTERM)

    options = ServeOptions(port=0, workers=2, allow_rollback=True)
    process.serve({}, options, load=Guardrail.load, tell=lambda _: None, note=note)
    allowed = [work.args[1].allow_rollback for work in _Process.started]
    assert allowed[:3] == [True, True, False]
    # Without a log, too, it knows what the other one served.
    kept: list[Path | None] = []

    def serials(folder: Path | None, *, allow_rollback: bool) -> Serials:
        kept.append(folder)
        raise GuardrailError("enough")

    monkeypatch.setattr(process, "Serials", serials)
    monkeypatch.setenv(TOGETHER, str(tmp_path))
    with pytest.raises(GuardrailError, match="enough"):
        _Process.started[-1](lambda _: None)
    assert kept == [tmp_path]


def test_what_is_signed_expires_and_asks_for_a_version(surface: Path, tmp_path: Path) -> None:
    key, path = tmp_path / "key.pem", tmp_path / "g.json"
    public, _, _ = make_keys(key)
    guardrail = Guardrail.load(surface)
    today = datetime.now(UTC).date()
    guardrail.save(path, sign=key, terms=SignatureTerms(f"{today + timedelta(1)}", "0.0.1"))
    assert Guardrail.load(path, trusted=[public]).config == guardrail.config
    said = calibrail("guardrail", "verify", path, "--key", public).stdout
    assert f"until {today + timedelta(1)}, for calibrail 0.0.1 or newer" in " ".join(said.split())
    # It is said before, in the last two weeks.
    answer = write(tmp_path / "answers.jsonl", [ANSWER])
    check = ("check", path, answer, "-o", tmp_path / "decisions.jsonl", "--trusted", public)
    for days, soon in ((1, True), (13, True), (15, False)):
        day = f"{today + timedelta(days)}"
        guardrail.save(path, sign=key, terms=SignatureTerms(day))
        done = calibrail(*check)
        assert done.returncode == 0, done.stderr
        assert (f"may decide until {day} (UTC) and no longer" in done.stderr) is soon
        loaded = guardrails.Loaded(
            "g", path, Guardrail.load(path, trusted=[public]), datetime.now(UTC)
        )
        assert (f"EXPIRES SOON, after {day} (UTC)" in process.describe_guardrail(loaded)) is soon
    guardrail.save(path, sign=key, terms=SignatureTerms(f"{today - timedelta(1)}"))
    with pytest.raises(GuardrailError, match=r"holds until .* and no longer"):
        Guardrail.load(path, trusted=[public])
    guardrail.save(path, sign=key, terms=SignatureTerms(min_version="99.1"))
    with pytest.raises(GuardrailError, match=r"signed for calibrail 99\.1 or newer"):
        Guardrail.load(path, trusted=[public])
    with pytest.raises(InputError, match="expires must be the last day"):
        SignatureTerms("tomorrow")
    for version in ("latest", "0.1.0.9"):
        with pytest.raises(InputError, match="min_version must be a version"):
            SignatureTerms(min_version=version)


def test_a_service_whose_guardrail_expires_is_not_ready(
    visit: Callable[..., None], surface: Path, tmp_path: Path
) -> None:
    key, path = tmp_path / "key.pem", tmp_path / "g.json"
    public, _, _ = make_keys(key)
    day = f"{datetime.now(UTC).date() + timedelta(days=1)}"
    Guardrail.load(surface).save(path, sign=key, terms=SignatureTerms(day))

    def load(file: Path) -> Guardrail:
        return Guardrail.load(file, trusted=[public])

    async def go(client: httpx.AsyncClient, _: served.Service) -> None:
        assert (await client.get("/readyz")).status_code == 200
        metrics = (await client.get("/metrics")).text
        shown = 'calibrail_guardrail_expires_timestamp_seconds{guardrail="g"} '
        (value,) = (line.removeprefix(shown) for line in metrics.splitlines() if shown in line)
        # The whole of that day.
        assert datetime.fromtimestamp(float(value), UTC).isoformat() == (
            f"{date.fromisoformat(day) + timedelta(days=1)}T00:00:00+00:00"
        )
        later = datetime.now(UTC) + timedelta(days=3)
        with mock.patch("calibrail.guardrail.signing.datetime", mock.Mock(now=lambda _: later)):
            answer = await client.get("/readyz")
        assert answer.status_code == 503 and day in answer.json()["detail"]

    visit(go, path, load=load)


def test_the_end_of_the_log_is_noted_elsewhere(surface: Path, tmp_path: Path) -> None:
    log, heads = tmp_path / "log", tmp_path / "heads"
    with Service(surface, "--log", log, "--log-heads", heads) as service:
        until(heads.exists, "noted")
        assert httpx.post(f"{service.url}/v1/check", json=ANSWER).status_code == 200
        assert service.terminate() == 0
    assert len(heads.read_text().splitlines()) == 2
    assert verify_log(log, noted=[str(heads)]).verdict == "whole"
    (file,) = log.glob("*.jsonl")
    kept = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(kept[:1]))
    assert verify_log(log).verdict == "whole"
    assert verify_log(log, noted=[str(heads)]).verdict == "broken"
    (tmp_path / "words").write_text("nothing of the kind\n")
    with pytest.raises(InputError, match="64 hex digits"):
        verify_log(log, noted=[str(tmp_path / "words")])
    assert json.loads(kept[-1])["others"] == {}


def test_a_full_disk_leaves_no_half_note_and_nothing_is_glued_to_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heads, write = tmp_path / "heads", os.write
    first, second = f"{'a' * 64} 2027-01-01T00:00:00Z\n", "b" * 64
    service: Any = mock.Mock(_log=mock.Mock(head=(1, second)), _noted="")
    service.options.log_heads = heads

    def full(handle: int, raw: bytes) -> int:
        if len(raw) < 70:
            raise OSError(28, "No space left on device")
        return write(handle, raw[:30])

    heads.write_text(first)
    with mock.patch("os.write", full):
        served.Service.note_head(service)
    assert heads.read_text() == first and "No space left" in caplog.text
    # What another program, or a power cut, left without its end.
    heads.write_text(f"{first}{second[:9]}")
    served.Service.note_head(service)
    assert [line[:64] for line in heads.read_text().splitlines()] == ["a" * 64, "b" * 9, second]
    served.Service.note_head(service)
    assert heads.read_text().count("b" * 64) == 1


def test_a_look_that_fails_ends_no_other_and_comes_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A token that was taken back would else be one until the service starts again."""
    looks: Counter[str] = Counter()

    def look(name: str) -> bool:
        looks[name] += 1
        if looks[name] == 1:
            raise RuntimeError("can't start new thread")
        return False

    monkeypatch.setattr(process, "EVERY", 0.001)
    service: Any = mock.Mock()
    service.guardrails.files = {"g": mock.Mock(changed=partial(look, "guardrail"))}
    service.metrics.look, service.tokens.look = partial(look, "metrics"), partial(look, "tokens")
    service.statuses.read, service.note_head = partial(look, "watch"), partial(look, "head")

    async def all_look_again() -> None:
        watching = asyncio.create_task(process.watch(service))
        # The head of the log is noted once a minute.
        while not watching.done() and sum(n > 1 for n in looks.values()) < 4:
            await asyncio.sleep(0.001)
        assert not watching.done()
        watching.cancel()

    asyncio.run(asyncio.wait_for(all_look_again(), 20))
    assert caplog.text.count("can't start new thread") == 5
