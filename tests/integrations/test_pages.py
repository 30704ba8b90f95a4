"""Does every adapter have a page, a row in the table, a place in the navigation, and tests?"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.integrations.pages import ROOT, run_page
from tests.integrations.scenario import Scenario

PAGES = ROOT / "docs" / "integrations"
ROOM = ROOT / "src" / "calibrail" / "integrations"
#: Of the room itself.
SHARED = {"__init__", "gate", "streaming"}

ADAPTERS = sorted({path.stem for path in ROOM.glob("*.py")} - SHARED)
#: | [name](page) | version | entry point | what it cannot do |
ROW = re.compile(
    r"^\| \[[^]]+\]\(([a-z-]+)\.md\) \| ([^|]+) \| ([^|]+) \| ([^|]*) \|$", re.MULTILINE
)


def table() -> dict[str, str]:
    """Return the entry points that the table names, by page."""
    text = (PAGES / "index.md").read_text(encoding="utf-8")
    rows = list(ROW.finditer(text))
    entries = {row[1]: row[3] for row in rows}
    assert len(entries) == len(rows), "a framework stands in the table twice"
    return entries


def test_the_table_the_pages_and_the_adapters_are_the_same() -> None:
    named = {name.replace("_", "-") for name in ADAPTERS}
    assert set(table()) == named == {path.stem for path in PAGES.glob("*.md")} - {"index"}


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_is_tried_shown_and_kept_apart(adapter: str) -> None:
    page = adapter.replace("_", "-")
    assert (Path(__file__).parent / f"test_{adapter}.py").is_file()
    assert f"integrations/{page}.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    # What the table names is there, by that name.
    source = (ROOM / f"{adapter}.py").read_text(encoding="utf-8")
    names = re.findall(r"`([A-Za-z_]+)`", table()[page])
    defined = set(re.findall(r"^(?:async )?(?:class|def) (\w+)|^(\w+) ?[:=]", source, re.MULTILINE))
    ours = {name for pair in defined for name in pair}
    assert names[0] in ours or f"{names[0]}=" in source, names
    assert {name for name in names if "guardrail" in name.lower()} <= ours, names
    # Adapters share the room's own modules, and know none of each other; what one writes down for
    # its framework to run may name itself.
    imported = re.findall(r"calibrail\.integrations\.([a-z_]+) import", source)
    assert set(imported) <= SHARED | {adapter}, imported


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_to_import_an_adapter_loads_little_beside_its_framework(adapter: str) -> None:
    tree = ast.parse((ROOM / f"{adapter}.py").read_text(encoding="utf-8"))
    # What is imported for types, or within functions, is not loaded at once.
    loaded = [node for node in tree.body if isinstance(node, ast.ImportFrom | ast.Import)]
    names = {str(getattr(node, "module", "")) for node in loaded}
    ours = {name for name in names if name.startswith("calibrail")}
    light = {"calibrail.errors", "calibrail.guardrail.decision"}
    assert ours <= light | {f"calibrail.integrations.{name}" for name in SHARED}


def test_pages_of_adapters_that_stream_show_it() -> None:
    streaming = [
        adapter
        for adapter in ADAPTERS
        if "calibrail.integrations.streaming import" in (ROOM / f"{adapter}.py").read_text("utf-8")
    ]
    assert streaming
    for adapter in streaming:
        page = (PAGES / f"{adapter.replace('_', '-')}.md").read_text(encoding="utf-8")
        assert "stream" in page, adapter


def test_what_the_first_page_shows_runs(scenario: Scenario, tmp_path: Path) -> None:
    names = run_page("index", scenario, tmp_path)
    assert names["decision"].outcome in ("pass", "flag", "review")
    assert (tmp_path / "decisions").is_dir()
