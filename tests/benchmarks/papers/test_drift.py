"""Does the page say of moved thresholds what was measured, and is it measured on the other set?"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom, norm

from calibrail.data import Example


@pytest.fixture
def drift(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for folder in ("benchmarks", "benchmarks/papers"):
        monkeypatch.syspath_prepend(str(repository / folder))
    return importlib.import_module("drift")


@pytest.fixture
def rows(repository: Path) -> dict[tuple[str, str], Any]:
    path = repository / "benchmarks" / "results" / "papers_drift.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    return {(row["home"], row["score"]): row for row in content["rows"]}


def answers(name: str, made_up: str, n: int = 60) -> list[Example]:
    """Return answers that repeat their context, the hallucinated ones with more words."""
    found = []
    for i in range(n):
        told = f"Tower {name}{i} is {i + 20} metres high and stands by river {name}{i % 7}."
        for label in (0, 1):
            answer = told + made_up.format(i) * label
            key = f"{name}-{i}"
            more = {"label": label, "group": key, "id": f"{key}-{label}"}
            found.append(Example(f"How high is {key}?", (told,), answer, **more))
    return found


def test_the_other_set_tests_a_threshold(drift: ModuleType) -> None:
    far = answers("a", " Nobody{0} ever measured built liked or painted anything there before.")
    near = answers("b", " It stands there{0}.")
    row = drift.moved({"far": far, "near": near}, "novelty", "far", "near")
    assert (row["home"], row["there"]) == ("far", "near")
    assert sum(row["n"]) <= len(near)
    assert row["caught"][0] < 0.2 and row["finding"] == "broken"
    assert row["needed"][0] <= 0.1


def test_the_page_of_results_is_its_figures(
    drift: ModuleType, rows: dict[tuple[str, str], Any], repository: Path
) -> None:
    results = (repository / "benchmarks" / "results" / "papers_drift.md").read_text("utf-8")
    assert "\n".join(drift.page(list(rows.values()))) in results


def test_every_other_set_of_labels_certifies_more_than_the_limit_shown(drift: ModuleType) -> None:
    area, n = drift.JEV["auroc"], drift.LABELS[0]
    rng = np.random.default_rng(0)
    hallucinated = rng.normal(2**0.5 * norm.ppf(area), 1.0, (4000, n))
    rank = max(k for k in range(1, n) if binom.sf(k - 1, n, 0.1) >= 1 - drift.DELTA)
    threshold = np.sort(hallucinated, axis=1)[:, rank - 1]
    flagged = rng.binomial(n, norm.sf(threshold))
    limits = beta.ppf(drift.CONFIDENCE, flagged + 1, n - flagged)
    # Half of 4,000 sets, give or take three standard errors and what a mean differs from a median.
    assert 0.45 <= np.mean(limits > drift.limit_with(area, 0.9, n)) <= 0.55
