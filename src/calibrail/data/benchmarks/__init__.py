"""Registry of benchmarks, folders of files.

One file each. Every reader yields rows under calibrail's own field names, which then pass the same
checks as any other row.
"""

from collections.abc import Collection
from typing import Final

from calibrail.data.benchmarks._base import Folder, Native
from calibrail.data.benchmarks.question_answering import HALUEVAL, NATURAL_QUESTIONS, TRUTHFULQA
from calibrail.data.benchmarks.spans import FAITHBENCH, RAGTRUTH, WIKIBIO

#: The benchmarks that are one table, and those that are two files of a folder.
NATIVES: Final[tuple[Native, ...]] = (HALUEVAL, NATURAL_QUESTIONS, TRUTHFULQA, WIKIBIO)
FOLDERS: Final[tuple[Folder, ...]] = (RAGTRUTH, FAITHBENCH)


def folder_of(format: str | None, names: Collection[str]) -> Folder | None:
    """Return the benchmark that was named, or the one whose files a folder holds.

    >>> folder = folder_of(None, {"summaries.csv", "spans.csv", "README.md"})
    >>> folder.name, folder_of("csv", {"summaries.csv", "spans.csv"})
    ('faithbench', None)
    """
    for folder in FOLDERS:
        if folder.name == format or (format is None and {*folder.holds} <= set(names)):
            return folder
    return None
