"""Does the target say what the verdict says: inside certified, outside rejected, else across?"""

from __future__ import annotations

import io
import json
import re
from html import unescape
from typing import Any

import numpy as np
import pytest
from reports import CODES, LABELS, VALUES, classes, report
from rich.console import Console

from calibrail import calibrate, card
from calibrail.conformal import ClassCounts, certify_counts, certify_groups
from calibrail.evaluation import Sample
from calibrail.formatting import lower_percent, upper_percent
from calibrail.options import Requirement
from calibrail.report import print_document, render_page
from calibrail.report.document import Document, Figure, Table, all_blocks
from calibrail.report.documents import measures
from calibrail.report.documents.calibrate import document
from calibrail.report.documents.card import document as card_document
from calibrail.report.documents.certify import document as certify_document
from calibrail.report.figures.scores import TargetBox, target_svg
from calibrail.report.markdown import render_junit, render_markdown
from tests.measured import measure

VERDICTS = {"inside": "certified", "outside": "rejected", "across": "inconclusive"}


def figures(made: Document) -> list[Figure]:
    return [block for block in all_blocks(made.blocks) if isinstance(block, Figure)]


def rectangle(svg: str, name: str) -> tuple[float, float, float, float]:
    """Return where a rectangle stands: left, top, right, bottom."""
    found = re.search(rf'<rect class="{name}"([^>]*)>', svg)
    assert found is not None
    x, y, width, height = (
        float(re.search(rf' {key}="([^"]*)"', found[1])[1])  # type: ignore[index]
        for key in ("x", "y", "width", "height")
    )
    return x, y, x + width, y + height


def lies(svg: str) -> str:
    """Return how the box lies to the corner, as it is drawn."""
    corner, box = rectangle(svg, "corner"), rectangle(svg, "box")
    if box[2] <= corner[2] + 1e-6 and box[3] <= corner[3] + 1e-6:
        return "inside"
    return "outside" if box[0] >= corner[2] or box[1] >= corner[3] else "across"


def label(svg: str) -> str:
    found = re.search(r'aria-label="([^"]*)"', svg)
    assert found is not None
    return unescape(found[1])


def shown(made: Document) -> str:
    """Return all that the tables of a document show."""
    tables = [block for block in all_blocks(made.shown_on("page").blocks)]
    cells = [
        cell
        for table in tables
        if isinstance(table, Table)
        for row in table.rows
        if isinstance(row, list)
        for cell in row
    ]
    return " | ".join(f"{cell.text} {cell.below}" for cell in cells)  # type: ignore[union-attr]


def test_it_lies_as_the_verdict_says_whatever_was_counted() -> None:
    """The ends of the box are those that decide: at every count, both near and far of a limit."""
    rng, seen = np.random.default_rng(0), set()
    for _ in range(300):
        n, m = (int(value) for value in rng.integers(1, 200, 2))
        counts = ClassCounts(
            int(rng.binomial(n, rng.uniform(0.6, 1))),
            n,
            int(rng.binomial(m, rng.uniform(0, 0.6))),
            m,
        )
        asked = Requirement(float(rng.uniform(0.05, 0.6)), float(rng.uniform(0.5, 0.95)))
        content = certify_counts(counts, asked).to_dict()
        box = measures.target_box(content)
        assert box is not None
        assert VERDICTS[box.lies] == content["verdict"]
        seen.add(box.lies)
        region = content["region"]
        assert box.coverage[0] >= region["coverage"]["lower"]
        assert box.fpr[1] <= region["fpr"]["upper"]
    assert seen == set(VERDICTS)


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({"max_fpr": 0.5}, "certified"),
        ({"max_fpr": 0.02}, "rejected"),
        ({"max_fpr": 0.2}, "inconclusive"),
        ({"max_fpr": 0.5, "guarantee": "marginal", "min_coverage": 0.7}, "certified"),
    ],
)
def test_a_report_begins_with_it_and_its_numbers_are_those_of_the_table(
    options: dict[str, Any], verdict: str
) -> None:
    value = report(**{"guarantee": "pac", **options})
    assert value["verdict"] == verdict
    made = document(value, classes())
    first = figures(made)[0]
    svg = first.svg()
    assert first.name == "target" and VERDICTS[lies(svg)] == verdict
    said, table = label(svg), shown(made)
    assert f"The box lies {'across an edge of' if verdict == 'inconclusive' else lies(svg)}" in said
    assert said.endswith(f": {verdict}.")
    required = (lower_percent(value["min_coverage"]), upper_percent(value["max_fpr"]))
    assert f"Required: at least {required[0]} caught and at most {required[1]} false" in said
    for number in re.findall(r"[\d.]+(?=%| to)", said.split("confidence: ")[1].split(". The")[0]):
        # With whole answers all are caught at most: that end says nothing.
        assert re.search(rf"(?<![\d.]){re.escape(number)}(%| to)", table), (number, said, table)
    # What is beside the box says the same, rounded outward.
    assert ", ".join(re.findall(r">([^<]*(?:caught|false alarms))<", svg)) in said
    assert "required" in svg and "polyline" in svg


