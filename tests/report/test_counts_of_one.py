"""One answer is "1 answer", whatever says it."""

import io
import re
from typing import Any

import pytest
from rich.console import Console

from calibrail import diagnose
from calibrail.data.example import Example
from calibrail.report import Document, print_document, render_page
from calibrail.report.documents import certify, decisions, doctor
from calibrail.report.documents.examples import error_examples
from calibrail.report.messages import say
from tests.catalogue import catalogue

#: "1 answers", but neither "1.1 answers" nor "0 of 1" of something.
WRONG = re.compile(
    r"(?<![\d.,])1 (?:[a-z]+ )?"
    r"(?:answers|rows|groups|examples|labels|scores|detectors|tests|that look)\b"
)
ERROR = {
    "id": "a",
    "response": "",
    "evidence": None,
    "note": "",
    "contexts": [],
    "question": "",
    "label": 1,
    "score": 0.5,
    "p_value": 0.5,
}
REPORT: dict[str, Any] = {"score": None, "warnings": []}
ONE = {"n_seen_before": 1, "n_set_aside": 1, "n_errors": 1, "n_undefined": 1, "by_group": None}
ONE |= {"copies": {"n": 0}, "reading": {}, "n_near_copies": 1}


def errors() -> Document:
    kinds: dict[str, Any] = {"n_misses": 2, "n_alarms": 2, "note": "1 answer"}
    shown = error_examples({**kinds, "misses": [ERROR], "alarms": [ERROR]}, REPORT)
    return Document("x", blocks=(shown,), notes=("1 answer",))


SHOWN = ERROR | {"response": "It is red.", "outcome": "pass", "threshold": 0.6, "group": None}


def test_highlights_are_spoken_of_where_there_is_a_text() -> None:
    kinds: dict[str, Any] = {"n_misses": 1, "n_alarms": 0, "note": "", "alarms": []}
    pages = [
        render_page(Document("x", blocks=(error_examples({**kinds, "misses": [row]}, REPORT),)))
        for row in (ERROR, SHOWN)
    ]
    assert [page.count("Highlights") for page in pages] == [0, 1]


def test_errors_of_answers_that_do_not_count_are_said_to_be_such() -> None:
    kinds: dict[str, Any] = {"n_misses": 4, "n_alarms": 0, "note": "", "alarms": []}
    for grouped in (False, True):
        report = {**REPORT, "warnings": [{"code": "clustered"}] * grouped}
        section = error_examples({**kinds, "misses": [SHOWN]}, report)
        page = render_page(Document("x", blocks=(section,)))
        assert ("also those that do not count above" in page) == grouped


def test_a_row_without_a_judge_label_counts_and_rows_count() -> None:
    data = {"labelled_by": None}
    one, two = (say("agree.human_alone", data=data, n_human_alone=n) for n in (1, 2))
    assert one.startswith("1 row has") and "label, and counts as" in one
    assert two.startswith("2 rows have") and "label, and count as" in two


def warned() -> Document:
    ones = {**ONE, "verdict": "certified", "assumed_independent": 1}
    return Document("x", notes=list(certify.certify_warnings(ones, same_file=False, policy="flag")))


def diagnosed() -> Document:
    rows = [Example(id="a", question="q", contexts=("c",), response="r", label=1)]
    return doctor.document(diagnose(rows).to_dict())


VERBS = (
    "are|were|have|do|wait|weigh|hold|occur|share|stand|take|repeat|count|show|lack|lie|give|need|"
    "match|agree|disagree|differ|say|read|pass|nearly repeat"
)
#: A number, or a count of one noun, before a verb of many.
OF_MANY = re.compile(
    r"\{\{[^{}]*\| n \}\}(?:\s+of\s+\{\{[^{}]*\}\})?(?:\s+(?:of them|more|hallucinations))?"
    rf"\s+(?:{VERBS})\b|\{{\{{[^{{}}]*\| count\([^,()]*\) \}}\}}\s+(?:{VERBS})\b"
)


def test_no_verb_of_many_stands_behind_a_number_that_may_be_one() -> None:
    found = {
        code: OF_MANY.findall(text)
        for code, entry in catalogue().items()
        for text in entry.values()
    }
    assert len(found) > 500 and not any(found.values())
    assert OF_MANY.search("{{ n | n }} of {{ m | count('answer') }} are flagged")
    assert OF_MANY.search("{{ n | count('answer') }} were taken")


@pytest.mark.parametrize(
    "document",
    [
        decisions.check_document({"checked": 1, "outcomes": {"flag": 1}, "source": "a.csv"}),
        decisions.score_document({"source": "x", "examples": 1, "undefined": {"sgi": 1}}),
        errors(),
        warned(),
        diagnosed(),
    ],
)
def test_one_is_said_as_one(document: Document) -> None:
    stream = io.StringIO()
    print_document(document, Console(file=stream, width=200))
    for text in (stream.getvalue(), re.sub(r"<[^>]*>", " ", render_page(document))):
        assert "1 " in text
        assert not WRONG.search(text), WRONG.search(text)


@pytest.mark.parametrize(("n", "useless"), [(1, False), (40, True)])
def test_one_flagged_answer_makes_no_threshold_useless(n: int, useless: bool) -> None:
    """A threshold that passes none of many answers decides nothing; of one it says nothing."""
    shown = decisions.check_document({"checked": n, "outcomes": {"flag": n}, "source": "a.csv"})
    assert ("decides nothing here" in str(shown.next_step)) is useless
