"""Do costs pick the threshold on one half, and does the other half bound what it costs?"""

from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy.special import ndtr

import calibrail
from calibrail import Guardrail
from calibrail.conformal.bounds import cost_at_most
from calibrail.errors import InputError
from calibrail.options import Costs
from calibrail.report import print_document
from calibrail.report.documents.calibrate import document
from calibrail.report.documents.measures import costs_in_words
from tests.command_line import calibrail as command
from tests.pipelines.test_fixed_threshold import answers

SCORE = "column:column=hallucination_score,higher=hallucinated"
COSTS = {"cost_miss": 20.0, "cost_alarm": 1.0, "base_rate": 0.1}
WORDS = ("--cost-miss", 20, "--cost-alarm", 1)
COLUMN = ("--score-column", "hallucination_score", "--higher", "hallucinated")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "answers.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in answers(400)), encoding="utf-8")
    return path


def told(run: Any) -> str:
    """Return all that the terminal shows of a run, as one line."""
    console = Console(width=10_000, file=io.StringIO())
    print_document(document(run.report.to_dict()), console)
    return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


def in_part(run: Any, part: int) -> tuple[np.ndarray, np.ndarray]:
    rows = run.codes == part
    return next(iter(run.table.columns.values()))[rows], run.table.labels[rows]


def test_the_calibration_part_picks_what_costs_least_and_the_test_part_bounds_it(
    file: Path,
) -> None:
    run = calibrail.calibrate(file, SCORE, **COSTS)
    report = run.report
    weights, (values, labels) = (2.0, 0.9), in_part(run, 1)

    def cost(edge: float, values: Any = values, labels: Any = labels) -> float:
        missed, alarms = (values < edge)[labels == 1], (values >= edge)[labels == 0]
        return float(weights[0] * missed.mean() + weights[1] * alarms.mean())

    assert cost(run.calibration.threshold) == min(map(cost, values))
    values, labels = in_part(run, 2)
    test, found = report.test, report.cost
    assert found is not None
    missed = test.coverage.n - test.coverage.count
    counts = (missed, test.coverage.n), (test.fpr.count, test.fpr.n)
    assert found["estimate"] == pytest.approx(
        1000 * cost(run.calibration.threshold, values, labels)
    )
    assert found["upper"] == 1000 * cost_at_most(*counts, weights, 0.95)
    assert (found["flag_all"], found["pass_all"], found["per"]) == (900.0, 2000.0, 1000)
    assert found["costs"] == COSTS and found["base_rate_is"] == "given"
    assert found["beats"] and found["confidence"] == 0.95
    content = report.to_dict()
    assert content["cost"] == found and content["guarantee"] == "fixed"
    assert calibrail.Report.from_dict(content).cost == found
    # Other answers of the test part leave the threshold where it is.
    assert len(run.calibration_examples) == int((run.codes == 1).sum())


def test_without_a_base_rate_that_of_the_data_is_used_and_its_assumption_said(file: Path) -> None:
    rows = [row for row in answers(400) if row["label"] == 0 or int(row["id"][1:]) % 4 == 1]
    run = calibrail.calibrate(rows, SCORE, cost_miss=2.0, cost_alarm=1.0)
    found = run.report.cost
    assert found is not None and found["costs"]["base_rate"] == pytest.approx(1 / 3)
    assert found["base_rate_is"] == "of the data"
    said = told(run)
    assert "33.3% are hallucinated, as in this data: the bound holds for traffic only if" in said
    assert "give your share (base_rate" in said


def test_a_detector_that_beats_neither_simple_way_is_told_plainly(file: Path) -> None:
    rng = np.random.default_rng(3)
    rows = [{**row, "hallucination_score": float(rng.normal())} for row in answers(200)]
    run = calibrail.calibrate(rows, SCORE, **COSTS)
    said = told(run)
    assert run.report.cost is not None and not run.report.cost["beats"]
    assert "passing everything 2,000. So it is not shown to cost less than flagging" in said
    assert "Label more answers, or find a detector" in said
    good = told(calibrail.calibrate(file, SCORE, **COSTS))
    assert (
        "flagging everything costs 900, passing everything 2,000." in good
        and "not shown to cost" not in good
    )
    assert "none of which picked the threshold" in good and "Freeze exactly this" in good


