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
