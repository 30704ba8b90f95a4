"""Geometry of embeddings: SGI, RAD, and how far a response moves away from reference answers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import FAITHFUL, Example
from calibrail.errors import InputError, error_text
from calibrail.options import SplitOptions
from calibrail.options.fields import one_of, spell_option, whole
from calibrail.scores import base
from calibrail.scores.entailment import quoted, supported, whole_response
from calibrail.text.sentences import Sentence, sentences, sentences_version
from calibrail.text.words import remembered

Context = Literal["joined", "closest"]
Weighting = Literal["max", "question"]
Level = Literal["response", "sentence"]

#: Keeps the ratio finite where the response is the context.
EPSILON: Final = 1e-8

#: Below this distance or angle two texts are one to the encoder, which may see no white space or
#: case. In different batches they lie up to 1e-6 apart, while a full stop more makes 2e-2.
SAME_PLACE: Final = 1e-4

#: Temperature of the question-weighted mix in the published code.
TEMPERATURE: Final = 0.1

#: Cosines nearer than this are one; the first place is named, whatever the rounding.
TIE: Final = 1e-7

#: Response sentences compared at a time.
TILE: Final = 256


def _pieces(score: base.Embedding, example: Example) -> Sequence[Sentence]:
    """Return the pieces of a response that a score compares, or the whole of it."""
    return score.splitter(example.response) if score.splitter else [whole_response(example)]


class Sgi(base.Embedding):
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
        one_of(self.context, Context, "context")

    def inputs(self, example: Example) -> Iterable[str]:
        """Return the question, the pieces of the response and the contexts."""
        pieces = (piece.text for piece in _pieces(self, example))
        return (example.question, *pieces, *self._contexts(example))

    def sources(self, example: Example) -> Sequence[str]:
        """Return the question and the contexts."""
        return (example.question, *self._contexts(example))

    def value(self, example: Example) -> base.Valued | str:
        """Return the negated index, the mean over the pieces of the response."""
        pieces, chunks = _pieces(self, example), self._contexts(example)
        if not pieces:
            return base.NO_SENTENCE
        vectors = self.encoder.sentences
        texts = vectors([piece.text for piece in pieces])
        to_question = base.angles(texts, vectors([example.question] * len(pieces)))
        repeated = np.repeat(texts, len(chunks), axis=0)
        to_chunks = base.angles(repeated, vectors(chunks * len(pieces)))
        to_context = to_chunks.reshape(len(pieces), len(chunks)).min(axis=1)
        both = np.stack([to_question, to_context])
        # The ratio would magnify the noise between two batches to any number.
        both[both < SAME_PLACE] = 0.0
        index = both[0] / (both[1] + EPSILON)
        if self.splitter:
            return float(-index.mean()), supported(pieces, index.tolist())
        items = [{"to_question": near, "to_context": far} for near, far in both.T.tolist()]
        return float(-index.mean()), {"kind": "angles", "items": items}

    def _contexts(self, example: Example) -> list[str]:
        return [base.joined(example)] if self.context == "joined" else base.filled(example.contexts)


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
    splitter = staticmethod(sentences)


class _Passage(NamedTuple):
    """A chunk or a sentence of one, by its place."""

    chunk: int
    chunk_start: int
    chunk_end: int
    quote: str


class Rad(base.Embedding):
    """Retrieval-Attribution Divergence: 1 - max over chunks of cos(response, chunk).

    Sinha, "The Semantic Illusion" (arXiv 2512.15068), equation 2. In [0, 2]; higher means more
    likely hallucinated. Evidence: the response, or each of its sentences, with the nearest chunk,
    the place there, and the cosine as ``support``; nearness alone proves nothing, so that there is
    no verdict.

    Parameters
    ----------
    weighting : {"max", "question"}
        ``max``: the formula of the paper. ``question``: the published code, which averages the
        maximum with a mean of the similarities weighted by softmax(cos(question, chunk) / 0.1).
    level : {"response", "sentence"}
        ``response``: the formula of the paper. ``sentence``: 1 - min over the response's sentences
        of max over the chunks' sentences of their cosine: the least supported sentence decides.
    model, revision, prompt, dtype
        See ``Embedding``.
    """

    weighting: Weighting = "max"
    level: Level = "response"

    name = "rad"
    explains = True

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.weighting, Weighting, "weighting")
        one_of(self.level, Level, "level")
        if self.weighting == "question" and self.level == "sentence":
            raise InputError("weighting=question weighs whole chunks; it needs level=response")

    @property
    def requires(self) -> tuple[str, ...]:
        """Contexts and response, and the question where it weighs."""
        fields = super().requires
        return ("question", *fields) if self.weighting == "question" else fields

    @property
    def splitter(self) -> Callable[[str], Sequence[Any]] | None:
        """The sentences, where each is compared."""
        return sentences if self.level == "sentence" else None

    def fingerprint(self) -> Mapping[str, base.JSON]:
        """Return the encoder's fingerprint, and the version of the splitting where it matters."""
        splitting = {"sentences": sentences_version()} if self.level == "sentence" else {}
        return {**super().fingerprint(), **splitting}

    def inputs(self, example: Example) -> Iterable[str]:
        """Return chunks and response, or their sentences, and the question where it weighs."""
        return (*self.sources(example), *(piece.text for piece in _pieces(self, example)))

    def sources(self, example: Example) -> Sequence[str]:
        """Return chunks, or their sentences, and the question where it weighs."""
        question = [example.question] if self.weighting == "question" else []
        texts = (passage.quote for passage in _passages(tuple(example.contexts), self.level))
        return (*texts, *question)

    def value(self, example: Example) -> base.Valued | str:
        """Return the divergence; undefined without a sentence on either side."""
        pieces, passages = _pieces(self, example), _passages(tuple(example.contexts), self.level)
        if not pieces:
            return base.NO_SENTENCE
        if not passages:
            return "the contexts hold no sentence"
        responses = self.encoder.sentences([piece.text for piece in pieces])
        documents = self.encoder.sentences([passage.quote for passage in passages])
        best = _nearest(responses, documents)
        support = base.cosines(responses, documents[best])
        items = []
        for piece, near, place in zip(pieces, support.tolist(), best.tolist(), strict=True):
            source = passages[place]._asdict()
            if self.level == "response":
                source = quoted(piece.text, example.contexts, source["chunk"])
            items.append({**piece._asdict(), "support": near, **source})
        least = float(support.min())
        if self.weighting == "question":
            similar = base.cosines(np.repeat(responses, len(documents), axis=0), documents)
            question = self.encoder.sentences([example.question] * len(documents))
            weights = np.exp((base.cosines(question, documents) - 1.0) / TEMPERATURE)
            least = (least + float(weights @ similar / weights.sum())) / 2.0
        return 1.0 - least, {"kind": "sentences", "items": items}