def test_a_threshold_that_flags_all_at_these_costs_is_told_by_them() -> None:
    given: dict[str, Any] = {"scores": np.arange(240) % 7, "labels": np.arange(240) % 3 == 0}
    run = calibrail.calibrate(**given, higher="hallucinated", cost_miss=200, cost_alarm=1)
    assert "that costs least flags 80 of 80 faithful test answers" in told(run)
    assert "alpha" not in told(run) and "To catch 0%" not in told(run)


def test_the_command_says_what_the_call_says_and_freezes_it(file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    goals = ("--min-caught", 0.7, "--max-false-alarms", 0.5)
    done = command("calibrate", file, *COLUMN, *WORDS, "--base-rate", 0.1, *goals, "-o", run)
    said = " ".join(done.stdout.split())
    assert done.returncode == 0 and said.startswith("CERTIFIED")
    assert "Expected cost per 1,000 answers (20 a miss, 1 a false alarm)" in said
    # A number has a unit, and both of what it is to be compared with.
    assert "per 1,000 answers in the unit of your costs (20 a miss, 1 a false alarm), and" in said
    assert "confidence; flagging everything costs 900, passing everything 2,000." in said
    called = calibrail.calibrate(file, SCORE, **COSTS, min_coverage=0.7, max_fpr=0.5)
    kept = json.loads((run / "report.json").read_text())
    assert kept["cost"] == called.report.cost and kept["verdict"] == called.verdict
    assert "Its errors cost about" in (run / "report.html").read_text()
    exported = command("export", run, "-o", tmp_path / "g.json")
    assert exported.returncode == 0 and "when tested: certified" in exported.stdout
    guardrail = Guardrail.load(tmp_path / "g.json")
    assert guardrail.calibration.threshold == called.calibration.threshold
    # Both halves are known: neither certifies it again, and other answers do.
    asked = {"max_fpr": 0.5, "looks": False}
    assert calibrail.certify(guardrail, file, **asked).verdict == "inconclusive"
    assert calibrail.certify(guardrail, answers(seed=9), **asked).verdict == "certified"
    card = calibrail.card(guardrail).markdown()
    assert "95% interval" in card and "97.5%" not in card
    assert "picked by what errors cost" in card and "by whoever uses it" not in card


def test_large_and_small_costs_are_told_in_plain_digits(file: Path) -> None:
    run = calibrail.calibrate(file, SCORE, cost_miss=5e6, cost_alarm=2000, base_rate=0.1)
    large, shown = told(run), run.report.to_dict()["certificate"]["region"]["coverage"]
    assert (
        "in the unit of your costs (5,000,000 a miss, 2,000 a false alarm)," in large
        and "e+0" not in large
    )
    assert "flagging everything costs 1,800,000, passing everything 500,000,000." in large
    # Both rates are said with exact bounds that hold together.
    ends = math.floor(100 * shown["lower"]), math.ceil(100 * shown["upper"])
    assert shown["method"] == "clopper-pearson"
    assert f"catches {ends[0]} to {ends[1]} of 100" in large
    small = told(calibrail.calibrate(file, SCORE, cost_miss=0.002, cost_alarm=1e-4, base_rate=0.1))
    assert "flagging everything costs 0.09, passing" in small and ", and at most 0.0" in small


@pytest.mark.parametrize(("alarms", "code"), [(0.5, 0), (0.01, 3), (0.32, 4)])
def test_goals_decide_the_exit_code(file: Path, tmp_path: Path, alarms: float, code: int) -> None:
    goals = ("--min-caught", 0.7, "--max-false-alarms", alarms)
    words = (*COLUMN, *WORDS, "--base-rate", 0.1, *goals, "-o", tmp_path / "run", "--json")
    done = command("calibrate", file, *words)
    assert done.returncode == code, json.loads(done.stdout)["certificate"]
    assert json.loads(done.stdout)["cost"]["upper"] is not None


def test_a_second_look_bounds_nothing(file: Path, tmp_path: Path) -> None:
    def asked(**changes: Any) -> dict[str, Any]:
        looks = tmp_path / "looks.json"
        run = calibrail.calibrate(file, SCORE, **COSTS | changes, looks=looks)
        return {**run.report.cost, "said": told(run)}  # type: ignore[dict-item]

    first = asked()
    assert first["upper"] is not None and asked() == first
    other = asked(cost_miss=40.0)
    assert other["upper"] is None and not other["beats"]
    assert "No bound of its cost" in other["said"]
    assert "looked at before" in other["said"]


def test_groups_copies_and_undefined_scores_count_as_everywhere() -> None:
    rows = [{**row, "group": f"g{i // 4}"} for i, row in enumerate(answers(400))]
    grouped = calibrail.calibrate(rows, SCORE, **COSTS).report
    alone = {name: COSTS[name] for name in ("cost_miss", "cost_alarm")}
    for given, told in ((rows, True), (answers(400), False)):
        cost = calibrail.calibrate(given, SCORE, **alone).report.cost
        assert cost is not None and cost["by_group"] is told
        assert ("Each group counts here" in costs_in_words(cost)[1]) is told
    once = calibrail.calibrate(rows, SCORE, **COSTS, assume_independent=True).report
    assert grouped.cost is not None and once.cost is not None
    assert grouped.certificate["coverage"]["n"] < once.certificate["coverage"]["n"]
    assert grouped.cost["upper"] > once.cost["upper"]
    texts = [
        {**row, "response": f"Answer {i} of its own says {i * i}."}
        for i, row in enumerate(answers(200))
        for _ in range(3)
    ]
    copies = calibrail.calibrate(texts, SCORE, **COSTS).report
    assert copies.certificate["coverage"]["n"] + copies.certificate["fpr"]["n"] == 100
    lost = [
        {**row, "hallucination_score": None if i % 10 in (1, 2) else row["hallucination_score"]}
        for i, row in enumerate(answers(400))
    ]
    costs = {
        policy: calibrail.calibrate(lost, SCORE, **COSTS, undefined=policy).report.cost
        for policy in ("flag", "review", "pass")
    }
    assert costs["flag"] == costs["review"]
    # A tenth of each class is missed, or flagged.
    assert costs["pass"]["estimate"] > costs["flag"]["estimate"] + 0.1 * (2000 - 900) - 60  # type: ignore[index]


def test_the_base_rate_of_the_data_is_not_that_of_the_answers_that_count() -> None:
    """Of a question one answer of each class counts: passing all looked five times as costly."""
    rng = np.random.default_rng(0)
    labels = np.arange(1200) % 10 == 0
    columns = {
        "id": [f"a{i}" for i in range(1200)],
        "group": [f"q{i // 10}" for i in range(1200)],
        "label": labels.astype(int).tolist(),
        "hallucination_score": rng.normal(1.8 * labels).tolist(),
    }
    one = {"cost_miss": 1.0, "cost_alarm": 1.0, "baselines": False}
    found = calibrail.calibrate(columns, SCORE, **one).report.cost
    assert found is not None and found["costs"]["base_rate"] == pytest.approx(0.1)
    assert found["pass_all"] == pytest.approx(100.0) and not found["beats"]
    # The rates that are told make the cost that is told.
    missed, raised = found["rates"]
    assert found["estimate"] == pytest.approx(1000 * (0.1 * missed + 0.9 * raised))
    assert f"{raised:.1%}".replace(".0%", "%") in costs_in_words(found)[1]
    # Each question is as heavy as any other.
    kept = [i for i in range(1200) if i < 600 or i % 10 < 2]
    fewer = {name: [values[i] for i in kept] for name, values in columns.items()}
    found = calibrail.calibrate(fewer, SCORE, **one).report.cost
    assert found is not None and found["costs"]["base_rate"] == pytest.approx(0.3)


def test_rows_that_are_alike_bound_no_cost() -> None:
    rows = [{"label": i % 2, "hallucination_score": float((i // 8) % 7 > 3)} for i in range(400)]
    report = calibrail.calibrate(rows, SCORE, **COSTS).report
    assert report.cost is not None and report.cost["upper"] is None
    assert "No bound of its cost" in told(calibrail.calibrate(rows, SCORE, **COSTS))


def test_a_higher_value_may_mean_faithful(file: Path) -> None:
    turned = [{**row, "hallucination_score": -row["hallucination_score"]} for row in answers(400)]
    run = calibrail.calibrate(turned, SCORE.replace("=hallucinated", "=faithful"), **COSTS)
    same = calibrail.calibrate(answers(400), SCORE, **COSTS)
    assert run.calibration.threshold == -same.calibration.threshold
    assert run.report.cost == same.report.cost


def test_what_a_shipped_threshold_costs_is_told_too(file: Path) -> None:
    run = calibrail.test(file, threshold=1.0, **COSTS)
    assert run.report.cost is not None and run.report.cost["beats"]
    assert run.report == calibrail.calibrate(file, SCORE, threshold=1.0, **COSTS).report
    done = command("test", file, "--threshold", 1, *WORDS, "--base-rate", 0.1, "--json")
    assert json.loads(done.stdout)["cost"] == run.report.cost
    assert "Its errors cost about" in told(run)
    assert calibrail.test(file, threshold=1.0).report.cost is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"alpha": 0.1}, "leave out alpha, or the costs"),
        ({"guarantee": "pac"}, "leave out guarantee"),
        ({"by": "topic"}, "leave out by"),
        ({"unit": "sentence"}, "leave out unit"),
        ({"risks": ["fpr<=0.2"]}, "leave out risks"),
        ({"max_fpr": 0.2}, "a verdict is about both"),
        ({"score": ["novelty", "rouge_l"]}, "costs pick the threshold of one score"),
        ({"cost_alarm": None}, "give cost_miss and cost_alarm"),
        ({"costs": Costs(1.0, 1.0)}, "by itself or in the costs, not both"),
    ],
)
def test_what_contradicts_costs_is_refused(file: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        calibrail.calibrate(file, **{"score": SCORE, **COSTS, **options})


@pytest.mark.parametrize("size", [1, 4])
def test_the_bound_of_the_cost_is_exceeded_as_seldom_as_stated(size: int, tmp_path: Path) -> None:
    runs, error, exceeded = 60, 0.2, 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, size])
        # Answers of a group are nearly the same: as many as they are, they are worth one.
        rows = [
            {"id": f"{seed}-{i}-{k}", "group": f"g{i}", "label": i % 2, "s": score + noise}
            for i in range(160)
            for score in [2.0 * (i % 2) + 0.99**0.5 * rng.normal()]
            for k, noise in enumerate(0.1 * rng.normal(size=size))
        ]
        path = tmp_path / f"{seed}.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        score = "column:column=s,higher=hallucinated"
        run = calibrail.calibrate(path, score, **COSTS, confidence=1.0 - error)
        edge, cost = run.calibration.threshold, run.report.cost
        assert cost is not None
        true = 2.0 * ndtr(edge - 2.0) + 0.9 * ndtr(-edge)
        exceeded += 1000 * true > cost["upper"]
    # At most what chance makes of 20 in 100, and not next to never.
    assert 0.05 * runs < exceeded <= error * runs + 3.0 * (runs * error * (1.0 - error)) ** 0.5


