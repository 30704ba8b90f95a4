"""How does a score learn the displacements of faithful answers, keep and consult them?"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import FAITHFUL, Example
from calibrail.errors import InputError
from calibrail.scores.base import JSON, Demand, Scores, missing, prepare
from calibrail.scores.geometry import joined
from calibrail.scores.neural import Embedding

Floats = NDArray[np.float64]


class Referring(Embedding):
    """Base of the scores that compare with the displacements of faithful answers.

    What they learn is vectors; no text of a reference is kept.

    Parameters
    ----------
    **encoder
        ``model``, ``revision``, ``prompt``, ``dtype``; see ``Embedding``.
    """

    requires: tuple[str, ...] = ("question", "response")
    #: Array names of what is learnt, with their number of dimensions.
    arrays: ClassVar[Mapping[str, int]] = {}
    _learnt: Mapping[str, NDArray[Any]] | None = None

    @property
    def fitted(self) -> bool:
        """Whether references are there to compare with."""
        return self._learnt is not None

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
        if len(chosen) < self._least():
            raise InputError(
                f"{self.name} learns from at least {self._least()} faithful examples (label 0) "
                f"with {_listed(self.requires)}; got {len(chosen)} among {len(examples)}; set "
                f"more aside for it (--fit-share){self._remedy()}"
            )
        prepare(self.demands(chosen))
        return self.restore(self._learn(chosen))

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return what was learnt, arrays by name.

        Raises
        ------
        InputError
            If nothing was learnt yet.
        """
        return dict(self._known())

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
        sizes = {array.shape[:-1] for array in learnt.values()}
        widths = {array.shape[-1:] for array in learnt.values()}
        for name, array in learnt.items():
            if (
                array.ndim != self.arrays[name]
                or array.dtype.kind != "f"
                or len(sizes) > 1
                or len(widths) > 1
                or (array.ndim == 2 and len(array) < self._least())
                or not np.isfinite(array).all()
            ):
                raise InputError(
                    f"{name} of shape {array.shape} and type {array.dtype} is not what "
                    f"{self.name} has learnt; fit it again"
                )
            array.setflags(write=False)
        fitted = copy.copy(self)
        fitted._learnt = learnt
        return fitted

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return every question and response, and every context where it is read."""
        texts: dict[str, None] = {}
        for example in examples:
            texts.update(dict.fromkeys((example.question, example.response)))
            if "contexts" in self.requires:
                texts[joined(example)] = None
        return (Demand(self.encoder, (tuple(text for text in texts if text.strip()),)),)

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return one value per example; undefined where a field is missing.

        Raises
        ------
        InputError
            If the score has not learnt yet, or has with another encoder.
        """
        width = next(iter(self._known().values())).shape[-1]
        values, positions, reasons = self.usable(examples)
        if not positions:
            return Scores(values, reasons)
        chosen = [examples[i] for i in positions]
        prepare(self.demands(chosen))
        questions = self.encoder.sentences([example.question for example in chosen])
        if questions.shape[1] != width:
            raise InputError(
                f"{self.name} has learnt from vectors of {width} numbers, and those of "
                f"{self.encoder.model} have {questions.shape[1]}; fit it again with this encoder"
            )
        moves = self._moves(chosen)
        for i, question, move in zip(positions, questions, moves, strict=True):
            value = self._value(question, move)
            if isinstance(value, str):
                reasons[i] = value
            else:
                values[i] = value
        return Scores(values, reasons)

    def _known(self) -> Mapping[str, NDArray[Any]]:
        if self._learnt is None:
            raise InputError(
                f"{self.name} learns from faithful examples before it can score: call "
                "fit(examples) and use what it returns"
            )
        return self._learnt

    def _moves(self, examples: Sequence[Example]) -> Floats:
        """Return the displacements to the responses, from the contexts where they are read."""
        starts = [
            joined(example) if "contexts" in self.requires else example.question
            for example in examples
        ]
        responses = self.encoder.sentences([example.response for example in examples])
        return responses - self.encoder.sentences(starts)

    def _least(self) -> int:
        """Return how many references are needed."""
        return 1

    def _remedy(self) -> str:
        """Return what else may be done where there are too few."""
        return ""

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
    **encoder
        ``model``, ``revision``, ``prompt``, ``dtype``; see ``Embedding``.
    """

    arrays: ClassVar[Mapping[str, int]] = {"questions": 2, "displacements": 2}

    def __init__(self, *, k: int = 10, **encoder: Any) -> None:
        super().__init__(**encoder)
        self.k = whole(k, "k")

    def own_params(self) -> Mapping[str, JSON]:
        """Return the number of neighbours."""
        return {"k": self.k}

    def _least(self) -> int:
        return self.k

    def _remedy(self) -> str:
        return f", or choose a smaller k than {self.k}"

    def _learn(self, examples: Sequence[Example]) -> Mapping[str, NDArray[Any]]:
        questions = self.encoder.sentences([example.question for example in examples])
        # The encoder's own precision, and half the room inside a guardrail.
        return {
            "questions": questions.astype(np.float32),
            "displacements": self._moves(examples).astype(np.float32),
        }

    def _neighbours(self, question: Floats) -> Floats:
        """Return the displacements of the k references nearest by question, shape (k, d)."""
        learnt = self._known()
        # Not a matrix product, which may round equal rows differently: of references with one
        # question the first come first.
        similar = np.einsum("ij,j->i", learnt["questions"], question)
        nearest = np.argsort(-similar, kind="stable")[: self.k]
        return learnt["displacements"][nearest].astype(np.float64)


def whole(value: Any, name: str) -> int:
    """Return a parameter that is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1; got {value!r}")
    return value


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1]
