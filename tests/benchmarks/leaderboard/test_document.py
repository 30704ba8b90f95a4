"""What does the leaderboard's page say, and does it sort, fit a phone and print in a browser?"""

from __future__ import annotations

import json
import re
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.leaderboard.board import (
    AgainstBaseline,
    DataSet,
    Leaderboard,
    Shipped,
    Standing,
    Target,
)
from benchmarks.leaderboard.document import MARKS, document
from benchmarks.leaderboard.figures import best_known, shipped_svg
from calibrail.conformal import Bound
from calibrail.report import print_document, render_page
from tests.report.browser import visit

NASTY = "<img src=x onerror=alert(1)>"


def bound(share: float, n: int = 100) -> Bound:
    return Bound(share, share - 0.05, min(1.0, share + 0.05), round(share * n), n, "wilson", 0.95)


def target(fpr: float, coverage: float = 0.9) -> Target:
    return Target(coverage, "set", 0.4, bound(0.92), bound(fpr), fpr + 0.08, 0.925)


def row(name: str, fpr: float, **more: Any) -> Standing:
    auroc = {"estimate": 1 - fpr / 2, "lower": 0.5, "upper": 1.0}
    return Standing(
        **{
            "name": name,
            "baseline": False,
            "higher": "faithful",
            "auroc": auroc,
            "targets": (target(fpr), Target(0.95, "few_labels", needed=59)),
            **more,
        }
    )


@pytest.fixture(scope="module")
def board() -> dict[str, Any]:
    against = AgainstBaseline("length", -0.2, -0.3, -0.1, 0.001)
    flags_all = Target(0.9, "flags_all", 0.0, bound(1.0), bound(1.0))
    rows = (
        row("middle", 0.4, against=against, shipped=Shipped(0.5, bound(0.6), bound(0.1))),
        row("best", 0.25, marks=("fitted",)),
        row("yes_no", 1.0, targets=(flags_all, flags_all), n_undefined=3),
        row(NASTY, 0.9),
        row("length", 0.8, baseline=True),
        row("novelty", 0.7, baseline=True),
    )
    counts = {"hallucinated": 100, "faithful": 100}
    points = [0.5, 0.7, 0.9, 1.0]
    curve = {
        "coverage": {"estimate": points},
        "fpr": {key: points for key in ("estimate", "lower", "upper")},
    }
    kept = (f"{NASTY} facts", "a.csv", None, f"Made up, {NASTY}.", "runs/a.html", 400, 200, 100)
    data = DataSet(
        *kept, 100, "answers", counts, "calibrail compare a.csv", rows, {"middle": curve}
    )
    promise = {"guarantee": "pac", "delta": 0.05, "confidence": 0.95}
    return Leaderboard.of("A page", promise, [data]).to_dict()


@pytest.fixture(scope="module")
def page(board: dict[str, Any]) -> str:
    return render_page(document(board, {f"{NASTY} facts": {"length": 2.5, "novelty": 0.825}}))


SORTED = """
  const table = page.querySelector("table.sortable");
  const names = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent.trim());
  const heads = [...table.tHead.rows[0].cells];
  const press = (text) => {
    const head = heads.find((item) => item.textContent.includes(text));
    head.querySelector("button").click();
    return [names(), head.getAttribute("aria-sort")];
  };
  return { first: names(), up: press("False alarms at 90%"), down: press("False alarms at 90%"),
    alphabet: press("Detector"), time: press("1,000 answers") };
"""


def test_columns_sort_detectors_and_baselines_among_themselves(page: str, tmp_path: Path) -> None:
    told = visit(page, tmp_path, SORTED)
    assert told.console == ()
    assert [request for request in told.requests if request not in ("/", "/report.html")] == []

    def short(names: list[str]) -> list[str]:
        return [name.split("higher")[0] for name in names]

    up, down = told.told["up"], told.told["down"]
    assert short(up[0]) == ["best", "middle", NASTY, "yes_no", "Baselines", "novelty", "length"]
    assert up[1] == "ascending"
    # What has no number comes last in both directions.
    assert short(down[0]) == [NASTY, "middle", "best", "yes_no", "Baselines", "length", "novelty"]
    assert down[1] == "descending"
    # 825 ms come before 2.5 s.
    assert short(told.told["time"][0])[-2:] == ["novelty", "length"]
    assert short(told.told["alphabet"][0])[1:4] == ["best", "middle", "yes_no"]


