"""Sentence splitter, whole and incremental.

`SentenceStream` takes an answer in pieces. Where a sentence ends is decided as soon as the word
after it is whole, by characters alone: however the text is cut into pieces, the same sentences
come out, each at the same character. `answer_sentences` is that stream fed at once, so what is
calibrated, checked and streamed has the same sentences.

They are those of `sentences`, except that what is looked at is bounded: nupunkt sees two words and
a few characters before them, and a sentence that does not end is cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from calibrail.text.words import by_edition, lazily_compiled, patterns, remembered, rules_version

if TYPE_CHECKING:
    from nupunkt import PunktSentenceTokenizer


_WORDING: Final = patterns("sentences")
_ITEM = lazily_compiled(_WORDING["item"])
_HEADING = lazily_compiled(r"#{1,6}(?=\s|$)\s*")
#: A full stop that ends a sentence of a script other than Latin.
STOP: Final = lazily_compiled(_WORDING["stop"])
#: What may stand within and behind such a full stop without its end being certain.
STOPPING: Final = lazily_compiled(_WORDING["stopping"])
ASIDE: Final = lazily_compiled(_WORDING["aside"])
CITED: Final = lazily_compiled(_WORDING["cited"], re.IGNORECASE)
_FIRST_GOES_ON = lazily_compiled(_WORDING["quoted_on"])
_GOES_ON = lazily_compiled(_WORDING["goes_on"])
# And after letters with points, in small letters: "The Leeds R.L.F.C. home stadium".
_INITIALS = lazily_compiled(r"(?:[^\W\d_]\.){2,}\s{1,3}$")

_ABBREVIATED = lazily_compiled(_WORDING["abbreviated"])
_WORD_END = lazily_compiled(_WORDING["word_end"])

# nupunkt looks at the whole run of letters around each stop, again for each stop: quadratic time on
# a run without spaces. The inside of a long one (a link, a table, code) is hidden from it.
_LONG_RUN = lazily_compiled(r"\S{200,}")
_SEEN = 50

# Without one of these nupunkt sees no end: most lines of a list or a table need not go there.
_ENDS = lazily_compiled("[.!?\u2026]")
_LETTER_OR_DIGIT = lazily_compiled(r"[^\W_]")


class Sentence(NamedTuple):
    """A sentence with its place.

    Attributes
    ----------
    text : str
        The characters ``[start:end]`` of the original string, unchanged.
    start, end : int
        Character offsets into the original string, end exclusive.
    """

    text: str
    start: int
    end: int


class TextLine(NamedTuple):
    """A line that holds a letter or digit, without its list marker and outer white space.

    Attributes
    ----------
    start, end : int
        Character offsets of what remains, end exclusive.
    indent : int
        Number of white space characters before the line or its marker.
    kind : str
        "item" after a bullet or a number, "heading" after ``#``, "plain" otherwise.
    """

    start: int
    end: int
    indent: int
    kind: str


@remembered(None)
def sentences_version() -> str:
    """Return what pins the result of `sentences`: its own version and that of nupunkt."""
    return f"{rules_version('sentences')} nupunkt/{version('nupunkt')}"


def sentences(text: str) -> list[Sentence]:
    r"""Return the sentences of a string in order.

    A sentence never crosses a line break. Bullets and numbers that open a line belong to none, and
    what holds neither a letter nor a digit of any script is none. Within a line nupunkt decides
    (Punkt with a trained model: abbreviations, initials, decimals, quotes), and the full stops of
    other scripts end a sentence too.

    Notes
    -----
    Scripts without any full stop (Thai, Lao) give one sentence a line.

    >>> [s.text for s in sentences("Dr. Wu left at 5 p.m. on foot. It rained:\n1. hard\n2. long")]
    ['Dr. Wu left at 5 p.m. on foot.', 'It rained:', 'hard', 'long']
    """
    return [sentence for line in lines(text) for sentence in line_sentences(text, line)]


def lines(text: str) -> list[TextLine]:
    """Return the lines of a string that hold a letter or digit beside a list marker.

    Where no line does, a marker is all there is to say ("7." as an answer), and stays.
    """
    return list(_lines(text, marked=True)) or list(_lines(text, marked=False))


def marker(text: str, start: int, end: int) -> tuple[int, str]:
    """Return where the text of a line begins behind its list marker or ``#``, and its kind.

    Parameters
    ----------
    text : str
        The string.
    start, end : int
        The line without outer white space.
    """
    heading = _HEADING.match(text, start, end)
    mark = heading or _ITEM.match(text, start, end)
    if mark is None or mark.end() == start:
        return start, "plain"
    return mark.end(), "heading" if heading else "item"


def line_sentences(text: str, line: TextLine) -> Iterator[Sentence]:
    """Yield the sentences of one of the `lines` of a string, with offsets into that string."""
    starts = [*_starts(text[line.start : line.end]), line.end - line.start]
    begin = end = line.start
    for left, right in pairwise(starts):
        first, last = _trimmed(text, line.start + left, line.start + right)
        if not speaks(text, first, last):
            continue
        if begin == end:
            begin = first
        elif not ASIDE.fullmatch(text, first, last):
            cited = CITED.match(text, first, last)
            if cited and not speaks(text, cited.end(), last):
                end = last
                continue
            if cited:
                end, first = first + len(cited[0].rstrip()), cited.end()
            yield Sentence(text[begin:end], begin, end)
            begin = first
        end = last
    if begin < end:
        yield Sentence(text[begin:end], begin, end)


def _lines(text: str, *, marked: bool) -> Iterator[TextLine]:
    offset = 0
    for whole in text.splitlines(keepends=True):
        first, end = _trimmed(text, offset, offset + len(whole))
        indent = first - offset
        offset += len(whole)
        start, kind = first, "plain"
        if marked and first < end:
            start, kind = marker(text, first, end)
        if speaks(text, start, end):
            yield TextLine(start, end, indent, kind)


def _starts(line: str) -> Iterator[int]:
    """Yield where the pieces of a line start, the first at 0."""
    borders = [0, len(line)]
    if not line.isascii():
        borders[1:1] = [match.end() for match in STOP.finditer(line) if match.end() < len(line)]
    for start, end in pairwise(borders):
        yield from (start + left for left in starts(line[start:end]))


def starts(piece: str) -> list[int]:
    """Return where sentences start in a part of a line without `STOP`, the first at 0."""
    if not _ENDS.search(piece):
        return [0]
    piece = _LONG_RUN.sub(_hidden, piece)
    spans = _tokenizer().span_tokenize(piece)
    found = {0, *(left for left, _ in spans if not _goes_on(piece, left))}
    for match in _WORD_END.finditer(piece):
        if not _ABBREVIATED.fullmatch(match[1]):
            found.add(match.end())
    return sorted(found)


def _goes_on(piece: str, at: int) -> bool:
    if by_edition(_FIRST_GOES_ON, _GOES_ON).match(piece, at):
        return True
    return piece[at].islower() and _INITIALS.search(piece, max(0, at - 20), at) is not None


def _hidden(run: re.Match[str]) -> str:
    return run[0][:_SEEN] + "x" * (len(run[0]) - 2 * _SEEN) + run[0][-_SEEN:]


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    end = start + len(piece.rstrip())
    return end - len(text[start:end].lstrip()), end


def speaks(text: str, start: int, end: int) -> bool:
    """Return whether a part of a string holds a letter or a digit of any script."""
    return _LETTER_OR_DIGIT.search(text, start, end) is not None


@cache
def _tokenizer() -> PunktSentenceTokenizer:
    # Not nupunkt's shared one, to which any other code may add abbreviations.
    from nupunkt.models import load_default_model

    tokenizer = load_default_model()
    # "Yahoo! in 1995" is one sentence.
    tokenizer.EXCL_QUEST_LOWERCASE_CONTINUES = True
    tokenizer.add_abbreviations(["subsp", "ssp"])
    return tokenizer


#: Characters from where on the next word begins a sentence, whatever stands before it.
LONGEST: Final = 2_000

#: Characters of a line that are looked at for a list marker.
_MARKED: Final = 200
#: Characters that are looked at before a word whose end is decided about, and between two words.
_BEFORE, _GAP = 24, 8
#: Characters behind a full stop that are looked at for a source in brackets.
_NAMED: Final = 200

#: A bracket that may still turn out to hold a source.
_OPENED: Final = lazily_compiled(r"[(\[][^()\[\].!?]{0,60}")


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
        if speaks(word, 0, len(word)) and not _ENDS.search(word):
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
        if len(text) > _NAMED or not (_OPENED.fullmatch(text) or _is_source(text)):
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
                if _is_source(text):
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


def _is_source(text: str) -> bool:
    """Return whether a text is all of a source in brackets, which belongs to what is before it."""
    cited = CITED.match(text)
    aside = ASIDE.fullmatch(text) is not None
    return aside or (cited is not None and not speaks(text, cited.end(), len(text)))


#: Characters after which a run without white space is taken for a word of its own.
WORD: Final = 1_000

#: Characters up to which the sentences of an answer are remembered.
_REMEMBERED: Final = 10_000

_BREAKS: Final = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_TOKEN: Final = lazily_compiled(rf"[{_BREAKS}]|[^\S{_BREAKS}]+|\S+")


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
_cut_once = remembered(1_000)(_cut)


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
        # Where nothing was spoken a marker is all there is to say.
        return last if self._unspoken is None else sentences("".join(self._unspoken))

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
