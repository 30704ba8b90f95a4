"""Decision about one answer: outcome, numbers and cause, as lines hold them.

Nothing else reads a reason's words. What is written today has a ``cause``, and these sentences do
not follow when the words change.
"""

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, Self, get_args

from calibrail.errors import InputError
from calibrail.formatting import Scale, Shown
from calibrail.serialization import Record

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

#: How the reason begins where there is no score.
UNDEFINED: Final = "undefined score"

#: The whole of it for an answer that is not selected from.
SEEN: Final = "not judged: the guardrail's threshold was set on this answer (seen_before)"

#: How it begins where something failed, so that the failure policy decided.
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
class Cause(Record):
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

    later = ("error", "timeout", "row")

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
        return self.code in FAILED

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
            kinds = isinstance(error, str | None) and type(row) in (int, type(None))
            if kinds and isinstance(timeout, bool):
                return cls(content["code"], error, timeout, row)
        raise InputError.on("decision_cause", codes=", ".join(get_args(CauseCode)), content=content)


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


#: As older versions wrote them: what says it in other words today changes nothing here.
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
    return {k: it.removeprefix(_RAISED) for k, it in reasons.items() if it.startswith(_RAISED)}


@dataclass(frozen=True, slots=True)
class Removed:
    """A sentence that a guardrail removes from an answer.

    Attributes
    ----------
    start, end : int
        Its characters in the answer, half open.
    text : str or None
        What it says; None where no texts are kept.
    score, p_value : float or None
        As those of a decision, of this sentence; None where its score is undefined.
    reason : str
        Why, in one sentence.
    """

    start: int
    end: int
    text: str | None
    score: float | None
    p_value: float | None
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return its fields, without the text where there is none."""
        content = asdict(self)
        if self.text is None:
            del content["text"]
        return content

    @classmethod
    def from_dict(cls, content: object) -> Self:
        """Return the sentence of what ``to_dict`` made.

        Raises
        ------
        InputError
            If it is none.
        """
        match content:
            case {"start": int(start), "end": int(end), "reason": str(reason)}:
                assert isinstance(content, Mapping)
                text = content.get("text")
                score, p_value = (parse_number(content, name) for name in ("score", "p_value"))
                same = (score is None) == (p_value is None)
                kinds = type(start) is type(end) is int and isinstance(text, str | None)
                if kinds and 0 <= start < end and same:
                    return cls(start, end, text, score, p_value, reason)
        raise InputError.on("decision_removed_item", content=content)


def parse_trimming(content: Mapping[str, Any]) -> tuple[str | None, tuple[Removed, ...] | None]:
    """Return the text and the removed sentences of a decision by sentences."""
    if "removed" not in content:
        return None, None
    removed, text, outcome = content["removed"], content.get("text"), content["outcome"]
    shown = isinstance(text, str) and outcome not in ("review", "error")
    sound = isinstance(removed, list | tuple) and not (removed and outcome == "pass")
    if not sound or not (text is None or shown):
        raise InputError.on("decision_removed", removed=removed, text=text, was=outcome)
    return text, tuple(map(Removed.from_dict, removed))


def parse_number(content: Mapping[str, Any], name: str) -> float | None:
    """Return a number that must be given, though it may be None."""
    value = content.get(name, "nothing")
    if value is None:
        return None
    number = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):
            number = float(value)
    if not math.isfinite(number):
        raise InputError(f"a decision's {name} must be a finite number or null; got {value!r:.80}")
    return number


Outcome = Literal["pass", "flag", "review", "error"]
#: What becomes of an answer: with sentences removed it is flagged, and something is left or not.
Result = Literal["pass", "trimmed", "emptied", "flag", "review", "error"]


_NO_CAUSE: Final = Cause("other")


@dataclass(frozen=True, slots=True, repr=False)
class Decision(Shown):
    """What the guardrail says about one answer.

    Attributes
    ----------
    id : str
        The example's id.
    outcome : {"pass", "flag", "review", "error"}
        ``error`` is a failure of the detector: the answer was not judged, and was not passed.
    score : float or None
        The nonconformity score; higher = more likely hallucinated. None where it is undefined. A
        model's is rounded to the digits that no batch changes: four decimals for the default one.
    threshold : float or None
        Flagged at or above it. None when everything is flagged.
    p_value : float or None
        Conformal p-value of "this answer is hallucinated": the share of calibration hallucinations
        that looked at least as harmless. None where the score is undefined.
    reason : str
        Why, in one sentence, for people; programs read ``cause``.
    evidence : mapping or None
        What the score rests on, for a reviewer: the sentences, claims or sources with their
        verdicts and places. None where the detector gives none.
    scale : Scale
        Which column of the data the score is read from, if any, and which way it runs. ``score``
        and ``threshold`` are negated where a higher value of the column means faithful;
        ``column_value`` and ``column_threshold`` are as the column holds them.
    text : str or None
        Of a guardrail of sentences, what may be shown in the answer's place: the answer where it
        passes; what is left of it where sentences were removed ("" where nothing is); None where
        nothing may be, as for review and after an error.
    removed : tuple of Removed, or None
        Of a guardrail of sentences, those that were removed; of an answer for review, those that
        would be. None for a guardrail of whole answers.
    cause : Cause
        Why, as a code with parameters. Left out, it is what an older calibrail's reason says.
    probability : mapping or None
        Of P(hallucinated), ``lower`` and ``upper`` for a ``base_rate``; None where nobody asked for
        it, and without a score.
    row, file : int and str, or None
        Where the answer stands in the data that was decided about, and in which of several files.
    guardrail : str or None
        Digest of the guardrail that decided, ``sha256:...``; None in what an older version wrote.
    """

    shown_as = "explain"

    id: str
    outcome: Outcome
    score: float | None
    threshold: float | None
    p_value: float | None
    reason: str
    evidence: Mapping[str, Any] | None = None
    scale: Scale = field(default_factory=Scale)
    text: str | None = None
    removed: tuple[Removed, ...] | None = None
    cause: Cause = _NO_CAUSE
    row: int | None = field(default=None, compare=False)
    file: str | None = field(default=None, compare=False)
    probability: Mapping[str, float] | None = None
    guardrail: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.cause is _NO_CAUSE:
            cause = SCORED if self.score is not None else cause_in_old_reason(self.reason)
            object.__setattr__(self, "cause", cause)

    def shown(self) -> tuple[Any, ...]:
        """Return the decision with its evidence."""
        what = f"the guardrail on {self.id!r}" if self.id else "one answer"
        return self.to_dict(evidence=True), what

    def __repr__(self) -> str:
        """Return the decision in the numbers that its user knows."""
        name = self.scale.column or "score"
        value, threshold = (self.scale.edge(x, "None") for x in (self.score, self.threshold))
        p_value = None if self.p_value is None else float(f"{self.p_value:.6g}")
        trimmed = ""
        if self.removed is not None:
            text = None if self.text is None else self.text[:60] + "..." * (len(self.text) > 60)
            trimmed = f", text={text!r}, removed={len(self.removed)}"
        return (
            f"Decision(id={self.id!r}, outcome={self.outcome!r}, {name}={value}, "
            f"threshold={threshold}, p_value={p_value}, reason={self.reason!r}{trimmed})"
        )

    @property
    def column_value(self) -> float | None:
        """The score as the data's column holds it; None for a score that is no column."""
        return self.scale.in_column(self.score)

    @property
    def column_threshold(self) -> float | None:
        """The threshold likewise."""
        return self.scale.in_column(self.threshold)

    @property
    def flagged(self) -> bool:
        """Whether the answer must not be released as it is: every outcome but ``pass``."""
        return self.outcome != "pass"

    @property
    def result(self) -> Result:
        """The outcome; of a flagged answer that was trimmed, whether anything is left of it."""
        if self.outcome != "flag" or self.text is None:
            return self.outcome
        return "trimmed" if self.text.strip() else "emptied"

    @property
    def failed(self) -> bool:
        """Whether the failure policy decided: what judges failed, or the answer has no end."""
        return self.cause.failed

    @property
    def unfinished(self) -> bool:
        """Whether that is because the answer has no end."""
        return self.cause.code == "answer_unfinished"

    def without_texts(self) -> Self:
        """Return the decision with a reason that quotes nothing of the answer.

        Where there is no score the reason quotes a cell of the data, a detector's words or its
        error; the column's name, the error's class and the policy are left. Of removed sentences
        their places, scores and reasons are.
        """
        if self.removed is not None:
            return self._without_sentences()
        if self.score is not None or self.cause.code == "seen_before":
            return self
        if self.failed:
            reason = reason_of_cause(self.cause, self.outcome)
        else:
            of_column = f" of column {self.scale.column}" if self.scale.column else ""
            reason = f"{UNDEFINED}{of_column}; policy: {self.outcome}"
        return replace(self, reason=reason, evidence=None)

    def _without_sentences(self) -> Self:
        removed = tuple(
            replace(item, text=None, reason=item.reason if item.score is not None else UNDEFINED)
            for item in self.removed or ()
        )
        bare = replace(self, text=None, removed=None, evidence=None)
        # The reason of an answer whose sentences were judged quotes nothing of any.
        judged = self.cause.code in ("score", "score_undefined")
        return replace(bare if judged else bare.without_texts(), removed=removed)

    @property
    def place(self) -> dict[str, Any]:
        """``row`` and ``file``, as far as they are known."""
        return {name: at for name in ("row", "file") if (at := getattr(self, name)) is not None}

    def to_dict(self, *, evidence: bool = False) -> dict[str, Any]:
        """Return the JSON object that ``calibrail check`` writes, with its evidence if asked.

        Where the score is a column of the data it holds ``column``, ``column_value`` and
        ``column_threshold``, too; of a guardrail of sentences ``text`` and ``removed``. Without a
        score it holds ``cause``: where there is one, the score and its threshold are the cause. Of
        data with rows it holds ``row``, and ``file`` where there are several.
        """
        names = ["id", "outcome", "score", "threshold", "p_value", "reason"]
        names += ["evidence"] if evidence else []
        content = {name: getattr(self, name) for name in names}
        if self.score is None:
            content["cause"] = self.cause.to_dict()
        if self.probability is not None:
            content["probability"] = dict(self.probability)
        if self.removed is not None:
            content["text"] = self.text
            content["removed"] = [item.to_dict() for item in self.removed]
        if self.scale.column is not None:
            content["column"] = self.scale.column
            content |= {name: getattr(self, name) for name in ("column_value", "column_threshold")}
        if self.guardrail is not None:
            content["guardrail"] = self.guardrail
        return content | self.place

    @classmethod
    def seen_before(cls, id: str, by: str) -> Self:
        """Return what is said of an answer that set the threshold of the guardrail of a digest."""
        return cls(id, "error", None, None, None, SEEN, cause=Cause("seen_before"), guardrail=by)

    @classmethod
    def from_dict(cls, content: object) -> Self:
        """Return the decision of a JSON object that ``to_dict`` made; further fields are ignored.

        Raises
        ------
        InputError
            If it is none: a field is missing or of another kind, the outcome is unknown, the
            p-value is none, or an answer passes whose score reaches the threshold, or that has no
            score for another reason than that it is undefined, or of which sentences are removed.
        """
        if not isinstance(content, Mapping):
            raise InputError(f"a decision must be an object; got {content!r:.80}")
        id, outcome, reason, evidence = (
            content.get(name) for name in ("id", "outcome", "reason", "evidence")
        )
        score, threshold, p_value = (
            parse_number(content, name) for name in ("score", "threshold", "p_value")
        )
        texts = all(isinstance(text, str) for text in (id, outcome, reason))
        outcomes = get_args(Outcome)
        cause = parse_cause(content) if texts else _NO_CAUSE
        below = score is not None and threshold is not None and score < threshold
        undefined = score is None and cause.code == "score_undefined"
        for holds, due in (
            (texts, "its id, outcome and reason must be texts"),
            (outcome in outcomes, f"outcome must be one of {', '.join(outcomes)}"),
            (p_value is None or 0.0 < p_value <= 1.0, "p_value must lie in (0, 1]"),
            ((score is None) == (p_value is None), "it has a score and a p_value, or neither"),
            (outcome != "pass" or below or undefined, "it passes only below its threshold"),
            (isinstance(evidence, Mapping | None), "evidence must be an object"),
        ):
            if not holds:
                raise InputError(f"a decision: {due}; got {dict(content)!r:.300}")
        numbers, scale = (score, threshold, p_value), _scale(content, score, threshold)
        text, removed = parse_trimming(content)
        row, file, made_by = (content.get(name) for name in ("row", "file", "guardrail"))
        return cls(
            content["id"],
            content["outcome"],
            *numbers,
            content["reason"],
            evidence,
            scale,
            text,
            removed,
            cause,
            row if type(row) is int else None,
            file if isinstance(file, str) else None,
            parse_probability(content.get("probability")),
            made_by if isinstance(made_by, str) else None,
        )

    def line(self, *, evidence: bool = False) -> str:
        """Return that object as JSON in one line: equal decisions are equal bytes everywhere."""
        return json.dumps(self.to_dict(evidence=evidence), ensure_ascii=False, allow_nan=False)


