"""How does a score learn the displacements of faithful answers, keep and consult them?"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import FAITHFUL, Example
from calibrail.errors import InputError
from calibrail.scores.base import Scores, missing, prepare
from calibrail.scores.detector import Embedding, joined
from calibrail.scores.learned import Learning
from calibrail.scores.parameters import whole

Floats = NDArray[np.float64]


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
        chosen = [
            example
            for example in examples
            if example.label == FAITHFUL and missing(example, self.requires) is None
        ]
        if len(chosen) < self.least:
            *first, last = self.requires
            raise InputError(
                f"{self.name} learns from at least {self.least} faithful examples (label 0) "
                f"with {', '.join(first)} and {last}; got {len(chosen)} among {len(examples)}; set "
                f"more aside for it (--fit-share){self.remedy}"
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
            if (
                array.ndim != self.arrays[name]
                or array.dtype.kind != "f"
                or len(shapes) > 1
                or len(array) < self.least
                or not np.isfinite(array).all()
            ):
                raise InputError(
                    f"{name} of shape {array.shape} and type {array.dtype} is not what "
                    f"{self.name} has learnt; fit it again"
                )
            array.setflags(write=False)
        return super().restore(learnt)

    def inputs(self, example: Example) -> Iterable[str]:
        """Return question and response, and the context where it is read."""
        context = (joined(example),) if "contexts" in self.requires else ()
        return (example.question, example.response, *context)

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
        starts = [
            joined(example) if "contexts" in self.requires else example.question
            for example in examples
        ]
        responses = self.encoder.sentences([example.response for example in examples])
        return responses - self.encoder.sentences(starts)

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

    def _learn(self, examples: Sequence[Example]) -> Mapping[str, NDArray[Any]]:
        questions = self.encoder.sentences([example.question for example in examples])
        # The encoder's own precision, and half the room inside a guardrail.
        return {
            "questions": questions.astype(np.float32),
            "displacements": self._moves(examples).astype(np.float32),
        }

    def _neighbours(self, question: Floats) -> Floats:
        """Return the displacements of the k references nearest by question, shape (k, d)."""
        learnt = self.state()
        # Not a matrix product, which may round equal rows differently: of references with one
        # question the first come first.
        similar = np.einsum("ij,j->i", learnt["questions"], question)
        nearest = np.argsort(-similar, kind="stable")[: self.k]
        return learnt["displacements"][nearest].astype(np.float64)
