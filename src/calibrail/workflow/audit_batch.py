"""What did one call of ``audit_sample`` draw?"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from calibrail.record import Record

#: What became of a call: answers were drawn; the log holds no new ones; the budget of the days
#: that it holds is spent, so that the new ones wait for the next call.
Outcome = Literal["drawn", "nothing new", "budget spent"]


@dataclass(frozen=True, slots=True)
class AuditBatch(Record):
    """What one call of ``audit_sample`` drew, and what the folder holds in all.

    Attributes
    ----------
    folder : str
        Where it is.
    guardrail : str
        Digest of the guardrail.
    outcome : {"drawn", "nothing new", "budget spent"}
        With the budget spent, the answers found wait in the log for the next call.
    design : {"uniform", "active"}
        How answers are drawn.
    per_day : float
        Answers that people are to label for each day of the log.
    batch : int or None
        Which call this was among those that drew; None where it drew nothing.
    n_rows : int
        Decisions of the guardrail that are new in the log: those that are drawn from.
    days : tuple of str
        Days (UTC) of the log whose budget this call counted.
    first, last : str or None
        Earliest and latest time of what is new.
    n_drawn, n_handed_out : int
        Answers drawn, and those that the lot of their probability hands out to be labelled.
    n_without_text : int
        Answers handed out so far, of this call or before, whose texts are not known.
    n_texts_found : int
        Answers drawn by earlier calls whose texts were found now.
    n_other_texts : int
        Answers whose id was found in the traces with texts of another length than was logged.
    n_batches, n_drawn_so_far, n_handed_out_so_far, n_labelled : int
        What the folder holds in all; labelled are those with a final label.
    log : mapping
        What was met in the log: ``lines``, ``skipped`` by reason, ``findings``.
    """

    folder: str
    guardrail: str
    outcome: Outcome
    design: str
    per_day: float
    batch: int | None
    n_rows: int
    days: tuple[str, ...]
    first: str | None
    last: str | None
    n_drawn: int
    n_handed_out: int
    n_without_text: int
    n_texts_found: int
    n_other_texts: int
    n_batches: int
    n_drawn_so_far: int
    n_handed_out_so_far: int
    n_labelled: int
    log: dict[str, Any]

    schema: ClassVar = "calibrail.audit_sample/1"
