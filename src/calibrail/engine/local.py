"""How are examples scored in this process, each text embedded once and none of them kept?"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from sys import intern
from typing import Any

import numpy as np
import pyarrow as pa

from calibrail.data.arrow import string_array
from calibrail.data.example import Example
from calibrail.engine.ledger import Ledger
from calibrail.errors import InputError
from calibrail.models.embedding import Encoder
from calibrail.models.pairs import PairModel
from calibrail.models.remote import RemoteModel
from calibrail.models.store import blocks, telling
from calibrail.scores.base import Demand, Demanding, Score, Scores, prepare
from calibrail.scores.registry import key_of, scale_of
from calibrail.scores.table import ScoreTable

#: Examples at a time: enough for batches of similar length.
BLOCK = 1024
#: Characters at a time, so that the word vectors of a block fit into the encoder's store (about
#: 200 bytes a character) and no text of the block is embedded twice.
BLOCK_CHARACTERS = 2_000_000


def score_here(
    examples: Iterable[Example],
    scores: Sequence[Score],
    *,
    keep: Sequence[str] = (),
    block: int = BLOCK,
    progress: Callable[[int], None] | None = None,
    forget: bool = True,
) -> tuple[ScoreTable, frozenset[str]]:
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
        Called with the number of examples scored so far; within a block that a local model or a
        function of the user's computes, with about how many.
    forget : bool
        Whether endpoints' answers are forgotten before, too, as all is that local models know.

    Returns
    -------
    (ScoreTable, frozenset of str)
        The table, and what tells apart the texts that an encoder could not read whole.

    Raises
    ------
    InputError
        If a score is named twice, ``block`` is not positive, or a score returns another number of
        values than it was given examples.
    """
    tables: list[ScoreTable] = []
    made, cut = score_blocks(
        examples, scores, tables.append, keep=keep, block=block, progress=progress, forget=forget
    )
    return whole(made, tables), cut


def score_blocks(
    examples: Iterable[Example],
    scores: Sequence[Score],
    take: Callable[[ScoreTable], None],
    *,
    keep: Sequence[str] = (),
    block: int = BLOCK,
    progress: Callable[[int], None] | None = None,
    forget: bool = True,
) -> tuple[ScoreTable, frozenset[str]]:
    """Score examples as `score_here` does, and hand over the table of each block.

    Returns
    -------
    (ScoreTable, frozenset of str)
        A table without rows that holds what all blocks cost; what was cut.
    """
    if block < 1:
        raise InputError(f"block must be at least 1; got {block!r}")
    keys = keys_of(scores)
    ledger, scales = Ledger(keys, scores), dict(zip(keys, map(scale_of, scores), strict=True))
    cut: set[str] = set()
    # What an earlier run left behind was computed in other batches: the same data must give the
    # same bytes whatever ran before.
    for model in ledger.models:
        if forget or not isinstance(model, RemoteModel):
            model.forget()
    n = 0
    for batch in blocks(examples, characters, block, BLOCK_CHARACTERS):
        within = _within(progress, n, len(batch))
        cut |= _prepare(batch, scores, ledger, within)
        results: dict[str, Scores] = {}
        for key, score in zip(keys, scores, strict=True):
            with ledger.scoring(key), telling(within):
                results[key] = score.score(batch)
            if (given := len(results[key].values)) != len(batch):
                raise InputError(
                    f"the score {key} returned {given} values for {len(batch)} examples"
                )
        take(replace(_table(n, batch, results, keep), scales=scales))
        n += len(batch)
        if progress is not None:
            progress(n)
    made = replace(
        _table(0, [], dict.fromkeys(keys, Scores(np.zeros(0))), keep),
        costs=ledger.costs(n),
        n_truncated=len(cut),
        n_cut=ledger.n_cut(),
        scales=scales,
    )
    return made, frozenset(cut)


def keys_of(scores: Sequence[Score]) -> list[str]:
    """Return what scores are called.

    Raises
    ------
    InputError
        If one is named twice.
    """
    keys = [key_of(score) for score in scores]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise InputError(f"each score may be named once; got {', '.join(twice)} twice")
    return keys


def characters(example: Example) -> int:
    """Return the length of all texts of an example."""
    beside = sum(map(len, example.contexts)) + sum(map(len, example.samples))
    return len(example.question) + len(example.response) + beside


