"""What do two entailment models say, weighed by what the fit split showed?"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.models.nli import Judgement, load_nli
from calibrail.scores import stacking
from calibrail.scores.base import JSON, Demand, Score, Scores, SharedModel, missing, prepare
from calibrail.scores.entailment import (
    NLI_MODEL,
    best_support,
    grid,
    opposition,
    rows,
)
from calibrail.scores.evidence import Piece, judged
from calibrail.scores.labelled import both_classes
from calibrail.scores.neural import filled
from calibrail.text.sentences import sentences, sentences_version

#: The second model: "DeBERTa-v3 + BART-MNLI" in the "Semantic Illusion" paper's baseline.
SECOND = "cross-encoder/nli-deberta-v3-base"

#: Raised when the same models and the same state would give another value.
HALT_VERSION = "calibrail-halt/1"

_Floats = NDArray[np.float64]


class Halt:
    """1 - P(faithful) of a logistic model over what two entailment models say.

    Of each sentence of the response, one minus each model's highest entailment and its highest
    contradiction over the chunks; of these the mean over sentences and the worst sentence: four
    numbers a model, none of which can get a negative weight
    (HALT-RAG, arXiv 2509.07475, in the style of the baseline of arXiv 2512.15068). In [0, 1];
    higher means more likely hallucinated.

    Parameters
    ----------
    model, revision, second, second_revision : str or None
        The two models, both of which must know contradiction.
    strength : float
        Inverse strength of the logistic model's L2 penalty; above 0.
    dtype : {"float32", "bfloat16", "float16"}
        Precision of the weights.
    window : int or None
        Most tokens of a chunk a pass; None for what each model reads.
    """

    name = "halt"
    requires: tuple[str, ...] = ("contexts", "response")

    def __init__(
        self,
        *,
        model: str = NLI_MODEL,
        revision: str | None = None,
        second: str = SECOND,
        second_revision: str | None = None,
        strength: float = 1.0,
        dtype: str = "float32",
        window: int | None = None,
    ) -> None:
        if isinstance(strength, bool) or not isinstance(strength, int | float):
            raise InputError(f"strength must be a number above 0; got {strength!r}")
        if not 0.0 < strength < np.inf:
            raise InputError(f"strength must be above 0; got {strength!r}")
        if (model, revision) == (second, second_revision):
            raise InputError(f"halt combines two models; model and second are both {model!r}")
        self.strength = float(strength)
        self.nli = (
            load_nli(model, revision, dtype, window),
            load_nli(second, second_revision, dtype, window),
        )
        self._state: Mapping[str, NDArray[Any]] | None = None

    @property
    def tolerance(self) -> float:
        """How far rounding may move the probability, by the precision and by what was learnt."""
        own = [model.tolerance for model in self.nli for _ in range(4)]
        if self._state is None:
            return max(own)
        return max(stacking.tolerance(self._state, own), *own)

    @property
    def params(self) -> Mapping[str, JSON]:
        """Every parameter with its value."""
        first, second = self.nli
        return {
            "model": first.model,
            "revision": first.revision,
            "second": second.model,
            "second_revision": second.revision,
            "strength": self.strength,
            "dtype": first.dtype,
            "window": first.window,
        }

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the fingerprints of both models and the version of the sentence splitting."""
        first, second = self.nli
        return {
            "first": first.fingerprint(),
            "second": second.fingerprint(),
            "sentences": sentences_version(),
            "version": HALT_VERSION,
        }

    @property
    def models(self) -> tuple[SharedModel, ...]:
        """Both models."""
        return self.nli

    def forget(self) -> None:
        """Drop what was judged, so that the next pair is judged by itself."""
        for model in self.nli:
            model.forget()

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return every chunk with every sentence, for both models."""
        pairs: dict[tuple[str, str], None] = {}
        for example in examples:
            if missing(example, self.requires) is None:
                pairs.update(dict.fromkeys(_pairs(example)))
        return tuple(Demand(model, (tuple(pairs),)) for model in self.nli)

    @property
    def fitted(self) -> bool:
        """Whether the logistic model is trained."""
        return self._state is not None

    def fit(self, examples: Sequence[Example]) -> Score:
        """Return a copy trained on labelled examples.

        Raises
        ------
        InputError
            If a label is missing, or a class is too rare.
        """
        features, _, _ = self._features(examples)
        usable = np.array(~np.isnan(features).any(axis=1))
        labels = both_classes(self.name, examples, usable)
        return self.restore(stacking.train("logistic", features[usable], labels, self.strength))

    @property
    def lessons(self) -> tuple[str, ...]:
        """What a reader should know of what was learnt: what got no weight, and why."""
        return () if self._state is None else stacking.unweighted(self._state, self._names())

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return the trained model as arrays."""
        if self._state is None:
            raise InputError("halt has not learnt yet")
        return self._state

    def restore(self, state: Mapping[str, NDArray[Any]]) -> Score:
        """Return a copy with this trained model."""
        fitted = copy.copy(self)
        fitted._state = dict(state)
        return fitted

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the probability; the evidence is the first model's, sentence by sentence."""
        if self._state is None:
            raise InputError(
                "halt learns from labelled examples before it can score: use calibrate or compare "
                "with a fit split (--fit-share)"
            )
        features, reasons, evidence = self._features(examples)
        values = stacking.probabilities(self._state, features)
        values[list(reasons)] = np.nan
        return Scores(values, reasons, tuple(evidence))

    def _names(self) -> list[str]:
        kinds = ("lack of support, mean", "lack of support, worst", "contradiction, mean",
                 "contradiction, worst")  # fmt: skip
        return [f"{model.model}: {kind}" for model in self.nli for kind in kinds]

    def _features(
        self, examples: Sequence[Example]
    ) -> tuple[_Floats, dict[int, str], list[Mapping[str, JSON]]]:
        """Return the numbers that the model weighs, shape (n, 8), NaN where undefined."""
        prepare(self.demands(examples))
        features = np.full((len(examples), 8), np.nan)
        reasons: dict[int, str] = {}
        evidence: list[Mapping[str, JSON]] = [{} for _ in examples]
        for index, example in enumerate(examples):
            pieces = [Piece(*part) for part in sentences(example.response)]
            why = missing(example, self.requires)
            if why is None and not pieces:
                why = "the response holds no sentence"
            if why is not None:
                reasons[index] = why
                continue
            tables = [rows(model.judge(_pairs(example)), len(pieces)) for model in self.nli]
            features[index] = [
                number
                for model, table in zip(self.nli, tables, strict=True)
                for number in _pooled(table, model.model)
            ]
            items = judged(pieces, tables[0], example.contexts)
            evidence[index] = {"kind": "sentences", "items": items}
        return features, reasons, evidence


def _pairs(example: Example) -> list[tuple[str, str]]:
    return grid(filled(example.contexts), [part.text for part in sentences(example.response)])


def _pooled(table: Sequence[Sequence[Judgement]], model: str) -> list[float]:
    """Return mean and most lack of support, and mean and most contradiction, over sentences."""
    lacking = 1.0 - best_support(table)
    opposed = np.array([max(opposition(cell, model) for cell in row) for row in table])
    return [
        float(lacking.mean()),
        float(lacking.max()),
        float(opposed.mean()),
        float(opposed.max()),
    ]
