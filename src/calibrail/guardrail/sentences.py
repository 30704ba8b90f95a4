"""Decisions by sentence: removal from an answer, and checks while it is written.

A sentence is judged as soon as it is over, by what `check` judges it by: its place, its text, what
stands before it. The highest score so far only rises, so that an answer is stopped at its first
sentence at or above the threshold, and `check` would not let it pass either, whatever followed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

import numpy as np

import calibrail
from calibrail.conformal.group_thresholds import LENGTH, reads_length
from calibrail.data import sentences
from calibrail.data.example import Example, FieldError, GivenSentence
from calibrail.data.sentences import MOST_BEFORE, MOST_CHARACTERS, sentence_examples, sentences_of
from calibrail.errors import GuardrailError, InputError, error_text
from calibrail.formatting import Scale, count
from calibrail.guardrail.decision import SCORED, Cause, Decision, Outcome, Removed
from calibrail.guardrail.decision_rule import NOTHING_LEFT, RowDecision, reason_of_trimming
from calibrail.options import Promise
from calibrail.options.guarantee import Undefined
from calibrail.scores.base import JSON, Score, Scores, parts_of, scored_alone
from calibrail.scores.members import WorstSentence, companion_scores, shift_offsets
from calibrail.scores.registry import ColumnScore, spell
from calibrail.text.removal import trim
from calibrail.text.sentences import Sentence, SentenceStream
from calibrail.text.structure import joins


def sentences_to_judge(answer: Example, columns: Sequence[str]) -> list[Example]:
    """Return the sentences of an answer, each with its own cell of the columns that are read.

    Raises
    ------
    InputError
        If a cell holds a list of another number of values than the answer has sentences, or the
        answer is too long: what stands before each sentence is a part of it.
    """
    refuse_long(answer, columns)
    return sentence_examples(answer)


def with_sentences(answer: Example) -> Example:
    """Return an answer with its sentences, which are looked for this once.

    Raises
    ------
    InputError
        If it is too long for that.
    """
    with _field_told():
        sentences.require_length(answer)
    return replace(answer, sentences=sentences_of(answer))


def refuse_long(answer: Example, columns: Sequence[str] = ()) -> None:
    """Refuse an answer whose sentences cannot each be judged after what stands before it.

    Raises
    ------
    InputError
        The remedy is named.
    """
    with _field_told():
        sentences.require_judgeable(answer, columns)


@contextmanager
def _field_told() -> Iterator[None]:
    """Raise what is wrong with a field in words."""
    try:
        yield
    except FieldError as bad:
        of_text = bad.field in ("response", "sentences")
        whose = "the answer" if of_text else f"column {bad.field}"
        raise InputError(f"{whose} holds {bad.value}: {bad.reason}; {bad.remedy}") from None


def decision_from_sentences(
    answer: Example,
    verdicts: Sequence[RowDecision],
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
    removed, evidence = list[Removed](), list[JSON]()
    for row, place in enumerate(places):
        verdict, text = verdicts[row], answer.response[place.start : place.end]
        at, why = (place.start, place.end, text), verdict.reason
        if asked[row] or row in also:
            why = NOTHING_LEFT if row in also else why
            removed.append(Removed(*at, verdict.score, verdict.p_value, why))
        item: dict[str, JSON] = {"text": text, "start": place.start, "end": place.end}
        item["value"] = verdict.score
        if verdict.score is None:
            item["reason"] = verdict.reason
        if verdict.evidence:
            item["evidence"] = shift_offsets(verdict.evidence, place.start)
        evidence.append(item)
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
        {"kind": "sentences", "items": evidence} if evidence else None,
        scale,
        text=None if outcome == "review" else shown,
        removed=tuple(removed),
        cause=Cause("score_undefined") if worst is None else SCORED,
    )


def why_not_streamed(score: Score, promise: Promise) -> str | None:
    """Return why a guardrail of a score cannot judge sentence by sentence; None where it can."""
    if (column := _column(score)) is not None:
        return error_text("column_not_streamed", column=column)
    if reads_length(promise.by):
        return error_text("length_not_streamed", length=LENGTH)
    if promise.unit == "sentence" or isinstance(score, WorstSentence):
        return None
    return error_text("answers_not_streamed", score=score, spelt=spell(score))


def _column(score: Score) -> str | None:
    """Return the column that a score, or a member of it, is read from."""
    return next((part.column for part in parts_of(score) if isinstance(part, ColumnScore)), None)


class SentenceRemoval:
    """Judges one sentence of an answer after the other; those at the threshold are removed.

    Parameters
    ----------
    guardrail : Guardrail
        The guardrail, of sentences.
    asked : Example
        The answer, of which nothing is written yet.
    """

    #: Whether an answer is stopped at a sentence without a score that does not pass.
    stops_at_undefined = True

    def __init__(self, guardrail: calibrail.Guardrail, asked: Example) -> None:
        self._guardrail = guardrail
        self._verdicts: list[RowDecision] = []
        self._alone = guardrail.judge.alone_costs_no_more(asked)

    def verdict(self, answer: Example, place: GivenSentence) -> RowDecision:
        """Return the verdict on the next sentence of an answer, which is written up to its end."""
        sentence = sentences.sentence_example(answer, place, len(self._verdicts) + 1)
        (verdict,) = self._guardrail.judge.decide([sentence], alone=self._alone)
        self._verdicts.append(verdict)
        return verdict

    def may_show(self) -> bool:
        """Return whether what was judged would pass if the answer ended here."""
        return True

    def decision(self, answer: Example) -> Decision:
        """Return the decision of ``check`` about an answer with the first of these sentences."""
        verdicts = self._verdicts[: len(answer.sentences or ())]
        return self._guardrail.decision_for_sentences(answer, verdicts)


class WorstSentenceJudge:
    """Judges one sentence of an answer after the other; the highest score is the answer's.

    Parameters
    ----------
    guardrail : Guardrail
        The guardrail, of answers.
    score : WorstSentence
        Its detector.
    asked : Example
        The answer, of which nothing is written yet.
    """

    stops_at_undefined = False

    def __init__(
        self, guardrail: calibrail.Guardrail, score: WorstSentence, asked: Example
    ) -> None:
        self._guardrail, self._score = guardrail, score
        self._alone = guardrail.judge.alone_costs_no_more(asked)
        self._judged: list[Scores | BaseException] = []
        self._passes = guardrail.config.policy.undefined == "pass"

    def verdict(self, answer: Example, place: GivenSentence) -> RowDecision:
        """Return the verdict on the next sentence of an answer, which is written up to its end."""
        judge = self._guardrail.judge
        sentence = sentences.sentence_example(answer, place, len(self._judged) + 1)
        member = self._score.member
        try:
            scores = scored_alone(member, sentence) if self._alone else member.score([sentence])
        except Exception as error:
            self._judged.append(error)
            return judge.failed(sentence, error)
        # Otherwise only the answer's own digits are shown to be certain, once, at its end.
        certain = self._alone or judge.holds(sentence, scores)
        (verdict,) = judge.judged([sentence], scores, alone=certain)
        self._judged.append(verdict.error or scores)
        # Sentences without a score do not count beside one that has one.
        self._passes = self._passes or verdict.score is not None
        return verdict

    def may_show(self) -> bool:
        """Return whether what was judged would pass if the answer ended here."""
        return self._passes

    def decision(self, answer: Example) -> Decision:
        """Return the decision of ``check`` about an answer with the first of these sentences."""
        guardrail, parts = self._guardrail, list[Scores]()
        if not answer.sentences or self._score.lacking([answer]):
            (verdict,) = guardrail.judge.decide([answer])
            return guardrail.decision_for_answer(answer, verdict)
        for scores in self._judged[: len(answer.sentences)]:
            if isinstance(scores, BaseException):
                return guardrail.failed(answer, scores)
            parts.append(scores)
        scored = companion_scores(answer, sentence_examples(answer), parts)
        (verdict,) = guardrail.judge.judged([answer], scored, alone=self._alone)
        return guardrail.decision_for_answer(answer, verdict)


@dataclass(frozen=True, slots=True)
class SentenceVerdict:
    """What a guardrail says of one sentence of an answer.

    Attributes
    ----------
    number : int
        Which one it is, counted from 1.
    start, end : int
        Its characters in the answer, half open.
    text : str
        What it says.
    outcome : {"pass", "flag", "review", "error"}
        By the threshold, or by the policies for undefined scores and for failures.
    score, threshold, p_value : float or None
        As those of a decision, of this sentence.
    reason : str
        Why, in one sentence.
    stop : bool
        Whether the answer is stopped here, or was before: nothing from this sentence on is shown.
    """

    number: int
    start: int
    end: int
    text: str
    outcome: Outcome
    score: float | None
    threshold: float | None
    p_value: float | None
    reason: str
    stop: bool

    def to_dict(self) -> dict[str, object]:
        """Return the fields."""
        return asdict(self)


class StreamCheck:
    """An answer that is still being written; made by ``Guardrail.stream_check``.

    Feed tokens, show what `release` returns, and stop the model where a verdict says so; or let
    `show` and `ashow` do all of that. For one thread at a time.

    Attributes
    ----------
    decision : Decision or None
        The decision about the answer once it has ended.
    stopped : SentenceVerdict or None
        The verdict that stopped it.

    Examples
    --------
    >>> check = guardrail.stream_check(contexts=["Tungsten has the symbol W."])  # doctest: +SKIP
    >>> for text in check.show(model.stream(prompt)):  # doctest: +SKIP
    ...     print(text, end="")
    >>> check.decision.outcome  # doctest: +SKIP
    'pass'
    """

    def __init__(self, guardrail: calibrail.Guardrail, asked: Example) -> None:
        for name in guardrail.columns:
            cell = asked.columns.get(name)
            if isinstance(cell, str) and cell.lstrip().startswith("["):
                raise InputError.on("column_of_unknown_sentences", name=name)
        score = guardrail.score
        if why := why_not_streamed(score, guardrail.config.promise):
            raise GuardrailError(why)
        self._sentence_judge: SentenceRemoval | WorstSentenceJudge
        if isinstance(score, WorstSentence) and guardrail.unit == "answer":
            self._sentence_judge = WorstSentenceJudge(guardrail, score, asked)
        else:
            self._sentence_judge = SentenceRemoval(guardrail, asked)
        self._guardrail, self._asked = guardrail, asked
        self._splitter = SentenceStream()
        self._written: list[str] = []
        self._places: list[GivenSentence] = []
        #: Characters that stand before the sentences judged so far, added up.
        self._before = 0
        #: Sentences that `split` and `end` have returned, and `judge` has not been given.
        self._waiting: deque[Sentence] = deque()
        #: Characters that may be shown, and those that `release` has returned.
        self._passed = self._released = 0
        #: Whether the detector failed, so that no further sentence is judged.
        self.failed = False
        self.stopped: SentenceVerdict | None = None
        self.decision: Decision | None = None

    @property
    def n_sentences(self) -> int:
        """How many sentences were judged."""
        return len(self._places)

    @property
    def text(self) -> str:
        """What has been written so far."""
        if len(self._written) > 1:
            self._written[:] = ["".join(self._written)]
        return self._written[0] if self._written else ""

    def feed(self, token: str) -> list[SentenceVerdict]:
        """Take the next piece of the answer; return the verdicts on the sentences it ends.

        Raises
        ------
        InputError
            If it is no text, or the answer has ended.
        """
        return self._judge_all(self.split(token))

    def split(self, token: str) -> list[Sentence]:
        """Take the next piece; return the sentences it ends, to be given to `judge` in order.

        The two do what `feed` does; the first takes no time, the second what the detector takes.
        """
        if not isinstance(token, str):
            raise InputError(f"a token must be a text; got {token!r:.80}")
        if self.decision is not None:
            raise InputError("this answer has ended; begin another one: guardrail.stream_check()")
        self._written.append(token)
        with self._guardrail.rules():
            sentences = self._splitter.feed(token)
        self._waiting.extend(sentences)
        return sentences

    def end(self) -> list[Sentence]:
        """End the text; return the sentences that are left, to be given to `judge` in order."""
        with self._guardrail.rules():
            sentences = self._splitter.close()
        self._waiting.extend(sentences)
        return sentences

    def close(self) -> Decision:
        """End the answer; return the decision about all of it, as ``Guardrail.check`` would.

        Raises
        ------
        InputError
            If a sentence that `split` or `end` returned was not given to `judge`.
        """
        if self.decision is not None:
            return self.decision
        self._require_judged()
        self._judge_all(self.end())
        return self._final_decision()

    def cut(self) -> Decision:
        """End the answer with the sentence that stopped it; return the decision about that much.

        Nothing after that sentence is judged. An answer that was not stopped just ends.

        Raises
        ------
        InputError
            If it was not stopped, and a sentence that `split` or `end` returned was not judged.
        """
        if self.decision is not None:
            return self.decision
        if self.stopped is None:
            self._require_judged()
        self._until_stopped(self.end())
        if self.stopped is not None:
            self._written = [self.text[: self.stopped.end]]
            del self._places[self.stopped.number :]
        return self._final_decision()

    def release(self) -> str:
        """Return what may be shown and was not returned before: judged sentences, what is between.

        Each of them was judged as in the whole answer, and none before it stops the answer. Before
        the end it is no promise about the answer as a whole: a later sentence may stop it, or its
        decision be "review" or "error". After the end of an answer that passes it is all of the
        rest; otherwise there is none.
        """
        text = self.text[self._released : self._passed]
        self._released = max(self._released, self._passed)
        return text

    def show(self, tokens: Iterable[str]) -> Iterator[str]:
        """Yield what may be shown of an answer as its tokens come, and end it.

        No token is taken after the sentence that stops it: iterators that can be closed are, so
        that the model ends, too. What is yielded is the answer where it passes.

        Parameters
        ----------
        tokens : iterable of str
            The answer, cut anywhere.
        """
        try:
            for token in tokens:
                self._until_stopped(self.split(token))
                if text := self.release():
                    yield text
                if self.stopped is not None:
                    break
        finally:
            if callable(close := getattr(tokens, "close", None)):
                close()
        self.cut()
        if text := self.release():
            yield text

    async def ashow(self, tokens: AsyncIterable[str]) -> AsyncIterator[str]:
        """Yield as `show` does, while the event loop goes on: sentences are judged in a thread."""
        # Loaded here: most commands have no event loop, and it takes long to load.
        import asyncio

        try:
            async for token in tokens:
                if sentences := self.split(token):
                    await asyncio.to_thread(self._until_stopped, sentences)
                    if text := self.release():
                        yield text
                    if self.stopped is not None:
                        break
        finally:
            if callable(close := getattr(tokens, "aclose", None)):
                await close()
        await asyncio.to_thread(self.cut)
        if text := self.release():
            yield text

    def _require_judged(self) -> None:
        """Refuse to decide about an answer of which a sentence was left out."""
        if self._waiting and not self.failed:
            raise InputError.on("sentences_unjudged", waiting=count(len(self._waiting), "sentence"))

    def _judge_all(self, sentences: list[Sentence]) -> list[SentenceVerdict]:
        # The answer has failed with its first sentence that could not be judged.
        return [self.judge(sentence) for sentence in sentences if not self.failed]

    def _until_stopped(self, sentences: list[Sentence]) -> None:
        for sentence in sentences:
            if self.stopped is None:
                self.judge(sentence)

    def judge(self, sentence: Sentence) -> SentenceVerdict:
        """Return the verdict on the next sentence that `split` or `end` returned.

        Raises
        ------
        InputError
            If it is another one.
        """
        if not self._waiting or sentence != self._waiting[0]:
            raise InputError.on("judged_once", sentence=sentence)
        self._waiting.popleft()
        place = GivenSentence(sentence.start, sentence.end)
        self._places.append(place)
        self._before += place.start
        if self._before > MOST_BEFORE or place.end > MOST_CHARACTERS:
            error = InputError.on("too_many_sentences", n=len(self._places))
            verdict = self._guardrail.judge.failed(self._asked, error)
        else:
            verdict = self._sentence_judge.verdict(replace(self._asked, response=self.text), place)
        self.failed = verdict.error is not None
        outcome: Outcome = verdict.outcome
        reason, stops = verdict.reason, outcome != "pass"
        if verdict.error is not None:
            failed = self._guardrail.failed(self._asked, verdict.error)
            outcome, reason = failed.outcome, failed.reason
        elif verdict.score is None:
            stops = stops and self._sentence_judge.stops_at_undefined
        sentence_verdict = SentenceVerdict(
            number=len(self._places),
            **sentence._asdict(),
            outcome=outcome,
            score=verdict.score,
            threshold=verdict.threshold,
            p_value=verdict.p_value,
            reason=reason,
            stop=stops or self.stopped is not None,
        )
        if self.stopped is None:
            if stops:
                self.stopped = sentence_verdict
            elif self._sentence_judge.may_show():
                self._passed = sentence.end
        return sentence_verdict

    def _final_decision(self) -> Decision:
        text = self.text
        answer = replace(self._asked, response=text, sentences=tuple(self._places))
        self.decision = decision = self._sentence_judge.decision(answer)
        if not decision.flagged:
            self._passed = len(text)
        return decision
