"""What does a guardrail of sentences say of an answer, and what of it may be shown?"""

from collections.abc import Mapping, Sequence

import numpy as np

from calibrail.data.by_sentence import require_judgeable, sentence_examples, sentences_of
from calibrail.data.example import Example
from calibrail.data.rows import FieldError
from calibrail.errors import InputError
from calibrail.guardrail.cause import SCORED, Cause
from calibrail.guardrail.decision import Decision
from calibrail.guardrail.judge import Verdict
from calibrail.guardrail.reasons import NOTHING_LEFT, reason_of_trimming
from calibrail.guardrail.removed import Removed
from calibrail.scale import Scale
from calibrail.scores.base import JSON
from calibrail.scores.worst_sentence import moved
from calibrail.settings.promise import Undefined
from calibrail.text.joins import Place, joins
from calibrail.text.trimming import trim


def sentences_to_judge(answer: Example, columns: Sequence[str]) -> list[Example]:
    """Return the sentences of an answer, each with its own cell of the columns that are read.

    Raises
    ------
    InputError
        If a cell holds a list of another number of values than the answer has sentences, or the
        answer is too long: what stands before each sentence is a part of it.
    """
    _require_judgeable(answer, columns)
    return sentence_examples(answer)


def refuse_long(answer: Example) -> None:
    """Refuse an answer whose sentences cannot each be judged after what stands before it.

    Raises
    ------
    InputError
        The remedy is named.
    """
    _require_judgeable(answer)


def _require_judgeable(answer: Example, columns: Sequence[str] = ()) -> None:
    try:
        require_judgeable(answer, columns)
    except FieldError as bad:
        of_text = bad.field in ("response", "sentences")
        whose = "the answer" if of_text else f"column {bad.field}"
        what = f"{whose} holds {bad.value}: {bad.reason}; {bad.remedy}"
        raise InputError(what) from None


def trimmed(
    answer: Example,
    sentences: Sequence[Example],
    verdicts: Sequence[Verdict],
    *,
    threshold: float | None,
    undefined: Undefined,
    scale: Scale,
) -> Decision:
    """Return the decision about an answer from the verdicts on its sentences, none an error.

    Parameters
    ----------
    answer : Example
        The answer.
    sentences : sequence of Example
        What `sentences_to_judge` made of it.
    verdicts : sequence of Verdict
        One a sentence.
    threshold : float or None
        That of the answer's group.
    undefined : {"flag", "review", "pass"}
        The policy for a sentence without a score: it is removed, its answer is for people, or it
        stays.
    scale : Scale
        In which numbers the detector's user knows its score.
    """
    places = sentences_of(answer)
    scored = [verdict for verdict in verdicts if verdict.score is not None]
    worst = max(scored, key=lambda verdict: verdict.score or 0.0, default=None)
    asked = np.array([verdict.outcome == "flag" for verdict in verdicts], dtype=np.bool_)
    shown: str | None = answer.response if places or undefined == "pass" else ""
    tear, also = None, tuple[int, ...]()
    if asked.any():
        left = trim(answer.response, places, asked, joins(answer.response, places))
        shown, tear, also = left.text, left.review, left.also_removed
    outcome: Undefined = "flag" if asked.any() else "pass"
    if not places:
        outcome = undefined
    if tear is not None or any(verdict.outcome == "review" for verdict in verdicts):
        outcome = "review"
    removed = tuple(
        Removed(
            start=place.start,
            end=place.end,
            text=sentence.response,
            score=verdict.score,
            p_value=verdict.p_value,
            reason=NOTHING_LEFT if row in also else verdict.reason,
        )
        for row, (place, sentence, verdict) in enumerate(
            zip(places, sentences, verdicts, strict=True)
        )
        if asked[row] or row in also
    )
    reason = reason_of_trimming(
        outcome,
        n=len(places),
        n_removed=len(removed),
        n_undefined=len(places) - len(scored),
        worst=None if worst is None else worst.reason,
        tear=tear,
        policy=undefined,
    )
    return Decision(
        answer.id,
        outcome,
        None if worst is None else worst.score,
        threshold,
        None if worst is None else worst.p_value,
        reason,
        _evidence(places, sentences, verdicts),
        scale,
        text=None if outcome == "review" else shown,
        removed=removed,
        cause=Cause("score_undefined") if worst is None else SCORED,
    )


def _evidence(
    places: Sequence[Place], sentences: Sequence[Example], verdicts: Sequence[Verdict]
) -> Mapping[str, JSON] | None:
    """Return what the score of each sentence rests on, by its place in the answer."""
    items: list[JSON] = []
    for place, sentence, verdict in zip(places, sentences, verdicts, strict=True):
        item: dict[str, JSON] = {
            "text": sentence.response,
            "start": place.start,
            "end": place.end,
            "value": verdict.score,
        }
        if verdict.score is None:
            item["reason"] = verdict.reason
        if verdict.evidence:
            item["evidence"] = moved(verdict.evidence, place.start)
        items.append(item)
    return {"kind": "sentences", "items": items} if items else None
