"""Does a threshold that somebody types in as it is shown decide as the one that it stands for?"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from test_printed_commands import SCORE, rows

import calibrail
from calibrail.formatting import Scale, exact
from calibrail.report import print_document, render_page
from calibrail.report.documents import build_document
from calibrail.report.markdown import render_comment, render_markdown
from tests.catalogue import catalogue

#: What stands under such names in JSON is a threshold of the score.
NAMED = re.compile(r"^(column_)?(threshold|thresholds|pass_below|flag_above)$")
#: Thresholds are larger than every share, count and seed on a page.
SCALE = 1e6 / 7.0
HIGHER = SCORE.replace("faithful", "hallucinated")


def data(score: str, *, few: bool = False) -> list[dict[str, Any]]:
    """Return labelled rows whose good column holds large numbers that no short text is."""
    sign = 1.0 if score == SCORE else -1.0
    made = [{**row, "good one": sign * row["good one"] + 9.0} for row in rows(400)]
    if few:
        made = [{**row, "good one": round(row["good one"])} for row in made]
    return [{**row, "good one": SCALE * row["good one"]} for row in made]


def thresholds(content: Any, name: str = "") -> Iterator[float]:
    if isinstance(content, dict):
        for key, value in content.items():
            yield from thresholds(value, key)
    elif isinstance(content, list | tuple):
        for value in content:
            yield from thresholds(value, name)
    elif isinstance(content, float) and NAMED.match(name):
        yield abs(content)


def calibrated(score: str, **options: Any) -> tuple[str, dict[str, Any]]:
    made = data(score, few=options.pop("few", False))
    return "calibrate", calibrail.calibrate(made, score, alpha=0.2, **options).report.to_dict()


def compared(score: str) -> tuple[str, dict[str, Any]]:
    return "compare", calibrail.compare(data(score), [score, "novelty"], alpha=0.2).to_dict()


def judged(score: str) -> tuple[str, dict[str, Any]]:
    made = data(score)
    edge = float(np.median([row["good one"] for row in made]))
    limits = {"max_fpr": 0.2, "min_coverage": 0.9}
    return "calibrate", calibrail.test(made, score, threshold=edge, **limits).report.to_dict()


def frozen(score: str) -> tuple[str, dict[str, Any]]:
    run = calibrail.calibrate(data(score), score, alpha=0.2, max_fpr=0.9)
    return "guardrail", run.freeze().shown()[0]


MADE: dict[str, Callable[[str], tuple[str, dict[str, Any]]]] = {
    "calibrate": lambda score: calibrated(score, max_fpr=0.1),
    "review": lambda score: calibrated(score, beta=0.1),
    "groups": lambda score: calibrated(score, by="site's", max_fpr=0.5),
    "few values": lambda score: calibrated(score, few=True),
    "compare": compared,
    "test": judged,
    "guardrail": frozen,
}


def texts(name: str, content: dict[str, Any]) -> str:
    """Return all that a document says, on a page, in a terminal and as Markdown."""
    document = build_document(name, content)
    stream = io.StringIO()
    print_document(document, Console(file=stream, width=200), verbose=True)
    page = re.sub(r"<style.*?</style>|<svg.*?</svg>", " ", render_page(document), flags=re.DOTALL)
    said = [stream.getvalue(), re.sub(r"<[^>]*>", " ", html.unescape(page))]
    return "\n".join([*said, render_markdown(document), render_comment(document)])


@pytest.mark.parametrize("score", [SCORE, HIGHER], ids=["higher is faithful", "hallucinated"])
@pytest.mark.parametrize("name", MADE)
def test_every_threshold_that_is_shown_decides_as_the_exact_one(name: str, score: str) -> None:
    document, content = MADE[name](score)
    known = np.array(sorted({edge for edge in thresholds(content) if edge > 1000.0}))
    values = np.array([row["good one"] for row in data(score, few=name == "few values")])
    flags = np.less_equal if score == SCORE else np.greater_equal
    found = set()
    for token in re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?", texts(document, content)):
        typed = float(token.replace(",", ""))
        near = known[np.abs(known - typed) <= 1e-3 * known]
        if len(near):
            assert "," not in token.rstrip(","), f"no option reads {token}"
            # The exact one that it stands for is among those near to it.
            alike = [(flags(values, typed) == flags(values, edge)).all() for edge in near]
            assert any(alike), (token, near)
            found.add(token)
    assert found


@given(st.floats(-1e12, 1e12), st.booleans())
def test_what_is_rounded_flags_no_less(value: float, negated: bool) -> None:
    scale = Scale("column" if negated else None, negated=negated)
    typed = scale.shown(float(scale.cell(value)))
    assert typed <= value and float(exact(value)) == value
    assert value - typed <= 1.001e-5 * abs(value)


def test_no_sentence_rounds_a_threshold() -> None:
    shown = r"scale\.text\([^)]*(threshold|edge|below|above)|(?<!_)threshold\)? *\| *number"
    texts = {code: " ".join(entry.values()) for code, entry in catalogue().items()}
    assert [code for code, said in texts.items() if re.search(shown, said)] == []


UNASKED: dict[str, Callable[[], tuple[str, dict[str, Any]]]] = {
    "calibrate": lambda: calibrated(HIGHER),
    "groups": lambda: calibrated(HIGHER, by="site's"),
    "review": lambda: calibrated(HIGHER, beta=0.1),
    "compare": lambda: compared(HIGHER),
}


@pytest.mark.parametrize("name", UNASKED)
def test_where_no_verdict_was_asked_for_none_is_named(name: str) -> None:
    said = texts(*UNASKED[name]()).lower()
    assert not re.search(r"inconclusive|each verdict", said)
    assert "caught" in said


def test_where_one_was_asked_for_every_detector_and_group_has_one() -> None:
    detectors = calibrail.compare(data(HIGHER), [HIGHER, "novelty"], alpha=0.2, max_fpr=0.01)
    for made in (("compare", detectors.to_dict()), calibrated(HIGHER, by="site's", max_fpr=0.01)):
        assert re.search(r"\|[^|]*(rejected|inconclusive) \|", texts(*made))
