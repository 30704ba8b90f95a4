from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

import calibrail
from calibrail import Client, Decision, Example, Guardrail
from calibrail.client import AsyncClient, _core
from calibrail.errors import InputError, ServiceError
from tests.serve.client.scripted import (
    DECISION,
    Act,
    echoes,
    hangs_up,
    is_silent,
    problem,
    says,
    scripted,
    tears,
    trickles,
)
from tests.serve.conftest import ANSWER, NOVEL
from tests.serve.process import Service

pytest.importorskip("httpx2")

#: Calls one method of a client and returns what comes of it.
Ask = Callable[..., Any]


def about(method: str, options: dict[str, Any]) -> dict[str, Any]:
    """Ask about the answer that a scripted decision is about, unless another is meant."""
    return {"id": DECISION["id"], **options} if method == "check" else options


def ask_sync(url: str, method: str = "check", *given: Any, **options: Any) -> Any:
    names = ("token", "guardrail", "timeout", "retries")
    made = {name: options.pop(name) for name in names if name in options}
    with Client(url, **made) as client:
        return getattr(client, method)(*given, **about(method, options))


def ask_async(url: str, method: str = "check", *given: Any, **options: Any) -> Any:
    names = ("token", "guardrail", "timeout", "retries")
    made = {name: options.pop(name) for name in names if name in options}

    async def go() -> Any:
        async with AsyncClient(url, **made) as client:
            return await getattr(client, method)(*given, **about(method, options))

    return asyncio.run(go())


@pytest.fixture(params=[ask_sync, ask_async], ids=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    function: Ask = request.param
    return function


def in_turn(cases: Iterable[Any], ids: Iterable[str] | None = None) -> Any:
    """Parametrise by cases of what both clients share, each asked by one of them in turn."""
    asks = itertools.cycle([ask_sync, ask_async])
    return pytest.mark.parametrize(("ask", "case"), list(zip(asks, cases, strict=False)), ids=ids)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "_FIRST", 0.001)


@pytest.fixture(scope="module")
def service(surface: Path, column: Path) -> Iterator[Service]:
    with Service(
        f"surface={surface}", f"column={column}", environment={"CALIBRAIL_TOKEN": "secret"}
    ) as running:
        yield running


def test_a_decision_is_the_one_that_the_guardrail_gives(
    ask: Ask, service: Service, surface: Path, column: Path
) -> None:
    guardrail = Guardrail.load(surface)
    options: dict[str, Any] = {"token": "secret", "guardrail": "surface"}
    for answer in (ANSWER, NOVEL):
        here = guardrail.check(**answer)
        there = ask(service.url, **options, **answer)
        assert isinstance(there, Decision) and there.line() == here.line()
        there = ask(service.url, **options, **answer, evidence=True)
        assert there.line(evidence=True) == here.line(evidence=True)
    items = [ANSWER, Example("q", ("c",), "New words.", id="third"), {"response": ""}]
    there = ask(service.url, "check_batch", items, **options)
    assert [item.outcome for item in there] == [
        guardrail.check(**ANSWER).outcome,
        guardrail.check(question="q", contexts=("c",), response="New words.").outcome,
        guardrail.check().outcome,
    ]
    by_column = Guardrail.load(column)
    options["guardrail"] = "column"
    for risk in (0.1, 1.5, None, float("nan"), "0.25"):
        here = by_column.check(columns={"risk": risk})
        there = ask(service.url, **options, id="", columns={"risk": risk})
        assert (there.outcome, there.scale) == (here.outcome, here.scale)
        # NaN, by which tables hold nothing, is sent as nothing.
        assert there == here or risk != risk or risk == "0.25"


def test_what_the_service_refuses_is_an_error_that_says_why(ask: Ask, service: Service) -> None:
    for options, status, kind in (
        ({"token": None}, 401, "unauthorized"),
        ({"token": "wrong"}, 401, "unauthorized"),
        ({"guardrail": "other"}, 404, "no-such-guardrail"),
        ({"guardrail": None}, 422, "guardrail-not-named"),
        ({"guardrail": "column"}, 422, "invalid-request"),
    ):
        given = {"token": "secret", "guardrail": "surface", **ANSWER, **options}
        with pytest.raises(ServiceError) as raised:
            ask(service.url, **given)
        assert (raised.value.status, raised.value.problem) == (status, kind)
    assert "/columns/risk is missing" in str(raised.value)


def test_readiness_is_asked_and_an_absent_service_is_not_ready(ask: Ask, service: Service) -> None:
    assert ask(service.url, "ready") is True
    assert ask("http://127.0.0.1:9", "ready") is False
    with scripted(problem(503, "log-unavailable", Retry_After="1")) as server:
        assert ask(server.url, "ready") is False
        assert len(server.requests) == 1
    for act in (says(b"<html>"), says({"status": "alive"}), says({}, 404)):
        with scripted(act) as server, pytest.raises(ServiceError):
            ask(server.url, "ready")


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in DECISION.items() if key != name}


