"""A full simulation that was interrupted goes on, and other code starts anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import scipy

from benchmarks.validity import resume


def test_a_part_that_was_finished_is_not_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = list[int]()

    def count() -> int:
        made.append(len(made))
        return made[-1]

    monkeypatch.setattr(resume, "_CACHE", tmp_path)
    monkeypatch.setattr(os, "environ", {})
    assert [resume.part("a", count), resume.part("a", count)] == [0, 1]
    resume.keep_parts()
    assert [resume.part("a", count), resume.part("a", count), resume.part("b", count)] == [2, 2, 3]
    assert 0.0 <= resume.minutes() < 1.0
    # Other versions are other code.
    monkeypatch.setattr(scipy, "__version__", "0.0")
    resume.keep_parts()
    assert resume.part("a", count) == 4 and len(list(tmp_path.iterdir())) == 2
