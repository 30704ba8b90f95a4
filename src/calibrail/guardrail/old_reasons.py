"""What an older calibrail wrote, read by its sentences: it kept no codes.

Nothing else reads a reason's words. What is written today has a ``cause``, and these sentences do
not follow when the words change.
"""

import re
from collections.abc import Mapping
from typing import Final

from calibrail.guardrail.cause import Cause, CauseCode

_SEEN: Final = "not judged: the guardrail's threshold was set on this answer (seen_before)"
_BEGINNINGS: Final[Mapping[str, CauseCode]] = {
    "undefined score": "score_undefined",
    "the detector failed": "detector_failed",
    "calibrail failed": "calibrail_failed",
    "the answer did not end": "answer_unfinished",
}
_ROW: Final = re.compile(r"row (\d*)")
_RAISED: Final = "the detector raised "


def cause_in_old_reason(reason: str) -> Cause:
    """Return the cause of a decision without a score and without a cause.

    Examples
    --------
    >>> cause_in_old_reason("the detector failed: ValueError: no text; policy: review")
    Cause(code='detector_failed', error='ValueError', timeout=False, row=None)
    >>> cause_in_old_reason("row 3 cannot be used: label: missing").code
    'row_unusable'
    """
    if reason == _SEEN:
        return Cause("seen_before")
    for beginning, code in _BEGINNINGS.items():
        if reason.startswith(beginning):
            kind = re.split("[:;]", reason.removeprefix(f"{beginning}: "), maxsplit=1)[0]
            if code == "score_undefined" or code == "answer_unfinished" or not kind.isidentifier():
                return Cause(code)
            return Cause(code, kind, timeout=kind == "TimeoutError" and "(timeout)" in reason)
    if (row := _ROW.match(reason)) is not None:
        return Cause("row_unusable", row=int(row[1]) if row[1] else None)
    return Cause("other")


def raised_in_old_probes(reasons: Mapping[str, str]) -> dict[str, str]:
    """Return on which probes a detector raised, by their numbers, and what.

    >>> raised_in_old_probes({"1": "the detector raised ValueError", "2": "no number"})
    {'1': 'ValueError'}
    """
    return {
        number: reason.removeprefix(_RAISED)
        for number, reason in reasons.items()
        if reason.startswith(_RAISED)
    }
