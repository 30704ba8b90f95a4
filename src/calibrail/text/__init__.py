"""What does a string hold: sentences, claims, words, numbers, names. Pure functions, no state."""

from calibrail.text.claims import Claim, claims, claims_version
from calibrail.text.lcs import lcs_length
from calibrail.text.names import Name, name_spans, names
from calibrail.text.numbers import Number, number_spans, numbers
from calibrail.text.sentences import Sentence, sentences, sentences_version
from calibrail.text.stop_words import STOP_WORDS
from calibrail.text.words import WORDS_VERSION, Word, content_words, words

__all__ = [
    "STOP_WORDS",
    "WORDS_VERSION",
    "Claim",
    "Name",
    "Number",
    "Sentence",
    "Word",
    "claims",
    "claims_version",
    "content_words",
    "lcs_length",
    "name_spans",
    "names",
    "number_spans",
    "numbers",
    "sentences",
    "sentences_version",
    "words",
]
