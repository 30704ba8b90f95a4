"""Pydantic AI: an output validator that asks the model again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from calibrail.errors import error_text
from calibrail.guardrail.decision import Decision
from calibrail.integrations.gate import Gate, Guarding, needs, text_of_values, text_or_error

with needs("pydantic-ai"):
    from pydantic_ai import DeferredToolRequests, ModelRetry, RunContext
    from pydantic_ai.exceptions import AgentRunError
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolReturnPart, UserPromptPart


#: Where the metadata of the model's response hold the decision about it.
_METADATA: Final = "calibrail"


class AnswerWithheldError(AgentRunError):
    """A structured output may not be released; a text would have been replaced by a refusal.

    Attributes
    ----------
    decision : dict
        The decision, as JSON values.
    """

    def __init__(self, message: str, decision: dict[str, Any]) -> None:
        super().__init__(message)
        self.decision = decision


class GuardrailValidator:
    """An output validator: ``agent.output_validator(GuardrailValidator("guardrail.json"))``.

    An output passes unchanged. For ``flag`` and ``review`` the model is asked again while the agent
    has output retries left; then, and for ``error`` at once, a text is replaced by the refusal, and
    for a structured output `AnswerWithheldError` is raised. ``result.response.metadata`` holds the
    decision as ``calibrail``.

    The question is the user's last prompt, and the sources are what tools have returned since.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides.
    contexts : callable, optional
        Returns the sources for the run's context, e.g. ``lambda run: run.deps.documents``.
    text : callable, optional
        Returns the text to judge of a structured output. Left out, its values, one a line.
    instead : callable, optional
        Returns the output to give for a decision, instead of the refusal or the error.
    retry : bool
        Whether the model is asked again.
    """

    def __init__(
        self,
        guardrail: Guarding,
        *,
        contexts: Callable[[RunContext[Any]], Sequence[str]] | None = None,
        text: Callable[[Any], str] | None = None,
        instead: Callable[[Decision], Any] | None = None,
        retry: bool = True,
    ) -> None:
        self._gate, self._retry, self._instead = Gate.of(guardrail), retry, instead
        self._contexts = contexts or _returned
        self._text = text or text_of_values

    async def __call__(self, run: RunContext[Any], output: Any) -> Any:
        """Decide about an output.

        Raises
        ------
        ModelRetry
            The model is to answer again; or the output is a part of one that is not decided yet.
        AnswerWithheldError
            A structured output is withheld.
        """
        if isinstance(output, DeferredToolRequests):
            return output
        if run.partial_output:
            raise ModelRetry(error_text("answer_held_back"))
        decision = await self._gate.acheck(
            question=_question(run.messages),
            contexts=self._contexts(run),
            response=text_or_error(output, self._text),
        )
        details = self._gate.details(decision)
        last = next((it for it in reversed(run.messages) if isinstance(it, ModelResponse)), None)
        if last is not None:
            last.metadata = {**(last.metadata or {}), _METADATA: details}
        if not decision.flagged:
            return output
        if isinstance(output, str) and self._gate.releases(decision):
            return self._gate.shown(decision, output)
        # A detector that is down says nothing about the answer: another one would not help.
        if self._retry and not decision.failed and not run.last_attempt:
            raise ModelRetry(error_text("answer_again", why=self._gate.explained(decision)))
        if self._instead is not None:
            return self._instead(decision)
        if isinstance(output, str):
            return self._gate.shown(decision, output)
        refusal = f"{self._gate.refused(decision)} ({self._gate.explained(decision)})"
        raise AnswerWithheldError(refusal, details)


def _asked(messages: Sequence[ModelMessage]) -> list[Any]:
    """Return the parts of requests from the user's last prompt on."""
    asked: list[Any] = []
    for request in (message.parts for message in messages if message.kind == "request"):
        # What a tool hands over beside its result comes as a prompt of the same request.
        returns = any(isinstance(part, ToolReturnPart) for part in request)
        for part in request:
            if isinstance(part, UserPromptPart) and not returns:
                asked.clear()
            asked.append(part)
    return asked


def _question(messages: Sequence[ModelMessage]) -> str:
    prompt = next((part for part in _asked(messages) if isinstance(part, UserPromptPart)), None)
    if prompt is None or isinstance(prompt.content, str):
        return "" if prompt is None else prompt.content
    parts = prompt.content
    texts = (item if isinstance(item, str) else getattr(item, "content", None) for item in parts)
    return "\n".join(text for text in texts if isinstance(text, str))


def _returned(run: RunContext[Any]) -> list[str]:
    """Return what tools have returned, chunk by chunk where a tool returns a list of texts."""
    chunks: list[str] = []
    for part in _asked(run.messages):
        if isinstance(part, ToolReturnPart) and part.outcome == "success":
            found = part.content
            several = isinstance(found, list | tuple) and all(isinstance(one, str) for one in found)
            chunks += found if several else [part.model_response_str()]
    return chunks