@pytest.mark.parametrize("width", [390, 768, 1200])
def test_nothing_of_the_page_is_cut_off(page: str, tmp_path: Path, width: int) -> None:
    ask = """
      for (const fold of page.querySelectorAll("details")) fold.open = true;
      const clipped = [...page.querySelectorAll(".scroll")].filter(
        (item) => item.scrollWidth > item.clientWidth + 1).map((item) => item.textContent);
      const card = page.querySelector("table.sortable tbody tr");
      return { inner: view.innerWidth, scrolled: page.documentElement.scrollWidth, clipped,
        display: view.getComputedStyle(card).display };
    """
    told = visit(page, tmp_path, ask, width=width).told
    assert told["scrolled"] <= told["inner"]
    assert told["clipped"] == []
    assert told["display"] == ("grid" if width < 1000 else "table-row")


def test_tables_are_folded_and_every_set_has_a_chart_of_its_own(page: str, tmp_path: Path) -> None:
    ask = """
      const tables = [...page.querySelectorAll("table.sortable")];
      const charts = [...page.querySelectorAll("figure")].map((item) => item.dataset.figure);
      return { folded: tables.every((item) => item.closest("details") !== null), charts };
    """
    told = visit(page, tmp_path, ask, width=390).told
    assert told["folded"]
    assert told["charts"] == ["shipped", "rows-1", "data-1"]


def test_every_data_set_is_one_link_away(page: str) -> None:
    links = re.findall(r'<a href="#(part-\d+)"><bdi>(.*?)</bdi>', page)
    heads = re.findall(r'<h2 id="(part-\d+)"><bdi>(.*?)</bdi>', page)
    assert links == heads and len(heads) > 2


def test_without_scripts_the_table_says_the_same(page: str, tmp_path: Path) -> None:
    ask = """
      const table = page.querySelector("table.sortable");
      return { rows: table.tBodies[0].rows.length, buttons: table.querySelectorAll("button").length,
        text: table.tBodies[0].textContent };
    """
    told = visit(page, tmp_path, ask, attrs='sandbox="allow-same-origin"').told
    assert told["rows"] == 7
    assert told["buttons"] == 0
    assert "cannot" in told["text"]


@pytest.mark.painted
def test_the_first_picture_has_a_line_for_each_detector_with_a_shipped_threshold(
    board: dict[str, Any],
) -> None:
    again = json.loads(json.dumps(board))
    larger = json.loads(json.dumps(board["data_sets"][0]))
    larger |= {"name": "Larger", "n_examples": 900}
    larger["rows"][1]["shipped"] = larger["rows"][0]["shipped"]
    again["data_sets"].append(larger)
    known = [(item["name"], [row["name"] for row in rows]) for item, rows in best_known(again)]
    # Each on its largest set, the cheapest first.
    assert known == [("Larger", ["best", "middle"])]
    drawn = shipped_svg(again, narrow=False)
    assert re.findall(r">(best|middle|yes_no|Larger)<", drawn) == ["Larger", "best", "middle"]
    assert "hallucinations caught as shipped" in drawn


def test_names_of_the_data_are_escaped(page: str) -> None:
    assert "<img" not in page
    assert "&lt;img" in page


def test_every_mark_has_its_words_and_every_state_its_sentence(board: dict[str, Any]) -> None:
    console = Console(file=StringIO(), width=100)
    print_document(document(board), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "1 of 1 row beat a trivial baseline (fewer false alarms" in " ".join(text.split())
    assert "fitted here" in text
    assert "cannot" in text
    page = render_page(document(board))
    assert MARKS["fitted"][1] in page
    assert "takes 59 to calibrate" in page
    assert "2.5 s" not in page


def test_what_the_page_says_to_run_holds_its_promise_names_and_marks(page: str) -> None:
    text = unescape(re.sub(r'<span class="option">([^<]+)</span>', r"\1", page))
    assert "--alpha 0.1 --guarantee pac --delta 0.05 -o runs/mine" in text
    assert f"'{NASTY} facts=runs/1'" in text
    assert f"--mark '{NASTY} facts/best=fitted'" in text
    assert f"--shipped '{NASTY} facts/middle=0.5'" in text
    assert f"--note '{NASTY} facts=Made up, {NASTY}.'" in text


def test_the_page_of_scores_alone_claims_nothing_of_baselines(board: dict[str, Any]) -> None:
    alone = json.loads(json.dumps(board))
    for row in alone["data_sets"][0]["rows"]:
        row["against"] = None
    assert document(alone).headline == "4 rows without a baseline beside them"


@pytest.mark.parametrize(
    ("higher", "threshold", "shown"),
    [
        ("faithful", 0.9999754428863525, "<= 0.999976"),
        ("hallucinated", 0.00012345678, ">= 0.000123456"),
    ],
)
def test_a_threshold_typed_from_the_page_flags_no_less(
    board: dict[str, Any], higher: str, threshold: float, shown: str
) -> None:
    other = json.loads(json.dumps(board))
    first = other["data_sets"][0]["rows"][0]
    first["higher"], first["targets"][0]["threshold"] = higher, threshold
    assert f"flags {shown}" in unescape(render_page(document(other)))
