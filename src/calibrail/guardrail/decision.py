"""What does a guardrail say about one answer?"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self, get_args

from calibrail.errors import InputError
from calibrail.guardrail.removed import Removed, number_in, trimming_in
from calibrail.scale import Scale
from calibrail.shown import Shown

Outcome = Literal["pass", "flag", "review", "error"]
#: What becomes of an answer: with sentences removed it is flagged, and something is left or not.
Result = Literal["pass", "trimmed", "emptied", "flag", "review", "error"]

#: How the reason begins where the detector failed.
FAILED: Final = "the detector failed"

#: And where it did not, but calibrail cannot split or trim the answer: an error of its own.
NOT_TRIMMED: Final = "calibrail failed"

#: And where an answer that was being written never ended.
UNFINISHED: Final = "the answer did not end"

#: All beginnings of the reasons after which the failure policy decided.
FAILURES: Final = (FAILED, NOT_TRIMMED, UNFINISHED)

#: How it begins where there is no score, and the policy for that decided.
UNDEFINED: Final = "undefined score"

#: The whole of it for an answer that is not selected from.
SEEN: Final = "not judged: the guardrail's threshold was set on this answer (seen_before)"


class Unfinished(Exception):  # noqa: N818 - no failure of what decides
    """Why an answer that was being written has no end; by itself, that nobody waits for one."""

    def __init__(self, why: str = "whoever asked has gone before") -> None:
        super().__init__(why)


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
        Why, in one sentence.
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

    def shown(self) -> tuple[Any, ...]:
        """Return the decision with its evidence."""
        return self.to_dict(
            evidence=True
        ), f"the guardrail on {self.id!r}" if self.id else "one answer"

    def __repr__(self) -> str:
        """Return the decision in the numbers that its user knows."""
        name, values = self.scale.column or "score", (self.score, self.threshold, self.p_value)
        value, threshold, p_value = (
            None if number is None else float(f"{number:.6g}") for number in values
        )
        if self.scale.negated:
            value, threshold = map(self.scale.in_column, (value, threshold))
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
        return self.score is None and self.reason.startswith(FAILURES)

    @property
    def unfinished(self) -> bool:
        """Whether that is because the answer has no end."""
        return self.failed and self.reason.startswith(UNFINISHED)

    def without_texts(self) -> Self:
        """Return the decision with a reason that quotes nothing of the answer.

        Where there is no score the reason quotes a cell of the data, a detector's words or its
        error; the column's name, the error's class and the policy are left. Of removed sentences
        their places, scores and reasons are.
        """
        if self.removed is not None:
            return self._without_sentences()
        if self.score is not None or self.reason == SEEN:
            return self
        why = UNDEFINED + (f" of column {self.scale.column}" if self.scale.column else "")
        if self.unfinished:
            why = UNFINISHED
        elif self.failed:
            who = next(name for name in FAILURES if self.reason.startswith(name))
            kind = self.reason.removeprefix(f"{who}: ").partition(":")[0]
            why = f"{who}: {kind}" if kind.isidentifier() else who
        return replace(self, reason=f"{why}; policy: {self.outcome}", evidence=None)

    def _without_sentences(self) -> Self:
        removed = tuple(
            replace(item, text=None, reason=item.reason if item.score is not None else UNDEFINED)
            for item in self.removed or ()
        )
        bare = replace(self, text=None, removed=None, evidence=None)
        # The reason of an answer whose sentences were judged quotes nothing of any.
        judged = self.score is not None or self.reason.startswith(UNDEFINED)
        return replace(bare if judged else bare.without_texts(), removed=removed)

    def to_dict(self, *, evidence: bool = False) -> dict[str, Any]:
        """Return the JSON object that ``calibrail check`` writes, with its evidence if asked.

        Where the score is a column of the data it holds ``column``, ``column_value`` and
        ``column_threshold``, too; of a guardrail of sentences ``text`` and ``removed``.
        """
        left_out = {"scale", "text", "removed"} | (set() if evidence else {"evidence"})
        names = [name for name in self.__dataclass_fields__ if name not in left_out]
        content = {name: getattr(self, name) for name in names}
        if self.removed is not None:
            content["text"] = self.text
            content["removed"] = [item.to_dict() for item in self.removed]
        if self.scale.column is not None:
            content["column"] = self.scale.column
            content |= {name: getattr(self, name) for name in ("column_value", "column_threshold")}
        return content

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
        for name in ("id", "outcome", "reason"):
            if not isinstance(content.get(name), str):
                raise InputError(
                    f"a decision's {name} must be a text; got {content.get(name)!r:.80}"
                )
        if content["outcome"] not in get_args(Outcome):
            raise InputError(
                f"a decision's outcome must be one of {', '.join(get_args(Outcome))}; got "
                f"{content['outcome']!r:.80}"
            )
        score, threshold, p_value = (
            number_in(content, name) for name in ("score", "threshold", "p_value")
        )
        if p_value is not None and not 0.0 < p_value <= 1.0:
            raise InputError(f"a decision's p_value must lie in (0, 1]; got {p_value!r}")
        if (score is None) != (p_value is None):
            raise InputError(
                f"a decision has a score and a p_value, or neither; got {score!r} and {p_value!r}"
            )
        passes = content["outcome"] == "pass"
        if passes and score is None and not content["reason"].startswith(UNDEFINED):
            raise InputError(
                f"a decision without a score passes only for an {UNDEFINED}; its reason is "
                f"{content['reason']!r:.80}"
            )
        if passes and score is not None and (threshold is None or score >= threshold):
            raise InputError(
                f"a decision that passes must have a score below its threshold; got {score!r} and "
                f"{threshold!r}"
            )
        evidence = content.get("evidence")
        if not isinstance(evidence, Mapping | None):
            raise InputError(f"a decision's evidence must be an object; got {evidence!r:.80}")
        scale = _scale(content, score, threshold)
        outcome = content["outcome"]
        return cls(
            content["id"],
            outcome,
            score,
            threshold,
            p_value,
            content["reason"],
            evidence,
            scale,
            *trimming_in(content),
        )

    def line(self, *, evidence: bool = False) -> str:
        """Return that object as JSON in one line: equal decisions are equal bytes everywhere."""
        return json.dumps(self.to_dict(evidence=evidence), ensure_ascii=False, allow_nan=False)


def _scale(content: Mapping[str, Any], *kept: float | None) -> Scale:
    """Return the scale by what a column shows for the numbers that are kept."""
    if (column := content.get("column")) is None:
        return Scale()
    if not isinstance(column, str):
        raise InputError(f"a decision's column must be a text; got {column!r:.80}")
    shown = [number_in(content, name) for name in ("column_value", "column_threshold")]
    for negated in (False, True):
        scale = Scale(column, negated)
        if shown == [scale.in_column(value) for value in kept]:
            return scale
    raise InputError(
        f"a decision's score and threshold are {kept!r}; its column {column!r} shows {shown!r}"
    )
