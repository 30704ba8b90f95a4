"""Does a transformer that reads both look from the answer at the context?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from calibrail.data.example import Example
from calibrail.models.attention import load_attention
from calibrail.models.attention_shares import AttentionShare
from calibrail.models.location import DEFAULT_MODEL
from calibrail.scores.base import JSON, Demand, Scores, SharedModel, missing, prepare
from calibrail.scores.neural import filled
from calibrail.text.sentences import sentences, sentences_version


class Redeep:
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
    """

    name = "redeep"
    requires: tuple[str, ...] = ("contexts", "response")

    def __init__(
        self,
        *,
        model: str = DEFAULT_MODEL,
        revision: str | None = None,
        layers: int = 4,
        dtype: str = "float32",
        window: int | None = None,
    ) -> None:
        self.attention = load_attention(model, revision, dtype, layers, window)

    @property
    def tolerance(self) -> float:
        """How far two computations of one share may differ, by the precision."""
        return self.attention.tolerance

    @property
    def params(self) -> Mapping[str, JSON]:
        """Every parameter with its value."""
        own = self.attention
        return {
            "model": own.model,
            "revision": own.revision,
            "layers": own.layers,
            "dtype": own.dtype,
            "window": own.window,
        }

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the model's fingerprint."""
        return {**self.attention.fingerprint(), "sentences": sentences_version()}

    @property
    def models(self) -> tuple[SharedModel, ...]:
        """The transformer."""
        return (self.attention,)

    def forget(self) -> None:
        """Drop what was computed, so that the next example is computed by itself."""
        self.attention.forget()

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return every response with its chunks."""
        items = [_item(example) for example in examples if missing(example, self.requires) is None]
        return (Demand(self.attention, (tuple(dict.fromkeys(items)),)),)

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return one minus the share; the evidence is the share of each sentence."""
        prepare(self.demands(examples))
        values = np.full(len(examples), np.nan)
        reasons: dict[int, str] = {}
        evidence: list[Mapping[str, JSON]] = [{} for _ in examples]
        for index, example in enumerate(examples):
            why = missing(example, self.requires)
            if why is None:
                (found,) = self.attention.shares([_item(example)])
                if np.isnan(found.share):
                    why = "the response holds no token that the model knows"
                else:
                    values[index] = 1.0 - found.share
                    evidence[index] = {"kind": "sentences", "items": _items(example, found)}
            if why is not None:
                reasons[index] = why
        return Scores(values, reasons, tuple(evidence))


def _item(example: Example) -> tuple[tuple[str, ...], str]:
    return tuple(filled(example.contexts)), example.response


def _items(example: Example, found: AttentionShare) -> list[dict[str, JSON]]:
    """Return each sentence with the mean share of its tokens."""
    items = []
    for part in sentences(example.response):
        inside = [token.share for token in found.tokens if part.start <= token.start < part.end]
        if inside:
            items.append(
                {
                    "text": part.text,
                    "start": part.start,
                    "end": part.end,
                    "support": float(np.mean(inside)),
                }
            )
    return items
