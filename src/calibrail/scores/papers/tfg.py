"""How many of the answer's content words resemble no word of the context?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.base import JSON, Demand, Scores, prepare
from calibrail.scores.neural import Embedding, filled

#: Words a side of one matrix product: 16 MiB of similarities.
TILE = 2048


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

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return every chunk and response, for their word vectors."""
        texts: dict[str, None] = {}
        for example in examples:
            texts.update(dict.fromkeys(filled(example.contexts)))
            texts[example.response] = None
        return (Demand(self.encoder, ((), tuple(text for text in texts if text.strip()))),)

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the share; undefined without a content word in response or contexts."""
        values, positions, reasons = self.usable(examples)
        if not positions:
            return Scores(values, reasons)
        prepare(self.demands([examples[i] for i in positions]))
        for index in positions:
            response = self.encoder.words(examples[index].response)
            if not len(response):
                reasons[index] = "the response holds no content word"
                continue
            chunks = [self.encoder.words(chunk) for chunk in filled(examples[index].contexts)]
            if not any(len(chunk) for chunk in chunks):
                reasons[index] = "the contexts hold no content word"
                continue
            values[index] = float(np.mean(_best_matches(response, chunks) < self.gamma))
        return Scores(values, reasons)


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
