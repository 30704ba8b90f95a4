"""Do the notebooks of the docs run, and say what is committed?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks import NOTEBOOKS, executed, read

FOUR = ["choosing-a-detector", "first-threshold", "label-until-certified", "own-detector"]


def texts(notebook: Any) -> list[list[str]]:
    """Return what each cell prints and shows as text, and that it shows a page where it does."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            shown = [output.get("data", {}) for output in cell.outputs]
            printed = [output.get("text", "") for output in cell.outputs]
            plain = [data.get("text/plain", "") for data in shown]
            found.append([*printed, *plain, *(str("text/html" in data) for data in shown)])
    return found


def test_there_are_four() -> None:
    assert [path.stem for path in NOTEBOOKS] == FOUR


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_says_what_is_committed(path: Path, tmp_path: Path) -> None:
    committed = read(path)
    assert any("True" in cell for cell in texts(committed))
    assert texts(executed(path, tmp_path)) == texts(committed), "run `make notebooks`, and look"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_hold_nothing_of_the_machine(path: Path) -> None:
    notebook = read(path)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert not any(cell.metadata for cell in notebook.cells)
    said = path.read_text(encoding="utf-8")
    assert not re.search(r"site-packages|/tmp/|/home/|/root/|UserWarning|Traceback", said)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_lead_to_pages(path: Path) -> None:
    words = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\(([^)#]+)", words)
    assert links
    assert [link for link in links if not (path.parent / link).is_file()] == []
