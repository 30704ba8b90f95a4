"""Scoring in this process, and the ledger of what each score costs."""

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from sys import intern
from typing import Any, Final

import numpy as np
import pyarrow as pa

from calibrail.data.dataset import Block, joined_names
from calibrail.data.example import Example
from calibrail.data.tables import string_array
from calibrail.errors import InputError, Library, ModelError
from calibrail.models.batching import blocks, isolated_cache, progress_listener
from calibrail.models.llm.transport import Usage, account
from calibrail.scores import base
from calibrail.scores.base import (
    Demand,
    Demanding,
    Score,
    Scores,
    SharedModel,
    eventual_demands,
    prepare,
)
from calibrail.scores.registry import ColumnScore, key_of, scale_of
from calibrail.scores.table import Calls, Cost, ScoreTable

# Most detectors ask no model of this machine, and most tables take one process.
multiprocessing, pools = Library("multiprocessing"), Library("concurrent.futures.process")
pairs, encoders = Library("calibrail.models.classifiers"), Library("calibrail.models.embeddings")
loading, chat = Library("calibrail.models.loading"), Library("calibrail.models.llm.chat")

#: Where a score counts the answers that it scored, and those that it had judged.
_COUNTERS: Final = ("n_scored", "n_judged")


@dataclass(slots=True)
class Spent:
    """What was spent on one score, or on one model for all of its scores.

    ``opening`` are the seconds in which models were opened: no part of ``seconds``, since they are
    spent once, and by whichever score comes first.
    """

    seconds: float = 0.0
    opening: float = 0.0
    passes: int = 0
    usage: Usage = field(default_factory=Usage)


class CostLedger:
    """Adds up seconds and forward passes, of scores and of the models that they share.

    Parameters
    ----------
    keys : sequence of str
        What the scores are called.
    scores : sequence of Score
        The scores, in the same order.
    """

    def __init__(self, keys: Sequence[str], scores: Sequence[Score]) -> None:
        self._scores = dict(zip(keys, scores, strict=True))
        self._used = {
            key: tuple(score.models) if isinstance(score, Demanding) else ()
            for key, score in self._scores.items()
        }
        #: Every model that any of the scores calls, once.
        self.models: tuple[SharedModel, ...] = tuple(
            {id(model): model for models in self._used.values() for model in models}.values()
        )
        self._counted = {
            key: [getattr(score, counter, None) for counter in _COUNTERS]
            for key, score in self._scores.items()
        }
        self._on_score: dict[str, Spent] = defaultdict(Spent)
        self._on_model: dict[int, Spent] = defaultdict(Spent)
        self._cut_before = self._cut_now()

    def preparing(self, model: SharedModel) -> AbstractContextManager[None]:
        """Charge the time to a model, and so to every score that calls it."""
        return _charged(self._on_model[id(model)], (model,))

    def scoring(self, key: str) -> AbstractContextManager[None]:
        """Charge the time, and the passes made meanwhile, to one score."""
        return _charged(self._on_score[key], self._used[key])

    def n_cut(self) -> int:
        """Return how many pairs had a short side so long that its end was not read."""
        return self._cut_now() - self._cut_before

    def _cut_now(self) -> int:
        return sum(m.n_truncated for m in self.models if isinstance(m, pairs.PairModel))

    def costs(self, n: int) -> tuple[Cost, ...]:
        """Return what each score cost that was computed, not read, for ``n`` examples."""
        computed = (key for key in self._used if not isinstance(self._scores[key], ColumnScore))
        return tuple(self._cost(key, n) for key in computed)

    def _cost(self, key: str, n: int) -> Cost:
        used = {id(model): model for model in self._used[key]}
        spent = [self._on_score[key], *(self._on_model[model] for model in used)]
        calls = None
        if any(isinstance(model, chat.RemoteModel) for model in used.values()):
            scored, judged = (
                n if before is None else getattr(self._scores[key], counter) - before
                for counter, before in zip(_COUNTERS, self._counted[key], strict=True)
            )
            names = {model.name for model in used.values() if isinstance(model, chat.RemoteModel)}
            asked = names.pop() if len(names) == 1 else ""
            calls = Calls(scored, judged, sum((part.usage for part in spent), Usage()), asked)
        shared_with = tuple(
            other
            for other, models in self._used.items()
            if other != key and any(id(model) in used for model in models)
        )
        return Cost(
            key,
            n,
            sum(part.seconds for part in spent),
            sum(part.passes for part in spent),
            shared_with,
            calls,
            sum(part.opening for part in spent),
        )


