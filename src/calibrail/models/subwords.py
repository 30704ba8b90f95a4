"""How do the vectors of subwords become vectors of words?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from calibrail.text.words import content_words


class WordSums:
    """Adds up token vectors by content word, over the windows of a text.

    Parameters
    ----------
    items : sequence of (str, bool)
        Texts, and whether their word vectors are wanted.
    """

    def __init__(self, items: Sequence[tuple[str, bool]]) -> None:
        self._places: dict[int, NDArray[np.int64]] = {}
        self._sums: dict[int, NDArray[np.float32]] = {}
        for index, (text, wants_words) in enumerate(items):
            if wants_words:
                places = [(word.start, word.end) for word in content_words(text)]
                self._places[index] = np.array(places, dtype=np.int64).reshape(-1, 2)

    def add(self, index: int, offsets: NDArray[np.int64], tokens: NDArray[np.float32]) -> None:
        """Add one window of a text: character offsets (n, 2) and vectors (n, d) of its tokens."""
        places = self._places[index]
        sums = self._sums.setdefault(
            index, np.zeros((len(places), tokens.shape[1]), dtype=np.float32)
        )
        if not len(places):
            return
        starts, ends = offsets[:, 0], offsets[:, 1]
        word = np.searchsorted(places[:, 0], starts, side="right") - 1
        # Special tokens are empty; punctuation and stop words lie in no content word.
        inside = (ends > starts) & (word >= 0) & (starts < places[word, 1])
        np.add.at(sums, word[inside], tokens[inside])

    def finish(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield each text's index with its unit word vectors, shape (words, d)."""
        for index, sums in self._sums.items():
            # The direction of a sum is that of the mean. A word without a token (a character that
            # the vocabulary drops) keeps a zero vector: it resembles nothing.
            norms = np.linalg.norm(sums, axis=1, keepdims=True)
            norms[norms == 0.0] = 1.0
            yield index, sums / norms
