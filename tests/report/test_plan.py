"""Does a plan say what to label within 80 columns, and does its picture stand alone?"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from calibrail.errors import InputError
from calibrail.formatting import percent
from calibrail.options.fields import cli_spelling
from calibrail.report import print_document, render_page
from calibrail.report.documents.plan import document
from calibrail.report.figures.sequential import draw_plan
from tests.plans import planned


@pytest.fixture(autouse=True)
def typed() -> Iterator[None]:
    """Say it as to who wrote a command."""
    with cli_spelling():
        yield


pytestmark = pytest.mark.painted

FIXED: dict[str, Any] = {"coverage": 0.97, "fpr": 0.1, "max_fpr": 0.2, "base_rate": 0.3}
DETECTOR: dict[str, Any] = {"auroc": 0.95, "max_fpr": 0.35, "base_rate": 0.3}


def shown(options: dict[str, Any], encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    console = Console(file=stream, width=80, no_color=True)
    print_document(document(planned(**options).to_dict()), console)
    text = raw.getvalue().decode(encoding)
    # Commands are to be copied, and stand in one line.
    assert all(len(line) <= 80 or line.startswith("  calibrail ") for line in text.splitlines())
    return text


def words(text: str) -> str:
    return " ".join(text.split())


def test_alpha_alone_prints_the_two_minima() -> None:
    text = shown({"alpha": 0.05})
    assert [line.split()[-1] for line in text.splitlines()[2:4]] == ["19", "45"]
    assert "in all" not in text
    with_rate = shown({"alpha": 0.05, "base_rate": 0.3}).splitlines()
    assert [line.split()[-1] for line in with_rate[2:4]] == ["122", "149"]
    assert "Next: " in text and "--auroc" in text


def test_the_table_holds_the_odds() -> None:
    made = planned(0.1, **FIXED)
    lines = shown({"alpha": 0.1, **FIXED}).splitlines()
    for odds in made.points:
        (row,) = [line for line in lines if line.split()[:1] == [f"{odds.n:,}"]]
        for share in (odds.certified, odds.rejected, odds.inconclusive):
            assert percent(share) in row
    assert f"Label {made.n:,} answers" in words(shown({"alpha": 0.1, **FIXED}))


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (
            FIXED,
            ["all held out", "what is caught decides", "calibrail certify", "--min-caught 0.95"],
        ),
        ({**FIXED, "coverage": 0.999, "fpr": 0.19}, ["labels of faithful answers help most"]),
        ({**FIXED, "calibration_share": 0.25}, ["25% set aside"]),
        (
            {**DETECTOR, "alpha": 0.1},
            [
                "AUROC of 0.950",
                "--guarantee pac --max-false-alarms 0.35",
                "at most 35% false alarms, with 95% confidence.",
            ],
        ),
        (
            {**DETECTOR, "alpha": 0.1, "delta": 0.01},
            ["--guarantee pac --delta 0.01 --max-false-alarms 0.35", "with 95% confidence."],
        ),
        (
            {**DETECTOR, "alpha": 0.1, "calibration_share": 0.3},
            ["allow a higher threshold", "--calibration-share 0.3 -o run"],
        ),
        (
            {**DETECTOR, "alpha": 0.1, "guarantee": "marginal", "min_coverage": 0.85},
            ["--guarantee marginal --max-false-alarms 0.35 --confidence 0.95 --min-caught 0.85 -o"],
        ),
        (
            {**DETECTOR, "max_fpr": 0.1},
            [
                "no number of labels",
                "Allow clearly more",
                "of faithful answers, more than the 10% allowed.",
            ],
        ),
        ({**DETECTOR, "n": [50, 5000]}, ["-: fewer than the 72 hallucinated answers"]),
    ],
)
def test_it_says_what_was_assumed_what_decides_and_what_to_do(
    options: dict[str, Any], parts: list[str]
) -> None:
    text = words(shown({"alpha": 0.05, **options}))
    for part in parts:
        assert part in text


def test_a_number_that_nobody_labels_is_no_next_step() -> None:
    value = planned(0.1, **FIXED).to_dict()
    assert document(value).steps_and_commands()[0][1].startswith("calibrail certify guardrail.json")
    made = document({**value, "at": {**value["at"], "n": 3_577_008}})
    assert made.headline == "Not practical: a certificate takes 3,577,008 labels"
    assert made.next_step.startswith("Allow more")
    # The probability that is asked for is said once where it is met without rest.
    even = document({**value, "at": {**value["at"], "certified": value["power"]}})
    assert even.headline.endswith(f"of a certificate is at least {value['power']:.0%}.")


def test_the_picture_stands_alone_and_is_the_same_each_time() -> None:
    made = planned(0.1, **FIXED)
    drawn = draw_plan(made.to_dict(), "svg")
    assert drawn == draw_plan(planned(0.1, **FIXED).to_dict(), "svg")
    root = ElementTree.fromstring(drawn)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    text = " ".join(root.itertext())
    for part in ("certified", "rejected", "inconclusive", f"{made.n:,} answers", "80%"):
        assert part in text
    assert b"#010101" not in drawn and b"#020202" not in drawn


@pytest.mark.parametrize(("format", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_other_formats(format: str, start: bytes) -> None:
    made = planned(0.1, **{**DETECTOR, "max_fpr": 0.1}).to_dict()
    drawn = draw_plan(made, format)
    assert drawn.startswith(start)
    assert drawn == draw_plan(made, format)


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(InputError, match=r"^format must be one of svg, png, pdf; got 'gif'"):
        draw_plan(planned(0.1, **FIXED).to_dict(), "gif")
    with pytest.raises(InputError, match=r"^plan must hold a curve"):
        draw_plan(planned(0.1).to_dict())


def test_the_page_draws_the_odds() -> None:
    page = render_page(document(planned(0.1, **FIXED).to_dict()))
    assert page.count("<svg") == 2 and "var(--certified)" in page
    assert "whatever it flags" in page
    assert "<svg" not in render_page(document(planned(0.1).to_dict()))
