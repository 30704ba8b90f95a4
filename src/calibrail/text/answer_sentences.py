"""Which sentences does an answer hold, decided while it is being written?

`SentenceStream` takes an answer in pieces. Where a sentence ends is decided as soon as the word
after it is whole, by characters alone: however the text is cut into pieces, the same sentences
come out, each at the same character. `answer_sentences` is that stream fed at once, so what is
calibrated, checked and streamed has the same sentences.

They are those of `sentences`, except that what is looked at is bounded: nupunkt sees two words and
a few characters before them, and a sentence that does not end is cut.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from calibrail.text.line_stream import LineStream
from calibrail.text.sentences import (
    STOP,
    STOPPING,
    Sentence,
    line_sentences,
    lines,
    sentences_version,
)

#: Characters after which a run without white space is taken for a word of its own.
WORD: Final = 1_000

#: Characters up to which the sentences of an answer are remembered.
_REMEMBERED: Final = 10_000

_BREAKS: Final = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_TOKEN: Final = re.compile(rf"[{_BREAKS}]|[^\S{_BREAKS}]+|\S+")


def answer_sentences_version() -> str:
    """Return what pins the result of `answer_sentences`."""
    return f"calibrail-answer-sentences/1 {sentences_version()}"


def answer_sentences(text: str) -> list[Sentence]:
    """Return the sentences of an answer in order.

    >>> [s.text for s in answer_sentences("Dr. Wu left at 5 p.m. on foot. (Passage 1) It rained.")]
    ['Dr. Wu left at 5 p.m. on foot. (Passage 1)', 'It rained.']
    """
    return [*(_cut_once(text) if len(text) <= _REMEMBERED else _cut(text))]


def _cut(text: str) -> tuple[Sentence, ...]:
    stream = SentenceStream()
    return (*stream.feed(text), *stream.close())


#: An answer is asked about by its labels, its scores and its report, in one pass and the next.
_cut_once = lru_cache(maxsize=1_000)(_cut)


class SentenceStream:
    """An answer that comes in pieces, and its sentences, each as soon as its end is certain.

    A sentence ends for certain with its line, with the end of the word after it, or with the
    answer; where that word opens a bracket, once it shows whether a source stands in it. Time
    grows with the text, memory with the longest sentence.

    >>> stream = SentenceStream()
    >>> [[item.text for item in stream.feed(token)] for token in ("It ra", "ined. The", " s")]
    [[], [], ['It rained.']]
    >>> [sentence.text for sentence in stream.close()]
    ['The s']
    """

    def __init__(self) -> None:
        self._line = LineStream()
        self._at = 0
        self._word = ""
        #: Where in the word a full stop is looked for, and whether one ends the word, so that the
        #: next character decides.
        self._from, self._waits = 0, False
        #: The whole text, as long as no line says anything beside a list marker.
        self._unspoken: list[str] | None = []
        self._closed = False

    def feed(self, text: str) -> list[Sentence]:
        """Take the next piece; return the sentences that end for certain now.

        Raises
        ------
        ValueError
            If the answer has ended.
        """
        if self._closed:
            raise ValueError("the answer has ended; a new one needs a new SentenceStream")
        if self._unspoken is not None:
            self._unspoken.append(text)
        for token in _TOKEN.findall(text):
            if not token[0].isspace():
                self._grow(token)
                continue
            self._end_word()
            self._at += len(token)
            if token in _BREAKS:
                self._line.end()
            else:
                self._line.space(token)
        return self._ended()

    def close(self) -> list[Sentence]:
        """End the answer; return the sentences that are left."""
        if self._closed:
            return []
        self._closed = True
        self._end_word()
        self._line.end()
        last = self._ended()
        if self._unspoken is not None:
            # A marker is all there is to say.
            text = "".join(self._unspoken)
            return [found for line in lines(text) for found in line_sentences(text, line)]
        return last

    def _ended(self) -> list[Sentence]:
        if self._line.spoken:
            self._unspoken = None
        return self._line.taken()

    def _grow(self, part: str) -> None:
        """Take characters of a word."""
        at = 0
        while at < len(part):
            # A word is cut at the same characters, however it comes.
            piece = part[at : at + max(1, WORD - len(self._word))]
            at += len(piece)
            if not self._word:
                self._line.begin(piece[0])
            goes_on = self._waits and STOPPING.fullmatch(self._word[-1] + piece)
            self._word += piece
            self._at += len(piece)
            if not goes_on and (self._waits or not piece.isascii()):
                self._cut()
            if len(self._word) >= (2 if self._waits else 1) * WORD:
                self._end_word()

    def _cut(self) -> None:
        """End a part of the line after each full stop of the word that certainly ends one."""
        while match := STOP.search(self._word, self._from):
            self._from = match.start()
            self._waits = match.end() == len(self._word)
            if self._waits:
                return
            start = self._at - len(self._word)
            first = self._line.decided(start, self._word[: match.end() + 1]) - start
            if first <= match.start():
                self._line.word(start + first, self._word[first : match.end()])
                self._line.stop()
                first = match.end()
            self._word, self._from = self._word[first:], 0
            if self._word:
                self._line.begin(self._word[0])
        self._waits, self._from = False, len(self._word)

    def _end_word(self) -> None:
        if self._word:
            self._line.word(self._at - len(self._word), self._word)
            if self._waits:
                self._line.stop()
        self._word, self._from, self._waits = "", 0, False
