"""When is an answer stopped that is still being written, and what of it may be shown?

A sentence is judged as soon as it is over, by what `check` judges it by: its place, its text, what
stands before it. The highest score so far only rises, so that an answer is stopped at its first
sentence at or above the threshold, and `check` would not let it pass either, whatever followed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from calibrail.data.example import Example, GivenSentence
from calibrail.errors import InputError
from calibrail.guardrail.decision import Decision, Outcome
from calibrail.guardrail.part_by_part import parts_of
from calibrail.phrases import count
from calibrail.text.answer_sentences import SentenceStream
from calibrail.text.sentences import Sentence

if TYPE_CHECKING:
    from calibrail.guardrail.runtime import Guardrail


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
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


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

    def __init__(self, guardrail: Guardrail, asked: Example) -> None:
        for name in guardrail.columns:
            cell = asked.columns.get(name)
            if isinstance(cell, str) and cell.lstrip().startswith("["):
                raise InputError(
                    f"column {name} holds a list, and how many sentences there will be is not "
                    "known; give one value for all of them"
                )
        self._parts = parts_of(guardrail, asked)
        self._guardrail, self._asked = guardrail, asked
        self._splitter = SentenceStream()
        self._written: list[str] = []
        self._places: list[GivenSentence] = []
        #: Sentences that `split` and `end` have returned, and `judge` has not been given.
        self._waiting: deque[Sentence] = deque()
        #: Characters that may be shown, and those that `release` has returned.
        self._passed = self._released = 0
        self._failed = False
        self.stopped: SentenceVerdict | None = None
        self.decision: Decision | None = None

    @property
    def failed(self) -> bool:
        """Whether the detector failed, so that no further sentence is judged."""
        return self._failed

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
        return list(self._judged(self.split(token)))

    def split(self, token: str) -> list[Sentence]:
        """Take the next piece; return the sentences it ends, to be given to `judge` in order.

        The two do what `feed` does; the first takes no time, the second what the detector takes.
        """
        if not isinstance(token, str):
            raise InputError(f"a token must be a text; got {token!r:.80}")
        if self.decision is not None:
            raise InputError("this answer has ended; begin another one: guardrail.stream_check()")
        self._written.append(token)
        return self._noted(self._splitter.feed(token))

    def end(self) -> list[Sentence]:
        """End the text; return the sentences that are left, to be given to `judge` in order."""
        return self._noted(self._splitter.close())

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
        for _ in self._judged(self.end()):
            pass
        return self._decided()

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
        return self._decided()

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

    def _noted(self, sentences: list[Sentence]) -> list[Sentence]:
        self._waiting.extend(sentences)
        return sentences

    def _require_judged(self) -> None:
        """Refuse to decide about an answer of which a sentence was left out."""
        if self._waiting and not self._failed:
            raise InputError(
                f"{count(len(self._waiting), 'sentence')} that split() or end() returned must be "
                "given to judge() before the answer is decided; feed() does both"
            )

    def _judged(self, sentences: list[Sentence]) -> Iterator[SentenceVerdict]:
        for sentence in sentences:
            # The answer has failed with its first sentence that could not be judged.
            if not self._failed:
                yield self.judge(sentence)

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
            raise InputError(
                "sentences must be judged once, in the order in which split() and end() return "
                f"them; got {sentence!r:.80}"
            )
        self._waiting.popleft()
        place = GivenSentence(sentence.start, sentence.end)
        self._places.append(place)
        verdict = self._parts.verdict(replace(self._asked, response=self.text), place)
        self._failed = verdict.error is not None
        outcome: Outcome = verdict.outcome
        reason, stops = verdict.reason, outcome != "pass"
        if verdict.error is not None:
            failed = self._guardrail.failed(self._asked, verdict.error)
            outcome, reason = failed.outcome, failed.reason
        elif verdict.score is None:
            stops = stops and self._parts.stops_at_undefined
        said = SentenceVerdict(
            number=len(self._places),
            start=sentence.start,
            end=sentence.end,
            text=sentence.text,
            outcome=outcome,
            score=verdict.score,
            threshold=verdict.threshold,
            p_value=verdict.p_value,
            reason=reason,
            stop=stops or self.stopped is not None,
        )
        if self.stopped is None:
            if stops:
                self.stopped = said
            elif self._parts.may_show():
                self._passed = sentence.end
        return said

    def _decided(self) -> Decision:
        text = self.text
        answer = replace(self._asked, response=text, sentences=tuple(self._places))
        self.decision = decision = self._parts.decision(answer)
        if not decision.flagged:
            self._passed = len(text)
        return decision
