"""Scores of whole grounding papers: the semantic illusion's, and Provenance with its reranker."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from calibrail.data.example import Example
from calibrail.errors import InputError, ModelError
from calibrail.models.batching import shared
from calibrail.models.classifiers import EntailmentModel, PairHead, PairModel
from calibrail.models.embeddings import Encoder, load_encoder
from calibrail.models.loading import DEFAULT_MODEL, Architecture
from calibrail.options.fields import numbers, one_of, whole
from calibrail.scores import base
from calibrail.scores.embedding import Floats, Rad
from calibrail.scores.ensemble import Combined, matrix
from calibrail.scores.entailment import NLI_MODEL, Sec, filled_places, quoted


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
            raise ModelError.on("no_reranker", model=self.model, n=n, names=names)
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


class Provenance(base.LocalScore):
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
        one_of(self.selection, Selection, "selection")
        one_of(self.aggregation, Aggregation, "aggregation")
        one_of(self.relevance, Relevance, "relevance")
        if not base.is_number(self.top_p) or not 0.0 < self.top_p <= 1.0:
            raise InputError(f"top_p must lie in (0, 1]; got {self.top_p!r}")
        self.top_p, self.top_k = float(self.top_p), whole(self.top_k, "top_k", least=1)
        self.nli = self.opened(EntailmentModel)
        model, revision, dtype = self.relevance_model, self.relevance_revision, self.dtype
        self.ranker: Encoder | Reranker = (
            shared(Reranker, model or RELEVANCE, revision, dtype, self.window, **self.computed)
            if self.relevance == "cross_encoder"
            else load_encoder(model or DEFAULT_MODEL, revision, "", dtype, **self.computed)
        )
        self.relevance_model = self.ranker.model

    def fingerprint(self) -> Mapping[str, base.JSON]:
        """Return the fingerprints of both models."""
        return {"factuality": self.nli.fingerprint(), "relevance": self.ranker.fingerprint()}

    def inputs(self, example: Example) -> list[Any]:
        """Return the question with every chunk."""
        chunks = base.filled(example.contexts)
        if isinstance(self.ranker, Encoder):
            return [example.question, *chunks]
        return [(example.question, chunk) for chunk in chunks]

    def demands(self, examples: Sequence[Example]) -> tuple[base.Demand, ...]:
        """Return what ranks the chunks; whose claims are judged shows only then."""
        return super().demands(examples)[1:]

    def score(self, examples: Sequence[Example]) -> base.Scores:
        """Return one minus the factuality; the evidence names each source with its weight."""
        base.prepare(self.demands(examples))
        claims = (_pairs(example, self._sources(example)[0]) for example in self.usable(examples))
        self.nli.prepare(dict.fromkeys(pair for pairs in claims for pair in pairs))
        return base.Detector.score(self, examples)

    def value(self, example: Example) -> base.Valued:
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

    def _sources(self, example: Example) -> tuple[list[int], Floats]:
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

    def _steady(self, logits: Floats, tolerance: float) -> bool:
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
    probabilities: Floats, selection: Selection, top_p: float, top_k: int
) -> tuple[list[int], Floats]:
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


#: Words a side of one matrix product: 16 MiB of similarities.
TILE: Final = 2048

#: Weights tried, in steps of a twentieth.
STEPS: Final = 20


class Tfg(base.Embedding):
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
        if not base.is_number(self.gamma) or not -1 < self.gamma < 1:
            raise InputError(f"gamma must lie in (-1, 1); got {self.gamma!r}")
        self.gamma = float(self.gamma)

    def inputs(self, example: Example) -> Iterable[str]:
        """Return chunks and response."""
        return (*base.filled(example.contexts), example.response)

    def demands(self, examples: Sequence[Example]) -> tuple[base.Demand, ...]:
        """Return every chunk and response, for their word vectors."""
        (demand,) = super().demands(examples)
        return (base.Demand(demand.model, ((), *demand.parts)),)

    def value(self, example: Example) -> float | str:
        """Return the share; undefined without a content word in response or contexts."""
        response = self.encoder.words(example.response)
        if not len(response):
            return base.NO_CONTENT_WORD
        chunks = [self.encoder.words(chunk) for chunk in base.filled(example.contexts)]
        if not any(len(chunk) for chunk in chunks):
            return "the contexts hold no content word"
        best = _best_matches(response, chunks)
        if self.is_half and (np.abs(best - self.gamma) <= self.tolerance).any():
            # A word on the other side moves the share by one word, whatever the noise: each text
            # is computed by itself, so that no batch decides.
            self.encoder.settle((*base.filled(example.contexts), example.response))
            chunks = [self.encoder.words(chunk) for chunk in base.filled(example.contexts)]
            best = _best_matches(self.encoder.words(example.response), chunks)
        return float(np.mean(best < self.gamma))


class CrossEncoder(base.LocalScore):
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
        self.reranker = self.opened(Reranker)

    def inputs(self, example: Example) -> list[tuple[str, str]]:
        """Return the response with every chunk."""
        return [(example.response, chunk) for chunk in base.filled(example.contexts)]

    def value(self, example: Example) -> base.Valued:
        """Return the negated logit of the most relevant chunk, which is the evidence."""
        logits = self.reranker.relevance(self.inputs(example))
        items = [
            {"relevance": float(logit), **quoted(example.response, example.contexts, place)}
            for place, logit in zip(filled_places(example.contexts), logits, strict=True)
        ]
        return -float(logits.max()), {"kind": "sources", "items": items}


class Crg(Combined, base.LocalScore):
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
    unfitted = f"with weights=learned learns them before it can score: {base.FIT_SPLIT}"
    arrays = ("weights",)

    def __post_init__(self) -> None:
        all_of_them: dict[str, Any] = {"dtype": self.dtype, **self.computed}
        encoder = {"model": self.model, "revision": self.revision, **all_of_them}
        nli = {"model": self.nli_model, "revision": self.nli_revision, **all_of_them}
        distance, grounding = Rad(**encoder), Tfg(gamma=self.gamma, **encoder)
        self.combine([distance, Sec(window=self.window, **nli), grounding])
        self.model, self.gamma = distance.model, grounding.gamma
        if self.weights != "learned":
            parts = [1.0, 1.0, 1.0] if self.weights == "equal" else numbers(self.weights, float)
            if len(parts) != 3 or min(parts) < 0.0 or not 0.0 < sum(parts) < math.inf:
                raise InputError.on("crg_weights", weights=self.weights)
            self._state = {"weights": np.array(parts) / sum(parts)}

    def score(self, examples: Sequence[Example]) -> base.Scores:
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

    def fit(self, examples: Sequence[Example]) -> base.Score:
        """Return a copy with the weights of the highest AUROC on these examples.

        Raises
        ------
        InputError
            If one class is missing among those on which all three scores are defined.
        """
        table = matrix(self.scored(examples))
        known = np.array(~np.isnan(table).any(axis=1))
        labels = base.both_classes(self.name, examples, known)
        return self.restore({"weights": best_weights(table[known], labels)})

    @property
    def lessons(self) -> tuple[str, ...]:
        """What a reader should know of what was learnt: the weights."""
        if self.weights != "learned" or self._state is None:
            return ()
        pairs = zip(self.members.values(), self._state["weights"], strict=True)
        shares = ", ".join(f"{member.name} {weight:.2f}" for member, weight in pairs)
        return (f"On the fit split crg learnt these weights: {shares}.",)


def best_weights(table: NDArray[np.float64], labels: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return the weights, at least 0 and adding up to 1, of the mean with the highest AUROC.

    A score that points the wrong way gets none: neither sign would make it a detector.

    Raises
    ------
    InputError
        If all of them do.
    """
    right = np.array([base.separation(column, labels) >= 0.5 for column in table.T])
    if not right.any():
        raise InputError.on("crg_points_wrong")
    steps = np.array([step for step in product(range(STEPS + 1), repeat=3) if sum(step) == STEPS])
    # Among equals the first is taken: that nearest to a third each.
    nearest = np.argsort(((3 * steps - STEPS) ** 2).sum(axis=1), kind="stable")
    mixes = [step / STEPS for step in steps[nearest] if not step[~right].any()]
    return max(mixes, key=lambda mix: base.separation(table @ mix, labels))


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