def fresh_answers(seed: int, n: int) -> list[dict[str, Any]]:
    """Return answers whose score has a known distribution, hallucinated ones higher."""
    rng = np.random.default_rng([7, seed])
    return [
        {"id": f"f{seed}-{i}", "label": i % 2, "s": 2.0 * (i % 2) + rng.normal()} for i in range(n)
    ]


def frozen_with(stated: float | None) -> Guardrail:
    """Return a guardrail that states so many times its true cost (None: no bound)."""
    run = calibrail.calibrate(fresh_answers(0, 300), "column:column=s,higher=hallucinated", **COSTS)
    config = run.freeze().config
    edge = run.calibration.threshold
    true = 1000.0 * (2.0 * ndtr(edge - 2.0) + 0.9 * ndtr(-edge))
    cost = {**(config.headline.cost or {}), "upper": stated and stated * float(true)}
    headline = config.headline.model_copy(update={"cost": cost})
    return Guardrail(config.model_copy(update={"headline": headline}))


def test_the_guardrail_and_its_card_carry_what_errors_cost(file: Path, tmp_path: Path) -> None:
    run = calibrail.calibrate(file, SCORE, **COSTS)
    made = run.freeze()
    path = tmp_path / "g.json"
    made.save(path)
    content = json.loads(path.read_text())
    assert content["headline"]["cost"] == json.loads(json.dumps(run.report.cost))
    read = Guardrail.load(path)
    assert read.config.digest == content["digest"] and read.config.to_bytes() == path.read_bytes()
    said = calibrail.card(path).markdown()
    assert "Its errors cost about" in said and "| pass everything | 2,000 |" in said
    assert "Required" not in said and not re.search(r"(?<!\d)0%", said)
    assert f"calibrail certify {path.name} FRESH_LABELS\n" in said
    assert "Next: Certify it on new labelled answers:" in said
    # A file without costs holds no word of them: its digest is what it was before there were any.
    plain = calibrail.calibrate(file, SCORE, alpha=0.1).freeze()
    assert b'"cost"' not in plain.config.to_bytes()


