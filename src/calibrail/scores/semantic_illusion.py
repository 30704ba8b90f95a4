"""Context-response geometry: the scores and the ensemble of the semantic illusion paper.

Sinha, arXiv 2512.15068; its ``rad`` and ``sec`` are of use beyond the paper and stand elsewhere.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.models.batching import shared
from calibrail.models.loading import DEFAULT_MODEL
from calibrail.scores.base import NO_CONTENT_WORD, Demand, Score, Scores, Valued
from calibrail.scores.detector import (
    FIT_SPLIT,
    Embedding,
    LocalScore,
    both_classes,
    filled,
    is_number,
    numbers,
    separation,
)
from calibrail.scores.embedding import Rad
from calibrail.scores.ensemble import Combined, matrix
from calibrail.scores.entailment import NLI_MODEL, Sec, filled_places, quoted
from calibrail.scores.provenance import Reranker

#: Words a side of one matrix product: 16 MiB of similarities.
TILE: Final = 2048

#: Weights tried, in steps of a twentieth.
STEPS: Final = 20


class Tfg(Embedding):
    """Token-level Factual Grounding: share of content words whose best match is below gamma.

    For each content word of the response, the highest cosine similarity with any content word of
    the chunks, on contextual embeddings (subwords averaged to words). Sinha, "The Semantic
    Illusion" (arXiv 2512.15068), equation 4. In [0, 1]; higher means more likely hallucinated.

    Parameters
    ----------
    gamma : float
        A word whose best match is below this counts as not grounded; in (-1, 1).
    model, revision, prompt, dtype
        See ``Embedding``.
    """

    gamma: float = 0.3

    name = "tfg"
    reads_all = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_number(self.gamma) or not -1 < self.gamma < 1:
            raise InputError(f"gamma must lie in (-1, 1); got {self.gamma!r}")
        self.gamma = float(self.gamma)

    def inputs(self, example: Example) -> Iterable[str]:
        """Return chunks and response."""
        return (*filled(example.contexts), example.response)

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return every chunk and response, for their word vectors."""
        (demand,) = super().demands(examples)
        return (Demand(demand.model, ((), *demand.parts)),)

    def value(self, example: Example) -> float | str:
        """Return the share; undefined without a content word in response or contexts."""
        response = self.encoder.words(example.response)
        if not len(response):
            return NO_CONTENT_WORD
        chunks = [self.encoder.words(chunk) for chunk in filled(example.contexts)]
        if not any(len(chunk) for chunk in chunks):
            return "the contexts hold no content word"
        best = _best_matches(response, chunks)
        if self.is_half and (np.abs(best - self.gamma) <= self.tolerance).any():
            # A word on the other side moves the share by one word, whatever the noise: each text
            # is computed by itself, so that no batch decides.
            self.encoder.settle((*filled(example.contexts), example.response))
            chunks = [self.encoder.words(chunk) for chunk in filled(example.contexts)]
            best = _best_matches(self.encoder.words(example.response), chunks)
        return float(np.mean(best < self.gamma))


class CrossEncoder(LocalScore):
    """-max over chunks of the raw logit of (response, chunk).

    Unbounded; higher means more likely hallucinated. Source: the baseline of "The Semantic
    Illusion" (arXiv 2512.15068); the sigmoid that its model card applies saturates, the logit does
    not.

    Parameters
    ----------
    model : str
        Hub name or folder of a cross-encoder with one output.
    revision : str or None
        Revision of a hub model.
    dtype : {"float32", "bfloat16", "float16"}
        Precision of the weights.
    window : int or None
        Most tokens of a chunk a pass; None for what the model reads.
    backend, device
        See ``LocalScore``.
    """

    model: str = "BAAI/bge-reranker-v2-m3"
    revision: str | None = None
    dtype: str = "float32"
    window: int | None = None

    name = "reranker"
    explains = True
    uses = ("reranker",)
    of_response = True

    def __post_init__(self) -> None:
        self.reranker = shared(
            Reranker, self.model, self.revision, self.dtype, self.window, **self.computed
        )

    def inputs(self, example: Example) -> list[tuple[str, str]]:
        """Return the response with every chunk."""
        return [(example.response, chunk) for chunk in filled(example.contexts)]

    def value(self, example: Example) -> Valued:
        """Return the negated logit of the most relevant chunk, which is the evidence."""
        logits = self.reranker.relevance(self.inputs(example))
        items = [
            {"relevance": float(logit), **quoted(example.response, example.contexts, place)}
            for place, logit in zip(filled_places(example.contexts), logits, strict=True)
        ]
        return -float(logits.max()), {"kind": "sources", "items": items}


class Crg(Combined, LocalScore):
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
    backend, device
        See ``LocalScore``; of all models.
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
        f"with weights=learned learns them from labelled examples before it can score: {FIT_SPLIT}"
    )
    arrays = ("weights",)

    def __post_init__(self) -> None:
        encoder: dict[str, Any] = {
            "model": self.model,
            "revision": self.revision,
            "dtype": self.dtype,
            **self.computed,
        }
        distance, grounding = Rad(**encoder), Tfg(gamma=self.gamma, **encoder)
        entailment = Sec(
            model=self.nli_model,
            revision=self.nli_revision,
            dtype=self.dtype,
            window=self.window,
            **self.computed,
        )
        self.combine([distance, entailment, grounding])
        self.model, self.gamma = distance.model, grounding.gamma
        if self.weights != "learned":
            parts = [1.0, 1.0, 1.0] if self.weights == "equal" else numbers(self.weights)
            if len(parts) != 3 or min(parts) < 0.0 or not 0.0 < sum(parts) < math.inf:
                raise InputError(
                    "weights must be equal, learned or three numbers at least 0, e.g. "
                    f'weights="0.5,0.3,0.2"; got {self.weights!r}'
                )
            self._state = {"weights": np.array(parts) / sum(parts)}

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the weighted mean; undefined where one of the three is that has a weight."""
        mix = self.state()["weights"]
        scored = self.scored(examples)
        counted = mix > 0.0
        # Row by row: a product of matrices may round differently in another batch.
        values = (matrix(scored)[:, counted] * mix[counted]).sum(axis=1)
        weighed = [item for item, counts in zip(scored.items(), counted, strict=True) if counts]
        reasons = {
            row: next(
                f"{key}: {scores.reasons[row]}" for key, scores in weighed if row in scores.reasons
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
        pairs = zip(self.members.values(), self._state["weights"], strict=True)
        shares = ", ".join(f"{member.name} {weight:.2f}" for member, weight in pairs)
        return (f"crg learnt these weights on the fit split: {shares}",)


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
    steps = np.array([step for step in product(range(STEPS + 1), repeat=3) if sum(step) == STEPS])
    # Among equals the first is taken: that nearest to a third each.
    nearest = np.argsort(((3 * steps - STEPS) ** 2).sum(axis=1), kind="stable")
    mixes = [step / STEPS for step in steps[nearest] if not step[~right].any()]
    return max(mixes, key=lambda mix: separation(table @ mix, labels))


def _best_matches(
    response: NDArray[np.float32], chunks: Sequence[NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Return each response word's highest cosine with any word of the chunks, shape (words,)."""
    best = np.full(len(response), -np.inf, dtype=np.float32)
    for chunk in chunks:
        # In tiles, since a long answer times a long context would not fit into memory.
        for start in range(0, len(response), TILE):
            part = best[start : start + TILE]
            for other in range(0, len(chunk), TILE):
                similar = response[start : start + TILE] @ chunk[other : other + TILE].T
                np.maximum(part, similar.max(axis=1), out=part)
    return best
