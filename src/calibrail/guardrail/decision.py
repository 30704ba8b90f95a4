"""Decision, its reasons, and the rule that turns scores into decisions.

The last digits of a neural network's scores depend on the batch. A decision must not: where the
score's tolerance leaves the decision about an answer open, the answer is scored again by itself.
"""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import DECISIONS
from calibrail.conformal.groups import By, group_key
from calibrail.conformal.overlapping_groups import OverlappingCalibration
from calibrail.conformal.rule import Decision as RuleOutcome
from calibrail.conformal.rule import Groups, Rule
from calibrail.data.columns import CHARACTERS
from calibrail.data.example import Example
from calibrail.errors import GuardrailError, InputError, ModelError
from calibrail.formatting import Shown, count, number
from calibrail.guardrail.cause import (
    SCORED,
    UNDEFINED,
    Cause,
    cause_in_old_reason,
    reason_of_cause,
)
from calibrail.guardrail.file import FrozenConfig
from calibrail.models.llm.limits import BudgetError
from calibrail.options.guarantee import Undefined
from calibrail.scores.base import DetectorFailure, Scale, Score, Scores, background_of, scored_alone
from calibrail.scores.registry import scale_of
from calibrail.text.removal import Tear


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
        if isinstance(content, Mapping):
            start, end, text = (content.get(name) for name in ("start", "end", "text"))
            score, p_value = (parse_number(content, name) for name in ("score", "p_value"))
            match content.get("reason"):
                case str(reason) if (
                    type(start) is int
                    and type(end) is int
                    and 0 <= start < end
                    and isinstance(text, str | None)
                    and (score is None) == (p_value is None)
                ):
                    return cls(start, end, text, score, p_value, reason)
        raise InputError(
            "each of a decision's removed must hold start, end, score, p_value and reason of a "
            f"sentence; got {content!r:.80}"
        )


def parse_trimming(content: Mapping[str, Any]) -> tuple[str | None, tuple[Removed, ...] | None]:
    """Return the text and the removed sentences of a decision by sentences."""
    if "removed" not in content:
        return None, None
    removed, text, outcome = content["removed"], content.get("text"), content["outcome"]
    if not isinstance(removed, list | tuple):
        raise InputError(f"a decision's removed must be a list; got {removed!r:.80}")
    if not isinstance(text, str | None) or (text is not None and outcome in ("review", "error")):
        raise InputError(
            f"a decision's text must be one, or null where nothing may be shown; got {text!r:.80} "
            f"with the outcome {outcome}"
        )
    if removed and outcome == "pass":
        raise InputError(f"a decision that passes has no sentences removed; got {len(removed)}")
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

    def __post_init__(self) -> None:
        if self.cause is _NO_CAUSE:
            cause = SCORED if self.score is not None else cause_in_old_reason(self.reason)
            object.__setattr__(self, "cause", cause)

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

    def to_dict(self, *, evidence: bool = False) -> dict[str, Any]:
        """Return the JSON object that ``calibrail check`` writes, with its evidence if asked.

        Where the score is a column of the data it holds ``column``, ``column_value`` and
        ``column_threshold``, too; of a guardrail of sentences ``text`` and ``removed``. Without a
        score it holds ``cause``: where there is one, the score and its threshold are the cause.
        """
        left_out = {"scale", "text", "removed", "cause"} | (set() if evidence else {"evidence"})
        names = [name for name in self.__dataclass_fields__ if name not in left_out]
        content = {name: getattr(self, name) for name in names}
        if self.score is None:
            content["cause"] = self.cause.to_dict()
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
            parse_number(content, name) for name in ("score", "threshold", "p_value")
        )
        if p_value is not None and not 0.0 < p_value <= 1.0:
            raise InputError(f"a decision's p_value must lie in (0, 1]; got {p_value!r}")
        if (score is None) != (p_value is None):
            raise InputError(
                f"a decision has a score and a p_value, or neither; got {score!r} and {p_value!r}"
            )
        passes, cause = content["outcome"] == "pass", parse_cause(content)
        if passes and score is None and cause.code != "score_undefined":
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
            *parse_trimming(content),
            cause=cause,
        )

    def line(self, *, evidence: bool = False) -> str:
        """Return that object as JSON in one line: equal decisions are equal bytes everywhere."""
        return json.dumps(self.to_dict(evidence=evidence), ensure_ascii=False, allow_nan=False)


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
    raise InputError(
        f"a decision's score and threshold are {kept!r}; its column {column!r} shows {shown!r}"
    )


