"""Which inputs leave a score undefined, and in which words is that said?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from calibrail.data.example import Example
from calibrail.scores.base import JSON, Scores

#: A value, alone or with its evidence.
Valued: TypeAlias = float | tuple[float, Mapping[str, JSON]]

EMPTY_RESPONSE = "the response is empty"
NO_CONTEXT = "there is no context"
EMPTY_QUESTION = "the question is empty"
NO_SAMPLES = "there are no further answers sampled to compare with (samples)"


def missing(example: Example, requires: Sequence[str]) -> str | None:
    """Return why an example lacks what a score reads, None where nothing is missing.

    >>> missing(Example(response="yes"), ("contexts", "response"))
    'there is no context'
    """
    if "response" in requires and not example.response.strip():
        return EMPTY_RESPONSE
    if "contexts" in requires and not any(chunk.strip() for chunk in example.contexts):
        return NO_CONTEXT
    if "question" in requires and not example.question.strip():
        return EMPTY_QUESTION
    if "samples" in requires and not any(sample.strip() for sample in example.samples):
        return NO_SAMPLES
    return None


def each(
    examples: Sequence[Example],
    requires: Sequence[str],
    value: Callable[[Example], Valued | str],
) -> Scores:
    """Score one by one; ``value`` returns what it found, or a string that says why there is none.

    What it finds is a number, or a number with its evidence.
    """
    values = np.full(len(examples), np.nan)
    reasons: dict[int, str] = {}
    evidence: dict[int, Mapping[str, JSON]] = {}
    for index, example in enumerate(examples):
        result = missing(example, requires) or value(example)
        if isinstance(result, str):
            reasons[index] = result
        elif isinstance(result, tuple):
            values[index], evidence[index] = result
        else:
            values[index] = result
    shown = tuple(evidence.get(index, {}) for index in range(len(examples)))
    return Scores(values, reasons, shown if evidence else None)
