"""Is any chunk relevant to the answer, as a cross-encoder sees it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from calibrail.data.example import Example
from calibrail.models.reranker import load_reranker
from calibrail.scores.base import JSON, Demand, Scores, SharedModel, missing, prepare
from calibrail.scores.evidence import quoted
from calibrail.scores.neural import filled

#: The cross-encoder of the "Semantic Illusion" paper.
RERANKER = "BAAI/bge-reranker-v2-m3"


class CrossEncoder:
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
    """

    name = "reranker"
    requires: tuple[str, ...] = ("contexts", "response")

    def __init__(
        self,
        *,
        model: str = RERANKER,
        revision: str | None = None,
        dtype: str = "float32",
        window: int | None = None,
    ) -> None:
        self.reranker = load_reranker(model, revision, dtype, window)

    @property
    def tolerance(self) -> float:
        """How far two computations of one logit may differ, by the precision."""
        return self.reranker.tolerance

    @property
    def params(self) -> Mapping[str, JSON]:
        """Every parameter with its value."""
        own = self.reranker
        return {
            "model": own.model,
            "revision": own.revision,
            "dtype": own.dtype,
            "window": own.window,
        }

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the model's fingerprint."""
        return self.reranker.fingerprint()

    @property
    def models(self) -> tuple[SharedModel, ...]:
        """The cross-encoder."""
        return (self.reranker,)

    def forget(self) -> None:
        """Drop what was computed, so that the next pair is computed by itself."""
        self.reranker.forget()

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return every response with every chunk."""
        pairs = [
            (example.response, chunk)
            for example in examples
            if missing(example, self.requires) is None
            for chunk in filled(example.contexts)
        ]
        return (Demand(self.reranker, (tuple(dict.fromkeys(pairs)),)),)

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the negated logit of the most relevant chunk, which is the evidence."""
        prepare(self.demands(examples))
        values = np.full(len(examples), np.nan)
        reasons: dict[int, str] = {}
        evidence: list[Mapping[str, JSON]] = []
        for index, example in enumerate(examples):
            why = missing(example, self.requires)
            if why is not None:
                reasons[index] = why
                evidence.append({})
                continue
            chunks = [place for place, chunk in enumerate(example.contexts) if chunk.strip()]
            logits = self.reranker.relevance(
                [(example.response, example.contexts[place]) for place in chunks]
            )
            values[index] = -float(logits.max())
            items = [
                {"relevance": float(logit), **quoted(example.response, example.contexts, place)}
                for place, logit in zip(chunks, logits, strict=True)
            ]
            evidence.append({"kind": "sources", "items": items})
        return Scores(values, reasons, tuple(evidence))