def test_without_a_requirement_there_is_a_box_and_no_corner_or_verdict() -> None:
    made = document(report(), classes())
    svg = figures(made)[0].svg()
    assert 'class="box"' in svg and 'class="corner"' not in svg and ">required<" not in svg
    for word in ("certified", "rejected", "inconclusive", "corner", "Required"):
        assert word not in label(svg) + figures(made)[0].caption
    assert "jump" not in re.sub(r"<script.*?</script>", "", render_page(made), flags=re.DOTALL)


def test_a_verdict_that_was_taken_back_is_not_said_to_follow_from_the_box() -> None:
    value = report(max_fpr=0.5, guarantee="pac")
    figure = figures(document({**value, "verdict": "inconclusive"}, classes()))[0]
    assert label(figure.svg()).endswith("inside the corner that was required.")
    assert "the verdict rests on more than these bounds" in figure.caption


def test_a_certificate_on_a_condition_is_shown_as_no_full_one() -> None:
    value = report(max_fpr=0.5, guarantee="pac")
    doubt = {"code": "tested_beside", "message": "", "values": {"n": 1}}
    full, made = (
        document({**value, "warnings": [*value["warnings"], *more]}, classes())
        for more in ([], [doubt])
    )
    assert (full.verdict, made.verdict) == ("certified", "conditional")
    assert made.headline == "Certified, if fixed beforehand"
    figure = figures(made)[0]
    assert "var(--inconclusive)" in figure.svg() and ".: certified" not in label(figure.svg())
    assert "the verdict rests on more than these bounds" in figure.caption
    assert '<section class="verdict conditional"' in render_page(made)
    # What was picked by its results is certified by other answers; nothing is certified of those.
    assert "on new labelled answers alone" in made.next_step != full.next_step
    # As its exit code is that of a certificate, so is its test.
    assert 'failures="0" skipped="0"' in render_junit(made)
    stream = io.StringIO()
    print_document(made, Console(file=stream, force_terminal=True, color_system="standard"))
    assert "\x1b[1;33mCERTIFIED" in stream.getvalue() and "[1;32m" not in stream.getvalue()


def test_groups_of_a_certificate_on_a_condition_are_certified_on_the_same() -> None:
    names = np.where(np.arange(400) % 8 < 4, "law", "art").tolist()
    sample = Sample(VALUES + 2.0 * LABELS, LABELS, CODES)
    asked = {"guarantee": "pac", "min_coverage": 0.5, "max_fpr": 0.5}
    value = measure(sample, names=names, by="kind", **asked).to_dict()
    doubt = {"code": "calibrated_before", "message": "", "values": {"n": 1}}
    full, made = (
        document({**value, "warnings": more}, classes(VALUES + 2.0 * LABELS))
        for more in ([], [doubt])
    )
    assert made.verdict == "conditional"
    assert [doc.lead[0].text.count("if fixed beforehand") for doc in (full, made)] == [0, 1]
    groups = [next(it for it in figures(doc) if it.name == "groups") for doc in (full, made)]
    svgs = [item.svg() for item in groups]
    assert [svg.count(">certified<") for svg in svgs] == [2, 0]
    assert [svg.count(">if fixed beforehand<") for svg in svgs] == [0, 2]
    for svg, colours in zip(svgs, ({"certified"}, {"inconclusive"}), strict=True):
        assert set(re.findall(r'class="box"[^>]*stroke="var\(--(\w+)', svg)) == colours
    assert "law certified, if fixed beforehand, caught at least" in label(svgs[1])
    assert "corner certified, outside" in groups[0].caption
    assert "corner certified, if fixed beforehand, outside" in groups[1].caption
    assert "differs" not in groups[0].caption + groups[1].caption
    cells = [shown(doc).count("certified, if fixed beforehand") for doc in (full, made)]
    assert cells == [0, 2]
    # Verdicts that were taken back are no longer those of the boxes.
    rows = [{**row, "verdict": "inconclusive"} for row in value["by_group"]["rows"]]
    taken = measures.group_targets(rows, 0.95, measures.unit_words({}))
    assert taken and "where a verdict differs it rests on more" in taken.caption


