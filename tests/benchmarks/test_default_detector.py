"""Is the default the detector that costs least, and does none learn from what tests it?"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from calibrail.data import Example
from calibrail.scores.registry import DEFAULT_SCORE


@pytest.fixture
def default(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("default_detector")


@pytest.fixture
def committed(repository: Path) -> dict[str, Any]:
    path = repository / "benchmarks" / "results" / "default_detector.json"
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def test_the_default_is_the_cheapest_over_all_sets(
    default: ModuleType, committed: dict[str, Any]
) -> None:
    costs = {
        name: {key: np.array([value]) for key, value in row.items()}
        for name, row in committed["false_alarms"].items()
    }
    assert default.chosen(costs, [*costs]) == committed["best"] == DEFAULT_SCORE
    assert default.left_out(costs) == committed["left_out"]


def test_what_the_page_says_of_the_choice(committed: dict[str, Any], repository: Path) -> None:
    text = (repository / "docs" / "leaderboard.md").read_text(encoding="utf-8")
    text = " ".join(text.split())
    costs, choice = committed["false_alarms"], committed["left_out"]
    assert [choice[name] for name in ("RAGTruth QA", "FaithBench")] == ["rouge_l"] * 2
    assert choice["HaluEval QA"] == "novelty"
    assert costs["HaluEval QA"]["novelty"] == 1.0 and "which flags everything there" in text
    assert all(row["fused"] > row["rouge_l"] for row in costs.values())
    assert "`fused` is cheaper on none" in text


def test_a_threshold_is_tested_on_other_groups_than_set_it(default: ModuleType) -> None:
    # Each group has values of its own: those that set a threshold say nothing of the others.
    examples = [
        Example("", ("context",), "response", label=i % 2, group=f"g{i // 20}", id=str(i))
        for i in range(400)
    ]
    rng = np.random.default_rng(0)
    labels = np.array([example.label for example in examples])
    texts = default.Texts(examples, {"good": rng.normal(3.0 * labels), "none": rng.random(400)})
    costs = default.false_alarms(texts, draws=20)
    assert costs["good"].mean() < 0.1
    assert costs["none"].mean() == pytest.approx(0.9, abs=0.05)
    assert len(costs["good"]) == 20


def test_fused_learns_from_the_other_sets_alone(
    default: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(name: str, words: str) -> list[Example]:
        return [
            Example(
                "What?",
                ("The tower is old. It stands by the river.",),
                "The tower is old." + words * (i % 2),
                label=i % 2,
                group=f"{name}-{i}",
                id=str(i),
            )
            for i in range(40)
        ]

    sets = {"one": answers("one", " It is green."), "two": answers("two", " Nobody built it.")}
    seen: list[set[str | None]] = []
    fit = default.build(default.parse_spec("fused")).__class__.fit
    monkeypatch.setattr(default, "TEXTS", sets)
    monkeypatch.setattr(default, "read_texts", sets.__getitem__)

    def noted(self: Any, examples: list[Example]) -> Any:
        seen.append({example.group for example in examples})
        return fit(self, examples)

    monkeypatch.setattr(default.build(default.parse_spec("fused")).__class__, "fit", noted)
    found = default.scored()
    assert [*found] == ["one", "two"]
    assert seen == [{e.group for e in sets["two"]}, {e.group for e in sets["one"]}]
    assert set(found["one"].columns) == {*default.CANDIDATES, "fused"}
    assert np.ptp(found["one"].columns["fused"]) > 0
