"""Is the page self-contained, safe, complete and the same every time?"""

from __future__ import annotations

import base64
import hashlib
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from reports import ATTACKS, NOISE, VALUES, attacked, classes, errors, hostile, render, report

from calibrail.formatting import Scale
from calibrail.report import Document, render_page
from calibrail.report.document import Table, TableColumn, Text
from calibrail.report.document import table as table_of
from calibrail.report.documents.calibrate import document
from calibrail.report.figures.plot import COLOURS
from calibrail.report.figures.scores import distributions_svg
from calibrail.report.html import figure_files, inline

pytestmark = pytest.mark.painted


class Elements(HTMLParser):
    """Collects every element with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.found if name == tag]


def loads_nothing(page: str) -> None:
    """Check that nothing is loaded, and that nothing runs but a script the policy names."""
    seen = Elements(page)
    policies = [
        attrs["content"] or ""
        for attrs in seen.named("meta")
        if attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    assert len(policies) == 1
    assert "default-src 'none'" in policies[0]
    assert "unsafe" not in policies[0].replace("style-src 'unsafe-inline'", "")
    for tag, attrs in seen.found:
        assert tag not in ("link", "iframe", "object", "embed", "img", "base", "form", "image")
        for name, value in attrs.items():
            assert not name.startswith("on"), (tag, name)
            assert name not in ("src", "srcset", "action", "background", "poster")
            if name in ("href", "xlink:href"):
                assert (value or "").startswith("#")
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == len(seen.named("script"))
    for attributes, content in scripts:
        if "application/json" not in attributes:
            digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            assert f"script-src 'sha256-{digest}'" in policies[0]
    assert not re.search(r"url\((?!#)|@import", page)
    assert "#010101" not in page


def test_a_report_page_is_self_contained_complete_and_deterministic() -> None:
    value = report(max_fpr=0.2, baselines={"length": NOISE}, reproduce={"command": "calibrail x"})
    page = render(value)
    loads_nothing(page)
    assert page == render(value)
    for part in (
        value["verdict"].capitalize(),
        "flagged from",
        "length",
        "calibrail x",
        "prefers-color-scheme",
    ):
        assert part in page
    assert page.index('class="verdict') < page.index("<svg") < page.index("On the test set")
    for item in value["warnings"]:
        assert item["message"].split(":")[0][:40] in page


def test_hostile_names_are_text() -> None:
    page = render(hostile())
    loads_nothing(page)
    assert page.count("&lt;script&gt;") >= 6
    assert "\x1b" not in page


def test_hostile_texts_are_text() -> None:
    page = render(report(), examples=attacked())
    loads_nothing(page)
    assert page.encode("utf-8") == page.encode("utf-8", "replace")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\ufffe\uffff]", page)
    assert len(page) < 600_000
    assert "1,000,000 characters in all" in page
    assert Elements(page).named("h1") == [{}]
    assert page.count("<article") == page.count("</article>") == 2 * len(ATTACKS)
    assert page.count('<blockquote dir="auto"') >= 40
    assert "{{ 7 * 7 }}" in page
    assert page == render(report(), examples=attacked())


def test_an_error_shows_what_the_detector_objects_to_and_where_it_looked() -> None:
    page = render(report(), examples=errors())
    assert "It is 107 metres high. <mark>It is red.</mark>" in page
    for part in (
        '<b class="bad">contradicted</b>',
        "Sentences of the answer",
        "chunk 2, characters 0 to 12: ",
        "<mark>It is white.</mark>",
        "about 3.12 in 100 hallucinated answers",
        "support 0.01",
        "9 among the answers tested; here is the one that looks most suspicious to it",
    ):
        assert part in page
    # Of the two chunks only the one that the evidence names.
    assert "It is 100 metres high." not in page
    without = render(report())
    assert "What it gets wrong" not in without


def test_everything_on_the_page_has_a_name() -> None:
    value = report(max_fpr=0.2, baselines={"length": NOISE}, others={"second": NOISE})
    page = render(value, examples=errors())
    seen = Elements(page)
    labels = {attrs.get("for") for attrs in seen.named("label")}
    assert seen.named("input")
    for attrs in seen.named("input"):
        assert attrs["id"] in labels
    for attrs in seen.named("svg"):
        assert attrs["role"] == "img" and attrs["aria-label"]
    tables = re.findall(r"<table.*?</table>", page, re.DOTALL)
    assert len(tables) == 3
    for table in tables:
        caption = re.search(r"<caption>(.*?)</caption>", table, re.DOTALL)
        assert caption is not None and caption[1].strip()
        assert "<th>" not in table
    assert len(seen.named("figure")) == page.count("<figcaption>") == 2
    for attrs in (a for _, a in seen.found if a.get("role") == "region"):
        assert attrs["aria-label"] and attrs["tabindex"] == "0"
    twice = {key: n for key, n in Counter(a.get("id") for _, a in seen.found).items() if n > 1}
    assert set(twice) <= {None}


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_are_told_apart_in_light_dark_and_print() -> None:
    """Contrasts of WCAG 2.2: 4.5 for text, 3 for what is drawn."""
    page = render(report())
    schemes = [
        dict(re.findall(r"--([a-z1-6]+): (#[0-9a-f]{3,6})", block))
        for block in re.findall(r":root \{(.*?)\}", page, re.DOTALL)
    ]
    assert len(schemes) == 3
    for scheme in schemes:
        full = {
            k: v if len(v) == 7 else "#" + "".join(2 * c for c in v[1:]) for k, v in scheme.items()
        }
        for ground in ("ground", "card"):
            for text in ("ink", "quiet", "certified", "rejected", "inconclusive", "moving"):
                assert contrast(full[text], full[ground]) >= 4.5, (text, ground, full[text])
        assert contrast(full["ink"], full["mark"]) >= 4.5
        for drawn in ("hallucinated", "faithful", "moving"):
            assert contrast(full[drawn], full["ground"]) >= 3.0
    for variable, colour in COLOURS.values():
        assert schemes[0][variable[6:-1]] == colour


def test_printing_hides_the_slider_and_opens_what_is_folded() -> None:
    style = render(report()).split("@media print")[1].split("</style>")[0]
    assert ".try, .live .moving { display: none; }" in style
    assert "details::details-content { content-visibility: visible" in style


def test_figures_stand_alone_as_files() -> None:
    files = figure_files(document(report(max_fpr=0.2), classes()))
    assert list(files) == ["target", "distributions"]
    for file in files.values():
        root = ElementTree.fromstring(file)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert float(root.attrib["width"]) > 400
        assert "var(" not in file and "#010101" not in file
        assert not re.search(r"moving|<script|https?:(?!//www.w3.org/2000/svg)", file)


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(400),
        np.where(np.arange(400) % 5 == 0, np.nan, VALUES),
        np.where(np.arange(400) % 7 == 0, 1e308, VALUES),
    ],
)
def test_odd_scores_make_a_page(values: np.ndarray) -> None:
    page = render(report(values), *classes(values))
    loads_nothing(page)
    assert not re.search(r"\b(nan|inf)\b", page.split("<svg")[1].split("</svg>")[0], re.IGNORECASE)


def test_figures_are_well_formed_and_take_their_colours_from_the_page() -> None:
    svg = distributions_svg(*classes(), 0.5, "a & b $x$", Scale())
    ElementTree.fromstring(svg)
    assert "var(--hallucinated)" in svg
    assert "var(--faithful)" in svg
    assert "a &amp; b $x$" in svg
    assert "flagged from 0.5" in svg
    assert "flagged" not in distributions_svg(*classes(), None, "a", Scale())
    empty = distributions_svg(np.array([]), np.array([np.nan]), None, "a", Scale())
    ElementTree.fromstring(empty)


def test_a_long_name_breaks_at_its_joints_and_a_word_only_where_it_must() -> None:
    rows = [("mean_of/judges", "1", "2", "4", ""), ("y" * 25, "", "3", "5", "")]
    shown = table_of("x", ("Name", ">A", ">B", ">D", ">C"), rows)
    page = render_page(Document("x", blocks=(shown,)))
    assert "mean_<wbr>of/<wbr>judges" in page
    assert f'<span class="long">{"y" * 25}</span>' in page
    # On a phone a cell names its column, and one that is empty is not there; nor is a column.
    assert '<td class="n " data-of="B">3</td>' in page and ">C</th>" not in page


def test_what_says_nothing_about_the_data_is_left_out() -> None:
    data = {"source": "a.csv", "n": 3, "split": {"column": None, "share": 0.50671234567}}
    page = render_page(Document("x", data=data))
    assert "split.column" not in page and "<bdi>0.506712</bdi>" in page
    assert page.index("a.csv") < page.index("How it was read and split") < page.index("split.share")


def test_data_and_versions_are_named_in_words() -> None:
    data = {"source": "a.csv", "sha256": "ab", "n_examples": 3, "n_hallucinated": 1}
    made = {"command": "calibrail x", "versions": {"numpy": "2.4.6"}}
    page = render_page(Document("x", data=data, reproduce=made))
    for name in ("Source", "SHA-256", "Answers", "Hallucinated", "numpy"):
        assert f"<dt><bdi>{name}</bdi></dt>" in page
    assert "versions." not in page and "n_examples" not in page


def test_a_title_has_one_sentence_and_no_stop_before_its_colon() -> None:
    page = render_page(Document("agreement of", headline="750 answers, 400 labelled."))
    assert "<title>750 answers, 400 labelled: calibrail agreement of" in page


def test_tables_that_scroll_are_no_landmarks() -> None:
    """Landmarks of one name are told apart by nobody, and a page may have many tables."""
    table = Table("x", [TableColumn("A")], [("1",)])
    page = render_page(Document("x", blocks=(table, table)))
    assert page.count('tabindex="0" role="group"') == 2 and 'role="region"' not in page


def corners(path: str) -> list[tuple[float, float]]:
    """Return where a path goes, whether its numbers are places or, in small letters, steps."""
    at, start, places = (0.0, 0.0), (0.0, 0.0), []
    for command, rest in re.findall(r"([MLQCmlqcz])([^MLQCmlqcz]*)", path):
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", rest)]
        points = list(zip(numbers[::2], numbers[1::2], strict=True))
        origin = at if command.islower() else (0.0, 0.0)
        for point in points:
            # A line that follows a move begins where the last one ended.
            base = (at if command in "ml" else origin) if command.islower() else (0.0, 0.0)
            place = (base[0] + point[0], base[1] + point[1])
            places.append(place)
            at = place if command in "mlML" else at
        at = start if command == "z" else places[-1]
        start = places[-len(points)] if command in "mM" else start
    return places


def test_a_page_draws_what_matplotlib_drew_and_names_each_style_once() -> None:
    drawn = distributions_svg(*classes(), 0.5, "a", Scale())
    page = render(report(), examples=errors())
    short = inline(drawn, "one")
    pairs = zip(re.findall(r' d="([^"]*)"', drawn), re.findall(r' d="([^"]*)"', short), strict=True)
    n = 0
    for before, after in pairs:
        here, there = corners(before), corners(after)
        assert len(here) == len(there)
        n += len(here)
        for one, other in zip(here, there, strict=True):
            assert one == pytest.approx(other, abs=0.051)
    assert n > 100 and len(short) < 0.6 * len(drawn)
    assert ElementTree.fromstring(short).tag == "svg"
    assert 'style="' not in page
    used = set(re.findall(r'<(?:path|use|text|rect)[^>]* class="(f\d+)"', page))
    rules = re.findall(r"^\.(f\d+) \{ (.*) \}$", page, re.MULTILINE)
    assert {name for name, _ in rules} == used and len(dict(rules)) == len(rules) > 5
    assert len({rule for _, rule in rules}) == len(rules)
    assert not re.search(r'class="[^"]*"[^>]* class="', page)


def test_a_title_names_files_and_models_without_their_folders() -> None:
    """Where somebody keeps them is nobody's business who gets the page."""
    made = report(
        score={"name": "nli", "params": {"model": "/home/ann/models/nli-small"}},
        data={"source": "/home/ann/answers/may.csv, b/june.csv and 2 more", "n_examples": 400},
    )
    page = render(made)
    for title in re.findall(r"<(?:title|h1)>.*?</(?:title|h1)>", page, re.DOTALL):
        assert "/home" not in title and "b/" not in title.replace("</b", "")
        assert "nli:model=nli-small" in re.sub(r"</?(?:wbr|bdi|b)>", "", title)


def test_on_a_phone_a_column_has_one_width() -> None:
    rows = [("a", "short", "x", "1"), ("b", "a text of more than thirty-six letters", "x", "2")]
    table = Table("Alarms", [TableColumn(name) for name in ("Alarm", "What", "Since", "E")], rows)
    page = render_page(Document("watch of", headline="Kept", blocks=(table,)))
    cells = [cell for cell in Elements(page).named("td") if "data-of" in cell]
    broad = ["broad" in str(cell["class"]) for cell in cells]
    assert broad == [True, False, False] * 2


def test_a_sheet_of_more_letters_is_printed_smaller() -> None:
    pages = [
        render_page(Document("card of", headline="Kept", blocks=(Text("word " * n),), sheet=True))
        for n in (10, 1_200)
    ]
    assert ["zoom: 1;" in page for page in pages] == [True, False]
    assert "zoom: 0.73;" in pages[1]