def test_certify_and_its_groups_have_theirs() -> None:
    asked = Requirement(0.3, 0.8)
    counts = {
        "<good>": ClassCounts(300, 300, 5, 300),
        "bad": ClassCounts(200, 300, 5, 300),
        "few": ClassCounts(9, 10, 1, 10),
    }
    rows = [
        {"group": name, **item.to_dict()} for name, item in certify_groups(counts, asked).items()
    ]
    about: dict[str, Any] = {
        "by_group": {"column": "kind", "confidence": 0.95, "rows": rows},
        **{"reading": {}, "data": {}, "warnings": [], "risks": None, "blocked": None, "look": None},
    }
    content = certify_counts(ClassCounts(509, 610, 11, 610), asked).to_dict() | about
    made = certify_document(content)
    whole, groups = figures(made)
    assert (whole.name, groups.name) == ("target", "groups")
    assert whole.lines and VERDICTS[lies(whole.svg())] == content["verdict"]
    for narrow in (False, True):
        parts = groups.svg(narrow).split("<g ")[1:]
        assert [VERDICTS[lies(part)] for part in parts] == ["certified", "rejected", "inconclusive"]
        assert "&lt;good&gt;" in parts[0] and "<good>" not in groups.svg(narrow)
    said, table = label(groups.svg()), shown(made)
    for row in rows:
        ends = [measures.shown_end(name, row) for name in ("coverage", "fpr")]
        named = zip(("caught", "false alarms"), ends, strict=True)
        told = [row["verdict"], *(f"{name} {end}" for name, end in named if end)]
        assert f"{row['group']} {', '.join(told)}" in said
        # Of a rate that may lie on either side of its limit no end decides.
        assert [bool(end) for end in ends] == [row["group"] != "few"] * 2
        assert all(end in table for end in ends)
    # Without limits there are no verdicts, and no targets.
    open_ones = [{**row, "max_fpr": None, "verdict": "inconclusive"} for row in rows]
    assert measures.group_targets(open_ones[:1], 0.95, measures.unit_words({})) is None


def test_one_page_states_one_confidence() -> None:
    """A look takes less than the whole error, but what a page says is of all looks together."""
    asked = Requirement(0.3, 0.8, confidence=0.9625)
    rows = [{"group": "a", **certify_counts(ClassCounts(290, 300, 5, 300), asked).to_dict()}]
    look = {"number": 1, "declared": None, "level": 0.0375, "together": 0.05, "confidence": 0.95}
    about: dict[str, Any] = {
        "by_group": {"column": "kind", "confidence": 0.9625, "rows": rows},
        **{"reading": {}, "data": {}, "warnings": [], "risks": None, "blocked": None, "look": look},
    }
    content = certify_counts(ClassCounts(290, 300, 5, 300), asked).to_dict() | about
    page = render_page(certify_document(content))
    assert "96.2%" not in page and page.count("95% confidence") >= 4


def test_a_card_has_one_by_the_bounds_of_the_verdict() -> None:
    run = calibrate("example:facts", "novelty", alpha=0.2, max_fpr=0.6)
    made = card(run.freeze())
    figure = figures(made.document())[0]
    assert figure.name == "target" and lies(figure.svg()) == "inside"
    ends = run.report.to_dict()["certificate"]
    most = upper_percent(ends["fpr_at_most"])
    assert f"{most} false alarms. The box lies inside" in label(figure.svg())
    assert f"at most {most} shown" in shown(made.document())
    # The interval beside that bound is another one, and that is said.
    told = "The bound below a requirement decides about it, and holds by itself."
    for document_of in (made.document(), document(run.report.to_dict())):
        assert render_markdown(document_of).count(told) == 1
    assert told not in render_markdown(document(report()))
    # A file of before has no bounds of its verdict: it shows the intervals that it has.
    older = {**made.content, "guardrail": dict(made.content["guardrail"])}
    headline = dict(older["guardrail"]["headline"])
    del headline["certificate"]
    older["guardrail"]["headline"] = headline
    assert [item.name for item in figures(card_document(older))] == ["target"]


