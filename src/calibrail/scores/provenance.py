"""Provenance: relevance of the contexts by a reranker, consistency by entailment."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from calibrail.data.example import Example
from calibrail.errors import InputError, ModelError
from calibrail.models.batching import shared
from calibrail.models.embeddings import Encoder, load_encoder
from calibrail.models.loading import DEFAULT_MODEL, Architecture
from calibrail.models.nli import EntailmentModel
from calibrail.models.window_models import PairHead, PairModel
from calibrail.scores.base import JSON, Demand, Scores, Valued, prepare
from calibrail.scores.detector import Detector, LocalScore, filled, is_number, one_of, whole
from calibrail.scores.entailment import filled_places, quoted


class Reranker(PairModel):
    """A cross-encoder of query (short) and document (long) with one output.

    Scores of one process share one: ``shared`` in ``models/batching.py``. The output is the raw
    logit: a sigmoid would saturate, so that logits of 17 and 18 would both be 1.0.

    Parameters
    ----------
    model, revision, dtype, window
        See ``PairModel``.
    """

    @property
    def tolerance(self) -> float:
        """How far two computations of one logit may differ; logits reach about 10."""
        return 10.0 * super().tolerance

    def describe(self) -> dict[str, Any]:
        """Return the kind of head.

        Raises
        ------
        ModelError
            If the model has not exactly one output.
        """
        labels = self.place.config("id2label")
        stated = self.place.config("num_labels")
        # Two outputs are what transformers makes of a config that states none.
        n = len(labels) if isinstance(labels, dict) else stated if isinstance(stated, int) else 2
        if n != 1:
            listed = ", ".join(map(str, (labels or {}).values()))
            names = f"labels {listed}" if labels else "states no labels"
            raise ModelError(
                f"{self.model} is no reranker: a reranker has one output, its relevance, and this "
                f"model has {n} ({names}). Give one as model=, e.g. BAAI/bge-reranker-v2-m3"
            )
        return {"head": "relevance logit"}

    def relevance(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Return the logit of each (query, document), of its best window; float64, shape (n,).

        Raises
        ------
        ModelError
            If the model cannot be loaded or is no reranker.
        """
        return np.array([best.values[0] for best in self.results(pairs)], dtype=np.float64)

    def open(self) -> PairHead:
        """Load the model."""
        self.describe()
        architecture = Architecture("AutoModelForSequenceClassification", "a reranker")
        return self.open_head(architecture, partial(PairHead, long_first=False))


Selection = Literal["top_p", "top_k"]
Aggregation = Literal["max", "min", "weighted"]
Relevance = Literal["cross_encoder", "dot", "cosine"]

#: The models of the paper.
FACTUALITY = "vectara/hallucination_evaluation_model"
RELEVANCE = "mixedbread-ai/mxbai-rerank-base-v1"

_Floats = NDArray[np.float64]


class Provenance(LocalScore):
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
    backend, device
        See ``LocalScore``; of all models.
    """

    selection: Selection = "top_p"
    top_p: float = 0.9
    top_k: int = 5
    aggregation: Aggregation = "max"
    relevance: Relevance = "cross_encoder"
    model: str = FACTUALITY
    revision: str | None = None
    relevance_model: str | None = None
    relevance_revision: str | None = None
    dtype: str = "float32"
    window: int | None = None

    name = "provenance"
    explains = True
    uses = ("nli", "ranker")
    requires = ("question", "contexts", "response")

    def __post_init__(self) -> None:
        one_of(self.selection, "selection", get_args(Selection))
        one_of(self.aggregation, "aggregation", get_args(Aggregation))
        one_of(self.relevance, "relevance", get_args(Relevance))
        if not is_number(self.top_p) or not 0.0 < self.top_p <= 1.0:
            raise InputError(f"top_p must lie in (0, 1]; got {self.top_p!r}")
        self.top_p, self.top_k = float(self.top_p), whole(self.top_k, "top_k")
        self.nli = shared(
            EntailmentModel, self.model, self.revision, self.dtype, self.window, **self.computed
        )
        model, revision, dtype = self.relevance_model, self.relevance_revision, self.dtype
        self.ranker: Encoder | Reranker = (
            shared(Reranker, model or RELEVANCE, revision, dtype, self.window, **self.computed)
            if self.relevance == "cross_encoder"
            else load_encoder(model or DEFAULT_MODEL, revision, "", dtype, **self.computed)
        )
        self.relevance_model = self.ranker.model

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the fingerprints of both models."""
        return {"factuality": self.nli.fingerprint(), "relevance": self.ranker.fingerprint()}

    def inputs(self, example: Example) -> list[Any]:
        """Return the question with every chunk."""
        chunks = filled(example.contexts)
        if isinstance(self.ranker, Encoder):
            return [example.question, *chunks]
        return [(example.question, chunk) for chunk in chunks]

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return what ranks the chunks; whose claims are judged shows only then."""
        return super().demands(examples)[1:]

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return one minus the factuality; the evidence names each source with its weight."""
        prepare(self.demands(examples))
        usable = self.usable(examples)
        claims = (_pairs(example, self._sources(example)[0]) for example in usable)
        self.nli.prepare(dict.fromkeys(pair for pairs in claims for pair in pairs))
        return Detector.score(self, examples)

    def value(self, example: Example) -> Valued:
        """Return the value of one example."""
        sources, weights = self._sources(example)
        judged = self.nli.judge(_pairs(example, sources))
        factuality = np.array([judgement.entailment for judgement in judged])
        items = [
            {"weight": weight, "factuality": said.entailment}
            | quoted(example.response, example.contexts, source, said.start, said.end)
            for source, weight, said in zip(sources, weights.tolist(), judged, strict=True)
        ]
        how = {"max": factuality.max(), "min": factuality.min(), "weighted": weights @ factuality}
        return 1.0 - float(how[self.aggregation]), {"kind": "sources", "items": items}

    def _sources(self, example: Example) -> tuple[list[int], _Floats]:
        """Return the chunks kept, in their original order, with their weights."""
        chunks = filled_places(example.contexts)
        inputs = self.inputs(example)
        if isinstance(self.ranker, Encoder):
            vectors = self.ranker.sentences(inputs, normal=self.relevance == "cosine")
            logits = vectors[1:] @ vectors[0]
        else:
            logits = self.ranker.relevance(inputs)
            if not self._steady(logits, self.ranker.tolerance):
                # Rounding could choose other sources: then each is computed by itself.
                self.ranker.settle(inputs)
                logits = self.ranker.relevance(inputs)
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
    n = top_k
    if selection == "top_p":
        # A sum that misses top_p by rounding alone has reached it.
        n = 1 + int(np.count_nonzero(np.cumsum(probabilities[order]) < top_p - 1e-12))
    chosen = np.sort(order[:n])
    weights = probabilities[chosen]
    return chosen.tolist(), weights / weights.sum()


def _pairs(example: Example, sources: Sequence[int]) -> list[tuple[str, str]]:
    claim = f"The answer to question {example.question} is {example.response}."
    return [(example.contexts[source], claim) for source in sources]
