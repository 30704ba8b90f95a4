"""Models whose outputs a test writes down, so that values can be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from calibrail.models.classifiers import Judgement
from calibrail.scores.base import Embedding


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


class FakeNli:
    """An entailment model whose probabilities a test writes down."""

    model = "fake"
    revision = None
    dtype = "float32"
    window = None
    tolerance = 1e-5

    def __init__(self, says: Callable[[str, str], tuple[float, float | None]]) -> None:
        self.n_passes = 0
        self.asked: list[tuple[str, str]] = []
        self._says = says

    def fingerprint(self) -> dict[str, str]:
        return {"model": "fake"}

    def prepare(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.n_passes += 1
        self.asked.extend(pairs)

    def settle(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.settled = list(pairs)

    def forget(self) -> None:
        self.asked.clear()

    def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Judgement]:
        return [
            Judgement(*self._says(premise, hypothesis), 0, len(premise), 0, len(premise), 1)
            for premise, hypothesis in pairs
        ]


class FakeRanker:
    """A reranker whose logits a test writes down."""

    model = "fake"
    revision = None
    dtype = "float32"
    window = None
    tolerance = 1e-4

    def __init__(self, logit: Callable[[str, str], float]) -> None:
        self.n_passes = 0
        self._logit = logit

    def fingerprint(self) -> dict[str, str]:
        return {"model": "fake"}

    def prepare(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.n_passes += 1

    def forget(self) -> None: ...

    def settle(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.settled = list(pairs)

    def relevance(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        return np.array([self._logit(query, document) for query, document in pairs])
