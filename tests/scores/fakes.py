"""An encoder whose vectors a test writes down, so that values can be worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from calibrail.scores.neural import Embedding


class FakeEncoder:
    def __init__(
        self,
        sentences: Mapping[str, Sequence[float]] | None = None,
        words: Mapping[str, Sequence[Sequence[float]]] | None = None,
    ) -> None:
        self._sentences = dict(sentences or {})
        self._words = dict(words or {})

    def prepare(self, texts: Iterable[str], word_texts: Iterable[str] = ()) -> None:
        assert set(texts) <= set(self._sentences)
        assert set(word_texts) <= set(self._words)

    def sentences(self, texts: Sequence[str]) -> NDArray[np.float64]:
        vectors = np.array([self._sentences[text] for text in texts], dtype=np.float64)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def words(self, text: str) -> NDArray[np.float32]:
        vectors = np.array(self._words[text], dtype=np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if len(vectors) else vectors


def plane(degrees: float) -> tuple[float, float]:
    """Return the unit vector at an angle."""
    return float(np.cos(np.radians(degrees))), float(np.sin(np.radians(degrees)))


def with_encoder(score: Embedding, encoder: FakeEncoder) -> Embedding:
    vars(score)["encoder"] = encoder
    return score