#: Of a sentence that goes though its score does not reach the threshold.
NOTHING_LEFT: Final = "nothing is left of what it introduces"

#: Why an answer cannot be trimmed.
TEARS: Final[dict[Tear, str]] = {
    "leans": "a sentence that would be left cannot do without one that would go",
    "together": "what would go is part of a code block, a row of a table, a quotation or brackets",
}


def reason_of(
    rule: Rule, scale: Scale, value: float, threshold: float | None, outcome: Outcome
) -> str:
    """Return the sentence.

    Parameters
    ----------
    rule : Rule
        The thresholds.
    scale : Scale
        In which numbers its user knows the score.
    value : float
        The nonconformity score, as it is shown.
    threshold : float or None
        That of the answer's group; None when everything is flagged.
    outcome : str
        What was decided.
    """
    if threshold is None and isinstance(rule.groups, OverlappingCalibration):
        return "flagged whatever the score: too few calibration examples share the answer's groups"
    if threshold is None:
        return "this guardrail flags everything: there were too few calibration examples"
    upper = rule.flag_above
    score = f"{scale.column or 'score'} {number(scale.shown(value), 6)}"
    edge = f"the threshold {number(scale.shown(threshold), 6)}"
    if upper is not None and outcome != "pass" and (upper >= threshold or outcome == "review"):
        flagging = f"the one for flagging, {number(scale.shown(upper), 6)}"
        if outcome == "review":
            return f"{score} is {scale.reaching} {edge} but not {scale.suspicious} {flagging}"
        return f"{score} is {scale.suspicious} {flagging.replace('one', 'threshold')}"
    if outcome == "pass":
        return f"{score} is {scale.harmless} {edge}"
    if value < threshold:
        return f"{score} is within rounding of {edge}"
    return f"{score} is {scale.reaching} {edge}"


def reason_of_trimming(
    outcome: Outcome,
    *,
    n: int,
    n_removed: int,
    n_undefined: int,
    worst: str | None,
    tear: Tear | None,
    policy: Undefined,
) -> str:
    """Return the sentence about an answer whose sentences were judged; it quotes nothing.

    Parameters
    ----------
    outcome : str
        What was decided.
    n, n_removed, n_undefined : int
        Sentences of the answer; those that go; those without a score.
    worst : str or None
        The reason of the sentence with the highest score; None where none has one.
    tear : str or None
        Why the answer cannot be trimmed.
    policy : str
        What becomes of a sentence without a score.
    """
    if n == 0:
        return reason_of_cause(Cause("score_undefined"), policy, "the response holds no sentence")
    parts = []
    if n_undefined:
        parts.append(f"{UNDEFINED} of {n_undefined} of {count(n, 'sentence')}; policy: {policy}")
    if outcome == "review" and tear is not None:
        parts.append(TEARS[tear])
    elif outcome != "review":
        parts.append(f"{n_removed} of {count(n, 'sentence')} removed" if n_removed else "all stays")
    if worst is not None:
        parts.append(f"of the worst sentence, {worst}")
    return "; ".join(parts)


#: A score is shown to digits this many times as wide as its tolerance, so that few need a second
#: look: one in fifteen at most.
_WIDTH: Final = 30
#: How much of its tolerance a score may have moved. The rest keeps ties apart from neighbours.
_MOVED: Final = 1.0 - 1e-6


@dataclass(frozen=True, slots=True)
class StableDecisions:
    """The decisions of a rule about scores, and which of them no batch changes.

    Attributes
    ----------
    codes : ndarray of int8, shape (n,)
        Positions in ``calibrail.conformal.DECISIONS``.
    thresholds, p_values : ndarray of float64, shape (n,)
        The threshold of each answer's group; the p-value, without meaning where the score is NaN.
    shown : ndarray of float64, shape (n,)
        The scores to the digits that are certain, or as they are where these digits would stand on
        the other side of a threshold.
    certain : ndarray of bool, shape (n,)
        Whether all of this is the same within the tolerance.
    """

    codes: NDArray[np.int8]
    thresholds: NDArray[np.float64]
    p_values: NDArray[np.float64]
    shown: NDArray[np.float64]
    certain: NDArray[np.bool_]


