"""SGI, RAD."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.base import JSON, NO_SENTENCE, Valued
from calibrail.scores.detector import Embedding, angles, cosines, filled, joined, one_of
from calibrail.scores.entailment import quoted, supported, whole_response
from calibrail.text.sentences import Sentence, sentences, sentences_version

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

    def sources(self, example: Example) -> Sequence[str]:
        """Return the question and the contexts."""
        return (example.question, *self._contexts(example))

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
        if self.splitter:
            return float(-index.mean()), supported(pieces, index.tolist())
        items = [{"to_question": near, "to_context": far} for near, far in both.T.tolist()]
        return float(-index.mean()), {"kind": "angles", "items": items}

    def _pieces(self, example: Example) -> Sequence[Sentence]:
        return self.splitter(example.response) if self.splitter else [whole_response(example)]

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
    splitter = staticmethod(sentences)


class _Passage(NamedTuple):
    """A chunk or a sentence of one, by its place."""

    chunk: int
    chunk_start: int
    chunk_end: int
    quote: str


class Rad(Embedding):
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
        one_of(self.weighting, "weighting", get_args(Weighting))
        one_of(self.level, "level", get_args(Level))
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

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the encoder's fingerprint, and the version of the splitting where it matters."""
        splitting = {"sentences": sentences_version()} if self.level == "sentence" else {}
        return {**super().fingerprint(), **splitting}

    def inputs(self, example: Example) -> Iterable[str]:
        """Return chunks and response, or their sentences, and the question where it weighs."""
        return (*self.sources(example), *(piece.text for piece in self._pieces(example)))

    def sources(self, example: Example) -> Sequence[str]:
        """Return chunks, or their sentences, and the question where it weighs."""
        question = [example.question] if self.weighting == "question" else []
        texts = (passage.quote for passage in _passages(tuple(example.contexts), self.level))
        return (*texts, *question)

    def value(self, example: Example) -> Valued | str:
        """Return the divergence; undefined without a sentence on either side."""
        pieces, passages = self._pieces(example), _passages(tuple(example.contexts), self.level)
        if not pieces:
            return NO_SENTENCE
        if not passages:
            return "the contexts hold no sentence"
        responses = self.encoder.sentences([piece.text for piece in pieces])
        documents = self.encoder.sentences([passage.quote for passage in passages])
        best = _nearest(responses, documents)
        support = cosines(responses, documents[best])
        items = []
        for piece, near, place in zip(pieces, support.tolist(), best.tolist(), strict=True):
            source = passages[place]._asdict()
            if self.level == "response":
                source = quoted(piece.text, example.contexts, source["chunk"])
            items.append({**piece._asdict(), "support": near, **source})
        least = float(support.min())
        if self.weighting == "question":
            similar = cosines(np.repeat(responses, len(documents), axis=0), documents)
            question = self.encoder.sentences([example.question] * len(documents))
            weights = np.exp((cosines(question, documents) - 1.0) / TEMPERATURE)
            least = (least + float(weights @ similar / weights.sum())) / 2.0
        return 1.0 - least, {"kind": "sentences", "items": items}

    def _pieces(self, example: Example) -> Sequence[Sentence]:
        return self.splitter(example.response) if self.splitter else [whole_response(example)]


@lru_cache(maxsize=64)
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
