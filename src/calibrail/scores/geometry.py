"""Does the answer stay near the question instead of moving towards the context?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.base import JSON, Demand, Scores, prepare
from calibrail.scores.neural import Embedding, angles, filled

Context = Literal["joined", "closest"]

#: Keeps the ratio finite where the response is the context.
EPSILON = 1e-8


class Sgi(Embedding):
    """Semantic Grounding Index, negated: -theta(r, q) / (theta(r, c) + 1e-8).

    theta is the angle between embeddings. Grounded answers move from the question towards the
    context, so that their ratio is large (Marin, arXiv 2512.13771, equation 3 and table 1). The
    value is at most 0, and higher means more likely hallucinated.

    Parameters
    ----------
    context : {"joined", "closest"}
        ``joined``: the chunks joined by newlines, as one text. ``closest``: the chunk nearest to
        the response.
    **encoder
        ``model``, ``revision``, ``prompt``, ``dtype``; see ``Embedding``.
    """

    name = "sgi"
    requires = ("question", "contexts", "response")

    def __init__(self, *, context: Context = "joined", **encoder: Any) -> None:
        super().__init__(**encoder)
        if context not in get_args(Context):
            raise InputError(f"context must be joined or closest; got {context!r}")
        self.context = context

    def own_params(self) -> Mapping[str, JSON]:
        """Return the choice of context."""
        return {"context": self.context}

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return every question, context and response."""
        texts = [
            text
            for example in examples
            for text in (example.question, example.response, *self._contexts(example))
            if text.strip()
        ]
        return (Demand(self.encoder, (tuple(dict.fromkeys(texts)),)),)

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the negated index; undefined without question, context or response."""
        values, positions, reasons = self.usable(examples)
        if not positions:
            return Scores(values, reasons)
        prepare(self.demands([examples[i] for i in positions]))
        vectors = self.encoder.sentences
        responses = vectors([examples[i].response for i in positions])
        to_question = angles(responses, vectors([examples[i].question for i in positions]))
        chunks = [self._contexts(examples[i]) for i in positions]
        owner = np.repeat(np.arange(len(positions)), [len(group) for group in chunks])
        all_angles = angles(responses[owner], vectors([text for group in chunks for text in group]))
        to_context = np.full(len(positions), np.inf)
        np.minimum.at(to_context, owner, all_angles)
        values[positions] = -to_question / (to_context + EPSILON)
        return Scores(values, reasons)

    def _contexts(self, example: Example) -> list[str]:
        chunks = filled(example.contexts)
        return ["\n".join(chunks)] if self.context == "joined" and chunks else chunks
