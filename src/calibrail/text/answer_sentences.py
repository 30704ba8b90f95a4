"""Which sentences does an answer hold, while it is still being written?

Where a sentence ends is decided from the characters up to the end of the next word, and never
again: the same text gives the same sentences whole, token by token or cut anywhere else.
"""

from __future__ import annotations

import re
from typing import Final

from calibrail.text.sentences import (
    Line,
    Sentence,
    line_sentences,
    lines,
    sentences_version,
)

#: Where something is decided: after a word, and at the end of a line.
_EVENT: Final = re.compile(
    r"(?<=\S)[^\S\r\n\v\f\x1c-\x1e\x85\u2028\u2029]|[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]"
)
_BREAKS: Final = frozenset("\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029")
_SPEAKS: Final = re.compile(r"[^\W_]")


def answer_sentences_version() -> str:
    """Return what pins the result of `answer_sentences`."""
    return f"calibrail-answer-sentences/1 {sentences_version()}"


class SentenceStream:
    """Takes an answer piece by piece, and gives each sentence once it is over.

    >>> stream = SentenceStream()
    >>> [[item.text for item in stream.feed(token)] for token in ("It ra", "ined. The", " s")]
    [[], [], ['It rained.']]
    >>> [sentence.text for sentence in stream.close()]
    ['The s']
    """

    def __init__(self) -> None:
        # What is not decided yet: the rest of a line, and where it starts in the answer.
        self._pending, self._start = "", 0
        self._seen = 0  # characters of it that were looked at
        self._opens_line = True
        self._unspoken: list[tuple[int, str]] = []
        self._any = False

    def feed(self, text: str) -> list[Sentence]:
        """Take the next characters, and return the sentences that are over now."""
        self._pending += text
        found: list[Sentence] = []
        while match := _EVENT.search(self._pending, self._seen):
            self._seen = match.end()
            if match[0] in _BREAKS:
                found += self._end_line(match.end())
            else:
                found += self._decide(match.start())
        # The last character may be the one before an event.
        self._seen = max(self._seen, len(self._pending))
        return found

    def close(self) -> list[Sentence]:
        """Return the sentences that are over because the answer is."""
        found = self._end_line(len(self._pending))
        if not self._any:
            # A marker is all there is to say ("7." as an answer).
            for start, text in self._unspoken:
                line = Line(0, len(text), 0, "plain")
                found += [_moved(item, start) for item in line_sentences(text, line)]
        return found

    def _decide(self, end: int) -> list[Sentence]:
        """Return the sentences that end before the last word of what is pending."""
        found = self._split(end)
        if len(found) < 2:
            return []
        return self._given(found[:-1], found[-1].start)

    def _end_line(self, end: int) -> list[Sentence]:
        found = self._split(end)
        if not found and self._opens_line and not self._any:
            text = self._pending[:end]
            if _SPEAKS.search(text):
                self._unspoken.append((self._start, text.rstrip()))
        given = self._given(found, end)
        self._opens_line = True
        return given

    def _split(self, end: int) -> list[Sentence]:
        """Return the sentences of what is pending, by their places in it."""
        text = self._pending[:end]
        if not self._opens_line:
            first = len(text) - len(text.lstrip())
            return list(line_sentences(text, Line(first, len(text.rstrip()), 0, "plain")))
        (line, *_) = [*lines(text), None]
        if line is None or (line.start == 0 and not _SPEAKS.search(text)):
            return []
        return list(line_sentences(text, line))

    def _given(self, found: list[Sentence], end: int) -> list[Sentence]:
        """Return sentences by their places in the answer, and forget what lies before ``end``."""
        given = [_moved(item, self._start) for item in found]
        self._pending, self._start = self._pending[end:], self._start + end
        self._seen = max(0, self._seen - end)
        self._opens_line = False
        self._any = self._any or bool(given)
        return given


def answer_sentences(text: str) -> list[Sentence]:
    r"""Return the sentences of an answer in order, as a `SentenceStream` gives them.

    >>> [s.text for s in answer_sentences("Two reasons:\n1. It rained. 2 mm fell.\n2. It blew.")]
    ['Two reasons:', 'It rained.', '2 mm fell.', 'It blew.']
    """
    stream = SentenceStream()
    return [*stream.feed(text), *stream.close()]


def _moved(sentence: Sentence, by: int) -> Sentence:
    return Sentence(sentence.text, sentence.start + by, sentence.end + by)
