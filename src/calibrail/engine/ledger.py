"""What did each score cost, when several share the passes of one model?"""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final

from calibrail.models.loading import LocalModel
from calibrail.models.pairs import PairModel
from calibrail.models.remote import RemoteModel, Usage
from calibrail.scores.base import Demanding, Score, SharedModel
from calibrail.scores.column import Column
from calibrail.scores.table import Calls, Cost

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

    def weights(self, models: Sequence[SharedModel]) -> list[float]:
        """Return each model's share of the seconds so far; equal ones where one has none."""
        seconds = [self._on_model[id(model)].seconds for model in models]
        if not all(seconds):
            seconds = [1.0] * len(models)
        return [part / sum(seconds) for part in seconds]

    def n_cut(self) -> int:
        """Return how many pairs had a short side so long that its end was not read."""
        return self._cut_now() - self._cut_before

    def _cut_now(self) -> int:
        return sum(model.n_truncated for model in self.models if isinstance(model, PairModel))

    def costs(self, n: int) -> tuple[Cost, ...]:
        """Return what each score cost that was computed, not read, for ``n`` examples."""
        computed = (key for key in self._used if not isinstance(self._scores[key], Column))
        return tuple(self._cost(key, n) for key in computed)

    def _cost(self, key: str, n: int) -> Cost:
        used = {id(model): model for model in self._used[key]}
        spent = [self._on_score[key], *(self._on_model[model] for model in used)]
        calls = None
        if any(isinstance(model, RemoteModel) for model in used.values()):
            scored, judged = (
                n if before is None else getattr(self._scores[key], counter) - before
                for counter, before in zip(_COUNTERS, self._counted[key], strict=True)
            )
            calls = Calls(scored, judged, sum((part.usage for part in spent), Usage()))
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
    remote = [model for model in models if isinstance(model, RemoteModel)]
    local = [model for model in models if isinstance(model, LocalModel)]
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
