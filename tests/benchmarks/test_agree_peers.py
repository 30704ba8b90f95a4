"""Do the ranges that are compared with other libraries' hold, and are they those of `agree`?"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from calibrail.evaluation.judge_agreement import LabelCounts, corrected_rates


@pytest.fixture
def peers(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("agree_peers")


def test_settings_draw_what_they_say(peers: ModuleType) -> None:
    rows = {(row.name, row.n): row for row in peers.simulated_rows() if row.n < 3000}
    for row in rows.values():
        stream = row.draw(1, np.random.default_rng(1))
        assert ((stream["human"] != peers.NONE).sum(axis=1) == row.n).all()
    perfect = rows["10% hallucinated, judge perfect", 300].draw(1, np.random.default_rng(1))
    known = perfect["human"] != peers.NONE
    assert (perfect["human"][known] == perfect["judge"][known]).all()
    early = rows["the same, labels of the first half alone", 300]
    assert (early.draw(1, np.random.default_rng(1))["human"][:, 1000:] == peers.NONE).all()
    (grouped,) = (row for row in rows.values() if row.n == 50)
    drawn = grouped.draw(1, np.random.default_rng(1))["human"].reshape(-1, 5) != peers.NONE
    assert (drawn.all(axis=1) == drawn.any(axis=1)).all()


def test_a_page_of_few_runs(peers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "ROUND", 8)
    row = peers.simulated("test", 100, 0.1, (0.9, 0.9))
    stream = row.draw(8, np.random.default_rng([3]))
    cells = np.zeros((3, 3, 2), int)
    np.add.at(cells, (stream["human"][0], stream["judge"][0], 0), 1)
    printed = corrected_rates(LabelCounts(cells, decided=False))["prevalence"]
    # Another library gives a range that is wrong, and none in half of the runs.
    other = {"other": np.array([[0.5, 0.6], [np.nan, np.nan]] * 4)}
    row.add([3], lambda _: other)
    for name, way in zip(peers.OWN, ("rogan_gladen", "prediction_powered"), strict=True):
        assert tuple(row.ranges[name][0][0]) == (printed[way].lower, printed[way].upper)
        runs, given, held, width = row.result(name)
        assert runs == given == 8
        assert held >= 7
        assert width > 0.0
    lines, failed = peers.page([row], "other 1.0")
    assert not failed
    assert row.result("other")[:3] == (8, 4, 0)
    assert "| **0.0% ± 16.5%; " in lines[-1 - 5]
    assert lines[-1 - 5].endswith("** none 50.0% |")


def test_without_the_others_a_line_says_what_is_missing(
    peers: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CALIBRAIL_PEERS", raising=False)
    assert peers.main() == 0
    assert "has glide-py and truescore: nothing was run" in capsys.readouterr().out
