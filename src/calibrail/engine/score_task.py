"""How do scores travel to where a shard is, and their values back?"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from calibrail.data.arrow import string_array
from calibrail.engine.examples import to_examples
from calibrail.engine.local import model_name, score_here
from calibrail.engine.store import digest_of
from calibrail.engine.task import told
from calibrail.errors import CalibrailError, ModelError
from calibrail.models.embedding import Encoder
from calibrail.models.machine import installed_versions
from calibrail.models.pairs import PairModel
from calibrail.models.remote import RemoteModel
from calibrail.record import plain
from calibrail.scores.base import DetectorFailure, Score
from calibrail.scores.column import Column
from calibrail.scores.custom import CustomScore
from calibrail.scores.learned import state_bytes, with_state
from calibrail.scores.registry import ScoreSpec, build, key_of
from calibrail.scores.source_files import sources
from calibrail.scores.table import Cost

#: Key of the metadata of a result.
_BESIDE: Final = b"calibrail"


@dataclass(frozen=True, slots=True)
class Sent:
    """A score as it travels: what builds it, and what it must turn out to be.

    Attributes
    ----------
    name : str
        The registered name.
    params, fingerprint : str
        JSON.
    state : bytes or None
        What it has learnt.
    versions : str
        JSON; the libraries that can change its last digits, and the source of what is not ours.
    """

    name: str
    params: str
    fingerprint: str
    state: bytes | None
    versions: str

    @property
    def digest(self) -> str:
        """32 hexadecimal digits that tell it from every score that could give another value."""
        parts = (self.name, self.params, self.fingerprint, self.versions)
        return digest_of([*(part.encode() for part in parts), self.state or b""])[:32]

    def opened(self) -> Score:
        """Build the score where it has arrived.

        Raises
        ------
        ModelError
            If this machine would compute other values: other weights, or other libraries.
        """
        score = build(ScoreSpec(self.name, json.loads(self.params)))
        if self.state is not None:
            score = with_state(score, self.state)
        if (here := sent(score)) != self:
            differing = [
                f"{what} here {ours}, there {theirs}"
                for what, ours, theirs in (
                    ("fingerprint", here.fingerprint, self.fingerprint),
                    ("versions", here.versions, self.versions),
                )
                if ours != theirs
            ]
            raise ModelError(
                f"a worker would compute another {self.name} than this run: "
                f"{'; '.join(differing) or 'its parameters differ'}; install the same there"
            )
        return score


def sent(score: Score) -> Sent:
    """Return a score as it travels."""

    def written(value: Any) -> str:
        return json.dumps(plain(value), sort_keys=True)

    return Sent(
        score.name,
        written(score.params),
        written(score.fingerprint()),
        state_bytes(score),
        written(versions_of(score)),
    )


def versions_of(score: Score) -> dict[str, str]:
    """Return what computes a score here: libraries, and the source of what is not calibrail's."""
    python = ".".join(map(str, sys.version_info[:2]))
    return {"python": python, **installed_versions(), **sources(_foreign(score))}


def travels(score: Score) -> bool:
    """Return whether a score can be computed elsewhere."""
    return why_here(score) is None


def why_here(score: Score) -> str | None:
    """Return why this process computes a score, whatever the engine; None where any other can.

    One that asks endpoints is computed here, wherever the others are: one budget, one limit to the
    calls at a time and one cache of answers then hold for all of them. So is one that no name leads
    to, one that remembers more than its state, and a column of the data, which costs nothing.
    """
    if any(isinstance(model, RemoteModel) for model in getattr(score, "models", ())):
        return "it asks an endpoint, whose answers have a cache of their own"
    if isinstance(score, Column):
        return "it is a column of the data"
    if why := getattr(score, "stays_here", None):
        return str(why)
    try:
        named = type(build(ScoreSpec(score.name, score.params)))
        if named is not type(score):
            return f"the name {score.name} builds a {named.__qualname__}, which it is not"
        sent(score).opened()
    except (CalibrailError, TypeError, ValueError) as error:
        return str(error)
    return None


def reads_texts_alone(score: Score) -> bool:
    """Return whether nothing but texts can change a score's values.

    What another package's score reads is not known: it may read the id, too.
    """
    return not getattr(score, "columns", ()) and not _foreign(score)


def _foreign(score: Score) -> list[str]:
    """Return the modules outside calibrail that a score, or one of its members, comes from."""
    named = score.params.get("detector") if isinstance(score, CustomScore) else None
    modules = [type(score).__module__, *([] if named is None else [named.partition(":")[0]])]
    members = getattr(score, "members", None)
    for member in members.values() if isinstance(members, Mapping) else ():
        modules += _foreign(member)
    return sorted({name for name in modules if name.partition(".")[0] != "calibrail"})


@lru_cache(maxsize=8)
def _opened(scores: tuple[Sent, ...]) -> tuple[Score, ...]:
    return tuple(score.opened() for score in scores)


