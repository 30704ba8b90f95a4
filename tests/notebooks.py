"""What do the notebooks of the docs say when they are run?

``make notebooks`` runs ``python -m tests.notebooks``, which writes their outputs again.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> Any:
    """Return a notebook as it is committed."""
    return nbformat.read(path, as_version=4)


def executed(path: Path, folder: Path) -> Any:
    """Return a notebook with the outputs of a run in a folder, and nothing else of it."""
    notebook = read(path)
    NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(folder)}}, record_timing=False
    ).execute()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        cell.metadata = {}
    return notebook


if __name__ == "__main__":
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(executed(path, Path(folder)), path)
        print(path.name)
