"""Does the page work where people read it: in a browser, on a phone, in the dark, without scripts?

Chromium opens each page without a window, from a server on this machine that records requests.
"""

from __future__ import annotations

import json
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from browser import FLAGS, chromium, serving, visit
from reports import CODES, LABELS, NOISE, VALUES, attacked, errors, hostile, render, report
from trimmed import attacked as attacked_answers
from trimmed import trimmed

from calibrail.evaluation import Sample
from calibrail.formatting import Scale, lower_percent, percent, upper_percent
from calibrail.report import Document, render_page
from calibrail.report.document import AnswerCard, Cell, folded, section, table
from calibrail.report.documents.examples import trimmed_examples
from tests.measured import measure

pytestmark = pytest.mark.painted

LOOK = """
  const document = page;
  const shown = (e) => e !== null && e.getClientRects().length > 0;
  const text = (id) => document.getElementById(id).textContent;
  const told = () => ({
    threshold: text("try-threshold"), caught: text("try-caught"), alarms: text("try-alarms"),
    band: text("try-caught-band"), thousand: text("try-thousand"), use: text("try-use"),
    value: document.getElementById("threshold-range").getAttribute("aria-valuetext"),
    spot: document.querySelector("[data-figure=target] .spot").getAttribute("cx"),
    box: document.querySelector("[data-figure=target] .moving path").getAttribute("d"),
    place: document.querySelector("[data-figure=target] svg").dataset.place,
    level: document.querySelector("[data-figure=distributions] .wide .moving path")
      .getAttribute("d"),
  });
  const range = document.getElementById("threshold-range");
  const move = (to) => {
    range.value = to;
    range.dispatchEvent(new view.Event("input", { bubbles: true }));
    return told();
  };
"""
FITS = """
  const root = page.documentElement;
  return { inner: view.innerWidth, scrolled: root.scrollWidth, title: page.title,
    hit: page.querySelectorAll("h1").length,
    ground: view.getComputedStyle(page.body).backgroundColor,
    articles: page.querySelectorAll("article.card").length,
    scripts: page.scripts.length,
    resources: view.performance.getEntriesByType("resource").length };
"""


@pytest.fixture(scope="module")
def page() -> str:
    chromium()
    value = report(
        max_fpr=0.2,
        baselines={"length": NOISE},
        others={"second": NOISE},
        reproduce={"command": "calibrail x"},
    )
    return render(value, examples=errors())


def test_the_slider_shows_another_threshold_and_nothing_leaves_the_page(
    page: str, tmp_path: Path
) -> None:
    ask = f"""{LOOK}
      const first = told();
      const low = move(0), high = move(range.max);
      document.getElementById("threshold-back").click();
      const back = told();
      const jumped = [...document.querySelectorAll(".jump")].map((one) => {{
        one.click();
        return {{ says: one.textContent, ...told() }};
      }});
      range.focus();
      return {{ first, low, high, back, jumped, max: range.max, shown: shown(range),
        focused: document.activeElement === range,
        resources: view.performance.getEntriesByType("resource").map((e) => e.name) }};"""
    found = visit(page, tmp_path, ask)
    assert found.console == ()
    assert found.requests == ("/", "/report.html")
    told = found.told
    assert told["resources"] == []
    assert told["shown"] and told["focused"]
    block = re.search(r'id="operating-points">(.*?)</script>', page, re.DOTALL)
    assert block is not None
    data = json.loads(block[1])
    points, start = data["points"], data["start"]
    assert int(told["max"]) == len(points) - 1
    for state, place in (("first", start), ("low", 0), ("high", -1), ("back", start)):
        said, point = told[state], points[place]
        assert float(said["threshold"]) == point[0]
        assert said["caught"] == percent(point[1])
        assert said["alarms"] == percent(point[4])
        assert said["band"] == f"{lower_percent(point[2])[:-1]} to {upper_percent(point[3])}"
        passed, flagged = (str(round(1000 * share)) for share in (1 - point[1], point[4]))
        assert said["thousand"].replace(",", "") == (
            f"Of 1000 hallucinated answers {passed} pass; "
            f"of 1000 faithful ones {flagged} are flagged."
        )
        assert percent(point[1]) in said["value"] and said["threshold"] in said["value"]
    assert told["first"]["use"] and not told["low"]["use"]
    assert told["low"]["level"] != told["high"]["level"]
    # More false alarms lie to the right.
    assert float(told["low"]["spot"]) > float(told["high"]["spot"])
    # The box that moves is the band; at the threshold in use the verdict's stands alone.
    assert told["first"]["box"] == told["back"]["box"] == ""
    left, right, bottom, top, *_ = map(float, told["low"]["place"].split())
    for state, place in (("low", 0), ("high", -1)):
        x0, y0, x1, y1, again = map(float, re.findall(r"[\d.]+", told[state]["box"]))
        _, _, low, high, _, alarms_low, alarms_high = points[place]
        assert x0 == again == pytest.approx(left + alarms_low * (right - left), abs=0.01)
        assert x1 == pytest.approx(left + alarms_high * (right - left), abs=0.01)
        assert y0 == pytest.approx(bottom + low * (top - bottom), abs=0.01)
        assert y1 == pytest.approx(bottom + high * (top - bottom), abs=0.01)
    # Two buttons jump to what is possible.
    by_alarms, by_caught = told["jumped"]
    assert by_alarms["says"] == "At most 20% false alarms"
    assert by_caught["says"] == "At least 90% caught"
    kept = next(point for point in points if point[4] <= 0.2)
    reached = [point for point in points if point[1] >= 0.9][-1]
    for said, point in ((by_alarms, kept), (by_caught, reached)):
        assert float(said["threshold"]) == point[0]


