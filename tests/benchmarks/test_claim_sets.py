"""Are neighbouring claims one group, as few as neighbours are alike, and is no row lost?"""

from __future__ import annotations

import csv
import importlib
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture
def claims(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("claim_sets")


@pytest.fixture
def scores(real_data: Path) -> Path:
    if not (path := real_data / "aggrefact" / "scores.csv").is_file():
        pytest.skip(f"no {path}")
    return path


def test_blocks_are_the_smallest_whose_neighbours_are_hardly_alike(
    claims: ModuleType, scores: Path
) -> None:
    for name, rows in claims.read_claims(scores).items():
        block = claims.BLOCKS[name]
        assert claims.alike(rows, block) <= claims.ALIKE, name
        smaller = [size for size in (6, 12, 24) if size < block]
        # A source of RAGTruth is known to have more claims.
        if smaller and name != "RAGTruth":
            assert all(claims.alike(rows, size) > claims.ALIKE for size in smaller), name


def test_claims_drawn_by_lot_from_neighbouring_blocks_are_hardly_flagged_together(
    claims: ModuleType, scores: Path
) -> None:
    """One claim a block and class, as verdicts take them; within one standard error."""
    rng = np.random.default_rng(0)
    for name, rows in claims.read_claims(scores).items():
        supported = np.array([row["label_supported"] == "1" for row in rows])
        values = np.array([float(row[claims.BASE]) for row in rows])
        flagged = values <= np.quantile(values[~supported], 0.9)
        for label in (False, True):
            place = np.flatnonzero(supported == label)
            blocks = place // claims.BLOCKS[name]
            if len(set(blocks)) < 20:
                continue
            found = []
            for _ in range(100):
                order = place[np.lexsort((rng.random(len(place)), blocks))]
                drawn = order[np.r_[True, np.diff(np.sort(blocks)) > 0]]
                flags = flagged[drawn] - flagged[place].mean()
                beside = np.diff(drawn // claims.BLOCKS[name]) == 1
                found.append(np.mean(flags[:-1][beside] * flags[1:][beside]) / flagged[place].var())
            assert np.mean(found) < claims.ALIKE + len(set(blocks)) ** -0.5, (name, label)


def test_every_claim_is_in_its_subset_and_in_the_table_of_all(
    claims: ModuleType, scores: Path, tmp_path: Path
) -> None:
    claims.write_claims(scores, tmp_path)
    with scores.open(newline="") as stream:
        known = {row["id"]: row for row in csv.DictReader(stream)}
    found = {}
    for name in (*claims.BLOCKS, claims.TOGETHER):
        with (tmp_path / f"{name}.csv").open(newline="") as stream:
            found[name] = list(csv.DictReader(stream))
    apart = [row for name in claims.BLOCKS for row in found[name]]
    assert apart == found[claims.TOGETHER]
    assert {row["id"] for row in apart} == known.keys() and len(apart) == len(known)
    for row in apart:
        source = known[row["id"]]
        assert row["label"] == {"1": "0", "0": "1"}[source["label_supported"]]
        assert row["factcg_rte"] == source["factcg_rte"]
        assert row["block"].rpartition("-")[0] == source["subset"]
    for name, block in claims.BLOCKS.items():
        blocks = [row["block"] for row in found[name]]
        assert all(blocks[i] == f"{name}-{i // block}" for i in range(len(blocks)))


def test_tables_of_public_scores_are_made_of_clones(
    claims: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [*claims.COLUMNS]
    for i, column in enumerate(models):
        name = column if i else "base"
        path = tmp_path / claims.PUBLISHED / f"{name.replace('_', '-')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            json.dumps({each: [[1, i / 8], [0, 0.5], [1, 1]] for each in claims.BLOCKS})
        )
    keys = {"hash": "0123456789abcdef", "model_name": "bart", "dataset": "cnndm"}
    files = {
        "baseline_factuality_metrics_outputs": [keys | {"FactCC": 1.0, "Rouge L": 0.4}],
        "human_annotations": [keys | {"Factuality": 0.5}],
    }
    (tmp_path / "frank" / "data").mkdir(parents=True)
    for name, rows in files.items():
        (tmp_path / "frank" / "data" / f"{name}.json").write_text(json.dumps(rows))
    monkeypatch.setenv("CALIBRAIL_DATA", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["claim_sets.py", str(tmp_path / "claims")])
    claims.main()
    with (tmp_path / "claims" / "Reveal.csv").open(newline="") as stream:
        [row] = csv.DictReader(stream)
    scores = {column: str(i / 8) for i, column in enumerate(models)}
    assert row == {"id": "Reveal-0", "block": "Reveal-0", "label": "0", **scores} | {
        models[0]: "0.0"
    }
    table = (tmp_path / "frank" / "metric_scores.csv").read_text().splitlines()
    assert table[1] == "0123456789ab-bart,0123456789ab,cnndm,bart,1,1.0,,,,,0.4"
    # A table that is there stays.
    (tmp_path / "frank" / "metric_scores.csv").write_text("own")
    claims.write_published(tmp_path)
    assert (tmp_path / "frank" / "metric_scores.csv").read_text() == "own"


def test_alike_tells_blocks_that_share_documents_from_those_that_do_not(
    claims: ModuleType,
) -> None:
    odds = [(0.3, 0.6)[i // 12 % 2 ^ (i // 24 % 3 == 0)] for i in range(960)]
    rows = [{"label_supported": str(i % 2), claims.BASE: str(p)} for i, p in enumerate(odds)]
    assert claims.alike(rows, 6) > 0.2
    assert claims.alike(rows, 12) < claims.alike(rows, 6)


def test_alike_is_the_correlation_of_two_claims_drawn_by_lot(claims: ModuleType) -> None:
    rng = np.random.default_rng(1)
    documents = np.repeat(rng.normal(size=500), 10)  # half of them straddle two blocks of six
    odds = documents + rng.normal(size=5000)
    rows = [{"label_supported": "1", claims.BASE: str(1 / (1 + np.exp(-x)))} for x in odds]
    blocks = odds[: 833 * 6].reshape(-1, 6)
    drawn = [blocks[np.arange(833), rng.integers(6, size=833)] for _ in range(200)]
    lots = np.mean([np.corrcoef(one[:-1], one[1:])[0, 1] for one in drawn])
    assert claims.alike(rows, 6) == pytest.approx(lots, abs=0.03)
    assert claims.alike(rows, 6) > claims.ALIKE
