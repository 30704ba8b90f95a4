"""Does the leaderboard say of every row what its comparison found, and refuse what is none?"""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import beta, binom

from benchmarks.leaderboard import leaderboard
from benchmarks.leaderboard.__main__ import main
from benchmarks.leaderboard.comparisons import steady
from benchmarks.leaderboard.document import document
from calibrail.errors import CalibrailError
from tests.answers import write
from tests.command_line import calibrail as run

ALPHA, DELTA, CONFIDENCE = 0.1, 0.05, 0.95
PROMISE = ("--alpha", ALPHA, "--guarantee", "pac", "--delta", DELTA)


def answers(n: int, seed: int, groups: int | None = None) -> list[dict[str, Any]]:
    """Return answers with a good detector, a poor one, and a judge who says yes or no."""
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < 0.5
    good, poor = rng.normal(2.5 * labels), rng.normal(0.3 * labels)
    judge = np.where(labels, rng.random(n) < 0.6, rng.random(n) < 0.1)
    group = rng.integers(0, groups or 1, n)
    return [
        {
            "id": f"{seed}-{i}",
            "label": int(labels[i]),
            "good": -float(good[i]),
            "poor": -float(poor[i]),
            "judge": 1 - int(judge[i]),
            **({"group": f"{seed}-{group[i]}"} if groups else {}),
        }
        for i in range(n)
    ]


def compared(folder: Path, rows: list[dict[str, Any]], *options: object) -> Path:
    """Return the folder in which the command compares three columns."""
    source = write(folder.parent / f"{folder.name}.jsonl", rows)
    columns = [word for name in ("good", "poor", "judge") for word in ("--score-column", name)]
    result = run(
        "compare", source, *columns, "--higher", "faithful", *PROMISE, *options, "-o", folder
    )
    assert result.returncode == 0, result.stderr
    return folder


def merge(*arguments: object) -> int:
    """Merge comparisons as the command does; return its exit code."""
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {
        "alone": compared(folder / "alone", answers(800, 1)),
        "grouped": compared(folder / "grouped", answers(900, 2, 150), "--group-column", "group"),
    }


@pytest.fixture(scope="module")
def page(runs: dict[str, Path]) -> Path:
    folder = runs["alone"].parent / "page"
    code = merge(
        *(f"{name}={path}" for name, path in runs.items()),
        *("--shipped", "good=-1", "--shipped", "alone/judge=0.5"),
        *("--mark", "grouped=selected", "--mark", "poor=fitted", "--note", "alone=Made up."),
        *("-o", folder),
    )
    assert code == 0
    return folder


