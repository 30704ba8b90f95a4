"""Is a threshold that was fixed beforehand tested exactly, and shipped as it was tested?"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

import calibrail
from calibrail import Guardrail, Requirement, Run
from calibrail.conformal import ClassCounts, certify_counts
from calibrail.data.values import number_in
from calibrail.errors import DataError, InputError
from calibrail.serve.schemas import Item, ServiceProblem
from tests.command_line import calibrail as command

GOALS = ("--min-caught", "0.7", "--max-false-alarms", "0.3")


def answers(n: int = 200, *, seed: int = 0, shift: float = 2.0) -> list[dict[str, Any]]:
    """Rows of a score that is higher for hallucinated answers, all of them told by their ids."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        label = int(i % 2)
        score = round(float(rng.normal(shift * label)), 3)
        rows.append({"id": f"a{i}", "label": label, "hallucination_score": score})
    return rows


def counted(rows: list[dict[str, Any]], threshold: float) -> ClassCounts:
    good, bad = (
        [row["hallucination_score"] >= threshold for row in rows if row["label"] == label]
        for label in (0, 1)
    )
    return ClassCounts(sum(bad), len(bad), sum(good), len(good))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "answers.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in answers()), encoding="utf-8")
    return path


def test_all_answers_count_with_exact_intervals_that_hold_together(file: Path) -> None:
    run, rows = calibrail.test(file, threshold=1.0), answers()
    test, counts = run.report.test, counted(rows, 1.0)
    for bound, k, n in (
        (test.coverage, counts.caught, counts.n_hallucinated),
        (test.fpr, counts.false_alarms, counts.n_faithful),
    ):
        ends = binomtest(k, n).proportion_ci(0.975, "exact")
        assert (bound.count, bound.n, bound.method) == (k, n, "clopper-pearson")
        assert (bound.lower, bound.upper) == pytest.approx((ends.low, ends.high))
    content = run.report.to_dict()
    assert (content["guarantee"], content["n_calibration"]) == ("fixed", 0)
    assert content["column_threshold"] == 1.0 and content["curve"]["method"] == "berk-jones"


@pytest.mark.parametrize(
    ("caught", "alarms", "code"), [(0.7, 0.3, 0), (0.99, 0.3, 3), (0.8, 0.2, 4)]
)
def test_the_verdict_is_that_of_both_bounds_and_ends_the_command(
    file: Path, caught: float, alarms: float, code: int
) -> None:
    goals = ("--min-caught", caught, "--max-false-alarms", alarms)
    done = command("test", file, "--threshold", 1, *goals, "--json")
    asked = certify_counts(counted(answers(), 1.0), Requirement(alarms, caught, 0.95))
    content = json.loads(done.stdout)
    assert done.returncode == code and content["verdict"] == asked.verdict
    assert content["certificate"]["coverage_at_least"] == pytest.approx(asked.coverage_at_least)
    assert content["certificate"]["fpr_at_most"] == pytest.approx(asked.fpr_at_most)
    assert content["needed"] == dict(asked.needed)


def test_two_reasons_of_a_rejection_are_two_clauses(file: Path) -> None:
    both = {"min_caught": 0.99, "max_false_alarms": 0.01}
    reason = calibrail.test(file, threshold=1.0, **both).report.reason
    assert " is required; it flags at least " in reason and " and it " not in reason


