"""Is any chunk relevant to the answer, as a cross-encoder sees it?"""

from typing import Any

from calibrail.data.example import Example
from calibrail.models.reranker import load_reranker
from calibrail.scores.base import Valued
from calibrail.scores.detector import ModelScore
from calibrail.scores.evidence import quoted
from calibrail.scores.neural import filled

#: The cross-encoder of the "Semantic Illusion" paper.
RERANKER = "BAAI/bge-reranker-v2-m3"


class CrossEncoder(ModelScore):
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

    model: str = RERANKER
    revision: str | None = None
    dtype: str = "float32"
    window: int | None = None

    name = "reranker"
    explains = True

    def __post_init__(self) -> None:
        self.reranker = load_reranker(self.model, self.revision, self.dtype, self.window)

    @property
    def models(self) -> tuple[Any, ...]:
        """The cross-encoder."""
        return (self.reranker,)

    def inputs(self, example: Example) -> list[tuple[str, str]]:
        """Return the response with every chunk."""
        return [(example.response, chunk) for chunk in filled(example.contexts)]

    def value(self, example: Example) -> Valued:
        """Return the negated logit of the most relevant chunk, which is the evidence."""
        chunks = [place for place, chunk in enumerate(example.contexts) if chunk.strip()]
        logits = self.reranker.relevance(self.inputs(example))
        items = [
            {"relevance": float(logit), **quoted(example.response, example.contexts, place)}
            for place, logit in zip(chunks, logits, strict=True)
        ]
        return -float(logits.max()), {"kind": "sources", "items": items}
