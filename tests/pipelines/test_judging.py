"""Does a judge go from labelled answers to a frozen guardrail, and lose nothing on the way?"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrail import Example, Guardrail, calibrate, certify, compare
from calibrail.engine import score_examples
from calibrail.errors import CalibrailError, ModelError
from calibrail.models.llm.transport import BudgetError, CallLimits, Price, limit_calls
from calibrail.pipelines.check import check_source
from calibrail.pipelines.estimate import plan_calls
from calibrail.scores import build, parse_spec
from calibrail.scores.judge_replies import UNREADABLE
from calibrail.scores.registry import ScoreSpec
from tests.answers import rows, write
from tests.chat_server import ChatServer, Reply, always, key_of, says, scattered, text_of, verdicts
from tests.served_models import LogprobServer, TransformersServe

KEY = "sk-test-1f8c93d2a7"


def supported(text: str) -> float:
    """P(hallucination) by the share of the answer's words that no document holds."""
    answer = re.findall(r"\w+", text.split("<answer>")[1].split("</answer>")[0].lower())
    known = set(re.findall(r"\w+", text.split("<question>")[0].lower()))
    novel = sum(word not in known for word in answer) / max(1, len(answer))
    # A digest breaks ties, so that the score is continuous.
    return min(0.98, max(0.02, 0.9 * novel + 0.1 * _unit(text)))


