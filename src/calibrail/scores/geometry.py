"""Does the answer stay near the question instead of moving towards the context?"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.scores.base import JSON, NO_SENTENCE, Valued
from calibrail.scores.detector import Embedding, angles, filled, joined
from calibrail.scores.evidence import supported, whole_response
from calibrail.scores.parameters import one_of
from calibrail.text.sentences import Sentence, sentences, sentences_version

Context = Literal["joined", "closest"]

#: Keeps the ratio finite where the response is the context.
EPSILON: Final = 1e-8

#: Below this distance or angle two texts are one to the encoder, which may see no white space or
#: case. In different batches they lie up to 1e-6 apart, while a full stop more makes 2e-2.
SAME_PLACE: Final = 1e-4


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
    model, revision, prompt, dtype
        See ``Embedding``.
    """

    context: Context = "joined"

    name = "sgi"
    explains = True
    requires = ("question", "contexts", "response")

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.context, "context", get_args(Context))

    def inputs(self, example: Example) -> Iterable[str]:
        """Return the question, the pieces of the response and the contexts."""
        pieces = (piece.text for piece in self._pieces(example))
        return (example.question, *pieces, *self._contexts(example))

    def value(self, example: Example) -> Valued | str:
        """Return the negated index, the mean over the pieces of the response."""
        pieces, chunks = self._pieces(example), self._contexts(example)
        if not pieces:
            return NO_SENTENCE
        vectors = self.encoder.sentences
        texts = vectors([piece.text for piece in pieces])
        to_question = angles(texts, vectors([example.question] * len(pieces)))
        to_chunks = angles(np.repeat(texts, len(chunks), axis=0), vectors(chunks * len(pieces)))
        to_context = to_chunks.reshape(len(pieces), len(chunks)).min(axis=1)
        both = np.stack([to_question, to_context])
        # The ratio would magnify the noise between two batches to any number.
        both[both < SAME_PLACE] = 0.0
        index = both[0] / (both[1] + EPSILON)
        return float(-index.mean()), self._evidence(pieces, both, index)

    def _pieces(self, example: Example) -> list[Sentence]:
        return [whole_response(example)]

    def _evidence(
        self, pieces: Sequence[Sentence], angles: NDArray[np.float64], index: NDArray[np.float64]
    ) -> Mapping[str, JSON]:
        ((to_question, to_context),) = angles.T.tolist()
        items = [{"to_question": to_question, "to_context": to_context}]
        return {"kind": "angles", "items": items}

    def _contexts(self, example: Example) -> list[str]:
        return [joined(example)] if self.context == "joined" else filled(example.contexts)


class LocalSgi(Sgi):
    """Local SGI, negated: minus the mean over the response's sentences of each one's index.

    The sentence-level index of the repository that accompanies Marin, arXiv 2512.13771. At most 0;
    higher means more likely hallucinated. Evidence: every sentence with its index.

    Parameters
    ----------
    context : {"joined", "closest"}
        As for ``Sgi``; ``closest`` is the chunk nearest to the sentence.
    model, revision, prompt, dtype
        See ``Embedding``.
    """

    name = "local_sgi"
    versions = (("sentences", sentences_version),)

    def _pieces(self, example: Example) -> list[Sentence]:
        return sentences(example.response)

    def _evidence(
        self, pieces: Sequence[Sentence], angles: NDArray[np.float64], index: NDArray[np.float64]
    ) -> Mapping[str, JSON]:
        return supported(pieces, index.tolist())
