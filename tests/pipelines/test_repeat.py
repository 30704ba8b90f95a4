"""Is a judge that flickers told from one that does not, at no further cost the second time?"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrail import Example, calibrate, repeat
from calibrail.errors import DataError, InputError, ModelError
from calibrail.evaluation.measures import ranked_replies, share_by_group
from calibrail.evaluation.stats.tests import changed_replies
from calibrail.models.llm.transport import BudgetError, CallLimits, limit_calls
from calibrail.options import Promise
from calibrail.pipelines.repeat import Replies
from calibrail.report.documents.agree import repeat_document
from tests.answers import rows, write
from tests.chat_server import ChatServer, Reply, always, says, text_of
from tests.command_line import calibrail as command

KEY = "sk-test-1f8c93d2a7"


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_models: None) -> None:
    """A cache and an environment of one's own."""
    monkeypatch.setenv("CALIBRAIL_CACHE", str(tmp_path / "answers.sqlite"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr("calibrail.models.llm.transport.FIRST_WAIT", 0.005)
    monkeypatch.setattr("calibrail.models.llm.transport.LONGEST_WAIT", 0.02)


def unit(*parts: object) -> float:
    return int(hashlib.sha256(repr(parts).encode()).hexdigest()[:8], 16) / 16**8


def flickering(
    rate: float, *, seed: int = 0, wrong: float = 0.1, words: tuple[str, str] | None = None
) -> Callable[[dict[str, Any]], Reply]:
    """Answer as the rows' labels are, wrongly for some, otherwise at each asking for ``rate``."""
    asked: Counter[str] = Counter()
    lock = threading.Lock()
    low, high = words or ("faithful", "hallucination")

    def answer(body: dict[str, Any]) -> Reply:
        text = text_of(body["messages"])
        with lock:
            asked[text] += 1
            number = asked[text]
        verdict = ("taller" in text) != (unit(text, "wrong") < wrong)
        return Reply(high if verdict != (unit(text, number, seed) < rate) else low)

    return answer


def spec(server: ChatServer, rest: str = ",mode=verdict") -> str:
    return f"judge:model=tiny,base_url={server.url}{rest}"


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    return write(tmp_path / "answers.jsonl", rows(60))


def test_a_judge_is_asked_anew_and_once_is_paid_once(answers: Path, tmp_path: Path) -> None:
    with ChatServer(flickering(0.2), logprobs=False) as server:
        first = calibrate(answers, spec(server), alpha=0.3, baselines=False)
        assert len(server.seen) == 120 and first.table is not None
        run = repeat(answers, spec(server), times=3, alpha=0.3)
        # The reply that calibrated is the first one; every other one is asked for, none is copied.
        assert len(server.seen) == 360
        content = run.to_dict()
        assert run.table.columns.keys() == first.table.columns.keys()
        again = repeat(answers, spec(server), times=3, alpha=0.3)
        assert len(server.seen) == 360 and again.to_dict() == content
        more = repeat(answers, spec(server), times=4, alpha=0.3).to_dict()
        assert len(server.seen) == 480
        shown = command(
            *("repeat", answers, "--score", spec(server), "--times", 6, "--alpha", 0.3),
            *("--dry-run", "--price", "1,2", "-o", tmp_path / "none"),
        )
        assert "240 calls to tiny" in shown.stdout and "for 120 of 120 answers" in shown.stdout
        assert "(480 known already)" in shown.stdout and "$" in shown.stdout
        assert len(server.seen) == 480 and not (tmp_path / "none").exists()
    # One of three differs unless all three flip, or none does: 1 - .8**3 - .2**3 = 0.48.
    for kind in ("decisions", "scores"):
        measure = content[kind]["answers"]
        assert measure["lower"] < 0.48 < measure["upper"] and measure["n"] == 60
        pair = content[kind]["pairs"]
        assert pair["lower"] < 0.32 < pair["upper"]
    assert content["decisions"]["answers"]["estimate"] < more["decisions"]["answers"]["estimate"]
    assert content["threshold"] == {"from": "calibrated", "value": 1.0}
    assert content["score"]["params"]["mode"] == "verdict" and content["asks"]


def test_a_vote_errs_less_than_one_reply_and_both_are_calibrated_alike(answers: Path) -> None:
    with ChatServer(flickering(0.25, wrong=0.0), logprobs=False) as server:
        voting = repeat(answers, spec(server), times=7, alpha=0.3).to_dict()["voting"]
    one, vote, less = voting["one"], voting["vote"], voting["difference"]
    assert one["threshold"] == 1.0 and 0.0 < vote["threshold"] < 1.0
    for name in ("missed", "false_alarms"):
        assert one[name]["lower"] < 0.25 < one[name]["upper"]
        gain = one[name]["estimate"] - vote[name]["estimate"]
        assert less[name]["estimate"] == pytest.approx(gain)
    assert less["false_alarms"]["lower"] > 0.0


@pytest.mark.parametrize(
    ("rest", "words", "kind"),
    [
        (",mode=votes,votes=3", None, "votes"),
        (",scale=1-5,higher=faithful", ("4", "2"), "rating"),
        (",mode=graded", ('{"hallucination": 0.1}', '{"hallucination": 0.8}'), "graded"),
    ],
)
def test_every_mode_flickers(
    answers: Path, rest: str, words: tuple[str, str] | None, kind: str
) -> None:
    with ChatServer(flickering(0.1, words=words), logprobs=False) as server:
        content = repeat(answers, spec(server, rest), times=2, alpha=0.3).to_dict()
        n = len(server.seen)
        assert n == 240 * (3 if kind == "votes" else 1)
        if kind == "votes":
            # No seed is used twice for one question.
            seeds = Counter((seen.key, seen.body["seed"]) for seen in server.seen)
            assert max(seeds.values()) == 1
    assert content["score"]["params"]["mode"] == kind
    assert 0.0 < content["scores"]["answers"]["estimate"] < 0.7


def test_a_detector_that_asks_nobody_is_said_to_be_the_same_each_time(tmp_path: Path) -> None:
    run = repeat(rows(40), "novelty", alpha=0.2)
    content = run.to_dict()
    measure = content["decisions"]["answers"]
    assert (measure["count"], content["asks"]) == (0.0, False)
    said = "Stable: judged 3 times, every answer got the same decisions. This detector runs"
    assert content["finding"].startswith(said)
    assert content["voting"]["difference"]["missed"]["estimate"] == 0.0
    steps = [repeat_document({**content, "asks": asks}).next_step for asks in (False, True)]
    assert steps[0].startswith("One reply is enough") and steps[1].startswith("Choose one reply")
    # Of a threshold that was given nothing is measured here.
    given = {"from": "given", "value": 0.5}
    leads = [repeat_document({**content, **more}).lead for more in ({}, {"threshold": given})]
    assert [len(lead) for lead in leads] == [1, 0]
    unstable = {
        **content,
        "decisions": {**content["decisions"], "answers": {**measure, "estimate": 0.3}},
    }
    assert repeat_document({**content, **unstable}).next_step.startswith("Choose one reply")
    alone = [{**row, "group": None} for row in rows(40)]
    measure = repeat(alone, "novelty", alpha=0.2).to_dict()["decisions"]["answers"]
    assert measure["method"] == "clopper-pearson"
    # The exact bound of none in 80, two-sided.
    assert measure["upper"] == pytest.approx(1.0 - 0.025 ** (1 / 80))


def test_without_labels_stability_alone_is_shown(answers: Path, tmp_path: Path) -> None:
    bare = [{k: v for k, v in row.items() if k != "label"} for row in rows(60)]
    with ChatServer(flickering(0.2), logprobs=False) as server:
        content = repeat(bare, spec(server)).to_dict()
        assert content["decisions"] is content["threshold"] is content["voting"] is None
        assert content["scores"]["answers"]["estimate"] > 0.2
        given = repeat(bare, spec(server), threshold=0.5).to_dict()
        assert given["decisions"] == content["scores"]
        assert given["threshold"] == {"from": "given", "value": 0.5}
        run = calibrate(answers, spec(server), alpha=0.3, baselines=False)
        guardrail = run.freeze()
        n = len(server.seen)
        frozen = repeat(bare, guardrail=guardrail).to_dict()
        assert frozen["decisions"] == given["decisions"] and len(server.seen) == n
        assert frozen["threshold"] == {"from": "guardrail", "value": 1.0}
        # Too few labels leave what was paid for, and say so.
        few = [*rows(2), *bare[4:]]
        content = repeat(few, spec(server), alpha=0.01).to_dict()
        assert content["voting"] is None and "more" in content["no_voting"]


def test_failed_and_unreadable_replies_are_counted(answers: Path) -> None:
    flicker = flickering(0.1)

    def odd(body: dict[str, Any]) -> Reply:
        seldom = unit(text_of(body["messages"]), "odd") < 0.1
        return Reply("perhaps") if seldom else flicker(body)

    def fault(key: str, attempt: int) -> str | None:
        return "400" if unit(key, "fault") < 0.05 else None

    with ChatServer(odd, faults=fault, logprobs=False) as server:
        content = repeat(answers, spec(server), alpha=0.4).to_dict()
    data = content["data"]
    assert data["n_unanswered"] > 0 and data["n_undefined"] > 0
    assert data["n_examples"] == 120 - data["n_unanswered"]
    with ChatServer(says("perhaps"), logprobs=False) as server:
        with pytest.raises(ModelError, match="none of the judge's first 5 replies"):
            repeat(answers, spec(server))
        assert len(server.seen) == 5
    refusing = ChatServer(faults=always("400"), logprobs=False)
    with (
        refusing as server,
        pytest.raises((DataError, ModelError), match="answered none"),
    ):
        repeat(answers, spec(server))


@pytest.mark.parametrize(
    ("change", "code"),
    [({}, 0), ({"seed": 9}, 0), ({"wrong": 0.35, "seed": 9}, 3), ({"rate": 0.45, "seed": 9}, 3)],
)
def test_a_judge_changed_behind_its_name_is_told(
    answers: Path, tmp_path: Path, change: dict[str, Any], code: int
) -> None:
    anchors = tmp_path / "anchors.json"
    with ChatServer(flickering(0.1), logprobs=False) as server:
        words = ("--score", spec(server), "--alpha", 0.4, "--anchors", anchors, "-o")
        first = command("repeat", answers, *words, tmp_path / "one")
        assert first.returncode == 0 and len(server.seen) == 360
        content = json.loads(anchors.read_text())
        assert len(content["replies"]) == 120 and "Mount" not in anchors.read_text()
        server.answer = flickering(**{"rate": 0.1, **change})
        planned = command("repeat", answers, *words, tmp_path / "two", "--dry-run")
        assert "360 calls" in planned.stdout and len(server.seen) == 360
        second = command("repeat", answers, *words, tmp_path / "two", "--json")
        # Replies that are kept would say that nothing has changed.
        assert len(server.seen) == 720
    compared = json.loads(second.stdout)["anchors"]
    assert second.returncode == code and compared["changed"] == (code == 3)
    assert (compared["p_value"] <= 0.05) == (code == 3)
    assert compared["n"] == 120 and not compared["renamed"]
    assert anchors.read_text() == json.dumps(content, indent=2) + "\n"
    if code:
        assert "The judge has changed since" in (tmp_path / "two" / "report.html").read_text()


def test_anchors_of_another_judge_or_other_answers_are_refused(
    answers: Path, tmp_path: Path
) -> None:
    anchors = tmp_path / "anchors.json"
    with ChatServer(flickering(0.1), logprobs=False, served="tiny-2026-01-01") as server:
        repeat(answers, spec(server), anchors=anchors)
        n = len(server.seen)
        with pytest.raises(InputError, match="those of another detector"):
            repeat(answers, spec(server, ",mode=votes"), anchors=anchors)
        with pytest.raises(DataError, match="none of the answers"):
            repeat(rows(9, prefix="other "), spec(server), anchors=anchors)
        with pytest.raises(DataError, match="holds no anchors"):
            repeat(answers, spec(server), anchors=write(tmp_path / "x.json", ["{}"]))
        assert len(server.seen) == n
        server.served = "tiny-2026-09-09"
        run = repeat(rows(20), spec(server), anchors=anchors)
        content = run.to_dict()["anchors"]
        assert run.changed and content["renamed"] and content["p_value"] > 0.05
        assert list(content["served"]) == ["tiny-2026-01-01", "tiny-2026-09-09"]
        assert (content["n"], content["n_missing"]) == (40, 80)
        assert "answers as 'tiny-2026-09-09'" in run.to_dict()["finding"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"times": 1}, "times must"),
        ({"score": "fused"}, "learn"),
        ({"score": ["novelty", "rad"]}, "one score"),
        ({"promise": Promise(by="group")}, "one threshold"),
        ({"promise": Promise(unit="sentence")}, "whole answers"),
    ],
)
def test_what_cannot_be_repeated_is_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        repeat("example:facts", **options)


