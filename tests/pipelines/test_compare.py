"""Does a comparison run from a file to its folder, the same each time, and on public data?"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrail.errors import DataError, InputError
from calibrail.options import SplitOptions
from calibrail.pipelines.compare import compare
from calibrail.scores.registry import ColumnScore
from tests.answers import rows, write

SHARED = Path(os.environ.get("CALIBRAIL_DATA", "../shared/data"))
COLUMN = "column:column=detector,higher=hallucinated"


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("data") / "answers.jsonl", rows())


@pytest.mark.painted
def test_the_same_input_gives_the_same_bytes(answers: Path, tmp_path: Path) -> None:
    for name in ("first", "again"):
        compare(answers, [COLUMN, "rouge_l"], alpha=0.1, max_fpr=0.5).save(tmp_path / name)
    files = ["compare.json", *(f"figures/{n}.svg" for n in ("forest", "coverage", "alpha_sweep"))]
    for file in files:
        first, again = ((tmp_path / name / file).read_bytes() for name in ("first", "again"))
        assert first == again, file
    content = json.loads((tmp_path / "first" / "compare.json").read_text())
    assert "seconds" not in json.dumps(content)
    assert "seconds_per_1000" in (tmp_path / "first" / "cost.json").read_text()
    # Whoever gets a page by mail gets it whole.
    assert (tmp_path / "first" / "report.html").stat().st_size <= 200_000
    page = (tmp_path / "first" / "report.html").read_text()
    assert "What the scores cost" in page


def test_figures_of_an_earlier_run_are_removed(answers: Path, tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "old.svg").write_text("<svg/>")
    compare(answers, COLUMN, alpha=0.1).save(tmp_path, force=True)
    assert not (tmp_path / "figures" / "old.svg").exists()


def test_the_seed_halves_the_test_part(answers: Path) -> None:
    found = [
        compare(answers, [COLUMN, "rouge_l"], alpha=0.1, splitting=SplitOptions(seed=seed))
        for seed in (3, 4)
    ]
    assert [item.to_dict()["winner"]["halves"]["seed"] for item in found] == [3, 4]


def test_a_score_that_is_undefined_everywhere_keeps_its_row(tmp_path: Path) -> None:
    data = write(tmp_path / "answers.jsonl", [{**row, "empty": None} for row in rows()])
    empty = ColumnScore(column="empty", higher="hallucinated")
    found = compare(data, [COLUMN, empty], alpha=0.1).to_dict()
    assert [item["name"] for item in found["detectors"]] == ["detector"]
    assert [item["name"] for item in found["uncalibrated"]] == ["empty"]
    with pytest.raises(DataError, match="undefined for all"):
        compare(data, empty, alpha=0.1)


def test_scores_of_other_tools_need_no_model() -> None:
    """FRANK: the scores that published metrics gave to summaries, several to an article."""
    table = SHARED / "frank" / "metric_scores.csv"
    if not table.is_file():
        pytest.skip(f"{table} is not there; set CALIBRAIL_DATA to the folder of public data")
    scores = [
        ColumnScore(column=name, higher="faithful")
        for name in ("factcc", "feqa", "dae", "qags", "bertscore_p_article")
    ]
    found = compare(table, scores, alpha=0.1, guarantee="marginal", max_fpr=0.6).to_dict()
    assert found["leader"] == "bertscore_p_article"
    assert found["winner"]["confirmed"] is True
    assert found["winner"]["certificate"]["counted"].startswith("one answer of each group")
    assert [item["name"] for item in found["uncalibrated"]] == ["dae"]  # holds nothing here
    levels = found["matched_coverage"]["levels"]
    assert [level["set_by"] for level in levels] == [None, "factcc"]
    assert np.isfinite(levels[1]["coverage"])


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"by": "kind"}, "leave out by, min_n and beta"),
        ({"by": "kind", "min_n": 30}, "leave out by, min_n and beta"),
        ({"beta": 0.2}, "leave out by, min_n and beta"),
        ({"risks": ["recall>=0.7"]}, "in place of risks give min_caught and max_false_alarms"),
    ],
)
def test_what_a_comparison_would_not_do_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        compare("example:facts", ["novelty", "novel_run"], **asked)


def test_a_margin_against_a_reference_stands_in_the_result_and_on_the_page(
    answers: Path, tmp_path: Path
) -> None:
    looks = tmp_path / "looks.json"
    detectors, how = [COLUMN, "rouge_l", "novelty"], {"alpha": 0.2, "looks": looks}
    run = compare(answers, detectors, reference="detector", margin=0.9, **how)
    content = run.to_dict()["reference"]
    assert (content["name"], content["margin"]) == ("detector", 0.9)
    assert [row["name"] for row in content["detectors"]] == ["rouge_l", "novelty"]
    assert {row["verdict"] for row in content["detectors"]} <= {"non-inferior", "open"}
    run.save(tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "Against detector, at most 90 points more" in page
    other = compare(answers, detectors, reference="novelty", margin=0.01, **how).to_dict()
    assert {row["verdict"] for row in other["reference"]["detectors"]} != {"looked before"}
    sooner = compare(answers, detectors[:2], reference="rouge_l", margin=0.9, **how).to_dict()
    assert [row["verdict"] for row in sooner["reference"]["detectors"]] == ["looked before"]
    assert compare(answers, detectors, alpha=0.2).to_dict()["reference"] is None


def test_a_yes_or_no_judge_that_flags_everything_neither_wins_nor_loses(tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(0), []
    for row in range(900):
        label = row % 3 == 0
        says = int(rng.random() < (0.7 if label else 0.1))
        rows.append({"id": str(row), "label": int(label), "a": rng.normal() + 2 * label, "j": says})
    data = write(tmp_path / "data.jsonl", rows)
    names = ["column:column=a,higher=hallucinated", "column:column=j,higher=hallucinated"]
    run = compare(data, names, alpha=0.1, reference="j", margin=0.03, baselines=False)
    reference = run.to_dict()["reference"]
    assert [row["verdict"] for row in reference["detectors"]] == ["not comparable"]
    assert reference["apart"] == {"j": True}
    run.save(tmp_path / "run")
    page = " ".join((tmp_path / "run" / "report.html").read_text("utf-8").split())
    assert "Ties let j catch over 5 points more" in page
    # The table of all scores counts other answers than the differences.
    assert "the false alarms of the table of all scores are of that half alone" in page


def test_a_reference_needs_a_margin_and_a_threshold(answers: Path) -> None:
    with pytest.raises(InputError, match="say which detector is the reference"):
        compare(answers, COLUMN, margin=0.1)
    with pytest.raises(InputError, match="gpt can be no reference: the detectors are detector"):
        compare(answers, COLUMN, reference="gpt", margin=0.1)
    with pytest.raises(InputError, match="margin must"):
        compare(answers, COLUMN, reference="detector", margin=3.0)
