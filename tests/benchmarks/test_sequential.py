"""Does the page of labels until a verdict say what its streams did?"""

from __future__ import annotations

import importlib
import math
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from calibrail.conformal.sequential.audited_calibration import LearntGuess
from calibrail.options import Drawing, Requirement


@pytest.fixture
def benchmark_module(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("sequential")


def test_a_row_says_what_is_saved(benchmark_module: ModuleType) -> None:
    ways = [([120.0, np.inf, 120.0], 0.75), ([50.0, 80.0, 200.0], 1.0)]
    cells = [cell.strip() for cell in benchmark_module.row("a", 100, ways).strip("|").split("|")]
    assert cells == ["a", "100", "120", "-", "50", "80", "200", "-20%", "+50%", "75% / 100%"]


def test_a_row_of_real_answers_says_what_ran_out(benchmark_module: ModuleType) -> None:
    ways = [([120.0, np.inf, 120.0], 0.7, 0.25), ([50.0, 80.0, 200.0], 1.0, 0.0)]
    line = benchmark_module.real_row("a", 100, 300, ways)
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    saved = ["-20%", "+50%"]
    assert cells[:7] == ["a", "100", "120", "-", "50", "80", "200"]
    assert cells[7:] == [*saved, "70% / 100%", "25% / 0%"]
    # Where the fixed number is more than there are, nothing is saved against it.
    line = benchmark_module.real_row("a", 100, 99, ways)
    assert [cell.strip() for cell in line.strip("|").split("|")][7:9] == ["-", "-"]


def test_the_fixed_number_is_that_of_one_look_at_the_confidence_of_the_streams(
    benchmark_module: ModuleType, repository: Path
) -> None:
    page = (repository / "benchmarks/results/sequential.md").read_text(encoding="utf-8")
    n = benchmark_module.fixed_number(Requirement(0.2, 0.9), (0.95, 0.1), 0.5)
    assert f"\n| 0.95 (0.9) | 0.1 (0.2) | 0.5 | {n:,} |" in page


def test_what_the_page_says_of_judges_is_what_was_simulated(repository: Path) -> None:
    page = (repository / "benchmarks/results/sequential.md").read_text(encoding="utf-8")
    table = page.partition("## With a judge")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[4:] for line in table.splitlines() if line.startswith("| 0.")]
    labels = [[int(cell.split()[0].replace(",", "")) for cell in row] for row in rows]
    saved = [int(re.findall(r"\(\+(\d+)%\)", row[1])[0]) for row in rows]
    more = math.ceil(max(100 * (useless / alone - 1) for alone, _, useless in labels))
    text = " ".join((repository / "docs/label.md").read_text(encoding="utf-8").split())
    said = f"saved {min(saved)} to {max(saved)}% of the labels (median {np.median(saved):.0f}%)"
    assert len(rows) == 9 and said in text
    assert f"a useless judge cost up to {more}% more" in text


def test_every_answer_is_replayed_once(benchmark_module: ModuleType) -> None:
    rng, guess = np.random.default_rng(0), np.arange(30.0)
    draw = benchmark_module.pool(guess > 9, guess > 19, guess)
    blocks = [draw(rng, 5, n) for n in (8, 8, 8, 6)]
    rows = np.concatenate([unit.guess for unit in blocks], axis=1)[:, :, 0]
    assert (np.sort(rows, axis=1) == guess).all()
    assert len({tuple(row) for row in rows.tolist()}) == 5
    labels = np.concatenate([unit.hallucinated for unit in blocks], axis=1)[:, :, 0]
    assert (labels == (rows > 19)).all()
    # All of a stream at once, and other streams anew.
    again = draw(rng, 5, 30).guess[:, :, 0]
    assert (np.sort(again, axis=1) == guess).all() and (again != rows).any()


