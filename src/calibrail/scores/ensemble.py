"""How do several scores become one: the mean of their ranks, or a probability?"""

from collections.abc import Iterable, Sequence
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores import stacking
from calibrail.scores.base import Score, Scores
from calibrail.scores.detector import numbers, one_of, positive
from calibrail.scores.learned import FIT_SPLIT, both_classes, separation
from calibrail.scores.members import Combined, build_members, matrix
from calibrail.settings import SplitOptions
from calibrail.settings.option import option_of

_Floats = NDArray[np.float64]

#: Values this many tolerances to either side share in a rank, so that rounding moves it little.
BLUR = 1000.0

#: What is fused where nothing is named: scores that need no model and take milliseconds.
MEMBERS = "novel_stretch,novel_run,novel_count,novelty,rouge_l,numbers,entities"


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
        n = len(self.members)
        self._weights = np.array([1.0] * n if self.weights is None else numbers(self.weights))
        if len(self._weights) != n or not ((self._weights > 0.0) & (self._weights < np.inf)).all():
            raise InputError(
                f"weights must be {n} numbers above 0, one a score, e.g. "
                f'weights="2,1"; got {self.weights!r}'
            )

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
            known = scores.values[~np.isnan(scores.values)]
            reached.append(separation(scores.values, labels))
            if not len(known):
                raise InputError(
                    f"ensemble ranks {key} among the examples of the fit split, and it is "
                    "undefined on all of them; leave it out, or raise "
                    f"{option_of(SplitOptions, 'fit_share')}"
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
        state = self._state and {"kept": self._state["auroc"] >= 0.5, **self._state}
        return stacking.unweighted(state, list(self.members))

    @property
    def arrays(self) -> Iterable[str]:
        """The members' AUROC on the fit split, and their values there."""
        return ("auroc", *(f"values:{key}" for key in self.members))

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the mean rank; undefined where every member is."""
        state = self.state()
        scored = self.scored(examples)
        values = matrix(scored)
        ranks = np.full(values.shape, np.nan)
        for column, (key, member) in enumerate(self.members.items()):
            width = BLUR * member.tolerance
            ranks[:, column] = _ranks(values[:, column], state[f"values:{key}"], width)
        known = ~np.isnan(values)
        weights = known * self._weights * (state["auroc"] >= 0.5)
        total = weights.sum(axis=1)
        # Row by row: a product of matrices may round differently in another batch.
        mean = (np.where(known, ranks, 0.0) * weights).sum(axis=1)
        mean = np.divide(mean, total, out=np.full(len(mean), np.nan), where=total > 0.0)
        return self.explained(mean, scored, self.lacking(examples), rank=ranks)


class Fused(Combined):
    """P(hallucinated) of a model trained on the fit split, from the values of other scores.

    In [0, 1]; higher means more likely hallucinated. The probability is that of the fit split's
    own mix of classes: what makes it a promise is the calibration that follows. On RAGTruth
    answers that its default members were not designed on it was no better than ``novel_count``.

    Parameters
    ----------
    scores : str
        The members, e.g. ``"novel_count,rad,sec:model=..."``.
    model : {"logistic", "boosted"}
        A logistic model with weights of at least 0, or boosted trees that never fall where a score
        rises; the trees take members that need no model only.
    strength : float
        Inverse strength of the logistic model's L2 penalty; above 0.
    """

    scores: str = MEMBERS
    model: stacking.Kind = "logistic"
    strength: float = 1.0

    name = "fused"
    version = "calibrail-fused/1"

    def __post_init__(self) -> None:
        self.combine(build_members(self.scores, self.name))
        one_of(self.model, "model", get_args(stacking.Kind))
        self.strength = positive(self.strength, "strength")
        rounding = [key for key, member in self.members.items() if member.tolerance > 0.0]
        if self.model == "boosted" and rounding:
            raise InputError(
                "boosted trees jump where a value crosses an edge, and the values of "
                f"{', '.join(rounding)} round differently from batch to batch; use model=logistic"
            )

    @property
    def tolerance(self) -> float:
        """How far rounding may move the probability, by what was learnt."""
        return stacking.tolerance(self._state, [m.tolerance for m in self.members.values()])

    def fit(self, examples: Sequence[Example]) -> Score:
        """Return a copy trained on labelled examples.

        Raises
        ------
        InputError
            If a label is missing, or a class is too rare.
        """
        features = matrix(self.scored(examples))
        usable = np.array(~np.isnan(features).all(axis=1))
        usable[list(self.lacking(examples))] = False
        labels = both_classes(self.name, examples, usable)
        return self.restore(stacking.train(self.model, features[usable], labels, self.strength))

    @property
    def lessons(self) -> tuple[str, ...]:
        """What a reader should know of what was learnt: members that got no weight, and why."""
        return stacking.unweighted(self._state, list(self.members))

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the probability; undefined where every member is."""
        state = self.state()
        scored = self.scored(examples)
        features = matrix(scored)
        values = stacking.probabilities(state, features)
        values[np.isnan(features).all(axis=1)] = np.nan
        return self.explained(values, scored, self.lacking(examples))


def _ranks(values: _Floats, reference: _Floats, width: float) -> _Floats:
    """Return the share of the reference below each value, equal ones half; NaN stays.

    With a width, the mean of that share over all values so near: a step would turn the rounding of
    a batch into a whole rank.
    """
    n = len(reference)
    if width == 0.0:
        below, up_to = (np.searchsorted(reference, values, side) for side in ("left", "right"))
        return np.where(np.isnan(values), np.nan, (below + up_to) / (2.0 * n))
    # The integral of a step function that climbs by 1/n at each value of the reference.
    sums = np.concatenate([np.zeros(1), np.cumsum(reference)])

    def integral(x: _Floats) -> _Floats:
        below = np.searchsorted(reference, x, "right")
        result: _Floats = (below * x - sums[below]) / n
        return result

    ranks = (integral(values + width) - integral(values - width)) / (2.0 * width)
    return np.clip(ranks, 0.0, 1.0)
