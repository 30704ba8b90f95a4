"""Answers that frameworks show while they are written, judged sentence by sentence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from calibrail.errors import InputError, tables_beside
from calibrail.guardrail.decision import Decision, Unfinished
from calibrail.integrations.gate import Gate, Guarding

if TYPE_CHECKING:
    from calibrail.text.sentences import Sentence


#: What is shown where an answer is stopped.
STOPPED: Final[str] = tables_beside(__file__, "gate.toml")["stopped"]


class Written:
    """An answer that is being written, decided by a gate's guardrail sentence by sentence.

    As with `Gate`, one model serves all threads, decisions are logged and notified, and what fails
    or takes too long leaves the answer to the failure policy: nothing more of it is shown.

    Parameters
    ----------
    guardrail : Gate, Guardrail or path
        What decides: a guardrail of sentences, or of answers by ``worst_sentence``.
    question, contexts, id, columns
        As of ``Guardrail.stream_check``.
    ending : str
        What is shown where the answer is stopped.

    Attributes
    ----------
    decision : Decision or None
        The decision about the answer, up to the sentence that stopped it, once it has ended.

    Raises
    ------
    GuardrailError
        The guardrail judges whole answers.
    InputError
        It is the client of a service, which has a route of its own for streams.
    """

    def __init__(
        self,
        guardrail: Guarding,
        *,
        question: str = "",
        contexts: Sequence[str] | str = (),
        id: str = "",
        columns: Mapping[str, float | str | None] | None = None,
        ending: str = STOPPED,
    ) -> None:
        from calibrail.data.example import Example

        self._gate, self._ending = Gate.of(guardrail), ending
        if self._gate.guardrail is None:
            raise InputError.on("stream_needs_local_guardrail")
        asked: dict[str, Any] = {"question": question, "contexts": contexts, "id": id}
        self._example = Example.asked(**asked, columns=columns)
        self._check = self._gate.guardrail.stream_check(**asked, columns=columns)
        self._error: Exception | None = None
        self._settled = False
        self.decision: Decision | None = None

    @property
    def over(self) -> bool:
        """Whether no further token is wanted."""
        return self._error is not None or self._check.stopped is not None

    def show(self, tokens: Iterable[str]) -> Iterator[str]:
        """Yield what may be shown as tokens come; at the stop, close what they come from.

        Where they break off, or nobody takes what is shown, there is a decision, too.
        """
        try:
            yield from self._show(tokens)
        except BaseException as error:
            self._broken_off(error)
            raise

    async def ashow(self, tokens: AsyncIterable[str]) -> AsyncGenerator[str, None]:
        """Yield as `show` does, while the event loop goes on.

        Where nobody takes what is shown, a thread of the loop's keeps the decision.
        """
        try:
            async with aclosing(self._ashow(tokens)) as texts:
                async for text in texts:
                    yield text
        except Exception as error:
            await asyncio.to_thread(self._broken_off, error)
            raise
        except BaseException as error:
            # Whoever leaves does not wait, and is not asked to: a loop that ends would cancel that.
            try:
                asyncio.get_running_loop().run_in_executor(None, self._broken_off, error)
            except RuntimeError:  # it has ended its threads already
                self._broken_off(error)
            raise

    def _show(self, tokens: Iterable[str]) -> Iterator[str]:
        try:
            for token in tokens:
                for sentence in self._check.split(token):
                    self._wait(sentence)
                if text := self._check.release():
                    yield text
                if self.over:
                    break
        finally:
            if callable(close := getattr(tokens, "close", None)):
                close()
        for sentence in self._check.end():
            self._wait(sentence)
        yield from self._ended(
            None if self._error else self._gate.in_turn(self._check.cut).result()
        )

    async def _ashow(self, tokens: AsyncIterable[str]) -> AsyncGenerator[str, None]:
        try:
            async for token in tokens:
                for sentence in self._check.split(token):
                    await self._await(sentence)
                if text := self._check.release():
                    yield text
                if self.over:
                    break
        finally:
            if callable(close := getattr(tokens, "aclose", None)):
                await close()
        for sentence in self._check.end():
            await self._await(sentence)
        decision = None
        if self._error is None:
            decision = await asyncio.wrap_future(self._gate.in_turn(self._check.cut))
        for text in await asyncio.to_thread(lambda: list(self._ended(decision))):
            yield text

    def _wait(self, sentence: Sentence) -> None:
        if not self.over:
            try:
                judged = self._gate.in_turn(partial(self._check.judge, sentence))
                judged.result(self._gate.timeout)
            except TimeoutError:
                self._late()

    async def _await(self, sentence: Sentence) -> None:
        if not self.over:
            judged = asyncio.wrap_future(self._gate.in_turn(partial(self._check.judge, sentence)))
            try:
                await asyncio.wait_for(asyncio.shield(judged), self._gate.timeout)
            except TimeoutError:
                self._late()

    def _late(self) -> None:
        self._error = TimeoutError(f"no decision within {self._gate.timeout:g} s")

    def _broken_off(self, error: BaseException) -> None:
        """Keep the decision about an answer that has begun and is not shown to its end."""
        if self._settled or not self._check.text:
            return
        decision = None
        if self._error is None and self._check.stopped is not None:
            decision = self._gate.in_turn(self._check.cut).result()
        elif self._error is None:
            left = isinstance(error, GeneratorExit | asyncio.CancelledError)
            self._error = Unfinished() if left else Unfinished(f"{type(error).__name__}: {error}")
        for _ in self._ended(decision):
            pass

    def _ended(self, decision: Decision | None) -> Iterator[str]:
        """Keep the decision, and yield what is left to show."""
        self._settled = True
        example = replace(self._example, response=self._check.text)
        if decision is None:
            assert self._gate.guardrail is not None and self._error is not None
            decision = self._gate.guardrail.failed(example, self._error)
        self.decision = self._gate.finished(example, decision)
        if self.decision.flagged:
            yield self._ending
        elif text := self._check.release():
            yield text
