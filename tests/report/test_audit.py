"""Is an audit's page self-contained, safe, complete and the same every time?"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from calibrail.evaluation.audit import (
    Leakage,
    LeftOut,
    Material,
    SplitCopies,
    audit_scores,
    giveaway,
)
from calibrail.evaluation.audit_answers import AuditAnswers
from calibrail.evaluation.confounds import by_column, thirds
from calibrail.options.fields import cli_spelling
from calibrail.report import print_document, render_page
from calibrail.report.documents.audit import added_to, document, with_sentences
from calibrail.report.html import figure_files

pytestmark = pytest.mark.painted

HOSTILE = "<script>alert(1)</script>[bold]\x1b[31m\u202e\u200f\ud800]]>&"
N = 400


def content(name: str = "toy", undefined: str = "flag", **changes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    labels = np.tile([0, 1], N // 2).astype(np.int8)
    clusters = np.repeat(np.arange(N // 2), 2)
    length = rng.normal(size=N) + labels
    values = {
        name: length + rng.normal(size=N),
        f"{name}2": -length + rng.normal(size=N),
        f"{name}3": np.where(rng.random(N) < 0.1, np.nan, rng.normal(size=N)),
    }
    angles = {"theta_rq": rng.random(N), "theta_rc": rng.random(N)}
    answers = AuditAnswers(labels, clusters)
    copied = SplitCopies("group", 3, 1, ((name, name),))
    leakage = Leakage((copied,), (), (giveaway(name, clusters, answers),), 1)
    material: dict[str, Any] = {
        "features": {"length": length, "novelty": np.full(N, 0.5)},
        "divisions": [
            thirds("length", length),
            by_column(name, [f"{name}{k % 3}" for k in range(N)]),
        ],
        "angles": {name: angles},
        "left_out": [LeftOut(name, name)],
        **changes,
    }
    audit = audit_scores(
        values,
        answers,
        Material(leakage, **material),
        undefined=undefined,
        data={"source": name},
        reproduce={"command": f"calibrail audit {name}"},
    )
    return with_sentences(audit.to_dict())


def page_of(audit: dict[str, Any]) -> str:
    return render_page(document(audit))


def loads_nothing(page: str) -> None:
    assert not re.search(r"https?:|//[a-z]|url\((?!#)|@import|<script|<link|<iframe|src=", page)
    assert "default-src 'none'; style-src 'unsafe-inline'; script-src 'none'" in page
    assert not re.search(r"\bon[a-z]+=", page)
    assert "#010101" not in page


def test_the_page_is_self_contained_complete_and_deterministic() -> None:
    audit = content()
    page = page_of(audit)
    loads_nothing(page)
    assert page == page_of(content())
    assert page.index(audit["conclusions"][0]["message"][:30]) < page.index("<svg")
    for part in ("What explains it?", "Do they agree?", "Left out", "calibrail audit toy"):
        assert part in page
    assert page.count('data-figure="') == 12
    assert page.count("aria-label=") >= 12


def test_hostile_names_are_text_everywhere() -> None:
    audit = content(HOSTILE)
    page = page_of(audit)
    loads_nothing(page)
    page.encode("utf-8")
    assert page.count("&lt;script&gt;") >= 10
    assert not re.search("[\u202e\u200f\x1b\ud800]", page)
    for svg in figure_files(document(audit)).values():
        ElementTree.fromstring(svg)


@pytest.mark.parametrize(
    ("verdict", "n", "command"),
    [
        ("explains", 1, "calibrail compare toy --score NAME"),
        # What several were looked at with chooses among them: a comparison says which.
        ("does not explain", 3, "calibrail compare toy"),
        ("does not explain", 1, "calibrail calibrate toy"),
    ],
)
def test_an_audit_ends_in_a_next_step(verdict: str, n: int, command: str) -> None:
    audit = content()
    audit["detectors"] = audit["detectors"][:n]
    for item in audit["detectors"]:
        item["confounds"] = [{**row, "verdict": verdict} for row in item["confounds"]]
    with cli_spelling():
        ((says, shown),) = document(audit).steps_and_commands()
    assert shown.startswith(command)
    # No AUROC says what a threshold costs.
    assert "see the price (of 100 good answers" in says


def test_figures_stand_alone() -> None:
    for name, alone in figure_files(document(content())).items():
        root = ElementTree.fromstring(alone)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(--" not in alone
        assert re.fullmatch(r"[a-z0-9-]+", name)


def test_without_texts_there_is_no_figure_of_matches() -> None:
    audit = content(features={}, divisions=[], angles={}, left_out=())
    figures = figure_files(document(audit))
    assert "1-matched" not in figures and "1-strata" not in figures
    page = page_of(audit)
    loads_nothing(page)
    assert "cannot be said without texts" in page


@pytest.mark.parametrize("values", [np.zeros(N), np.where(np.arange(N) % 7 == 0, 1e308, -1e308)])
def test_odd_scores_make_a_page(values: np.ndarray) -> None:
    labels = np.tile([0, 1], N // 2).astype(np.int8)
    material = Material(
        Leakage((), (), (), 0),
        features={"length": np.arange(float(N)) + 50 * labels},
        divisions=[thirds("length", np.arange(float(N)))],
    )
    audit = audit_scores({"odd": values}, AuditAnswers(labels, np.arange(N)), material)
    page = page_of(with_sentences(audit.to_dict()))
    loads_nothing(page)
    assert not re.search(r"\b(nan|inf)\b", page, re.IGNORECASE)


def test_the_terminal_prints_names_as_they_are() -> None:
    console = Console(width=80, color_system=None, file=io.StringIO())
    audit = content(HOSTILE)
    print_document(document(audit), console)
    text = console.file.getvalue()
    assert "[bold]" in text and "\x1b" not in text and "\u202e" not in text
    assert text.index("What the data shows") < text.index("strata")


def test_answers_without_a_score_are_counted_and_the_policy_named() -> None:
    messages = {item["code"]: item["message"] for item in content()["conclusions"]}
    assert "ranked above every other (policy: flag)" in messages["undefined"]
    released = {item["code"]: item["message"] for item in content(undefined="pass")["conclusions"]}
    assert "ranked as if passed (policy: pass)" in released["undefined"]


def test_a_column_that_gives_the_label_is_warned_of_and_explains_nothing() -> None:
    rng = np.random.default_rng(1)
    labels = np.tile([0, 1], N // 2)
    # The grade of one answer in fifty is another: no column made by people is without a mistake.
    grade = [("good", "bad")[int(label) ^ int(rng.random() < 0.005)] for label in labels]
    plain, derived = content(), content(divisions=[by_column("grade", grade)])
    codes = [item["code"] for item in derived["conclusions"]]
    assert codes.count("column_tells_label") == 1
    (warning,) = document(derived).warnings
    assert "The column grade tells the label by itself (AUROC 0.99" in warning.text
    said = " ".join(item["message"] for item in derived["conclusions"])
    assert "column grade alone tells" not in said
    for item in derived["detectors"]:
        verdicts = {row["feature"]: row["verdict"] for row in item["confounds"]}
        assert verdicts["grade"] == "tells the label"
    # What the other features show stays as it is.
    assert document(derived).summary == document(plain).summary
    assert "grade" not in document(derived).summary
    assert document(derived).headline == document(plain).headline
    assert "grade" not in document(derived).headline
    # Of one detector the finding comes first in few words.
    one = document({**plain, "detectors": plain["detectors"][:1]})
    assert one.headline.startswith("Another feature explains ")
    assert one.summary.startswith(one.brief)
    # A column that tells much, and not the label itself, is a finding like any other.
    often = [("a", "b")[int(label) ^ int(rng.random() < 0.15)] for label in labels]
    honest = content(divisions=[by_column("source", often)])
    assert document(honest).warnings == []
    assert "column source" in " ".join(item["message"] for item in honest["conclusions"])


@pytest.mark.parametrize(
    ("span", "text", "needless"),
    [
        (
            (0.02, 0.011, 0.03),
            "d adds something to the column m: 0.020 (0.011 to 0.030) of AUROC",
            False,
        ),
        (
            (0.005, 0.001, 0.009),
            "d adds little to the column m: 0.005 (0.001 to 0.009) of AUROC",
            True,
        ),
        ((0.02, -0.001, 0.03), "d is not shown to add anything to the column m (-0.001", True),
        ((None, None, None), "What d adds to the column m cannot be told", False),
        ((0.02, None, None), "What d adds to the column m cannot be told", False),
    ],
)
def test_no_detector_is_needed_only_where_it_adds_nothing_of_size(
    span: tuple[float | None, ...], text: str, needless: bool
) -> None:
    added = dict(zip(("estimate", "lower", "upper"), span, strict=True))
    said = added_to("d", "the column m", added)
    assert said.startswith(text) and ("no detector is needed" in said) == needless
