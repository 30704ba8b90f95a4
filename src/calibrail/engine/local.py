"""How are examples scored in this process, each text embedded once and none of them kept?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from calibrail.data.arrow import string_array
from calibrail.data.example import Example
from calibrail.engine.ledger import Ledger
from calibrail.errors import InputError
from calibrail.models.batches import blocks
from calibrail.models.embedding import Encoder
from calibrail.scores.base import Demand, Demanding, Score, SharedModel, prepare
from calibrail.scores.registry import key_of
from calibrail.scores.table import Cost, ScoreTable

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

    Before a block is scored, what its scores will look up in models is computed together, so that
    a distinct text (or pair of texts) runs through a model once, whatever the number of scores.

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
    ledger = Ledger(keys, scores)
    cut: set[tuple[int, bytes]] = set()
    # What an earlier run left behind was computed in other batches: the same data must give the
    # same bytes whatever ran before.
    for model in ledger.models:
        model.forget()
    for batch in blocks(examples, _characters, block, BLOCK_CHARACTERS):
        cut |= _prepare(batch, scores, ledger)
        for key, score in zip(keys, scores, strict=True):
            with ledger.scoring(key):
                result = score.score(batch)
            if len(result.values) != len(batch):
                raise InputError(
                    f"the score {key} returned {len(result.values)} values "
                    f"for {len(batch)} examples"
                )
            rows.add_scores(key, result.values, result.reasons)
        rows.add(batch)
        if progress is not None:
            progress(rows.n)
    return rows.table(ledger.costs(rows.n), len(cut), ledger.n_cut())


def _characters(example: Example) -> int:
    return len(example.question) + len(example.response) + sum(map(len, example.contexts))


def _prepare(
    batch: Sequence[Example], scores: Sequence[Score], ledger: Ledger
) -> set[tuple[int, bytes]]:
    """Compute what the scores will look up; return which texts an encoder could not read whole."""
    asked: dict[int, tuple[SharedModel, list[Demand]]] = {}
    for score in scores:
        for demand in score.demands(batch) if isinstance(score, Demanding) else ():
            asked.setdefault(id(demand.model), (demand.model, []))[1].append(demand)
    cut: set[tuple[int, bytes]] = set()
    for key, (model, demands) in asked.items():
        with ledger.preparing(model):
            prepare(demands)
        if isinstance(model, Encoder):
            # Word vectors cover a text of any length, so only sentence vectors are cut short.
            texts = {text for demand in demands for text in demand.parts[0]}
            cut |= {(key, text) for text in model.cut(texts)}
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

    def table(self, costs: tuple[Cost, ...], n_truncated: int, n_cut: int) -> ScoreTable:
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
            costs=costs,
            n_truncated=n_truncated,
            n_cut=n_cut,
        )


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays(arrays) if arrays else string_array([])
