"""How is data split, and how do scores learn from the part that is theirs?"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from calibrail.data.by_sentence import sentence_examples
from calibrail.data.copies import Copies, CopyFinder, united
from calibrail.data.example import Example
from calibrail.data.reading import Reading
from calibrail.data.sources import Source, reusable
from calibrail.data.splits import FIT, split, split_from_column
from calibrail.engine import score_examples
from calibrail.errors import InputError
from calibrail.scores.base import Demanding, Fittable, Score
from calibrail.scores.learned import learns
from calibrail.scores.table import ScoreTable
from calibrail.settings import ReadOptions, SplitOptions
from calibrail.settings.checks import optional
from calibrail.settings.option import option_of
from calibrail.workflow.by_sentence import BySentence
from calibrail.workflow.sources import columns_of, open_source


class Watched:
    """Examples that are remembered by what tells copies apart, as they pass.

    Parameters
    ----------
    examples : iterable of Example
        Consumed once.
    detectors : iterable of Score
        The scores that are asked for: where there are no texts, the columns that they read tell
        copies apart.
    """

    def __init__(self, examples: Iterable[Example], detectors: Iterable[Score]) -> None:
        self._examples, self._finder = examples, CopyFinder(columns_of(detectors))

    def __iter__(self) -> Iterator[Example]:
        for example in self._examples:
            self._finder.add(example)
            yield example

    def finish(self, table: ScoreTable) -> tuple[ScoreTable, Copies]:
        """Return the table of these examples with its copies, and how they are known."""
        copies = self._finder.finish()
        if copies.sketches is None and not copies.n_by_scores:
            return table, copies
        return replace(table, copies=copies.groups), copies


def split_codes(table: ScoreTable, splitting: SplitOptions, learning: bool) -> NDArray[np.int8]:
    """Return where each row belongs."""
    if splitting.column is not None:
        grouped = table.groups.null_count < len(table)
        groups = table.groups.to_pylist() if grouped else None
        return split_from_column(table.kept[splitting.column], groups, column=splitting.column)
    shares = splitting.shares(learning)
    return split(table.labels, group_codes(table), ids=table.digests, seed=splitting.seed, **shares)


def fitted(
    detectors: tuple[Score, ...],
    source: Source,
    reading: ReadOptions | None,
    splitting: SplitOptions,
    keep: Sequence[str],
    by_sentence: BySentence | None = None,
) -> tuple[tuple[Score, ...], Source]:
    """Return the scores with those that learn fitted to the fit split, and what is read again.

    By sentence they learn from the sentences of these answers.
    """
    if not any(map(learns, detectors)):
        return detectors, source
    source = reusable(source)
    # What is unusable is set aside when the scores are computed.
    quiet = replace(optional(reading, ReadOptions, "reading"), quarantine=None)

    apart = by_sentence is not None

    def opened() -> Reading:
        return open_source(source, quiet, detectors, keep=keep, by_sentence=apart)

    watched = Watched(opened(), detectors)
    table, _ = watched.finish(score_examples(watched, (), keep=keep))
    codes = split_codes(table, splitting, learning=True)
    if not (codes == FIT).any():
        names = ", ".join(score.name for score in detectors if learns(score))
        remedy = (
            f"give it a share with {option_of(SplitOptions, 'fit_share', 0.3)}"
            if splitting.column is None
            else f"mark its rows as fit in the column {splitting.column!r}"
        )
        raise InputError(
            f"{names} learns from examples of its own, and none are set aside; {remedy}"
        )
    chosen = [example for example, code in zip(opened(), codes, strict=True) if code == FIT]
    if by_sentence is not None:
        share = by_sentence.share
        chosen = [item for example in chosen for item in sentence_examples(example, share)]
    learnt = list(detectors)
    for index, score in enumerate(detectors):
        if learns(score):
            for model in score.models if isinstance(score, Demanding) else ():
                # In whichever order scores learn, the same examples give the same state.
                model.forget()
            learnt[index] = cast(Fittable, score).fit(chosen)
    return tuple(learnt), source


def group_codes(table: ScoreTable) -> NDArray[np.int64]:
    """Return one integer per group; copies of an answer and their groups are one group."""
    groups = named_groups(table)
    return groups if table.copies is None else united(groups, table.copies)


def named_groups(table: ScoreTable) -> NDArray[np.int64]:
    """Return one integer per group of the data; an example without one is a group of its own."""
    if table.groups.null_count == len(table):
        return np.arange(len(table), dtype=np.int64)
    encoded = table.groups.dictionary_encode()
    indices = encoded.indices
    # Read from the buffers: Arrow's own conversion imports pandas where it is installed.
    stored = np.frombuffer(indices.buffers()[1], dtype=str(indices.type))
    codes = stored[indices.offset : indices.offset + len(indices)].astype(np.int64)
    if indices.null_count:
        bits = np.frombuffer(indices.buffers()[0], dtype=np.uint8)
        valid = np.unpackbits(bits, bitorder="little")[indices.offset :][: len(indices)]
        codes[valid == 0] = len(encoded.dictionary) + np.arange(indices.null_count)
    return codes
