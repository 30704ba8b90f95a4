"""The picture of a verdict is that of the example data, and shows each verdict once."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def verdicts(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("verdicts")


def test_the_committed_picture_is_that_of_the_data(
    verdicts: ModuleType, repository: Path, tmp_path: Path
) -> None:
    found = verdicts.reports()
    assert [report["verdict"] for report in found] == ["certified", "inconclusive", "rejected"]
    assert len({report["threshold"] for report in found}) == 1
    for scheme in verdicts.SCHEMES:
        for narrow, name in ((False, "verdicts"), (True, "verdicts-narrow")):
            verdicts.draw(found, scheme, tmp_path / "figure.svg", narrow)
            committed = repository / "docs" / "figures" / f"{name}-{scheme}.svg"
            assert (tmp_path / "figure.svg").read_bytes() == committed.read_bytes()
    page = (repository / "docs" / "certificates.md").read_text(encoding="utf-8")
    assert "three limits: 60, 50 and 30% false alarms" in page
    assert list(verdicts.LIMITS) == [0.6, 0.5, 0.3]