def test_labels_of_a_file_are_counted_until_its_verdict(
    benchmark_module: ModuleType, tmp_path: Path
) -> None:
    rng = np.random.default_rng(2)
    label = rng.random(150) < 0.5
    rows = [
        {
            "id": f"a{i}",
            "group": f"g{i}",
            "label": str(int(label[i])),
            "score": f"{rng.normal(-4.0 * label[i]):.4f}",
            "other": f"{rng.normal(-float(label[i])):.4f}",
            "response": benchmark_module.own_text(f"a{i}"),
        }
        for i in range(150)
    ]
    way = benchmark_module.WAYS["another detector as judge"]
    item = benchmark_module.LABELLED[0]
    n, verdict, drawn = benchmark_module.labelled_by_hand(item, rows, 5, way, tmp_path)
    told = (tmp_path / "labels" / "labels.jsonl").read_text("utf-8").splitlines()
    assert verdict == "certified" and n == len(told) <= drawn < 120
    assert "label" not in (tmp_path / "traces.csv").read_text("utf-8").splitlines()[0]


def test_each_set_is_labelled_from_its_own_columns(
    benchmark_module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark_module, "DATA", tmp_path)
    said = {
        "FRANK": "id,group,label,bertscore_p_article,qags\n0,g,1,0.9,0.5\n1,g,0,0.8,\n",
        "LLM-AggreFact": "id,label_supported,factcg_base,factcg_wanli\n0,0,0.9,0.5\n1,1,0.8,0.4\n",
        "FaithBench": "id,group,label,hhem_2_1,gpt_4o\n0,g,1,0.9,0.5\n1,g,0,0.8,1\n",
    }
    for item in benchmark_module.LABELLED:
        path = tmp_path / item.file
        path.parent.mkdir()
        path.write_text(said[item.name], encoding="utf-8")
        rows = benchmark_module.labelled_rows(item)
        # A row without a score is no row; 1 is hallucinated, whatever the file's label means.
        assert [row["label"] for row in rows] == (["1"] if item.name == "FRANK" else ["1", "0"])
        assert (rows[0]["score"], rows[0]["other"]) == ("0.9", "0.5")
        assert {row["group"] for row in rows} == {"b0" if item.name == "LLM-AggreFact" else "g"}


def test_a_line_of_files_has_its_errors(benchmark_module: ModuleType) -> None:
    found = {
        "uniform": [(100, "certified", 100), (200, "certified", 200), (300, "certified", 300)],
        "a judge": [(50, "certified", 90), (150, "rejected", 400), (10, "inconclusive", 500)],
    }
    assert benchmark_module.file_lines(found) == [
        "| uniform | 3 | 200 | 200 ± 58 | +0% ± 0% (3) | 200 | 3 / 0 / 0 |",
        "| a judge | 3 | 50 | 70 ± 42 | +38% ± 12% (2) | 400 | 1 / 1 / 1 |",
    ]


def test_streams_that_are_through_with_the_answers_run_out(benchmark_module: ModuleType) -> None:
    few = np.array([True, False] * 4)
    asked, drawing = Requirement(0.3, 0.8), Drawing("active")
    for way in (Drawing(), drawing):
        draw = benchmark_module.pool(few, few, np.full(8, 0.5))
        _, certified, out = benchmark_module.replayed(draw, asked, way, 8, runs=20)
        assert (certified, out) == (0.0, 1.0)
    many = np.array([True, False] * 200)
    for way in (Drawing(), drawing):
        draw = benchmark_module.pool(many, many, np.full(400, 0.5))
        (half, _, drawn), certified, out = benchmark_module.replayed(draw, asked, way, 400, runs=20)
        assert (certified, out) == (1.0, 0.0) and half <= drawn <= 400