def frozen_rule(config: FrozenConfig) -> Rule:
    """Return the thresholds of a frozen guardrail.

    Raises
    ------
    GuardrailError
        If they are not those of its promise and policy.
    """
    rule = Rule.from_dict(vars(config))
    if (config.promise.by is None) != (config.groups is None):
        raise GuardrailError("by and groups must stand together; calibrate again")
    columns = getattr(rule.groups, "columns", None)
    if columns is not None and columns != config.promise.by:
        raise GuardrailError("by and the columns of groups differ; calibrate again")
    if rule.undefined != config.policy.undefined:
        raise GuardrailError(
            f"policy.undefined is {config.policy.undefined!r} but the calibration counted "
            f"undefined scores as {rule.undefined!r}; calibrate again"
        )
    return rule


def decide_stably(
    rule: Rule,
    values: NDArray[np.float64],
    groups: Groups,
    tolerance: float,
    *,
    alone: bool = False,
) -> StableDecisions:
    """Apply a rule to scores; mark which decisions cannot change with the batch.

    Parameters
    ----------
    rule : Rule
        The thresholds.
    values : ndarray of float64, shape (n,)
        Scores, higher = more likely hallucinated; NaN where undefined.
    groups : sequence of str, or None
        The answers' groups, where the rule has thresholds by group.
    tolerance : float
        How far two computations of one score may differ.
    alone : bool
        Whether each was scored by itself, so that there is no other score to be told apart from.
    """
    missing = np.isnan(values)

    def outcomes_of(scores: NDArray[np.float64]) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
        p_values = rule.p_value(np.where(missing, 0.0, scores), groups, tolerance)
        return rule.decide(scores, groups, tolerance), p_values

    codes, p_values = outcomes_of(values)
    thresholds = rule.thresholds(len(values), groups)
    if tolerance == 0.0:
        return StableDecisions(
            codes, thresholds, p_values, values, np.ones(len(values), dtype=np.bool_)
        )
    digits = _digits(tolerance)
    rounded = np.round(values, digits)
    faithful = rule.decide(rounded, groups, tolerance) == codes
    shown = np.where(faithful, rounded, values)
    if alone:
        return StableDecisions(
            codes, thresholds, p_values, shown, np.ones(len(values), dtype=np.bool_)
        )
    certain = missing | faithful
    # What does not change from the lowest to the highest value changes nowhere between.
    moved = _MOVED * tolerance
    low, high = values - moved, values + moved
    for before, after in zip(outcomes_of(low), outcomes_of(high), strict=True):
        certain &= missing | (before == after)
    certain &= missing | (np.round(low, digits) == np.round(high, digits))
    return StableDecisions(codes, thresholds, p_values, shown, certain)


def shown_within(tolerance: float) -> float:
    """Return how far a score that is shown may lie from the one that was decided about.

    >>> shown_within(0.0), shown_within(1e-4)
    (0.0, 0.005)
    """
    return 0.0 if tolerance == 0.0 else 0.5 * 10.0 ** -_digits(tolerance)


def _digits(tolerance: float) -> int:
    return math.floor(-math.log10(_WIDTH * tolerance))


@dataclass(frozen=True, slots=True)
class RowDecision:
    """The decision of the rule about one row: an answer, or a sentence of one.

    Attributes
    ----------
    outcome : {"pass", "flag", "review"}
        By the threshold, or by the policy for undefined scores. Without meaning after an error.
    score : float or None
        As it is shown; None where it is undefined, or the detector failed.
    threshold : float or None
        That of the row's group; None where everything is flagged.
    p_value : float or None
        None without a score.
    reason : str
        Why, in one sentence.
    evidence : mapping or None
        What the score rests on.
    error : BaseException or None
        What the detector raised.
    """

    outcome: RuleOutcome
    score: float | None
    threshold: float | None
    p_value: float | None
    reason: str
    evidence: Mapping[str, Any] | None = None
    error: BaseException | None = None


