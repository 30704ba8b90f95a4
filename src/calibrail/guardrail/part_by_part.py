"""What does a guardrail say of an answer of which no more is written than some sentences?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from calibrail.conformal.group_keys import LENGTH, reads_length
from calibrail.data.by_sentence import sentence_example
from calibrail.data.example import Example, GivenSentence
from calibrail.errors import GuardrailError
from calibrail.guardrail.decision import Decision
from calibrail.guardrail.judge import Verdict
from calibrail.scores.alone import scored_alone
from calibrail.scores.base import Score, Scores
from calibrail.scores.column import Column
from calibrail.scores.registry import spell
from calibrail.scores.worst_sentence import WorstSentence, together
from calibrail.settings import Promise

if TYPE_CHECKING:
    from calibrail.guardrail.runtime import Guardrail

_REMEDY: Final = (
    "calibrate with --unit sentence, or with --score worst_sentence:detector={}, and export that"
)


class Parts(Protocol):
    """Judges one sentence of an answer after the other, and then the answer."""

    #: Whether an answer is stopped at a sentence without a score that does not pass.
    stops_at_undefined: bool

    def verdict(self, answer: Example, place: GivenSentence) -> Verdict:
        """Return the verdict on the next sentence of an answer, which is written up to its end."""

    def may_show(self) -> bool:
        """Return whether what was judged would pass if the answer ended here."""

    def decision(self, answer: Example) -> Decision:
        """Return the decision of ``check`` about an answer with the first of these sentences."""


def parts_of(guardrail: Guardrail, asked: Example) -> Parts:
    """Return what judges sentences as a guardrail does.

    Parameters
    ----------
    guardrail : Guardrail
        The guardrail.
    asked : Example
        The answer, of which nothing is written yet.

    Raises
    ------
    GuardrailError
        If it cannot.
    """
    score = guardrail.score
    if why := why_no_parts(score, guardrail.config.promise):
        raise GuardrailError(why)
    if isinstance(score, WorstSentence) and guardrail.unit == "answer":
        return _Worst(guardrail, score, asked)
    return _Sentences(guardrail, asked)


def why_no_parts(score: Score, promise: Promise) -> str | None:
    """Return why a guardrail of a score cannot judge sentence by sentence; None where it can."""
    if (column := _column(score)) is not None:
        return (
            f"this guardrail reads the column {column}, which nobody has computed while an answer "
            "is still being written; " + _REMEDY.format("NAME")
        )
    if reads_length(promise.by):
        return (
            "this guardrail's thresholds depend on how long an answer is, which nobody knows while "
            f"it is being written; calibrate without {LENGTH} among the groups (by)"
        )
    if promise.unit == "sentence" or isinstance(score, WorstSentence):
        return None
    return (
        f"this guardrail judges whole answers by {score.name}, so that it cannot say anything of "
        "one that is still being written; " + _REMEDY.format(spell(score))
    )


def _column(score: Score) -> str | None:
    """Return the column that a score, or a member of it, is read from."""
    if isinstance(score, Column):
        return score.column
    members: Any = getattr(score, "members", None)
    found = map(_column, members.values()) if isinstance(members, Mapping) else ()
    return next((name for name in found if name is not None), None)


class _Sentences:
    """Sentences of which those that reach the threshold are removed."""

    stops_at_undefined = True

    def __init__(self, guardrail: Guardrail, asked: Example) -> None:
        self._guardrail = guardrail
        self._judged: list[tuple[Example, Verdict]] = []
        self._alone = guardrail.judge.alone_costs_no_more(asked)

    def verdict(self, answer: Example, place: GivenSentence) -> Verdict:
        sentence = sentence_example(answer, place, len(self._judged) + 1)
        (verdict,) = self._guardrail.judge.of([sentence], alone=self._alone)
        self._judged.append((sentence, verdict))
        return verdict

    def may_show(self) -> bool:
        return True

    def decision(self, answer: Example) -> Decision:
        judged = self._judged[: len(answer.sentences or ())]
        sentences, verdicts = [item for item, _ in judged], [verdict for _, verdict in judged]
        return self._guardrail.of_sentences(answer, sentences, verdicts)


class _Worst:
    """Sentences of which the highest score is that of the answer."""

    stops_at_undefined = False

    def __init__(self, guardrail: Guardrail, score: WorstSentence, asked: Example) -> None:
        self._guardrail, self._score = guardrail, score
        self._alone = guardrail.judge.alone_costs_no_more(asked)
        self._judged: list[tuple[Example, Scores | BaseException]] = []
        self._passes = guardrail.config.policy.undefined == "pass"

    def verdict(self, answer: Example, place: GivenSentence) -> Verdict:
        judge = self._guardrail.judge
        sentence = sentence_example(answer, place, len(self._judged) + 1)
        member = self._score.member
        try:
            scores = scored_alone(member, sentence) if self._alone else member.score([sentence])
        except Exception as error:
            self._judged.append((sentence, error))
            return judge.failed(sentence, error)
        # Otherwise only the answer's own digits are shown to be certain, once, at its end.
        certain = self._alone or judge.holds(sentence, scores)
        (verdict,) = judge.judged([sentence], scores, alone=certain)
        self._judged.append((sentence, verdict.error or scores))
        # Sentences without a score do not count beside one that has one.
        self._passes = self._passes or verdict.score is not None
        return verdict

    def may_show(self) -> bool:
        return self._passes

    def decision(self, answer: Example) -> Decision:
        guardrail, parts = self._guardrail, list[Scores]()
        judged = self._judged[: len(answer.sentences or ())]
        for _, scores in judged:
            if isinstance(scores, BaseException):
                return guardrail.failed(answer, scores)
            parts.append(scores)
        if not judged or self._score.lacking([answer]):
            (verdict,) = guardrail.judge.of([answer])
            return guardrail.of_answer(answer, verdict)
        scored = together(answer, [sentence for sentence, _ in judged], parts)
        (verdict,) = guardrail.judge.judged([answer], scored, alone=self._alone)
        return guardrail.of_answer(answer, verdict)
