"""Is what a batch answers paid for once, kept, and the same as when it is asked directly?"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calibrail.engine.local import asked_in_batches
from calibrail.errors import InputError, ModelError
from calibrail.models.batching import shared_models
from calibrail.models.llm import batches
from calibrail.models.llm.batches import AnthropicBatches, ask_in_batches
from calibrail.models.llm.chat import ChatAnswer, ChatRequest, Failure, load_llm, open_cache
from calibrail.models.llm.transport import (
    AgainError,
    BudgetError,
    CallLimits,
    Price,
    limit_calls,
)
from calibrail.scores.judge import Judge
from tests.batch_server import BatchServer
from tests.chat_server import Line, LocalServer, RefusedError, Reply

pytestmark = pytest.mark.usefixtures("fresh_models", "quick_retries", "soon")

KEY = "sk-test-4b1f"


class KilledError(BaseException):
    """The process ends here."""


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("FIRST_LOOK", 0.001), ("LONGEST_LOOK", 0.002), ("SETTLED", 0.02)):
        monkeypatch.setattr(batches, name, value)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "answers.sqlite"


def echo(body: dict[str, Any]) -> Reply:
    return Reply(f"faithful, {body['messages'][0]['content']}")


def requests(n: int, first: int = 0) -> list[ChatRequest]:
    return [ChatRequest((("user", f"question {i}"),)) for i in range(first, first + n)]


def texts(answers: list[ChatAnswer | Failure]) -> list[str]:
    return [answer.text if isinstance(answer, ChatAnswer) else answer.reason for answer in answers]


def asked(
    server: BatchServer, cache: Path, wanted: list[ChatRequest], said: list[str] | None = None
) -> list[str]:
    """Return the answers of a process of its own, by batches and then directly."""
    shared_models.cache_clear()
    open_cache.cache_clear()
    say = (lambda line: None) if said is None else said.append
    with limit_calls(CallLimits(cache=cache, batch=True, attempts=2)):
        model = load_llm("m", server.url)
        ask_in_batches({model: wanted}, say)
        return texts(model.answers(wanted))


@pytest.fixture(params=["openai", "anthropic"])
def shape(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which shape the provider's batches have; the server knows both."""
    if request.param == "anthropic":
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setattr(batches, "provider_of", AnthropicBatches)
    return str(request.param)


def to(server: BatchServer, monkeypatch: pytest.MonkeyPatch) -> BatchServer:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url.removesuffix("/v1"))
    return server


