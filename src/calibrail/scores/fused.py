"""What probability of a hallucination do several scores give together?"""

from collections.abc import Sequence
from typing import get_args

import numpy as np

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores import stacking
from calibrail.scores.base import Score, Scores
from calibrail.scores.combined import Combined, build_members, matrix
from calibrail.scores.labelled import both_classes
from calibrail.scores.parameters import one_of, positive

#: What is fused where nothing is named: scores that need no model and take milliseconds.
MEMBERS = "novel_stretch,novel_run,novel_count,novelty,rouge_l,numbers,entities"


class Fused(Combined):
    """P(hallucinated) of a model trained on the fit split, from the values of other scores.

    In [0, 1]; higher means more likely hallucinated. The probability is that of the fit split's
    own mix of classes: what makes it a promise is the calibration that follows.

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
        if self._state is None or self.model == "boosted":
            return super().tolerance
        tolerances = [member.tolerance for member in self.members.values()]
        return max(stacking.tolerance(self._state, tolerances), super().tolerance)

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
        return () if self._state is None else stacking.unweighted(self._state, list(self.members))

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the probability; undefined where every member is."""
        state = self.learnt()
        scored = self.scored(examples)
        features = matrix(scored)
        values = stacking.probabilities(state, features)
        reasons = self.lacking(examples)
        values[np.isnan(features).all(axis=1)] = np.nan
        values[list(reasons)] = np.nan
        return self.explained(values, scored, reasons)
