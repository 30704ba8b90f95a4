"""Does axe-core, which checks the rules of WCAG, find nothing to object to on any kind of page?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from calibrail import calibrate, card
from calibrail.data.example import Example
from calibrail.pipelines.card import explanation
from calibrail.report import render_page
from calibrail.report.documents import build_document
from tests.installed import need
from tests.report.reports import NOISE, comparison, errors, render, report
from tests.ui.driven import Tab
from tests.ui.sessions import plain
from tests.ui.visits import opened, serving

need("axe_playwright_python")


def of_report() -> str:
    return render(report(max_fpr=0.2, baselines={"length": NOISE}), examples=errors())


def of_comparison() -> str:
    return render_page(build_document("compare", comparison(max_fpr=0.2)))


def of_card() -> str:
    return card(calibrate("example:facts", "novelty", alpha=0.2, max_fpr=0.6).freeze()).html()


def of_decision() -> str:
    guardrail = calibrate("example:facts", "novelty", alpha=0.2, max_fpr=0.6).freeze()
    answer = Example("What is it?", ("It is a metal.",), "It is a gas, found in Vienna.", id="a")
    (decision,) = guardrail.decide([answer])
    content = decision.to_dict(evidence=True)
    return render_page(
        build_document("explain", content, **explanation(guardrail, answer, decision))
    )


@pytest.mark.parametrize("made", [of_report, of_comparison, of_card, of_decision])
def test_pages_of_results_keep_the_rules(made: Callable[[], str], tab: Tab, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(made(), encoding="utf-8")
    for scheme, width in (("light", 1200), ("dark", 390)):
        tab.scheme(scheme)
        tab.size(width, 900, phone=width < 400)
        tab.open((tmp_path / "page.html").as_uri())
        tab.until("document.readyState", "complete")
        assert tab.violations() == []


def test_the_page_where_people_label_keeps_the_rules(tab: Tab, tmp_path: Path) -> None:
    with serving(tmp_path, plain(3)) as address:
        for scheme in ("light", "dark"):
            tab.scheme(scheme)
            opened(tab, address)
            assert tab.violations() == []


def test_what_breaks_a_rule_is_found(tab: Tab, tmp_path: Path) -> None:
    page = "<!doctype html><title>a</title><html lang=en><main><img src='data:,'></main>"
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    tab.open((tmp_path / "page.html").as_uri())
    tab.until("document.readyState", "complete")
    assert "image-alt" in [rule for rule, *_ in tab.violations()]
