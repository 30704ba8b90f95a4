"""What do embeddings, entailment and tokens say together?"""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.models.location import DEFAULT_MODEL
from calibrail.scores.base import Score, Scores
from calibrail.scores.combined import Combined, matrix
from calibrail.scores.entailment import NLI_MODEL, Sec
from calibrail.scores.labelled import both_classes, separation
from calibrail.scores.learned import FIT_SPLIT
from calibrail.scores.papers.tfg import Tfg
from calibrail.scores.parameters import numbers
from calibrail.scores.retrieval import Rad

#: Weights tried, in steps of a twentieth.
STEPS = 20
NAMES = ("rad", "sec", "tfg")


class Crg(Combined):
    """Conformal RAG Guardrails: a weighted mean of ``rad``, ``sec`` and ``tfg``.

    Sinha, "The Semantic Illusion" (arXiv 2512.15068), section 3 and appendix A.

    Parameters
    ----------
    weights : {"equal", "learned"} or str
        ``equal``: a third each, as in the paper. ``learned``: the weights, in steps of 0.05, of the
        highest AUROC on the fit split; among equals the ones nearest to a third each. Or three
        numbers at least 0, ``"0.5,0.3,0.2"``, for rad, sec and tfg; they are scaled to add up to 1.
    model, revision : str, str or None
        Sentence encoder; the embedded one when left out.
    nli_model, nli_revision : str, str or None
        Entailment model.
    gamma : float
        See ``Tfg``.
    dtype : {"float32", "bfloat16", "float16"}
        Precision of all weights.
    window : int or None
        See ``Entailing``.
    """

    weights: str = "equal"
    model: str = DEFAULT_MODEL
    revision: str | None = None
    nli_model: str = NLI_MODEL
    nli_revision: str | None = None
    gamma: float = 0.3
    dtype: str = "float32"
    window: int | None = None

    name = "crg"
    version = "calibrail-crg/1"
    unfitted = (
        "with weights=learned learns them from labelled examples before it can score: " + FIT_SPLIT
    )

    def __post_init__(self) -> None:
        encoder = Rad(model=self.model, revision=self.revision, dtype=self.dtype)
        entailment = Sec(
            model=self.nli_model, revision=self.nli_revision, dtype=self.dtype, window=self.window
        )
        grounding = Tfg(
            gamma=self.gamma, model=self.model, revision=self.revision, dtype=self.dtype
        )
        self.combine([encoder, entailment, grounding])
        self.model, self.gamma = encoder.model, grounding.gamma
        weights = _read_weights(self.weights)
        self._state = None if weights is None else {"weights": weights}

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the weighted mean; undefined where one of the three is that has a weight."""
        mix = self.learnt()["weights"]
        scored = self.scored(examples)
        table = matrix(scored)
        counted = mix > 0.0
        # Row by row: a product of matrices may round differently in another batch.
        values = (table[:, counted] * mix[counted]).sum(axis=1)
        reasons = {
            row: next(
                f"{key}: {scores.reasons[row]}"
                for (key, scores), counts in zip(scored.items(), counted, strict=True)
                if counts and row in scores.reasons
            )
            for row in np.flatnonzero(np.isnan(values)).tolist()
        }
        return self.explained(values, scored, reasons, weight=np.tile(mix, (len(values), 1)))

    def fit(self, examples: Sequence[Example]) -> Score:
        """Return a copy with the weights of the highest AUROC on these examples.

        Raises
        ------
        InputError
            If one class is missing among those on which all three scores are defined.
        """
        table = matrix(self.scored(examples))
        known = np.array(~np.isnan(table).any(axis=1))
        labels = both_classes(self.name, examples, known)
        return self.restore({"weights": best_weights(table[known], labels)})

    @property
    def lessons(self) -> tuple[str, ...]:
        """What a reader should know of what was learnt: the weights."""
        if self.weights != "learned" or self._state is None:
            return ()
        pairs = zip(NAMES, self._state["weights"], strict=True)
        shares = ", ".join(f"{key} {weight:.2f}" for key, weight in pairs)
        return (f"crg learnt these weights on the fit split: {shares}",)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> Self:
        """Return a copy with these weights of rad, sec and tfg."""
        return super().restore({"weights": np.asarray(state["weights"], dtype=np.float64)})


def best_weights(table: NDArray[np.float64], labels: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return the weights, at least 0 and adding up to 1, of the mean with the highest AUROC.

    A score that points the wrong way gets none: neither sign would make it a detector.

    Raises
    ------
    InputError
        If all of them do.
    """
    right = np.array([separation(column, labels) >= 0.5 for column in table.T])
    if not right.any():
        raise InputError(
            "rad, sec and tfg all point the wrong way on the fit split; check the labels"
        )
    from sklearn.metrics import roc_auc_score

    steps = [
        (i, j, STEPS - i - j) for i, j in product(range(STEPS + 1), repeat=2) if i + j <= STEPS
    ]
    steps.sort(key=lambda step: sum((3 * part - STEPS) ** 2 for part in step))
    best, highest = steps[0], -1.0
    for step in steps:
        if any(part > 0 and not fine for part, fine in zip(step, right.tolist(), strict=True)):
            continue
        reached = float(roc_auc_score(labels, table @ (np.array(step) / STEPS)))
        if reached > highest:
            best, highest = step, reached
    return np.array(best, dtype=np.float64) / STEPS


def _read_weights(weights: str) -> NDArray[np.float64] | None:
    if weights == "learned":
        return None
    if weights == "equal":
        return np.full(3, 1.0 / 3.0)
    parts = numbers(weights)
    if len(parts) != 3 or min(parts) < 0.0 or not math.isfinite(sum(parts)) or sum(parts) <= 0.0:
        raise InputError(
            "weights must be equal, learned or three numbers at least 0, e.g. "
            f'weights="0.5,0.3,0.2"; got {weights!r}'
        )
    return np.array(parts) / sum(parts)
