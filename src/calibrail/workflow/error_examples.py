"""Which answers of the test part show what a detector gets wrong?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal.rule import DECISIONS, Rule
from calibrail.data.example import TEXT_FIELDS
from calibrail.data.sources import Source
from calibrail.data.splits import TEST
from calibrail.models.call_limits import no_calls
from calibrail.record import Record
from calibrail.settings import ReadOptions
from calibrail.workflow.once_more import CHANGED, evidence_of, read_again
from calibrail.workflow.scored import Scored

#: Misses, and false alarms, that a page shows at most.
MOST: Final = 5


@dataclass(frozen=True, slots=True)
class ErrorExample(Record):
    """One answer that was decided wrongly.

    Attributes
    ----------
    id : str
        As the data names it.
    outcome : {"pass", "review", "flag"}
        What was decided.
    score : float or None
        None where it is undefined.
    threshold : float or None
        An answer passes below it; None where nothing passes.
    p_value : float or None
        Of "this answer is hallucinated".
    group : str or None
        Its group, where groups have thresholds of their own.
    question, contexts, response : str, tuple of str, str
        Its texts; empty where they could not be read again, or were not asked for.
    evidence : mapping or None
        What the detector says about the parts of the answer.
    note : str
        Why there is no text or no evidence.
    """

    id: str
    outcome: str
    score: float | None
    threshold: float | None
    p_value: float | None
    group: str | None = None
    question: str = ""
    contexts: tuple[str, ...] = ()
    response: str = ""
    evidence: Mapping[str, Any] | None = None
    note: str = ""

    def without_text(self) -> Self:
        """Return only the name and the numbers."""
        return replace(self, question="", contexts=(), response="", evidence=None, note="")


@dataclass(frozen=True, slots=True)
class ErrorExamples(Record):
    """The worst errors of the test part.

    Attributes
    ----------
    misses, alarms : tuple of ErrorExample
        Hallucinated answers that passed, the lowest scores first; faithful ones that did not, the
        highest first.
    n_misses, n_alarms : int
        How many there are in all.
    note : str
        Why there are no texts.
    """

    misses: tuple[ErrorExample, ...]
    alarms: tuple[ErrorExample, ...]
    n_misses: int
    n_alarms: int
    note: str = ""

    def without_text(self) -> Self:
        """Return nothing that the data's authors wrote but ids."""
        return replace(
            self,
            misses=tuple(item.without_text() for item in self.misses),
            alarms=tuple(item.without_text() for item in self.alarms),
            note="Texts are left out, as asked.",
        )


def worst_errors(
    source: Source,
    scored: Scored,
    rule: Rule,
    names: Sequence[str] | None = None,
    *,
    reading: ReadOptions | None = None,
    text: bool = True,
) -> ErrorExamples:
    """Choose the worst errors of the test part, and read and score these few once more.

    Parameters
    ----------
    source : path, str or iterable of Example
        What was scored; read again up to the last answer that is shown.
    scored : Scored
        Its scores; the first detector is the one that decides.
    rule : Rule
        What decides.
    names : sequence of str, optional
        Each answer's group, where groups have thresholds of their own.
    reading : ReadOptions, optional
        How the source was read.
    text : bool
        Whether to read the texts at all.

    Returns
    -------
    ErrorExamples
        What cannot be read or scored again is missing with a note; no request is sent for it.
    """
    table, detector = scored.table, scored.detectors[0]
    values = table.columns[scored.keys[0]]
    groups = names if rule.groups is not None else None
    flagged = rule.flags(values, groups, detector.tolerance)
    outcomes = rule.decide(values, groups, detector.tolerance)
    thresholds = rule.thresholds(len(values), groups)
    test = scored.codes == TEST
    missed, alarmed = test & (table.labels == 1) & ~flagged, test & (table.labels == 0) & flagged
    misses, alarms = _worst(values, missed, 1.0), _worst(values, alarmed, -1.0)
    rows = [*misses, *alarms]
    examples, note = read_again(source, scored, rows, reading) if text else ({}, "")

    def error(row: int) -> ErrorExample:
        value, defined = float(values[row]), not np.isnan(values[row])
        group = None if groups is None else [groups[row]]
        item = ErrorExample(
            id=table.ids[row].as_py() or f"row {row + 1}",
            outcome=DECISIONS[int(outcomes[row])],
            score=value if defined else None,
            threshold=float(thresholds[row]) if np.isfinite(thresholds[row]) else None,
            p_value=float(rule.p_value([value], group, detector.tolerance)[0]) if defined else None,
            group=None if group is None else group[0],
        )
        if not text or note:
            return item
        example = examples.get(row)
        if example is None:
            return replace(item, note=CHANGED)
        evidence, reason = evidence_of(detector, example, value)
        texts = {name: getattr(example, name) for name in TEXT_FIELDS}
        return replace(item, **texts, evidence=evidence, note=reason)

    with no_calls():
        return ErrorExamples(
            misses=tuple(map(error, misses)),
            alarms=tuple(map(error, alarms)),
            n_misses=int(np.count_nonzero(missed)),
            n_alarms=int(np.count_nonzero(alarmed)),
            note=note,
        )


def _worst(values: NDArray[np.float64], chosen: NDArray[np.bool_], sign: float) -> list[int]:
    """Return the first chosen rows by ``sign`` times their value; undefined ones come last."""
    rows = np.flatnonzero(chosen)
    signed = sign * values[rows]
    if len(rows) > MOST:
        # NaN, the last, is never below the limit: without as many numbers all rows are looked at.
        limit = np.partition(signed, MOST - 1)[MOST - 1]
        first = signed <= limit if not np.isnan(limit) else np.ones(len(rows), np.bool_)
        rows, signed = rows[first], signed[first]
    ordered: list[int] = rows[np.argsort(signed, kind="stable")[:MOST]].tolist()
    return ordered
