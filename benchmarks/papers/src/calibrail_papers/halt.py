"""What do two entailment models say, weighed by what the fit split showed?"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.models.batching import shared
from calibrail.models.classifiers import EntailmentModel, Judgement
from calibrail.scores import ensemble, entailment
from calibrail.scores.base import (
    JSON,
    NO_SENTENCE,
    Learning,
    LocalScore,
    Score,
    Scores,
    both_classes,
    positive,
    prepare,
)
from calibrail.scores.entailment import judged
from calibrail.text.sentences import sentences, sentences_version

#: The second model: "DeBERTa-v3 + BART-MNLI" in the "Semantic Illusion" paper's baseline.
SECOND = "cross-encoder/nli-deberta-v3-base"


class Halt(Learning, LocalScore):
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
    backend, device
        See ``LocalScore``; of both models.
    """

    model: str = entailment.NLI_MODEL
    revision: str | None = None
    second: str = SECOND
    second_revision: str | None = None
    strength: float = 1.0
    dtype: str = "float32"
    window: int | None = None

    name = "halt"
    #: Models and revisions of the paper: the commit before 2026 where one is given.
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "paper": {
            "model": "facebook/bart-large-mnli",
            "revision": "d7645e127eaf1aefc7862fd59a17a5aa8558b8ce",
            "second": SECOND,
        }
    }
    of_response = True

    def __post_init__(self) -> None:
        self.strength = positive(self.strength, "strength")
        specified = (self.model, self.revision), (self.second, self.second_revision)
        if specified[0] == specified[1]:
            raise InputError(f"halt combines two models; model and second are both {self.model!r}")
        self.nli = tuple(
            shared(EntailmentModel, *item, self.dtype, self.window, **self.computed)
            for item in specified
        )

    @property
    def tolerance(self) -> float:
        """How far rounding may move the probability, by the precision and by what was learnt."""
        tolerances = [model.tolerance for model in self.nli for _ in range(4)]
        return ensemble.tolerance(self._state, tolerances)

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the fingerprints of both models and the version of the sentence splitting."""
        first, second = self.nli
        return {
            "first": first.fingerprint(),
            "second": second.fingerprint(),
            "sentences": sentences_version(),
            **self.cut(),
            # It goes up when the same models and the same state would give another value.
            "version": "calibrail-halt/1",
        }

    @property
    def models(self) -> tuple[Any, ...]:
        """Both models."""
        return self.nli

    def inputs(self, example: Example) -> list[entailment.Pair]:
        """Return every chunk with every sentence."""
        return entailment.sentence_grid(example.contexts, example)

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
        return self.restore(ensemble.train("logistic", features[usable], labels, self.strength))

    @property
    def lessons(self) -> tuple[str, ...]:
        """What a reader should know of what was learnt: what got no weight, and why."""
        kinds = product(self.nli, ("lack of support", "contradiction"), ("mean", "worst"))
        names = [f"{model.model}: {kind}, {pooled}" for model, kind, pooled in kinds]
        return ensemble.unweighted(self._state, names)

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the probability; the evidence is the first model's, sentence by sentence."""
        state = self.state()
        features, reasons, evidence = self._features(examples)
        values = ensemble.probabilities(state, features)
        values[list(reasons)] = np.nan
        return Scores(values, reasons, tuple(evidence))

    def _features(
        self, examples: Sequence[Example]
    ) -> tuple[NDArray[np.float64], dict[int, str], list[Mapping[str, JSON]]]:
        """Return the numbers that the model weighs, shape (n, 8), NaN where undefined."""
        prepare(self.demands(examples))
        features = np.full((len(examples), 8), np.nan)
        reasons: dict[int, str] = {}
        evidence: list[Mapping[str, JSON]] = [{} for _ in examples]
        for row, example in enumerate(examples):
            pieces = sentences(example.response)
            if why := self.lacks(example) or ("" if pieces else NO_SENTENCE):
                reasons[row] = why
                continue
            pairs = self.inputs(example)
            tables = [entailment.rows(nli.judge(pairs), len(pieces)) for nli in self.nli]
            judgements = zip(tables, self.nli, strict=True)
            features[row] = np.concatenate([_pooled(table, nli.model) for table, nli in judgements])
            items = judged(pieces, tables[0], example.contexts)
            evidence[row] = {"kind": "sentences", "items": items}
        return features, reasons, evidence


def _pooled(table: Sequence[Sequence[Judgement]], model: str) -> list[float]:
    """Return mean and most lack of support, and mean and most contradiction, over sentences."""
    lacking = 1.0 - entailment.best_support(table)
    opposed = np.array([max(entailment.opposition(cell, model) for cell in row) for row in table])
    return [float(pool()) for side in (lacking, opposed) for pool in (side.mean, side.max)]
