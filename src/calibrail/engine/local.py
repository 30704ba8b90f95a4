"""How are examples scored in this process, each text embedded once and none of them kept?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.models.encoder import Encoder
from calibrail.scores.arrow import string_array
from calibrail.scores.base import Demanding, Score
from calibrail.scores.registry import key_of
from calibrail.scores.table import ScoreTable

#: Examples at a time: enough for batches of similar length.
BLOCK = 1024
#: Characters at a time, so that the word vectors of a block fit into the encoder's store (about
#: 200 bytes a character) and no text of the block is embedded twice.
BLOCK_CHARACTERS = 2_000_000


def score_examples(
    examples: Iterable[Example],
    scores: Sequence[Score],
    *,
    keep: Sequence[str] = (),
    block: int = BLOCK,
    progress: Callable[[int], None] | None = None,
) -> ScoreTable:
    """Score examples in blocks; of each text only what the table holds is kept.

    Before a block is scored, the texts that its scores will look up are embedded together, so that
    a distinct text runs through an encoder once, whatever the number of scores.

    Parameters
    ----------
    examples : iterable of Example
        Consumed once.
    scores : sequence of Score
        Each may be named once.
    keep : sequence of str
        Columns of the examples to return as they are.
    block : int
        Examples at a time at most; fewer where their texts are long.
    progress : callable, optional
        Called with the number of examples scored so far.

    Raises
    ------
    InputError
        If a score is named twice, ``block`` is not positive, or a score returns another number of
        values than it was given examples.
    """
    if block < 1:
        raise InputError(f"block must be at least 1; got {block!r}")
    keys = [key_of(score) for score in scores]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise InputError(f"each score may be named once; got {', '.join(twice)} twice")
    rows = _Rows(keys, keep)
    seconds = dict.fromkeys(keys, 0.0)
    encoders: dict[int, Encoder] = {}
    cut: set[tuple[int, bytes]] = set()
    for batch in _blocks(examples, block):
        started = time.perf_counter()
        cut |= _embed(batch, scores, encoders)
        if encoders:
            seconds["embedding"] = seconds.get("embedding", 0.0) + time.perf_counter() - started
        for key, score in zip(keys, scores, strict=True):
            started = time.perf_counter()
            result = score.score(batch)
            seconds[key] += time.perf_counter() - started
            if len(result.values) != len(batch):
                raise InputError(
                    f"the score {key} returned {len(result.values)} values "
                    f"for {len(batch)} examples"
                )
            rows.add_scores(key, result.values, result.reasons)
        rows.add(batch)
        if progress is not None:
            progress(rows.n)
    return rows.table(seconds, len(cut))


def _blocks(examples: Iterable[Example], block: int) -> Iterator[list[Example]]:
    batch: list[Example] = []
    characters = 0
    for example in examples:
        size = len(example.question) + len(example.response) + sum(map(len, example.contexts))
        if batch and (len(batch) == block or characters + size > BLOCK_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(example)
        characters += size
    if batch:
        yield batch


def _embed(
    batch: Sequence[Example], scores: Sequence[Score], encoders: dict[int, Encoder]
) -> set[tuple[int, bytes]]:
    """Embed what the scores will look up; return which texts an encoder could not read whole."""
    texts: dict[int, dict[str, None]] = {}
    word_texts: dict[int, dict[str, None]] = {}
    for score in scores:
        if isinstance(score, Demanding):
            demand = score.demand(batch)
            key = id(demand.encoder)
            if key not in encoders:
                # What an earlier run left behind was embedded in other batches: the same data
                # must give the same bytes whatever ran before.
                demand.encoder.forget()
                encoders[key] = demand.encoder
            texts.setdefault(key, {}).update(dict.fromkeys(demand.texts))
            word_texts.setdefault(key, {}).update(dict.fromkeys(demand.word_texts))
    cut = set()
    for key, encoder in encoders.items():
        if key in texts:
            encoder.prepare(texts[key], word_texts[key])
            # Word vectors cover a text of any length, so only sentence vectors are cut short.
            cut |= {(key, text) for text in encoder.cut(texts[key])}
    return cut


class _Rows:
    """Collects columns block by block, as arrays, so that a million rows stay small."""

    def __init__(self, keys: Sequence[str], keep: Sequence[str]) -> None:
        self.n = 0
        self._ids: list[pa.Array] = []
        self._groups: list[pa.Array] = []
        self._labels: list[NDArray[np.int8]] = []
        self._digests: list[NDArray[np.uint64]] = []
        self._values: dict[str, list[NDArray[np.float64]]] = {key: [] for key in keys}
        self._reasons: dict[str, dict[int, str]] = {key: {} for key in keys}
        self._kept: dict[str, list[Any]] = {column: [] for column in keep}

    def add_scores(self, key: str, values: NDArray[np.float64], reasons: Any) -> None:
        self._values[key].append(values)
        self._reasons[key].update({self.n + row: reason for row, reason in reasons.items()})

    def add(self, batch: Sequence[Example]) -> None:
        self._ids.append(string_array([example.id for example in batch]))
        self._groups.append(string_array([example.group for example in batch]))
        labels = [-1 if example.label is None else example.label for example in batch]
        self._labels.append(np.array(labels, dtype=np.int8))
        digests = [int(example.digest(), 16) for example in batch]
        self._digests.append(np.array(digests, dtype=np.uint64))
        for column, cells in self._kept.items():
            cells.extend(example.columns.get(column) for example in batch)
        self.n += len(batch)

    def table(self, seconds: dict[str, float], n_truncated: int) -> ScoreTable:
        return ScoreTable(
            ids=_joined(self._ids),
            groups=_joined(self._groups),
            labels=np.concatenate([np.zeros(0, np.int8), *self._labels]),
            columns={
                key: np.concatenate([np.zeros(0), *parts]) for key, parts in self._values.items()
            },
            reasons=self._reasons,
            digests=np.concatenate([np.zeros(0, np.uint64), *self._digests]),
            kept=self._kept,
            seconds=seconds,
            n_truncated=n_truncated,
        )


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays(arrays) if arrays else string_array([])
