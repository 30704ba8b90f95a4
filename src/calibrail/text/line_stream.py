"""Which sentences do the words of an answer's lines make, word by word?"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from calibrail.text.sentences import ASIDE, CITED, Sentence, marker, speaks, starts

#: Characters from where on the next word begins a sentence, whatever stands before it.
LONGEST: Final = 2_000

#: Characters of a line that are looked at for a list marker.
_MARKED: Final = 200
#: Characters that are looked at before a word whose end is decided about, and between two words.
_BEFORE, _GAP = 24, 8
#: Characters behind a full stop that are looked at for a source in brackets.
_NAMED: Final = 200

_END: Final = re.compile("[.!?\u2026]")
#: A bracket that may still turn out to hold a source.
_OPENED: Final = re.compile(r"[(\[][^()\[\].!?]{0,60}")


class LineStream:
    """Takes words, white space and ends of lines in turn, and holds the sentences that ended.

    Attributes
    ----------
    spoken : bool
        Whether there was a letter or a digit beside list markers.
    """

    def __init__(self) -> None:
        self.spoken = False
        self._ended: list[Sentence] = []
        #: What is still needed of the text, where it starts, and the white space behind it.
        self._text, self._from = "", 0
        self._spaces: list[str] = []
        #: Words that may be a list marker; None once that is known.
        self._first: list[tuple[int, str]] | None = []
        #: The latest sentence, as a source in brackets may follow that belongs to it.
        self._held: tuple[int, int] | None = None
        self._begin_part()

    def _begin_part(self) -> None:
        """Begin what nupunkt sees by itself."""
        #: The latest word, of which it is not known yet whether a sentence ends with it.
        self._word: tuple[int, str] | None = None
        self._before = ""
        #: The sentence that is under way, without that word.
        self._start: int | None = None
        self._last, self._speaks = 0, False

    def taken(self) -> list[Sentence]:
        """Return the sentences that have ended since this was asked last."""
        ended, self._ended = self._ended, []
        return ended

    def begin(self, character: str) -> None:
        """Take the first character of a word, which may be all that was waited for."""
        if self._held and self._word is None and self._start is None and not _opens(character):
            self._emit()

    def space(self, text: str) -> None:
        """Take white space without an end of a line."""
        self._spaces.append(text)

    def word(self, start: int, text: str) -> None:
        """Take a whole word with its place."""
        if self._text:
            self._text += "".join(self._spaces) + text
        else:
            self._text, self._from = text, start
        self._spaces.clear()
        if self._first is None:
            self._follow(start, text)
            return
        self._first.append((start, text))
        end = self._marker(self._text)
        behind = sum(at + len(word) > end for at, word in self._first)
        if behind > 1 or len(self._text) >= _MARKED:
            self._decide(end)

    def decided(self, start: int, text: str) -> int:
        """Return where the next word begins, of which so much is there, without a list marker."""
        if self._first is not None:
            if not self._text:
                self._from = start
                self._spaces.clear()
            self._decide(self._marker("".join((self._text, *self._spaces, text))))
            if start < self._from:
                return self._from
        return start

    def stop(self) -> None:
        """End a part of the line after the latest word, where a full stop shows it."""
        if self._first is not None:
            end = self._marker(self._text)
            if end >= self._from + len(self._text):
                return
            self._decide(end)
        self._end_part()

    def end(self) -> None:
        """End the line."""
        if self._first:
            self._decide(self._marker(self._text))
        self._end_part()
        if self._held:
            self._emit()
        self._text, self._first = "", []
        self._spaces.clear()

    def _marker(self, line: str) -> int:
        return self._from + marker(line, 0, min(len(line), _MARKED))[0]

    def _decide(self, end: int) -> None:
        """Take the words of the line again, those behind its list marker alone."""
        words, self._first = self._first or [], None
        if end >= self._from + len(self._text):
            self._text, self._from = "", end
            self._spaces.clear()
        for start, word in words:
            if (cut := max(0, end - start)) < len(word):
                self._follow(start + cut, word[cut:])

    def _follow(self, start: int, text: str) -> None:
        """Decide whether sentences end in the latest word or with it, now that the next is here."""
        if self._word is None:
            self._start = start
        else:
            at, word = self._word
            space = self._slice(at + len(word), start)[:_GAP]
            found = self._starts(word, space + text)
            self._absorb(at, word, found)
            longest = self._start is not None and start + len(text) - self._start > LONGEST
            if longest or len(word) + len(space) in found:
                self._begin(start, text[0])
            elif self._held:
                self._settle(start + 1)
            self._before = (self._before + word + space)[-_BEFORE:]
        self._word = start, text

    def _end_part(self) -> None:
        if self._word is not None:
            at, word = self._word
            self._absorb(at, word, self._starts(word, ""))
        self._complete()
        if self._held is None:
            self._emit()
        self._begin_part()

    def _starts(self, word: str, behind: str) -> set[int]:
        """Return where sentences start behind a word's first character, counted from there."""
        if speaks(word, 0, len(word)) and not _END.search(word):
            return set()
        n = len(self._before)
        return {at - n for at in starts(self._before + word + behind) if at > n}

    def _absorb(self, at: int, word: str, found: set[int]) -> None:
        """Add a word to the sentence under way; some may start within it."""
        within = sorted(place for place in found if place < len(word))
        for left, right in pairwise((0, *within, len(word))):
            if left:
                self._begin(at + left, word[left])
            self._last = at + right
            if speaks(word, left, right):
                self._speaks = self.spoken = True
            if self._held:
                self._settle(self._last)

    def _begin(self, at: int, character: str) -> None:
        """Begin a sentence; the one before has ended where no source can follow."""
        self._complete()
        self._start = at
        if not _opens(character):
            self._emit()

    def _settle(self, end: int) -> None:
        """End the sentence before as soon as it is certain whether a source follows it."""
        assert self._start is not None
        text = self._slice(self._start, end)
        cited = CITED.match(text)
        open_still = (
            _OPENED.fullmatch(text)
            or ASIDE.fullmatch(text)
            or (cited and not speaks(text, cited.end(), len(text)))
        )
        if len(text) > _NAMED or not open_still:
            self._part(text)

    def _part(self, text: str) -> None:
        """End the sentence before, with the source at the start of the one under way."""
        assert self._held is not None and self._start is not None
        if (cited := CITED.match(text)) and speaks(text, cited.end(), len(text)):
            self._held = self._held[0], self._start + len(cited[0].rstrip())
            self._start += cited.end()
        self._emit()

    def _complete(self) -> None:
        """Hold the sentence under way, or add it to the one held where it is its source."""
        if self._start is not None and self._speaks:
            text = self._slice(self._start, self._last)
            if self._held is not None:
                cited = CITED.match(text)
                if ASIDE.fullmatch(text) or (cited and not speaks(text, cited.end(), len(text))):
                    self._held = self._held[0], self._last
                else:
                    self._part(text)
            if self._held is None:
                self._held = self._start, self._last
        self._start, self._speaks = None, False

    def _emit(self) -> None:
        """Let the sentence that is held end, if there is one."""
        end = self._last
        if self._held is not None:
            end = self._held[1]
            self._ended.append(Sentence(self._slice(*self._held), *self._held))
            self._held = None
        end = max(self._from, end if self._start is None else self._start)
        # What stands before is not needed any more.
        self._text, self._from = self._text[end - self._from :], end

    def _slice(self, start: int, end: int) -> str:
        return self._text[start - self._from : end - self._from]


def _opens(character: str) -> bool:
    return character in "(["