@pytest.fixture(scope="module")
def board(page: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((page / "leaderboard.json").read_text())
    return content


def rows_of(board: dict[str, Any], data: str) -> dict[str, dict[str, Any]]:
    [item] = [item for item in board["data_sets"] if item["name"] == data]
    return {row["name"]: row for row in item["rows"]}


def pac_rank(n: int, alpha: float) -> int:
    """Return the highest k with P(Binomial(n, alpha) >= k) >= 1 - delta."""
    return max(k for k in range(n + 1) if binom.sf(k - 1, n, alpha) >= 1 - DELTA)


@pytest.mark.parametrize("coverage", [0.9, 0.95])
@pytest.mark.parametrize("name", ["good", "poor"])
def test_numpy_alone_finds_the_same_threshold_rates_and_limit(
    runs: dict[str, Path], board: dict[str, Any], name: str, coverage: float
) -> None:
    table = pq.read_table(runs["alone"] / "scores.parquet").to_pandas()
    score = -table[f"{name}__column"]
    calibration = np.sort(score[(table.split == "calibration") & (table.label == 1)])
    threshold = calibration[pac_rank(len(calibration), 1 - coverage) - 1]
    test = table.split == "test"
    flagged = score >= threshold
    caught, alarms = (flagged[test & (table.label == label)] for label in (1, 0))
    limit = beta.ppf(0.975, alarms.sum() + 1, len(alarms) - alarms.sum())

    row = rows_of(board, "alone")[name]
    [target] = [item for item in row["targets"] if item["coverage"] == coverage]
    assert target["state"] == "set"
    assert target["threshold"] == pytest.approx(-threshold)
    assert target["caught"]["estimate"] == pytest.approx(caught.mean())
    assert (target["fpr"]["count"], target["fpr"]["n"]) == (alarms.sum(), len(alarms))
    assert target["limit"] == pytest.approx(limit)
    assert target["confidence"] == pytest.approx(1 - DELTA - 0.025)


def test_a_judge_that_misses_a_third_cannot_be_set(board: dict[str, Any]) -> None:
    for data in ("alone", "grouped"):
        target = rows_of(board, data)["column:judge"]["targets"][0]
        assert target["state"] == "flags_all"
        assert target["limit"] is None


def test_a_shipped_threshold_is_tried_on_the_test_answers_in_its_own_direction(
    runs: dict[str, Path], board: dict[str, Any]
) -> None:
    table = pq.read_table(runs["alone"] / "scores.parquet").to_pandas()
    test = table.split == "test"
    for name, at in (("good", -1.0), ("column:judge", 0.5)):
        flagged = table[f"{name}__column"] <= at
        shipped = rows_of(board, "alone")[name]["shipped"]
        assert shipped["threshold"] == at
        for key, label in (("caught", 1), ("fpr", 0)):
            part = flagged[test & (table.label == label)]
            assert (shipped[key]["count"], shipped[key]["n"]) == (part.sum(), len(part))
    assert rows_of(board, "grouped")["column:judge"]["shipped"] is None
    assert rows_of(board, "grouped")["good"]["shipped"] is not None


def test_marks_stand_where_they_were_put(board: dict[str, Any]) -> None:
    alone, grouped = rows_of(board, "alone"), rows_of(board, "grouped")
    assert alone["poor"]["marks"] == ["fitted"]
    assert alone["good"]["marks"] == []
    # Half of the test part chooses: of 75 groups, fewer than 50.
    assert grouped["poor"]["marks"] == ["selected", "fitted", "few_groups"]
    assert grouped["good"]["marks"] == ["selected", "few_groups"]
    assert board["data_sets"][0]["note"] == "Made up."


def test_groups_are_counted_and_one_answer_of_each_tests(
    runs: dict[str, Path], board: dict[str, Any]
) -> None:
    item = board["data_sets"][1]
    table = pq.read_table(runs["grouped"] / "scores.parquet").to_pandas()
    calibrating = table[(table.split == "calibration") & (table.label == 1)]
    test = table[table.split == "test"]
    assert item["counted"] == "groups"
    assert item["n_groups"] == calibrating.group.nunique()
    assert not test.duplicated(["group", "label"]).any()
    assert item["n_test"]["hallucinated"] == (test.label == 1).sum()


def test_few_independent_test_answers_are_marked(tmp_path: Path) -> None:
    few = compared(tmp_path / "few", answers(160, 3))
    rows = leaderboard([few]).to_dict()["data_sets"][0]["rows"]
    assert all("few_answers" in row["marks"] for row in rows)
    # 40 answers calibrate: too few for 95 %, which is said with the number that it takes.
    assert rows[0]["targets"][1] | {"coverage": 0} == {
        **dict.fromkeys(("threshold", "caught", "fpr", "limit", "confidence")),
        **{"coverage": 0, "state": "few_labels", "needed": 59},
    }


def test_tests_against_baselines_are_corrected_for_the_whole_page(tmp_path: Path) -> None:
    runs = {}
    for seed in (4, 5):
        rows = answers(400, seed)
        for i, row in enumerate(rows):
            row |= {"contexts": ["some context"], "response": f"{i} " + "word " * (i % 7)}
        runs[str(seed)] = compared(tmp_path / str(seed), rows)
    page = leaderboard(runs).to_dict()
    tests = [row["against"] for item in page["data_sets"] for row in item["rows"] if row["against"]]
    raw = sorted(test["p_value"] for test in tests)
    assert len(tests) == 6
    adjusted = np.minimum(1, np.maximum.accumulate(np.array(raw) * np.arange(6, 0, -1)))
    assert sorted(test["p_adjusted"] for test in tests) == pytest.approx(list(adjusted))
    for test in tests:
        expected = "fewer" if test["difference"] < 0 else "more"
        assert test["separated"] == (expected if test["p_adjusted"] <= 0.05 else "no")


def test_tests_against_a_base_model_count_among_those_of_the_page(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "alone"
    shutil.copytree(runs["alone"], folder)
    fpr = {"estimate": -0.2, "lower": -0.3, "upper": -0.1}
    tests = [
        {"name": name, "against": "poor", "fpr": {**fpr, "p_value": p}}
        for name, p in (("good", 0.01), ("column:judge", 0.04))
    ]
    (folder / "base.json").write_text(json.dumps({"paired": {"against_base": tests}}))
    page = leaderboard([folder])
    rows = rows_of(page.to_dict(), "alone")
    assert rows["poor"]["against"] is None
    assert rows["good"]["against"]["p_adjusted"] == pytest.approx(0.02)
    assert rows["good"]["against"]["separated"] == "fewer"
    assert rows["column:judge"]["against"]["name"] == "poor"
    said = document(page.to_dict()).headline
    assert said.startswith("2 of 2 rows beat the detector they were made of (fewer")
    html = (page.save(tmp_path / "page") / "index.html").read_text()
    assert "Against poor" in html and "Against best baseline</" not in html


def test_the_table_has_a_line_a_row(page: Path, board: dict[str, Any]) -> None:
    lines = list(csv.DictReader((page / "leaderboard.csv").open(newline="")))
    assert len(lines) == sum(len(item["rows"]) for item in board["data_sets"])
    first = next(line for line in lines if line["name"] == "good")
    target = rows_of(board, "alone")["good"]["targets"][0]
    assert float(first["fpr_90"]) == target["fpr"]["estimate"]
    assert float(first["certified_limit_90"]) == target["limit"]


@pytest.mark.painted
def test_the_same_comparisons_give_the_same_bytes(
    runs: dict[str, Path], board: dict[str, Any], tmp_path: Path
) -> None:
    kept = {"title": "Twice"}
    for name in ("one", "two"):
        leaderboard(runs, **kept).save(tmp_path / name)  # type: ignore[arg-type]
    one, two = (
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in sorted((tmp_path / name).rglob("*"))
            if path.is_file()
        }
        for name in ("one", "two")
    )
    assert one == two
    text = (tmp_path / "one" / "leaderboard.json").read_text()
    assert "seconds" not in text
    assert str(tmp_path) not in text


def test_a_further_look_certifies_nothing(tmp_path: Path) -> None:
    rows = answers(400, 6)
    compared(tmp_path / "twice", rows)
    again = compared(tmp_path / "twice", rows[:360])
    row = leaderboard([again]).to_dict()["data_sets"][0]["rows"][0]
    assert "further_look" in row["marks"]
    assert all(target["limit"] is None for target in row["targets"])


def test_rows_that_may_be_copies_certify_nothing(tmp_path: Path) -> None:
    judged = [{"label": row["label"], "judge": row["judge"]} for row in answers(800, 8)]
    source = write(tmp_path / "alike.jsonl", judged)
    columns = ("--score-column", "judge", "--higher", "faithful", *PROMISE, "--alpha", 0.3)
    for name, options in (("alike", ()), ("assumed", ("--assume-independent",))):
        done = run("compare", source, *columns, *options, "-o", tmp_path / name)
        assert done.returncode == 0, done.stderr
    for name, is_marked in (("alike", True), ("assumed", False)):
        [item] = leaderboard([tmp_path / name]).to_dict()["data_sets"]
        row = item["rows"][0]
        assert ("rows_alike" in row["marks"]) == is_marked
        if is_marked:
            assert all(target["limit"] is None for target in row["targets"])


def test_a_detector_without_a_threshold_keeps_its_direction(tmp_path: Path) -> None:
    rows = [
        row | {"poor": row["poor"] if i < 40 else None} for i, row in enumerate(answers(400, 9))
    ]
    row = {
        item["name"]: item
        for item in leaderboard(
            [compared(tmp_path / "gap", rows, "--undefined", "pass")], shipped={"poor": 0.0}
        ).to_dict()["data_sets"][0]["rows"]
    }["poor"]
    table = pq.read_table(tmp_path / "gap" / "scores.parquet").to_pandas()
    part = table[(table.split == "test") & (table.label == 0)]
    flagged = part.poor__column <= 0.0
    assert row["reason"] is not None
    assert row["higher"] == "faithful"
    assert row["shipped"]["fpr"]["count"] == flagged.sum()


def test_the_page_leads_to_the_comparisons_and_says_how_to_add_a_row(page: Path) -> None:
    html = (page / "index.html").read_text()
    assert 'href="runs/alone.html"' in html
    assert (page / "runs" / "alone.html").exists()
    assert "--score-column my_score</span>" in html
    assert "Made up." in html
    assert sorted(path.name for path in (page / "figures").iterdir()) == [
        *("data-1.svg", "data-2.svg", "rows-1.svg", "rows-2.svg", "shipped.svg"),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--shipped", "nobody=0.5"), "nothing called 'nobody' for a shipped threshold"),
        (("--shipped", "good=high"), "must be a number; got 'high'"),
        (("--mark", "good=bad"), "must be one of fitted, selected, judged; got 'bad'"),
        (("--mark", "elsewhere=fitted"), "nothing called 'elsewhere' for a mark"),
        (("--note", "good=text"), "nothing called 'good' for a note"),
        (("--shipped", "good"), "--shipped must look like NAME=VALUE"),
        (("--shipped", "good=nan"), "shipped threshold of good must be a finite number"),
    ],
)
def test_what_is_told_of_nobody_is_refused(
    runs: dict[str, Path],
    tmp_path: Path,
    options: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert merge(runs["alone"], *options, "-o", tmp_path / "page") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "page" / "index.html").exists()


