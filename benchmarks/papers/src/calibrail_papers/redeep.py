"""Does a transformer that reads both look from the answer at the context?"""

import numpy as np

from calibrail.data.example import Example
from calibrail.models.batching import shared
from calibrail.models.loading import DEFAULT_MODEL, full_name
from calibrail.scores.base import LocalScore, Valued, filled
from calibrail.scores.entailment import supported
from calibrail.text.sentences import sentences, sentences_version

from .attention import AttentionModel


class Redeep(LocalScore):
    """1 - share of the response tokens' attention that falls on the context.

    Attention on document tokens over that on document and response tokens, averaged over response
    tokens and over the heads of the last layers, in the style of ReDeEP (Sun et al., arXiv
    2410.11414). In [0, 1]; higher means more likely hallucinated.

    Parameters
    ----------
    model : str
        Hub name or folder of any encoder or causal decoder; the default is the embedded encoder.
    revision : str or None
        Revision of a hub model.
    layers : int
        How many of the last layers count.
    dtype : {"float32", "bfloat16", "float16"}
        Precision of the weights.
    window : int or None
        Most tokens of the context a pass; None for what the model reads.
    backend, device
        See ``LocalScore``; the backend must be torch, since others give no attention.
    """

    model: str = DEFAULT_MODEL
    revision: str | None = None
    layers: int = 4
    dtype: str = "float32"
    window: int | None = None

    name = "redeep"
    reads_all = True
    explains = True
    uses = ("attention",)
    versions = (("sentences", sentences_version),)

    def __post_init__(self) -> None:
        self.attention = shared(
            AttentionModel,
            full_name(self.model),
            self.revision,
            self.dtype,
            self.window,
            layers=self.layers,
            **self.computed,
        )
        self.model = self.attention.model

    def inputs(self, example: Example) -> list[tuple[tuple[str, ...], str]]:
        """Return the chunks with the response."""
        return [(tuple(filled(example.contexts)), example.response)]

    def value(self, example: Example) -> Valued | str:
        """Return one minus the share; the evidence is the share of each sentence."""
        (read,) = self.attention.shares(self.inputs(example))
        if np.isnan(read.share):
            return "the response holds no token that the model knows"
        pieces, means = [], []
        for part in sentences(example.response):
            inside = [token.share for token in read.tokens if part.start <= token.start < part.end]
            if inside:
                pieces.append(part)
                means.append(float(np.mean(inside)))
        return 1.0 - read.share, supported(pieces, means)
