"""What probability of a hallucination do several scores give together?"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores import stacking
from calibrail.scores.base import JSON, Score, Scores
from calibrail.scores.combined import Combined, build_members, matrix, member_items, said
from calibrail.scores.labelled import both_classes

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

    name = "fused"
    version = "calibrail-fused/1"

    def __init__(
        self,
        *,
        scores: str = MEMBERS,
        model: stacking.Kind = "logistic",
        strength: float = 1.0,
    ) -> None:
        super().__init__(build_members(scores, self.name))
        if model not in get_args(stacking.Kind):
            raise InputError(f"model must be logistic or boosted; got {model!r}")
        if isinstance(strength, bool) or not isinstance(strength, int | float):
            raise InputError(f"strength must be a number above 0; got {strength!r}")
        if not 0.0 < strength < np.inf:
            raise InputError(f"strength must be above 0; got {strength!r}")
        rounding = [key for key, member in self.members.items() if member.tolerance > 0.0]
        if model == "boosted" and rounding:
            raise InputError(
                "boosted trees jump where a value crosses an edge, and the values of "
                f"{', '.join(rounding)} round differently from batch to batch; use model=logistic"
            )
        self._text, self.model, self.strength = scores, model, float(strength)
        self._state: Mapping[str, NDArray[Any]] | None = None

    @property
    def params(self) -> Mapping[str, JSON]:
        """Every parameter with its value."""
        return {
            "scores": self._text,
            "model": self.model,
            "strength": self.strength,
        }

    @property
    def tolerance(self) -> float:
        """How far rounding may move the probability, by what was learnt."""
        if self._state is None or self.model == "boosted":
            return super().tolerance
        own = [member.tolerance for member in self.members.values()]
        return max(stacking.tolerance(self._state, own), super().tolerance)

    @property
    def fitted(self) -> bool:
        """Whether the model is trained."""
        return self._state is not None

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

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return the trained model as arrays."""
        if self._state is None:
            raise InputError("fused has not learnt yet")
        return self._state

    def restore(self, state: Mapping[str, NDArray[Any]]) -> Score:
        """Return a copy with this trained model."""
        fitted = copy.copy(self)
        fitted._state = dict(state)
        return fitted

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the probability; undefined where every member is."""
        if self._state is None:
            raise InputError(
                "fused learns from labelled examples before it can score: use calibrate or compare "
                "with a fit split (--fit-share)"
            )
        scored = self.scored(examples)
        features = matrix(scored)
        values = stacking.probabilities(self._state, features)
        reasons = self.lacking(examples)
        values[np.isnan(features).all(axis=1)] = np.nan
        values[list(reasons)] = np.nan
        evidence: list[Mapping[str, JSON]] = []
        for row in range(len(examples)):
            items = member_items(scored, row)
            if np.isnan(values[row]):
                reasons.setdefault(row, said(items))
                evidence.append({})
            else:
                evidence.append({"kind": "scores", "items": items})
        return Scores(values, reasons, tuple(evidence))
