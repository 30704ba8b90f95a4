"""Registry of benchmarks, folders of files.

One file each. Every reader yields rows under calibrail's own field names, which then pass the same
checks as any other row.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from calibrail.data.benchmarks.question_answering import HALUEVAL, NATURAL_QUESTIONS, TRUTHFULQA
from calibrail.data.benchmarks.spans import (
    FAITHBENCH_FILES,
    RAGTRUTH_FIELDS,
    RAGTRUTH_FILES,
    WIKIBIO,
    faithbench_files,
    faithbench_rows,
    ragtruth_files,
    ragtruth_rows,
)
from calibrail.data.rows import ParsedItem
from calibrail.options import ReadOptions

#: The benchmarks that are one table.
NATIVES = (HALUEVAL, NATURAL_QUESTIONS, TRUTHFULQA, WIKIBIO)


@dataclass(frozen=True, slots=True)
class Folder:
    """A benchmark's name, how it is recognised and how it is read.

    Parameters
    ----------
    name : str
        The format's name, as ``--format`` takes it.
    holds : frozenset of str
        Names of the files that belong together.
    signatures : tuple of frozenset of str
        Either file alone is of this format where its rows have all the fields of one of these.
    options : tuple of str
        The reader options that it knows.
    cells : bool
        Whether texts come from CSV cells.
    files : callable
        From the folder, or one of its files, to those that are read.
    rows : callable
        From the same, and how it is read, to its rows.
    """

    name: str
    holds: frozenset[str]
    signatures: tuple[frozenset[str], ...]
    options: tuple[str, ...]
    cells: bool
    files: Callable[[Path], tuple[Path, ...]]
    rows: Callable[[Path, ReadOptions], Iterator[ParsedItem]]


FOLDERS: Final = (
    Folder(
        "ragtruth",
        frozenset(RAGTRUTH_FILES),
        RAGTRUTH_FIELDS,
        ("task", "split"),
        False,
        ragtruth_files,
        lambda path, reading: ragtruth_rows(path, **(reading.options or {})),
    ),
    Folder(
        "faithbench",
        frozenset(FAITHBENCH_FILES),
        (),
        ("worst",),
        True,
        faithbench_files,
        lambda path, reading: faithbench_rows(
            path, **(reading.options or {}), annotators=reading.annotators or "any"
        ),
    ),
)


def folder_of(format: str | None, names: Collection[str]) -> Folder | None:
    """Return the benchmark that was named, or the one whose files a folder holds.

    >>> folder = folder_of(None, {"summaries.csv", "spans.csv", "README.md"})
    >>> folder.name, folder_of("csv", {"summaries.csv", "spans.csv"})
    ('faithbench', None)
    """
    for folder in FOLDERS:
        if folder.name == format or (format is None and folder.holds <= set(names)):
            return folder
    return None
