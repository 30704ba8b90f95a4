"""Which words does a string hold, and where; which carry content, and which are names?"""

import re
import unicodedata
from typing import Final, NamedTuple

#: Enter the fingerprint of every score that looks for words or names; raised when those change.
WORDS_VERSION: Final = "calibrail-words/1"
NAMES_VERSION: Final = "calibrail-names/1"

_ENGLISH: Final = """
    a about above after again against all also although always am among an and any are aren't
    around as at be became because become been before being below between both but by can
    can't cannot could couldn't did didn't do does doesn't doing don't down during each either
    else etc ever every few for from further had hadn't has hasn't have haven't having he he'd
    he'll he's her here here's hers herself him himself his how however i i'd i'll i'm i've if
    in into is isn't it it's its itself just let's like may me might more most much must my
    myself neither no nor not now of off often on once one's only or other others our ours
    ourselves out over own per perhaps quite rather same shall she she'd she'll she's should
    shouldn't since so some such than that that's the their theirs them themselves then there
    there's therefore these they they'd they'll they're they've this those though through thus
    to too toward towards under until up upon us very was wasn't we we'd we'll we're we've
    were weren't what what's when where where's whether which while who who's whom whose why
    will with within without won't would wouldn't yet you you'd you'll you're you've your
    yours yourself yourselves
"""

#: Function words of English: they say little about whether an answer is supported.
STOP_WORDS: Final = frozenset(_ENGLISH.split())

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
# Behind these a word is capitalised whether or not it is a name.
_SENTENCE_END = frozenset('.!?:\n"\u201c\u2022')


class Piece(NamedTuple):
    """A word, a name or a number with its place.

    Attributes
    ----------
    text : str
        Its normal form, by which it is compared.
    start, end : int
        Character offsets into the original string, end exclusive.
    """

    text: str
    start: int
    end: int


def words(text: str) -> list[Piece]:
    """Return the words of a string in order: casefolded, in composed form, apostrophes straight.

    Where a script is written without spaces, each letter with its marks is a word of its own: an
    approximation that keeps every score defined there, coarser than for other scripts.

    >>> [word.text for word in words("It's 3.5 km\u2014about 1,234 Schritte.")]
    ["it's", '3.5', 'km', 'about', '1,234', 'schritte']
    """
    seen = text if text.isascii() else _without_marks(text)
    spans = (match.span() for match in _WORD.finditer(seen))
    return [Piece(_normal(text[start:end]), start, end) for start, end in spans]


def content_words(text: str) -> list[Piece]:
    """Return the words that are not stop words; a possessive ``'s`` is cut off.

    >>> [word.text for word in content_words("The river's source is in the Alps.")]
    ['river', 'source', 'alps']
    """
    bare = (
        Piece(word.text.removesuffix("'s"), word.start, word.end)
        for word in words(text)
        if word.text not in STOP_WORDS
    )
    return [word for word in bare if word.text and word.text not in STOP_WORDS]


def names(text: str) -> list[Piece]:
    """Return the capitalised words of a string, casefolded, without ``'s``, in order.

    A capitalised word counts unless it is a function word. At the start of a sentence any word is
    capitalised, so there it counts only if it is followed by another capitalised word ("Marie Curie
    was born ...") or is written with a second capital ("NASA").

    >>> text = "The Rhine flows through Basel. Marie Curie was born there. Rivers move."
    >>> [name.text for name in names(text)]
    ['rhine', 'basel', 'marie', 'curie']
    >>> names("It is Basel's river.")
    [Piece(text='basel', start=6, end=11)]
    """
    all_words = words(text)
    capital = [*(text[word.start].isupper() for word in all_words), False]
    result = []
    for index, word in enumerate(all_words):
        bare = word.text.removesuffix("'s")
        if not capital[index] or bare in STOP_WORDS or len(bare) < 2:
            continue
        named = capital[index + 1] or any(map(str.isupper, text[word.start + 1 : word.end]))
        if named or not _starts_sentence(text, word.start):
            # An apostrophe and an s are one character each in any spelling compared as "'s".
            end = word.end if len(bare) == len(word.text) else word.end - 2
            result.append(Piece(bare, word.start, end))
    return result


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


def _starts_sentence(text: str, start: int) -> bool:
    before = text[max(0, start - 200) : start].rstrip(" \t\r(*-")
    return not before or before[-1] in _SENTENCE_END