def parse_probability(content: object) -> dict[str, float] | None:
    """Return P(hallucinated) of a decision as it was told; None where it was not."""
    if content is None:
        return None
    match content:
        case {"lower": float(lower), "upper": float(upper), "base_rate": float(rate)}:
            if 0.0 <= lower <= upper <= 1.0 and 0.0 < rate < 1.0:
                return {"lower": lower, "upper": upper, "base_rate": rate}
    raise InputError.on("decision_probability", content=content)


def parse_cause(content: Mapping[str, Any]) -> Cause:
    """Return the cause in a decision's JSON object; of an older one, what its reason says.

    Raises
    ------
    InputError
        If its cause is none, or is a score that it does not have.
    """
    if content["score"] is not None:
        return SCORED
    if (given := content.get("cause")) is None:
        return cause_in_old_reason(content["reason"])
    cause = Cause.from_dict(given)
    if cause.code == "score":
        raise InputError("a decision without a score cannot have the cause 'score'")
    return cause


def _scale(content: Mapping[str, Any], *kept: float | None) -> Scale:
    """Return the scale by what a column shows for the numbers that are kept."""
    if (column := content.get("column")) is None:
        return Scale()
    if not isinstance(column, str):
        raise InputError(f"a decision's column must be a text; got {column!r:.80}")
    shown = [parse_number(content, name) for name in ("column_value", "column_threshold")]
    for negated in (False, True):
        scale = Scale(column, negated)
        if shown == [scale.in_column(value) for value in kept]:
            return scale
    raise InputError.on("decision_column_shows", kept=kept, column=column, shown=shown)
