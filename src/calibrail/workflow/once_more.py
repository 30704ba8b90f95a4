"""What do a few of the scored answers say, read and scored once more?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import numpy as np

from calibrail.data.example import Example
from calibrail.data.sources import Source
from calibrail.models.call_limits import BudgetError
from calibrail.scores.base import Score
from calibrail.settings import ReadOptions
from calibrail.settings.checks import optional
from calibrail.workflow.scored import Scored
from calibrail.workflow.sources import open_source

SPENT: Final = (
    "The answers came from an iterator, which can be read only once, so that their texts are gone; "
    "give calibrate a list or a file to see them here."
)
NO_TEXT: Final = "This data holds scores alone, so there is no text to show."
CHANGED: Final = "The source no longer holds this answer as it was scored."
NOT_SENT: Final = (
    "What the score rests on is not shown: it would take another request, and a report sends none."
)
DIFFERS: Final = "What the score rests on is not shown: scored again, the answer got another value."


def read_again(
    source: Source, scored: Scored, rows: Sequence[int], reading: ReadOptions | None
) -> tuple[dict[int, Example], str]:
    """Return the examples at these rows, or why there are none."""
    if isinstance(source, Iterator):
        return {}, SPENT
    if not rows:
        return {}, ""
    if scored.sketches is None:
        return {}, NO_TEXT
    # What is unusable was set aside when the scores were computed.
    quiet = replace(optional(reading, ReadOptions, "reading"), quarantine=None)
    examples = {}
    try:
        # Opened exactly as for scoring, so that rows are the same.
        kept, apart = tuple(scored.table.kept), scored.sentences is not None
        again = open_source(source, quiet, scored.detectors, keep=kept, by_sentence=apart)
        for row, example in enumerate(islice(again, max(rows) + 1)):
            # A source that has changed since must not lend its texts to other scores.
            if row in rows and int(example.digest(), 16) == int(scored.table.digests[row]):
                examples[row] = example
    except Exception as error:
        # The thresholds stand; what is missing is said where the texts would be.
        return {}, f"The source could not be read a second time: {error}"
    texts = [item.question or item.response or item.contexts for item in examples.values()]
    if texts and not any(texts):
        return {}, NO_TEXT
    return examples, ""


def evidence_of(
    detector: Score, example: Example, value: float
) -> tuple[Mapping[str, Any] | None, str]:
    """Return what the detector says about an answer, if it says it with the same value."""
    if np.isnan(value):
        return None, "The score is undefined for this answer."
    try:
        result = detector.score([example])
    except BudgetError:
        return None, NOT_SENT
    except Exception as error:
        return None, (
            "What the score rests on is not shown: scoring the answer again failed "
            f"({type(error).__name__}: {error})"
        )
    again = float(result.values[0])
    if not abs(again - value) <= detector.tolerance:
        return None, DIFFERS
    return (result.evidence[0] or None if result.evidence else None), ""
