"""Do the sources that matter for the question support its answer?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.models.embedding import Encoder
from calibrail.models.encoder import load_encoder
from calibrail.models.location import DEFAULT_MODEL
from calibrail.models.nli import load_nli
from calibrail.models.reranker import Reranker, load_reranker
from calibrail.scores.base import JSON, Demand, Scores, SharedModel, missing, prepare
from calibrail.scores.evidence import quoted
from calibrail.scores.neural import filled

Selection = Literal["top_p", "top_k"]
Aggregation = Literal["max", "min", "weighted"]
Relevance = Literal["cross_encoder", "dot", "cosine"]

#: The models of the paper.
FACTUALITY = "vectara/hallucination_evaluation_model"
RELEVANCE = "mixedbread-ai/mxbai-rerank-base-v1"

_Floats = NDArray[np.float64]


class Provenance:
    """1 - factuality of the answer given the sources that are relevant to the question.

    Sankararaman et al., "Provenance" (arXiv 2411.01022), sections 3.1 to 3.3. A cross-encoder says
    how relevant each chunk is to the question; the most relevant ones stay, in their original
    order, with weights that add up to 1; a model of factual consistency judges the claim "The
    answer to question Q is A." given each; the judgements are aggregated. In [0, 1]; higher means
    more likely hallucinated.

    Parameters
    ----------
    selection : {"top_p", "top_k"}
        ``top_p``: the fewest chunks, most relevant first, whose probabilities reach ``top_p``.
        ``top_k``: so many of them.
    top_p : float
        In (0, 1].
    top_k : int
        At least 1.
    aggregation : {"max", "min", "weighted"}
        Over the sources kept.
    relevance : {"cross_encoder", "dot", "cosine"}
        A cross-encoder's raw logits, or the embedding relevance of the paper's appendix: the dot
        product of the encoder's vectors, or their cosine (the same for an encoder that normalises).
        Each becomes a probability by softmax.
    model, revision : str, str or None
        Model of factual consistency.
    relevance_model, relevance_revision : str or None
        Cross-encoder or sentence encoder; None for the paper's cross-encoder and the embedded
        encoder.
    dtype : {"float32", "bfloat16", "float16"}
        Precision of all weights.
    window : int or None
        Most tokens of a chunk a pass; None for what each model reads.
    """

    name = "provenance"
    requires: tuple[str, ...] = ("question", "contexts", "response")

    def __init__(
        self,
        *,
        selection: Selection = "top_p",
        top_p: float = 0.9,
        top_k: int = 5,
        aggregation: Aggregation = "max",
        relevance: Relevance = "cross_encoder",
        model: str = FACTUALITY,
        revision: str | None = None,
        relevance_model: str | None = None,
        relevance_revision: str | None = None,
        dtype: str = "float32",
        window: int | None = None,
    ) -> None:
        for name, value, known in (
            ("selection", selection, get_args(Selection)),
            ("aggregation", aggregation, get_args(Aggregation)),
            ("relevance", relevance, get_args(Relevance)),
        ):
            if value not in known:
                raise InputError(f"{name} must be one of {', '.join(known)}; got {value!r}")
        if isinstance(top_p, bool) or not isinstance(top_p, int | float) or not 0.0 < top_p <= 1.0:
            raise InputError(f"top_p must lie in (0, 1]; got {top_p!r}")
        if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
            raise InputError(f"top_k must be a whole number, at least 1; got {top_k!r}")
        self.selection, self.top_p, self.top_k = selection, float(top_p), top_k
        self.aggregation, self.relevance = aggregation, relevance
        self.nli = load_nli(model, revision, dtype, window)
        embedding = relevance != "cross_encoder"
        chosen = relevance_model or (DEFAULT_MODEL if embedding else RELEVANCE)
        self.ranker: Encoder | Reranker = (
            load_encoder(chosen, relevance_revision, "", dtype)
            if embedding
            else load_reranker(chosen, relevance_revision, dtype, window)
        )

    @property
    def tolerance(self) -> float:
        """How far two computations of one probability may differ, by the precision."""
        return self.nli.tolerance

    @property
    def params(self) -> Mapping[str, JSON]:
        """Every parameter with its value."""
        return {
            "selection": self.selection,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "aggregation": self.aggregation,
            "relevance": self.relevance,
            "model": self.nli.model,
            "revision": self.nli.revision,
            "relevance_model": self.ranker.model,
            "relevance_revision": self.ranker.revision,
            "dtype": self.nli.dtype,
            "window": self.nli.window,
        }

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the fingerprints of both models."""
        return {"factuality": self.nli.fingerprint(), "relevance": self.ranker.fingerprint()}

    @property
    def models(self) -> tuple[SharedModel, ...]:
        """The model of relevance and that of factual consistency."""
        return (self.ranker, self.nli)

    def forget(self) -> None:
        """Drop what was computed, so that the next example is computed by itself."""
        for model in self.models:
            model.forget()

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return every question with every chunk; whose claims are judged shows only then."""
        usable = [example for example in examples if missing(example, self.requires) is None]
        asked: list[Any]
        if isinstance(self.ranker, Encoder):
            asked = [text for item in usable for text in (item.question, *filled(item.contexts))]
        else:
            asked = [(item.question, chunk) for item in usable for chunk in filled(item.contexts)]
        return (Demand(self.ranker, (tuple(dict.fromkeys(asked)),)),)

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return one minus the factuality; the evidence names each source with its weight."""
        prepare(self.demands(examples))
        values = np.full(len(examples), np.nan)
        reasons: dict[int, str] = {}
        kept: dict[int, tuple[list[int], _Floats]] = {}
        pairs: dict[tuple[str, str], None] = {}
        for index, example in enumerate(examples):
            why = missing(example, self.requires)
            if why is not None:
                reasons[index] = why
                continue
            kept[index] = self._sources(example)
            claim = _claim(example)
            pairs.update(dict.fromkeys((example.contexts[i], claim) for i in kept[index][0]))
        self.nli.prepare(pairs)
        evidence: list[Mapping[str, JSON]] = [{} for _ in examples]
        for index, (sources, weights) in kept.items():
            example = examples[index]
            claim = _claim(example)
            judged = self.nli.judge([(example.contexts[source], claim) for source in sources])
            factuality = np.array([judgement.entailment for judgement in judged])
            values[index] = 1.0 - _aggregate(factuality, weights, self.aggregation)
            items = [
                {
                    "weight": float(weight),
                    "factuality": judgement.entailment,
                    **quoted(
                        example.response, example.contexts, source, judgement.start, judgement.end
                    ),
                }
                for source, weight, judgement in zip(sources, weights, judged, strict=True)
            ]
            evidence[index] = {"kind": "sources", "items": items}
        return Scores(values, reasons, tuple(evidence))

    def _sources(self, example: Example) -> tuple[list[int], _Floats]:
        """Return the chunks kept, in their original order, with their weights."""
        chunks = [index for index, chunk in enumerate(example.contexts) if chunk.strip()]
        texts = [example.contexts[index] for index in chunks]
        if isinstance(self.ranker, Encoder):
            vectors = self.ranker.sentences(
                [example.question, *texts], normal=self.relevance == "cosine"
            )
            logits = vectors[1:] @ vectors[0]
        else:
            pairs = [(example.question, text) for text in texts]
            logits = self.ranker.relevance(pairs)
            if not self._steady(logits, self.ranker.tolerance):
                # Rounding could choose other sources: then each is computed by itself.
                self.ranker.settle(pairs)
                logits = self.ranker.relevance(pairs)
        chosen, weights = select(softmax(logits), self.selection, self.top_p, self.top_k)
        return [chunks[place] for place in chosen], weights

    def _steady(self, logits: _Floats, tolerance: float) -> bool:
        """Return whether the choice of sources is far from any other, as far as rounding goes."""
        ordered = np.sort(logits)[::-1]
        n = len(select(softmax(logits), self.selection, self.top_p, self.top_k)[0])
        apart = n == len(ordered) or ordered[n - 1] - ordered[n] > 2.0 * tolerance
        if self.selection == "top_k":
            return bool(apart)
        # Logits that each move by the tolerance move a sum of shares by half of it at most.
        mass = np.cumsum(softmax(ordered))[:-1]
        return bool(apart and (np.abs(mass - self.top_p) > tolerance).all())


