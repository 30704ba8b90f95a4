"""Is the answer far from every retrieved chunk?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.base import JSON, Demand, Scores, prepare
from calibrail.scores.neural import Embedding, cosines, filled

Weighting = Literal["max", "question"]

#: Temperature of the question-weighted mix in the published code.
TEMPERATURE = 0.1


class Rad(Embedding):
    """Retrieval-Attribution Divergence: 1 - max over chunks of cos(response, chunk).

    Sinha, "The Semantic Illusion" (arXiv 2512.15068), equation 2. In [0, 2]; higher means more
    likely hallucinated.

    Parameters
    ----------
    weighting : {"max", "question"}
        ``max``: the formula of the paper. ``question``: the published code, which averages the
        maximum with a mean of the similarities weighted by softmax(cos(question, chunk) / 0.1).
    **encoder
        ``model``, ``revision``, ``prompt``, ``dtype``; see ``Embedding``.
    """

    name = "rad"
    requires: tuple[str, ...] = ("contexts", "response")

    def __init__(self, *, weighting: Weighting = "max", **encoder: Any) -> None:
        super().__init__(**encoder)
        if weighting not in get_args(Weighting):
            raise InputError(f"weighting must be max or question; got {weighting!r}")
        self.weighting = weighting
        if weighting == "question":
            self.requires = ("question", "contexts", "response")

    def own_params(self) -> Mapping[str, JSON]:
        """Return the weighting."""
        return {"weighting": self.weighting}

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return every chunk and response, and the questions where they weigh."""
        texts: dict[str, None] = {}
        for example in examples:
            texts.update(dict.fromkeys(filled(example.contexts)))
            texts[example.response] = None
            if self.weighting == "question":
                texts[example.question] = None
        return (Demand(self.encoder, (tuple(text for text in texts if text.strip()),)),)

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the divergence; undefined without context or response."""
        values, positions, reasons = self.usable(examples)
        if not positions:
            return Scores(values, reasons)
        chosen = [examples[i] for i in positions]
        prepare(self.demands(chosen))
        vectors = self.encoder.sentences
        chunks = [filled(example.contexts) for example in chosen]
        owner = np.repeat(np.arange(len(chosen)), [len(group) for group in chunks])
        documents = vectors([text for group in chunks for text in group])
        similar = cosines(vectors([example.response for example in chosen])[owner], documents)
        support = np.full(len(chosen), -np.inf)
        np.maximum.at(support, owner, similar)
        if self.weighting == "question":
            relevant = cosines(vectors([example.question for example in chosen])[owner], documents)
            weights = np.exp((relevant - 1.0) / TEMPERATURE)
            mixed = np.bincount(owner, weights * similar) / np.bincount(owner, weights)
            support = (support + mixed) / 2.0
        values[positions] = 1.0 - support
        return Scores(values, reasons)
