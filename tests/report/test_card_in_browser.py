"""Is a guardrail's card one page that a desk, a phone and a printer show?"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from browser import FLAGS, chromium, serving, visit

from calibrail import calibrate, card

FITS = """
  const root = page.documentElement, box = (e) => e.getBoundingClientRect();
  return { inner: view.innerWidth, scrolled: root.scrollWidth, scripts: page.scripts.length,
    headings: [...page.querySelectorAll("h2")].map((e) => e.textContent),
    small: [...page.querySelectorAll("p, li, dd, td")].filter((e) =>
      parseFloat(view.getComputedStyle(e).fontSize) < 12).length,
    outside: [...page.querySelectorAll("main *")].filter((e) =>
      box(e).right > view.innerWidth + 1 && e.closest("caption, .scroll") === null).length,
    resources: view.performance.getEntriesByType("resource").length };
"""


@pytest.fixture(scope="module")
def page() -> str:
    chromium()
    run = calibrate("example:facts", "novelty", alpha=0.2, guarantee="pac", max_fpr=0.6)
    return card(run.freeze()).html()


@pytest.mark.parametrize("width", [1200, 390])
def test_it_fits_the_screen_and_loads_nothing(page: str, tmp_path: Path, width: int) -> None:
    found = visit(page, tmp_path, FITS, width=width)
    assert found.console == ()
    assert found.requests == ("/", "/report.html")
    told = found.told
    assert told["inner"] == width and told["scrolled"] <= width
    assert told["outside"] == told["small"] == told["scripts"] == told["resources"] == 0
    assert told["headings"] == [
        *("Warnings", "What the labelled answers show", "What it does", "What it promises"),
        *("What it does not promise", "Its data", "Its detector", "Its file", "Check it"),
    ]


def test_it_prints_on_one_sheet_with_its_target(page: str, tmp_path: Path) -> None:
    printed = tmp_path / "card.pdf"
    # With room to spare: what a card warns of differs.
    page = re.sub(r"(?<=zoom: )0\.\d+", lambda found: f"{float(found[0]) + 0.02:.2f}", page)
    with serving({"/card.html": page}) as (address, _):
        command = [
            *(chromium(), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}"),
            *(f"--print-to-pdf={printed}", f"{address}card.html"),
        ]
        subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert len(re.findall(rb"/Type\s*/Page\b", printed.read_bytes())) == 1
    width, height = map(
        float, re.findall(rb"/MediaBox \[0 0 (\S+) (\S+)\]", printed.read_bytes())[0]
    )
    assert (round(width / 72 * 25.4), round(height / 72 * 25.4)) == (210, 297)
    assert page.count('data-figure="target"') == 1
