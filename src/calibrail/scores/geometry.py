"""Does the answer stay near the question instead of moving towards the context?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.base import JSON, Demand, Scores, prepare
from calibrail.scores.neural import Embedding, angles, filled
from calibrail.text.sentences import Sentence, sentences, sentences_version

Context = Literal["joined", "closest"]

#: Keeps the ratio finite where the response is the context.
EPSILON: Final = 1e-8

#: Below this distance or angle two texts are one to the encoder, which may see no white space or
#: case. In different batches they lie up to 1e-6 apart, while a full stop more makes 2e-2.
SAME_PLACE: Final = 1e-4

NO_SENTENCE: Final = "the response holds no sentence"


def joined(example: Example) -> str:
    """Return the chunks that hold anything as one text, joined by newlines."""
    return "\n".join(filled(example.contexts))


class Sgi(Embedding):
    """Semantic Grounding Index, negated: -theta(r, q) / (theta(r, c) + 1e-8).

    theta is the angle between embeddings. Grounded answers move from the question towards the
    context, so that their ratio is large (Marin, arXiv 2512.13771, equation 3 and table 1). The
    value is at most 0, and higher means more likely hallucinated. Evidence: the two angles in
    radians.

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
        """Return every question, context and piece of a response."""
        return self._demands(examples, [self._pieces(example) for example in examples])

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the negated index; undefined without question, context or response."""
        values, positions, reasons = self.usable(examples)
        evidence: list[Mapping[str, JSON]] = [{} for _ in examples]
        pieces = {i: self._pieces(examples[i]) for i in positions}
        reasons.update({i: NO_SENTENCE for i in positions if not pieces[i]})
        positions = [i for i in positions if pieces[i]]
        if not positions:
            return Scores(values, reasons, tuple(evidence))
        chosen = [examples[i] for i in positions]
        parts = [pieces[i] for i in positions]
        prepare(self._demands(chosen, parts))
        to_question, to_context = self._angles(chosen, parts)
        ends = np.cumsum([len(group) for group in parts])
        for i, group, end in zip(positions, parts, ends.tolist(), strict=True):
            rows = slice(end - len(group), end)
            index = to_question[rows] / (to_context[rows] + EPSILON)
            values[i] = -index.mean()
            evidence[i] = self._evidence(group, to_question[rows], to_context[rows])
        return Scores(values, reasons, tuple(evidence))

    def _demands(
        self, examples: Sequence[Example], pieces: Sequence[Sequence[Sentence]]
    ) -> tuple[Demand, ...]:
        texts: dict[str, None] = {}
        for example, group in zip(examples, pieces, strict=True):
            texts[example.question] = None
            texts.update(dict.fromkeys(piece.text for piece in group))
            texts.update(dict.fromkeys(self._contexts(example)))
        return (Demand(self.encoder, (tuple(text for text in texts if text.strip()),)),)

    def _angles(
        self, examples: Sequence[Example], pieces: Sequence[Sequence[Sentence]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return each piece's angle to its question and its context, shape (pieces,)."""
        vectors = self.encoder.sentences
        texts = vectors([piece.text for group in pieces for piece in group])
        owner = np.repeat(np.arange(len(examples)), [len(group) for group in pieces])
        to_question = angles(texts, vectors([example.question for example in examples])[owner])
        chunks = [self._contexts(examples[i]) for i in owner.tolist()]
        piece = np.repeat(np.arange(len(chunks)), [len(group) for group in chunks])
        every = angles(texts[piece], vectors([text for group in chunks for text in group]))
        to_context = np.full(len(chunks), np.inf)
        np.minimum.at(to_context, piece, every)
        for found in (to_question, to_context):
            # The ratio would magnify the noise between two batches to any number.
            found[found < SAME_PLACE] = 0.0
        return to_question, to_context

    def _pieces(self, example: Example) -> list[Sentence]:
        return [Sentence(example.response, 0, len(example.response))]

    def _evidence(
        self,
        pieces: Sequence[Sentence],
        to_question: NDArray[np.float64],
        to_context: NDArray[np.float64],
    ) -> Mapping[str, JSON]:
        pairs = zip(to_question.tolist(), to_context.tolist(), strict=True)
        return {
            "kind": "angles",
            "items": [
                {"to_question": question, "to_context": context} for question, context in pairs
            ],
        }

    def _contexts(self, example: Example) -> list[str]:
        chunks = filled(example.contexts)
        return [joined(example)] if self.context == "joined" and chunks else chunks


class LocalSgi(Sgi):
    """Local SGI, negated: minus the mean over the response's sentences of each one's index.

    The sentence-level index of the repository that accompanies Marin, arXiv 2512.13771. At most 0;
    higher means more likely hallucinated. Evidence: every sentence with its index.

    Parameters
    ----------
    context : {"joined", "closest"}
        As for ``Sgi``; ``closest`` is the chunk nearest to the sentence.
    **encoder
        ``model``, ``revision``, ``prompt``, ``dtype``; see ``Embedding``.
    """

    name = "local_sgi"

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the encoder's fingerprint and the version of the sentence splitting."""
        return {**super().fingerprint(), "sentences": sentences_version()}

    def _pieces(self, example: Example) -> list[Sentence]:
        return sentences(example.response)

    def _evidence(
        self,
        pieces: Sequence[Sentence],
        to_question: NDArray[np.float64],
        to_context: NDArray[np.float64],
    ) -> Mapping[str, JSON]:
        index = to_question / (to_context + EPSILON)
        items = [
            {**piece._asdict(), "support": support}
            for piece, support in zip(pieces, index.tolist(), strict=True)
        ]
        return {"kind": "sentences", "items": items}
