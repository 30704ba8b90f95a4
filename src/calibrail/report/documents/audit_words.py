"""How are features, thirds and verdicts called when an audit speaks?"""

from typing import Final

_FEATURES: Final = {
    "length": "response length",
    "novelty": "the share of new words",
    "novel_count": "the number of new words",
    "question_words": "repeating the question's words",
    "question_length": "question length",
    "context_length": "context length",
    "theta_qc": "the question-context angle",
}

#: The components of the index.
COMPONENTS: Final = {
    "theta_rq": "the angle between response and question",
    "theta_rc": "the angle between response and context",
    "ratio": "their ratio",
}

#: What a feature does to a detector's result, by its verdict.
EXPLAINS: Final = {
    "explains": "explains",
    "explains most": "explains most of",
    "explains part": "explains part of",
    "does not explain": "does not explain",
}


def called(feature: str) -> str:
    """Return how a feature is called in sentences.

    >>> called("length"), called("domain")
    ('response length', 'the column domain')
    """
    return _FEATURES.get(feature, f"the column {feature}")


def third(feature: str, name: str) -> str:
    """Return how a third of a feature is called.

    >>> third("length", "low"), third("theta_qc", "low")
    ('short', 'low')
    """
    if feature not in ("length", "question_length", "context_length"):
        return name
    return {"low": "short", "high": "long"}.get(name, name)