@pytest.mark.parametrize(("width", "scheme", "ground"), [(360, 1, 255), (360, 0, 20)])
def test_hostile_texts_neither_run_nor_widen_the_page(
    tmp_path: Path, width: int, scheme: int, ground: int
) -> None:
    by = np.where(np.arange(400) % 4 < 2, "<b>one</b>", "two\u202e").tolist()
    values = {**hostile(), "by_group": grouped(by)["by_group"]}
    page = render(values, examples=attacked())
    flag = f"--blink-settings=preferredColorScheme={scheme}"
    found = visit(page, tmp_path, FITS, flag, width=width)
    assert found.console == ()
    assert found.requests == ("/", "/report.html")
    assert found.told["inner"] == width
    assert found.told["scrolled"] <= width
    # As it was written, and not as a script would have it.
    assert found.told["title"].startswith(
        "Threshold found, no verdict yet: calibrail report for <script>alert(1)"
    )
    assert found.told["hit"] == 1
    assert found.told["articles"] == 20
    assert found.told["resources"] == 0
    assert found.told["scripts"] == 2
    assert found.told["ground"].startswith(f"rgb({ground},")


def grouped(names: list[str]) -> dict[str, object]:
    sample = Sample(VALUES, LABELS, CODES)
    return measure(sample, names=names, by="kind", max_fpr=0.3).to_dict()


ROOM = """
  const root = page.documentElement;
  return { wide: [...page.querySelectorAll(".scroll")].map((e) => e.scrollWidth - e.clientWidth),
    long: page.querySelector("td").getBoundingClientRect().width,
    headings: [...page.querySelectorAll("h1,h2,h3,h4")].map((e) => Number(e.tagName[1])),
    inner: view.innerWidth };
"""


@pytest.mark.parametrize("width", [390, 768])
def test_no_table_loses_a_column_and_long_cells_have_the_whole_width(
    tmp_path: Path, width: int
) -> None:
    long = "the mean length of answers went from 301 to 360 characters (above 340)"
    muted = Cell("127 hallucinated", style="muted")
    alarms = table("a", ("Alarm", "Moved", "Since", ">E"), [("1", long, "2", "3")])
    rates = table("b", ("Rate", "Value", "Interval", "Labels"), [("x", "1", "1 to 2", muted)])
    row = tuple(["openai/GPT-3.5-Turbo", *["45.9 to 71.4%"] * 9])
    many = table("c", "ABCDEFGHIJ", [row])
    card = AnswerCard("Answer", "a", facts=(), quotes=())
    blocks = (section("S", alarms, rates, many, folded("Answers", card)),)
    told = visit(render_page(Document("x", blocks=blocks)), tmp_path, ROOM, width=width).told
    assert told["inner"] == width and max(told["wide"]) <= 0
    assert width > 704 or told["long"] > 0.9 * (width - 40)
    levels = told["headings"]
    assert all(b <= a + 1 for a, b in pairwise(levels)), levels


def test_without_scripts_the_page_says_the_same(page: str, tmp_path: Path) -> None:
    ask = """return { hidden: page.getElementById("try").hidden,
      live: page.documentElement.className, points: page.querySelectorAll("details tr").length,
      moving: view.getComputedStyle(page.querySelector(".moving")).display };"""
    found = visit(page, tmp_path, ask, attrs='sandbox="allow-same-origin"')
    assert found.requests == ("/", "/report.html")
    assert found.told["hidden"] is True
    assert found.told["live"] == ""
    assert found.told["points"] > 10
    assert found.told["moving"] == "none"


def test_opened_by_itself_it_prints_and_asks_for_nothing(page: str, tmp_path: Path) -> None:
    printed = tmp_path / "report.pdf"
    with serving({"/report.html": page}) as (address, requests):
        command = [
            chromium(),
            *FLAGS,
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--print-to-pdf={printed}",
            f"{address}report.html",
        ]
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    said = done.stderr.decode("utf-8", "replace")
    assert printed.is_file(), said[-2000:]
    assert printed.read_bytes().startswith(b"%PDF")
    assert "CONSOLE" not in said
    assert requests == ["/report.html"]


STRUCK = """
  const style = (name) => view.getComputedStyle(page.querySelector(`.card ${name}`));
  const root = page.documentElement;
  const line = (name) => style(name).textDecorationStyle;
  return { wrong: line(".bad del"), right: line(".good del"),
    left: line("u"), mark: style(".struck mark").borderBottomStyle,
    title: page.title, scrolled: root.scrollWidth,
    signs: [...page.querySelectorAll(".card .sign")].map((sign) => sign.textContent) };
"""


@pytest.mark.parametrize("flag", ["--blink-settings=preferredColorScheme=0", "--lang=en"])
def test_what_was_removed_differs_in_lines_and_signs_and_attacks_are_text(
    tmp_path: Path, flag: str
) -> None:
    shown = {**attacked_answers(), "freed": {"n": 1, "items": [trimmed()]}}
    page = render_page(Document("report for", blocks=(trimmed_examples(shown, Scale()),)))
    found = visit(page, tmp_path, STRUCK, flag, width=360)
    assert found.console == () and found.requests == ("/", "/report.html")
    told = found.told
    # Told apart without colours: a double line, a single one, a wave, dots.
    lines = [told[name] for name in ("wrong", "right", "left", "mark")]
    assert lines == ["double", "solid", "wavy", "dotted"]
    assert {"\u2713", "\u2717", "!"} <= set(told["signs"])
    assert told["scrolled"] <= 360 and told["title"] != "hit"
