"""Causes of decisions without a score, as codes; sentences of older files.

Nothing else reads a reason's words. What is written today has a ``cause``, and these sentences do
not follow when the words change.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, get_args

from calibrail.errors import InputError

#: Why a decision came about.
#:
#: - ``score``: by the score and its threshold; of sentences, by those that have a score.
#: - ``score_undefined``: there is no score, and the policy for that decided.
#: - ``detector_failed``: so that the failure policy decided; likewise after
#: - ``calibrail_failed``: calibrail cannot split or trim the answer, an error of its own; and
#: - ``answer_unfinished``: an answer that was being written never ended.
#: - ``seen_before``: the guardrail's threshold was set on the answer, so it is not selected from.
#: - ``row_unusable``: a row of a file holds no answer.
#: - ``other``: an older calibrail's line, or another program's, whose reason is in other words.
CauseCode = Literal[
    "score",
    "score_undefined",
    "detector_failed",
    "calibrail_failed",
    "answer_unfinished",
    "seen_before",
    "row_unusable",
    "other",
]

#: Those after which the failure policy decided.
FAILURES: Final = frozenset[CauseCode](["detector_failed", "calibrail_failed", "answer_unfinished"])

#: How the reason begins where there is no score.
UNDEFINED: Final = "undefined score"

#: The whole of it for an answer that is not selected from.
SEEN: Final = "not judged: the guardrail's threshold was set on this answer (seen_before)"

#: How it begins where something failed.
FAILED: Final[Mapping[CauseCode, str]] = {
    "detector_failed": "the detector failed",
    "calibrail_failed": "calibrail failed",
    "answer_unfinished": "the answer did not end",
}

#: How what was raised for lack of time ends.
TIMEOUT: Final = "(timeout)"


class DeadlineError(TimeoutError):
    """There is no decision by the deadline; reasons call it what it is, a ``TimeoutError``."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why} {TIMEOUT}")


class Unfinished(Exception):  # noqa: N818 - no failure of what decides
    """Why an answer that was being written has no end; by itself, that nobody waits for one."""

    def __init__(self, why: str = "whoever asked has gone before") -> None:
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a decision came about, for programs; it quotes nothing of the answer.

    Attributes
    ----------
    code : str
        See ``CauseCode``.
    error : str or None
        The class of what was raised, where something failed.
    timeout : bool
        Whether that is because there was no decision by a service's deadline.
    row : int or None
        Which row cannot be used.
    """

    code: CauseCode
    error: str | None = None
    timeout: bool = False
    row: int | None = None

    @classmethod
    def of_error(cls, error: BaseException, code: CauseCode = "detector_failed") -> Self:
        """Return the cause of a decision about an answer that could not be judged."""
        if isinstance(error, Unfinished):
            return cls("answer_unfinished")
        if isinstance(error, DeadlineError):
            return cls(code, TimeoutError.__name__, timeout=True)
        return cls(code, type(error).__name__)

    @property
    def failed(self) -> bool:
        """Whether the failure policy decided."""
        return self.code in FAILURES

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object: the code, and those parameters that there are."""
        known = {"error": self.error, "timeout": self.timeout or None, "row": self.row}
        return {"code": self.code, **{k: value for k, value in known.items() if value is not None}}

    @classmethod
    def from_dict(cls, content: object) -> Self:
        """Return the cause of a JSON object that ``to_dict`` made; further fields are ignored.

        Raises
        ------
        InputError
            If it is none.
        """
        if isinstance(content, Mapping) and content.get("code") in get_args(CauseCode):
            error, row = content.get("error"), content.get("row")
            timeout = content.get("timeout", False)
            kinds = isinstance(error, str | None) and isinstance(row, int | None)
            if kinds and isinstance(timeout, bool) and not isinstance(row, bool):
                return cls(content["code"], error, timeout, row)
        raise InputError(
            f"a decision's cause must be an object with one of the codes "
            f"{', '.join(get_args(CauseCode))}; got {content!r:.80}"
        )


#: Of every decision that has a score.
SCORED: Final = Cause("score")


def reason_of_cause(cause: Cause, policy: str, detail: str | None = None) -> str:
    """Return why there is no score, in one sentence.

    Parameters
    ----------
    cause : Cause
        Any but ``score`` and ``other``, of which the code does not tell enough.
    policy : str
        What was decided.
    detail : str, optional
        What was raised or is wrong, in its own words; left out where nothing may be quoted.

    Examples
    --------
    >>> reason_of_cause(Cause("detector_failed", "ValueError"), "review", "no text")
    'the detector failed: ValueError: no text; policy: review'
    >>> reason_of_cause(Cause("score_undefined"), "pass", "the response holds no number")
    'undefined score (the response holds no number); policy: pass'
    """
    if cause.code == "seen_before":
        return SEEN
    if cause.code == "row_unusable":
        return f"row {cause.row} cannot be used" + ("" if detail is None else f": {detail}")
    if cause.failed:
        parts = (FAILED[cause.code], cause.error, detail)
        return f"{': '.join(part for part in parts if part is not None)}; policy: {policy}"
    return f"{UNDEFINED}{'' if detail is None else f' ({detail})'}; policy: {policy}"


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