#: Of what a decision may hold, `Decision.from_dict` has tests of its own.
LIES: dict[str, bytes | object] = {
    "no JSON": b"<html>welcome to this network</html>",
    "torn": b'{"id": "a", "outcome": "pass"',
    "a list": [DECISION],
    "unknown outcome": {**DECISION, "outcome": "passed"},
    "another answer": {**DECISION, "id": "other"},
    "score NaN": {**DECISION, "score": float("nan")},
    "score without end": b'{"id": "a", "outcome": "pass", "score": 1e999}',
    "p-value above 1": {**DECISION, "p_value": 7},
    "a pass at the threshold": {**DECISION, "score": 0.5},
    "two outcomes": json.dumps(DECISION).replace("{", '{"outcome": "flag", ', 1).encode(),
    "endless nesting": b"[" * 100_000,
    **{f"no {name}": without(name) for name in DECISION},
}


@in_turn(LIES.values(), ids=LIES)
def test_what_makes_no_sense_is_an_error_and_never_a_pass(ask: Ask, case: object) -> None:
    with scripted(says(case)) as server:
        with pytest.raises(ServiceError, match="is no calibrail service, or not whole"):
            ask(server.url)
        assert len(server.requests) == 1


def test_half_of_a_surrogate_pair_is_read_as_the_service_writes_it(ask: Ask) -> None:
    reply = json.dumps({**DECISION, "reason": "not \ud800 whole"}, ensure_ascii=False)
    with scripted(says(reply.encode("utf-8", "surrogatepass"))) as server:
        assert ask(server.url).reason == "not \ud800 whole"


def test_further_fields_are_for_newer_clients(ask: Ask) -> None:
    with scripted(says({**DECISION, "new": 1})) as server:
        assert ask(server.url) == Decision(**DECISION)  # type: ignore[arg-type]


@in_turn(
    [
        [DECISION],
        [DECISION] * 3,
        [{**DECISION, "id": "b"}, {**DECISION, "id": "a"}],
        [{**DECISION, "id": "a"}, {**DECISION, "id": "b", "outcome": "?"}],
        {"a": DECISION, "b": DECISION},
        None,
    ],
    ids=["fewer", "more", "in another order", "an unknown outcome", "an object", "none"],
)
def test_a_batch_that_does_not_fit_is_an_error(ask: Ask, case: object) -> None:
    with scripted(says({"items": case})) as server, pytest.raises(ServiceError):
        ask(server.url, "check_batch", [{"id": "a"}, {"id": "b"}])


def swapped(items: list[Any]) -> list[Any]:
    return items[::-1]


def test_answers_without_an_id_are_told_apart_and_keep_having_none(ask: Ask) -> None:
    given = [{}, {"id": "b"}, {}]
    with scripted(echoes()) as server:
        assert [item.id for item in ask(server.url, "check_batch", given)] == ["", "b", ""]
        sent = [item["id"] for item in server.body()["items"]]
        assert sent[1] == "b" and len({*sent, ""}) == 4
        released = ask(server.url, "select", given, fdr=0.1)["items"]
        assert [item["id"] for item in released] == ["", "b", ""]
        assert ask(server.url, id="").id == "" and server.body()["id"]
    with scripted(echoes(swapped)) as server:
        for method, options in (("check_batch", {}), ("select", {"fdr": 0.1})):
            with pytest.raises(ServiceError, match="not about the 2 answers, in their order"):
                ask(server.url, method, [{}, {}], **options)
    with scripted(says(DECISION)) as server, pytest.raises(ServiceError, match="is about"):
        ask(server.url, id="")


def test_an_undefined_score_may_pass(ask: Ask) -> None:
    reply = {**DECISION, "score": None, "p_value": None, "reason": "undefined score (empty)"}
    with scripted(says(reply)) as server:
        assert ask(server.url).score is None