@remembered(64)
def _passages(contexts: tuple[str, ...], level: Level) -> tuple[_Passage, ...]:
    """Return what a response is compared with, which all sentences of an answer share."""
    chunks = enumerate(contexts)
    if level == "response":
        return tuple(_Passage(i, 0, len(c), c) for i, c in chunks if c.strip())
    return tuple(_Passage(i, s.start, s.end, s.text) for i, c in chunks for s in sentences(c))


def _nearest(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return for each row of ``left`` the first of the most similar rows of ``right``."""
    nearest = np.empty(len(left), dtype=np.intp)
    for start in range(0, len(left), TILE):
        similar = left[start : start + TILE] @ right.T
        near = similar >= similar.max(axis=1, keepdims=True) - TIE
        nearest[start : start + TILE] = near.argmax(axis=1)
    return nearest


#: The direction between two texts as near as a full stop (2e-2) magnifies the noise between two
#: batches fiftyfold.
DIRECTION_TOLERANCE: Final = 1e-5


class DisplacementMagnitude(base.Embedding):
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
        return (base.joined(example), example.response)

    def value(self, example: Example) -> float:
        """Return the distance."""
        context, response = self.encoder.sentences([base.joined(example), example.response])
        return float(np.linalg.norm((response - context)[None], axis=1)[0])


class DisplacementConsistency(base.Embedding):
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
        return (base.joined(example), *(part.text for part in parts)) if len(parts) > 1 else ()

    def value(self, example: Example) -> base.Valued | str:
        """Return the negated mean; undefined where a direction or a second sentence is missing."""
        parts = sentences(example.response)
        if len(parts) < 2:
            return "the response holds fewer than 2 sentences"
        places = self.encoder.sentences([part.text for part in parts])
        moves = places - self.encoder.sentences([base.joined(example)])
        lengths = np.linalg.norm(moves, axis=1, keepdims=True)
        if (lengths < SAME_PLACE).any():
            return error_text("sentence_at_context")
        moves /= lengths
        alike = np.clip(np.einsum("ij,ij->i", moves[:-1], moves[1:]), -1.0, 1.0)
        return float(-alike.mean()), supported(parts[1:], alike.tolist())


Floats = NDArray[np.float64]

#: Singular values below this share of the largest are rounding, and their directions arbitrary.
RANK_TOLERANCE: Final = 1e-5


class Referring(base.Learning, base.Embedding):
    """Base of the scores that compare with the displacements of faithful answers.

    What they learn is vectors; no text of a reference is kept.

    Parameters
    ----------
    model, revision, prompt, dtype
        See ``Embedding``.
    """

    requires: ClassVar[tuple[str, ...]] = ("question", "response")
    #: Names of the arrays learnt.
    arrays: ClassVar[tuple[str, ...]] = ()
    unfitted = (
        "learns from faithful answers before it can score: call fit(examples) and use what it "
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
                f"{self.name} learns from at least {self.least} faithful answers (label 0) "
                f"with {', '.join(first)} and {last}; got {len(chosen)} among {len(examples)}; set "
                f"more aside for it ({spell_option(SplitOptions, 'fit_share')}){self.remedy}"
            )
        base.prepare(self.demands(chosen))
        return self.restore(self._learn(chosen))

    def inputs(self, example: Example) -> Iterable[str]:
        """Return question and response, and the context where it is read."""
        return (example.question, example.response, self._start(example))

    def score(self, examples: Sequence[Example]) -> base.Scores:
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
        (question,) = self.encoder.sentences([example.question])
        return self._value(question, self._moves([example])[0])

    def _moves(self, examples: Sequence[Example]) -> Floats:
        """Return the displacements to the responses, from the contexts where they are read."""
        responses = self.encoder.sentences([example.response for example in examples])
        return responses - self.encoder.sentences([self._start(example) for example in examples])

    def _start(self, example: Example) -> str:
        return base.joined(example) if "contexts" in self.requires else example.question

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

    arrays = ("questions", "displacements")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.least = whole(self.k, "k", least=1)
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
        whole(self.components, "components", least=1)
        if self.components > self.k:
            raise InputError.on("components_beyond_k", of=self)

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
    arrays = ("mu",)

    def _learn(self, examples: Sequence[Example]) -> Mapping[str, NDArray[Any]]:
        moves = self._moves(examples)
        lengths = np.linalg.norm(moves, axis=1, keepdims=True)
        moved = lengths[:, 0] >= SAME_PLACE
        mean = (moves[moved] / lengths[moved]).sum(axis=0) / max(1, moved.sum())
        length = float(np.linalg.norm(mean))
        if length < SAME_PLACE:
            raise InputError.on("displacements_without_direction", n=len(examples))
        return {"mu": mean / length}

    def _value(self, question: Floats, move: Floats) -> float | str:
        length = float(np.linalg.norm(move))
        if length < SAME_PLACE:
            return "the response lies where the question does, so that there is no direction"
        return float(np.clip(-(move @ self.state()["mu"]) / length, -1.0, 1.0))