def test_what_is_printed_is_short_and_says_what_was_understood(file: Path) -> None:
    done = command("test", file.name, "--threshold", 1, cwd=file.parent)
    said, lines = " ".join(done.stdout.split()), [*filter(str.strip, done.stdout.splitlines())]
    assert done.returncode == 0 and "INCONCLUSIVE" not in said
    assert said.startswith("Measured, no verdict yet At 1 it catches 7")
    assert "of 100 good ones." in said
    read = f"Data 200 answers of {file.name}, 100 hallucinated (label = 1); flagged where"
    assert f"{read} hallucination_score is 1 or more." in said
    assert (
        "In short Of 100 hallucinated answers about 1" in said and "95% confidence for both" in said
    )
    assert said.count(" flagged At ") == 2 and "(of 100 each; all lines hold together)" in said
    assert re.search(r"Labels For 80 caught and 20 flagged .* \d+ hallucinated .* are new\.", said)
    assert "put the limits that you had before you saw this in place of 0.8 and 0.2 (those" in said
    assert lines[-2].strip().startswith(f"calibrail test {file.name} --threshold 1 --min-caught")
    assert lines[-1].startswith("Caught ")
    assert len(lines) <= 18 and max(map(len, [*lines[:-2], lines[-1]])) <= 80
    # What it says beside stands on the page.
    page = command("test", file, "--threshold", 1, "--markdown").stdout
    assert "Copies cannot be told" in page and "Copies cannot be told" not in said


def test_a_part_of_the_file_is_named_where_notes_are_not(file: Path) -> None:
    done = command("test", file.name, "--threshold", 1, "--limit", 120, cwd=file.parent)
    read = f"{file.name} (its first rows, which the others need not be like), 60 hallucinated"
    assert read in " ".join(done.stdout.split())


def test_what_is_possible_stands_below_what_is_not_met(file: Path) -> None:
    done = command("test", file, "--threshold", 3, *GOALS)
    said = " ".join(done.stdout.split())
    assert done.returncode == 3 and "Fails your requirement: with 95% confidence it catches" in said
    assert "At most 30% false alarms: about 9" in said and "70% caught: about" in said
    assert not any(line.startswith("At ") for line in done.stdout.splitlines())
    assert "Without -o RUN this test is not recorded" in done.stderr


def test_after_a_rejection_the_command_that_looks_for_a_threshold_runs(
    file: Path, tmp_path: Path
) -> None:
    for named in ((), ("--score-column", "hallucination_score")):
        done = command("test", file, "--threshold", 3, *GOALS, *named)
        (line,) = re.findall(r"(?m)^  calibrail calibrate .*", done.stdout)
        words = shlex.split(line)
        found = command(*words[1:], "--force", cwd=tmp_path)
        # These answers have rejected one threshold: of another they give no verdict.
        assert found.returncode == 0 and "hallucination_score" in found.stdout, found.stderr
        assert "verdict was asked" in found.stdout or "for a verdict" in found.stdout
    # No threshold is looked for where none can be found, and costs are no part of it.
    for goals in (("--min-caught", 0, "--max-false-alarms", 0.01), (*GOALS, "--cost-miss", 2)):
        costs = ("--cost-alarm", 1) if "--cost-miss" in goals else ()
        out = ("-o", tmp_path / f"t{len(goals)}")
        done = command("test", file, "--threshold", 3 if costs else 1, *goals, *costs, *out)
        assert done.returncode == 3, done.stdout
        found = [line for line in done.stdout.splitlines() if line.startswith("  calibrail")]
        assert bool(found) == bool(costs)
        for line in found:
            assert "--cost" not in line and line.count(" -o ") == 1
    rows = (f"a{i},{i % 2},{('PASS', 'FAIL')[i % 7 < 2]}\n" for i in range(300))
    (tmp_path / "judge.csv").write_text("id,label,judge\n" + "".join(rows), encoding="utf-8")
    said = command("test", tmp_path / "judge.csv", "--min-caught", 0.9, "--max-false-alarms", 0.1)
    assert "yes and no has no other threshold" in " ".join(said.stdout.split())
    assert "flagged where judge says hallucinated (yes, 1)." in " ".join(said.stdout.split())


def test_a_second_threshold_that_fails_on_the_same_answers_has_the_step_of_one_that_failed(
    file: Path, tmp_path: Path
) -> None:
    for threshold in (1, 3):
        done = command("test", file, "--threshold", threshold, *GOALS, "-o", tmp_path / "run")
        assert ("Find another threshold" in " ".join(done.stdout.split())) is (threshold == 3)
    assert "was looked at before" in " ".join(done.stdout.split())


