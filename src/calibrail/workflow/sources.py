"""How is a file of answers opened for one streaming pass?"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from calibrail.data.example import TEXT_FIELDS
from calibrail.data.reader import read
from calibrail.data.reading import Reading
from calibrail.data.sources import Source, spoken
from calibrail.guardrail.runtime import Guardrail
from calibrail.scores.base import Score
from calibrail.settings.reading import ReadOptions

#: Answers that are decided about, or counted, at a time.
BLOCK = 256

_Item = TypeVar("_Item")


def open_source(
    source: Source,
    reading: ReadOptions | None = None,
    scores: Iterable[Score] = (),
    *,
    keep: Sequence[str] = (),
    labelled: bool = True,
    allow_none: bool = False,
    by_sentence: bool = False,
) -> Reading:
    """Open examples for one streaming pass.

    Parameters
    ----------
    source : path, str or data in memory
        Where the examples are.
    reading : ReadOptions, optional
        How to read them.
    scores : iterable of Score
        Every row needs the fields that they read; their columns are kept.
    keep : sequence of str
        Further columns to keep.
    labelled, allow_none : bool
        Whether every row needs a label, and whether a file without a usable row is fine.
    by_sentence : bool
        Whether marks are read, as `read` says.
    """
    scores = tuple(scores)
    # Answers without samples are read, and the score that wants them is undefined there.
    texts = [name for score in scores for name in score.requires if name in TEXT_FIELDS]
    return read(
        source,
        reading,
        keep=tuple(dict.fromkeys((*columns_of(scores), *keep))),
        require=tuple(dict.fromkeys(texts)),
        labelled=labelled,
        allow_none=allow_none,
        by_sentence=by_sentence,
    )


def open_for(
    guardrail: Guardrail,
    source: Source,
    reading: ReadOptions | None,
    *,
    keep: Sequence[str] = (),
    labelled: bool = True,
    by_sentence: bool = False,
) -> Reading:
    """Open answers for a guardrail to decide about, one that its score cannot read among them.

    Raises
    ------
    DataError
        The source has no column of the texts, or of the scores, that the guardrail reads.
    """
    return read(
        source,
        reading,
        keep=tuple(dict.fromkeys((*guardrail.columns, *keep))),
        require=(),
        expect=guardrail.texts,
        labelled=labelled,
        allow_none=not labelled,
        by_sentence=by_sentence,
    )


def columns_of(scores: Iterable[Score]) -> tuple[str, ...]:
    """Return the columns of the data that scores read, each once."""
    names = (name for score in scores for name in getattr(score, "columns", ()))
    return tuple(dict.fromkeys(names))


def batches(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Yield `BLOCK` items at a time."""
    rest = (item for item in items)
    while batch := list(islice(rest, BLOCK)):
        yield batch


def source_name(source: Source | None) -> str | None:
    """Return how a report names a source."""
    if source is None:
        return None
    return spoken(source)
