"""How high do several scores rank an answer on average?"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores import stacking
from calibrail.scores.base import Score, Scores
from calibrail.scores.combined import Combined, build_members, matrix
from calibrail.scores.labelled import separation
from calibrail.scores.learned import FIT_SPLIT
from calibrail.scores.parameters import numbers

_Floats = NDArray[np.float64]

#: Values this many tolerances to either side share in a rank, so that rounding moves it little.
BLUR = 1000.0


class Ensemble(Combined):
    """Weighted mean of the members' ranks among the examples of the fit split. In [0, 1].

    A member's value becomes the share of fit examples with a smaller one, equal ones counted half
    (a little smoothed for members that round).
    Where some members find nothing to judge the mean is over the others; the evidence names them.
    A member that points the wrong way on the fit split gets no weight, and the report names it.

    Parameters
    ----------
    scores : str
        The members, e.g. ``"novelty,rad,sec"``.
    weights : str or None
        As many numbers above 0, ``"2,1,1"``; None for equal weights.
    """

    scores: str
    weights: str | None = None

    name = "ensemble"
    version = "calibrail-ensemble/1"
    unfitted = f"learns ranks before it can score: {FIT_SPLIT}"

    def __post_init__(self) -> None:
        self.combine(build_members(self.scores, self.name))
        self._weights = _read_weights(self.weights, len(self.members))

    @property
    def tolerance(self) -> float:
        """How far rounding may move the mean rank; 0 where every member is exact."""
        return 0.5 / BLUR if super().tolerance > 0.0 else 0.0

    def fit(self, examples: Sequence[Example]) -> Score:
        """Return a copy that knows the members' values on these examples.

        Raises
        ------
        InputError
            If a member is defined on none of them.
        """
        state: dict[str, _Floats] = {}
        labels = np.array([-1 if example.label is None else example.label for example in examples])
        reached = []
        for key, scores in self.scored(examples).items():
            defined = ~np.isnan(scores.values)
            known = scores.values[defined]
            reached.append(separation(known, labels[defined]))
            if not len(known):
                raise InputError(
                    f"ensemble ranks {key} among the examples of the fit split, and it is "
                    "undefined on all of them; leave it out, or raise --fit-share"
                )
            state[f"values:{key}"] = np.sort(known)
        if max(reached) < 0.5:
            raise InputError(
                "every score of the ensemble points the wrong way on the fit split (AUROC "
                f"{', '.join(f'{area:.2f}' for area in reached)}); check the labels, or choose "
                "other scores"
            )
        return self.restore({"auroc": np.array(reached), **state})

    @property
    def lessons(self) -> tuple[str, ...]:
        """What a reader should know of what was learnt: members that got no weight, and why."""
        if self._state is None:
            return ()
        reached = self._state["auroc"]
        return stacking.unweighted({"auroc": reached, "kept": reached >= 0.5}, list(self.members))

    def restore(self, state: Mapping[str, NDArray[Any]]) -> Self:
        """Return a copy that knows these values."""
        return super().restore(
            {name: state[name] for name in ("auroc", *(f"values:{key}" for key in self.members))}
        )

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the mean rank; undefined where every member is."""
        state = self.learnt()
        scored = self.scored(examples)
        values = matrix(scored)
        ranks = np.full(values.shape, np.nan)
        for column, (key, member) in enumerate(self.members.items()):
            width = BLUR * member.tolerance
            ranks[:, column] = _ranks(values[:, column], state[f"values:{key}"], width)
        known = ~np.isnan(values)
        weights = known * self._weights * (state["auroc"] >= 0.5)
        total = weights.sum(axis=1)
        mean = np.full(len(examples), np.nan)
        some = total > 0.0
        # Row by row: a product of matrices may round differently in another batch.
        mean[some] = (np.where(known, ranks, 0.0) * weights).sum(axis=1)[some] / total[some]
        reasons = self.lacking(examples)
        mean[list(reasons)] = np.nan
        return self.explained(mean, scored, reasons, rank=ranks)


def _ranks(values: _Floats, reference: _Floats, width: float) -> _Floats:
    """Return the share of the reference below each value, equal ones half; NaN stays.

    With a width, the mean of that share over all values so near: a step would turn the rounding of
    a batch into a whole rank.
    """
    n = len(reference)
    if width == 0.0:
        below = np.searchsorted(reference, values, "left")
        ranks = (below + np.searchsorted(reference, values, "right")) / (2.0 * n)
        return np.where(np.isnan(values), np.nan, ranks)
    # The integral of a step function that climbs by 1/n at each value of the reference.
    sums = np.concatenate([np.zeros(1), np.cumsum(reference)])

    def integral(x: _Floats) -> _Floats:
        below = np.searchsorted(reference, x, "right")
        result: _Floats = (below * x - sums[below]) / n
        return result

    ranks = (integral(values + width) - integral(values - width)) / (2.0 * width)
    return np.where(np.isnan(values), np.nan, np.clip(ranks, 0.0, 1.0))


def _read_weights(weights: str | None, n: int) -> _Floats:
    if weights is None:
        return np.ones(n)
    parts = np.array(numbers(weights))
    if len(parts) != n or not np.isfinite(parts).all() or (parts <= 0.0).any():
        raise InputError(
            f'weights must be {n} numbers above 0, one a score, e.g. weights="2,1"; got {weights!r}'
        )
    return parts
