"""How is a file of answers opened for one streaming pass?"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from calibrail.data.example import TEXT_FIELDS, Example
from calibrail.data.reading import Reading, read
from calibrail.scores.base import Score
from calibrail.settings.reading import ReadOptions

#: A file, a folder, ``example:NAME``, or examples that are already in memory.
Source = str | Path | Iterable[Example]


def open_source(
    source: Source,
    reading: ReadOptions,
    *,
    require: Sequence[str],
    keep: Sequence[str] = (),
    labelled: bool = True,
    allow_none: bool = False,
) -> tuple[Iterator[Example], Reading | None]:
    """Open examples for one streaming pass; the reading is None for examples in memory."""
    if not isinstance(source, str | Path):
        return iter(source), None
    opened = read(
        source,
        reading,
        keep=tuple(keep),
        # Answers without samples are read, and the score that wants them is undefined there.
        require=tuple(name for name in require if name in TEXT_FIELDS),
        labelled=labelled,
        allow_none=allow_none,
    )
    return (example for example in opened), opened


def open_for(
    scores: Iterable[Score],
    source: Source,
    reading: ReadOptions,
    *,
    keep: Sequence[str] = (),
    labelled: bool = True,
) -> tuple[Iterator[Example], Reading | None]:
    """Open examples with the fields and columns that scores read, and those named in ``keep``."""
    scores = tuple(scores)
    require = dict.fromkeys(name for score in scores for name in score.requires)
    columns = [name for score in scores for name in getattr(score, "columns", ())]
    needed = tuple(dict.fromkeys((*columns, *keep)))
    return open_source(source, reading, require=tuple(require), keep=needed, labelled=labelled)


def source_name(source: Source | None) -> str | None:
    """Return how a report names a source."""
    if source is None:
        return None
    return str(source) if isinstance(source, str | Path) else "examples in memory"
