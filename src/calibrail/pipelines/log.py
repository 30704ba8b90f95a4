"""Verification and export of a decision log."""

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path

from calibrail.data.outputs import Output, refuse_foreign, refuse_read
from calibrail.errors import DataError, InputError, file_errors
from calibrail.guardrail.decision_log.verify import LogCheck, export, verify
from calibrail.guardrail.decision_log.writer import chains
from calibrail.options import fields
from calibrail.report.messages import say

Folders = str | PathLike[str] | Sequence[str | PathLike[str]]


def verify_log(folders: Folders, *, noted: Iterable[str] = ()) -> LogCheck:
    """Say whether a decision log is whole: no line changed, missing, moved or twice.

    Parameters
    ----------
    folders : path, or sequence of path
        The folder that ``calibrail serve --log`` writes, with that of its archive where there is
        one.
    noted : iterable of str
        Hashes of lines that were noted elsewhere, and must be there: they show what nothing in the
        folder can show, that its end was cut off.

    Raises
    ------
    DataError
        There is no log, or a file cannot be read.
    """
    hashes = fields.texts(noted, "noted")
    for item in hashes:
        if len(item) != 64 or set(item) - set("0123456789abcdef"):
            raise InputError(f"noted must be hashes of lines, of 64 hex digits; got {item!r:.80}")
    paths = _paths(folders)
    with file_errors("cannot read the decision log"):
        return verify(paths, hashes)


def export_log(folders: Folders, output: str | PathLike[str]) -> tuple[int, int]:
    """Write the decisions of a log as one Parquet file; memory does not grow with the log.

    Returns
    -------
    rows, unreadable : int
        Decisions written, and lines left out since they are not what was written.

    Raises
    ------
    DataError
        There is no log, or a file cannot be read or written.
    """
    path = fields.path(output, "output")
    paths, target = _paths(folders), Output("", path, kind="log_export")
    refuse_read([target], paths)
    refuse_foreign([target], force=None)
    with file_errors(f"cannot write {path}"):
        return export(paths, path)


def _paths(folders: Folders) -> list[Path]:
    given = [folders] if isinstance(folders, str | PathLike) else list(folders)
    paths = [fields.path(item, "folders") for item in given]
    with file_errors("cannot read the decision log", "; name the folder that --log names"):
        if not chains(paths):
            raise DataError(say("refused.no_decision_log", paths=", ".join(map(str, paths))))
    return paths
