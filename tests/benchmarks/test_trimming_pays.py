"""What integrals say of trimming is what drawn answers and the threshold of a file show."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from calibrail.conformal import calibrate_threshold
from calibrail.options import Promise


@pytest.fixture
def pays(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("trimming_pays")


@pytest.mark.parametrize(("m", "share", "correlation"), [(3, 0.6, 0.0), (6, 0.3, 0.5)])
def test_the_shares_are_those_of_drawn_answers(
    pays: ModuleType, m: int, share: float, correlation: float
) -> None:
    n, d, rng = 40_000, pays.separation(0.85), np.random.default_rng(3)
    bad = rng.random((3 * n, m)) < share
    bad = bad[bad.any(axis=1)][:n]
    own, shared = rng.standard_normal(bad.shape), rng.standard_normal((len(bad), 1))
    scores = np.sqrt(1.0 - correlation) * own + np.sqrt(correlation) * shared + d * bad
    lowest = np.where(bad, scores, np.inf).min(axis=1)
    answers = pays.Answers(m, share, correlation)
    t = calibrate_threshold(lowest, Promise(0.1)).threshold
    # Five standard errors of a share of n answers, which sentences alike in an answer count as one.
    near = 5.0 * 0.5 / len(bad) ** 0.5
    assert answers.freed(t, d) == pytest.approx(0.9, abs=near)
    assert answers.kept(d, 0.1) == pytest.approx((scores[~bad] < t).mean(), abs=near)
    assert answers.emptied(t, d) == pytest.approx((scores >= t).all(axis=1).mean(), abs=near)
    flagged = scores.max(axis=1) >= t
    assert answers.flagged(t, d) == pytest.approx(flagged.mean(), abs=near)
    passed = (~bad).sum(axis=1) * ~flagged
    assert pays._supported_in_passed(answers, t, d) == pytest.approx(passed.mean(), abs=m * near)


def test_half_is_kept_from_where_it_is_said_and_trimming_shows_more(pays: ModuleType) -> None:
    answers = pays.Answers(6, 0.3)
    d = pays.separation(pays.needed(0.5, answers, 0.1))
    assert answers.kept(d, 0.1) == pytest.approx(0.5)
    even = pays.separation(pays.break_even(answers, 0.1))
    assert answers.kept(even, 0.1) == pytest.approx(pays.shown_by_flags(answers, even, 0.1))
    better = even + 0.1
    assert answers.kept(better, 0.1) > pays.shown_by_flags(answers, better, 0.1)


def test_fewer_answers_keep_less_and_too_few_give_no_threshold(pays: ModuleType) -> None:
    answers, d = pays.Answers(6, 0.3), pays.separation(0.9)
    few, many = (pays.with_n(answers, d, 0.1, n, "pac") for n in (50, 1000))
    assert few < many < answers.kept(d, 0.1)
    assert pays.with_n(answers, d, 0.1, 8) is None


def rows(text: str, above: str) -> dict[tuple[str, ...], list[str]]:
    """Return the first table below some words, by its two leading columns."""
    lines = text.split(above, 1)[1].split("\n|", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {(first, second): [first, second, *rest] for first, second, *rest in cells}


def test_the_page_says_what_was_found(repository: Path) -> None:
    found = {
        name: (repository / "benchmarks" / "results" / f"{name}.md").read_text(encoding="utf-8")
        for name in ("trimming_pays", "trimming")
    }
    page = (repository / "docs" / "trimming.md").read_text(encoding="utf-8")
    half = rows(found["trimming_pays"], "## Supported sentences kept, alpha = 0.1")
    more = rows(found["trimming_pays"], "## Against flagging whole answers")
    for words, share in (("one in ten", "10%"), ("three in ten", "30%"), ("six in ten", "60%")):
        kept, shown = half["6", share][-1], more["6", share][-2]
        assert f"| {words} | {float(kept):.2f} | {float(shown):.2f} |" in page
    needed = f"{float(half['6', '10%'][-1]):.2f}"
    areas = re.findall(r"^\| \w+ \| ([\d.]+) \(", found["trimming"], re.MULTILINE)
    assert len(areas) > 20 and max(areas) < needed
    assert f"No detector measured reaches {needed}: on RAGTruth QA" in page
    measured = rows(found["trimming"].split("## RAGTruth QA", 1)[1], "### alpha = 0.1").values()
    kept, whole = (max(int(row[i].split("%")[0]) for row in measured if row[1]) for i in (3, 8))
    assert f"the best keeps {kept}%" in " ".join(page.split())
    # As much: no further apart than two points.
    assert abs(kept - whole) <= 2 and "as much as withholding" in page


@pytest.mark.painted
def test_its_figure_has_the_colours_of_the_page_that_shows_it(
    pays: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pays, "FIGURE", tmp_path / "trimming_pays.svg")
    monkeypatch.setattr(pays, "shown_by_flags", lambda *_: 0.5)
    pays.draw()
    light, dark = ((tmp_path / f"trimming_pays-{on}.svg").read_text() for on in ("light", "dark"))
    for ink, of_other, svg in (("#1c2330", "#e6e9ef", light), ("#e6e9ef", "#1c2330", dark)):
        assert ink in svg and of_other not in svg
        assert "#ffffff" not in svg and "var(" not in svg