def test_the_next_step_is_one_that_these_scores_can_take(file: Path) -> None:
    def step(caught: float, alarms: float) -> str:
        goals = ("--min-caught", caught, "--max-false-alarms", alarms)
        return " ".join(command("test", file, "--threshold", 1, *goals).stdout.split())

    # No threshold does both; one that is not the given one does, whose alarms lie at the limit.
    none = (
        "On these answers no threshold of this score catches 99 of 100 and flags at most 1 of 100"
    )
    assert none in step(0.99, 0.01)
    # Data without texts has no score but those of its columns.
    assert "--score-column NAME --alpha 0.01 -o RUN-compared" in step(0.99, 0.01)
    alarms = counted(answers(), 1.0).false_alarms / 100
    assert "Find another threshold on these answers" in step(0.3, alarms)
    assert "Find another" not in step(0.75, 0.25) and "no threshold" not in step(0.7, 0.3)


def test_where_labels_would_reject_a_threshold_what_takes_none_comes_first(
    file: Path, tmp_path: Path
) -> None:
    def steps(caught: float, alarms: float, *more: object) -> list[str]:
        goals = ("--min-caught", caught, "--max-false-alarms", alarms)
        done = command("test", file, "--threshold", 1.5, *goals, *more)
        assert done.returncode == 4, done.stdout
        said = " ".join(done.stdout.split())
        return re.split(r" (?=More labels would|Freeze)", said[said.index("Next: ") :])

    # Fewer are caught than is required, and a lower threshold catches enough.
    first, second = steps(0.79, 0.3, "--page", tmp_path / "t.html")
    assert first.startswith("Next: Find another threshold on these answers")
    # Nobody labels in order to be rejected.
    fails = r"More labels .* since at these rates about [\d,]+ new answers would show that it fails"
    assert re.match(rf"{fails}[.]", second)
    (line,) = re.findall(r"calibrail (calibrate .*? -o RUN-calibrated)", first)
    assert command(*shlex.split(line), cwd=tmp_path).returncode == 0
    first, second = steps(0.79, 0.08)
    assert first.startswith("Next: On these answers no threshold of this score catches 79 of 100")
    assert "another detector, put in place of NAME" in first and re.match(fails, second)
    (_, only) = steps(0.65, 0.2)
    assert only.startswith("Freeze this threshold") and "will be certified" in only


@pytest.mark.parametrize(("column", "turn"), [("high", 1), ("low", -1)])
def test_what_is_possible_ends_every_verdict_that_is_not_certified(
    tmp_path: Path, column: str, turn: int
) -> None:
    """By bounds that hold for all thresholds, in the numbers of the column, on what decides."""
    higher = "hallucinated" if turn == 1 else "faithful"
    files = []
    for seed in (1, 2):
        noise = np.random.default_rng(9).normal(size=600)
        rows = [
            {"id": f"{seed}{row['id']}", "label": row["label"]}
            | {column: turn * row["hallucination_score"], "noise": float(noise[i])}
            for i, row in enumerate(answers(600, seed=seed))
        ]
        path = tmp_path / f"{seed}.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        files.append(path)
    asked = ("--higher", higher, "--no-baselines", "--max-false-alarms", 0.05)
    about = ("--score-column", column, "--alpha", 0.1, *asked)
    done = command("calibrate", files[0], *about, "-o", tmp_path / "run")
    said = " ".join(done.stdout.split())
    assert done.returncode == 3 and "REJECTED" in said
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    scores = np.array([turn * row["hallucination_score"] for row in answers(600, seed=1)])
    labels = np.arange(600) % 2
    place = report["curve"]["fpr"]["estimate"].index(
        next(share for share in report["curve"]["fpr"]["estimate"] if share <= 0.05)
    )
    at = turn * report["curve"]["thresholds"][place]
    caught = np.mean(turn * scores[labels == 1] >= turn * at)
    assert f"At most 5% false alarms: about {100 * caught:.3g}% caught (at least" in said
    assert f"at {at:.4g}. 90% caught: about" in said
    assert said.index("At most 5% false alarms") < said.index("Next:")
    command("export", tmp_path / "run", "-o", tmp_path / "g.json")
    limit = ("--max-false-alarms", 0.05)
    fresh = command("certify", tmp_path / "g.json", files[1], *limit, "--json")
    content = json.loads(fresh.stdout)
    points, found = content["possible"], answers(600, seed=2)
    assert content["verdict"] == "rejected" and points["confidence"] == 0.95
    for name, label in (("alarms", 1), ("caught", 0)):
        of = [turn * r["hallucination_score"] for r in found if r["label"] == label]
        hits = np.mean([turn * score >= turn * points[name]["threshold"] for score in of])
        assert points[name]["rate"] == pytest.approx(hits)
    assert points["alarms"]["bound"] < points["alarms"]["rate"] < 0.9
    easy = ("--max-false-alarms", 0.9, "--min-caught", 0.6, "--json")
    fine = json.loads(command("certify", tmp_path / "g.json", files[1], *easy).stdout)
    assert fine["verdict"] == "certified" and "possible" not in fine
    missing = command("certify", tmp_path / "g.json", files[1])
    assert missing.returncode == 2 and "e.g. --max-false-alarms 0.05, as when" in missing.stderr
    columns = ("--score-column", column, "--score-column", "noise", "--alpha", 0.1, *asked)
    compared = command("compare", files[0], *columns, "-o", tmp_path / "compare")
    assert f"{column} wins" in compared.stdout
    said = " ".join(compared.stdout.split())
    assert "At most 5% false alarms: about" in said[said.index(f"{column} wins") :]