@contextmanager
def _charged(spent: Spent, models: Sequence[SharedModel]) -> Iterator[None]:
    """Charge the time, and what the models do meanwhile."""
    remote = [model for model in models if isinstance(model, chat.RemoteModel)]
    local = [model for model in models if isinstance(model, loading.LocalModel)]
    opening = sum(model.seconds_opening for model in local)
    started = time.perf_counter()
    passes = sum(model.n_passes for model in models)
    usage = sum((model.usage for model in remote), Usage())
    yield
    seconds = time.perf_counter() - started
    opening = sum(model.seconds_opening for model in local) - opening
    spent.seconds += max(0.0, seconds - opening)
    spent.opening += opening
    spent.passes += sum(model.n_passes for model in models) - passes
    spent.usage += sum((model.usage for model in remote), Usage()) - usage


#: Examples at a time: enough for batches of similar length.
BLOCK = 1024
#: Characters at a time, so that the word vectors of a block fit into the encoder's store (about
#: 200 bytes a character) and no text of the block is embedded twice.
BLOCK_CHARACTERS = 2_000_000


def score_here(
    examples: Iterable[Example],
    scores: Sequence[Score],
    *,
    take: Callable[[ScoreTable], None] | None = None,
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
    take : callable, optional
        Gets the table of each block; what is returned has no rows then.
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
    ModelError
        If none of the first replies of every judge can be read, and nothing else is scored.
    """
    if block < 1:
        raise InputError(f"block must be at least 1; got {block!r}")
    keys = keys_of(scores)
    ledger, scales = CostLedger(keys, scores), dict(zip(keys, map(scale_of, scores), strict=True))
    cut, tables = set[str](), list[ScoreTable]()
    # What an earlier run left behind was computed in other batches: the same data must give the
    # same bytes whatever ran before.
    for model in ledger.models:
        if forget or not isinstance(model, chat.RemoteModel):
            model.forget()
    n, given_up = 0, dict[str, base.GivenUpFailure]()
    for batch in blocks(examples, characters, block, BLOCK_CHARACTERS):
        within = share_of(progress, n, len(batch))
        for key, score in zip(keys, scores, strict=True):
            with ledger.scoring(key):
                why = given_up.get(key) or base.try_out(score, batch)
            given_up |= {} if why is None else {key: why}
        if len(given_up) == len(keys) > 0:
            raise ModelError(f"{keys[0]}: {given_up[keys[0]]}")
        asked = [item for key, item in zip(keys, scores, strict=True) if key not in given_up]
        cut |= _prepare(batch, asked, ledger, within)
        results: dict[str, Scores] = {}
        for key, score in zip(keys, scores, strict=True):
            if key in given_up:
                results[key] = Scores.of([given_up[key]] * len(batch))
                continue
            with ledger.scoring(key), progress_listener(within):
                results[key] = score.score(batch)
            if (given := len(results[key].values)) != len(batch):
                raise InputError.on("values_not_one_each", key=key, given=given, n=len(batch))
        part = replace(_table(n, batch, results, keep), scales=scales)
        (tables.append if take is None else take)(part)
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
    return concat_tables(made, tables), frozenset(cut)


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


#: Answers, and their characters, whose questions to endpoints are asked in batches together.
WINDOW, WINDOW_CHARACTERS = 50_000, 200_000_000


def asked_in_batches(
    examples: Iterable[Example], scores: Sequence[Score], say: Callable[[str], None]
) -> Iterable[Example]:
    """Return the examples; where batches are wanted, what scores ask about them is asked before.

    Where they are not, what is under way is named. Whatever no batch has answered is asked when it
    is looked up. So are the first few questions,
    which show what the endpoint knows, and whether its replies can be read.
    """
    models, limits = [*chain.from_iterable(map(_asked, scores))], account().limits
    if models and limits.batch:
        return _batched(examples, scores, say)
    if models and limits.cache is not None:
        from calibrail.models.llm.batches import name_unfinished

        name_unfinished(models, limits.cache, say)
    return examples


def _asked(score: Score) -> list[Any]:
    models = getattr(score, "models", ())
    return [model for model in models if isinstance(model, chat.LanguageModel)]


def _batched(
    examples: Iterable[Example], scores: Sequence[Score], say: Callable[[str], None]
) -> Iterator[Example]:
    from calibrail.models.llm.batches import ask_in_batches, provider_of

    for model in chain.from_iterable(map(_asked, scores)):
        # Who takes none says so before anything is sent.
        provider_of(model.endpoint, account().limits)
    for window in blocks(examples, characters, WINDOW, WINDOW_CHARACTERS):
        wanted: dict[Any, dict[Any, None]] = {}
        # What a cheap score computes here, to tell what is judged, is computed again in its turn.
        with isolated_cache():
            for score in scores:
                sent = {model: model.usage.n_sent for model in _asked(score)}
                why = base.try_out(score, window)
                for model, before in sent.items():
                    model.forget(count=model.usage.n_sent > before)
                if why is None:
                    for demand in eventual_demands(score, window):
                        if isinstance(demand.model, chat.LanguageModel):
                            asked = wanted.setdefault(demand.model, {})
                            asked.update(dict.fromkeys(chain.from_iterable(demand.parts)))
        ask_in_batches(wanted, say)
        yield from window


def share_of(
    progress: Callable[[int], None] | None, start: int, size: int
) -> Callable[[float], None]:
    """Return what says how far a block is, of which a share is done; never less than before."""
    furthest = start

    def report_share(share: float) -> None:
        nonlocal furthest
        if progress is not None and (done := start + round(share * size)) > furthest:
            furthest = done
            progress(done)

    return report_share


def _prepare(
    batch: Sequence[Example],
    scores: Sequence[Score],
    ledger: CostLedger,
    report_share: Callable[[float], None],
) -> set[str]:
    """Compute what the scores will look up; return which texts an encoder could not read whole."""
    by_model: dict[int, list[Demand]] = defaultdict(list)
    for score in scores:
        for demand in score.demands(batch) if isinstance(score, Demanding) else ():
            by_model[id(demand.model)].append(demand)
    cut: set[str] = set()
    for done, demands in enumerate(by_model.values()):

        def of_all(share: float, done: int = done) -> None:
            report_share((done + share) / len(by_model))

        with ledger.preparing(model := demands[0].model), progress_listener(of_all):
            prepare(demands)
        if isinstance(model, encoders.Encoder):
            # Word vectors cover a text of any length, so only sentence vectors are cut short.
            texts = {text for demand in demands for text in demand.parts[0]}
            if keys := model.cut(texts):
                name = model_name(model)
                cut |= {f"{name}:{key.hex()}" for key in keys}
    return cut


def model_name(model: Any) -> str:
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
        digests=np.array([int(example.digest("plain"), 16) for example in batch], np.uint64),
        kept={column: [_shared(item.columns.get(column)) for item in batch] for column in keep},
    )


def _shared(cell: Any) -> Any:
    return intern(cell) if type(cell) is str else cell


def concat_tables(made: ScoreTable, tables: list[ScoreTable]) -> ScoreTable:
    """Return the tables of all blocks as one.

    Parameters
    ----------
    made : ScoreTable
        Without rows; holds what they cost.
    tables : list of ScoreTable
        Of the blocks.
    """
    tables = [made, *tables]

    def joined(name: str) -> Any:
        join = np.concatenate if name in ("labels", "digests") else pa.concat_arrays
        return join([getattr(table, name) for table in tables])

    columns = {key: np.concatenate([it.columns[key] for it in tables]) for key in made.columns}
    reasons = {
        key: {row: why for table in tables for row, why in table.reasons[key].items()}
        for key in made.columns
    }
    kept = {name: [cell for table in tables for cell in table.kept[name]] for name in made.kept}
    rows = {name: joined(name) for name in ("ids", "groups", "labels", "digests")}
    return replace(made, columns=columns, reasons=reasons, kept=kept, **rows)


def table_of_columns(
    blocks: Iterable[Block],
    scores: Sequence[ColumnScore],
    *,
    keep: Sequence[str] = (),
    progress: Callable[[int], None] | None = None,
) -> ScoreTable:
    """Return what `score_examples` would of the same rows, from blocks of them.

    Parameters
    ----------
    blocks : iterable of Block
        Consumed once.
    scores : sequence of Column
        Columns of the blocks; each may be named once.
    keep, progress : optional
        As `score_examples` takes them.
    """
    n, keys = 0, [key_of(score) for score in scores]
    ids, groups = list[pa.Array](), list[pa.Array]()
    labels, digests = [np.empty(0, np.int8)], [np.empty(0, np.uint64)]
    columns = {key: [np.empty(0)] for key in keys}
    reasons: dict[str, dict[int, str]] = {key: {} for key in keys}
    kept: dict[str, list[Any]] = {name: [] for name in keep}
    for block in blocks:
        ids.append(block.ids)
        groups.append(block.groups)
        labels.append(block.labels)
        digests.append(block.digests)
        for key, score in zip(keys, scores, strict=True):
            values, undefined = score.values_of(block.numbers[score.column])
            columns[key].append(values)
            for why, rows in undefined.items():
                reasons[key] |= dict.fromkeys((rows + n).tolist(), why)
        for name in keep:
            kept[name] += block.kept[name].tolist()
        n += len(block)
        if progress is not None:
            progress(n)
    return ScoreTable(
        ids=joined_names(ids),
        groups=joined_names(groups),
        labels=np.concatenate(labels),
        columns={key: np.concatenate(parts) for key, parts in columns.items()},
        reasons={key: dict(sorted(why.items())) for key, why in reasons.items()},
        digests=np.concatenate(digests),
        kept=kept,
        scales=dict(zip(keys, map(scale_of, scores), strict=True)),
    )
