"""Are neighbouring claims one group, as few as neighbours are alike, and is no row lost?"""

from __future__ import annotations

import csv
import importlib
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