def test_calibrate_names_a_judge_that_flips_more_than_its_margin(tmp_path: Path) -> None:
    answers = write(tmp_path / "answers.jsonl", rows(80))
    asked: dict[str, Any] = {"alpha": 0.3, "max_fpr": 0.5, "baselines": False}
    asked["guarantee"] = "marginal"
    with ChatServer(flickering(0.0, wrong=0.02), logprobs=False) as server:
        plain = calibrate(answers, spec(server), **asked)
        assert plain.verdict == "certified" and "repeats" not in plain.report.data
        # The first reply is kept; from now on the judge flickers.
        server.answer = flickering(0.4, wrong=0.02)
        repeat(answers, spec(server), times=3)
        n = len(server.seen)
        run = calibrate(answers, spec(server), **asked)
        assert len(server.seen) == n
    repeats = run.report.data["repeats"]
    assert repeats["n"] == 160 and 0.25 < repeats["share"] < 0.55
    (warning,) = [w for w in run.report.warnings if w.code == "flips_more_than_its_margin"]
    assert (
        run.verdict == "certified"
        and "in another run the same answers may not certify it" in warning.message
    )
    assert any("Asked again, the judge decided" in note for note in run.report.notes)
    run.save(tmp_path / "run")
    # Another prompt, mode or model has other repeats: none.
    with ChatServer(flickering(0.0), logprobs=False) as server:
        other = calibrate(answers, spec(server, ",mode=verdict,max_tokens=9"), **asked)
    assert "repeats" not in other.report.data


