"""Is the answer far from every retrieved chunk?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.base import JSON, Demand, Scores, prepare
from calibrail.scores.evidence import quoted
from calibrail.scores.geometry import NO_SENTENCE
from calibrail.scores.neural import Embedding, cosines
from calibrail.text.sentences import Sentence, sentences, sentences_version

Weighting = Literal["max", "question"]
Level = Literal["response", "sentence"]

#: Temperature of the question-weighted mix in the published code.
TEMPERATURE: Final = 0.1

#: Cosines nearer than this are one; the first place is named, whatever the rounding.
TIE: Final = 1e-7

#: Response sentences compared at a time.
TILE: Final = 256


class _Passage(NamedTuple):
    """A chunk or a sentence of one, by its place."""

    text: str
    chunk: int
    start: int
    end: int


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
    **encoder
        ``model``, ``revision``, ``prompt``, ``dtype``; see ``Embedding``.
    """

    name = "rad"
    requires: tuple[str, ...] = ("contexts", "response")

    def __init__(
        self, *, weighting: Weighting = "max", level: Level = "response", **encoder: Any
    ) -> None:
        super().__init__(**encoder)
        if weighting not in get_args(Weighting):
            raise InputError(f"weighting must be max or question; got {weighting!r}")
        if level not in get_args(Level):
            raise InputError(f"level must be response or sentence; got {level!r}")
        if weighting == "question" and level == "sentence":
            raise InputError("weighting=question weighs whole chunks; it needs level=response")
        self.weighting, self.level = weighting, level
        if weighting == "question":
            self.requires = ("question", "contexts", "response")

    def own_params(self) -> Mapping[str, JSON]:
        """Return weighting and level."""
        return {"weighting": self.weighting, "level": self.level}

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the encoder's fingerprint, and the version of the splitting where it matters."""
        splitting = {"sentences": sentences_version()} if self.level == "sentence" else {}
        return {**super().fingerprint(), **splitting}

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return chunks and responses, or their sentences, and the questions where they weigh."""
        return self._demands(examples, [self._split(example) for example in examples])

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the divergence; undefined without context or response, or a sentence of them."""
        values, positions, reasons = self.usable(examples)
        evidence: list[Mapping[str, JSON]] = [{} for _ in examples]
        split = [self._split(examples[i]) for i in positions]
        prepare(self._demands([examples[i] for i in positions], split))
        for i, (pieces, passages) in zip(positions, split, strict=True):
            if not pieces:
                reasons[i] = NO_SENTENCE
            elif not passages:
                reasons[i] = "the contexts hold no sentence"
            else:
                values[i], evidence[i] = self._value(examples[i], pieces, passages)
        return Scores(values, reasons, tuple(evidence))

    def _value(
        self, example: Example, pieces: Sequence[Sentence], passages: Sequence[_Passage]
    ) -> tuple[float, Mapping[str, JSON]]:
        responses = self.encoder.sentences([piece.text for piece in pieces])
        documents = self.encoder.sentences([passage.text for passage in passages])
        best = _nearest(responses, documents)
        support = cosines(responses, documents[best])
        items = [
            {**piece._asdict(), "support": near, **self._source(example, piece, passages[place])}
            for piece, near, place in zip(pieces, support.tolist(), best.tolist(), strict=True)
        ]
        least = float(support.min())
        if self.weighting == "question":
            similar = cosines(np.repeat(responses, len(documents), axis=0), documents)
            question = self.encoder.sentences([example.question] * len(documents))
            weights = np.exp((cosines(question, documents) - 1.0) / TEMPERATURE)
            least = (least + float(weights @ similar / weights.sum())) / 2.0
        return 1.0 - least, {"kind": "sentences", "items": items}

    def _source(self, example: Example, piece: Sentence, passage: _Passage) -> Mapping[str, JSON]:
        if self.level == "response":
            return quoted(piece.text, example.contexts, passage.chunk)
        return {
            "chunk": passage.chunk,
            "chunk_start": passage.start,
            "chunk_end": passage.end,
            "quote": passage.text,
        }

    def _split(self, example: Example) -> tuple[list[Sentence], list[_Passage]]:
        chunks = list(enumerate(example.contexts))
        if self.level == "sentence":
            places = [_Passage(s.text, i, s.start, s.end) for i, c in chunks for s in sentences(c)]
            return sentences(example.response), places
        whole = Sentence(example.response, 0, len(example.response))
        return [whole], [_Passage(c, i, 0, len(c)) for i, c in chunks if c.strip()]

    def _demands(
        self,
        examples: Sequence[Example],
        split: Sequence[tuple[Sequence[Sentence], Sequence[_Passage]]],
    ) -> tuple[Demand, ...]:
        texts: dict[str, None] = {}
        for example, (pieces, passages) in zip(examples, split, strict=True):
            texts.update(dict.fromkeys(passage.text for passage in passages))
            texts.update(dict.fromkeys(piece.text for piece in pieces))
            if self.weighting == "question":
                texts[example.question] = None
        return (Demand(self.encoder, (tuple(text for text in texts if text.strip()),)),)


def _nearest(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return for each row of ``left`` the first of the most similar rows of ``right``."""
    found = np.empty(len(left), dtype=np.intp)
    for start in range(0, len(left), TILE):
        similar = left[start : start + TILE] @ right.T
        near = similar >= similar.max(axis=1, keepdims=True) - TIE
        found[start : start + TILE] = near.argmax(axis=1)
    return found