def test_comparisons_that_promise_otherwise_are_refused(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    source = write(tmp_path / "other.jsonl", answers(300, 7))
    other = run(
        *("compare", source, "--score-column", "good", "--higher", "faithful"),
        *("-o", tmp_path / "other"),
    )
    assert other.returncode == 0
    with pytest.raises(CalibrailError, match="must have the same guarantee; it is pac for alone"):
        leaderboard({"alone": runs["alone"], "other": tmp_path / "other"})


def test_a_folder_that_holds_no_comparison_is_named(runs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(CalibrailError, match=r"compare\.json"):
        leaderboard([tmp_path])
    for name in ("compare.json", "scores.parquet"):
        folder = tmp_path / name.replace(".", "-")
        folder.mkdir()
        for file in ("compare.json", "scores.parquet", "cost.json", "report.html"):
            (folder / file).write_bytes((runs["alone"] / file).read_bytes())
        (folder / name).write_bytes((runs["grouped"] / name).read_bytes())
        with pytest.raises(CalibrailError, match="do not belong together"):
            leaderboard([folder])
        (folder / name).write_bytes(b"damaged")
        with pytest.raises(CalibrailError, match=name):
            leaderboard([folder])


def test_rates_of_the_whole_test_part_are_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    content = json.loads((runs["alone"] / "compare.json").read_text())
    table = pq.read_table(runs["alone"] / "scores.parquet")
    split = table.column("split").to_pandas()
    assert (split == "confirming").sum() == sum(content["winner"]["halves"]["confirming"].values())
    whole, labels = split.replace("confirming", "test"), table.column("label").to_pandas()
    place = table.column_names.index("split")
    table = table.set_column(place, "split", pa.array(whole))
    test = {label: int(((whole == "test") & (labels == label)).sum()) for label in (0, 1)}
    for entry in content["alpha_sweep"]:
        for row in entry["rows"]:
            for rate, label in (("coverage", 1), ("fpr", 0)):
                row[rate]["n"] = test[label]
    pq.write_table(table, tmp_path / "scores.parquet")
    (tmp_path / "compare.json").write_text(json.dumps(content))
    with pytest.raises(CalibrailError, match="0 answers are kept to confirm a winner"):
        leaderboard([tmp_path])


def test_a_run_is_neither_spoiled_nor_taken_for_another(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    page = leaderboard({"A b": runs["alone"], "a-B": runs["grouped"]})
    assert [item.page for item in page.board.data_sets] == ["runs/A-b.html", "runs/a-B-2.html"]
    before = (runs["alone"] / "cost.json").read_bytes()
    with pytest.raises(CalibrailError, match="holds a run, which a page would spoil"):
        page.save(runs["alone"])
    assert (runs["alone"] / "cost.json").read_bytes() == before
    with pytest.raises(CalibrailError, match="calibrail compare"):
        leaderboard([tmp_path])
    with pytest.raises(CalibrailError, match="the marks of good must be a list of texts"):
        leaderboard([runs["alone"]], marks={"good": 5})  # type: ignore[dict-item]


def test_two_runs_of_one_name_need_names_of_their_own(runs: dict[str, Path]) -> None:
    with pytest.raises(CalibrailError, match="two runs are called 'alone'"):
        leaderboard([runs["alone"], runs["alone"]])
    with pytest.raises(CalibrailError, match="at least one folder"):
        leaderboard([])


def test_what_processors_round_differently_is_the_same_file() -> None:
    """Computed numbers have 12 digits; a threshold, typed in, decides as it did."""
    one = {"fpr": [0.8951754218219312, 7.324446425306282e-12], "threshold": 0.1 + 0.2, "n": 3}
    other = {"fpr": (0.8951754218219311, 7.324446425306347e-12), "threshold": 0.1 + 0.2, "n": 3}
    assert steady(one) == steady(other) != one
    assert steady(one)["threshold"] == 0.1 + 0.2
