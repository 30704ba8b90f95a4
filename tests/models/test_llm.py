from __future__ import annotations

import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from calibrail.errors import CalibrailError, InputError
from calibrail.models.batching import progress_listener, shared_models
from calibrail.models.llm.chat import ChatAnswer, ChatRequest, Failure, RemoteModel, load_llm
from calibrail.models.llm.transport import BudgetError, CallLimits, Price, limit_calls
from tests.chat_server import ChatServer, Reply, always, key_of, scattered, verdicts

pytestmark = pytest.mark.usefixtures("fresh_models", "quick_retries")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "answers.sqlite"


def requests(n: int, text: str = "question") -> list[ChatRequest]:
    return [ChatRequest((("user", f"{text} {i}"),), sample=i) for i in range(n)]


def key(request: ChatRequest) -> str:
    return key_of({"model": "m", **request.parameters()})


def echo(body: dict[str, Any]) -> Reply:
    return Reply(f"faithful, {body['messages'][0]['content']}")


def texts(answers: list[ChatAnswer | Failure]) -> list[str]:
    return [answer.text if isinstance(answer, ChatAnswer) else answer.reason for answer in answers]


def test_every_request_gets_its_own_answer_and_is_sent_once(cache: Path) -> None:
    asked = requests(40)
    with ChatServer(echo) as server, limit_calls(CallLimits(cache=cache)) as spent:
        model = load_llm("m", server.url)
        answers = model.answers([*asked, *asked[::-1]])
        assert texts(answers[:40]) == [f"faithful, question {i}" for i in range(40)]
        assert answers[40:] == answers[39::-1]
        assert set(server.requests_per_key().values()) == {1}
        assert len(server.seen) == spent.n_sent == spent.n_answered == 40
        usage = model.usage
        assert (usage.n_answers, usage.n_sent, usage.n_cached, usage.n_failed) == (40, 40, 0, 0)
        assert usage.n_counted == 40
        assert usage.tokens_in == sum(max(1, len(f"question {i}") // 4) for i in range(40))
        assert usage.tokens_out == 40 * 3


def test_how_far_it_is_and_what_it_cost_is_told_answer_by_answer(cache: Path) -> None:
    shares, dollars = list[float](), list[float | None]()
    limits = CallLimits(price=Price(1e6, 0.0), cache=cache)
    with ChatServer(echo) as server, limit_calls(limits) as spent:

        def told(share: float) -> None:
            shares.append(share)
            dollars.append(spent.dollars())

        with progress_listener(told):
            load_llm("m", server.url).answers(requests(20))
        total = load_llm("m", server.url).usage.tokens_in
    assert shares == [k / 20 for k in range(1, 21)]
    assert dollars[-1] == total and None not in dollars


@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_so_many_calls_are_in_flight(concurrency: int) -> None:
    with ChatServer(latency=0.05) as server, limit_calls(CallLimits(concurrency=concurrency)):
        load_llm("m", server.url).answers(requests(24))
        assert server.max_in_flight == concurrency


@pytest.mark.parametrize("forgetting", [True, False])
def test_a_second_run_sends_nothing(forgetting: bool, cache: Path) -> None:
    with ChatServer(verdicts(lambda text: 0.3)) as server, limit_calls(CallLimits(cache=cache)):
        first = load_llm("m", server.url)
        said = first.answers(requests(30))
        if forgetting:
            first.forget()
            second = first
        else:
            shared_models.cache_clear()
            second = load_llm("m", server.url)
            assert second is not first
        before = second.usage
        assert second.answers(requests(30)) == said
        assert len(server.seen) == 30
        used = second.usage - before
        assert (used.n_answers, used.n_cached, used.n_sent) == (30, 30, 0)


def test_failures_are_reported_in_place_and_kept_out_of_the_cache(cache: Path) -> None:
    asked = requests(20)
    bad = {key(request) for request in asked[::4]}
    faults = lambda key, attempt: "500" if key in bad else None  # noqa: E731
    with ChatServer(echo, faults) as server, limit_calls(CallLimits(cache=cache, attempts=2)):
        model = load_llm("m", server.url)
        answers = model.answers(asked)
        for i, answer in enumerate(answers):
            if i % 4:
                assert texts([answer]) == [f"faithful, question {i}"]
            else:
                assert answer == Failure("HTTP 500 (server_error), asked 2 times")
        assert model.usage.n_failed == 5
        sent = len(server.seen)
        assert sent == 15 + 2 * 5
        # Within a run nothing is sent again; a later one asks what failed.
        model.answers(asked)
        assert len(server.seen) == sent
        model.forget()
        server.faults = lambda key, attempt: None
        assert texts(model.answers(asked)) == [f"faithful, question {i}" for i in range(20)]
        assert len(server.seen) == sent + 5


def test_who_ends_an_account_waits_for_no_endpoint_and_sends_nothing_more(cache: Path) -> None:
    limits = limit_calls(CallLimits(cache=cache))
    with ChatServer(echo, always("429"), retry_after=30) as server, limits as spent:

        def end() -> None:
            while len(server.seen) < 3:
                time.sleep(0.01)
            spent.end()

        Thread(target=end, daemon=True).start()
        answers = load_llm("m", server.url).answers(requests(3))
        # None was asked again, half a minute later.
        assert len(server.seen) == 3
        assert all(isinstance(answer, Failure) for answer in answers)
        n_sent = spent.n_sent
        with pytest.raises(CalibrailError, match="stopped"):
            load_llm("m", server.url).answers(requests(3, "another"))
        assert spent.n_sent == n_sent


def test_nothing_is_lost_where_much_goes_wrong(cache: Path) -> None:
    faults = scattered(0.4, "429", "500", "cut", "refused_line", "html", "empty_choices")
    asked = requests(80)
    with (
        ChatServer(echo, faults, retry_after=0.001) as server,
        limit_calls(CallLimits(cache=cache)),
    ):
        answers = load_llm("m", server.url).answers(asked)
        counts = server.requests_per_key()
        for i, (request, answer) in enumerate(zip(asked, answers, strict=True)):
            times = counts[key(request)]
            if isinstance(answer, Failure):
                assert times == 6
            else:
                assert answer.text == f"faithful, question {i}"
                assert all(faults(key(request), attempt) for attempt in range(times - 1))
                assert faults(key(request), times - 1) is None


def test_a_spent_budget_keeps_what_was_answered(cache: Path) -> None:
    asked = requests(30)
    with ChatServer(echo) as server:
        model = load_llm("m", server.url)
        with limit_calls(CallLimits(cache=cache, max_calls=12)), pytest.raises(BudgetError):
            model.answers(asked)
        assert len(server.seen) == 12
        shared_models.cache_clear()
        with limit_calls(CallLimits(cache=cache, max_calls=18)) as spent:
            answers = load_llm("m", server.url).answers(asked)
        assert texts(answers) == [f"faithful, question {i}" for i in range(30)]
        assert spent.n_sent == 18
        assert set(server.requests_per_key().values()) == {1}


def test_an_interrupt_keeps_what_was_answered(cache: Path) -> None:
    def interrupt(n: int) -> None:
        if n == 10:
            raise KeyboardInterrupt

    asked = requests(100)
    with ChatServer(echo, latency=0.02) as server:
        model = load_llm("m", server.url)
        limits = CallLimits(cache=cache, concurrency=4)
        with limit_calls(limits, interrupt), pytest.raises(KeyboardInterrupt):
            model.answers(asked)
        sent = len(server.seen)
        assert sent < 30
        time.sleep(0.1)
        assert len(server.seen) == sent
        with limit_calls(CallLimits(cache=cache)):
            answers = load_llm("m", server.url).answers(asked)
        assert texts(answers) == [f"faithful, question {i}" for i in range(100)]
        assert len(server.seen) == 100
        assert set(server.requests_per_key().values()) == {1}


def test_an_interrupt_does_not_wait_for_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrail.models.llm.transport.FIRST_WAIT", 60.0)
    monkeypatch.setattr("calibrail.models.llm.transport.LONGEST_WAIT", 60.0)
    asked = requests(8)
    good = key(asked[0])

    def faults(key: str, attempt: int) -> str | None:
        return None if key == good else "503"

    def interrupt(n: int) -> None:
        while len(server.seen) < len(asked):
            time.sleep(0.005)
        raise KeyboardInterrupt

    server = ChatServer(faults=faults)
    with server, limit_calls(CallLimits(), interrupt), pytest.raises(KeyboardInterrupt):
        load_llm("m", server.url).answers(asked)
    # Whoever waited for its time would have sent again.
    assert set(server.requests_per_key().values()) == {1}


def test_memory_is_bounded_and_serves_all_that_was_asked_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("calibrail.models.llm.chat.HELD", 10)
    bad = {key(request) for request in requests(8)}
    faults = lambda key, attempt: "400" if key in bad else None  # noqa: E731
    with ChatServer(echo, faults) as server:
        model = load_llm("m", server.url)
        model.prepare(requests(20))
        used = model.usage
        # Two scores look up what was prepared for both of them.
        model.answers(requests(8))
        model.answers(requests(20))
        assert len(server.seen) == 20
        assert model.usage == used
        model.answers(requests(4, "more"))
        assert len(model._held) <= 10
        model.answers(requests(20)[8:])
        assert len(server.seen) == 24


def test_what_would_be_asked_is_told_without_sending(cache: Path) -> None:
    asked = [ChatRequest((("user", "né\ud800"),), max_tokens=7), *requests(2)]
    with ChatServer() as server, limit_calls(CallLimits(cache=cache)):
        model = load_llm("m", server.url)
        assert isinstance(model, RemoteModel)
        assert model.tokens_so_far() is None
        model.answers(asked[1:])
        first, second, _ = map(model.question, asked)
        assert (first.texts, first.max_tokens) == (["né\ud800"], 7)
        assert [model.knows(first), model.knows(second)] == [False, True]
        assert second.key == asked[1].key(server.url, "m")
        assert len(server.seen) == 2
        assert model.tokens_so_far() == pytest.approx(2 / len("question 0"))


def test_the_cache_holds_no_question(cache: Path) -> None:
    asked = [ChatRequest((("user", "a SECRET question"),))]
    with ChatServer() as server, limit_calls(CallLimits(cache=cache)):
        load_llm("m", server.url).answers(asked)
    held = b"".join(path.read_bytes() for path in cache.parent.iterdir())
    assert b"SECRET" not in held
    assert b"faithful" in held


def test_a_model_is_shared_and_named() -> None:
    assert load_llm("m", "http://e/v1") is load_llm("m", "http://e/v1/")
    assert load_llm("m", "http://e/v1") is not load_llm("n", "http://e/v1")
    for name in ("", None, 3):
        with pytest.raises(InputError, match="model must be a name"):
            load_llm(name, "http://e/v1")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="base_url"):
        load_llm("m", "nowhere")