@pytest.mark.parametrize(
    ("stated", "n", "verdict"),
    [
        (9.0, 300, "certified"),
        (0.01, 300, "rejected"),
        (None, 300, "certified"),
        (1.3, 60, "inconclusive"),
    ],
)
def test_certify_tests_the_cost_that_a_guardrail_states(
    stated: float | None, n: int, verdict: str
) -> None:
    guardrail = frozen_with(stated)
    made = calibrail.certify(guardrail, fresh_answers(1, n), looks=False)
    content = made.to_dict()
    assert made.certificate.verdict == verdict, content["reason"]
    assert content["cost"]["costs"] == COSTS and content["cost"]["per"] == 1000
    assert "answers;" in content["reason"] and "per 1,000" in content["reason"]
    assert all(content["needed"].values()) == (verdict == "inconclusive")
    # Limits decide where they are named, and the cost is told beside them.
    limits = {"max_false_alarms": 0.9, "min_caught": 0.1}
    named = calibrail.certify(guardrail, fresh_answers(1, n), looks=False, **limits).to_dict()
    assert named["verdict"] == "certified" and named["cost"] == content["cost"]
    with pytest.raises(InputError, match="how many faithful answers"):
        calibrail.certify(guardrail, fresh_answers(1, n), by="id", looks=False)


