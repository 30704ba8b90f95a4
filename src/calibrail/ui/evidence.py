"""Which part of the chunks shares most words with a sentence of the answer?

Help for a person who reads: words alone, nothing that a detector says.
"""

from collections.abc import Sequence
from typing import NamedTuple

from calibrail.scores.evidence import filled_places, nearest
from calibrail.text.sentences import sentences
from calibrail.text.words import content_words
from calibrail.ui.places import Place


class Quote(NamedTuple):
    """A part of a chunk, in code points."""

    chunk: int
    start: int
    end: int


def sentence_places(response: str) -> list[Place]:
    """Return where the sentences of an answer stand, in code points."""
    return [(item.start, item.end) for item in sentences(response)]


def nearest_quote(sentence: str, contexts: Sequence[str]) -> Quote | None:
    """Return the sentence of all chunks that shares most words with one of the answer.

    None where no chunk shares any.
    """
    if not filled_places(contexts):
        return None
    item = nearest(sentence, contexts)
    chunk, start, end = (int(str(item[f"chunk{name}"])) for name in ("", "_start", "_end"))
    wanted = {word.text for word in content_words(sentence)}
    shared = wanted & {word.text for word in content_words(contexts[chunk][start:end])}
    return Quote(chunk, start, end) if shared else None
