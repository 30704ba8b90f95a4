"""Displacement scores: how far a response moves away from reference answers.

The last three scores compare with displacements of faithful answers, which are learnt.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import FAITHFUL, Example
from calibrail.errors import InputError
from calibrail.options import SplitOptions
from calibrail.options.fields import spell_option
from calibrail.scores.base import Scores, Valued, prepare
from calibrail.scores.detector import Embedding, Learning, joined, whole
from calibrail.scores.embedding import SAME_PLACE
from calibrail.scores.entailment import supported
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


Floats = NDArray[np.float64]

#: Singular values below this share of the largest are rounding, and their directions arbitrary.
RANK_TOLERANCE: Final = 1e-5


class Referring(Learning, Embedding):
    """Base of the scores that compare with the displacements of faithful answers.

    What they learn is vectors; no text of a reference is kept.

    Parameters
    ----------
    model, revision, prompt, dtype
        See ``Embedding``.
    """

    requires: ClassVar[tuple[str, ...]] = ("question", "response")
    #: Names of the arrays learnt, with their number of dimensions.
    arrays: ClassVar[Mapping[str, int]] = {}
    unfitted = (
        "learns from faithful examples before it can score: call fit(examples) and use what it "
        "returns"
    )
    #: How many references are needed, and what else may be done where there are fewer.
    least = 1
    remedy = ""

    def fit(self, examples: Sequence[Example]) -> Self:
        """Return a copy that has learnt from the faithful examples among these.

        Parameters
        ----------
        examples : sequence of Example
            Labelled, and disjoint from those of calibration and test. Those that are hallucinated,
            unlabelled or lack a field that the score reads are left out.

        Raises
        ------
        InputError
            If too few remain.
        """
        chosen = self.usable([example for example in examples if example.label == FAITHFUL])
        if len(chosen) < self.least:
            *first, last = self.requires
            raise InputError(
                f"{self.name} learns from at least {self.least} faithful examples (label 0) "
                f"with {', '.join(first)} and {last}; got {len(chosen)} among {len(examples)}; set "
                f"more aside for it ({spell_option(SplitOptions, 'fit_share')}){self.remedy}"
            )
        prepare(self.demands(chosen))
        return self.restore(self._learn(chosen))

    def restore(self, state: Mapping[str, NDArray[Any]]) -> Self:
        """Return a copy that has learnt this.

        Raises
        ------
        KeyError
            If an array is missing.
        InputError
            If an array is not what this score learns.
        """
        learnt = {name: np.array(state[name], order="C") for name in self.arrays}
        shapes = {array.shape for array in learnt.values()}
        for name, array in learnt.items():
            is_own = (
                array.ndim == self.arrays[name] and array.dtype.kind == "f" and len(shapes) == 1
            )
            if not (is_own and len(array) >= self.least and np.isfinite(array).all()):
                raise InputError(
                    f"{name} of shape {array.shape} and type {array.dtype} is not what "
                    f"{self.name} has learnt; fit it again"
                )
            array.setflags(write=False)
        return super().restore(learnt)

    def inputs(self, example: Example) -> Iterable[str]:
        """Return question and response, and the context where it is read."""
        return (example.question, example.response, self._start(example))

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return one value per example; undefined where a field is missing.

        Raises
        ------
        InputError
            If the score has not learnt yet, or has with another encoder.
        """
        self.state()
        return super().score(examples)

    def value(self, example: Example) -> float | str:
        """Return how the example's displacement departs from those learnt."""
        width = next(iter(self.state().values())).shape[-1]
        (question,) = self.encoder.sentences([example.question])
        if len(question) != width:
            raise InputError(
                f"{self.name} has learnt from vectors of {width} numbers, and those of "
                f"{self.encoder.model} have {len(question)}; fit it again with this encoder"
            )
        return self._value(question, self._moves([example])[0])

    def _moves(self, examples: Sequence[Example]) -> Floats:
        """Return the displacements to the responses, from the contexts where they are read."""
        responses = self.encoder.sentences([example.response for example in examples])
        return responses - self.encoder.sentences([self._start(example) for example in examples])

    def _start(self, example: Example) -> str:
        return joined(example) if "contexts" in self.requires else example.question

    def _learn(self, examples: Sequence[Example]) -> Mapping[str, NDArray[Any]]:
        raise AssertionError(f"{type(self).__name__} learns nothing")

    def _value(self, question: Floats, move: Floats) -> float | str:
        raise AssertionError(f"{type(self).__name__} defines no value")


class Neighbouring(Referring):
    """Base of those that compare with the references whose questions are nearest.

    The neighbourhood is that of the question, as in the experiments of the repository that
    accompanies Marin, arXiv 2512.13771: its final notebook takes all references, among them the
    answers that it then tests.

    Parameters
    ----------
    k : int
        Neighbours; at least as many references must be learnt.
    model, revision, prompt, dtype
        See ``Embedding``.
    """

    k: int = 10

    arrays: ClassVar[Mapping[str, int]] = {"questions": 2, "displacements": 2}

    def __post_init__(self) -> None:
        super().__post_init__()
        self.least = whole(self.k, "k")
        self.remedy = f", or choose a smaller k than {self.k}"

    @property
    def tolerance(self) -> float:
        """How far two computations of one value may differ: one of k neighbours may be another.

        In half precision this moved values by up to 1.3e-2 with ten neighbours, on 84 answers.
        """
        return max(super().tolerance, 0.5 / self.k) if self.is_half else super().tolerance

    def _learn(self, examples: Sequence[Example]) -> Mapping[str, NDArray[Any]]:
        questions = self.encoder.sentences([example.question for example in examples])
        learnt = {"questions": questions, "displacements": self._moves(examples)}
        # The encoder's own precision, and half the room inside a guardrail.
        return {name: array.astype(np.float32) for name, array in learnt.items()}

    def _neighbours(self, question: Floats) -> Floats:
        """Return the displacements of the k references nearest by question, shape (k, d)."""
        learnt = self.state()
        # Not a matrix product, which may round equal rows differently: of references with one
        # question the first come first.
        similar = np.einsum("ij,j->i", learnt["questions"], question)
        nearest = np.argsort(-similar, kind="stable")[: self.k]
        return learnt["displacements"][nearest].astype(np.float64)


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
    rounding = DIRECTION_TOLERANCE

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
    rounding = DIRECTION_TOLERANCE
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
