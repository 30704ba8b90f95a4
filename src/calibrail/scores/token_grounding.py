"""How many of the answer's content words resemble no word of the context?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.base import JSON, Demand, Scores
from calibrail.scores.neural import Embedding, filled


class Tfg(Embedding):
    """Token-level Factual Grounding: share of content words whose best match is below gamma.

    For each content word of the response, the highest cosine similarity with any content word of
    the chunks, on contextual embeddings (subwords averaged to words). Sinha, "The Semantic
    Illusion" (arXiv 2512.15068), equation 4. In [0, 1]; higher means more likely hallucinated.

    Parameters
    ----------
    gamma : float
        A word whose best match is below this counts as not grounded; in (-1, 1).
    **encoder
        ``model``, ``revision``, ``prompt``, ``dtype``; see ``Embedding``.
    """

    name = "tfg"
    requires = ("contexts", "response")

    def __init__(self, *, gamma: float = 0.3, **encoder: Any) -> None:
        super().__init__(**encoder)
        if isinstance(gamma, bool) or not isinstance(gamma, int | float) or not -1 < gamma < 1:
            raise InputError(f"gamma must lie in (-1, 1); got {gamma!r}")
        self.gamma = float(gamma)

    def own_params(self) -> Mapping[str, JSON]:
        """Return gamma."""
        return {"gamma": self.gamma}

    def demand(self, examples: Sequence[Example]) -> Demand:
        """Return every chunk and response, for their word vectors."""
        texts: dict[str, None] = {}
        for example in examples:
            texts.update(dict.fromkeys(filled(example.contexts)))
            texts[example.response] = None
        return Demand(self.encoder, (), tuple(text for text in texts if text.strip()))

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the share; undefined without a content word in response or contexts."""
        values, positions, reasons = self.usable(examples)
        if not positions:
            return Scores(values, reasons)
        self.encoder.prepare((), self.demand([examples[i] for i in positions]).word_texts)
        for index in positions:
            response = self.encoder.words(examples[index].response)
            if not len(response):
                reasons[index] = "the response holds no content word"
                continue
            best = np.full(len(response), -np.inf, dtype=np.float32)
            for chunk in filled(examples[index].contexts):
                words = self.encoder.words(chunk)
                if len(words):
                    np.maximum(best, (response @ words.T).max(axis=1), out=best)
            if np.isinf(best).any():
                reasons[index] = "the contexts hold no content word"
                continue
            values[index] = float(np.mean(best < self.gamma))
        return Scores(values, reasons)
