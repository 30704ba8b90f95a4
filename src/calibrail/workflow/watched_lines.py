"""Which decisions of a log are those of this guardrail, and what does a watch take of them?"""

import math
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import DECISIONS
from calibrail.errors import InputError
from calibrail.guardrail.cause import Cause
from calibrail.guardrail.decision import cause_in
from calibrail.guardrail.decision_log.cursor import Tally
from calibrail.guardrail.decision_log.tail import Logged
from calibrail.guardrail.frozen import FrozenConfig
from calibrail.guardrail.judged import frozen_rule
from calibrail.monitoring.rows import Rows
from calibrail.report.documents.log import skipped

_LARGEST: Final = sys.float_info.max

#: Guardrails that are named with the number of their decisions.
_NAMED: Final = 20


def usable(lines: Sequence[Logged], config: FrozenConfig, tally: Tally) -> list[Logged]:
    """Return the lines that hold decisions of this guardrail, as its frozen rule gives them.

    Every other one is counted, and named unless it is another guardrail's: one without the fields
    of a decision, one whose outcome is not that of its score, and one that names no guardrail and
    bears a threshold that this one does not have.

    Parameters
    ----------
    lines : sequence of Logged
        What `read_on` gives.
    config : FrozenConfig
        The guardrail; its detector is not needed.
    tally : Tally
        Counts and names what is not used.
    """
    if config.digest not in _JUDGES:
        _JUDGES.clear()
        _JUDGES[config.digest] = _Judge(config)
    return _JUDGES[config.digest].usable(lines, tally)


class _Judge:
    """Tells the decisions of one guardrail from those that it did not make."""

    def __init__(self, config: FrozenConfig) -> None:
        self._digest, self._tolerance = config.digest, config.score.tolerance
        self._rule, self._failure = frozen_rule(config), config.policy.failure
        # Where a line does not name its group, the threshold beside the score does.
        self._groups: dict[float, str] = {}
        if self._rule.groups is not None:
            self._groups = self._rule.groups.deciding()
        self._thresholds = {*self._groups} or {float(self._rule.thresholds(1)[0])}

    def usable(self, lines: Sequence[Logged], tally: Tally) -> list[Logged]:
        kept = [line for line in lines if self._is_own(line, tally)]
        scored = [line for line in kept if line.content["score"] is not None]
        outcomes = self._outcomes(scored)
        wrong = {
            id(line): outcome
            for line, outcome in zip(scored, outcomes, strict=True)
            if line.content["outcome"] != outcome
        }
        for line in kept:
            if line.content["score"] is None:
                due = self._without_score(line.content)
                if due != line.content["outcome"]:
                    wrong[id(line)] = due
        for line in kept:
            if id(line) in wrong:
                given = {name: line.content[name] for name in ("score", "outcome")}
                tally.refuse("outcome", line.file, line.number, **given, rule=wrong[id(line)])
        tally.used += len(kept) - len(wrong)
        return [line for line in kept if id(line) not in wrong]

    def _is_own(self, line: Logged, tally: Tally) -> bool:
        content = line.content
        digest = content.get("guardrail", self._digest)
        if digest != self._digest:
            tally.skip("other_guardrail")
            name = str(digest)[:80]
            if name in tally.others or len(tally.others) < _NAMED:
                tally.others[name] = tally.others.get(name, 0) + 1
            return False
        score = content.get("score", "")
        cause = None
        if (
            isinstance(content.get("id"), str)
            and isinstance(content.get("outcome"), str)
            and isinstance(content.get("reason"), str)
            and (score is None or _is_number(score))
        ):
            with suppress(InputError):
                cause = cause_in(content)
        if cause is None:
            tally.refuse("malformed", line.file, line.number)
            return False
        if cause.code == "seen_before":
            tally.skip("seen_before")
            return False
        if "guardrail" not in content and not self._has(content, cause):
            # What `calibrail check` writes names no guardrail: its threshold tells which it was.
            tally.refuse("threshold", line.file, line.number, threshold=content.get("threshold"))
            return False
        return True

    def _has(self, content: Any, cause: Cause) -> bool:
        """Return whether the threshold beside a score is one of this guardrail's."""
        threshold = content.get("threshold")
        if threshold is None and self._groups and cause.code == "row_unusable":
            return True
        return (threshold is None or _is_number(threshold)) and _edge(threshold) in self._thresholds

    def _outcomes(self, lines: Sequence[Logged]) -> list[str]:
        """Return what the frozen rule says of the scores of lines."""
        scores = np.array([line.content["score"] for line in lines], np.float64)
        groups = None
        if self._rule.groups is not None:
            groups = [self._group(line.content) for line in lines]
        codes = self._rule.decide(scores, groups, self._tolerance)
        return [DECISIONS[code] for code in codes.tolist()]

    def _group(self, content: Any) -> str:
        if isinstance(name := content.get("group"), str):
            return name
        threshold = content.get("threshold")
        if threshold is not None and not _is_number(threshold):
            return ""
        return self._groups.get(_edge(threshold), "")

    def _without_score(self, content: Any) -> str:
        cause = cause_in(content)
        if cause.code == "score_undefined":
            return self._rule.undefined
        if cause.code == "row_unusable":
            return "error"
        return self._failure if cause.failed else ""