class DecisionRule:
    """Judges rows by a rule and a detector; a verdict does not depend on what is judged beside it.

    Parameters
    ----------
    rule : Rule
        The thresholds.
    score : Score
        The detector.
    by : str, tuple of str, or None
        The columns of each row's groups, where groups have thresholds of their own.
    """

    def __init__(self, rule: Rule, score: Score, by: By) -> None:
        self._rule, self._score, self._by = rule, score, by

    @property
    def scale(self) -> Scale:
        """In which numbers the detector's user knows its score."""
        return scale_of(self._score)

    def decide(self, rows: Sequence[Example], *, alone: bool = False) -> list[RowDecision]:
        """Return a verdict on each row.

        Parameters
        ----------
        rows : sequence of Example
            Answers or sentences.
        alone : bool
            Whether each is scored with nothing remembered, so that its evidence is the same, too.
        """
        if alone:
            return list(map(self._alone, rows))
        if not rows:
            return []
        try:
            scores = self._score.score(rows)
        except Exception as error:
            # A detector is foreign code: whatever it raises costs one row, not the batch, and
            # is reported as the failure that it is.
            if len(rows) == 1 or isinstance(error, ModelError | BudgetError):
                # A model that cannot be had, or may not be asked, fails on every row alike.
                return [self.failed(row, error) for row in rows]
            return [self.decide([row])[0] for row in rows]
        return self.judged(rows, scores)

    def judged(
        self, rows: Sequence[Example], scores: Scores, *, alone: bool = False
    ) -> list[RowDecision]:
        """Return a verdict on each row by its score.

        Parameters
        ----------
        rows : sequence of Example
            Answers or sentences.
        scores : Scores
            Theirs.
        alone : bool
            Whether the one row was scored with nothing remembered.
        """
        groups, tolerance = self._groups(rows), self._score.tolerance
        stable = decide_stably(self._rule, scores.values, groups, tolerance, alone=alone)
        scale, verdicts = self.scale, []
        for place, row in enumerate(rows):
            if not stable.certain[place]:
                verdicts.append(self._alone(row))
                continue
            if isinstance(why := scores.reasons.get(place), DetectorFailure):
                verdicts.append(self.failed(row, ModelError(why)))
                continue
            outcome, threshold = DECISIONS[stable.codes[place]], _finite(stable.thresholds[place])
            evidence = (scores.evidence[place] or None) if scores.evidence else None
            if np.isnan(scores.values[place]):
                value, p_value = None, None
                reason = reason_of_cause(Cause("score_undefined"), outcome, str(why))
            else:
                value, p_value = float(stable.shown[place]), float(stable.p_values[place])
                reason = reason_of(self._rule, scale, value, threshold, outcome)
            verdicts.append(RowDecision(outcome, value, threshold, p_value, reason, evidence))
        return verdicts

    def holds(self, row: Example, scores: Scores) -> bool:
        """Return whether a row's outcome is the same wherever its score lies within tolerance."""
        tolerance, groups = self._score.tolerance, self._groups([row])
        low, high = (
            self._rule.decide(scores.values + by, groups, tolerance)
            for by in (-tolerance, tolerance)
        )
        return bool(low[0] == high[0])

    def alone_costs_no_more(self, row: Example) -> bool:
        """Return whether sentences like this are best scored alone at once.

        Nothing runs beside the one that a model has just written, and a near tie would be scored
        alone after all.
        """
        return self._score.tolerance > 0.0 and background_of(self._score, row) is not None

    def threshold(self, row: Example) -> float | None:
        """Return the threshold of a row's group; None where everything is flagged."""
        return _finite(self._rule.thresholds(1, self._groups([row]))[0])

    def failed(self, row: Example, error: BaseException) -> RowDecision:
        """Return the verdict on a row that could not be judged."""
        return RowDecision("flag", None, self.threshold(row), None, "", error=error)

    def group_of(self, row: Example) -> str:
        """Return the name of a row's group, or of its groups where several columns name them.

        One without a group belongs to no known one; without groups it is empty. The length is that
        of the answer, which a sentence of it carries along.
        """
        if self._by is None:
            return ""
        characters = row.columns.get(CHARACTERS)
        length = len(row.response) if characters is None else float(characters)
        return group_key(self._by, row.columns, length, getattr(self._rule.groups, "cuts", None))

    def _groups(self, rows: Sequence[Example]) -> list[str] | None:
        return None if self._by is None else [self.group_of(row) for row in rows]

    def _alone(self, row: Example) -> RowDecision:
        """Judge one row as if no other had been seen before."""
        try:
            scores = scored_alone(self._score, row)
        except Exception as error:
            return self.failed(row, error)
        return self.judged([row], scores, alone=True)[0]


def _finite(threshold: float) -> float | None:
    return None if np.isinf(threshold) else float(threshold)
