"""How far from the context does the answer lie, and how steadily in one direction?"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from calibrail.data.example import Example
from calibrail.scores.base import Valued
from calibrail.scores.detector import Embedding, joined
from calibrail.scores.embeddings import SAME_PLACE
from calibrail.scores.evidence import supported
from calibrail.text.sentences import sentences, sentences_version

#: The direction between two texts as near as a full stop (2e-2) magnifies the noise between two
#: batches fiftyfold.
DIRECTION_TOLERANCE: Final = 1e-5


class DisplacementMagnitude(Embedding):
    """Length of the displacement from the context to the response, ||phi(r) - phi(c)||.

    c is the chunks joined by newlines, phi an embedding of length 1 (the repository that
    accompanies Marin, arXiv 2512.13771). In [0, 2]; higher means more likely hallucinated.

    Parameters
    ----------
    model, revision, prompt, dtype
        See ``Embedding``.
    """

    name = "displacement_magnitude"

    def inputs(self, example: Example) -> Iterable[str]:
        """Return context and response."""
        return (joined(example), example.response)

    def value(self, example: Example) -> float:
        """Return the distance."""
        context, response = self.encoder.sentences([joined(example), example.response])
        return float(np.linalg.norm((response - context)[None], axis=1)[0])


class DisplacementConsistency(Embedding):
    """Minus the mean cosine between the displacements of consecutive sentences from the context.

    -mean over j of cos(phi(r_j) - phi(c), phi(r_j+1) - phi(c)), c being the chunks joined by
    newlines (the repository that accompanies Marin, arXiv 2512.13771, which makes it 0 where there
    is one sentence only: the answer's length in disguise; here that is undefined). In [-1, 1];
    higher means more likely hallucinated. Evidence: every sentence after the first, its cosine
    with the one before as ``support``.

    Parameters
    ----------
    model, revision, prompt, dtype
        See ``Embedding``.
    """

    name = "displacement_consistency"
    explains = True
    rounding = DIRECTION_TOLERANCE
    versions = (("sentences", sentences_version),)
    splitter = staticmethod(sentences)
    whole_answers = "it compares consecutive sentences of an answer"

    def inputs(self, example: Example) -> Iterable[str]:
        """Return the context and the sentences of the response, of which one has no other."""
        parts = sentences(example.response)
        return (joined(example), *(part.text for part in parts)) if len(parts) > 1 else ()

    def value(self, example: Example) -> Valued | str:
        """Return the negated mean; undefined where a direction or a second sentence is missing."""
        parts = sentences(example.response)
        if len(parts) < 2:
            return "the response holds fewer than 2 sentences"
        places = self.encoder.sentences([part.text for part in parts])
        moves = places - self.encoder.sentences([joined(example)])
        lengths = np.linalg.norm(moves, axis=1, keepdims=True)
        if (lengths < SAME_PLACE).any():
            return (
                "a sentence lies where the context does, so that its displacement has no direction"
            )
        moves /= lengths
        alike = np.clip(np.einsum("ij,ij->i", moves[:-1], moves[1:]), -1.0, 1.0)
        return float(-alike.mean()), supported(parts[1:], alike.tolist())
