"""Are judges in a watch right as often as said, and open streams no saved labels?"""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest


def test_judges_are_as_said_and_an_open_stream_saves_nothing(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    made = importlib.import_module("watch_judge")
    truth = np.arange(4000) % 4 == 0
    right = [
        (made.judge_of(truth, share, 0.25, np.random.default_rng(1)) == truth).mean()
        for share in made.JUDGES.values()
    ]
    # By lot with the rate of a quarter: 1/16 + 9/16.
    assert right == pytest.approx([0.85, 0.625, 0.15], abs=0.03)
    ends = [("kept", 100), ("undecided", None), ("broken", 20)]
    streams = [
        {way: {"state": state, "labels": labels, "alarms": 1} for way in made.WAYS}
        for state, labels in ends
    ]
    lines = made.lines_of("Well kept", {"set": streams[:2]})
    assert lines[-1] == "| set | 2 | judge wrong 85 % | 1 / 1 / 0 | - | 2 |"
    assert made.lines_of("Broken", {"set": streams[2:]})[-1].endswith("| 0 / 0 / 1 | 20 | 1 |")
