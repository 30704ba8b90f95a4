"""Does what large sources keep count no more than what small ones keep, in any order of rows?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrail
from tests.sentence_answers import marked_rows

COLUMN = "column:column=scores,higher=hallucinated"
PROMISE = {"unit": "sentence", "alpha": 0.2, "min_kept": 0.5, "baselines": False}
LARGE = 12


def sources(large_keeps: float, first: int = 0) -> list[dict[str, Any]]:
    """Return the answers of 80 sources, half of them of one answer, half of `LARGE`.

    Unsupported sentences score 5; supported ones 0 or 10, in large sources 0 in a share of them.
    """
    rng = np.random.default_rng(first)
    numbers = [source for source in range(80) for _ in range(LARGE if source % 2 else 1)]
    items = marked_rows(first + len(numbers))[first:]
    for number, item in zip(numbers, items, strict=True):
        keeps = rng.random() < (large_keeps if number % 2 else 1.0 - large_keeps)
        starts = {start for start, _ in item["spans"]}
        item |= {"group": f"source {first}-{number}", "scores": []}
        place = 0
        for sentence in item["response"].split(". "):
            item["scores"].append(5.0 if place in starts else 0.0 if keeps else 10.0)
            place += len(sentence) + 2
    return items


@pytest.mark.parametrize("large_keeps", [0.98, 0.02])
def test_large_sources_are_not_bet_on_first(large_keeps: float) -> None:
    """Half of the sources keep nearly all and half nearly nothing: the truth is a half.

    In the order of the lowest lots, which large sources have, bets win on those before the others
    are seen.
    """
    run = calibrail.calibrate(sources(large_keeps), COLUMN, **PROMISE)
    later = sources(large_keeps, first=600)
    certified = calibrail.certify(run.freeze(), later, min_kept=0.5).to_dict()
    for measured in (run.report.to_dict()["test"], certified):
        kept = measured["kept_supported"]
        assert kept["lower"] < kept["estimate"] - 0.05
        assert kept["upper"] > kept["estimate"] + 0.05
        assert kept["lower"] < 0.5 < kept["upper"]


def test_a_report_is_the_same_in_any_order_of_the_rows() -> None:
    items = sources(0.8)
    turned = [items[place] for place in np.random.default_rng(1).permutation(len(items))]
    one, other = (calibrail.calibrate(rows, COLUMN, **PROMISE) for rows in (items, turned))
    by_size = sorted(items, key=lambda item: len(item["response"]))
    third = calibrail.calibrate(by_size, COLUMN, **PROMISE)
    told = [run.report.to_dict() for run in (one, other, third)]
    for name in ("threshold", "verdict", "test", "sentences", "certificate"):
        assert told[0][name] == told[1][name] == told[2][name], name


@pytest.mark.parametrize("command", ["calibrate", "certify"])
def test_other_marks_of_the_same_answers_are_a_second_look(tmp_path: Path, command: str) -> None:
    """Whoever marks other sentences after a verdict has a second chance, as with other labels."""
    items, looks = marked_rows(200), tmp_path / "looks.json"
    limits = {"min_kept": 0.05, "min_coverage": 0.3}
    guardrail = calibrail.calibrate(marked_rows(500)[300:], COLUMN, **PROMISE).freeze()

    def judged(rows: list[dict[str, Any]]) -> tuple[str, int]:
        """Return the verdict, and how many looks were before it."""
        if command == "certify":
            found = calibrail.certify(guardrail, rows, looks=looks, **limits)
            return found.verdict, len(found.looks)
        run = calibrail.calibrate(rows, COLUMN, looks=looks, **{**PROMISE, **limits})
        return run.report.verdict, len(run.report.looks)

    assert [judged(items), judged(items[::-1])] == [("certified", 0)] * 2
    again = [dict(item) for item in items]
    several = next(item for item in again if len(item["spans"]) > 1)
    several["spans"] = several["spans"][1:]
    # The second look at a guardrail has a part of the error that the first one left.
    left = "certified" if command == "certify" else "inconclusive"
    assert judged(again) == (left, 1)
