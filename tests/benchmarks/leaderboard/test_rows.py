"""Does a script of its own find the thresholds, rates and limits that the committed page shows?"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, binom

from calibrail.conformal.group_thresholds import calibrate_clusters
from calibrail.options import Promise
from calibrail.pipelines.compare import ComparisonRun

ALPHA, DELTA, CONFIDENCE = 0.1, 0.1, 0.95
FILES = {
    "FRANK": ("frank/metric_scores.csv", -1.0),
    "WikiBio GPT-3, 119 passages": ("wikibio/sentences_119.csv", 1.0),
    "RAGTruth, answers of Llama-2-7B": ("ragtruth/llama2_7b_redeep.csv", 1.0),
    "LLM-AggreFact, Reveal": ("runs/leaderboard/claims/Reveal.csv", -1.0),
}
ROWS = [
    *(("FRANK", name) for name in ("bertscore_p_article", "qags", "feqa", "rouge_l", "factcc")),
    *(
        ("WikiBio GPT-3, 119 passages", f"selfcheck_{name}")
        for name in ("nli", "prompt", "bertscore")
    ),
    ("RAGTruth, answers of Llama-2-7B", "redeep_heads_chosen_on_these_labels"),
    ("RAGTruth, answers of Llama-2-7B", "redeep_out_of_fold"),
    *(("LLM-AggreFact, Reveal", f"factcg_{name}") for name in ("base", "rte", "qqp")),
]

Floats = NDArray[np.float64]


@pytest.fixture(scope="module")
def builder(repository: Path) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repository / "benchmarks"))
        yield importlib.import_module("leaderboard_page")


@pytest.fixture(scope="module")
def compared(builder: ModuleType, real_data: Path) -> dict[str, ComparisonRun]:
    """The comparisons behind the rows, made anew."""
    if not (scores := real_data / "aggrefact" / "scores.csv").is_file():
        pytest.skip(f"no {scores}")
    with builder.checkout():
        builder.write_claims(scores, Path(builder.CLAIMS))
        return {item.name: builder.compared(item) for item in builder.COLUMNS if item.name in FILES}


@pytest.fixture(scope="module")
def fresh(
    builder: ModuleType,
    compared: dict[str, ComparisonRun],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    names = {item.name: item.folder for item in builder.COLUMNS}
    sets = {item.name: item for item in builder.COLUMNS}
    return {
        name: builder.saved(run, sets[name], folder / names[name]) for name, run in compared.items()
    }


@pytest.fixture(scope="module")
def committed(repository: Path) -> dict[str, Any]:
    content = json.loads((repository / "docs/leaderboard/leaderboard.json").read_text())
    return {item["name"]: item for item in content["data_sets"]}


def missed_share(scores: Floats, groups: NDArray[np.int64], threshold: float) -> Floats:
    """Return the share of every group's answers that lies below a threshold."""
    below = np.bincount(groups, scores < threshold)
    return np.asarray(below / np.bincount(groups))


def threshold_of_groups(scores: Floats, groups: NDArray[np.int64]) -> float:
    """Return the highest threshold at which the bet against its promise is not refuted.

    Every group multiplies the wealth by 1 + lambda (alpha - share missed); lambda is the best for
    shares that vary 0.6 times as much as those of single answers.
    """
    n = int(groups.max()) + 1
    best = math.sqrt(2 * math.log(1 / DELTA) / (n * 0.6 * ALPHA * (1 - ALPHA)))
    stake = min(best, 0.95 / (1 - ALPHA))
    kept = [
        value
        for value in np.unique(scores)
        if np.prod(1 + stake * (ALPHA - missed_share(scores, groups, value))) >= 1 / DELTA
    ]
    return float(max(kept))


def threshold_by_lot(scores: Floats, groups: NDArray[np.int64]) -> float:
    """Return the threshold of one answer of each group; which one, the package's lot says."""
    known = np.where(np.isinf(scores), np.nan, scores)
    calibration = calibrate_clusters(known, groups, Promise(ALPHA, guarantee="pac", delta=DELTA))
    drawn = np.nan_to_num(calibration.one_per_cluster(), nan=np.inf)
    assert len(drawn) == len(np.unique(groups))
    for group, score in enumerate(drawn):
        assert score in scores[groups == group]
    return threshold_of_answers(drawn)


def threshold_of_answers(scores: Floats) -> float:
    n = len(scores)
    rank = max(k for k in range(1, n + 1) if binom.sf(k - 1, n, ALPHA) >= 1 - DELTA)
    return float(np.sort(scores)[rank - 1])


