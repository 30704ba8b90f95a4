"""How many of the answer's content words resemble no word of the context?"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.base import NO_CONTENT_WORD, Demand
from calibrail.scores.neural import Embedding, filled
from calibrail.scores.parameters import is_number

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
    model, revision, prompt, dtype
        See ``Embedding``.
    """

    gamma: float = 0.3

    name = "tfg"

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
        return float(np.mean(_best_matches(response, chunks) < self.gamma))


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
