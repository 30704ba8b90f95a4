"""How does every encoder keep its vectors, so that each distinct text is embedded once?"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrail.models.store import ResultStore, run_key, text_key

#: Texts tokenised at a time.
_CHUNK: Final = 2048

#: Bytes of vectors to keep.
SENTENCE_BUDGET: Final = 256 * 2**20
WORD_BUDGET: Final = 512 * 2**20


class SentenceVector(NamedTuple):
    """The vector of a text.

    Attributes
    ----------
    vector : array of float32, shape (d,)
        As the model gives it.
    cut : bool
        Whether it stands for the beginning of a longer text.
    """

    vector: NDArray[np.float32]
    cut: bool


class Encoder:
    """Base of the sentence encoders, whose every distinct text runs through the model once.

    Parameters
    ----------
    prompt : str
        Put before every text.

    Attributes
    ----------
    model : str
        What the user called it.
    n_passes : int
        Forward passes so far (batches).
    n_embedded : int
        Texts embedded so far.
    n_truncated : int
        Texts longer than the model's maximum length so far: their sentence vector is that of their
        beginning, as sentence-transformers computes it.
    """

    model: str
    n_passes: int = 0

    def __init__(self, prompt: str = "") -> None:
        self.prompt = prompt
        self.n_embedded = self.n_truncated = 0
        self._sentences = ResultStore[SentenceVector](SENTENCE_BUDGET)
        self._words = ResultStore[NDArray[np.float32]](WORD_BUDGET)

    def fingerprint(self) -> dict[str, Any]:
        """Return what pins the vectors."""
        raise NotImplementedError

    def embed(self, items: Sequence[tuple[str, bool]]) -> None:
        """Compute and keep the vectors of texts, of their words too where a text's flag says so."""
        raise NotImplementedError

    def prepare(self, texts: Iterable[str], word_texts: Iterable[str] = ()) -> None:
        """Embed what is not yet known, in length-sorted batches, one pass for both kinds.

        Parameters
        ----------
        texts : iterable of str
            Texts whose sentence vector will be asked for.
        word_texts : iterable of str
            Texts whose word vectors will be asked for; their sentence vector comes along.
        """
        missing = (text for text in word_texts if self._words.get(text_key(text)) is None)
        wanted = dict.fromkeys(missing, True)
        for text in texts:
            if text not in wanted and self._sentences.get(text_key(text)) is None:
                wanted[text] = False
        items = list(wanted.items())
        for start in range(0, len(items), _CHUNK):
            self._together(items[start : start + _CHUNK])

    def _together(self, items: Sequence[tuple[str, bool]]) -> None:
        """Embed texts, or take up what they were when they were embedded together, and alone."""
        keys = [text_key(text) for text, _ in items]
        run = run_key(key + bytes([words]) for key, (_, words) in zip(keys, items, strict=True))
        if not (self._sentences.repeat(run) and self._words.repeat(run)):
            self.embed(items)
            self._sentences.note(run, keys)
            self._words.note(run, keys)

    def sentences(self, texts: Sequence[str], *, normal: bool = True) -> NDArray[np.float64]:
        """Return L2-normalised sentence vectors, float64, shape (n, d); else as the model gives."""
        keys = list(map(text_key, texts))
        known = [self._sentences.get(key) for key in keys]
        if None in known:
            self.prepare(texts)
        rows = [
            row or self._sentences.get_or(key, partial(self.embed, [(text, False)]))
            for key, text, row in zip(keys, texts, known, strict=True)
        ]
        if not rows:
            return np.zeros((0, 0))
        vectors = np.array([row.vector for row in rows], dtype=np.float64)
        if not normal:
            return vectors
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(norms > 0.0, norms, 1.0)

    def words(self, text: str) -> NDArray[np.float32]:
        """Return L2-normalised vectors of the text's content words, shape (words, d).

        A word's vector is the mean of its subwords' last hidden states in context.
        """
        return self._words.get_or(text_key(text), partial(self.prepare, (), (text,)))

    def settle(self, texts: Iterable[str]) -> None:
        """Embed texts and their words again, each by itself: what they are then no batch changes.

        For a caller that draws a line, and whose value lies near it in half precision.
        """
        for text in dict.fromkeys(texts):
            self.embed([(text, True)])

    def cut(self, texts: Iterable[str]) -> set[bytes]:
        """Return the keys of those texts that are longer than the model reads.

        Texts that were not prepared, or whose vectors were dropped since, are not among them.
        """
        keys = map(text_key, texts)
        return {key for key in keys if (kept := self._sentences.peek(key)) and kept.cut}

    def forget(self) -> None:
        """Drop all vectors, so that the next text is embedded by itself."""
        self._sentences.clear()
        self._words.clear()

    def keep(self, text: str, vector: NDArray[np.float32], cut: bool) -> None:
        """Keep the vector of a text."""
        self._sentences.put(text_key(text), SentenceVector(vector, cut), vector.nbytes)