def test_a_batch_answers_all_at_half_the_price_and_tells_how_far_it_is(
    cache: Path, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, said = list[int](), list[str]()
    with BatchServer(echo) as server:
        to(server, monkeypatch)
        limits = CallLimits(cache=cache, batch=True, price=Price(1e6, 0.0))
        with limit_calls(limits, seen.append) as spent:
            model = load_llm("m", server.url)
            ask_in_batches({model: requests(20)}, said.append)
            answers = model.answers(requests(20))
        assert texts(answers) == [f"faithful, question {i}" for i in range(20)]
        assert not server.seen and set(server.paid.values()) == {1}
        assert server.keys == {KEY if shape == "anthropic" else f"Bearer {KEY}"}
    used = model.usage
    assert (used.n_answers, used.n_sent, used.n_cached, spent.n_sent) == (20, 20, 0, 20)
    assert spent.dollars() == pytest.approx(0.5 * used.tokens_in)
    assert used.tokens_cached == (20 if shape == "anthropic" else 0)
    assert seen[-1] == 20 and "20 questions submitted" in said[0] and "20 of 20" in said[-1]
    # Nothing of it stays but the answers.
    assert not list(cache.with_name("answers.sqlite.batches").iterdir())


def refuses_one(body: dict[str, Any], n: int) -> str:
    return "400" if "question 3" in str(body) else ""


def end_at(monkeypatch: pytest.MonkeyPatch, steps: list[int], where: str) -> Iterator[int]:
    """End the process before or after these requests, or lose the answers; return the numbers."""
    parts, count = batches.OpenAIBatches._parts, iter(range(1000))

    def killed(self: Any, method: str, path: str, *more: Any) -> Iterator[bytes]:
        here = next(count) in steps
        if here and where == "before":
            raise KilledError
        answer = list(parts(self, method, path, *more))
        if here and where == "lost":
            raise batches.AgainError("the connection failed")
        if here and path.endswith(("content", "results")):
            # In the middle of the results.
            yield answer[0][: len(answer[0]) // 2]
        if here:
            raise KilledError
        yield from answer

    monkeypatch.setattr(batches.OpenAIBatches, "_parts", killed)
    return count


#: The requests of a batch: upload, begin, look twice, read the answers, read the errors.
STEPS = [("openai", step) for step in range(6)] + [("anthropic", step) for step in range(4)]


@pytest.mark.parametrize(("shape", "step"), STEPS, indirect=["shape"])
@pytest.mark.parametrize("where", ["before", "after", "lost"])
def test_killed_at_any_step_nothing_is_paid_twice_and_none_is_lost(
    cache: Path, shape: str, step: int, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = end_at(monkeypatch, [step], where)
    with BatchServer(echo, outcome=refuses_one) as server:
        to(server, monkeypatch)
        if where != "lost":
            with pytest.raises(KilledError):
                asked(server, cache, requests(8))
        # The same command, and one that asks for more.
        assert asked(server, cache, requests(8)) == [f"faithful, question {i}" for i in range(8)]
        assert asked(server, cache, requests(9))[8:] == ["faithful, question 8"]
        assert set(server.paid.values()) == {1} and len(server.paid) == 9
        # What failed within the batch was asked by itself.
        assert len(server.seen) == 1
    assert next(count) > step


@pytest.mark.parametrize("seed", range(3))
def test_killed_again_and_again_nothing_is_paid_twice(
    cache: Path, shape: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = random.Random(seed)
    with BatchServer(echo, outcome=refuses_one) as server:
        to(server, monkeypatch)
        for _ in range(6):
            with monkeypatch.context() as patched:
                end_at(patched, [drawn.randrange(5)], drawn.choice(["before", "after"]))
                with suppress(KilledError):
                    asked(server, cache, requests(8))
        assert asked(server, cache, requests(8)) == [f"faithful, question {i}" for i in range(8)]
        assert set(server.paid.values()) == {1} and len(server.paid) == 8


def test_a_batch_holds_what_the_cache_lacks_and_no_text_is_kept(
    cache: Path, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BatchServer(echo) as server:
        to(server, monkeypatch)
        with limit_calls(CallLimits(cache=cache)):
            load_llm("m", server.url).answers(requests(5))
        server.looks, kept = 3, list[str]()
        look = batches.FIRST_LOOK
        monkeypatch.setattr(
            "calibrail.models.llm.batches.time.sleep",
            lambda pause: kept.extend(
                path.read_text() for path in cache.parent.rglob("*.json") if pause >= look
            ),
        )
        asked(server, cache, requests(12))
        (batch,) = server.batches.values()
        assert len(batch["lines"]) == 7 and set(server.paid.values()) == {1}
        assert kept and not any("question" in text or KEY in text for text in kept)
        assert set(json.loads(kept[0])["characters"].values()) == {10, 11}


def test_batches_keep_to_the_providers_limits(
    cache: Path, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = AnthropicBatches if shape == "anthropic" else batches.OpenAIBatches
    monkeypatch.setattr(kind, "most", 4)
    with BatchServer(echo) as server:
        to(server, monkeypatch)
        assert len(asked(server, cache, requests(10))) == 10
        assert [len(batch["lines"]) for batch in server.batches.values()] == [4, 4, 2]
        monkeypatch.setattr(kind, "most_bytes", 700)
        asked(server, cache, requests(20))
        later = [batch["lines"] for batch in server.batches.values()][3:]
        assert all(len(json.dumps(lines)) < 800 for lines in later) and len(later) > 2
        assert set(server.paid.values()) == {1}


@pytest.mark.parametrize(
    ("what", "n_batches", "n_direct"),
    [
        # Not in time, or the provider failed: once more, in another batch.
        (lambda body, n: "expired" if n < 1 else "", 2, 0),
        (lambda body, n: "529" if n < 2 else "", 3, 0),
        # At some time it is asked by itself.
        (lambda body, n: "expired", 3, 3),
        # What the endpoint does not know is left out of the next batch.
        (lambda body, n: "temperature" if "temperature" in body else "", 2, 0),
        (lambda body, n: "max_tokens" if "max_tokens" in body else "", 2, 0),
        # What no other batch can mend is refused directly, too.
        (lambda body, n: "prompt", 1, 3),
    ],
)
def test_what_fails_within_a_batch_is_asked_again(
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: Callable[[dict[str, Any], int], str],
    n_batches: int,
    n_direct: int,
) -> None:
    def outcome(body: dict[str, Any], n: int) -> str:
        return what(body, n) if int(body["messages"][0]["content"][9:]) < 3 else ""

    with BatchServer(echo, outcome=outcome) as server:
        answers = asked(server, cache, requests(8))
        assert answers == [f"faithful, question {i}" for i in range(8)]
        assert set(server.paid.values()) == {1}
        assert [len(batch["lines"]) for batch in server.batches.values()] == [8, 3, 3][:n_batches]
        assert len(server.seen) == n_direct


@pytest.mark.parametrize("refused", [False, True])
def test_a_model_that_thinks_to_the_end_is_asked_again_in_a_batch(
    cache: Path, shape: str, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    if refused and shape == "anthropic":
        pytest.skip("Anthropic ends such an answer, and refuses none")

    def starves(body: dict[str, Any]) -> bool:
        limit = body.get("max_tokens") or body["max_completion_tokens"]
        return limit == 10 and int(body["messages"][-1]["content"][9:]) < 12

    def reply(body: dict[str, Any]) -> Reply:
        return Reply("", finish="length") if starves(body) else echo(body)

    def outcome(body: dict[str, Any], n: int) -> str:
        return "Could not finish the message." if refused and starves(body) else ""

    thinking = [replace(item, max_tokens=10, most_tokens=4096) for item in requests(14)]
    said = list[str]()
    with BatchServer(reply, outcome=outcome) as server:
        answers = asked(to(server, monkeypatch), cache, thinking, said)
        assert answers == [f"faithful, question {i}" for i in range(14)]
        assert [len(batch["lines"]) for batch in server.batches.values()] == [14, 12]
        # What was cut is paid for, too; what was refused is not.
        assert not server.seen and sum(server.paid.values()) == (14 if refused else 26)
    (told,) = [line for line in said if "with more tokens" in line]
    assert "12 questions submitted" in told and ", 12 with more tokens" in told


def test_what_was_answered_with_more_tokens_is_not_paid_for_again(cache: Path) -> None:
    def reply(body: dict[str, Any]) -> Reply:
        return Reply("", finish="length") if body["max_tokens"] == 10 else echo(body)

    thinking = [replace(item, max_tokens=10, most_tokens=4096) for item in requests(14)]
    with BatchServer(reply) as server, limit_calls(CallLimits(cache=cache)):
        # As the first few of a run are, which show what the model needs.
        load_llm("m", server.url).answers(thinking[:2])
        n_direct = len(server.seen)
        for _ in range(2):
            answers = asked(server, cache, thinking)
            assert answers == [f"faithful, question {i}" for i in range(14)]
        assert [len(batch["lines"]) for batch in server.batches.values()] == [12]
        assert len(server.seen) == n_direct


def test_a_batch_that_somebody_cancels_ends_the_run_and_its_answers_are_kept(
    cache: Path, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = lambda body, n: "cancelled" if "question 1" in str(body) and not n else ""  # noqa: E731
    with BatchServer(echo, outcome=outcome) as server:
        to(server, monkeypatch)
        with pytest.raises(ModelError, match=r"was cancelled, after 9 of 10 answers.*run the sa"):
            asked(server, cache, requests(10))
        assert len(asked(server, cache, requests(10))) == 10
        assert [len(batch["lines"]) for batch in server.batches.values()] == [10, 1]
        assert set(server.paid.values()) == {1}


@pytest.mark.parametrize(
    ("named", "error"),
    [
        ({"outcome": lambda body, n: "prompt"}, r"refused question by question \(HTTP 400\); or"),
        (
            {"offers": False},
            r"HTTP 404 .*: it takes no batches; leave --batch out \(Call",
        ),
        (
            {"refuses": ("invalid_json_line",)},
            r"batch_2 at .* was refused \(invalid_json_line\)",
        ),
        ({"refuses": ("token_limit_exceeded",) * 5}, r"batch_\d+ at .* was refused \(token_limit"),
    ],
)
def test_a_batch_that_is_refused_names_the_code_and_the_remedy(
    cache: Path, named: dict[str, Any], error: str
) -> None:
    with BatchServer(echo, **named) as server:
        with pytest.raises(ModelError, match=error):
            asked(server, cache, requests(12))
        assert not server.paid and not server.seen
        server.offers, server.refuses, server.outcome = True, [], lambda body, n: ""
        assert len(asked(server, cache, requests(12))) == 12


def test_what_is_too_much_at_a_time_is_asked_in_parts(cache: Path) -> None:
    said = list[str]()
    with BatchServer(echo, refuses=("token_limit_exceeded",)) as server:
        assert len(asked(server, cache, requests(9), said)) == 9
        assert [len(batch["lines"]) for batch in server.batches.values()] == [9, 4, 4, 1]
        assert set(server.paid.values()) == {1}
        assert any("9 questions are too many at a time" in line for line in said)


def test_two_at_once_ask_each_question_once(cache: Path, shape: str, monkeypatch: Any) -> None:
    with BatchServer(echo, looks=5) as server:
        to(server, monkeypatch)
        results: dict[int, list[str]] = {}

        def work(first: int) -> None:
            wanted = requests(20, first)
            with limit_calls(CallLimits(cache=cache, batch=True)):
                model = load_llm("m", server.url)
                ask_in_batches({model: wanted}, lambda line: None)
                results[first] = texts(model.answers(wanted))

        threads = [threading.Thread(target=work, args=(first,)) for first in (0, 10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {first: len(set(found)) for first, found in results.items()} == {0: 20, 10: 20}
        assert set(server.paid.values()) == {1} and len(server.paid) == 30 and not server.seen
        assert sorted(len(batch["lines"]) for batch in server.batches.values()) == [10, 20]


def test_an_interrupted_run_says_that_the_batch_goes_on(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = list[str]()
    with BatchServer(echo, looks=2) as server:

        def interrupted(pause: float) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr("calibrail.models.llm.batches.time.sleep", interrupted)
            asked(server, cache, requests(6), said)
        assert "goes on there: the same command picks it up, and pays nothing twice" in said[-1]
        # A run without batches would ask again, and says so; one of another model need not.
        for name, n_lines in (("m", 1), ("other", 0)):
            told = list[str]()
            with limit_calls(CallLimits(cache=cache)):
                asked_in_batches([], [Judge(model=name, base_url=server.url)], told.append)
            assert len(told) == n_lines and all("of 6 questions" in line for line in told)
        asked(server, cache, requests(6), said)
        assert any("6 questions, picked up" in line for line in said)
        assert len(server.batches) == 1 and set(server.paid.values()) == {1}


def test_another_batch_of_as_many_questions_is_not_taken_for_ones_own(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setattr(batches, "provider_of", AnthropicBatches)
    create = AnthropicBatches.create

    def killed(self: Any, batch: Any, lines: Any) -> str:
        raise KilledError

    with BatchServer(echo, looks=1) as server:
        to(server, monkeypatch)
        other = cache.with_name("other.sqlite")
        asked(server, other, requests(6, 100))
        monkeypatch.setattr(AnthropicBatches, "create", killed)
        with pytest.raises(KilledError):
            asked(server, cache, requests(6))
        monkeypatch.setattr(AnthropicBatches, "create", create)
        assert asked(server, cache, requests(6)) == [f"faithful, question {i}" for i in range(6)]
        assert len(server.batches) == 2 and set(server.paid.values()) == {1}


def test_a_budget_covers_what_is_submitted(cache: Path) -> None:
    with (
        BatchServer(echo) as server,
        limit_calls(CallLimits(cache=cache, batch=True, max_calls=4)) as spent,
    ):
        model = load_llm("m", server.url)
        ask_in_batches({model: requests(6)}, lambda line: None)
        assert len(server.paid) == spent.n_sent == spent.n_answered == 4
        with pytest.raises(BudgetError, match="budget of 4 calls is spent, after 4 answ"):
            model.answers(requests(6))


def test_batches_need_a_file_to_be_picked_up_from_and_the_key_that_they_came_with(
    cache: Path,
) -> None:
    with pytest.raises(InputError, match="name a file with CALIBRAIL_CACHE"):
        CallLimits(cache=None, batch=True)
    with BatchServer(echo, looks=10**6) as server:
        with pytest.raises(KilledError), pytest.MonkeyPatch.context() as patched:

            def killed(pause: float) -> None:
                raise KilledError

            patched.setattr("calibrail.models.llm.batches.time.sleep", killed)
            asked(server, cache, requests(3))
        server.batches.clear()
        with pytest.raises(ModelError, match=r"about the batch batch_2 of .*: is the key that"):
            asked(server, cache, requests(3))
        # After a month nobody has the answers any more.
        (path,) = cache.with_name("answers.sqlite.batches").iterdir()
        known = json.loads(path.read_text())
        path.write_text(json.dumps(known)[:-9])
        with pytest.raises(ModelError, match=f"{path} does not describe a batch under way.*delete"):
            asked(server, cache, requests(3))
        path.write_text(json.dumps({**known, "created": known["created"] - 31 * 86_400}))
        server.looks = 0
        assert len(asked(server, cache, requests(3))) == 3


def test_two_models_batches_are_under_way_together(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BatchServer(echo) as server, limit_calls(CallLimits(cache=cache, batch=True)):
        ask_in_batches({load_llm(name, server.url): requests(3) for name in "ab"}, print)
        begun = [place for place, line in enumerate(server.web) if line == "POST /v1/batches"]
        assert begun == [1, 3] and len(server.batches) == 2


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
def test_a_providers_batches_go_where_it_is_asked_directly(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "https://proxy.example/v1/")
    batch = batches.provider_of("openai", CallLimits())
    assert batch._access("openai") == (
        "https://proxy.example/v1",
        {"Authorization": f"Bearer {KEY}"},
    )
    monkeypatch.setenv(variable, "https://user:secret@proxy.example/v1")
    with pytest.raises(InputError, match="must hold no user") as caught:
        batches.provider_of("openai", CallLimits())
    assert "secret" not in str(caught.value)


def test_a_dry_run_counts_what_a_model_that_thinks_is_allowed(cache: Path) -> None:
    thinking = [
        ChatRequest((("user", f"question {i}"),), max_tokens=10, most_tokens=4096) for i in range(2)
    ]
    with BatchServer(echo) as server, limit_calls(CallLimits(cache=cache)):
        model = load_llm("m", server.url)
        assert [model.question(item).max_tokens for item in thinking] == [10, 10]
        model.answers([thinking[0].raised()])
        assert [model.question(item).max_tokens for item in thinking] == [4096, 4096]


SECRET = "sk-secret-1234567890"


class Odd(LocalServer):
    """Answers whatever is asked in one way."""

    def __init__(self, answer: Callable[[Line], None]) -> None:
        super().__init__()
        self.answer, self.n = answer, 0

    def handle(self, line: Line) -> None:
        self.n += 1
        self.answer(line)


def says(body: Any, status: int = 200) -> Odd:
    return Odd(lambda line: line.send(status, body))


def provider(server: LocalServer, timeout: float = 20.0) -> batches.OpenAIBatches:
    return batches.provider_of(server.url, CallLimits(attempts=2, timeout=timeout))


def test_a_key_that_a_batch_gives_back_stands_nowhere(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with BatchServer(lambda body: Reply(f"faithful, {SECRET}")) as server:
        assert asked(server, cache, requests(2)) == ["faithful, [key]"] * 2
    with BatchServer(echo, refuses=(SECRET,)) as server:
        with pytest.raises(ModelError, match="was refused") as caught:
            asked(server, cache, requests(2, first=2))
        assert SECRET not in str(caught.value)
    for status in (400, 401, 429, 500):
        error = RefusedError(status, SECRET, kind=SECRET, code=SECRET, param=SECRET)
        with says(error.body, status) as odd, pytest.raises(Exception, match="HTTP") as told:
            provider(odd).send("GET", "/batches/x")
        assert SECRET not in f"{told.value!r} {told.value}"


def drips_headers(line: Line) -> None:
    line.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for _ in range(60):
        if not line.wait(0.05):
            break
        line.wfile.write(b"X-Wait: a\r\n")
    line.hang_up()


@pytest.mark.parametrize("drip", [lambda line: line.send_slowly("x" * 60, 0.05), drips_headers])
def test_what_drips_in_ends_by_the_time_of_the_call(drip: Callable[[Line], None]) -> None:
    with Odd(drip) as server, pytest.raises(AgainError, match="in the time of a call"):
        provider(server, 0.3).send("GET", "/batches/x")
    with Odd(drip) as server, pytest.raises(AgainError, match="in the time of a call"):
        list(provider(server, 0.3).lines("/files/x/content"))


def test_what_moves_prolongs_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "SLOWEST", 1)
    with Odd(lambda line: line.send_slowly("x" * 40, 0.05)) as server:
        assert provider(server, 1.0).send("POST", "/files", content=b"some bytes") == "x" * 40


def test_what_a_provider_sends_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MOST_JSON", 1000)
    with says(b'"%s"' % (b"x" * 998)) as server:
        assert len(provider(server).send("GET", "/batches/x")) == 998
    told = r"sent more than 1,000 bytes; leave --batch out"
    with says(b'"%s"' % (b"x" * 999)) as server, pytest.raises(ModelError, match=told):
        provider(server).send("GET", "/batches/x")
    for name, n_most, what in (
        ("MOST_FILE", 22, "21 bytes"),
        ("MOST_LINE", 9, "8 bytes of one line"),
        ("most", 4, "3 lines"),
    ):
        with monkeypatch.context() as patched, says(b"[1234567]\n \n[]\n\n[]\n[2]") as server:
            assert list(provider(server).lines("/x")) == [[1234567], [], [], [2]]
            where = batches.OpenAIBatches if name == "most" else batches
            # All that is sent comes at once: what stands behind a line is no part of it.
            patched.setattr(where, name, n_most)
            assert len(list(provider(server).lines("/x"))) == 4
            patched.setattr(where, name, n_most - 1)
            with pytest.raises(ModelError, match=f"sent more than {what}; leave"):
                list(provider(server).lines("/x"))
    monkeypatch.setattr(batches, "MOST_PAGES", 3)
    page = {"data": [{"id": "a", "created_at": 9e12}], "has_more": True}
    with says(page) as server, pytest.raises(ModelError, match="more than 3 pages of batches"):
        list(provider(server).list_since(0.0))
    assert server.n == 3


@pytest.mark.parametrize(
    "body", [{"error": "busy"}, ["busy"], b"busy", {"error": [[]]}, b"[" * 9000]
)
def test_a_text_in_place_of_an_error_is_another_attempt(body: Any) -> None:
    with says(body, 500) as server:
        with pytest.raises(ModelError, match=r"did not answer, asked 2 times \(HTTP 500\)"):
            provider(server).retried(lambda: provider(server).send("GET", "/batches/x"))
        assert server.n == 2


class Busy(BatchServer):
    """Says that it is busy in a text where others have an object."""

    def _line(self, body: dict[str, Any], what: str) -> dict[str, Any]:
        busy = {"response": {"status_code": 500, "body": {"error": "busy"}}, "error": "busy"}
        return busy if what else super()._line(body, what)


def test_a_text_in_place_of_a_questions_error_has_it_asked_again(cache: Path) -> None:
    with Busy(echo, outcome=lambda body, n: "" if n else "500") as server:
        assert asked(server, cache, requests(3)) == [f"faithful, question {i}" for i in range(3)]


@pytest.mark.parametrize(
    "body",
    [
        *(b"[]", b'"x"', b"[" * 9000, b"\xff", b"null"),
        b'{"data": [[]], "id": [], "request_counts": "x", "status": 5, "errors": [1]}',
        b'{"data": [{"created_at": "x"}], "request_counts": {"completed": Infinity}}',
        b'{"data": {"x": 1}, "request_counts": {"completed": [1]}, "response": "x"}',
    ],
)
def test_an_answer_of_another_shape_is_explained(body: bytes) -> None:
    state = batches.BatchState(True, 1, ("f",))
    with says(body) as server:
        odd = provider(server)
        acts: list[Callable[[], Any]] = [
            lambda: odd.look("x"),
            lambda: list(odd.list_since(0.0)),
            lambda: next(iter(odd.results("x", state))),
        ]
        for act in acts:
            with pytest.raises(ModelError, match=r"did not answer, asked 2 times \((no|the) "):
                odd.retried(act)