@dataclass(frozen=True, slots=True)
class ScoreTask:
    """Computes scores of a shard.

    Parameters
    ----------
    scores : tuple of Sent
        The scores.
    """

    scores: tuple[Sent, ...]

    @property
    def key(self) -> str:
        """32 hexadecimal digits that tell these scores from others."""
        return digest_of(score.digest.encode() for score in self.scores)[:32]

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return a column of values a score, and of reasons where it is undefined somewhere."""
        examples, scores, tell = to_examples(table), _opened(self.scores), told.get()

        def progress(done: int) -> None:
            if tell is not None:
                tell(done / max(1, len(examples)))

        models = dict(zip(map(key_of, scores), map(_models, scores), strict=True))
        pairs = {name: model for used in models.values() for name, model in used.items()}
        before = _n_cut(pairs)
        scored, cut = score_here(examples, scores, progress=progress)
        n_cut = {name: n - before[name] for name, n in _n_cut(pairs).items()}
        names = dict(zip(map(key_of, scores), (item.digest for item in self.scores), strict=True))
        beside = {
            names[cost.score]: {
                "seconds": cost.seconds,
                "seconds_opening": cost.seconds_opening,
                "passes": cost.forward_passes,
                "shared_with": [names[key] for key in cost.shared_with],
                "cut": [text for text in sorted(cut) if text.partition(":")[0] in used],
                "n_cut": {name: n for name, n in n_cut.items() if name in used},
                "failed": sum(
                    isinstance(why, DetectorFailure) for why in scored.reasons[cost.score].values()
                ),
            }
            for cost, used in ((cost, models[cost.score]) for cost in scored.costs)
        }
        arrays: dict[str, pa.Array] = {}
        for key, name in names.items():
            arrays[name] = pa.array(scored.columns[key])
            if reasons := scored.reasons[key]:
                rows = range(len(examples))
                arrays[f"{name}__reason"] = string_array([reasons.get(row) for row in rows])
        return pa.table(arrays).replace_schema_metadata({_BESIDE: json.dumps(beside).encode()})


def _models(score: Score) -> dict[str, Any]:
    """Return the models of a score of which some inputs may be too long, by name."""
    models = getattr(score, "models", ())
    return {model_name(model): model for model in models if isinstance(model, Encoder | PairModel)}


def _n_cut(models: Mapping[str, Any]) -> dict[str, int]:
    pairs = ((name, model) for name, model in models.items() if isinstance(model, PairModel))
    return {name: model.n_truncated for name, model in pairs}


@dataclass(slots=True, eq=False)
class Known:
    """What is known of one shard's scores.

    Attributes
    ----------
    values : mapping of str to ndarray of float64, shape (n,)
        By the digest of the score.
    reasons : mapping of str to mapping of int to str
        Why a score is undefined, by digest and row of the shard.
    beside : mapping of str to mapping
        What each score cost when it was computed, and what its models could not read whole.
    """

    values: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    reasons: dict[str, dict[int, str]] = field(default_factory=dict)
    beside: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def add(self, table: pa.Table, wanted: Iterable[str], n: int, *, failures: bool = True) -> None:
        """Take the wanted scores of a result for n rows that are not known yet.

        Without ``failures`` only those that did not fail on any row: another time they may not.
        """
        if table.num_rows != n:
            return
        beside = json.loads((table.schema.metadata or {}).get(_BESIDE, b"{}"))
        for name in wanted:
            if name in self.values or name not in beside:
                continue
            if beside[name]["failed"] and not failures:
                continue
            self.values[name] = table[name].combine_chunks().to_numpy()
            why = (
                table[reason].to_pylist()
                if (reason := f"{name}__reason") in table.column_names
                else ()
            )
            self.reasons[name] = {row: text for row, text in enumerate(why) if text is not None}
            self.beside[name] = beside[name]

    def costs(self, names: Mapping[str, str], n: int) -> Iterator[Cost]:
        """Yield what each score cost for n rows; ``names`` gives the key of each digest."""
        for digest, key in names.items():
            spent = self.beside[digest]
            shared = tuple(names[other] for other in names if other in spent["shared_with"])
            # What was kept before openings were timed holds them in its seconds.
            opening = spent.get("seconds_opening", 0.0)
            yield Cost(
                key,
                n,
                spent["seconds"],
                spent["passes"],
                shared,
                seconds_opening=opening,
            )

    @property
    def cut(self) -> set[str]:
        """The texts that an encoder could not read whole."""
        return {text for part in self.beside.values() for text in part["cut"]}

    @property
    def n_cut(self) -> int:
        """Pairs whose short side was not read to its end; scores that share a model share them."""
        by_model: dict[str, int] = {}
        for name, n in (item for part in self.beside.values() for item in part["n_cut"].items()):
            by_model[name] = max(n, by_model.get(name, 0))
        return sum(by_model.values())