@pytest.mark.parametrize(("data", "column"), ROWS)
def test_numpy_alone_finds_what_a_row_says(
    data: str,
    column: str,
    compared: dict[str, ComparisonRun],
    fresh: dict[str, Path],
    committed: dict[str, Any],
    real_data: Path,
    repository: Path,
) -> None:
    path, sign = FILES[data]
    folder = repository if path.startswith("runs") else real_data
    answers = pd.read_csv(folder / path, dtype={"id": str, "group": str, "block": str})
    answers = answers.rename(columns={"block": "group"})
    split = pq.read_table(fresh[data] / "scores.parquet", columns=["id", "split"]).to_pandas()
    split["lot"] = compared[data].scored.lots
    answers = answers.merge(split, on="id", validate="one_to_one")
    assert len(answers) == committed[data]["n_examples"]
    # What is undefined is flagged.
    score = (sign * answers[column]).fillna(np.inf)
    calibrate = (answers.split == "calibration") & (answers.label == 1)
    # Groups are numbered by the lowest lot of all their answers.
    lot = answers.groupby("group").lot.transform("min")[calibrate]
    groups = np.unique(lot, return_inverse=True)[1]
    small = np.mean(1 / np.bincount(groups)) > 0.25
    if answers.group.is_unique:
        threshold = threshold_of_answers(score[calibrate].to_numpy())
    elif small:
        threshold = threshold_by_lot(score[calibrate].to_numpy(), groups)
    else:
        threshold = threshold_of_groups(score[calibrate].to_numpy(), groups)
    test = answers[answers.split == "test"].assign(flagged=score >= threshold)
    assert test.groupby("label").group.value_counts().max() == 1
    caught, alarms = (test.flagged[test.label == label].to_numpy() for label in (1, 0))

    [row] = [r for r in committed[data]["rows"] if r["name"].removeprefix("column:") == column]
    target = row["targets"][0]
    assert target["threshold"] == pytest.approx(sign * threshold)
    assert (target["caught"]["count"], target["caught"]["n"]) == (caught.sum(), len(caught))
    assert (target["fpr"]["count"], target["fpr"]["n"]) == (alarms.sum(), len(alarms))
    assert (target["state"] == "flags_all") == bool((score >= threshold).all())
    # With 97.5 % confidence each, Clopper and Pearson.
    most_caught = 1.0 if caught.all() else beta.ppf(0.975, caught.sum() + 1, (~caught).sum())
    if alarms.all() or most_caught < 1 - ALPHA:
        assert target["limit"] is None
    else:
        limit = beta.ppf(0.975, alarms.sum() + 1, (~alarms).sum())
        assert target["limit"] == pytest.approx(limit)
        assert target["confidence"] == pytest.approx(1 - DELTA - (1 - CONFIDENCE) / 2)


def test_comparisons_made_anew_give_the_committed_rows(
    builder: ModuleType, fresh: dict[str, Path], committed: dict[str, Any]
) -> None:
    sets = [item for item in builder.COLUMNS if item.name in fresh]
    again = builder.merged(fresh, sets).to_dict()["data_sets"]
    for item in json.loads(json.dumps(again)):
        # Corrected for the rows of the whole page.
        for row in (*item["rows"], *committed[item["name"]]["rows"]):
            for key in ("p_adjusted", "separated"):
                (row["against"] or {}).pop(key, None)
        assert near(item, committed[item["name"]])


def test_tests_against_a_base_are_those_of_the_comparison(builder: ModuleType) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for i in range(600):
        label = int(rng.random() < 0.5)
        scores = {name: float(rng.normal(d * label)) for name, d in (("good", 2.5), ("poor", 0.5))}
        rows.append({"id": str(i), "group": f"g{i // 2}", "label": label, **scores})
    run = builder.calibrail.compare(
        rows, [builder.build_column(name, "hallucinated") for name in ("good", "poor")], alpha=0.1
    )
    [test] = run.comparison.winner.choosing
    [found] = builder.against_base(run, "good")
    assert (test.name, test.against) == (found["name"], found["against"]) == ("poor", "good")
    assert found["fpr"]["estimate"] == test.fpr.estimate > 0.2
    assert found["fpr"]["p_value"] == test.fpr.p_value


def near(made: Any, kept: Any) -> bool:
    """Return whether two JSON values are the same but for digits that differ between machines."""
    if isinstance(made, float) and isinstance(kept, float):
        return made == pytest.approx(kept, rel=1e-9, abs=1e-12)
    if isinstance(made, dict) and isinstance(kept, dict):
        return made.keys() == kept.keys() and all(near(made[key], kept[key]) for key in made)
    if isinstance(made, list) and isinstance(kept, list):
        return len(made) == len(kept) and all(map(near, made, kept))
    return bool(made == kept)


def test_without_the_data_it_says_what_is_missing_and_makes_nothing(
    builder: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(builder, "DATA", tmp_path / "none")
    monkeypatch.setattr("sys.argv", ["leaderboard_page.py", "--columns", str(tmp_path / "page")])
    builder.main()
    assert f"no {tmp_path / 'none' / 'frank'}" in capsys.readouterr().out
    assert not (tmp_path / "page").exists()


def test_no_text_of_the_data_is_in_what_is_committed(repository: Path, real_data: Path) -> None:
    """Every page and file is searched for runs of 40 characters of the answers and contexts."""
    texts: list[str] = []
    for path, columns in (
        ("faithbench/summaries.csv", ["contexts", "response"]),
        ("wikibio/sentences_119.csv", ["response"]),
        ("wikibio/sentences_237.csv", ["response"]),
        ("ragtruth/llama2_7b_redeep.csv", ["response"]),
    ):
        table = pd.read_csv(real_data / path)
        texts += [str(text) for column in columns for text in table[column]]
    for name, fields in (
        ("ragtruth/response.jsonl", ["response"]),
        ("ragtruth/source_info.jsonl", ["source_info"]),
        ("halueval/qa_data.json", ["knowledge", "question", "hallucinated_answer"]),
    ):
        for line in (real_data / name).read_text(encoding="utf-8").split("\n"):
            if line:
                row = json.loads(line)
                texts += [str(row[field]) for field in fields]
    pieces = {text[20:60] for text in texts if len(text) >= 60}
    assert len(pieces) > 5000
    for path in (repository / "docs" / "leaderboard").rglob("*.*"):
        content = path.read_text(encoding="utf-8")
        found = {content[i : i + 40] for i in range(len(content) - 39)} & pieces
        assert not found, f"{path}: {sorted(found)[:3]}"
