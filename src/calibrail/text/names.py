"""Which capitalised names does a string hold?"""

from typing import Final, NamedTuple

from calibrail.text.stop_words import STOP_WORDS
from calibrail.text.words import words

NAMES_VERSION: Final = "calibrail-names/1"

_SENTENCE_END = frozenset('.!?:\n"\u201c\u2022')


class Name(NamedTuple):
    """A capitalised word with its place.

    Attributes
    ----------
    text : str
        The word casefolded, without a possessive ``'s``, however it is written.
    start, end : int
        Character offsets into the original string, end exclusive; a possessive lies outside.
    """

    text: str
    start: int
    end: int


def names(text: str) -> list[Name]:
    """Return the capitalised words of a string, casefolded, in order.

    A capitalised word counts unless it is a function word. At the start of a sentence any word is
    capitalised, so there it counts only if it is followed by another capitalised word ("Marie Curie
    was born ...") or is written with a second capital ("NASA").

    >>> text = "The Rhine flows through Basel. Marie Curie was born there. Rivers move."
    >>> [name.text for name in names(text)]
    ['rhine', 'basel', 'marie', 'curie']
    >>> names("It is Basel's river.")
    [Name(text='basel', start=6, end=11)]
    """
    all_words = words(text)
    capital = [text[word.start].isupper() for word in all_words]
    result = []
    for index, word in enumerate(all_words):
        bare = word.text.removesuffix("'s")
        if not capital[index] or bare in STOP_WORDS or len(bare) < 2:
            continue
        if _starts_sentence(text, word.start):
            followed = index + 1 < len(all_words) and capital[index + 1]
            rest = text[word.start + 1 : word.end]
            if not followed and not any(letter.isupper() for letter in rest):
                continue
        # An apostrophe and an s are one character each in any spelling that is compared as "'s".
        end = word.end if len(bare) == len(word.text) else word.end - 2
        result.append(Name(bare, word.start, end))
    return result


def _starts_sentence(text: str, start: int) -> bool:
    before = text[max(0, start - 200) : start].rstrip(" \t\r(*-")
    return not before or before[-1] in _SENTENCE_END
