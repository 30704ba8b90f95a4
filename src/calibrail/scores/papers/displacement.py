"""How far from the context or the question, and in which direction, does the answer lie?"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.base import Valued
from calibrail.scores.detector import Embedding, joined
from calibrail.scores.evidence import supported
from calibrail.scores.geometry import SAME_PLACE
from calibrail.scores.papers.reference import Floats, Neighbouring, Referring
from calibrail.scores.parameters import whole
from calibrail.text.sentences import sentences, sentences_version

#: The direction between two texts as near as a full stop (2e-2) magnifies the noise between two
#: batches fiftyfold.
DIRECTION_TOLERANCE: Final = 1e-5

#: Singular values below this share of the largest are rounding, and their directions arbitrary.
RANK_TOLERANCE: Final = 1e-5


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
    tolerance = DIRECTION_TOLERANCE
    versions = (("sentences", sentences_version),)

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


class ExpectedResponseDeviation(Neighbouring):
    """Distance of the response from where faithful answers to similar questions would be.

    ||phi(r) - (phi(q) + mean of phi(r_i) - phi(q_i))|| over the k references nearest by question.
    At least 0; higher means more likely hallucinated.

    Parameters
    ----------
    k : int
        Neighbours; at least as many references must be learnt.
    model, revision, prompt, dtype
        See ``Embedding``.
    """

    name = "expected_response_deviation"

    def _value(self, question: Floats, move: Floats) -> float | str:
        return float(np.linalg.norm(move - self._neighbours(question).mean(axis=0)))


class TangentResidual(Neighbouring):
    """What of the displacement from the context lies outside the directions of faithful answers.

    ||v - P v|| with v = phi(r) - phi(c), c the chunks joined by newlines, and P the projection on
    the leading right singular vectors of the displacements (not centred, as published) of the k
    references nearest by question. In [0, 2]; higher means more likely hallucinated.

    Parameters
    ----------
    k : int
        Neighbours; at least as many references must be learnt.
    components : int
        Directions to project on, in [1, k]; fewer where the neighbours span fewer.
    model, revision, prompt, dtype
        See ``Embedding``.
    """

    k: int = 10
    components: int = 5

    name = "tangent_residual"
    requires = ("question", "contexts", "response")
    # Where little is left outside the directions, what rounding leaves is all there is.
    tolerance = DIRECTION_TOLERANCE

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.components, "components")
        if self.components > self.k:
            raise InputError(
                f"components must not exceed k={self.k}, which span no more; got {self.components}"
            )

    def _value(self, question: Floats, move: Floats) -> float | str:
        _, sizes, directions = np.linalg.svd(self._neighbours(question), full_matrices=False)
        spanned = directions[: self.components]
        spanned = spanned[sizes[: len(spanned)] > RANK_TOLERANCE * sizes[0]]
        return float(np.linalg.norm(move - spanned.T @ (spanned @ move)))


class Dgi(Referring):
    """Directional Grounding Index, negated: -cos(phi(r) - phi(q), mu).

    mu is the mean of the unit displacements from question to response of faithful answers, itself
    of length 1 (Marin, arXiv 2602.13224). In [-1, 1]; higher means more likely hallucinated.

    Parameters
    ----------
    model, revision, prompt, dtype
        See ``Embedding``.
    """

    name = "dgi"
    tolerance = DIRECTION_TOLERANCE
    arrays: ClassVar[Mapping[str, int]] = {"mu": 1}

    def _learn(self, examples: Sequence[Example]) -> Mapping[str, NDArray[Any]]:
        moves = self._moves(examples)
        lengths = np.linalg.norm(moves, axis=1, keepdims=True)
        moved = lengths[:, 0] >= SAME_PLACE
        mean = (moves[moved] / lengths[moved]).sum(axis=0) / max(1, moved.sum())
        length = float(np.linalg.norm(mean))
        if length < SAME_PLACE:
            raise InputError(
                f"the displacements of {len(examples)} faithful examples have no direction in "
                "common, so that dgi cannot learn one; give it others"
            )
        return {"mu": mean / length}

    def _value(self, question: Floats, move: Floats) -> float | str:
        length = float(np.linalg.norm(move))
        if length < SAME_PLACE:
            return "the response lies where the question does, so that there is no direction"
        return float(np.clip(-(move @ self.state()["mu"]) / length, -1.0, 1.0))