def test_copies_of_an_answer_count_once() -> None:
    twice = [{**row, "id": f"{row['id']}-{copy}"} for row in rows(20) for copy in range(2)]
    assert repeat(twice, "novelty", alpha=0.2).to_dict()["data"]["n_examples"] == 40


def simulated(
    rng: np.random.Generator, n_groups: int, size: int, times: int
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Replies of answers that flip with a chance of their group, and what is true of them."""
    chance = np.where(rng.random(n_groups) < 0.3, rng.beta(2.0, 2.0, n_groups), 0.02)
    replies = rng.random((n_groups * size, times)) < np.repeat(chance, size)[:, None]
    p = np.array([0.02]), rng.beta(2.0, 2.0, 400_000)
    some = [float(np.mean(1.0 - x**times - (1.0 - x) ** times)) for x in p]
    pair = [float(np.mean(2.0 * x * (1.0 - x))) for x in p]
    truth = (0.7 * kind[0] + 0.3 * kind[1] for kind in (some, pair))
    return replies.astype(float), np.repeat(np.arange(n_groups), size), *truth


@pytest.mark.parametrize(("size", "times"), [(1, 2), (1, 3), (3, 3)])
def test_intervals_by_answer_and_by_group_cover(size: int, times: int) -> None:
    rng, runs, hits = np.random.default_rng(7), 100, np.zeros(2)
    for _ in range(runs):
        states, groups, *truths = simulated(rng, 60, size, times)
        digests = rng.permutation(len(groups)).astype(np.uint64)
        unknown = np.full(len(groups), -1, np.int8)
        measured = Replies(states, unknown, groups, digests, 0.0, 0.9).stability(states)
        for place, (bound, truth) in enumerate(zip(measured.values(), truths, strict=True)):
            hits[place] += bound["lower"] <= truth <= bound["upper"]
    # At 90 %, they hit at least so often but for one chance in a thousand.
    assert (hits >= runs * 0.9 - 3.1 * np.sqrt(runs * 0.09)).all(), hits


def test_a_judge_that_is_the_same_is_called_changed_no_more_often_than_stated() -> None:
    rng, runs, called, told = np.random.default_rng(3), 200, 0, 0
    for _ in range(runs):
        chance = rng.beta(0.3, 0.3, (40, 1))
        states = np.where(rng.random((40, 5)) < chance, 1.0, 0.0)
        states[rng.random(states.shape) < 0.05] = np.nan
        called += changed_replies(ranked_replies(states), 3) <= 0.1
        moved = np.where(rng.random((40, 3)) < 0.35, 1.0, states[:, 2:])
        told += changed_replies(ranked_replies(np.hstack([states[:, :2], moved])), 2) <= 0.1
    assert called <= runs * 0.1 + 3.1 * np.sqrt(runs * 0.09)
    assert told > 0.5 * runs
    assert share_by_group(np.zeros(0), np.zeros(0, int), np.zeros(0, np.uint64), 0.9).upper == 1.0


def test_limits_hold_over_all_rounds_and_what_was_paid_stays(answers: Path) -> None:
    with ChatServer(flickering(0.1), logprobs=False) as server:
        with limit_calls(CallLimits(max_calls=200)), pytest.raises(BudgetError):
            repeat(answers, spec(server))
        assert len(server.seen) == 200
        repeat(answers, spec(server))
        assert len(server.seen) == 360


def test_a_function_of_ones_own_may_flicker() -> None:
    rng = np.random.default_rng(0)

    def flips(example: Example) -> float:
        return float("taller" in example.response) + float(rng.random() < 0.3)

    content = repeat(rows(30), flips, alpha=0.3).to_dict()
    assert content["scores"]["answers"]["estimate"] > 0.3
    assert "Stable" not in content["finding"] and not content["asks"]