def _unit(text: str) -> float:
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 16**8


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_models: None) -> None:
    """A cache and an environment of one's own."""
    monkeypatch.setenv("CALIBRAIL_CACHE", str(tmp_path / "answers.sqlite"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr("calibrail.models.llm.transport.FIRST_WAIT", 0.005)
    monkeypatch.setattr("calibrail.models.llm.transport.LONGEST_WAIT", 0.02)


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    return write(tmp_path / "answers.jsonl", rows(60))


def judge(server: ChatServer | LogprobServer | TransformersServe, **params: Any) -> ScoreSpec:
    return ScoreSpec("judge", {"model": "tiny", "base_url": server.url, **params})


def spec(server: ChatServer, rest: str = "") -> str:
    return f"judge:model=tiny,base_url={server.url}{rest}"


def test_a_judge_is_calibrated_frozen_and_decides_alike(answers: Path, tmp_path: Path) -> None:
    with ChatServer(verdicts(supported), served="tiny-2026-01-01") as server:
        with limit_calls(CallLimits(price=Price(1.0, 2.0))):
            run = calibrate(answers, spec(server), alpha=0.2, max_fpr=0.9)
        n_sent = len(server.seen)
        assert run.table is not None and n_sent == len(run.table)
        run.save(tmp_path / "run")
        report = json.loads((tmp_path / "run" / "report.json").read_text())
        assert report["score"]["params"]["served"] == "tiny-2026-01-01"
        assert report["score"]["params"]["mode"] == "logprob"
        (calls,) = report["data"]["calls"]
        assert (calls["n"], calls["n_judged"]) == (n_sent, n_sent)
        expected = 1000 * (calls["tokens_in"] + 2 * calls["tokens_out"]) / 1e6
        assert calls["dollars_per_1000"] == pytest.approx(expected)
        guardrail = run.freeze()
        guardrail.save(tmp_path / "g.json")
        loaded = Guardrail.load(tmp_path / "g.json")
        from calibrail import read

        examples = list(read(answers))
        decisions = loaded.decide(examples)
        key = next(iter(run.table.columns))
        assert [d.score for d in decisions] == run.table.columns[key].tolist()
        assert len(server.seen) == n_sent, "answers that are known were asked for again"
    # The same run again, with nobody there to answer.
    again = calibrate(answers, spec(server), alpha=0.2, max_fpr=0.9)
    assert again.report.test.to_dict() == run.report.test.to_dict()


def rated(body: dict[str, Any]) -> Reply:
    return Reply(str(1 + int(4.99 * (1.0 - supported(text_of(body["messages"]))))))


@pytest.mark.parametrize(
    ("reply", "rest", "remedy"),
    [
        (rated, "", "scale=1-5,higher=faithful (or hallucinated) would read them"),
        (says("Yes."), ",mode=votes", "scale=no/yes,higher=faithful (or h"),
        (says("B"), "", "scale=A-E,higher=faithful (or h"),
        (says('{"hallucination": 0.2}'), "", "mode=graded would read them"),
        (says("faithful"), ",scale=1-5,higher=faithful", "mode=verdict would read them"),
        (lambda body: Reply("Let me see", finish="length"), "", "allow more with max_tokens"),
        (says("It is supported."), "", "no mode would read them: mend the template"),
    ],
)
def test_a_judge_that_cannot_be_read_stops_after_a_few_calls(
    answers: Path, reply: Callable[[dict[str, Any]], Reply], rest: str, remedy: str
) -> None:
    with ChatServer(reply, logprobs=False) as server:
        with pytest.raises(CalibrailError, match="none of the judge's first 5 replies") as stop:
            calibrate(answers, spec(server, rest), alpha=0.2)
        assert remedy in str(stop.value)
        assert len(re.findall('"(?=[:;,]|$)|", ', str(stop.value))) >= 3
        assert len(server.seen) == 5
        # What was paid for is kept, and others go on.
        run = compare(answers, [spec(server, rest), "novelty"], alpha=0.2)
        assert len(server.seen) == 5
        values = run.scored.table.columns
        assert [bool(np.isnan(values[key]).all()) for key in run.scored.keys] == [True, False]
        assert any(remedy in str(note) for note in run.scored.lessons)


def test_a_rating_judge_is_frozen_with_its_scale_and_stops_in_a_check(
    answers: Path, tmp_path: Path
) -> None:
    with ChatServer(rated) as server:
        run = calibrate(answers, spec(server, ",scale=1-5,higher=faithful"), alpha=0.2)
        assert run.table is not None
        (values,) = (run.table.columns[key] for key in run.table.columns if "judge" in key)
        assert set(values.tolist()) <= {0.0, 0.25, 0.5, 0.75, 1.0}
        assert values[run.table.labels == 1].mean() > values[run.table.labels == 0].mean()
        assert "number from 1 to 5" in text_of(server.seen[0].body["messages"])
        run.freeze().save(tmp_path / "g.json")
        loaded, frozen = Guardrail.load(tmp_path / "g.json"), build(parse_spec(spec(server)))
        assert loaded.score.params["mode"] == "rating"
        assert loaded.score.fingerprint()["rating"] == "1-5, higher=faithful"
        assert "rating" not in frozen.fingerprint() and "scale" not in frozen.params
        server.answer, before = says("perhaps"), len(server.seen)
        fresh = [{**row, "response": f"{row['response']} Anew."} for row in rows(30)]
        fresh_file = write(tmp_path / "fresh.jsonl", fresh)
        with pytest.raises(ModelError, match="none of the judge's first 5 replies"):
            check_source(loaded, fresh_file, tmp_path / "d.jsonl")
        with pytest.raises(ModelError, match="none of the judge's first 5 replies"):
            certify(loaded, fresh_file, max_fpr=0.5)
        assert len(server.seen) == before + 5
        # Who decides as answers come, such as the service, goes on: each is undefined.
        decisions = loaded.decide([Example("q", ("d",), f"answer {n}") for n in range(9)])
        assert {item.score for item in decisions} == {None}
        assert all('no grade of its scale: "perhaps"' in item.reason for item in decisions)


def test_a_judge_that_is_read_at_all_goes_on(answers: Path) -> None:
    def seldom(body: dict[str, Any]) -> Reply:
        return Reply("faithful" if int(key_of(body)[:8], 16) % 2 else "perhaps")

    with ChatServer(seldom, logprobs=False) as server:
        run = calibrate(answers, spec(server), alpha=0.2)
        assert len(server.seen) == run.report.data["n_examples"]
    # Reasons are counted by their kind; each quotes its own reply.
    assert list(run.report.data["undefined_reasons"]) == [UNREADABLE]
    assert run.table is not None
    assert f'{UNREADABLE}: "perhaps"' in next(iter(run.table.reasons.values())).values()


def test_another_model_behind_the_name_is_noticed(answers: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    from calibrail import read

    with ChatServer(verdicts(supported), served="tiny-2026-01-01") as server:
        run = calibrate(answers, spec(server), alpha=0.2)
        guardrail = run.freeze()
        server_url = server.url
        server.answer, served = verdicts(supported), "tiny-2026-09-09"
        server.served = served
        fresh = [
            replace(example, response=example.response + " Indeed.") for example in read(answers)
        ]
        decisions = guardrail.decide(fresh[:3])
    assert server_url
    assert {decision.outcome for decision in decisions} == {"error"}
    assert all(served in d.reason and "calibrate again" in d.reason for d in decisions)


def test_hundreds_of_examples_through_every_fault(tmp_path: Path) -> None:
    """Nothing is lost, nothing is sent twice beyond its retries, every failure has its reason."""
    from calibrail import Example

    n = 500
    # What passes when it is asked for again, and what does not.
    passing = {"429", "500", "503", "cut", "refused_line", "invalid_json", "html"}
    passing |= {"empty_choices", "no_message"}
    fatal = {"filtered", "length", "nan_logprobs", "no_logprobs", "other_tokens", "refusal"}
    fatal |= {"wrong_logprobs", "400"}
    mixed = scattered(0.25, *sorted(passing), seed=1)
    final = scattered(0.2, *sorted(fatal), seed=2)
    given_up = scattered(0.01, "500", seed=3)

    def faults(key: str, attempt: int) -> str | None:
        # A few never recover, some answers are wrong for good, and the rest stumbles.
        return given_up(key, 0) or mixed(key, attempt) or final(key, 0)

    examples = [
        Example(
            id=str(row),
            question=f"What is thing {row}?",
            contexts=(f"Thing {row} is blue.",),
            response=f"It is {'blue' if row % 2 else 'green'}, thing {row}.",
        )
        for row in range(n)
    ]
    limits = CallLimits(concurrency=16, attempts=4, timeout=20.0)
    with ChatServer(verdicts(supported), faults=faults, retry_after=0.01) as server:
        with limit_calls(limits):
            # With tokens of its own none is asked again for more of them.
            score = build(judge(server, mode="logprob", max_tokens=10))
            table = score_examples(examples, [score])
            (values,) = table.columns.values()
            (reasons,) = table.reasons.values()
            per_key = server.requests_per_key()
            met = {}
            for seen in server.seen:
                met.setdefault(seen.key, []).append(seen.fault)
        assert len(values) == len(per_key) == n
        # Being asked to wait (429) is granted, and is no failed attempt.
        tried = [sum(fault != "429" for fault in faults) for faults in met.values()]
        assert max(tried) <= limits.attempts
        assert set(reasons) == set(np.flatnonzero(np.isnan(values)).tolist())
        # Exactly those whose last answer was no verdict are undefined.
        last = [faults_met[-1] for faults_met in met.values()]
        assert len(reasons) == sum(fault is not None for fault in last)
        assert sum(fault is None for fault in last) == np.count_nonzero(~np.isnan(values))
        # No one was asked again once there was an answer.
        for faults_met in met.values():
            settled = [i for i, fault in enumerate(faults_met) if fault not in passing]
            assert settled in ([], [len(faults_met) - 1])
        text = "\n".join(reasons.values())
        parts = ("refused", "ended before", "wrong", "no log-probabilities", "asked 4 times")
        for part in (*parts, "HTTP 400"):
            assert part in text, part
        # A second run asks only for what has no answer yet.
        server.reset()
        with limit_calls(limits):
            score_examples(examples, [build(judge(server, mode="logprob", max_tokens=10))])
        unanswered = sum(fault in passing | {"400"} for fault in last)
        assert len(server.requests_per_key()) == unanswered


def test_a_hybrid_judges_only_what_is_unclear(answers: Path, tmp_path: Path) -> None:
    quoted = json.dumps
    with ChatServer(verdicts(supported)) as server:
        text = f"hybrid:cheap=novelty,low=0.2,high=0.6,expensive={quoted(spec(server))}"
        planned = plan_calls(str(answers), text)
        assert not server.seen
        run = calibrate(answers, text, alpha=0.2)
        assert run.table is not None
        judged = len(server.seen)
        assert 0 < judged < len(run.table)
        (plan,) = planned
        assert (plan.n_calls, plan.n_judged, plan.n_examples) == (judged, judged, len(run.table))
        (calls,) = run.data["calls"]
        assert calls["n_judged"] == judged
        assert any(f"judged {judged:,} of {len(run.table):,}" in note for note in run.report.notes)
        run.save(tmp_path / "run")
        guardrail = run.freeze()
        assert 'mode="logprob"' in guardrail.config.score.params["expensive"]
        from calibrail import read

        decisions = guardrail.decide(list(read(answers)))
        (key, *_) = run.table.columns
        assert [d.score for d in decisions] == run.table.columns[key].tolist()
        assert len(server.seen) == judged


def test_a_hybrid_learns_its_band_from_the_fit_split(answers: Path) -> None:
    with ChatServer(verdicts(supported)) as server:
        judge = json.dumps(spec(server))
        run = calibrate(answers, f"hybrid:cheap=novelty,expensive={judge}", alpha=0.3)
    assert run.state is not None and run.codes is not None
    assert run.data["split"]["fit_share"] == 0.3
    # What the band was learnt from is not judged, and nobody pays for it.
    (calls,) = run.data["calls"]
    assert len(server.seen) == calls["n_judged"] <= calls["n"] == int((run.codes > 0).sum())


def test_what_is_embedded_over_an_api_is_the_same_in_every_round(answers: Path) -> None:
    """Looking for further rounds of answers ends."""
    with ChatServer() as server:
        run = calibrate(answers, f"sgi:model=openai:e@{server.url}", alpha=0.3)
    assert "repeats" not in run.report.data


def test_a_dry_run_counts_and_sends_nothing(answers: Path) -> None:
    with ChatServer(verdicts(supported)) as server, limit_calls(CallLimits(price=Price(2.0, 4.0))):
        (plan,) = plan_calls(str(answers), spec(server))
        assert not server.seen
        assert (plan.n_calls, plan.n_known, plan.measured) == (plan.n_examples, 0, False)
        assert plan.dollars == pytest.approx((2 * plan.tokens_in + 4 * plan.tokens_out) / 1e6)
        calibrate(answers, spec(server), alpha=0.2)
        assert len(server.seen) == plan.n_calls
        (after,) = plan_calls(str(answers), spec(server))
        assert (after.n_calls, after.n_known) == (0, plan.n_calls)
        # What is asked anew is estimated by what was counted.
        (votes,) = plan_calls(str(answers), spec(server, ",mode=votes,votes=3"))
        assert votes.measured and votes.n_calls == 3 * plan.n_examples
        tokens = sum(item["tokens_in"] for item in _values(server))
        assert votes.tokens_in == pytest.approx(3 * tokens, rel=0.02)


def _values(server: ChatServer) -> list[dict[str, Any]]:
    import os
    import sqlite3

    with sqlite3.connect(os.environ["CALIBRAIL_CACHE"]) as connection:
        found = connection.execute("SELECT value FROM answers WHERE kind = 'chat'").fetchall()
    return [json.loads(row[0]) for row in found]


def test_a_rate_limit_loses_nothing() -> None:
    """Each question is told to wait three times, which is no failed attempt: two are granted."""
    from calibrail import Example

    examples = [
        Example(id=str(row), contexts=("The sea is blue.",), response=f"It is number {row}.")
        for row in range(40)
    ]

    def busy(key: str, attempt: int) -> str | None:
        return "429" if attempt < 3 else None

    with (
        ChatServer(says("faithful"), faults=busy, retry_after=0.01) as server,
        limit_calls(CallLimits(concurrency=16, attempts=2)),
    ):
        (reasons,) = score_examples(examples, [build(judge(server))]).reasons.values()
    assert not reasons and len(server.seen) == 4 * len(examples)


def test_answers_that_could_not_be_asked_about_take_no_part(answers: Path) -> None:
    down = scattered(0.3, "500", seed=5)
    with ChatServer(verdicts(supported), faults=lambda key, _: down(key, 0)) as server:
        with limit_calls(CallLimits(attempts=1)):
            partly = calibrate(answers, spec(server), alpha=0.2)
        server.faults = lambda key, attempt: None
        whole = calibrate(answers, spec(server), alpha=0.2)
    lost = partly.data["n_unanswered"]
    assert lost > 10 and whole.data["n_unanswered"] == 0
    assert any(f"could not be asked: {lost}" in note for note in partly.report.notes)
    assert partly.report.undefined["calibration"] == {"hallucinated": 0, "faithful": 0}
    assert partly.report.undefined["test"] == {"hallucinated": 0, "faithful": 0}
    assert partly.codes is not None and whole.codes is not None
    n = [int((run.codes > 0).sum()) for run in (partly, whole)]
    assert n[0] == n[1] - lost


def test_a_hybrid_over_verdicts_shows_logprob_beside_it_too(answers: Path) -> None:
    with ChatServer(verdicts(lambda text: 0.25 + 0.5 * supported(text))) as server:
        judge = json.dumps(spec(server, ",mode=verdict"))
        run = calibrate(answers, f"hybrid:cheap=length,low=0,high=60,expensive={judge}", alpha=0.3)
    report = run.report.to_dict()
    assert any("mode" in row["name"] and "logprob" in row["name"] for row in report["detectors"])


def test_a_budget_ends_the_run_and_the_next_one_goes_on(answers: Path) -> None:
    with ChatServer(verdicts(supported)) as server:
        with (
            limit_calls(CallLimits(max_calls=50)),
            pytest.raises(BudgetError, match="budget of 50 calls"),
        ):
            calibrate(answers, spec(server), alpha=0.2)
        assert len(server.seen) == 50
        run = calibrate(answers, spec(server), alpha=0.2)
        assert run.table is not None
        assert len(server.seen) == len(run.table)


#: What the command of a shell runs.
COMMAND = (sys.executable, "-c", "from calibrail.cli import main; main()")

#: Imports once, then runs the command twice at the same time, for two outputs.
TWICE = """
import os, sys

import openai
import calibrail.pipelines.scoring
from calibrail.cli import main

first, second = sys.argv[-2:]
child = os.fork()
sys.argv[-2:] = [second if child else first]
try:
    main()
finally:
    if child and os.waitpid(child, 0)[1]:
        os._exit(9)
"""


def test_a_run_that_is_killed_goes_on_where_it_stopped(answers: Path, tmp_path: Path) -> None:
    with ChatServer(verdicts(supported), latency=0.05) as server:
        options = ["--score", spec(server), "--alpha", "0.2", "--concurrency", "2"]
        command = [*COMMAND, "calibrate", str(answers), *options, "-o", str(tmp_path / "run")]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while len(server.seen) < 30 and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len(server.seen) >= 30 and not (tmp_path / "run" / "report.json").exists()
        time.sleep(0.2)
        server.latency = 0.0
        run = calibrate(answers, spec(server), alpha=0.2)
        assert run.table is not None
        n = len(run.table)
        # Only what was under way when it was killed (2 at most) is asked for twice.
        assert n <= len(server.seen) <= n + 2


def test_two_processes_at_once_share_one_cache(answers: Path, tmp_path: Path) -> None:
    with ChatServer(verdicts(supported), latency=0.01) as server:
        command = [sys.executable, "-c", TWICE, "score", str(answers), "--score", spec(server)]
        outputs = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
        done = subprocess.run(
            [*command, "-o", *outputs], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        n = len(Path(answers).read_text().splitlines())
        # Either may ask for what the other has asked for and does not know yet.
        assert n <= len(server.seen) <= 2 * n
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert len(_values(server)) == n


#: With a test half, as few answers as there are here.
MARGINAL: dict[str, Any] = {"alpha": 0.05, "guarantee": "marginal", "max_fpr": 0.5}


def test_a_yes_no_judge_says_what_can_be_had_and_shows_logprob_beside_it(answers: Path) -> None:
    with ChatServer(verdicts(lambda text: 0.25 + 0.5 * supported(text))) as server:
        run = calibrate(answers, spec(server, ",mode=verdict"), **MARGINAL)
        assert run.table is not None
        assert len(server.seen) == len(run.table), "logprob beside it costs no call"
    report = run.report.to_dict()
    steps = report["attainable"]["steps"]
    assert [step["threshold"] for step in steps] == [0.0, 1.0]
    assert not report["attainable"]["is_attainable"]
    assert steps[0]["is_used"] and steps[0]["fpr"]["estimate"] == 1.0
    assert report["verdict"] == "rejected"
    (warning,) = [w for w in report["warnings"] if w["code"] == "few_distinct_scores"]
    assert "can be promised" in warning["message"]
    beside = [row for row in report["detectors"] if "mode=logprob" in row["name"]]
    assert len(beside) == 1 and beside[0]["auroc"]["estimate"] > report["test"]["auroc"]["estimate"]
    assert beside[0]["fpr"]["estimate"] < 1.0


def test_a_wrong_key_or_model_ends_the_run_at_once(answers: Path) -> None:
    with ChatServer(says("faithful"), api_key="sk-other") as server:
        with pytest.raises(ModelError, match="OPENAI_API_KEY is not accepted") as caught:
            calibrate(answers, spec(server), alpha=0.2)
        assert KEY not in str(caught.value)
        assert len(server.seen) <= 8
    with (
        ChatServer(faults=always("404")) as server,
        pytest.raises(ModelError, match="is the model's name right"),
    ):
        calibrate(answers, spec(server), alpha=0.2)


def test_what_failed_is_asked_again_by_the_next_decision(answers: Path) -> None:
    from calibrail import read

    with ChatServer(verdicts(supported)) as server:
        guardrail = calibrate(answers, spec(server), alpha=0.2).freeze()
        (example, *_) = read(answers)
        fresh = {"question": example.question, "contexts": example.contexts}
        server.faults = always("500")
        with limit_calls(CallLimits(attempts=1)):
            first = guardrail.check(response=f"{example.response} Indeed.", **fresh)
            server.faults = lambda key, attempt: None
            second = guardrail.check(response=f"{example.response} Indeed.", **fresh)
    assert first.score is None and "HTTP 500" in first.reason
    assert second.score is not None


@pytest.mark.parametrize("fault", ["400", "500"])
def test_an_endpoint_that_fails_every_time_ends_the_run(answers: Path, fault: str) -> None:
    with (
        ChatServer(faults=always(fault)) as server,
        limit_calls(CallLimits(attempts=2)),
        pytest.raises(ModelError, match="answered none of the last"),
    ):
        calibrate(answers, spec(server), alpha=0.2)
    assert len(server.seen) < 160


def test_no_key_and_no_text_in_logs_results_or_guardrails(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A library that configures logging may have silenced them, and silence shows nothing.
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith(("openai", "http")) and isinstance(logger, logging.Logger):
            monkeypatch.setattr(logger, "disabled", False)
    secret, hidden = "Zanzibar-4711", "Quintessential-0815"
    items = rows(40)
    for item in items:
        item["question"] += f" {hidden}"
        item["response"] += f" {secret}"
    source = write(tmp_path / "answers.jsonl", items)
    faults = scattered(0.3, "429", "500", "400", "invalid_json", "cut", seed=4)
    with (
        caplog.at_level(logging.DEBUG),
        ChatServer(verdicts(supported), faults=faults, retry_after=0.01) as server,
    ):
        run = calibrate(source, [spec(server), f"sgi:model=openai:e@{server.url}"], alpha=0.2)
        assert any(secret in json.dumps(seen.body) for seen in server.seen)
    run.save(tmp_path / "run")
    run.freeze().save(tmp_path / "g.json")
    said = [record.getMessage() + repr(vars(record)) for record in caplog.records]
    assert any(record.name.startswith(("openai", "http")) for record in caplog.records)
    out, err = capfd.readouterr()
    # The page shows answers that were decided wrongly, to whoever may see the data.
    files = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and path != source and path.name != "report.html"
    ]
    assert KEY not in (tmp_path / "run" / "report.html").read_text()
    assert len(files) >= 6
    for text in (KEY, secret, hidden):
        assert not [line for line in said if text in line]
        assert text not in out + err
        for path in files:
            assert text.encode() not in path.read_bytes(), path
    config = json.loads((tmp_path / "g.json").read_text())
    assert "{contexts}" in config["score"]["fingerprint"]["template"]


def test_a_real_model_with_real_log_probabilities(
    tmp_path: Path, logprob_server: LogprobServer
) -> None:
    answers = write(tmp_path / "few.jsonl", rows(20))
    run = calibrate(answers, f"judge:model=tiny,base_url={logprob_server.url}", alpha=0.3)
    assert run.table is not None
    values = next(iter(run.table.columns.values()))
    known = values[~np.isnan(values)]
    assert len(known) >= 0.8 * len(values)
    assert len(np.unique(known)) > 0.8 * len(known), "a probability, not a verdict"
    assert run.report.score["params"]["mode"] == "logprob"


def test_transformers_serve_as_a_judge(
    tmp_path: Path, transformers_serve: TransformersServe
) -> None:
    from calibrail import read

    base = f"judge:model={transformers_serve.model},base_url={transformers_serve.url}"
    examples = list(read(write(tmp_path / "few.jsonl", rows(5))))
    verdict = build(parse_spec(base)).score(examples)
    votes = build(parse_spec(f"{base},mode=votes,votes=3")).score(examples[:4])
    known = verdict.values[~np.isnan(verdict.values)]
    assert len(known) >= 0.8 * len(examples)
    assert set(known.tolist()) <= {0.0, 1.0}, "without log-probabilities auto is a verdict"
    shares = votes.values[~np.isnan(votes.values)]
    assert len(shares) and set((6 * shares).round(6)) <= {0.0, 2.0, 3.0, 4.0, 6.0}
