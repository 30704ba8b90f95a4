"""Is a detector certified by answers that did not choose it, and does the page say so?"""

from __future__ import annotations

import importlib
import json
import math
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom


@pytest.fixture
def far(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("how_far")


@pytest.fixture
def sets(repository: Path) -> dict[str, Any]:
    path = repository / "benchmarks" / "results" / "how_far.json"
    return {item["name"]: item for item in json.loads(path.read_text(encoding="utf-8"))["sets"]}


def made(module: ModuleType, n: int = 600, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < 0.5).astype(np.int64)
    columns = {name: rng.normal(d * labels) for name, d in (("good", 3.0), ("poor", 0.5))}
    return module.Scored("made up", labels, np.arange(n) // 2, columns)


def test_no_group_both_chooses_and_certifies(far: ModuleType) -> None:
    first, rest = far.halves(made(far))
    assert not {*first.groups} & {*rest.groups}
    assert len({*first.groups}) == 75 and len({*rest.groups}) == 225
    assert len(first.labels) + len(rest.labels) == 600


def test_the_rest_certifies_what_the_first_quarter_chose(far: ModuleType) -> None:
    scored = made(far)
    first, rest = far.halves(scored)
    found = far.measured(scored)[1]
    assert found.detector == far.choose(first, 0.9) == "good"
    assert found == far.certified(rest, "good", 0.9)
    # What the first quarter holds does not matter to the certificate.
    assert found.measured < found.limit < 0.4


def test_too_few_groups_are_counted(far: ModuleType) -> None:
    rng = np.random.default_rng(1)
    labels = np.tile([1, 0], 60)
    scored = far.Scored("few", labels, np.arange(120) // 12, {"score": rng.normal(3.0 * labels)})
    found = far.certified(scored, "score", 0.9)
    assert (found.limit, found.measured, found.had, found.needed) == (None, None, 10, 22)
    shown = far.cell({"limit": None, "measured": None, "had": 10, "needed": 22})
    assert shown == "10 of 22 groups"


def test_the_curve_is_that_of_normal_scores(far: ModuleType) -> None:
    rng = np.random.default_rng(2)
    d = far.separation(0.9)
    bad, good = rng.normal(d, size=200_000), rng.normal(size=200_000)
    drawn = np.mean(good >= np.quantile(bad, 0.1))
    assert far.false_alarms(0.9, 0.9) == pytest.approx(drawn, abs=0.01)
    # With few labels a promise costs more, and the mean of many draws is the integral.
    n = 100
    rank = max(k for k in range(1, n + 1) if binom.sf(k - 1, n, 0.1) >= 0.9)
    thresholds = np.sort(rng.normal(d, size=(4000, n)), axis=1)[:, rank - 1]
    costs = [float(np.mean(good[:5000] >= threshold)) for threshold in thresholds]
    error = 5 * np.std(costs) / math.sqrt(len(costs))
    assert far.false_alarms(0.9, 0.9, n) == pytest.approx(np.mean(costs), abs=error + 0.01)
    assert far.false_alarms(far.needed(0.9), 0.9) == pytest.approx(far.USEFUL, abs=1e-4)
    assert far.needed(0.9) < far.needed(0.9, 1000) < far.needed(0.9, 100)
    assert far.needed(0.95, 40) is None


def test_the_page_shows_the_results(
    far: ModuleType, sets: dict[str, Any], repository: Path
) -> None:
    results = (repository / "benchmarks" / "results" / "how_far.md").read_text(encoding="utf-8")
    page = (repository / "docs" / "how-far.md").read_text(encoding="utf-8")
    rows = [*far.table(list(sets.values())), *far.auroc_table()]
    for text in (results, page):
        assert [line for line in text.splitlines() if line.startswith("|")] == rows
    text = " ".join(page.split())
    limits = {
        name: [f"{math.ceil(100 * found['limit'])}%" for found in sets[key]["found"]]
        for name, key in (
            ("reveal", "LLM-AggreFact, Reveal"),
            ("ragtruth", "LLM-AggreFact, RAGTruth"),
            ("halueval", "HaluEval QA, words alone"),
        )
    }
    assert f"(Reveal {limits['reveal'][0]}, RAGTruth's claims {limits['ragtruth'][0]})" in text
    assert f"HaluEval's {limits['halueval'][0]} is worth less" in text
    assert f"{limits['reveal'][1]} on Reveal, {limits['ragtruth'][1]} on RAGTruth's claims" in text
    # "20% or little more on two sets, the best", and "two to three times that".
    best = sorted(item["found"][0]["limit"] or 1.0 for item in sets.values())
    assert len([limit for limit in best if limit < 0.25]) == 3 and "on two sets" in text
    costs = [limits[name] for name in ("reveal", "ragtruth")]
    times = [float(at_90.strip("%")) / float(at_80.strip("%")) for at_80, at_90, _ in costs]
    assert 2 <= min(times) <= max(times) <= 3 and "costs two to three times that" in text
    lfqa = sets["LLM-AggreFact, Lfqa"]
    assert f"Lfqa has {lfqa['answers']} claims and {lfqa['groups']} groups" in text
    assert lfqa["found"][2]["had"] < lfqa["found"][2]["needed"]
    assert f"a threshold flags {100 * far.false_alarms(0.8, 0.9):.0f}% of the faithful" in text
    confidence = far.CONFIDENCE - far.DELTA
    assert f"With {100 * confidence:.1f}% confidence" in text


@pytest.mark.painted
def test_the_figure_is_that_of_the_results(
    far: ModuleType,
    sets: dict[str, Any],
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.import_module("text_sets"), "FIGURES", tmp_path)
    for narrow, name in ((False, "how_far"), (True, "how_far-narrow")):
        far.write_schemes(far.draw(list(sets.values()), narrow), name)
        files = [tmp_path / f"{name}-{scheme}.svg" for scheme in ("light", "dark")]
        light, dark = (file.read_bytes() for file in files)
        assert light != dark
        assert b"var(--" not in light + dark
        for file in files:
            committed = repository / "docs" / "figures" / file.name
            assert file.read_bytes() == committed.read_bytes()


def test_what_was_tuned_on_a_set_is_nowhere_the_best(sets: dict[str, Any]) -> None:
    named = {found["detector"] for item in sets.values() for found in item["found"]}
    assert "redeep_out_of_fold" in named
    assert "redeep_heads_chosen_on_these_labels" not in named
    assert not any(re.search("fused|novel_run|novel_stretch", name or "") for name in named)
