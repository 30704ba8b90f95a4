"""How are answers scored that are columns of scores alone, without an object for each?"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrail.data.columnar import Block, NotPlainError
from calibrail.data.copies import Copies, copies_by_scores
from calibrail.data.ids import repeated
from calibrail.data.reading import Reading
from calibrail.data.sources import Source
from calibrail.engine.columns import table_of_columns
from calibrail.scores.base import Score
from calibrail.scores.column import Column
from calibrail.scores.registry import key_of
from calibrail.scores.table import ScoreTable
from calibrail.settings import ReadOptions
from calibrail.workflow.context import Progress
from calibrail.workflow.freshness import KnownBy
from calibrail.workflow.sources import columns_of, open_source


class ScoredColumns(NamedTuple):
    """What came of a source that holds scores.

    Attributes
    ----------
    opened : Reading
        The source, read to its end.
    table : ScoreTable
        Its scores.
    known_by : KnownBy
        How answers are known.
    """

    opened: Reading
    table: ScoreTable
    known_by: KnownBy


def scored_columns(
    source: Source,
    reading: ReadOptions | None,
    opened: Reading,
    detectors: Sequence[Score],
    keep: Sequence[str],
    *,
    progress: Progress | None = None,
) -> ScoredColumns | None:
    """Score a source by its columns; None where its rows must be read one by one.

    Parameters
    ----------
    source, reading
        What was opened, and how.
    opened : Reading
        Not begun; it still is not where None is returned, or `Reading.begun` says so.
    detectors : sequence of Score
        What is asked for.
    keep : sequence of str
        Columns to keep.
    progress : callable, optional
        Called with the number of examples scored so far.
    """
    scores = [score for score in detectors if type(score) is Column]
    names, keys = columns_of(scores), {key_of(score) for score in scores}
    if not names or len(keys) < len(detectors) or set(names) & set(keep):
        return None
    known_twice: NDArray[np.uint64] | None = None
    for again in (False, True):
        if again:
            opened = open_source(source, reading, detectors, keep=keep)
        known_by = KnownBy()
        try:
            blocks = _watched(opened.blocks(names, known_twice), known_by)
            table = table_of_columns(blocks, scores, keep=keep, progress=progress)
        except NotPlainError:
            return None
        # Where rows have ids, their digests tell whether one has another's.
        known_twice = repeated(table.digests) if opened.has_ids else None
        if known_twice is None or not len(known_twice):
            opened.end()
            return ScoredColumns(opened, table, known_by)
    return None


def with_copies(table: ScoreTable, detectors: Sequence[Score]) -> tuple[ScoreTable, Copies]:
    """Return a table of columns with its copies, and how they are known: by their scores."""
    scores = {key_of(score): score for score in detectors if isinstance(score, Column)}
    cells = [score.cells(table.columns[key]) for key, score in scores.items()]
    copies = copies_by_scores(cells, table.labels)
    return (replace(table, copies=copies.groups) if copies.n_by_scores else table), copies


def _watched(blocks: Iterator[Block], known_by: KnownBy) -> Iterator[Block]:
    for block in blocks:
        known_by.add_many(block.by_content, int(np.count_nonzero(block.by_nothing)))
        yield block
