"""Is what batches answer the same, to the byte, as what is asked directly, at half the price?"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calibrail import repeat
from calibrail.data.example import Example
from calibrail.engine.local import asked_in_batches
from calibrail.errors import InputError, ModelError
from calibrail.models.batching import shared_models
from calibrail.models.llm.chat import open_cache
from calibrail.models.llm.transport import CallLimits, Price, limit_calls, read_price, table_price
from calibrail.pipelines.estimate import plan_calls
from calibrail.scores.decision_model import DecisionScore
from calibrail.scores.judge import Judge
from tests.answers import rows, write
from tests.batch_server import BatchServer
from tests.chat_server import Line, Reply, predicate, says, verdicts
from tests.command_line import calibrail
from tests.pipelines.test_judging import supported

pytestmark = pytest.mark.usefixtures("fresh_models", "quick_retries")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("FIRST_LOOK", 0.001), ("LONGEST_LOOK", 0.002), ("SETTLED", 0.02)):
        monkeypatch.setattr(f"calibrail.models.llm.batches.{name}", value)


def one_in_nine(body: dict[str, Any], n: int) -> str:
    """Refuse some questions within a batch, and have others expire once."""
    drawn = zlib.crc32(str(body["messages"]).encode()) % 9
    return {0: "400", 1: "" if n else "expired"}.get(drawn, "")


@pytest.mark.parametrize(
    ("words", "rest", "reply"),
    [
        (("calibrate", "--alpha", "0.2"), "", verdicts(supported)),
        (("compare", "--alpha", "0.2", "--score", "novelty"), ",mode=verdict", verdicts(supported)),
        (("score", "--unit", "sentence"), "", verdicts(lambda text: len(text) % 7 / 7)),
        (("score", "--shards", "shards"), ",mode=votes,votes=2", says("hallucination")),
        (
            ("calibrate", "--alpha", "0.2"),
            'hybrid:cheap=novelty,low=0.1,high=0.9,expensive="{}"',
            verdicts(supported),
        ),
        (
            ("calibrate", "--fit-share", "0.3", "--alpha", "0.2"),
            'ensemble:scores="novelty,{},mode=verdict"',
            verdicts(supported),
        ),
    ],
)
def test_the_result_is_the_direct_paths_to_the_byte(
    tmp_path: Path,
    words: tuple[str, ...],
    rest: str,
    reply: Callable[[dict[str, Any]], Reply],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = write(tmp_path / "answers.jsonl", rows(40))
    with BatchServer(reply, outcome=one_in_nine) as server:
        score = f"judge:model=m,base_url={server.url}"
        score = rest.format(score) if "{}" in rest else score + rest
        written, paid = [], []
        for way in ((), ("--batch",)):
            for cached in (shared_models, open_cache):
                cached.cache_clear()
            folder = tmp_path / (way[0] if way else "direct")
            monkeypatch.setenv("CALIBRAIL_CACHE", str(folder / "answers.sqlite"))
            output = folder / ("scores.jsonl" if words[0] == "score" else "run")
            command, *options = words
            options = [str(folder / item) if item == "shards" else item for item in options]
            price = () if command == "score" else ("--price", "1,2")
            run = calibrail(command, data, "--score", score, *options, *way, *price, "-o", output)
            assert run.returncode in (0, 3, 4), run.stderr
            files = [output] if output.is_file() else sorted(output.rglob("*"))
            written.append(
                {
                    path.name: path.read_bytes().replace(b" --batch", b"")
                    for path in files
                    if path.is_file() and path.name not in ("cost.json", "report.html")
                }
            )
            paid.append(server.paid.copy())
        assert written[0] == written[1] and written[0]
        # All but the first few, and what failed within the batch, came in batches.
        assert paid[1] == {key: 2 * n for key, n in paid[0].items()}
        n_direct = len(server.seen) - paid[0].total()
        assert 5 <= n_direct < paid[0].total() / 2
        assert "questions submitted to" in run.stderr


class KillingServer(BatchServer):
    """Kills the process that asks, once before and once after every kind of request to batches."""

    process: subprocess.Popen[bytes] | None = None

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.killed: set[tuple[str, str]] = set()

    def handle(self, line: Line) -> None:
        name = next((name for name in ("/files", "/batches") if name in line.path), None)
        if name is None or self.process is None:
            return super().handle(line)
        kind = f"{line.command} {name}{'/id' if '_' in line.path or '-' in line.path else ''}"
        if self._kills(kind, "before"):
            return None
        if (kind, "after") not in self.killed:
            # It is done, and nobody hears of it.
            line.send = lambda *_, **__: self._kills(kind, "after")  # type: ignore[method-assign]
        return super().handle(line)

    def _kills(self, kind: str, moment: str) -> bool:
        if (kind, moment) in self.killed:
            return False
        self.killed.add((kind, moment))
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        return True


SOON = """
from calibrail.cli import main
from calibrail.models.llm import batches
batches.FIRST_LOOK = batches.LONGEST_LOOK = 0.05
batches.SETTLED = 0.5
main()
"""


def test_a_command_that_is_killed_at_every_request_pays_nothing_twice(tmp_path: Path) -> None:
    data = write(tmp_path / "answers.jsonl", rows(40))
    with KillingServer(verdicts(supported), outcome=one_in_nine) as server:
        words = [
            "calibrate",
            data,
            "--alpha",
            "0.2",
            "--score",
            f"judge:model=m,base_url={server.url}",
        ]
        environment, written, paid, n_killed = {**os.environ}, [], [], 0
        for way in ("direct", "batch"):
            environment["CALIBRAIL_CACHE"] = str(tmp_path / way / "answers.sqlite")
            options = [
                *words,
                *(["--batch"] if way == "batch" else []),
                "-o",
                tmp_path / way / "run",
            ]
            command = [sys.executable, "-c", SOON, *map(str, options)]
            while True:
                process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
                server.process = process if way == "batch" else None
                _, err = process.communicate(timeout=120)
                if process.returncode != -signal.SIGKILL:
                    break
                n_killed += 1
            assert process.returncode in (0, 4), err.decode()
            files = [tmp_path / way / "run" / name for name in ("report.json", "scores.parquet")]
            written.append([path.read_bytes().replace(b" --batch", b"") for path in files])
            paid.append(server.paid.copy())
    kinds = ["POST /files", "POST /batches", "GET /batches/id", "GET /files/id", "GET /batches"]
    assert {(kind, moment) for kind in kinds for moment in ("before", "after")} == server.killed
    assert n_killed == len(server.killed)
    assert written[0] == written[1]
    assert paid[1] == {key: 2 * n for key, n in paid[0].items()}


def yes(body: dict[str, Any]) -> Reply:
    return Reply("yes", [{"yes": -0.1, "no": -2.5}])


def test_decisions_in_a_chat_are_asked_in_batches_from_the_first_answer_on(tmp_path: Path) -> None:
    answers = [Example("Who?", ("A document.",), f"Answer {i}.") for i in range(9)]
    with BatchServer(yes) as server:
        cache = tmp_path / "answers.sqlite"
        with limit_calls(CallLimits(cache=cache, batch=True)):
            score = DecisionScore(model="m", base_url=server.url)
            assert len(list(asked_in_batches(answers, [score], print))) == 9
            (batch,) = server.batches.values()
            assert len(batch["lines"]) == 9 and len(server.seen) == 3
        plain = CallLimits(cache=tmp_path / "other.sqlite", batch=True, price=Price(1.0, 1.0))
        routes = {"decisions": predicate(lambda text: 0.5)}
    with BatchServer(yes, routes=routes) as server, limit_calls(plain):
        said = list[str]()
        score = DecisionScore(model="m", base_url=server.url)
        (plan,) = plan_calls(answers, score, labelled=False)
        assert plan.dollars == plan.dollars_batch
        list(asked_in_batches(answers, [score], said.append))
        assert not server.batches and "no batch takes decisions" in said[0]


def test_who_takes_no_batches_says_so_before_anything_is_sent(tmp_path: Path) -> None:
    limits = CallLimits(cache=tmp_path / "answers.sqlite", batch=True, price=Price(1.0, 1.0))
    answers = [Example("Who?", ("A document.",), "Nobody.")]
    with limit_calls(limits) as spent:
        score = Judge(model="azure/mine")
        with pytest.raises(ModelError, match="how azure takes batches is not known here; leave"):
            list(asked_in_batches(answers, [score], print))
        assert not spent.n_sent
        (plan,) = plan_calls(answers, score, labelled=False)
        assert plan.dollars_batch is None and "--batch" not in plan.sentence()


def test_no_repeat_is_paid_for_whose_price_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(model: str) -> Price:
        raise InputError("no price")

    monkeypatch.setattr("calibrail.models.llm.transport.table_price", unknown)
    limits = CallLimits(cache=tmp_path / "answers.sqlite", price="auto")
    with BatchServer() as server, limit_calls(limits):
        with pytest.raises(InputError, match="no price"):
            repeat(
                [Example("Who?", ("It rained.",), "It rained.")],
                Judge(model="m", base_url=server.url),
            )
        batch = CallLimits(cache=tmp_path / "answers.sqlite", batch=True)
        with (
            pytest.raises(InputError, match="repeat asks each question by its"),
            limit_calls(batch),
        ):
            repeat("example:facts", Judge(model="m", base_url=server.url))
        assert not server.seen


def test_a_dry_run_shows_both_prices_and_takes_them_from_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALIBRAIL_CACHE", str(tmp_path / "answers.sqlite"))
    if importlib.util.find_spec("litellm") is None:
        pytest.skip("litellm is not installed")
    data = write(tmp_path / "answers.jsonl", rows(30))
    with BatchServer() as server:
        score = f"judge:model=gpt-4o-mini,base_url={server.url}"
        words = ("calibrate", data, "--score", score, "--dry-run", "-o", tmp_path / "run")
        run = calibrail(*words, "--price", "1000,2000")
        assert " at most, or $" in run.stdout and "with --batch" in run.stdout
        (plan,) = json.loads(calibrail(*words, "--price", "auto", "--json").stdout)["calls"]
        expected = table_price("gpt-4o-mini").of(plan["tokens_in"], plan["tokens_out"])
        assert plan["dollars"] == pytest.approx(expected) and expected > 0.0
        assert plan["dollars_batch"] == pytest.approx(expected / 2)
        # What takes no --batch names no price of it.
        run = calibrail("repeat", *words[1:], "--price", "1000,2000")
        assert " at most" in run.stdout and "--batch" not in run.stdout
        unknown = score.replace("gpt-4o-mini", "nobody-sells-this")
        for ways in ((), ("--batch",), ("--dry-run",)):
            asked = ("--score", unknown, "--price", "auto", *ways)
            run = calibrail("score", data, *asked, "-o", tmp_path / "scores.jsonl")
            assert run.returncode == 2 and "has no price of 'nobody-sells-this'" in run.stderr
        assert not server.seen and not server.web


def test_prices_are_read_with_that_of_cached_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_price("1,2,0.1") == Price(1.0, 2.0, 0.1)
    assert Price(1.0, 2.0, 0.1).of(1e6, 1e6, 4e5) == pytest.approx(0.6 + 0.04 + 2.0)
    for text in ("1", "1,2,3,4", "1,-2", "cheap", "nan,1"):
        with pytest.raises(InputError, match="or auto; got"):
            read_price(text)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    from calibrail.models.llm import transport

    transport._prices.cache_clear(), transport.table_price.cache_clear()
    with pytest.raises(InputError, match="pip install litellm, or give the price"):
        table_price("gpt-4o-mini")
