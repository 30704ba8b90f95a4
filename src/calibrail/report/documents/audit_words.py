"""How are features, thirds and measures called when an audit speaks?"""

from collections.abc import Mapping
from typing import Any, Final

from calibrail.report.phrases import bounds, estimate

#: How features are called in sentences.
FEATURES: Final = {
    "length": "response length",
    "novelty": "the share of new words",
    "novel_count": "the number of new words",
    "question_words": "repeating the question's words",
    "question_length": "question length",
    "context_length": "context length",
    "theta_qc": "the question-context angle",
}

#: Features whose thirds are lengths.
_LENGTHS: Final = ("length", "question_length", "context_length")
_THIRDS: Final = {"low": "short", "medium": "medium", "high": "long"}

#: The components of the index.
COMPONENTS: Final = {
    "theta_rq": "the angle between response and question",
    "theta_rc": "the angle between response and context",
    "ratio": "their ratio",
}


def called(feature: str) -> str:
    """Return how a feature is called in sentences.

    >>> called("length"), called("domain")
    ('response length', 'the column domain')
    """
    return FEATURES.get(feature, f"the column {feature}")


def third(feature: str, name: str) -> str:
    """Return how a third of a feature is called.

    >>> third("length", "low"), third("theta_qc", "low")
    ('short', 'low')
    """
    return _THIRDS.get(name, name) if feature in _LENGTHS else name


def spanned(value: Mapping[str, Any], digits: int = 3) -> str:
    """Return an estimate with its interval.

    >>> spanned({"estimate": 0.5, "lower": 0.4, "upper": 0.6})
    '0.500 (0.400 to 0.600)'
    """
    span = bounds(value, digits)
    return f"{estimate(value, digits)} ({span})" if span else estimate(value, digits)


def capital(text: str) -> str:
    """Return a text that begins a sentence."""
    return text[:1].upper() + text[1:]