def test_a_pool_is_drawn_from_as_it_is(benchmark_module: ModuleType) -> None:
    rng = np.random.default_rng(0)
    truth = rng.random(400) < 0.4
    flagged = rng.random(400) < np.where(truth, 1.0, 0.05)
    draw = benchmark_module.pool(flagged, truth, np.where(truth, 0.9, 0.1))
    unit = draw(rng, 50, 200)
    assert unit.hallucinated.mean() == pytest.approx(truth.mean(), abs=0.03)
    assert (unit.flagged | ~unit.hallucinated).all()
    asked = Requirement(0.3, 0.8)
    by_guess, share, _ = benchmark_module.replayed(draw, asked, Drawing("active"), 400, runs=60)
    assert share == 1.0 and by_guess[0] <= by_guess[1] and by_guess[0] < by_guess[2]


@pytest.mark.parametrize("with_judge", [False, True])
def test_what_is_learnt_on_the_way_is_what_the_core_learns(
    benchmark_module: ModuleType, with_judge: bool
) -> None:
    rng = np.random.default_rng(0)
    score = rng.integers(0, 9, 60) / 10.0
    clues = np.c_[score, rng.integers(0, 2, 60)] if with_judge else score
    truth = rng.random(60) < score
    draw = benchmark_module.pool(score > 0.5, truth, np.arange(60.0))
    learner, going = benchmark_module.Learnt(clues, 3), np.array([0, 2])
    unit = draw(rng, 2, 40)
    assert (learner.guess(going, unit) == 0.5).all()
    labelled = rng.random((2, 40, 1)) < 0.5
    learner.told(going, unit, labelled)
    later = draw(rng, 2, 5)
    guess = learner.guess(going, later)
    rows, taken = unit.guess.astype(int), labelled[:, :, 0]
    for stream in (0, 1):
        seen = rows[stream, :, 0]
        known = seen[taken[stream]]
        new = clues[later.guess[stream, :, 0].astype(int)]
        expected = LearntGuess.of(clues[known], truth[known], clues[seen])(new)
        assert guess[stream, :, 0] == pytest.approx(expected, rel=1e-9)


def test_the_population_of_streams_has_the_rates_that_it_is_said_to_have(
    benchmark_module: ModuleType,
) -> None:
    flagged, truth, score = benchmark_module.population(0.95, 0.1, 0.3)
    assert truth.mean() == pytest.approx(0.3, abs=1e-4)
    assert flagged[truth].mean() == pytest.approx(0.95, abs=1e-3)
    assert flagged[~truth].mean() == pytest.approx(0.1, abs=1e-3)
    assert score[flagged].min() >= score[~flagged].max()
    says = benchmark_module.judge_of(truth, 0.85)
    assert np.mean((says == 1) == truth) == pytest.approx(0.85, abs=0.01)
    useless = benchmark_module.judge_of(truth, None)
    assert useless[truth].mean() == pytest.approx(useless[~truth].mean(), abs=0.03)


def test_bets_that_are_compared_are_won_alike_where_they_are_the_same(
    benchmark_module: ModuleType,
) -> None:
    hits = np.ones((1, 60))
    # Nothing but hits, of which a set of twice as many may hold a half: known from the 31st on.
    urn = benchmark_module.urn_bet(hits, 0.5)[0]
    assert (
        np.isfinite(urn[:29]).all() and np.isinf(urn[31:]).all() and (np.diff(urn[:29]) > 0).all()
    )
    for name in ("mixture", "four bets", "plug-in"):
        path = benchmark_module.BETS[name](hits, 0.5)[0]
        assert 10 * np.log(2.0) > path[9] > np.log(20.0), name
    row = benchmark_module.judged_row("a", (200.0, 100.0, 210.0, np.inf))
    assert row == "| a | 200 | 100 (+50%) | 210 (-5%) | - |"


def test_one_pair_has_no_standard_error_and_none_saves_nothing(
    benchmark_module: ModuleType,
) -> None:
    ended, open_ = (100, "certified", 100), (50, "inconclusive", 90)
    one, none = [(40, "rejected", 80), open_], [open_, open_]
    lines = benchmark_module.file_lines({"uniform": [ended] * 2, "one": one, "none": none})
    assert [line.split(" | ")[4] for line in lines] == ["+0% ± 0% (2)", "+60% (1)", "- (0)"]
