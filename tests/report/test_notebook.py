"""Does every result show itself in a few safe lines, verdict first?"""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import calibrail
from calibrail import Example, Run, read
from calibrail.conformal.power import Assumption, plan
from calibrail.options import ScoreThreshold

SOURCE = "example:facts"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return one result of every kind, from the shipped example."""
    folder: Path = tmp_path_factory.mktemp("run")
    run = calibrail.calibrate(SOURCE, "novelty", alpha=0.2, guarantee="marginal", max_fpr=0.6)
    guardrail = run.freeze()
    run.save(folder)
    judged = [
        Example(id=str(i), columns={"human": i % 2, "judge": i % 3 // 2, "s": i / 9})
        for i in range(60)
    ]
    return {
        "Run": run,
        "Run of a folder": Run.load(folder),
        "Report": run.report,
        "Guardrail": guardrail,
        "Decision": guardrail.check(response="It is so.", contexts=["It is."], id="<b>a</b>"),
        "Certification": calibrail.certify(guardrail, SOURCE, max_fpr=0.6),
        "ComparisonRun": calibrail.compare(SOURCE, ["novelty", "rouge_l"], alpha=0.2),
        "AuditRun": calibrail.audit(SOURCE, "novelty", geometry=False),
        "ShiftRun": calibrail.shift(SOURCE, "novelty", by="kind", alpha=0.2),
        "JudgedRates": calibrail.agree(
            judged,
            label_column="human",
            judge_column="judge",
            scores=ScoreThreshold("s", "hallucinated", 2.0),
        ),
        "BatchSelection": calibrail.select(guardrail, SOURCE, fdr=0.2),
        "GuardrailCard": calibrail.card(guardrail),
        "Diagnosis": calibrail.diagnose(SOURCE),
        "Plan": plan(
            calibrail.Promise(0.1),
            calibrail.Requirement(max_fpr=0.3),
            Assumption(auroc=0.95),
            base_rate=0.2,
        ),
    }


KINDS = (
    *("Run", "Run of a folder", "Report", "Guardrail", "Decision", "Certification"),
    *("ComparisonRun", "AuditRun", "ShiftRun", "JudgedRates", "BatchSelection", "GuardrailCard"),
    *("Diagnosis", "Plan"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_is_a_few_lines_with_the_verdict_first(kind: str, results: dict[str, Any]) -> None:
    shown = repr(results[kind])
    assert shown.startswith(kind.partition(" ")[0])
    assert len(shown) < 1_000 and shown.count("\n") < 4
    # None where nothing was asked.
    verdict = getattr(results[kind], "verdict", None) or ""
    asked = getattr(results[kind], "requirement", None)
    assert "required >=" in shown or not (verdict and asked and asked.min_coverage)
    assert verdict.lower() in shown.partition("\n")[0].lower()


@pytest.mark.parametrize("kind", KINDS)
def test_a_notebook_gets_a_short_page_in_a_frame_that_runs_nothing(
    kind: str, results: dict[str, Any]
) -> None:
    shown = results[kind]._repr_html_()
    assert len(shown) < 120_000
    frames = Frames()
    frames.feed(shown)
    ((tag, attributes),) = frames.tags
    assert tag == "iframe" and attributes["sandbox"] == ""
    page = attributes["srcdoc"] or ""
    assert page.startswith("<!doctype html>") and "script-src 'none'" in page
    assert "<script" not in page and "<b>a</b>" not in page and "<svg" not in page


def test_no_text_of_the_data_is_shown(results: dict[str, Any]) -> None:
    texts = [example.response for example in read(SOURCE) if len(example.response) > 20]
    for kind in KINDS:
        shown = repr(results[kind]) + html.unescape(results[kind]._repr_html_())
        assert not [text for text in texts if text in shown]


def test_names_from_the_data_are_escaped_and_cleaned() -> None:
    rows = [
        {"id": str(i), "<img src=x onerror=alert(1)>\u202e": i % 7 + 3 * (i % 2), "label": i % 2}
        for i in range(200)
    ]
    name = next(iter(rows[0].keys() - {"id", "label"}))
    score = calibrail.scores.registry.build_column(str(name), "hallucinated")
    run = calibrail.calibrate(rows, score, alpha=0.2)
    assert "\u202e" not in repr(run)
    page = html.unescape(run._repr_html_())
    assert "<img" not in page and re.search("&lt;img", page)


class Frames(HTMLParser):
    """Collects the tags of a fragment with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
