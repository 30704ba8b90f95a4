"""Is the page self-contained, safe, complete and the same every time?"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from reports import NOISE, VALUES, classes, comparison, hostile, report

from calibrail.report.figures import distributions_svg, intervals_svg
from calibrail.report.html import render_compare_html, render_html


def loads_nothing(page: str) -> None:
    assert not re.search(r"https?:|//[a-z]|url\((?!#)|@import|<script|<link|<iframe|src=", page)
    assert "default-src 'none'" in page
    assert not re.search(r"\bon[a-z]+=", page)
    assert "#010101" not in page


def test_a_report_page_is_self_contained_complete_and_deterministic() -> None:
    value = report(max_fpr=0.2, baselines={"length": NOISE}, reproduce={"command": "calibrail x"})
    page = render_html(value, *classes())
    loads_nothing(page)
    assert page == render_html(value, *classes())
    for part in (value["verdict"], "flagged from", "length", "calibrail x", "prefers-color-scheme"):
        assert part in page
    assert page.index('class="verdict') < page.index("<svg") < page.index("On the test part")
    for item in value["warnings"]:
        assert item["message"].split(":")[0][:40] in page


def test_hostile_names_are_text() -> None:
    page = render_html(hostile(), *classes())
    loads_nothing(page)
    assert page.count("&lt;script&gt;") >= 6


def test_a_comparison_page_is_self_contained() -> None:
    page = render_compare_html(comparison(max_fpr=0.2, baselines={"length": NOISE}))
    loads_nothing(page)
    assert "never has no threshold" in page
    assert page.count("<svg") == 1


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(400),
        np.where(np.arange(400) % 5 == 0, np.nan, VALUES),
        np.where(np.arange(400) % 7 == 0, 1e308, VALUES),
    ],
)
def test_odd_scores_make_a_page(values: np.ndarray) -> None:
    page = render_html(report(values), *classes(values))
    loads_nothing(page)
    assert not re.search(r"\b(nan|inf)\b", page.split("<svg")[1].split("</svg>")[0], re.IGNORECASE)


def test_figures_are_well_formed_and_take_their_colours_from_the_page() -> None:
    svg = distributions_svg(*classes(), 0.5, "a & b $x$")
    ElementTree.fromstring(svg)
    assert "var(--hallucinated)" in svg
    assert "var(--faithful)" in svg
    assert "a &amp; b $x$" in svg
    assert "flagged from 0.5" in svg
    assert "flagged" not in distributions_svg(*classes(), None, "a")
    empty = distributions_svg(np.array([]), np.array([np.nan]), None, "a")
    ElementTree.fromstring(empty)
    ElementTree.fromstring(intervals_svg([], None))
    fpr = {"estimate": 0.5, "lower": 0.4, "upper": 0.6}
    forest = intervals_svg([{"name": "x", "fpr": fpr}, {"name": "y", "fpr": None}], 0.2)
    assert ">x<" in forest
    assert ">y<" not in forest
