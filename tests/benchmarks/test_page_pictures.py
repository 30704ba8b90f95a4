"""The pictures of pages are those that commands draw, one for light pages and one for dark ones."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from types import ModuleType

import pytest
from markupsafe import Markup
from PIL import Image

from calibrail.options.fields import cli_spelling
from calibrail.report import html
from calibrail.report.documents import monitor


@pytest.fixture
def pictures(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("page_pictures")


def test_every_picture_of_a_page_has_a_light_and_a_dark_version(repository: Path) -> None:
    docs = repository / "docs"
    seen = 0
    for page in docs.rglob("*.md"):
        shown = re.findall(r"!\[([^\]]*)\]\(([^)]*figures/[^)]*)\)", page.read_text("utf-8"))
        light = [
            (text, path) for text, path in shown if re.search(r"-light\.\w+#only-light$", path)
        ]
        twins = [
            (text, path.replace("-light.", "-dark.").replace("#only-light", "#only-dark"))
            for text, path in light
        ]
        assert sorted(shown) == sorted([*light, *twins]), page
        for _, path in shown:
            assert (page.parent / path.split("#")[0]).is_file(), path
        seen += len(shown)
    assert seen > 20


def test_a_narrow_picture_stands_behind_the_one_it_replaces_on_a_phone(repository: Path) -> None:
    rules = (repository / "docs" / "stylesheets" / "extra.css").read_text(encoding="utf-8")
    assert 'img:not([src*="-narrow-"]):has(~ img[src*="-narrow-"])' in rules
    found = 0
    for page in (repository / "docs").glob("*.md"):
        for part in page.read_text(encoding="utf-8").split("\n\n"):
            shown = re.findall(r"\(figures/([^)]*-(?:light|dark)\.(?:svg|png))#", part)
            if any("-narrow-" in name for name in shown):
                wide, narrow = shown[::2], shown[1::2]
                assert [name.replace("-narrow-", "-") for name in narrow] == wide, page
                found += 1
    assert found >= 5


@pytest.mark.painted
def test_the_plan_is_that_of_its_page_and_has_no_ground(
    pictures: ModuleType, repository: Path, tmp_path: Path
) -> None:
    pictures.draw_plan(tmp_path / "plan.svg")
    for scheme in ("light", "dark"):
        drawn = (tmp_path / f"plan-{scheme}.svg").read_bytes()
        assert drawn == (repository / "docs" / "figures" / f"plan-{scheme}.svg").read_bytes()
        assert b"#ffffff" not in drawn and b"var(" not in drawn
    light, dark = ((tmp_path / f"plan-{name}.svg").read_bytes() for name in ("light", "dark"))
    assert light != dark


def test_the_marks_of_the_report_are_explained_below_it(
    pictures: ModuleType, repository: Path
) -> None:
    text = (repository / "docs" / "report.md").read_text(encoding="utf-8")
    for number in range(1, len(pictures.MARKED) + 1):
        assert re.search(rf"^(.*, )?{number} the |, {number} ", text, re.MULTILINE), number
    for scheme in ("light", "dark"):
        for name in ("report", "report-narrow"):
            path = repository / "docs" / "figures" / f"{name}-{scheme}.png"
            assert path.stat().st_size < 150_000


def photographed(repository: Path, name: str) -> dict[str, str]:
    """Return what both photographs of a page hold beside what they show."""
    figures = repository / "docs" / "figures"
    light, dark = (Image.open(figures / f"{name}-{each}.png").info for each in ("light", "dark"))
    assert light["words"] == dark["words"]
    return {key: str(value) for key, value in light.items()}


def test_the_photograph_of_the_report_has_the_words_of_now(
    pictures: ModuleType, repository: Path, tmp_path: Path
) -> None:
    page = pictures.marked_report(tmp_path / "report").read_text(encoding="utf-8")
    for name in ("report", "report-narrow"):
        assert pictures.words(page) == photographed(repository, name)["words"]


def test_the_photograph_of_the_watch_has_the_words_of_now(
    pictures: ModuleType, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What its figures show is not kept.
    monkeypatch.setattr(html, "_svg", lambda *_: Markup("<svg></svg>"))
    kept = photographed(repository, "watch")
    assert photographed(repository, "watch-narrow") == kept
    names = {"guardrail": "guardrail.json", "logs": ("log",), "labels": "audit"}
    with cli_spelling():
        page = html.render_page(monitor.document(json.loads(kept["made of"]), **names))
    assert pictures.words(page) == kept["words"] and "Broken" in kept["words"]
