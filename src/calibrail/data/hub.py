"""How is a data set of the Hugging Face hub read?"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrail.data.rows import Row, TableItem
from calibrail.errors import DataError


@dataclass(frozen=True, slots=True)
class HubTable:
    """One split of a data set that the ``datasets`` package downloaded."""

    dataset: Any

    def rows(self) -> Iterator[TableItem]:
        """Yield the rows, numbered from 1."""
        for number, values in enumerate(self.dataset, start=1):
            yield Row(number, values)

    def files(self) -> tuple[Path, ...]:
        """Return the cached files that hold the data, for a digest."""
        return tuple(Path(str(item["filename"])) for item in self.dataset.cache_files)


def open_hub(reference: str) -> HubTable:
    """Load ``NAME`` or ``NAME:split`` with the ``datasets`` package.

    Parameters
    ----------
    reference : str
        The part after ``hf:``. Without a split, ``test`` is read.

    Raises
    ------
    DataError
        ``datasets`` is not installed, or it cannot load the data set.
    """
    try:
        import datasets
    except ImportError as error:
        raise DataError(
            f"reading hf:{reference} needs the package datasets: pip install datasets"
        ) from error
    name, _, split = reference.partition(":")
    try:
        table = datasets.load_dataset(name, split=split or "test")
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(
            f"cannot load {name!r} (split {split or 'test'!r}) from the hub: {error}; the split "
            "can be named: hf:NAME:SPLIT"
        ) from error
    return HubTable(table)
