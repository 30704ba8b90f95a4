"""Does a threshold that proves itself need no test half, and is nothing dressed as a test?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrail
from calibrail.conformal import (
    ClassCounts,
    GroupedCalibration,
    calibrate_groups,
    calibrate_threshold,
    clopper_pearson,
    rank,
)
from calibrail.errors import DataError, InputError, TooFewExamplesError
from calibrail.options import Promise, ReadOptions, SplitOptions
from calibrail.report.documents.measures import target_box
from calibrail.report.documents.next_steps import next_step
from tests.command_line import calibrail as run_command

SCORE = "column:column=s,higher=hallucinated"
HALVES = SplitOptions(calibration_share=0.5)


def answers(n: int = 240, *, size: int = 1, share: float = 0.5, seed: int = 0) -> list[Any]:
    """Return answers of both classes with their scores, so many to a question."""
    rng, rows = np.random.default_rng(seed), []
    for k in range(n):
        label = int(k % 10 < 10 * share)
        score = float(rng.normal(2.0 * label))
        rows.append({"id": f"a{k}", "q": f"q{k // size}", "label": label, "s": score})
    return rows


def calibrated(rows: list[Any], **asked: Any) -> calibrail.Run:
    grouped = calibrail.ReadOptions(group_column="q")
    asked = {"alpha": 0.1, "guarantee": "pac", "reading": grouped} | asked
    return calibrail.calibrate(rows, SCORE, baselines=False, **asked)


@pytest.mark.parametrize("splitting", [None, SplitOptions(calibration_share=1.0), SplitOptions()])
def test_all_hallucinated_answers_set_it_and_all_faithful_ones_bound_its_alarms(
    splitting: SplitOptions | None, tmp_path: Path
) -> None:
    rows = answers()
    run = calibrated(rows, max_fpr=0.6, splitting=splitting)
    report = run.report.to_dict()
    assert run.calibration.rank == rank(120, 0.1, "pac", 0.025) and run.calibration.n == 120
    alarms = sum(row["s"] >= run.calibration.threshold for row in rows if not row["label"])
    assert report["certificate"]["fpr_at_most"] == clopper_pearson(alarms, 120, 0.95)[1]
    assert (report["test"]["fpr"]["count"], report["test"]["fpr"]["n"]) == (alarms, 120)
    assert report["certificate"]["confidence"] == 0.95 and run.verdict == "certified"
    # What is shown of coverage is proven, and no count of what was caught.
    for shown in (report["test"]["coverage"], report["certificate"]["coverage"]):
        assert (shown["estimate"], shown["n"], shown["method"]) == (None, 0, "rank")
        assert (shown["lower"], shown["confidence"]) == (0.9, 0.975)
    assert report["test"]["coverage_band"] is None and report["test"]["accuracy"]["n"] == 0
    assert report["test"]["auroc"]["estimate"] is not None
    page = " ".join((run.save(tmp_path / "run") / "report.html").read_text().split())
    assert "On all answers" in page and "proven by its rank" in page
    assert "of hallucinations, with 95% confidence" in page
    assert "97.5" not in page and "87.5" not in page
    assert "test set" not in page and "test answers" not in page
    assert "Try another threshold" in page and "this threshold" not in page


def test_the_guarantee_follows_from_the_verdict_unless_it_is_named() -> None:
    rows = [{**row, "k": row["q"][-1], "m": row["q"][-1]} for row in answers()]
    for asked, guarantee, told in (
        ({"max_fpr": 0.6}, "pac", "The guarantee is pac because you asked for a verdict"),
        ({"min_coverage": 0.8}, "pac", "The guarantee is pac because you asked for a verdict"),
        ({}, "marginal", ""),
        ({"max_fpr": 0.6, "guarantee": "marginal"}, "marginal", ""),
        ({"max_fpr": 0.6, "guarantee": "pac"}, "pac", ""),
        ({"promise": Promise(0.1), "max_fpr": 0.6}, "pac", "The guarantee is pac because"),
        ({"max_fpr": 0.6, "by": ("k", "m")}, "marginal", "The guarantee is marginal, the only one"),
    ):
        named = {} if "promise" in asked else {"alpha": 0.1}
        run = calibrail.calibrate(rows, SCORE, baselines=False, **named, **asked)
        report = run.report.to_dict()
        assert (report["guarantee"], report["promise"]["guarantee"]) == (guarantee, guarantee)
        told_of = [note for note in report["notes"] if "The guarantee is" in note]
        assert [note[: len(told)] for note in told_of] == ([told] if told else [])
    compared = calibrail.compare(rows, SCORE, baselines=False, alpha=0.1, max_fpr=0.6).to_dict()
    assert compared["detectors"][0]["guarantee"] == "pac"
    assert "The guarantee is pac because" in compared["detectors"][0]["notes"][-1]


def test_delta_is_part_of_the_one_confidence(tmp_path: Path) -> None:
    rows = answers(400)
    run = calibrated(rows, max_fpr=0.7, confidence=0.9)
    assert (run.calibration.delta, run.report.certificate["confidence"]) == (0.05, 0.9)
    # Of false alarms the bound errs with the rest, which is less where delta is more.
    named = calibrated(rows, max_fpr=0.7, confidence=0.9, delta=0.08)
    alarms = named.report.certificate["fpr"]
    assert named.report.certificate["confidence"] == 0.9
    at_most = clopper_pearson(alarms["count"], alarms["n"], 0.96)[1]
    assert named.report.certificate["fpr_at_most"] == pytest.approx(at_most)
    # One that takes all of the error leaves less confidence, still one number, and a note says so.
    more = calibrated(rows, max_fpr=0.7, confidence=0.9, delta=0.1).report
    assert more.certificate["confidence"] == more.requirement.confidence == 0.85
    assert any("with 85% confidence" in note for note in more.notes)
    # Without a verdict it is what it always was, and may be anything.
    assert calibrated(rows).calibration.delta == 0.1
    assert calibrated(rows, delta=0.3).calibration.delta == 0.3
    run.freeze().save(tmp_path / "g.json")
    printed = " ".join(run_command("guardrail", "card", str(tmp_path / "g.json")).stdout.split())
    assert "90% confidence" in printed and "95% confidence" not in printed


@pytest.mark.parametrize(
    ("asked", "n_calibration"),
    [
        ({"splitting": HALVES}, 60),
        ({"guarantee": "marginal"}, 60),
        ({"guarantee": "anytime", "alpha": 0.2}, 60),
        ({"beta": 0.3}, 60),
        ({"risks": ("recall>=0.8",)}, 60),
        ({"splitting": SplitOptions(fit_share=0.2)}, 96),
    ],
)
def test_what_a_rank_does_not_prove_keeps_its_test_part(
    asked: dict[str, Any], n_calibration: int
) -> None:
    run = calibrated(answers(), **asked)
    assert run.calibration.n == n_calibration
    assert (run.report.test.coverage.method == "rank") is (n_calibration == 96)


def test_a_share_of_one_needs_a_promise_that_proves_itself() -> None:
    for asked in ({"guarantee": "marginal"}, {"beta": 0.3}, {"by": "q", "guarantee": "marginal"}):
        with pytest.raises(DataError, match=r"the test split is empty; .*needs none"):
            calibrated(answers(), splitting=SplitOptions(calibration_share=1.0), **asked)
    # An id that is the same for all makes one group, which no other share would part.
    rows = [{"id": "run-1", "n": n, "s": n / 90, "label": n % 2} for n in range(90)]
    with pytest.raises(DataError, match=r"change group_column=\.\.\., "):
        calibrail.calibrate(rows, SCORE, alpha=0.2)
    numbered = ReadOptions(group_column="n")
    calibrail.calibrate(rows, SCORE, alpha=0.2, reading=numbered)
    with pytest.raises(TooFewExamplesError, match=r"at least 22 are needed\. Label 12 more"):
        calibrated(answers(20))


@pytest.mark.parametrize(
    ("required", "verdict", "at_least"),
    [
        (0.5, "certified", 0.9),
        (0.9, "certified", 0.9),
        (0.93, "inconclusive", None),
        (0.99, "rejected", None),
    ],
)
def test_another_limit_is_tested_against_what_the_rank_proves(
    required: float, verdict: str, at_least: float | None
) -> None:
    run = calibrated(answers(1000), max_fpr=0.7, min_coverage=required)
    certificate = run.report.certificate
    assert run.verdict == verdict
    if at_least is None:
        # The rank proves a hair more than what it was made for.
        assert 0.9 <= certificate["coverage_at_least"] < 0.91
        advice = next_step(run.report.to_dict()).startswith("Calibrate again with alpha=0.07:")
        assert advice is (verdict == "inconclusive")
    else:
        assert certificate["coverage_at_least"] == at_least


def test_ties_prove_a_stricter_limit() -> None:
    """All but two of 200 hallucinated answers share one score: the threshold lies there."""
    rows = answers(400)
    for row in rows:
        row["s"] = float(row["label"] or row["id"] in ("a50", "a51"))
    rows[0]["s"] = rows[1]["s"] = 0.0
    run = calibrated(rows, max_fpr=0.2, min_coverage=0.96)
    assert run.calibration.missed == 2 and run.verdict == "certified"
    assert run.report.certificate["coverage_at_least"] == 0.96


def test_groups_with_both_classes_count_each_class_once() -> None:
    rows = answers(600, size=4, share=0.5)
    run = calibrated(rows, max_fpr=0.7)
    report, questions = run.report, {row["q"]: set[int]() for row in rows}
    for row in rows:
        questions[row["q"]].add(row["label"])
    assert report.test.fpr.n == sum(0 in both for both in questions.values())
    assert run.calibration.n == 300 and report.promise.clustered
    assert run.calibration.n_clusters == sum(1 in both for both in questions.values())
    assert report.verdict == "certified" and report.certificate["flips"] is None


def test_files_cards_and_verdicts_go_on_from_it(tmp_path: Path) -> None:
    table = "id,label,s\n" + "".join(
        f"{row['id']},{row['label']},{row['s']}\n" for row in answers(600)
    )
    (tmp_path / "a.csv").write_text(table)
    column = ("--score-column", "s", "--higher", "hallucinated", "--id-column", "id")
    asked = ("--alpha", "0.1", "--guarantee", "pac", "--max-fpr", "0.6")
    run, guardrail = str(tmp_path / "run"), str(tmp_path / "guardrail.json")
    made = run_command("calibrate", str(tmp_path / "a.csv"), *column, *asked, "-o", run)
    assert made.returncode == 0, made.stderr
    assert json.loads((tmp_path / "run" / "report.json").read_text())["n_calibration"] == 300
    assert run_command("export", run, "-o", guardrail).returncode == 0
    card = " ".join(run_command("guardrail", "card", guardrail).stdout.split())
    assert "at least 90%" in card and "held-out answers" not in card
    # What set it, or bounded it, does not test it again.
    again = run_command("certify", guardrail, str(tmp_path / "a.csv"), "--max-fpr", "0.6")
    assert again.returncode != 0
    new = [row | {"id": f"new {row['id']}"} for row in answers(900, seed=9)]
    fresh = calibrail.certify(guardrail, new, max_fpr=0.7, min_coverage=0.7)
    assert fresh.verdict == "certified"


def test_counts_of_a_test_keep_their_bounds() -> None:
    made = calibrate_threshold(np.arange(100.0), Promise(0.1, "pac", 0.025))
    required = calibrail.Requirement(0.5, 0.95)
    with pytest.raises(InputError, match=r"at most the 0\.9"):
        calibrail.conformal.joint_certificate(made, ClassCounts(9, 10, 1, 10), required)
    alone = calibrail.conformal.joint_certificate(made, ClassCounts(0, 0, 1, 100), required)
    assert alone.verdict == "inconclusive" and alone.needed["hallucinated"] is None


def by_topic(n: int = 200, tiny: int = 0, **more: Any) -> list[Any]:
    """Return so many answers of three topics each, and a few of a further one."""
    rows = []
    for k, topic in enumerate(["law", "news", "tax"]):
        rows += [{**row, "topic": topic, "s": row["s"] + k} for row in answers(n, seed=k, **more)]
    rows += [{**row, "topic": "tiny"} for row in answers(tiny, seed=9)]
    return [{**row, "id": k, "q": f"{row['topic']} {row['q']}"} for k, row in enumerate(rows)]


def test_groups_keep_the_promise_together_and_their_false_alarms_are_all_counted() -> None:
    rows = by_topic()
    run = calibrated(rows, by="topic", max_fpr=0.7)
    report = run.report.to_dict()
    table, grouped = report["by_group"], run.rule.groups
    assert isinstance(grouped, GroupedCalibration)
    assert (table["delta"], table["confidence"], report["verdict"]) == (0.025, 0.95, "certified")
    for row in table["rows"]:
        made = grouped.groups[row["group"]]
        assert (made.n, made.rank) == (100, rank(100, 0.1, "pac", 0.025 / 3))
        assert row["n_calibration"] == 100 and row["verdict"] == "certified"
        assert (row["coverage"]["method"], row["coverage_at_least"]) == ("rank", 0.9)
        mine = [item for item in rows if item["topic"] == row["group"] and not item["label"]]
        alarms = sum(item["s"] >= row["threshold"] for item in mine)
        assert (row["fpr"]["count"], row["fpr"]["n"]) == (alarms, 100)
        # One threshold for all is compared with the limit on the answers that set it.
        assert row["shared_coverage"]["n"] == 100
    assert report["test"]["coverage"]["method"] == "rank" and report["test"]["fpr"]["n"] == 300
    halved = calibrated(rows, by="topic", max_fpr=0.7, splitting=HALVES)
    assert isinstance(halved.rule.groups, GroupedCalibration)
    assert {item.delta for item in halved.rule.groups.groups.values()} == {0.025}
    assert halved.report.by_group is not None and halved.report.by_group["delta"] is None


@pytest.mark.parametrize("n", [30, 45, 100])
def test_how_many_thresholds_share_an_error_follows_from_sizes_alone(n: int) -> None:
    names = ["large"] * 200 + [f"g{k // n}" for k in range(3 * n)]
    made = calibrate_groups(
        np.arange(len(names), dtype=float), names, Promise(0.1, "pac"), together=True
    )
    # 22 answers are enough for one threshold, and 33 for each of three.
    assert len(made.groups) == (1 if n == 30 else 4)
    assert {item.delta for item in made.groups.values()} == {0.1 / len(made.groups)}
    assert GroupedCalibration.from_dict(made.to_dict()).min_n == made.min_n


def test_nothing_is_proven_of_a_group_that_shares_a_threshold_but_what_its_answers_show() -> None:
    run = calibrated(by_topic(tiny=20), by="topic", max_fpr=0.7)
    assert run.report.by_group is not None
    rows = {row["group"]: row for row in run.report.by_group["rows"]}
    assert not rows["tiny"]["own"] and rows["tiny"]["verdict"] == "inconclusive"
    assert rows["tiny"]["coverage"]["n"] == 10 and rows["law"]["verdict"] == "certified"
    assert (run.verdict, run.report.reason_code) == ("inconclusive", "groups_apart")
    assert run.report.test.coverage.lower == 0.0 and run.report.certificate["region"] is None
    assert "(see the table of groups)" in next_step(run.report.to_dict())
    # All that a threshold misses in a group speaks against it, whatever set the threshold.
    low = [row | {"s": row["s"] - 9 * (row["topic"] == "tiny")} for row in by_topic(tiny=40)]
    broken = calibrated(low, by="topic", max_fpr=0.7, min_n=50).report.by_group
    assert broken is not None
    worst = next(row for row in broken["rows"] if row["group"] == "tiny")
    assert worst["verdict"] == "rejected" and worst["shared_p_undercovered"] < 0.01


@pytest.mark.parametrize(
    ("max_fpr", "verdict"), [(0.9, "certified"), (0.3, "inconclusive"), (0.2, "inconclusive")]
)
def test_questions_with_both_classes_have_the_verdict_of_all_their_groups(
    max_fpr: float, verdict: str
) -> None:
    run = calibrated(by_topic(1200, size=4), by="topic", max_fpr=max_fpr)
    assert run.report.by_group is not None
    verdicts = {row["verdict"] for row in run.report.by_group["rows"]}
    assert run.report.reason_code == "groups_apart" and run.verdict == verdict
    # One bound of one thing: no row of a page shows two.
    certificate = run.report.certificate
    assert certificate["fpr"]["upper"] == certificate["fpr_at_most"]
    assert (verdicts == {"certified"}) is (verdict == "certified")
    assert run.report.certificate["coverage_at_least"] == 0.9
    highest = max(row["fpr_at_most"] for row in run.report.by_group["rows"])
    assert run.report.certificate["fpr_at_most"] == highest
    # The picture has the ends that decide: no bound of all answers together refutes a limit here.
    box = target_box(run.report.to_dict())
    assert box is not None and box.lies == ("inside" if verdict == "certified" else "across")
    assert (box.fpr, box.coverage) == ((0.0, highest), (0.9, 1.0))


def test_pages_and_cards_of_groups_say_that_they_hold_together(tmp_path: Path) -> None:
    run = calibrated(by_topic(tiny=20), by="topic", max_fpr=0.7)
    page = " ".join((run.save(tmp_path / "run") / "report.html").read_text().split())
    assert "95% confidence for all together" in page and "with 95% confidence no group" in page
    assert (
        "counted on answers that set it" in page
        and "test set" not in page.split("Label more answers of")[0]
    )
    # A group that is certified does not show less than was asked for.
    assert "at least 90%" in page and "at least 8" not in page
    run.freeze().save(tmp_path / "guardrail.json")
    card = " ".join(run_command("guardrail", "card", f"{tmp_path}/guardrail.json").stdout.split())
    assert "all groups together with 95% confidence" in card
    new = [row | {"id": f"new {row['id']}"} for row in by_topic(900)]
    for row in new:
        row["s"] += 0.001
    fresh = calibrail.certify(tmp_path / "guardrail.json", new, max_fpr=0.9, min_coverage=0.7)
    assert fresh.verdict == "certified"
