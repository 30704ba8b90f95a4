"""Which piece of the answer does which piece of the context support or contradict?"""

from bisect import bisect, bisect_left
from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Final

from calibrail.data.example import Example
from calibrail.models.nli import Judgement
from calibrail.scores.base import JSON
from calibrail.text.sentences import Sentence, sentences
from calibrail.text.words import content_words

#: A probability from which on a verdict is spoken.
SPOKEN: Final = 0.5


def judged(
    pieces: Sequence[Sentence],
    table: Sequence[Sequence[Judgement]],
    contexts: Sequence[str] | None,
    threshold: float = SPOKEN,
) -> list[dict[str, JSON]]:
    """Return one item per piece: its verdict, and the chunk and place that speak for it.

    Parameters
    ----------
    pieces : sequence of Sentence
        Sentences or claims of the response, with their places there.
    table : sequence of sequences of Judgement
        Per piece the judgement given each chunk that holds anything, in order.
    contexts : sequence of str, or None
        The example's chunks; None where the premise was none of them.
    threshold : float
        Probability from which on a piece is supported, or contradicted.
    """
    items = []
    chunks = [] if contexts is None else filled_places(contexts)
    for piece, row in zip(pieces, table, strict=True):
        chosen = max(range(len(row)), key=lambda i: row[i].entailment)
        strength = row[chosen].entailment
        start, end = row[chosen].start, row[chosen].end
        verdict = "supported" if strength >= threshold else "unsupported"
        item: dict[str, JSON] = {**piece._asdict(), "support": strength}
        if row[chosen].contradiction is not None:
            opposed = max(range(len(row)), key=lambda i: row[i].contradiction or 0.0)
            against = item["contradiction"] = row[opposed].contradiction
            if strength < threshold <= (against or 0.0):
                verdict, chosen = "contradicted", opposed
                start, end = row[opposed].contradiction_start, row[opposed].contradiction_end
        item["verdict"] = verdict
        if contexts is not None:
            item |= quoted(piece.text, contexts, chunks[chosen], start, end)
        items.append(item)
    return items


def supported(pieces: Sequence[Sentence], support: Sequence[float]) -> dict[str, JSON]:
    """Return sentences of the response, each with a number that says how well it is supported."""
    pairs = zip(pieces, support, strict=True)
    items = [{**piece._asdict(), "support": number} for piece, number in pairs]
    return {"kind": "sentences", "items": items}


def whole_response(example: Example) -> Sentence:
    """Return the response as one piece."""
    return Sentence(example.response, 0, len(example.response))


def quoted(
    text: str, contexts: Sequence[str], chunk: int, start: int = 0, end: int | None = None
) -> dict[str, JSON]:
    """Return the chunk and the sentence in it that shares most words with ``text``.

    Only sentences that lie between start and end count, the window that the model read.
    """
    source = contexts[chunk]
    end = len(source) if end is None else end
    wanted = frozenset(word.text for word in content_words(text))
    # Ties go to the sentence that says less besides.
    parts = _parts(source)
    first, last = (
        bisect(parts, start, key=itemgetter(1)),
        bisect_left(parts, end, key=itemgetter(0)),
    )
    inside = parts[first:last]
    best = max(inside, key=lambda part: (len(part[2] & wanted), -len(part[2])), default=None)
    # Without a word in common no sentence stands out: then it is all that the model read.
    if best is not None and best[2] & wanted:
        start, end = best[0], best[1]
    return {"chunk": chunk, "chunk_start": start, "chunk_end": end, "quote": source[start:end]}


def nearest(text: str, contexts: Sequence[str]) -> dict[str, JSON]:
    """Return the sentence of all chunks that shares most words with ``text``, and its place."""
    wanted = frozenset(word.text for word in content_words(text))

    def shared(chunk: int) -> int:
        return max((len(part[2] & wanted) for part in _parts(contexts[chunk])), default=0)

    return quoted(text, contexts, max(filled_places(contexts), key=shared))


def filled_places(contexts: Sequence[str]) -> list[int]:
    """Return the positions of the chunks that hold anything."""
    return [index for index, chunk in enumerate(contexts) if chunk.strip()]


@lru_cache(maxsize=64)
def _parts(source: str) -> tuple[tuple[int, int, frozenset[str]], ...]:
    """Return place and content words of every sentence; a chunk is asked about piece by piece."""
    return tuple(
        (part.start, part.end, frozenset(word.text for word in content_words(part.text)))
        for part in sentences(source)
    )
