"""The promises beyond one threshold, from a file to the frozen guardrail's decisions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrail
from calibrail.conformal import ClusteredCalibration
from calibrail.errors import DataError, InputError
from calibrail.guardrail import Guardrail
from calibrail.pipelines.run import Run
from calibrail.scores.registry import build_column
from tests.answers import rows, write

TOPICS = ("law", "medicine", "rare")


def topical(n: int = 240, seed: int = 0, prefix: str = "") -> list[dict[str, Any]]:
    """Two large topics whose hallucinations score differently, and a rare one."""
    items = rows(n, seed, prefix)
    for place, item in enumerate(items):
        question = place // 2
        item["topic"] = TOPICS[2] if question % 40 == 0 else TOPICS[question % 2]
        if item["topic"] == "medicine" and item["label"]:
            item["detector"] -= 1.0
    return items


@pytest.fixture(scope="module")
def column() -> Any:
    return build_column("detector", higher="hallucinated")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("data") / "answers.jsonl", topical())


def parts(run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    assert run.table is not None and run.codes is not None
    return run.table.columns["detector"], run.table.labels, run.codes


def frozen_again(run: Run, folder: Path) -> Guardrail:
    """Through the run's folder and the guardrail's file, as the command line goes."""
    run.save(folder / "run")
    Run.load(folder / "run").freeze().save(folder / "guardrail.json")
    return Guardrail.load(folder / "guardrail.json")


@pytest.fixture(scope="module")
def one_threshold(answers: Path, column: Any) -> Run:
    return calibrail.calibrate(answers, column, alpha=0.1)


@pytest.fixture(scope="module")
def one_guardrail(one_threshold: Run, tmp_path_factory: pytest.TempPathFactory) -> Guardrail:
    return frozen_again(one_threshold, tmp_path_factory.mktemp("run"))


def test_groups_decide_by_their_own_threshold_everywhere(
    answers: Path, column: Any, tmp_path: Path
) -> None:
    asked = {"by": "topic", "guarantee": "marginal", "max_fpr": 0.6}
    run = calibrail.calibrate(answers, column, alpha=0.1, **asked)
    grouped = run.rule.groups
    assert grouped is not None and set(grouped.groups) == {"law", "medicine"}
    assert grouped.groups["medicine"].threshold < grouped.groups["law"].threshold
    section = run.report.to_dict()["by_group"]
    assert [row["group"] for row in section["rows"]] == ["law", "medicine", "rare"]
    assert [row["own"] for row in section["rows"]] == [True, True, False]
    assert section["scope"] == "all groups" and "rare" in grouped.small
    guardrail = frozen_again(run, tmp_path)
    for topic, rule in (("law", grouped.groups["law"]), ("unheard", grouped.fallback)):
        edge = rule.threshold
        for value, outcome in ((edge - 1e-9, "pass"), (edge, "flag")):
            decision = guardrail.check(columns={"detector": value, "topic": topic})
            assert (decision.outcome, decision.threshold) == (outcome, edge)
    values, labels, codes = parts(run)
    names = run.table.kept["topic"]  # type: ignore[union-attr]
    flagged = run.rule.flags(values, names)
    caught = int(np.sum(flagged & (labels == 1) & (codes == 2)))
    assert run.report.test.coverage.count == caught
    assert sum(row["coverage"]["count"] for row in section["rows"]) == caught


def test_bounds_of_groups_are_wider_than_each_alone(answers: Path, column: Any) -> None:
    run = calibrail.calibrate(answers, column, alpha=0.1, by="topic")
    section = run.report.to_dict()["by_group"]
    assert {row["coverage"]["confidence"] for row in section["rows"]} == {1 - 0.05 / 3}


def test_a_clustered_threshold_counts_each_question_once(column: Any, tmp_path: Path) -> None:
    items = rows(120)
    # One question of each part is answered fifty times, always with a low score.
    for place in range(50):
        for name in ("crowd", "throng"):
            items.append(
                {
                    **items[1],
                    "id": f"{name}{place}",
                    "response": " ".join(f"{name}{place}w{word}" for word in range(8)),
                    "group": name,
                    "detector": -5.0,
                    "split": "calibration" if name == "crowd" else "test",
                }
            )
    for item in items[:240]:
        item["split"] = "calibration" if int(str(item["group"])[1:]) % 2 else "test"
    answers = write(tmp_path / "answers.jsonl", items)
    splitting = calibrail.SplitOptions(column="split")
    run = calibrail.calibrate(answers, column, alpha=0.1, clustered=True, splitting=splitting)
    assert isinstance(run.calibration, ClusteredCalibration)
    assert run.calibration.threshold > -5.0
    section = run.report.to_dict()["clustering"]
    assert section["n"] == 110 and section["n_clusters"] == 61 and section["largest"] == 50
    guardrail = frozen_again(run, tmp_path)
    assert guardrail.calibration.threshold == run.calibration.threshold
    assert guardrail.check(columns={"detector": -5.0}).outcome == "pass"
    with pytest.raises(InputError, match="170 of 230 answers share a group with another, and this"):
        calibrail.select(guardrail, answers, fdr=0.1)


def test_a_review_lies_between_two_promises(answers: Path, column: Any, tmp_path: Path) -> None:
    run = calibrail.calibrate(answers, column, alpha=0.1, beta=0.1)
    section = run.report.to_dict()["three_way"]
    below, above = section["pass_below"], section["flag_above"]
    assert below < above and section["needs_review"]
    guardrail = frozen_again(run, tmp_path)
    outcomes = [
        guardrail.check(columns={"detector": value}).outcome
        for value in (below - 1e-9, below, above, above + 1e-9)
    ]
    assert outcomes == ["pass", "review", "review", "flag"]
    values, labels, codes = parts(run)
    for name, label in (("hallucinated", 1), ("faithful", 0)):
        mine = values[(codes == 2) & (labels == label)]
        most = {
            "pass": int(np.sum(mine < below)),
            "review": int(np.sum((mine >= below) & (mine <= above))),
            "flag": int(np.sum(mine > above)),
        }
        assert all(0 < n <= most[what] for what, n in section["counts"][name].items())
    # Each question has an answer of either class, of which one counts.
    counts = [n for of_class in section["counts"].values() for n in of_class.values()]
    assert sum(counts) == np.sum(codes == 2) / 2
    assert section["least_withheld"] == pytest.approx((0.5 - 0.1) / 0.9)


def test_several_risks_choose_the_threshold(answers: Path, column: Any, tmp_path: Path) -> None:
    run = calibrail.calibrate(
        answers, column, alpha=0.1, risks=("recall>=0.5", "fpr<=0.8"), confidence=0.9
    )
    section = run.report.to_dict()["risks"]
    assert section["threshold"] == run.rule.chosen == run.report.threshold
    assert section["n_valid"] == sum(section["valid"]) > 0
    guardrail = frozen_again(run, tmp_path)
    edge = run.rule.chosen
    assert guardrail.check(columns={"detector": edge}).outcome == "flag"
    assert guardrail.check(columns={"detector": edge - 1e-9}).outcome == "pass"
    values, labels, codes = parts(run)
    caught = np.sum((values >= edge) & (labels == 1) & (codes == 2))
    measured = {item["name"]: item["test"] for item in section["measured"]}
    assert measured["recall"]["count"] == caught
    assert run.report.verdict == "certified"
    with pytest.raises(InputError, match="frozen in it, and those are certified"):
        calibrail.certify(guardrail, answers, risks=("precision>=0.99",))


def test_risks_that_cannot_be_kept_say_which(answers: Path, column: Any) -> None:
    with pytest.raises(DataError, match=r"breaks (precision|recall)>=0\.9+; ask for less"):
        calibrail.calibrate(answers, column, risks=("precision>=0.99", "recall>=0.9"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clustered": True, "assume_independent": True}, "leave out one"),
        ({"clustered": True, "guarantee": "paper"}, "clustered needs the guarantee"),
        ({"risks": ("recall>=0.5",), "beta": 0.1}, "risks choose one threshold"),
        ({"risks": ("recall<=0.5",)}, "recall"),
        ({"beta": 1.5}, "beta must lie in"),
        ({"beta": 0.001}, "faithful calibration answers are too few"),
        ({"by": "nothing"}, "nothing"),
    ],
)
def test_what_cannot_be_combined_or_found_is_named(
    answers: Path, column: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(calibrail.CalibrailError, match=message):
        calibrail.calibrate(answers, column, alpha=0.1, **options)


def test_the_curve_holds_the_threshold_in_use(one_threshold: Run) -> None:
    run = one_threshold
    curve, test = run.report.to_dict()["curve"], run.report.test
    for name in ("coverage", "fpr"):
        assert len(curve[name]["lower"]) == len(curve["thresholds"]) <= 121
        estimate = np.array(curve[name]["estimate"])
        assert (np.diff(estimate) <= 0).all()
        assert (np.array(curve[name]["lower"]) <= estimate).all()
        assert (np.array(curve[name]["upper"]) >= estimate).all()
    values, labels, codes = parts(run)
    for index, threshold in enumerate(curve["thresholds"]):
        hits = np.mean(values[(codes == 2) & (labels == 1)] >= threshold)
        assert curve["coverage"]["estimate"][index] == hits
    # Wider than the interval of a threshold that was fixed before looking.
    place = int(np.argmin(np.abs(np.array(curve["thresholds"]) - run.calibration.threshold)))
    width = curve["fpr"]["upper"][place] - curve["fpr"]["lower"][place]
    assert width > test.fpr.upper - test.fpr.lower


def test_selection_leaves_calibration_examples_out_and_bounds_the_rest(
    answers: Path, one_guardrail: Guardrail, tmp_path: Path
) -> None:
    fresh = write(tmp_path / "fresh.jsonl", topical(200, seed=3, prefix="New "))
    found = calibrail.select(one_guardrail, fresh, fdr=0.45)
    assert found.n_seen_before == 0 and len(found.ids) == 400
    labels = {item["id"]: item["label"] for item in topical(200, seed=3, prefix="New ")}
    released = [name for name, out in zip(found.ids, found.selection.released, strict=True) if out]
    assert 0 < len(released) == found.selection.n_released
    assert sum(labels[name] for name in released) <= found.bounds.at(found.selection.cutoff)[1]
    again = calibrail.select(one_guardrail, answers, fdr=0.45)
    assert again.n_seen_before == one_guardrail.calibration.n
    lines = [json.loads(line) for line in found.lines().splitlines()]
    assert [line["id"] for line in lines if line["released"]] == released


def test_certify_by_group_corrects_for_their_number(
    one_guardrail: Guardrail, tmp_path: Path
) -> None:
    fresh = write(tmp_path / "fresh.jsonl", topical(400, seed=4, prefix="New "))
    found = calibrail.certify(one_guardrail, fresh, max_fpr=0.85, min_coverage=0.85, by="topic")
    section = found.to_dict()["by_group"]
    assert [row["group"] for row in section["rows"]] == ["law", "medicine", "rare"]
    for key in ("coverage", "fpr"):
        total = sum(row[key]["n"] for row in section["rows"])
        assert total == found.to_dict()[key]["n"] == 400
    by_topic = {row["group"]: row for row in section["rows"]}
    assert by_topic["law"]["verdict"] == "certified"
    assert by_topic["medicine"]["p_undercovered"] < by_topic["law"]["p_undercovered"]
    assert found.certificate.flips is None or found.certificate.flips.flips >= 0


def test_production_like_the_calibration_data_changes_nothing(
    answers: Path, column: Any, tmp_path: Path
) -> None:
    same = write(tmp_path / "same.jsonl", topical(240, seed=9))
    run = calibrail.calibrate(answers, column, alpha=0.1, target=same)
    found = run.report.to_dict()["shift"]
    assert found["n"] == run.calibration.n and found["n_target"] == 480
    assert found["effective_n"] > 0.9 * found["n"]
    assert found["auroc"]["estimate"] < 0.6
    assert found["weighted_threshold"] == pytest.approx(run.calibration.threshold, abs=0.2)


def test_scores_without_texts_have_no_features(tmp_path: Path, column: Any) -> None:
    bare = write(
        tmp_path / "bare.jsonl",
        [{"label": item["label"], "detector": item["detector"]} for item in rows()],
    )
    with pytest.raises(InputError, match="give answers with their texts"):
        calibrail.calibrate(bare, column, alpha=0.1, target=bare)