def test_a_run_is_frozen_with_its_threshold_and_decides_alike(file: Path, tmp_path: Path) -> None:
    done = command("test", file, "--threshold", 1, *GOALS, "-o", tmp_path / "run")
    assert done.returncode == 0 and "CERTIFIED" in done.stdout and "no look" not in done.stderr
    exported = command("export", tmp_path / "run", "-o", tmp_path / "g.json")
    assert (
        exported.returncode == 0
        and "flags at 1 or higher; when tested: certified" in exported.stdout
    )
    guardrail = Guardrail.load(tmp_path / "g.json")
    loaded = Run.load(tmp_path / "run")
    assert loaded.freeze().config.to_bytes() == guardrail.config.to_bytes()
    assert guardrail.config.promise.guarantee == "fixed"
    examples = list(calibrail.read(answers(), keep=("hallucination_score",), require=()))
    flagged = [item.outcome == "flag" for item in guardrail.decide(examples)]
    assert flagged == [row["hallucination_score"] >= 1.0 for row in answers()]
    # The same answers certify nothing again, and others do.
    asked = {"max_fpr": 0.3, "looks": False}
    assert calibrail.certify(guardrail, file, **asked).verdict == "inconclusive"
    assert calibrail.certify(guardrail, answers(seed=9), **asked).verdict == "certified"


