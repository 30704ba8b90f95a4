"""Do the rows of the detectors say what weakens them?"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def detectors(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("detectors")


def test_what_was_designed_on_a_set_is_marked_there(detectors: ModuleType) -> None:
    def titles(data: str) -> list[str]:
        return [
            detectors.titled("name", spec, data, learns=True)
            for spec in ("fused", 'fused:scores="novelty,novel_run"', 'fused:scores="novelty,rad"')
        ]

    assert titles("RAGTruth QA") == ["name * †", "name * †", "name *"]
    assert titles("HaluEval QA") == ["name *"] * 3


def test_the_committed_tables_bear_the_marks_of_the_script(
    detectors: ModuleType, repository: Path
) -> None:
    page = (repository / "benchmarks/results/detectors.md").read_text(encoding="utf-8")
    assert "\n".join(["", *detectors.preface(), ""]) in page
    tables = re.split(r"^## (.*?)(?::.*)?$", page, flags=re.MULTILINE)
    single, learning = detectors.specs(with_model=True)
    for data, table in zip(tables[1:5:2], tables[2:6:2], strict=True):
        rows = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()]
        assert {row for row in rows if row and row[0] not in "|\\S"} - {"score"} == {
            detectors.titled(name, spec, data, learns=specs is learning)
            for specs in (single, learning)
            for name, spec in specs.items()
        }


def table(repository: Path, data: str) -> dict[str, list[str]]:
    """Return the rows of a data set by the scores' names, without marks."""
    page = (repository / "benchmarks" / "results" / "detectors.md").read_text(encoding="utf-8")
    part = page.split(f"\n## {data}", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name.rstrip(" *†"): cells for name, *cells in rows}


def said(repository: Path, page: str) -> str:
    return " ".join((repository / "docs" / page).read_text(encoding="utf-8").split())


def test_what_the_pages_quote_of_the_tables(detectors: ModuleType, repository: Path) -> None:
    ragtruth, halueval = (table(repository, name) for name in detectors.SETS)
    area, flagged, *_ = ragtruth["fused (default)"]
    shown = f"AUROC {area.split()[0]} and {100 * float(flagged.split()[0]):.0f}%"
    assert f"out of fold, it had seemed better: {shown}." in said(repository, "measured.md")
    # Seconds of the models where scores share one run.
    seconds = {name: float(row[3]) for name, row in ragtruth.items() if row[3][:1].isdigit()}
    times = seconds["sgi"] / float(halueval["sgi"][3])
    assert f"longer contexts take {times:.1f} times as long" in said(repository, "scale.md")
    words = max(seconds[name] for name in (*detectors.BASELINES, *detectors.STRETCHES))
    scores = said(repository, "scores.md")
    assert words <= 2 and "| nothing | 2 or less |" in scores
    embedded = [seconds[name] for name in detectors.EMBEDDED if name != "redeep"]
    assert {round(taken, -1) for taken in embedded} == {180.0}
    assert "| the built-in encoder (`[models]`) | 180 |" in scores
    least = min(seconds[name] for name in detectors.WITH_NLI)
    assert least >= 1000 and "| a model from the hub | 1,000 and more |" in scores


def test_what_the_results_of_trimming_quote_of_the_tables(repository: Path) -> None:
    halueval = table(repository, "HaluEval QA")
    areas = [float(halueval[name][0].split()[0]) for name in ("nli", "sec", "claims")]
    trimming = (repository / "benchmarks" / "results" / "trimming.md").read_text(encoding="utf-8")
    assert f"its AUROC of whole answers of HaluEval QA is {max(areas):.2f} at most" in trimming