def test_a_proxy_of_the_environment_gets_nothing(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(says(DECISION)) as server, scripted(says(b"proxy", 502)) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        assert ask(server.url, token="secret").outcome == "pass"
        assert not proxy.requests


@in_turn(
    [
        *("Fri, 01 Jan 2010 00:00:00 GMT", "Fri, 01 Jan 2010 00:00:00 +99999999999999"),
        *("Fri, 01 Jan 99999999999999999999 00:00:00", "Fri, 32 Jan 2010 00:00:00 GMT"),
        *("9" * 400, "9" * 5000, "-1", "nan", ","),
    ],
)
def test_a_wait_that_makes_no_sense_is_no_other_error(ask: Ask, brief: None, case: str) -> None:
    busy = problem(429, "queue-full", Retry_After=case)
    with scripted(busy) as server, pytest.raises(ServiceError, match="429"):
        ask(server.url, retries=1)


def test_a_selection_is_believed_where_it_is_about_what_was_asked(ask: Ask) -> None:
    good = {"n_released": 1, "items": [{"id": "a", "released": True, "score": 0, "p_value": 0.1}]}
    with scripted(says(good)) as server:
        assert ask(server.url, "select", [{"id": "a"}], fdr=0.1) == good
        assert server.requests[0].startswith(b"POST /v1/select")
        sent = server.body()
        assert (sent["fdr"], sent["method"], sent["confidence"]) == (0.1, "auto", 0.95)
    items = ({"id": "b", "released": True}, {"id": "a", "released": 1}, {"id": "a"}, None)
    said = {"id": "a", "released": True}
    for item in (*items, said, {**said, "p_value": 7}, {**said, "p_value": None}):
        act = says({"n_released": 1, "items": [item]})
        with scripted(act) as server, pytest.raises(ServiceError):
            ask(server.url, "select", [{"id": "a"}], fdr=0.1)
    with scripted(says({**good, "n_released": 0})) as server, pytest.raises(ServiceError):
        ask(server.url, "select", [{"id": "a"}], fdr=0.1)


@pytest.mark.parametrize(
    "failure",
    [
        hangs_up,
        tears,
        problem(429, "queue-full", Retry_After="0"),
        problem(503, "log-unavailable", Retry_After="0"),
        problem(503, "stopping"),
        says(b"bad gateway", 502),
    ],
    ids=["hangs up", "tears", "429", "503", "stopping", "502"],
)
def test_what_passes_is_tried_again_as_often_as_allowed(
    ask: Ask, brief: None, failure: Act
) -> None:
    with scripted(failure, failure, says(DECISION)) as server:
        assert ask(server.url, retries=2).outcome == "pass"
        assert len(server.requests) == 3
        assert server.requests[0] == server.requests[2]
    with scripted(failure) as server:
        with pytest.raises(ServiceError):
            ask(server.url, retries=2)
        assert len(server.requests) == 3


@in_turn([301, 400, 401, 404, 408, 413, 415, 422, 500])
def test_what_would_fail_again_is_not_tried_again(ask: Ask, case: int) -> None:
    with scripted(problem(case, "some-kind", Location="/elsewhere")) as server:
        with pytest.raises(ServiceError, match=rf"{case} \(some-kind\): this is") as raised:
            ask(server.url)
        assert (raised.value.status, raised.value.problem) == (case, "some-kind")
        assert len(server.requests) == 1


def test_the_wait_that_the_service_asks_for_is_kept(
    ask: Ask, brief: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    async def slept(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(time, "sleep", waited.append)
    monkeypatch.setattr(asyncio, "sleep", slept)
    busy = problem(429, "queue-full", Retry_After="2")
    with scripted(busy, problem(503, "x"), says(DECISION)) as server:
        ask(server.url)
    assert 2.0 <= waited[0] <= 2.2 and waited[1] <= 0.002
    # A proxy may say a date.
    late = format_datetime(datetime.now(UTC) + timedelta(seconds=500), usegmt=True)
    with scripted(problem(503, "x", Retry_After=late), says(DECISION)) as server:
        ask(server.url, timeout=1000.0)
    assert 400.0 <= waited[2] <= 550.0
    # What would end after the caller's patience is not waited for.
    for asked in ("60", late):
        with scripted(problem(429, "queue-full", Retry_After=asked)) as server:
            with pytest.raises(ServiceError, match="429"):
                ask(server.url, timeout=30.0)
            assert len(server.requests) == 1


@pytest.mark.parametrize("act", [is_silent, trickles], ids=["silent", "trickles"])
def test_a_call_ends_in_time_whatever_the_service_does(ask: Ask, act: Act) -> None:
    with scripted(act) as server:
        with pytest.raises(ServiceError, match=r"no answer within 0\.3 s") as raised:
            ask(server.url, timeout=0.3)
        assert raised.value.status is None and len(server.requests) == 1


def test_nobody_there_is_an_error_that_names_the_place(ask: Ask, brief: None) -> None:
    with pytest.raises(ServiceError, match=r"POST /v1/check of http://127.0.0.1:9"):
        ask("http://127.0.0.1:9", retries=1)


def test_a_call_that_is_cancelled_ends_and_leaves_the_client_usable() -> None:
    async def go() -> None:
        with scripted(is_silent, says(DECISION)) as server:
            async with AsyncClient(server.url) as client:
                call = asyncio.create_task(client.check())
                while not server.requests:
                    await asyncio.sleep(0.01)
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
                assert (await client.check(id="a")).outcome == "pass"

    asyncio.run(go())


def test_many_calls_at_once_share_a_client(service: Service) -> None:
    async def go() -> list[Decision]:
        async with AsyncClient(service.url, token="secret", guardrail="surface") as client:
            calls = (client.check(**{**ANSWER, "id": str(number)}) for number in range(200))
            return await asyncio.gather(*calls)

    assert [item.id for item in asyncio.run(go())] == [str(number) for number in range(200)]


@in_turn(
    [
        ({"response": 1}, "response must be a text"),
        ({"columns": [1]}, "columns must be a dict"),
        ({"columns": {"risk": float("inf")}}, "risk must be a finite number"),
        ({"columns": {"risk": object()}}, "risk must be a number"),
        ({"samples": "one"}, "samples"),
        ({"evidence": 1}, "evidence must be True or False"),
        ({"timeout": 0}, "timeout must be a number of seconds above 0"),
        ({"retries": -1}, "retries must be at least 0"),
        ({"token": "two\nlines"}, "token must be a text of visible ASCII"),
        ({"token": b"x"}, "token must be a text of visible ASCII"),
    ],
)
def test_a_wrong_argument_is_named_before_anything_is_sent(
    ask: Ask, case: tuple[dict[str, Any], str]
) -> None:
    options, message = case
    with pytest.raises(InputError, match=message):
        ask("http://127.0.0.1:9", **options)


def test_a_wrong_item_is_named_by_its_place(ask: Ask) -> None:
    for items, message in (
        ([{}, {"answer": "x"}], r"items\[1\]: answer is no field of an answer"),
        ([{"id": 1}], r"items\[0\]: id must be a text"),
        (["text"], r"items\[0\]: an answer is a dict or an Example"),
        ([], "items must hold an answer at least"),
        ({"id": "a"}, "items must be a list of answers"),
    ):
        with pytest.raises(InputError, match=message):
            ask("http://127.0.0.1:9", "check_batch", items)


@in_turn(
    [
        *("127.0.0.1:8000", "ftp://h", "http://", "http://[::bad", "http://h:99999999", ""),
        *(
            "http://a b",
            "http://a\tb",
            "http://a/\n",
            "\rhttp://a",
            "http://a/\u2003",
            5,
            None,
            b"http://a",
        ),
        *("http://\ud800", "https://me:secret@h", "http://h?x=1", "http://h#f"),
    ],
)
def test_what_is_no_address_is_refused_and_no_password_repeated(ask: Ask, case: Any) -> None:
    with pytest.raises(InputError, match="url must be an address") as raised:
        ask(case)
    assert "secret" not in str(raised.value)


def test_an_address_may_have_a_path_before_the_routes(ask: Ask) -> None:
    with scripted(says(DECISION)) as server:
        ask(f"{server.url}/guards/", guardrail="a b")
        assert server.requests[0].startswith(b"POST /guards/v1/check?guardrail=a+b HTTP/1.1") or (
            server.requests[0].startswith(b"POST /guards/v1/check?guardrail=a%20b HTTP/1.1")
        )


def test_what_decides_and_what_may_be_released_come_from_the_service(
    ask: Ask, service: Service, surface: Path
) -> None:
    options = {"token": "secret", "guardrail": "surface"}
    described = ask(service.url, "guardrail", **options)
    assert described["name"] == "surface"
    items = [{**(ANSWER, NOVEL)[row % 2], "id": str(row)} for row in range(40)]
    released = ask(service.url, "select", items, fdr=0.3, **options)
    assert released["n"] == 40 and [item["id"] for item in released["items"]] == [
        item["id"] for item in items
    ]
    with pytest.raises(ServiceError) as raised:
        ask(service.url, "select", items, fdr=1.3, **options)
    assert raised.value.status == 422 and "fdr" in str(raised.value)


def test_both_clients_have_the_same_methods_with_the_arguments_of_check() -> None:
    for name in ("check", "check_batch", "select", "guardrail", "ready", "__init__"):
        one, two = (inspect.signature(getattr(kind, name)) for kind in (Client, AsyncClient))
        assert one == two, name
    local = dict(inspect.signature(Guardrail.check).parameters)
    remote = dict(inspect.signature(Client.check).parameters)
    assert remote.pop("evidence").default is remote.pop("probability").default is False
    assert remote.pop("base_rate").default is None
    assert {n: p.default for n, p in remote.items()} == {n: p.default for n, p in local.items()}


def test_a_client_loads_nothing_of_the_service_and_nothing_heavy() -> None:
    code = "import sys, calibrail; calibrail.Client('http://x'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    heavy = {"numpy", "scipy", "pyarrow", "pydantic", "torch", "fastapi", "uvicorn", "click"}
    assert not heavy & loaded
    rooms = {name for name in loaded if name.startswith("calibrail.serve.")}
    assert not rooms
    assert calibrail.Client is Client
