"""Score_sentences()."""

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa

from calibrail.data.example import Example
from calibrail.data.formats import Source
from calibrail.data.reading import Reading
from calibrail.data.sentences import sentence_examples
from calibrail.data.tables import number_array, string_array
from calibrail.engine import score_parts
from calibrail.errors import InputError
from calibrail.options import ReadOptions
from calibrail.options.data import Annotators
from calibrail.options.fields import optional
from calibrail.options.keywords import options_from_keywords
from calibrail.pipelines.loading import Progress, open_source
from calibrail.pipelines.scoring import resolve_unlearnt
from calibrail.scores.base import Score, require_sentences
from calibrail.scores.custom import ScoreLike
from calibrail.scores.registry import key_of
from calibrail.scores.table import ScoreFile, ScoreTable

#: Columns that say which sentence a row is: its number, from 1, and its characters in the answer.
PLACES: Final = ("sentence", "start", "end")

#: Called with the next rows, and with their columns of `PLACES`.
Take = Callable[[ScoreTable, dict[str, pa.Array]], None]


class _Place(NamedTuple):
    """Which sentence a row is."""

    id: str
    sentence: int
    start: int
    end: int


@options_from_keywords(reading=ReadOptions, override=True)
def score_sentences(
    source: Source,
    scores: ScoreLike | Sequence[ScoreLike],
    reading: ReadOptions | None = None,
    *,
    format: str | None = None,
    preset: str | None = None,
    mapping: Mapping[str, str] | None = None,
    label_column: str | tuple[str, ...] | None = None,
    label_map: Mapping[str, Any] | None = None,
    positive: str | float | None = None,
    annotators: Annotators | None = None,
    group_column: str | None = None,
    id_column: str | None = None,
    options: Mapping[str, Any] | None = None,
    strict: bool = False,
    limit: int | None = None,
    sample: int | None = None,
    sample_seed: int = 0,
    span_share: float = 0.0,
    quarantine: str | PathLike[str] | None = None,
) -> pa.Table:
    """Score every sentence of every answer, labelled or not.

    Nothing of a sentence's score depends on what comes after it; see `Example.before`.

    Parameters
    ----------
    source, reading, format, preset, mapping, ...
        As in `read`.
    scores : str, Score or sequence
        As `calibrate` takes them; none that learns.

    Returns
    -------
    pyarrow.Table
        One row a sentence, what ``calibrail score --unit sentence`` writes: ``id`` of its answer,
        ``sentence`` (its number, from 1), ``start`` and ``end`` (its characters), ``group``,
        ``label`` (1 = unsupported, null where the data does not say), and a column a score, higher
        = more likely unsupported, null where ``NAME__reason`` says why.

    Raises
    ------
    DataError
        If no row is usable.
    InputError
        If a score is unknown, or learns.

    Examples
    --------
    >>> rows = [{"id": "a", "contexts": ["It rained."], "response": "It rained. Frogs sang."}]
    >>> score_sentences(rows, "novelty").select(["sentence", "novelty"]).to_pylist()
    [{'sentence': 1, 'novelty': 0.0}, {'sentence': 2, 'novelty': 1.0}]
    """
    file = ScoreFile()
    made, _ = score_sentences_by_parts(source, scores, file.add, reading=reading)
    file.add(made, columns_of_places([]))
    return file.table().combine_chunks()


def score_sentences_by_parts(
    source: Source,
    scores: ScoreLike | Sequence[ScoreLike],
    take: Take,
    *,
    reading: ReadOptions | None = None,
    progress: Progress | None = None,
) -> tuple[ScoreTable, Reading]:
    """Score as `score_sentences` does, in constant memory: ``take`` gets the rows part by part.

    The table that is returned has no rows; it holds what the scores cost. ``progress`` is told how
    many answers are done.
    """
    detectors = resolve_unlearnt(scores)
    require_sentences(detectors)
    _refuse_places(detectors)
    share = optional(reading, ReadOptions, "reading").span_share
    examples = open_source(source, reading, detectors, labelled=False, by_sentence=True)
    waiting: deque[_Place] = deque()
    ends = array("q", [0])

    def sentences() -> Iterator[Example]:
        for example in examples:
            parts = sentence_examples(example, share)
            ends.append(ends[-1] + len(parts))
            waiting.extend(_places(example, parts))
            yield from parts

    def placed(part: ScoreTable) -> None:
        rows = [waiting.popleft() for _ in range(len(part))]
        take(replace(part, ids=string_array([row.id for row in rows])), columns_of_places(rows))

    def told(n: int) -> None:
        if progress is not None:
            progress(bisect_right(ends, n) - 1)

    return score_parts(sentences(), detectors, placed, progress=told), examples


def columns_of_places(rows: Sequence[_Place]) -> dict[str, pa.Array]:
    """Return the columns that say which sentences rows are."""
    kinds = dict(zip(PLACES, (np.int64, np.int32, np.int32), strict=True))
    every = np.ones(len(rows), dtype=bool)
    columns = {
        name: np.array([getattr(row, name) for row in rows], kind) for name, kind in kinds.items()
    }
    return {name: number_array(cast(Any, column), every) for name, column in columns.items()}


def _places(example: Example, parts: Iterable[Example]) -> Iterator[_Place]:
    for number, part in enumerate(parts, start=1):
        start = len(part.before or "")
        yield _Place(example.id, number, start, start + len(part.response))


def _refuse_places(detectors: Iterable[Score]) -> None:
    if taken := [name for name in map(key_of, detectors) if name in PLACES]:
        raise InputError(
            f"{taken[0]} is the name of a score, and of the column that tells which sentence a row "
            "is; rename the score's column in the data"
        )
