"""Is a promise that breaks elsewhere found, and one that holds left alone?"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console
from scipy.stats import betabinom, binom

from calibrail import Example
from calibrail.cli import app
from calibrail.errors import DataError, InputError, TooFewExamplesError
from calibrail.options import Promise, Requirement, ShiftSplit
from calibrail.pipelines.shift import shift
from calibrail.report import print_document
from calibrail.report.documents.shift import document
from calibrail.report.messages import say
from calibrail.scores.base import NoReplyFailure, Scores
from calibrail.scores.judge import NO_REPLY
from calibrail.scores.registry import build_column
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
    tests: list[dict[str, Any]] = shift(score=COLUMN, alpha=0.1, **options).to_dict()["tests"]
    return tests


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


def test_a_promise_that_holds_is_called_broken_no_more_often_than_stated(tmp_path: Path) -> None:
    """Files of two groups from one process, at 90 % confidence: misses are beta-binomial."""
    runs, n_home, n_away = 150, 60, 40
    rank = 6  # floor(0.1 * 61)
    misses = np.arange(n_away + 1)
    law = betabinom(n_away, rank, n_home + 1 - rank)
    share = float(law.pmf(misses)[law.sf(misses - 1) <= 0.1].sum())
    assert 0.03 < share <= 0.1
    rng = np.random.default_rng(0)
    source = tmp_path / "scores.csv"
    broken = 0
    for _ in range(runs):
        values = rng.normal(size=n_home + n_away)
        groups = np.repeat(["a", "b"], [n_home, n_away])
        lines = [f"{value},1,{group}" for value, group in zip(values, groups, strict=True)]
        source.write_text("\n".join(["s,label,g", *lines]))
        (item,) = outcome(source=source, by="g", calibrate_on=["a"], confidence=0.9)
        broken += item["finding"] == "broken"
    low, high = binom.ppf([1e-4, 1 - 1e-4], runs, share)
    assert low <= broken <= high


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


@pytest.mark.parametrize("n", [1, 2])
def test_what_keeps_its_promise_is_said_with_both_sides_and_the_rate(n: int) -> None:
    rate = {"estimate": 0.94, "lower": 0.9, "upper": 0.97, "count": 94, "n": 100}
    item = {"tested_on": "new.csv", "calibrated_on": "old.csv", "coverage": rate}
    found = say("shift.holds", {}, target="90%", n_tested=n, lowest=item, kept=False)
    one = "On new.csv the threshold of old.csv caught 94% (90 to 97%), 90% promised: no sign that"
    several = "in none of 2 tests was significantly less caught (least on new.csv, 94%)"
    assert (one in found, several in found) == (n == 1, n == 2)


def test_a_page_begins_with_where_least_is_caught() -> None:
    moved = [*answers(200), *answers(200, move=0.7, seed=1, group="b")]
    tile, cost = document(shift(moved, score=COLUMN, alpha=0.1, by="g").to_dict()).tiles
    assert cost.name == "False alarms of b" and cost.value.endswith("%")
    assert cost.interval.endswith("% where the promise holds")
    alike = [*answers(200), *answers(200, seed=1, group="b")]
    _, cost = document(shift(alike, score=COLUMN, alpha=0.1, by="g").to_dict()).tiles
    assert "where the promise holds" not in cost.interval
    assert (tile.name, tile.asked) == ("Caught of b, the lowest", ">= 90%")
    assert tile.interval.count(" to ") == 1
    # Of a group too small to be tested nothing is known, however little of it is caught.
    made = shift([*moved, *answers(4, move=9.0, group="c")], score=COLUMN, alpha=0.1, by="g")
    found = {item["tested_on"]: item for item in made.to_dict()["tests"]}
    assert found["c"]["coverage"]["estimate"] < found["b"]["coverage"]["estimate"]
    tile = document(made.to_dict()).tiles[0]
    assert tile.name == "Caught of b, the lowest"


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
                    question=f"Where does the river {name}{row} flow?",
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


@pytest.mark.parametrize(
    ("n_same", "renamed", "said"),
    [(250, "x", True), (60, "", True), (4, "", False), (0, "", False)],
)
def test_answers_that_set_the_threshold_are_no_test_of_it(
    n_same: int, renamed: str, said: bool
) -> None:
    """Under other ids and in another order they are known by labels and scores."""
    data, other = answers(400), answers(400, seed=1, group="b")
    same = [replace(item, id=f"{renamed}{item.id}") for item in data[::-1][:n_same]]
    found = shift(data, COLUMN, test=[*same, *other[n_same:]], alpha=0.1).to_dict()
    assert found["tests"][0]["finding"] == "consistent"
    assert (found["shared"] > 0.1, "does not show how other" in found["finding"]) == (said, said)


def test_weighting_that_flags_what_it_does_not_know_repairs_nothing() -> None:
    """Answers as long as none that set the threshold are flagged whatever their score."""

    def made(n: int, words: int, move: float, name: str) -> list[Example]:
        rng = np.random.default_rng(len(name))
        return [
            Example(
                id=f"{name}{row}",
                question=f"Where does the river {name}{row} flow?",
                response="word " * (words + int(rng.integers(9))),
                label=row % 2,
                columns={"s": float(rng.normal(2.0 * (row % 2)) - move)},
            )
            for row in range(n)
        ]

    found = shift(made(160, 8, 0.0, "a"), COLUMN, test=made(60, 60, 1.2, "bb"), alpha=0.2).to_dict()
    (item,) = found["tests"]
    assert item["finding"] == "broken" and item["repair"] == "unlike"
    weighted = item["weighted"]
    assert weighted["unlike"] == {"hallucinated": 30, "faithful": 30}
    assert weighted["coverage"]["estimate"] == weighted["fpr"]["estimate"] == 1.0
    assert "flags 60 of 60 answers whatever the score" in item["sentence"]
    assert "Weighting is seen to repair 0 of them." in found["finding"]


def test_undefined_scores_count_as_the_policy_says() -> None:
    data = answers(200)
    undefined = [Example(id=f"u{i}", label=1, columns={"s": None}) for i in range(40)]
    away = [*answers(60, seed=1), *undefined]
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


@pytest.mark.painted
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


BROKEN_ROWS = ("{not json", {"id": "x", "response": "no label"}, {"id": "y", "label": "maybe"})


def test_unusable_rows_of_both_files_are_kept_and_counted(tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", [*rows(60), BROKEN_ROWS[0]])
    two = write(tmp_path / "two.jsonl", [*rows(60, prefix="New "), *BROKEN_ROWS])
    folder = tmp_path / "run"
    command = ["shift", str(one), "--score", "novelty", "--alpha", "0.2", "-o", str(folder)]
    done = CliRunner().invoke(app, [*command, "--test", str(two)])
    assert done.exit_code == 0, done.output
    data = json.loads((folder / "shift.json").read_text())["data"]
    assert (data["n_examples"], data["n_quarantined"]) == (240, 4)
    assert "4 unusable rows" in done.stderr
    kept = {
        name: [json.loads(line)["row"] for line in (folder / name).open()]
        for name in ("quarantine.jsonl", "quarantine-test.jsonl")
    }
    assert kept == {"quarantine.jsonl": [121], "quarantine-test.jsonl": [121, 122, 123]}
    # Without another file, nothing of the last one may stay behind.
    done = CliRunner().invoke(app, [*command, "--time", "height"])
    assert done.exit_code != 0 and not (folder / "quarantine-test.jsonl").exists()


def test_the_costs_of_both_files_are_accounted_for(tmp_path: Path) -> None:
    first, other = (
        [replace(item, response=f"{seed}-{i} " * (i + 1)) for i, item in enumerate(answers(n))]
        for seed, n in enumerate((200, 60))
    )
    folder = shift(first, "length", test=other, alpha=0.1).save(tmp_path)
    costs = json.loads((folder / "cost.json").read_text())["scores"]
    assert [cost["n"] for cost in costs] == [200, 60]


class Unreachable:
    """The column ``s``, of a judge that could not be asked about some answers."""

    name, requires, tolerance = "unreachable", (), 0.0
    columns = ("s",)
    params: Mapping[str, Any] = {}

    def fingerprint(self) -> dict[str, Any]:
        return {}

    def score(self, examples: Sequence[Example]) -> Scores:
        values = np.array([float(example.columns["s"]) for example in examples])
        lost = [row for row, example in enumerate(examples) if example.id.startswith("lost")]
        values[lost] = np.nan
        return Scores(values, dict.fromkeys(lost, NoReplyFailure(f"{NO_REPLY} HTTP 500")))


def test_answers_that_could_not_be_asked_about_count_on_neither_side() -> None:
    home, away = answers(200), answers(100, seed=1)
    lost = answers(40, seed=2, group="lost")
    whole = shift([*home, *lost], Unreachable(), test=[*away, *lost], alpha=0.1).to_dict()
    rest = shift(home, Unreachable(), test=away, alpha=0.1).to_dict()
    assert whole["tests"] == rest["tests"]
    assert (whole["data"]["n_unanswered"], rest["data"]["n_unanswered"]) == (80, 0)


def test_what_a_drift_audit_would_not_do_is_refused() -> None:
    data = [*answers(40), *answers(40, group="b")]
    for options in ({"beta": 0.1}, {"clustered": True}, {"max_fpr": 0.5}, {"nonsense": 1}):
        with pytest.raises(InputError):
            shift(data, COLUMN, by="g", alpha=0.2, **options)
    by_objects = shift(
        data,
        COLUMN,
        split=ShiftSplit(by="g"),
        promise=Promise(alpha=0.2),
        requirement=Requirement(),
    )
    assert by_objects.to_dict() == shift(data, COLUMN, by="g", alpha=0.2).to_dict()


def test_frank_bertscore_does_not_carry_over_between_sources(real_data: Path) -> None:
    source = real_data / "frank" / "metric_scores.csv"
    found = shift(
        source, "column:column=bertscore_p_article,higher=faithful", by="dataset", alpha=0.1
    ).to_dict()
    item = {i["tested_on"]: i for i in found["tests"]}["cnndm"]
    # One hallucinated summary of each article counts, of 518 in all.
    assert (item["coverage"]["count"], item["coverage"]["n"]) == (135, 226)
    assert item["finding"] == "broken" and item["n_set_aside"] > 1000


def test_a_terminal_of_80_columns_holds_each_test_on_one_line() -> None:
    names = [f"maker-{letter}/Large-Model-3.1-70B-Instr-{letter}" for letter in "abc"]
    source = [row for k, name in enumerate(names) for row in answers(120, seed=k, group=name)]
    console = Console(width=80, color_system=None, file=io.StringIO())
    print_document(document(shift(source, COLUMN, alpha=0.1, by="g").to_dict()), console)
    text = console.file.getvalue().splitlines()
    for name in names:
        (line,) = (line for line in text if line.startswith(name))
        # Caught with its interval, false alarms, the corrected p.
        assert re.fullmatch(rf"{name} +\S+% \(\d+ to \d+\) +\S+% +\S+ *", line)


def test_the_page_says_of_frank_what_is_found(real_data: Path, repository: Path) -> None:
    page = " ".join((repository / "docs" / "shift.md").read_text(encoding="utf-8").split())
    table = real_data / "frank" / "metric_scores.csv"
    score = build_column("bertscore_p_article", higher="faithful")
    _, cnn = shift(table, score, alpha=0.1, by="dataset").to_dict()["tests"]
    assert cnn["tested_on"] == "cnndm"
    caught, needed = cnn["coverage"], cnn["needed"]
    ends = f"{100 * caught['lower']:.0f} to {100 * caught['upper']:.0f}"
    assert cnn["finding"] == "broken" and cnn["adjusted_p"] < 0.001
    assert (
        f"the threshold from BBC articles catches {caught['estimate']:.1%} ({ends}) of the "
        "hallucinations in CNN/DM ones (p < 0.001). These would need "
        f"{needed['column_threshold']:.4f} in place of {cnn['column_threshold']:.4f}, at "
        f"{needed['fpr']['estimate']:.1%} false alarms."
    ) in page
