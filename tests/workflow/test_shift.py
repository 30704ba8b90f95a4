"""Is a promise that breaks elsewhere found, and one that holds left alone?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import betabinom

from calibrail import DataError, Example, InputError, TooFewExamplesError
from calibrail.evaluation.shift.labelled import Side, drift, judge_drift
from calibrail.workflow.shift import shift
from tests.answers import rows, write

COLUMN = "column:column=s,higher=hallucinated"


def answers(
    n: int, *, move: float = 0.0, seed: int = 0, group: str = "a", start: int = 0
) -> list[Example]:
    """Half hallucinated, two standard deviations above the faithful; ``move`` lowers all."""
    rng = np.random.default_rng(seed)
    return [
        Example(
            id=f"{group}{start + row}",
            label=row % 2,
            columns={
                "s": float(rng.normal(2.0 * (row % 2)) - move),
                "g": group,
                "day": f"2026-01-{1 + row % 28:02d}",
                "n": start + row,
            },
        )
        for row in range(n)
    ]


def outcome(**options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shift(score=COLUMN, alpha=0.1, **options).to_dict()["tests"]
    return found


def test_another_set_of_the_same_kind_does_not_contradict_the_promise() -> None:
    (item,) = outcome(source=answers(400), test=answers(400, seed=1))
    assert item["finding"] == "consistent" and item["repair"] is None
    assert item["n_calibration"] == 200
    low, high = item["band"]["lower"], item["band"]["upper"]
    assert low <= item["coverage"]["estimate"] <= high


def test_lower_scores_elsewhere_break_it_and_the_needed_threshold_is_theirs() -> None:
    (item,) = outcome(source=answers(400), test=answers(400, move=1.0, seed=1))
    assert item["finding"] == "broken" and item["adjusted_p"] < 1e-6
    scores = sorted(e.columns["s"] for e in answers(400, move=1.0, seed=1) if e.label == 1)
    # floor(0.1 * 201) = 20: the 20th smallest of their own hallucinated scores.
    assert item["needed"]["threshold"] == scores[19]
    assert item["needed"]["fpr"]["estimate"] > item["fpr"]["estimate"]
    assert item["weighted"] is None, "scores without texts have no features"
    assert "would be needed" in item["sentence"]


def test_the_p_value_is_the_beta_binomial_tail() -> None:
    side = Side(np.arange(1.0, 100.0), np.ones(99, dtype=np.int8), {})
    away = Side(np.r_[np.full(6, 0.5), np.full(14, 50.0)], np.ones(20, dtype=np.int8), {})
    item = drift(
        side, away, alpha=0.1, guarantee="marginal", delta=0.1, undefined="flag",
        confidence=0.95, tolerance=0.0,
    )  # fmt: skip
    # Rank 10 of 99; 6 of 20 are missed.
    assert item["rank"] == 10 and item["coverage"]["count"] == 14
    assert item["p_value"] == pytest.approx(sum(betabinom.pmf(k, 20, 10, 90) for k in range(6, 21)))


def test_a_promise_that_holds_is_called_broken_no_more_often_than_stated() -> None:
    """5,000 pairs of sets from one process, at 90 % confidence."""
    rng = np.random.default_rng(0)
    runs, wrong = 5000, 0
    from scipy.stats import binom

    for _ in range(runs):
        home, away = rng.normal(size=60), rng.normal(size=40)
        threshold = np.sort(home)[5]  # floor(0.1 * 61) = 6
        misses = int((away < threshold).sum())
        wrong += betabinom.sf(misses - 1, 40, 6, 55) <= 0.1
    assert wrong <= binom.ppf(1 - 1e-6, runs, 0.1)
    # The bound is not empty: it is reached up to the steps of a discrete law.
    assert wrong >= 0.03 * runs


def test_every_group_is_tested_by_the_others() -> None:
    data = [
        *answers(200, group="a"),
        *answers(200, group="b", seed=1),
        *answers(200, group="c", seed=2, move=1.5),
    ]
    found = {item["tested_on"]: item for item in outcome(source=data, by="g")}
    assert set(found) == {"a", "b", "c"}
    assert found["c"]["calibrated_on"] == "all but c"
    assert found["c"]["finding"] == "broken" and found["c"]["n_calibration"] == 200
    named = {i["tested_on"]: i for i in outcome(source=data, by="g", calibrate_on=["a"])}
    assert set(named) == {"b", "c"} and named["b"]["n_calibration"] == 100
    assert named["b"]["finding"] == "consistent" and named["c"]["finding"] == "broken"


def test_later_times_are_tested_in_order() -> None:
    data = [
        *answers(300),
        *answers(300, seed=1, start=300),
        *answers(300, seed=2, start=600, move=2),
    ]
    found = outcome(source=data, time="n", periods=3)
    assert [item["tested_on"] for item in found] == ["450 to 599", "600 to 749", "750 to 899"]
    assert all(item["n_calibration"] == 225 for item in found)
    assert [item["finding"] for item in found] == ["consistent", "broken", "broken"]
    dates = outcome(source=answers(280), time="day", periods=2)
    assert dates[0]["calibrated_on"] == "before 2026-01-15"
    assert dates[0]["tested_on"].startswith("2026-01-15")


def test_weighting_repairs_a_changed_mix_and_says_so_without_promising(tmp_path: Path) -> None:
    """Long answers score lower; elsewhere there are more of them, and nothing else differs."""
    rng = np.random.default_rng(0)

    def made(n: int, share_long: float, name: str) -> list[Example]:
        found = []
        for row in range(n):
            long = rng.random() < share_long
            found.append(
                Example(
                    id=f"{name}{row}",
                    question="Where does the river flow?",
                    contexts=("The river flows to the sea.",),
                    response="The river flows to the sea. " * (8 if long else 1),
                    label=row % 2,
                    columns={"s": float(rng.normal(3.0 * (row % 2) - (2.0 if long else 0.0)))},
                )
            )
        return found

    (item,) = outcome(source=made(1200, 0.05, "a"), test=made(600, 0.9, "b"))
    assert item["finding"] == "broken" and item["repair"] == "repaired"
    assert item["weighted"]["coverage"]["estimate"] > item["coverage"]["estimate"] + 0.1
    assert item["weighted"]["effective_n"] < 300
    assert "not promised" in item["sentence"]


def test_holm_corrects_over_all_tests_and_few_answers_say_nothing() -> None:
    def item(p: float, n: int = 50) -> dict[str, Any]:
        share = {"n": n, "upper": 0.5}
        return {"p_value": p, "coverage": share, "weighted": None}

    found = [item(0.03), item(0.01), item(0.2), item(1e-9, n=5)]
    judge_drift(found, 0.1, 0.95)
    assert [i["adjusted_p"] for i in found] == [pytest.approx(0.06), pytest.approx(0.03), 0.2, None]
    assert [i["finding"] for i in found] == ["consistent", "broken", "consistent", "too few"]


def test_undefined_scores_count_as_the_policy_says() -> None:
    data = answers(200)
    away = [*answers(60, seed=1), *(
        Example(id=f"u{i}", label=1, columns={"s": None}) for i in range(40)
    )]  # fmt: skip
    flag = shift(data, COLUMN, test=away, alpha=0.1).to_dict()["tests"][0]
    passed = shift(data, COLUMN, test=away, alpha=0.1, undefined="pass").to_dict()["tests"][0]
    assert flag["coverage"]["count"] == passed["coverage"]["count"] + 40


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "name one of"),
        ({"by": "g", "time": "n"}, "name one of"),
        ({"time": "n", "calibrate_on": ["a"]}, "name it with by"),
        ({"time": "n", "periods": 0}, "periods must be"),
        ({"by": "g", "calibrate_on": ["z"]}, "holds no group 'z'"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        shift([*answers(40), *answers(40, group="b")], COLUMN, alpha=0.2, **options)


def test_bad_data_is_named() -> None:
    with pytest.raises(DataError, match="one value only"):
        shift(answers(40), COLUMN, by="g")
    with pytest.raises(DataError, match="neither a number nor a date"):
        shift(answers(40), COLUMN, time="g")
    with pytest.raises(DataError, match="more than 50"):
        shift(answers(200), COLUMN, by="n")
    with pytest.raises(InputError, match="learns"):
        shift(answers(40), "fused", by="g")
    with pytest.raises(TooFewExamplesError):
        shift(answers(20), COLUMN, test=answers(20, seed=1), alpha=0.01)


def test_the_files_are_the_same_every_time_and_hostile_names_stay_text(tmp_path: Path) -> None:
    evil = '<script>alert("x")</script>\u202e'
    data = [*answers(200, group=evil), *answers(200, group="b", seed=1, move=1.5)]
    first = shift(data, COLUMN, by="g", alpha=0.1).save(tmp_path / "one")
    second = shift(data, COLUMN, by="g", alpha=0.1).save(tmp_path / "two")
    for name in ("shift.json", "report.html", "figures/shift.svg"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    page = (first / "report.html").read_text()
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert json.loads((first / "shift.json").read_text())["schema"] == "calibrail.shift/1"
    assert "<script" not in (first / "figures" / "shift.svg").read_text()


def test_files_with_texts(tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", rows(80))
    two = write(tmp_path / "two.jsonl", rows(80, prefix="New "))
    found = shift(one, "novelty", test=two, alpha=0.2).to_dict()
    assert found["tests"][0]["weighted"]["features"][0] == "length"
    assert found["finding"]


def test_frank_bertscore_does_not_carry_over_between_sources(real_data: Path) -> None:
    source = real_data / "frank" / "metric_scores.csv"
    found = shift(
        source, "column:column=bertscore_p_article,higher=faithful", by="dataset", alpha=0.1
    ).to_dict()
    item = {i["tested_on"]: i for i in found["tests"]}["cnndm"]
    assert (item["coverage"]["count"], item["coverage"]["n"]) == (309, 518)
    assert item["finding"] == "broken"