def _within(
    progress: Callable[[int], None] | None, start: int, size: int
) -> Callable[[float], None]:
    """Return what says how far a block is, of which a share is done; never less than before."""
    furthest = start

    def told(share: float) -> None:
        nonlocal furthest
        if progress is not None and (done := start + round(share * size)) > furthest:
            furthest = done
            progress(done)

    return told


def _prepare(
    batch: Sequence[Example],
    scores: Sequence[Score],
    ledger: Ledger,
    told: Callable[[float], None],
) -> set[str]:
    """Compute what the scores will look up; return which texts an encoder could not read whole."""
    by_model: dict[int, list[Demand]] = defaultdict(list)
    for score in scores:
        for demand in score.demands(batch) if isinstance(score, Demanding) else ():
            by_model[id(demand.model)].append(demand)
    cut: set[str] = set()
    done = 0.0
    weights = ledger.weights([demands[0].model for demands in by_model.values()])
    for weight, demands in zip(weights, by_model.values(), strict=True):

        def of_all(share: float, done: float = done, weight: float = weight) -> None:
            told(done + share * weight)

        done += weight
        with ledger.preparing(model := demands[0].model), telling(of_all):
            prepare(demands)
        if isinstance(model, Encoder):
            # Word vectors cover a text of any length, so only sentence vectors are cut short.
            texts = {text for demand in demands for text in demand.parts[0]}
            if keys := model.cut(texts):
                name = model_name(model)
                cut |= {f"{name}:{key.hex()}" for key in keys}
    return cut


def model_name(model: Encoder | PairModel) -> str:
    """Return 16 hexadecimal digits that tell a model from others, in every process."""
    pinned = json.dumps(model.fingerprint(), sort_keys=True).encode()
    return hashlib.sha256(pinned).hexdigest()[:16]


def _table(
    start: int, batch: Sequence[Example], results: Mapping[str, Scores], keep: Sequence[str]
) -> ScoreTable:
    """Return what is kept of a block: arrays, so that a million rows stay small.

    Reasons are by the row of the whole table, where the block begins at ``start``. Equal texts of
    different rows are kept once.
    """
    return ScoreTable(
        ids=string_array([example.id for example in batch]),
        groups=string_array([example.group for example in batch]),
        labels=np.array([-1 if item.label is None else item.label for item in batch], np.int8),
        columns={key: result.values for key, result in results.items()},
        reasons={
            key: {start + row: _shared(why) for row, why in result.reasons.items()}
            for key, result in results.items()
        },
        digests=np.array([int(example.digest(), 16) for example in batch], np.uint64),
        kept={column: [_shared(item.columns.get(column)) for item in batch] for column in keep},
    )


def _shared(cell: Any) -> Any:
    return intern(cell) if type(cell) is str else cell


def whole(made: ScoreTable, tables: list[ScoreTable]) -> ScoreTable:
    """Return the tables of all blocks as one; they are given up, so that nothing is held twice.

    Parameters
    ----------
    made : ScoreTable
        Without rows; holds what they cost.
    tables : list of ScoreTable
        Of the blocks.
    """
    tables.insert(0, made)
    first = made
    ids, groups = [table.ids for table in tables], [table.groups for table in tables]
    labels, digests = [table.labels for table in tables], [table.digests for table in tables]
    columns = {key: [table.columns[key] for table in tables] for key in first.columns}
    reasons = {
        key: {row: why for table in tables for row, why in table.reasons[key].items()}
        for key in first.columns
    }
    kept = {name: [cell for t in tables for cell in t.kept[name]] for name in first.kept}
    tables.clear()
    del first
    return replace(
        made,
        ids=_joined(ids, pa.concat_arrays),
        groups=_joined(groups, pa.concat_arrays),
        labels=_joined(labels, np.concatenate),
        columns={key: _joined(parts, np.concatenate) for key, parts in columns.items()},
        reasons=reasons,
        digests=_joined(digests, np.concatenate),
        kept=kept,
    )


def _joined(parts: list[Any], join: Callable[[list[Any]], Any]) -> Any:
    """Return the parts as one, and let go of them."""
    whole = join(parts)
    parts.clear()
    return whole