#: Why a line that should hold a decision of this guardrail cannot be used.
_REFUSED: Final = ("other_guardrail", "threshold", "outcome", "malformed", "changed", "time")


def none_used(tally: Tally, config: FrozenConfig) -> str | None:
    """Return why no line of a log can be used; None where one was, or none should have been.

    Parameters
    ----------
    tally : Tally
        What was met in the log.
    config : FrozenConfig
        The guardrail.
    """
    reasons = {code: tally.skipped[code] for code in _REFUSED if code in tally.skipped}
    n = sum(reasons.values())
    if tally.used or not n:
        return None
    first = next((item for item in tally.findings if item.code in reasons), None)
    where = "" if first is None else f", the first in {first.file}, line {first.line}"
    if reasons.keys() == {"malformed"}:
        return (
            f"none of the {n:,} lines read is a decision of a guardrail{where}; name the folder of "
            "`calibrail serve --log`, or the file of `calibrail check -o`"
        )
    listed = ", ".join(f"{count:,} {skipped(code)}" for code, count in reasons.items())
    others = ", ".join(f"{name:.19}... ({count:,})" for name, count in tally.others.items())
    return (
        f"none of the {n:,} decisions in this log can be used: {listed}{where}"
        + (f"; they are of {others}" if others else "")
        + f". The guardrail given is {config.digest:.19}...; name its log, or the guardrail that "
        "made these decisions"
    )


#: Of the guardrail last asked about: making its rule takes longer than a block of lines.
_JUDGES: Final[dict[str, _Judge]] = {}


def rows_of(lines: Sequence[Logged]) -> Rows:
    """Return usable lines as what a watch takes, in their order."""
    contents = [line.content for line in lines]
    traffic = [_traffic(content) for content in contents]
    undefined = [cause_in(content).code == "score_undefined" for content in contents]
    return Rows.of(
        [content["score"] for content in contents],
        [content["outcome"] != "pass" for content in contents],
        undefined=undefined,
        failed=[
            content["score"] is None and not row
            for content, row in zip(contents, undefined, strict=True)
        ],
        time=[line.moment for line in lines],
        question_length=_numbers(traffic, "question"),
        response_length=_numbers(traffic, "response"),
        chunks=_numbers(traffic, "chunks"),
        language=[_text(item.get("language")) for item in traffic],
        ref=[(line.chain, line.seq, line.content["id"]) for line in lines],
    )


def _traffic(content: Any) -> Any:
    """Return lengths and language; of a line with texts that lacks them, what the texts give."""
    if isinstance(given := content.get("traffic"), dict):
        return given
    texts = {name: content.get(name) for name in ("question", "response")}
    lengths: dict[str, int] = {
        name: len(text) for name, text in texts.items() if isinstance(text, str)
    }
    if isinstance(chunks := content.get("contexts"), list):
        lengths["chunks"] = len(chunks)
    return lengths


def _numbers(traffic: Sequence[Any], name: str) -> NDArray[np.float64]:
    values = (item.get(name) for item in traffic)
    return np.array(
        [value if _is_number(value) and value >= 0 else math.nan for value in values],
        np.float64,
    )


def _is_number(value: Any) -> bool:
    """Return whether a value is a number that a float holds, and finite."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return known and -_LARGEST <= value <= _LARGEST


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _edge(threshold: float | None) -> float:
    """Return a threshold as rules have it; none at all flags everything."""
    return -math.inf if threshold is None else float(threshold)