def test_answers_that_certify_nothing_bound_no_cost(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    calibrail.calibrate(file, SCORE, **COSTS).freeze().save(path)
    done = command("certify", path, file, "--json")
    content = json.loads(done.stdout)
    assert done.returncode == 4 and content["reason_code"] == "calibration_data"
    assert content["cost"]["upper"] is None and not content["cost"]["beats"]
    alike = [{"s": float(k % 2), "label": k % 2} for k in range(200)]
    found = calibrail.certify(frozen_with(9.0), alike, looks=False, fresh=True).to_dict()
    assert found["reason_code"] == "rows_alike" and found["cost"]["upper"] is None


def test_a_cost_is_wrongly_certified_as_seldom_as_stated() -> None:
    guardrail = frozen_with(1.0)
    runs, error = 30, 0.2
    verdicts = [
        calibrail.certify(
            guardrail, fresh_answers(seed, 120), looks=False, confidence=1.0 - error
        ).certificate.verdict
        for seed in range(1, runs + 1)
    ]
    most = error * runs + 3.0 * (runs * error * (1.0 - error)) ** 0.5
    # It costs exactly what is stated: that is neither to be certified nor to be rejected often.
    assert 0.05 * runs < verdicts.count("certified") <= most
    assert verdicts.count("rejected") <= most
