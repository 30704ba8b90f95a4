"""What did each score cost, when several share the passes of one model?"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from calibrail.models.pairs import PairModel
from calibrail.models.remote import RemoteModel, Usage
from calibrail.scores.base import Demanding, Score, SharedModel
from calibrail.scores.table import Calls, Cost


class Ledger:
    """Adds up seconds and forward passes, of scores and of the models that they share.

    Parameters
    ----------
    keys : sequence of str
        What the scores are called.
    scores : sequence of Score
        The scores, in the same order.
    """

    def __init__(self, keys: Sequence[str], scores: Sequence[Score]) -> None:
        self._used = {
            key: list(score.models) if isinstance(score, Demanding) else []
            for key, score in zip(keys, scores, strict=True)
        }
        #: Every model that any of the scores calls, once.
        self.models: tuple[SharedModel, ...] = tuple(
            {id(model): model for models in self._used.values() for model in models}.values()
        )
        self._scores = dict(zip(keys, scores, strict=True))
        self._remote = {
            key: [model for model in used if isinstance(model, RemoteModel)]
            for key, used in self._used.items()
        }
        self._usage = {key: Usage() for key in keys}
        self._shared_usage: dict[int, Usage] = {}
        self._counted = {key: _counts(score) for key, score in self._scores.items()}
        self._seconds = dict.fromkeys(keys, 0.0)
        self._passes = dict.fromkeys(keys, 0)
        self._cut_before = self._cut_now()
        self._prepared = {id(model): [0.0, 0] for model in self.models}

    @contextmanager
    def preparing(self, model: SharedModel) -> Iterator[None]:
        """Charge the time to a model, and so to every score that calls it."""
        started, before = time.perf_counter(), model.n_passes
        usage = model.usage if isinstance(model, RemoteModel) else None
        yield
        if isinstance(model, RemoteModel) and usage is not None:
            self._shared_usage[id(model)] = (
                self._shared_usage.get(id(model), Usage()) + model.usage - usage
            )
        spent = self._prepared.setdefault(id(model), [0.0, 0])
        spent[0] += time.perf_counter() - started
        spent[1] += model.n_passes - before

    @contextmanager
    def scoring(self, key: str) -> Iterator[None]:
        """Charge the time, and the passes made meanwhile, to one score."""
        used = self._used[key]
        started, before = time.perf_counter(), sum(model.n_passes for model in used)
        usages = [model.usage for model in self._remote[key]]
        yield
        for model, usage in zip(self._remote[key], usages, strict=True):
            self._usage[key] += model.usage - usage
        self._seconds[key] += time.perf_counter() - started
        self._passes[key] += sum(model.n_passes for model in used) - before

    def n_cut(self) -> int:
        """Return how many pairs had a short side so long that its end was not read."""
        return self._cut_now() - self._cut_before

    def _cut_now(self) -> int:
        return sum(model.n_truncated for model in self.models if isinstance(model, PairModel))

    def _calls(self, key: str, n: int) -> Calls | None:
        """Return what a score asked of endpoints."""
        if not self._remote[key]:
            return None
        shared = [self._shared_usage.get(id(model), Usage()) for model in self._remote[key]]
        scored, judged = (
            now - before if now is not None and before is not None else n
            for now, before in zip(_counts(self._scores[key]), self._counted[key], strict=True)
        )
        return Calls(scored, judged, sum(shared, self._usage[key]))

    def costs(self, n: int) -> tuple[Cost, ...]:
        """Return what each score cost for ``n`` examples."""
        return tuple(self._cost(key, n) for key in self._used)

    def _cost(self, key: str, n: int) -> Cost:
        used = {id(model) for model in self._used[key]}
        prepared = [self._prepared[model] for model in used]
        return Cost(
            score=key,
            n=n,
            seconds=self._seconds[key] + sum(spent[0] for spent in prepared),
            forward_passes=self._passes[key] + sum(int(spent[1]) for spent in prepared),
            shared_with=tuple(
                other
                for other, models in self._used.items()
                if other != key and any(id(model) in used for model in models)
            ),
            calls=self._calls(key, n),
        )


def _counts(score: Score) -> tuple[int | None, int | None]:
    """Return how many answers a score has scored and had judged, where it counts them."""
    return getattr(score, "n_scored", None), getattr(score, "n_judged", None)
