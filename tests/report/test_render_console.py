"""Does the terminal say verdict, reason and remedy within 80 columns, whatever the names?"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from reports import HOSTILE, NOISE, VALUES, hostile, report
from rich.console import Console

from calibrail.conformal import ClassCounts, certify_counts
from calibrail.options import Requirement
from calibrail.report import Document, print_document
from calibrail.report.document import Table, TableColumn
from calibrail.report.documents import calibrate, certify, doctor
from calibrail.report.markdown import render_markdown
from calibrail.report.text import share

pytestmark = pytest.mark.usefixtures("as_command_line")

Says = Callable[[Mapping[str, Any]], Document]


def shown(says: Says, value: Mapping[str, Any], width: int = 80) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, no_color=True, force_terminal=False)
    print_document(says(value), console)
    text = stream.getvalue()
    # A command to copy is one line, however long.
    lines = [line for line in text.splitlines() if not line.startswith("  calibrail ")]
    assert max(map(len, lines)) <= width
    assert "nan" not in text.lower().split()
    return text


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("options", "verdict", "remedy"),
    [
        ({"max_fpr": 0.6, "min_coverage": 0.7}, "CERTIFIED", "calibrail export"),
        ({"max_fpr": 0.01}, "REJECTED", "calibrail compare"),
        ({"min_coverage": 0.7}, "THRESHOLD FOUND, NO VERDICT YET", "--max-false-alarms 0.2"),
    ],
)
def test_the_verdict_comes_first_and_a_next_step_last(
    options: dict[str, Any], verdict: str, remedy: str
) -> None:
    lines = shown(calibrate.document, report(**options)).splitlines()
    assert lines[0].startswith(f"{verdict}  toy")
    last = words(" ".join(lines[-6:]))
    assert "Next: " in last
    assert remedy in last


def test_a_verdict_is_in_capitals_and_a_sentence_keeps_its_names() -> None:
    sentence = (
        "The promise of 90% caught does not carry over to cnndm: it is broken in 1 of 2 tests."
    )
    text = words(shown(lambda _: Document("x", headline=sentence, verdict="rejected"), {}))
    assert text.startswith(sentence) and "CNNDM" not in text


@pytest.mark.parametrize(
    ("lower", "said"),
    [(0.4, "no better than guessing: its AUROC lies between 0.4 and 0.6"), (0.55, "")],
)
def test_a_certificate_of_a_detector_that_may_guess_says_so(lower: float, said: str) -> None:
    value = report(max_fpr=0.6, min_coverage=0.7)
    assert "better than guessing" not in words(shown(calibrate.document, value))
    value["test"]["auroc"] = {**value["test"]["auroc"], "lower": lower, "upper": 0.6}
    text = words(shown(calibrate.document, value))
    assert text.startswith("CERTIFIED") and said in text
    assert ("better than guessing" in text) == bool(said)


def test_a_certificate_without_auroc_compares_what_is_flagged_of_each_class() -> None:
    asked = Requirement(0.9, 0.5, 0.9)
    guess = certify_counts(ClassCounts(800, 1000, 800, 1000), asked).to_dict()
    better = certify_counts(ClassCounts(800, 1000, 500, 1000), asked).to_dict()
    assert "not shown to flag more hallucinated answers" in words(shown(certify.document, guess))
    assert "better than guessing" not in words(shown(certify.document, better))


def test_without_a_limit_no_verdict_is_spoken_of() -> None:
    value = report()
    text = words(shown(calibrate.document, value))
    assert value["verdict"] == "inconclusive" and "inconclusive" not in text.lower()
    assert text.startswith("THRESHOLD FOUND, NO VERDICT YET toy")
    assert "--max-false-alarms for a verdict" in text


def test_the_report_shows_every_row_and_warning() -> None:
    value = report(
        baselines={"length": VALUES + 5.0 * (VALUES > 1), "none": np.full(400, np.nan)},
        others={"second": NOISE},
        max_fpr=0.2,
        undefined="pass",
    )
    text = words(shown(calibrate.document, value))
    for part in ("second", "length", "second", "Without a threshold", "none: "):
        assert part in text
    for item in value["warnings"]:
        assert words(item["message"]) in text
    assert f"{value['test']['coverage']['count']} of 100 hallucinated" in text
    assert "<= 20%" in text


@pytest.mark.parametrize("guarantee", ["marginal", "paper"])
def test_the_promise_is_said_in_words(guarantee: str) -> None:
    value = report(guarantee=guarantee)
    text, page = (
        words(said)
        for said in (
            shown(calibrate.document, value),
            render_markdown(calibrate.document(value)),
        )
    )
    assert "Flag an answer when its toy score is at least" in text
    assert f"(guarantee: {guarantee})" in text
    # An average is of such thresholds; of this one the test says what it caught.
    average, caught = guarantee == "marginal", share(value["test"]["coverage"])
    assert ("Thresholds chosen this way catch at least 90% of hallu" in text) is average
    assert (f" on average; this one caught {caught} in the test" in text) is average
    for upper, by_chance in [(0.89, False), (0.91, average)]:
        value["test"]["coverage"]["upper"] = upper
        said = words(shown(calibrate.document, value))
        assert ("in the test, which chance explains (guarantee" in said) is by_chance
    # Where it comes from is a detail, for the page.
    rank = "of 100 hallucinated calibration answers, counted from the lowest"
    assert rank in page and rank not in text


def test_flag_all_is_said() -> None:
    text = words(shown(calibrate.document, report(alpha=0.001, allow_flag_all=True)))
    assert "Flag every answer." in text


def test_names_are_neither_markup_nor_control_codes() -> None:
    text = shown(calibrate.document, hostile())
    assert "\x1b" not in text
    assert "[bold]" in text
    assert HOSTILE.replace("\x1b", "\N{REPLACEMENT CHARACTER}")[:20] in text


@pytest.mark.parametrize(
    ("counts", "limit", "verdict"),
    [
        ((990, 1000, 10, 1000), 0.2, "CERTIFIED"),
        ((500, 1000, 10, 1000), 0.2, "REJECTED"),
        ((19, 20, 1, 20), 0.2, "INCONCLUSIVE"),
        ((990, 1000, 10, 1000), None, "INCONCLUSIVE"),
    ],
)
def test_a_certificate_shows_bounds_and_what_to_do(
    counts: tuple[int, int, int, int], limit: float | None, verdict: str
) -> None:
    value = certify_counts(ClassCounts(*counts), Requirement(limit, 0.9, 0.9)).to_dict()
    text = words(shown(certify.document, value))
    assert text.startswith(verdict)
    assert f"{counts[0]} of {counts[1]:,} hallucinated" in text
    assert "Clopper-Pearson" in text
    assert "Next: " in text
    warned = words(shown(certify.document, {**value, "warnings": ["9 answers share a group"]}))
    assert "1 warning - 9 answers share a group Next: " in warned


def test_a_certificate_asks_for_one_number_of_labels_and_for_none_where_it_fails() -> None:
    look = {"number": 1, "declared": None, "level": 0.04, "together": 0.05, "confidence": 0.95}
    look |= {"next_level": 0.01, "needed": {"hallucinated": 800}}
    about = {"reason_code": "limits_unsettled", "look": look}
    value = certify_counts(ClassCounts(160, 200, 20, 200), Requirement(0.3, 0.78)).to_dict()
    text = words(shown(certify.document, {**value, **about}))
    assert (
        "Next: Label about 800 hallucinated answers (among about 1,600 in all) beyond these, which "
        "make it certified if they show the same rates, and test all in one file, ALL: calibrail "
        "certify GUARDRAIL ALL --max-false-alarms 0.3 --min-caught 0.78 " in text
    )
    # A verdict that an earlier look took back is one; what misses the requirement misses it.
    seen = {"reason_code": "looked_before", "verdict": "inconclusive"}
    for caught, said in (
        (160, "Have people label"),
        (50, "Do not rely on it"),
    ):
        counts = ClassCounts(caught, 200, 20, 200)
        value = certify_counts(counts, Requirement(0.3, 0.78)).to_dict()
        assert f"Next: {said}" in words(shown(certify.document, {**value, **seen}))


def test_a_diagnosis_says_what_the_file_holds_and_what_to_do() -> None:
    value: dict[str, Any] = {
        "source": "x.jsonl",
        "format": "jsonl",
        "rows": 1001,
        "usable": 1000,
        "quarantined": 1,
        "filtered": 0,
        "columns": {"label": "label"},
        "reasons": [["label", "not 0 or 1", 1]],
        "n_faithful": 600,
        "n_hallucinated": 400,
        "n_unlabelled": 0,
        "groups": {"n": 500, "ungrouped": 0, "largest": 2, "mixed": 400},
        "lengths": [
            {"field": "response", "n": 9, "median_chars": 80.0, "p95_chars": 90.0},
        ],
        "supports": [
            {"alpha": 0.05, "guarantee": name, "needed": n, "available": 200, "possible": n < 200}
            | {"to_label": 59}
            for name, n in (("marginal", 19), ("pac", 230))
        ],
        "scores": [{"name": "sgi", "requires": ["response"], "n": 1000}],
        "numeric_columns": [
            {"name": name, "n": 9, "missing": 3, "distinct": 9, "auroc": area, "tells_label": leaks}
            | {"higher": "faithful" if name == "factual_dae" else None}
            for name, area, leaks in (("factual_dae", 0.2, False), ("grade", 1.0, True))
        ],
        "inputs": ["x.jsonl"],
        "reading": {"options": ["--positive", "no"], "labels": None, "turned": []},
        "layout": [],
        "suggested": [],
        "inverted": None,
        "answers": [],
        "because": "",
        "unread": [],
        "warnings": [{"code": "length_separates", "message": "length alone separates"}],
    }
    text = words(shown(doctor.document, value))
    for part in (
        "400 hallucinated, 600 faithful",
        "1 x label: not 0 or 1",
        "too few",
        "AUROC 0.800 with --higher faithful, as its name says",
        "length alone separates",
        "calibrail calibrate x.jsonl --positive no --score-column factual_dae",
    ):
        assert part in text
    one_class = words(shown(doctor.document, {**value, "n_faithful": 0}))
    assert "Both classes need" in one_class
    assert "Can a threshold keep" in text and "Can a threshold keep" not in one_class
    # A column that was made from the label is never what to calibrate next.
    assert "Column grade no detector's score: AUROC 1, probably made from the label" in text
    columns_alone = words(shown(doctor.document, {**value, "scores": []}))
    assert "--score-column factual_dae --higher faithful" in columns_alone
    assert "--score-column grade" not in columns_alone
    unnamed = [{**value["numeric_columns"][0], "name": "dae", "higher": None}]
    both = words(shown(doctor.document, {**value, "scores": [], "numeric_columns": unnamed}))
    for part in (
        "Do not take the direction that fits these",
        "(AUROC 0.200)",
        "--higher hallucinated",
        "(AUROC 0.800)",
    ):
        assert part in both
    assert both.count("calibrail calibrate x.jsonl --positive no --score-column dae") == 2


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_long_name_or_path_goes_on_at_a_joint(width: int) -> None:
    name = "a_detector_of_a_very_long_name-with/several.parts:and=options"
    path = "/".join(f"folder{i}" for i in range(20))
    table = Table(
        "t", (TableColumn("Score", most=22), TableColumn("About")), [(name, path), ("b", "c")]
    )
    document = Document("x", headline=f"wrote {path}", blocks=(table,))
    console = Console(width=width, file=io.StringIO(), highlight=False)
    print_document(document, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= width
    pieces = {piece.strip() for line in text.splitlines() for piece in re.split(r"\s{2,}| ", line)}
    words = set(re.split(r"[/_.:=-]", name)) | set(path.split("/"))
    shown = {word for piece in pieces for word in re.split(r"[/_.:=-]", piece)}
    assert words <= shown | {""}
    assert shown <= words | {"", "Score", "About", "wrote", "t", "b", "c"}


def test_a_table_with_room_for_its_words_breaks_none() -> None:
    heads = ("Group", "Threshold", "Freed", "Touched", "Kept", "Verdict", "Freed, shared")
    row = ("model: m1", "0.65 to 0.759", "70% (48 to 87)", "0% (0 to 14)", "100% (91 to 100)")
    table = Table("t", tuple(map(TableColumn, heads)), [(*row, "inconclusive", "72.5%")])
    console = Console(width=80, file=io.StringIO(), highlight=False)
    print_document(Document("x", blocks=(table,)), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= 80
    assert set(" ".join((*heads, *row)).split()) | {"inconclusive"} <= set(text.split())


def table_shown(table: Table, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), highlight=False)
    print_document(Document("x", blocks=(table,)), console)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_a_word_that_no_line_holds_breaks_no_other_column() -> None:
    heads = ("By summarizer", "Caught", "Verdict", "More needed")
    cells = ("14.3% (0 to 76)", "inconclusive", "62 hallucinated answers")
    row = ("google/gemini-1.5-flash-001-and-a-date-of-20240620" * 2, *cells)
    text = table_shown(Table("t", tuple(map(TableColumn, heads)), [row]), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert set(" ".join(cells).split()) <= set(text.split())


def test_a_command_stands_on_a_line_of_its_own_as_long_as_it_is() -> None:
    command = f"calibrail export {'/long folder' * 20!r} -o guardrail.json"
    document = Document("x", headline="y", next_step=f"Freeze it: {command}")
    console = Console(width=60, file=io.StringIO(), highlight=False)
    print_document(document, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.endswith(f"Next: Freeze it:\n  {command}\n")