def test_words_beside_a_box_that_fills_the_field_stand_in_it() -> None:
    box = TargetBox((0.0, 1.0), (0.0, 0.998), None, (0.9, 0.8), "inconclusive")
    svg = target_svg(box, str, {"caught": "at most 100%", "false alarms": "at most 99.8%"})
    [required] = re.findall(r'y="([\d.]+)"[^>]*>required<', svg)
    places = [float(y) for y in re.findall(r'y="([\d.-]+)"[^>]*>at most', svg)]
    assert len(places) == 2 and min(places) > float(required) + 14


def test_words_beside_a_box_end_within_the_picture() -> None:
    """Also where a review makes them long: they end at its right, not begin too late."""
    for x in (0.0, 0.2, 0.4, 0.6):
        box = TargetBox((0.8, 0.9), (x, x + 0.1), (0.9, x), (0.9, 0.6), "inconclusive")
        for alarms in ("false alarms", "false alarms or reviews"):
            svg = target_svg(box, str, {"caught": "80 to 90%", alarms: "42.3 to 48.9%"})
            [(begins, anchor)] = re.findall(r'<text x="([\d.]+)"[^>]*anchor="(\w+)"[^>]*>42', svg)
            width = 7.3 * len(f"42.3 to 48.9% {alarms}")
            assert (anchor == "end" and width < 402.0) or float(begins) + width <= 424.0


def test_where_some_answers_go_to_review_no_picture_or_table_calls_them_flagged() -> None:
    names = np.where(np.arange(400) % 8 < 4, "law", "art").tolist()
    sample = Sample(VALUES + 2.0 * LABELS, LABELS, CODES)
    asked = {"min_coverage": 0.5, "max_fpr": 0.5, "beta": 0.05}
    made = document(
        measure(sample, names=names, by="kind", guarantee="marginal", **asked).to_dict(),
        classes(VALUES + 2.0 * LABELS),
    )
    page = render_page(made.shown_on("page"))
    labels = [unescape(text) for text in re.findall(r'aria-label="([^"]*)"', page)]
    words = unescape(re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<(style|script).*?</\1>", "", page)))
    said = " ".join(" ".join([words, *labels]).split()).replace(
        "The promise about false alarms", ""
    )
    assert "art certified, caught or reviewed at least" in said and "false alarms or" in said
    assert not re.search(r"(?i)false alarms(?! or reviews)|%\s+caught(?! or reviewed)", said)
    assert not re.search(r"catches at|flags at|share caught(?! or)", said)
    points = json.loads(re.search(r'(?s)id="operating-points"[^>]*>(.*?)<', page)[1])  # type: ignore[index]
    assert points["names"] == ["caught or reviewed", "false alarms or reviews"]
    certificate = document({**report(max_fpr=0.5, guarantee="marginal")}, classes())
    assert "false alarms or reviews" not in render_page(certificate).casefold()


def test_an_end_is_shown_only_where_it_decides() -> None:
    def shown(*bounds: float | None, method: str = "exact") -> tuple[str, str]:
        share = dict(zip(("estimate", "lower", "upper"), bounds, strict=True), method=method)
        ends = {"coverage_at_least": bounds[1] or 0.0, "fpr_at_most": bounds[2] or 1.0}
        row = {"coverage": share, "fpr": share, "min_coverage": 0.8, "max_fpr": 0.3, **ends}
        return measures.shown_end("coverage", row), measures.shown_end("fpr", row)

    assert shown(None, None, None) == shown(1.0, 0.0008, 1.0) == ("", "")
    assert shown(0.75, 0.6, 0.79) == ("at most 79% shown", "at least 60% shown")
    assert shown(1.0, 0.73, 1.0) == ("", "at least 73% shown")
    assert shown(0.1, 0.05, 0.3) == ("at most 30% shown", "at most 30% shown")
    assert shown(None, 0.9, None, method="rank")[0] == "at least 90% shown"
