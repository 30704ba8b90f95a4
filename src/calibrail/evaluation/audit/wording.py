"""How are features, thirds and measures called in an audit's sentences?"""

from __future__ import annotations

from typing import Final

from calibrail.evaluation.stats.measure import Measure

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

#: How thirds of a feature are called.
THIRDS: Final = {
    "length": ("short", "medium", "long"),
    "question_length": ("short", "medium", "long"),
    "context_length": ("short", "medium", "long"),
}

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


def three(value: Measure) -> str:
    """Return an estimate with three digits."""
    return "none" if value.estimate is None else f"{value.estimate:.3f}"


def spanned(value: Measure, digits: int = 3) -> str:
    """Return an estimate with its interval.

    >>> spanned(Measure(0.5, 0.4, 0.6, "made up"))
    '0.500 (0.400 to 0.600)'
    """
    if value.estimate is None:
        return "none"
    if value.lower is None or value.upper is None:
        return f"{value.estimate:.{digits}f}"
    return f"{value.estimate:.{digits}f} ({value.lower:.{digits}f} to {value.upper:.{digits}f})"


def third(feature: str, name: str) -> str:
    """Return how a third of a feature is called.

    >>> third("length", "low"), third("theta_qc", "low")
    ('short', 'low')
    """
    order = ("low", "medium", "high")
    if feature in THIRDS and name in order:
        return THIRDS[feature][order.index(name)]
    return name
