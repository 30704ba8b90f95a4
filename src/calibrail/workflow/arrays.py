"""How do scores and labels in arrays become a source like any other?"""

from typing import Any, Final

from calibrail.data.in_memory import ACCEPTED, columns_of
from calibrail.data.sources import Source
from calibrail.errors import InputError
from calibrail.scores.column import Higher
from calibrail.scores.registry import DEFAULT_SCORE, build_column
from calibrail.settings.short import ComparedShort, Limits

#: The column that holds the scores of a call with arrays.
SCORE_COLUMN: Final = "score"


#: Which column each array becomes; the scores' is another in every call.
_FIELDS: Final = {"scores": "", "labels": "label", "groups": "group", "ids": "id"}


class ArraysShort(Limits, total=False):
    """Keywords that stand for a source: one value per answer each."""

    scores: Any
    labels: Any
    groups: Any
    ids: Any


class CalibrateShort(ComparedShort, ArraysShort, total=False):
    """Keywords of a short call that may give arrays in place of a source."""

    higher: Higher


def source_of(source: Source | None, keywords: dict[str, Any], column: str | None) -> Source:
    """Return the source of a call: what was given, or its arrays, taken out of ``keywords``.

    Parameters
    ----------
    source : path, str or data in memory, or None
        What stands in the source's place.
    keywords : dict
        Those of the call; ``scores``, ``labels``, ``groups`` and ``ids`` are taken out.
    column : str or None
        The column that the scores stand for; None where no column is read.

    Raises
    ------
    InputError
        If both are given, or neither; if scores or labels are missing, or lengths differ.
    """
    taken = {name: keywords.pop(name, None) for name in _FIELDS}
    arrays = {name: values for name, values in taken.items() if values is not None}
    if not arrays:
        if source is None:
            raise InputError(f"no data was given: give {ACCEPTED}, or scores= and labels=")
        return source
    if source is not None:
        raise InputError("give the data or its scores= and labels=, not both")
    if lacking := [name for name in ("scores", "labels") if name not in arrays]:
        raise InputError(f"{' and '.join(arrays)} need {lacking[0]}=, one value per answer")
    if column is None:
        raise InputError("this guardrail computes its score from texts; give answers, not scores=")
    columns = columns_of(**arrays)
    return {_FIELDS[name] or column: values for name, values in columns.items()}


def calibration_source(
    source: Source | None, score: Any, keywords: dict[str, Any]
) -> tuple[Source, Any]:
    """Return the source and the detector of a call, arrays and ``higher`` taken out."""
    with_scores = keywords.get("scores") is not None
    higher = keywords.pop("higher", None)
    source = source_of(source, keywords, SCORE_COLUMN)
    if not with_scores:
        if higher is not None:
            raise InputError("higher says what the values of scores= mean; it was given without")
        return source, score
    if score != DEFAULT_SCORE:
        raise InputError("give scores= or the detector that computes them, not both")
    return source, build_column(SCORE_COLUMN, higher=higher or "hallucinated")
