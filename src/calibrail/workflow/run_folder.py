"""How does what a run found become files in its folder?"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import DataError, file_errors
from calibrail.report import Document, render_page
from calibrail.report.render_junit import render_junit
from calibrail.report.render_markdown import render_comment
from calibrail.report.svg import figure_files
from calibrail.scores.table import ScoreTable
from calibrail.settings import checks
from calibrail.writing import write_atomically

COST_SCHEMA: Final = "calibrail.cost/1"

#: Values that are written at a time, and what has no parts.
_AT_A_TIME: Final = 1 << 14
_SINGLE: Final = {str, int, float, bool, type(None)}

#: What a file holds that is no page, by its ending.
_RENDERERS: Final = {".md": render_comment, ".markdown": render_comment, ".xml": render_junit}


def write_run(
    folder: str | Path,
    files: Mapping[str, Mapping[str, Any] | bytes],
    document: Document,
    *tables: ScoreTable,
    codes: NDArray[np.int8] | None = None,
    page: str = "report.html",
) -> Path:
    """Write a folder of results; every file is written whole or not at all.

    Parameters
    ----------
    folder : path
        Made where it does not exist.
    files : mapping
        Content of each JSON file, or of one of bytes, by its name.
    document : Document
        For the page and ``figures/NAME.svg``; figures of an earlier run are removed.
    *tables : ScoreTable
        For ``cost.json``: what each score cost, with the times measured.
    codes : ndarray of int8, shape (n,), optional
        The split of the one table, which is written to ``scores.parquet``.
    page : str
        Name of the page's file.

    Returns
    -------
    Path
        The folder.
    """
    path = checks.path(folder, "folder")
    figures = path / "figures"
    with file_errors(f"cannot write into the folder {path}", "; name another one"):
        figures.mkdir(parents=True, exist_ok=True)
    if codes is not None:
        tables[0].to_parquet(path / "scores.parquet", codes)
    for name, content in {"cost.json": cost_dict(*tables), **files}.items():
        if isinstance(content, bytes):
            write_atomically(path / name, content)
        else:
            write_atomically(path / name, json_parts(content))
    write_page(document.naming(RUN=path), path / page)
    write_figures(document, figures)
    return path


def write_figures(document: Document, folder: Path) -> None:
    """Write a document's figures; those of an earlier one are removed."""
    for old in folder.glob("*.svg"):
        old.unlink()
    for name, svg in figure_files(document).items():
        write_atomically(folder / f"{name}.svg", svg.encode("utf-8", "replace"))


def json_parts(content: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield JSON without NaN, in parts: whole it takes hundreds of bytes a number."""
    for part in _json(content, "\n"):
        yield part.encode("utf-8", "surrogatepass")
    yield b"\n"


def _json(value: Any, line: str) -> Iterator[str]:
    """Yield what `json.JSONEncoder` writes with an indent of 2, values without parts at once.

    With an indent, Python's encoder takes ten times as long for each number.
    """
    inner = f"{line}  "
    if isinstance(value, Mapping) and value:
        before = "{"
        for name, item in value.items():
            # As the encoder writes names that are no texts.
            yield f"{before}{inner}{_encoded({name: None})[1:-7]}: "
            yield from _json(item, inner)
            before = ","
        yield f"{line}}}"
    elif isinstance(value, Sequence) and not isinstance(value, str) and len(value):
        before = "["
        for start in range(0, len(value), _AT_A_TIME):
            items = list(value[start : start + _AT_A_TIME])
            if _SINGLE.issuperset(map(type, items)):
                yield f"{before}{inner}{_encoded(items, f',{inner}')[1:-1]}"
                before = ","
                continue
            for item in items:
                yield f"{before}{inner}"
                yield from _json(item, inner)
                before = ","
        yield f"{line}]"
    else:
        yield _encoded(value)


def _encoded(value: Any, between: str = ", ") -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(between, ": "))


def write_page(document: Document, path: Path) -> None:
    """Write a document as one page, or as what else its file's name ends in."""
    render = _RENDERERS.get(path.suffix.lower(), render_page)
    # Half of a surrogate pair may stand in a name; UTF-8 has no bytes for it.
    write_atomically(path, render(document).encode("utf-8", "replace"))


def cost_dict(*tables: ScoreTable) -> dict[str, Any]:
    """Return what each score cost, as ``cost.json`` holds it."""
    costs = [cost.to_dict() for table in tables for cost in table.costs]
    return {"schema": COST_SCHEMA, "scores": costs}


def read_json(path: Path, command: str = "calibrate") -> dict[str, Any]:
    """Read a JSON object, with an error that says which file of a run is missing or damaged."""
    remedy = f"; name a folder that `calibrail {command} ... -o FOLDER` wrote"
    try:
        with file_errors(f"cannot read {path}", remedy):
            content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}; run `calibrail {command}` again") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} does not hold a JSON object; run `calibrail {command}` again")
    return content