def select(
    probabilities: _Floats, selection: Selection, top_p: float, top_k: int
) -> tuple[list[int], _Floats]:
    """Return which sources stay, in their original order, with weights that add up to 1.

    >>> select(np.array([0.1, 0.6, 0.3]), "top_p", 0.8, 5)[0]
    [1, 2]
    """
    # Ties keep the earlier chunk.
    order = np.argsort(-probabilities, kind="stable")
    if selection == "top_k":
        n = min(top_k, len(order))
    else:
        # A sum that misses top_p by rounding alone has reached it.
        reached = np.cumsum(probabilities[order]) >= top_p - 1e-12
        n = int(np.argmax(reached)) + 1 if reached.any() else len(order)
    chosen = np.sort(order[:n])
    weights = probabilities[chosen]
    return chosen.tolist(), weights / weights.sum()


def softmax(logits: _Floats) -> _Floats:
    """Return probabilities, shape of ``logits``."""
    powers = np.exp(logits - logits.max())
    result: _Floats = powers / powers.sum()
    return result


def _aggregate(factuality: _Floats, weights: _Floats, how: Aggregation) -> float:
    if how == "weighted":
        return float(weights @ factuality)
    return float(factuality.max() if how == "max" else factuality.min())


def _claim(example: Example) -> str:
    return f"The answer to question {example.question} is {example.response}."