def test_goals_that_are_named_after_a_look_take_half_of_the_error_each(
    file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    looked = command("test", file, "--threshold", 1, "-o", run, "--json")
    assert looked.returncode == 0 and "half of" not in looked.stdout
    shown = command("test", file, "--threshold", 1, *GOALS, "-o", run).stdout
    assert "each bound uses half of the allowed error" in " ".join(shown.split())
    for _ in range(2):
        after = json.loads(
            command("test", file, "--threshold", 1, *GOALS, "-o", run, "--json").stdout
        )
        assert "half of" in after["notes"][-1]
    # Each bound has half of the error: both together have what was asked for, and no more.
    proof = after["certificate"]
    assert after["confidence"] == proof["confidence"] == after["requirement"]["confidence"] == 0.95
    assert "With 95% confidence" in after["reason"] and "97.5" not in after["reason"]
    counted = (proof[name] for name in ("coverage", "fpr"))
    ends = [binomtest(it["count"], it["n"]).proportion_ci(0.95, "exact") for it in counted]
    assert proof["coverage_at_least"] == pytest.approx(ends[0].low)
    assert proof["fpr_at_most"] == pytest.approx(ends[1].high)
    # What does not decide names the confidence that its ends have.
    open_run = tmp_path / "open"
    command("test", file, "--threshold", 1, "-o", open_run)
    near = f"{proof['coverage']['estimate'] - 0.01:.3f}"
    words = ("test", file, "--threshold", 1, "--min-caught", near, *GOALS[2:], "-o", open_run)
    after = json.loads(command(*words, "--json").stdout)
    assert after["verdict"] == "inconclusive" and after["confidence"] == 0.95
    assert after["reason"].startswith("With 97.5% confidence the share caught lies between")
    other = command("test", file, "--threshold", 1, "--min-caught", 0.6, *GOALS[2:], "-o", run)
    assert other.returncode == 4 and "looked at before" in " ".join(other.stdout.split())
    moved = command("test", file, "--threshold", 0.9, *GOALS, "-o", run)
    assert moved.returncode == 4 and "looked at before" in " ".join(moved.stdout.split())
    first = json.loads(command("test", file, "--threshold", 1, *GOALS, "--json").stdout)
    assert first["confidence"] == 0.95


def test_groups_and_copies_count_as_everywhere() -> None:
    rows = [{**row, "group": f"g{i // 4}"} for i, row in enumerate(answers(400))]
    grouped = calibrail.test(rows, threshold=1.0)
    assert grouped.report.test.coverage.n == 100 and grouped.report.test.fpr.n == 100
    # It is of answers of both classes: of a group one.
    assert grouped.report.test.accuracy.n == 100
    every = calibrail.test(rows, threshold=1.0, assume_independent=True)
    assert every.report.test.coverage.n == 200
    texts = [
        {"id": f"{row['id']}-{k}", "response": f"Answer {i} of its own says {i * i}.", **row}
        for i, row in enumerate(answers(60))
        for k in range(3)
    ]
    assert calibrail.test(texts, threshold=1.0).report.test.coverage.n == 30


@pytest.mark.parametrize(
    ("cells", "higher"),
    [
        ([1, 0], "hallucinated"),
        ([0, 1], "faithful"),
        ([True, False], "hallucinated"),
        (["false", "true"], "faithful"),
    ],
)
def test_a_yes_no_judge_needs_no_threshold(cells: list[Any], higher: str) -> None:
    rows = [{"id": i, "label": int(i % 2), "judge": cells[i % 5 < 2]} for i in range(200)]
    run = calibrail.test(rows, higher=higher)
    said = [cells[0] == cells[i % 5 < 2] for i in range(200)]
    counts = [sum(said[i] for i in range(200) if i % 2 == k) for k in (1, 0)]
    assert [run.report.test.coverage.count, run.report.test.fpr.count] == counts
    assert "This judge catches" in repr(run)


@pytest.mark.parametrize(
    ("name", "cells", "flagged"),
    [
        ("judge", ("PASS", "FAIL"), "FAIL"),
        ("judge", ("hallucinated", "faithful"), "hallucinated"),
        ("judge", ("supported", "not supported"), "not supported"),
        ("is_hallucinated_by_judge", ("Yes", "No"), "Yes"),
        ("judge_grounded", ("yes", "no"), "no"),
        ("judge_not_supported", ("TRUE", "FALSE"), "TRUE"),
        ("judge_passed", (True, False), False),
        ("judge_hallucinated", (1, 0), 1),
    ],
)
def test_what_a_verdict_means_is_found_in_its_words_and_its_name(
    name: str, cells: tuple[Any, Any], flagged: Any
) -> None:
    # A number beside it is the judge's latency, and one of its scores.
    rows = [
        {"id": i, "label": i % 2, name: cells[i % 5 < 2], "ms": 100 + i, "judge_score": i / 200}
        for i in range(200)
    ]
    run = calibrail.test(rows)
    counts = [sum(row[name] == flagged for row in rows if row["label"] == k) for k in (1, 0)]
    assert [run.report.test.coverage.count, run.report.test.fpr.count] == counts
    # The guardrail reads the same words.
    kept = calibrail.read(rows, keep=(name,), require=())
    decided = run.freeze().decide(list(kept))
    assert [item.outcome == "flag" for item in decided] == [row[name] == flagged for row in rows]
    # So does the service, and it refuses what is no verdict.
    asked = Item(columns={name: cells[0]}).example(run.freeze())
    assert number_in(asked.columns[name]) == number_in(cells[0])
    with pytest.raises(ServiceProblem, match="must be a number or null"):
        Item(columns={name: "high"}).example(run.freeze())


def test_a_threshold_asks_for_a_number_where_there_is_a_verdict_too() -> None:
    rows = [{**row, "judge_verdict": "yes" if row["label"] else "no"} for row in answers()]
    assert calibrail.test(rows, threshold=1.0).report.score["params"]["column"] == (
        "hallucination_score"
    )


def test_words_that_say_nothing_are_asked_about_with_the_option_that_reads_them() -> None:
    rows = [
        {"id": i, "label": i % 2, "ms": 100 + i, "judge": ("good", "bad")[i % 5 < 2]}
        for i in range(200)
    ]
    option = "column:column=judge,higher=hallucinated,positive=bad"
    with pytest.raises(InputError, match=f"holds 'bad' and 'good'.*score=\"{option}\""):
        calibrail.test([{k: v for k, v in row.items() if k != "ms"} for row in rows])
    run = calibrail.test(rows, option)
    assert (run.report.test.coverage.count, run.report.test.fpr.count) == (40, 40)
    assert Guardrail.check(run.freeze(), columns={"judge": "Bad"}).outcome == "flag"
    with pytest.raises(InputError, match=r"does a yes \(1, true\) in flagged speak for"):
        calibrail.test([{**row, "flagged": row["judge"] == "bad"} for row in rows], threshold=1)


def test_a_dry_run_knows_the_column_that_is_found(file: Path) -> None:
    done = command("test", file, "--threshold", 1, "--dry-run")
    assert done.returncode == 0 and "nothing was sent" in done.stdout
    file = file.with_name("unclear.jsonl")
    file.write_text('{"id": "a", "label": 1, "dae": 0.5}\n' * 3, encoding="utf-8")
    done = command("test", file, "--threshold", 0.5, "--dry-run")
    assert done.returncode == 2 and "does a higher value of dae speak for" in done.stderr
    done = command("test", file, "--threshold", 0.5, "--score-column", "dea")
    assert (
        done.returncode == 1 and "has no column 'dea'; columns seen: id, label, dae" in done.stderr
    )


@pytest.mark.parametrize(
    ("changes", "options", "says"),
    [
        ({}, {}, "a threshold is needed"),
        ({}, {"threshold": 70}, "beyond all scores of hallucination_score.*no answer would"),
        ({}, {"threshold": -70}, "every answer would be flagged"),
        ({}, {"threshold": 1, "min_caught": 80}, r"min_caught must .*80% is 0.8\)"),
        ({}, {"threshold": 1, "min_caught": 0.8}, "a verdict is about both"),
        ({}, {"threshold": 1, "n_looks": 2}, "also name what is asked"),
        ({}, {"threshold": 1, "score": ["novelty", "length"]}, "test takes one score"),
        ({}, {"threshold": 1, "score": "novelty", "higher": "faithful"}, "leave them out beside"),
        ({"label": 1}, {"threshold": 1}, "no answer is labelled faithful"),
        ({"label": None}, {"threshold": 1}, "label"),
        ({"other_score": 0.5}, {"threshold": 1}, "several columns may be the score: hall.*other"),
        ({"hallucination_score": "much"}, {"threshold": 1}, "no column of numbers or verdicts"),
    ],
)
def test_what_cannot_be_tested_is_refused_with_the_remedy(
    changes: dict[str, Any], options: dict[str, Any], says: str
) -> None:
    rows = [{**row, **changes} for row in answers(40)]
    with pytest.raises((InputError, DataError), match=says):
        calibrail.test(rows, **options)


def test_a_direction_is_taken_from_the_name_or_asked_never_guessed() -> None:
    rows = [
        {"id": r["id"], "label": r["label"], "dae": -r["hallucination_score"]} for r in answers()
    ]
    with pytest.raises(InputError, match="does a higher value of dae speak for"):
        calibrail.test(rows, threshold=-1.0)
    turned = calibrail.test(rows, threshold=-1.0, higher="faithful").report
    assert turned.test.coverage.count == counted(answers(), 1.0).caught
    assert turned.to_dict()["column_threshold"] == -1.0
    named = [{**row, "supported_score": row.pop("dae")} for row in rows]
    assert calibrail.test(named, threshold=-1.0).report.test.coverage == turned.test.coverage


def test_calibrate_with_a_threshold_is_the_same(file: Path) -> None:
    score = "column:column=hallucination_score,higher=hallucinated"
    goals = {"min_coverage": 0.7, "max_fpr": 0.3}
    one = calibrail.calibrate(file, score, threshold=1.0, **goals).report
    other = calibrail.test(file, threshold=1.0, min_caught=0.7, max_false_alarms=0.3).report
    assert one == other
    with pytest.raises(InputError, match="leave out guarantee"):
        calibrail.calibrate(file, score, threshold=1.0, guarantee="pac")


def test_calibrate_with_a_threshold_finds_the_column_as_test_does(
    file: Path, tmp_path: Path
) -> None:
    found = calibrail.calibrate(file, threshold=1.0).report
    assert found.to_dict() == calibrail.test(file, threshold=1.0).report.to_dict()
    done = command("calibrate", file, "--threshold", 1, "-o", tmp_path / "run")
    assert "flagged where hallucination_score" in " ".join(done.stdout.split()), done.stderr


def test_labels_of_a_judge_are_named_in_the_first_line(file: Path) -> None:
    done = command("test", file, "--threshold", 1, "--labelled-by", "gpt-5")
    first = " ".join(done.stdout.split())
    assert first.index("good ones, on labels of gpt-5.") < first.index("Data")


def test_the_command_that_certifies_names_what_the_guardrail_does_not_state(file: Path) -> None:
    goals = ("--min-caught", 0.8, "--max-false-alarms", 0.2)
    done = " ".join(command("test", file, "--threshold", 1, *goals).stdout.split())
    assert "certify guardrail.json NEW --max-false-alarms 0.2)" in done
    asked = calibrail.test(file, threshold=1.0, min_caught=0.8, max_false_alarms=0.2)
    promise = asked.freeze().config.promise
    assert Requirement(max_false_alarms=0.2).stated_coverage(promise) == pytest.approx(0.8)


def test_a_guardrail_of_which_nothing_was_asked_asks_when_it_is_certified(file: Path) -> None:
    guardrail = calibrail.test(file, threshold=1.0).freeze()
    with pytest.raises(InputError, match="say how much must be caught"):
        calibrail.certify(guardrail, answers(seed=3), max_fpr=0.3, looks=False)
    asked = {"max_fpr": 0.3, "min_coverage": 0.7, "looks": False}
    assert calibrail.certify(guardrail, answers(seed=3), **asked).verdict == "certified"
    guardrail.save(file.with_name("asked.json"))
    decisions = ("-o", file.with_name("asked.jsonl"), "--force")
    done = command("check", file.with_name("asked.json"), file, *decisions)
    said = " ".join(done.stdout.split())
    assert said.endswith("--max-false-alarms LIMIT --min-caught SHARE")
    verified = command("guardrail", "verify", file.with_name("asked.json")).stdout
    assert verified.rstrip().endswith("no verdict was asked for") and "inconclusive" not in verified
    card = calibrail.card(guardrail).markdown()
    assert "no answer set it" in card
    assert "FRESH_LABELS --max-false-alarms LIMIT --min-caught SHARE" in card


def test_it_is_no_test_of_whoever_imports_it() -> None:
    assert getattr(calibrail.test, "__test__", True) is False


@pytest.mark.parametrize("bad", ["caught", "alarms"])
@pytest.mark.parametrize("kind", ["alone", "in groups", "after a look"])
def test_a_threshold_at_the_boundary_is_wrongly_certified_as_seldom_as_stated(
    bad: str, kind: str, tmp_path: Path
) -> None:
    # One share lies at its boundary, the other far inside; scores tie, at the threshold, too.
    shares = {"caught": (0.8, 0.02), "alarms": (0.99, 0.2)}[bad]
    n, wrong, runs, error = 160, 0, 80 if kind == "alone" else 40, 0.1
    for seed in range(runs):
        rng = np.random.default_rng([seed, len(bad), len(kind)])
        size = 3 if kind == "in groups" else 1
        rows = []
        for i in range(n):
            label = int(i % 2)
            # Answers of a group are decided alike: as many as they are, they are worth one.
            flagged = rng.random() < shares[1 - label]
            for k in range(size):
                rows.append(
                    {
                        "id": f"{seed}-{i}-{k}",
                        "group": f"g{i}",
                        "label": label,
                        "hallucination_score": int(rng.integers(7, 10) if flagged else 6),
                    }
                )
        asked = {"min_caught": 0.8, "max_false_alarms": 0.2, "confidence": 1.0 - error}
        looks = tmp_path / f"{seed}.json" if kind == "after a look" else None
        if looks is not None:
            # What is asked is read off: the most of what was seen to be shown.
            seen = calibrail.test(rows, threshold=7, confidence=1.0 - error, looks=looks).report
            if seen.test.coverage.lower > 0.8 or seen.test.fpr.upper < 0.2:
                asked["min_caught"] = max(0.8, np.floor(100 * seen.test.coverage.lower) / 100)
                asked["max_false_alarms"] = min(0.2, np.ceil(100 * seen.test.fpr.upper) / 100)
        wrong += calibrail.test(rows, threshold=7, looks=looks, **asked).verdict == "certified"
    # What is allowed, and four standard errors of so many runs.
    assert wrong > 0 or kind != "alone"
    assert wrong <= error * runs + 4.0 * np.sqrt(error * (1.0 - error) * runs)


def test_answers_exactly_at_the_threshold_are_told_with_the_one_that_passes_them(
    tmp_path: Path,
) -> None:
    """A tool that passes an answer at its threshold flags others than this test does."""
    rows = [(f"a{i}", 1 + i % 5, int(i % 5 < 2)) for i in range(100)]
    text = "id,faithfulness,label\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows)
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    shown = command("test", tmp_path / "a.csv", "--threshold", "3").stdout
    assert "20 answers lie exactly there" in " ".join(shown.split())
    assert "--threshold 2." in " ".join(shown.split())
    assert "lie exactly" not in command("test", tmp_path / "a.csv", "--threshold", "2.5").stdout


def test_a_score_that_runs_the_other_way_asks_first_what_the_labels_mean(tmp_path: Path) -> None:
    rows = [(f"a{i}", i % 10 / 10, int(i % 10 < 5)) for i in range(200)]
    text = "id,hallucination_score,human_label\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows)
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    shown = " ".join(command("test", tmp_path / "a.csv", "--threshold", "0.15").stdout.split())
    step = shown[shown.index("Next:") :]
    assert step.index("--threshold 0.15 --positive 0") < step.index("--higher faithful")
    assert "To catch 0%" not in shown


def test_which_answer_of_a_question_counts_has_nothing_to_do_with_the_order() -> None:
    rng = np.random.default_rng(4)
    rows = [
        {"id": f"a{i}", "group": f"q{i // 2}", "label": i % 2, "hallucination_score": score}
        for i, score in enumerate(rng.normal(size=120))
    ]
    found = [calibrail.test(items, threshold=0.3).report.test for items in (rows, rows[::-1])]
    assert found[0].accuracy == found[1].accuracy
