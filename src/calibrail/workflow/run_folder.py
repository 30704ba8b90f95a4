"""How does what a run found become files in its folder?"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import DataError
from calibrail.guardrail.frozen import write_atomically
from calibrail.report import Document, render_page
from calibrail.report.svg import figure_files
from calibrail.scores.table import ScoreTable

COST_SCHEMA: Final = "calibrail.cost/1"


class RunFolder:
    """A folder of results; every file is written whole or not at all.

    Parameters
    ----------
    folder : path
        Made where it does not exist.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder)
        self.path.mkdir(parents=True, exist_ok=True)

    def json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON file."""
        write_json(self.path / name, content)

    def scores(self, table: ScoreTable, codes: NDArray[np.int8] | None = None) -> None:
        """Write ``scores.parquet``, with the split where there is one."""
        table.to_parquet(self.path / "scores.parquet", codes)

    def costs(self, *tables: ScoreTable) -> None:
        """Write ``cost.json``: what each score cost, with the times measured."""
        self.json("cost.json", cost_dict(*tables))

    def document(self, document: Document) -> None:
        """Write ``report.html`` and ``figures/NAME.svg``, removing figures of an earlier run."""
        write_page(document, self.path / "report.html")
        folder = self.path / "figures"
        folder.mkdir(exist_ok=True)
        for old in folder.glob("*.svg"):
            old.unlink()
        for name, svg in figure_files(document).items():
            write_atomically(folder / f"{name}.svg", svg.encode("utf-8", "replace"))

    def bytes(self, name: str, content: bytes) -> None:
        """Write a file of bytes."""
        write_atomically(self.path / name, content)


def write_page(document: Document, path: Path) -> None:
    """Write a document as one page."""
    # Half of a surrogate pair may stand in a name; UTF-8 has no bytes for it.
    write_atomically(path, render_page(document).encode("utf-8", "replace"))


def cost_dict(*tables: ScoreTable) -> dict[str, Any]:
    """Return what each score cost, as ``cost.json`` holds it."""
    costs = [cost.to_dict() for table in tables for cost in table.costs]
    return {"schema": COST_SCHEMA, "scores": costs}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON that any parser reads (no NaN), whole or not at all."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(path, text.encode("utf-8", "surrogatepass"))


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, with an error that says which file of a run is missing or damaged."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror or error}; name the folder that "
            "`calibrail calibrate ... -o FOLDER` wrote"
        ) from error
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}; run `calibrail calibrate` again") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} does not hold a JSON object; run `calibrail calibrate` again")
    return content
