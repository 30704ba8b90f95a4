"""Which words does a string hold, and where?"""

import re
import unicodedata
from typing import Final, NamedTuple

from calibrail.text.stop_words import STOP_WORDS

#: Enters the fingerprint of every score that splits words; raised when the result changes.
WORDS_VERSION: Final = "calibrail-words/1"

# A word is a run of letters and digits, with apostrophes between letters and points and commas
# between digits ("3.5", "1,234") kept together. Scripts that are written without spaces (Chinese,
# Japanese, Thai, Lao, Khmer, Burmese) have no word borders to see: there each letter counts as a
# word. Marks (accents, vowel signs) belong to the letter before them; before matching each is
# replaced by one placeholder, since `re` has no class for them.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff"
)
_MARK: Final = "\ue000"
_LETTER = rf"(?:(?![{_UNSPACED}_])\w{_MARK}*)"
_WORD = re.compile(
    rf"\d+(?:[.,]\d+)+|(?=\w)[{_UNSPACED}]{_MARK}*|{_LETTER}+(?:['\u2019]{_LETTER}+)*"
)


class Word(NamedTuple):
    """A word with its place.

    Attributes
    ----------
    text : str
        Casefolded, in composed form (NFC), with straight apostrophes.
    start, end : int
        Character offsets into the original string, end exclusive.
    """

    text: str
    start: int
    end: int


def words(text: str) -> list[Word]:
    """Return the words of a string in order.

    Where a script is written without spaces, each letter with its marks is a word of its own: an
    approximation that keeps every score defined there, coarser than for other scripts.

    >>> [word.text for word in words("It's 3.5 km\u2014about 1,234 Schritte.")]
    ["it's", '3.5', 'km', 'about', '1,234', 'schritte']
    """
    seen = text if text.isascii() else _without_marks(text)
    return [
        Word(_normal(text[match.start() : match.end()]), match.start(), match.end())
        for match in _WORD.finditer(seen)
    ]


def content_words(text: str) -> list[Word]:
    """Return the words that are not stop words; a possessive ``'s`` is cut off.

    >>> [word.text for word in content_words("The river's source is in the Alps.")]
    ['river', 'source', 'alps']
    """
    kept = []
    for word in words(text):
        if word.text in STOP_WORDS:
            continue
        bare = word.text.removesuffix("'s")
        if bare and bare not in STOP_WORDS:
            kept.append(Word(bare, word.start, word.end))
    return kept


def _without_marks(text: str) -> str:
    """Return a string of the same length with every mark replaced by the placeholder."""
    marks = {
        ord(letter): _MARK
        for letter in set(text)
        if unicodedata.category(letter).startswith("M") or letter == "\u200d"
    }
    return text.translate(marks) if marks else text


def _normal(word: str) -> str:
    """Return a word as it is compared: casefolded, composed, with straight apostrophes."""
    if word.isascii():
        return word.lower()
    return unicodedata.normalize("NFC", word.casefold()).replace("\u2019", "'")
