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
        Its scores, with its copies.
    copies : Copies
        How copies are known.
    known_by : KnownBy
        How answers are.
    """

    opened: Reading
    table: ScoreTable
    copies: Copies
    known_by: KnownBy


def scored_columns(
    source: Source,
    reading: ReadOptions | None,
    opened: Reading,
    detectors: Sequence[Score],
    keep: Sequence[str],
    *,
    labelled: bool = True,
    progress: Progress | None = None,
) -> ScoredColumns | None:
    """Score a source by its columns; None where its rows must be read one by one.

    Parameters
    ----------
    source, reading, labelled
        What was opened, and how.
    opened : Reading
        Not begun; nothing of it is used up where None is returned.
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
            opened = open_source(source, reading, detectors, keep=keep, labelled=labelled)
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
            cells = [score.cells(table.columns[key_of(score)]) for score in scores]
            copies = copies_by_scores(cells, table.labels)
            if copies.n_by_scores:
                table = replace(table, copies=copies.groups)
            return ScoredColumns(opened, table, copies, known_by)
    return None


def _watched(blocks: Iterator[Block], known_by: KnownBy) -> Iterator[Block]:
    for block in blocks:
        known_by.add_many(block.by_content, int(np.count_nonzero(block.by_nothing)))
        yield block
