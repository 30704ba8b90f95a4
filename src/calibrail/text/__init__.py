"""What does a string hold: words, numbers, names. Pure functions, no model, no state."""

from calibrail.text.lcs import lcs_length
from calibrail.text.names import names
from calibrail.text.numbers import numbers
from calibrail.text.stop_words import STOP_WORDS
from calibrail.text.words import WORDS_VERSION, Word, content_words, words

__all__ = [
    "STOP_WORDS",
    "WORDS_VERSION",
    "Word",
    "content_words",
    "lcs_length",
    "names",
    "numbers",
    "words",
]
