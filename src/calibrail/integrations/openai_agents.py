"""OpenAI Agents SDK: an output guardrail, and runs whose answers are held back or judged."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final
from weakref import WeakKeyDictionary

from calibrail.errors import error_text
from calibrail.integrations.gate import Gate, Guarding, needs, text_of_values, texts_of_parts
from calibrail.integrations.streaming import STOPPED, Written

with needs("openai-agents"):
    import agents

#: Items of a run that hold what a tool said, and under which name.
_RESULTS: Final[Mapping[str, str]] = {
    "function_call_output": "output",
    "custom_tool_call_output": "output",
    "mcp_call": "output",
    "file_search_call": "results",
}

#: Events of a stream that hold nothing of an answer.
_PROGRESS: Final = {"tool_called", "tool_output", "handoff_requested", "handoff_occured"}
#: After these another response begins, and what was said before is not the answer.
_GOES_ON: Final = {"tool_output", "handoff_occured"}


class AnswerGuardrail(agents.OutputGuardrail[Any]):
    """An output guardrail whose tripwire is every outcome but ``pass``.

    Give it to an agent twice: ``Agent(output_guardrails=[guard], hooks=guard.hooks)``. By its hooks
    it knows what the tools of the run said, which the SDK shows no guardrail; where ``contexts`` is
    given it needs none. ``output_info`` is the decision as JSON values with the guardrail's digest.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides.
    contexts : callable, optional
        Returns the sources of the answer for a run's context wrapper, e.g. ``lambda run:
        run.context.documents``. Left out, what tools returned since the last turn of the user.
    question : callable, optional
        Returns the question likewise; left out, the last turn of the user.
    answer : callable, optional
        Returns the text to judge of an output, e.g. ``lambda output: output.text``. Left out, of a
        structured one its values, one a line.
    """

    def __init__(
        self,
        guardrail: Guarding,
        *,
        contexts: Callable[[agents.RunContextWrapper[Any]], Sequence[str]] | None = None,
        question: Callable[[agents.RunContextWrapper[Any]], str] | None = None,
        answer: Callable[[Any], str] | None = None,
    ) -> None:
        super().__init__(self._judged, name="calibrail")
        self.gate = Gate.of(guardrail)
        self.hooks = _Heard()
        self._contexts, self._question, self._answer = contexts, question, answer

    async def _judged(
        self, run: agents.RunContextWrapper[Any], agent: agents.Agent[Any], output: Any
    ) -> agents.GuardrailFunctionOutput:
        turn = self._turn(run, f"the agent {agent.name!r}")
        # Whatever a callable of the user's raises leaves it to the failure policy.
        try:
            response = self._answer(output) if self._answer else turn.answer(output)
            decision = await self.gate.acheck(**self.asked(run), response=response)
        except Exception as error:
            decision = self.gate.failed(error, question=turn.question)
        return agents.GuardrailFunctionOutput(self.gate.details(decision), decision.flagged)

    def asked(self, run: agents.RunContextWrapper[Any]) -> dict[str, Any]:
        """Return the question and the contexts of what a run answers now."""
        turn = self._turn(run, "the run")
        return {
            "question": turn.question if self._question is None else self._question(run),
            "contexts": turn.contexts() if self._contexts is None else self._contexts(run),
        }

    def _turn(self, run: agents.RunContextWrapper[Any], whose: str) -> _Turn:
        if self._contexts is None and not self.hooks.heard(run):
            raise agents.UserError(error_text("contexts_of_tools_unknown", whose=whose))
        return self.hooks.turn(run)


async def held_back(result: agents.RunResultStreaming) -> AsyncIterator[Any]:
    """Yield the events of a streamed run, those with its answer once that has been released.

    The SDK sends the answer's words before any output guardrail has seen them. Here only what tools
    do comes at once; the answer's events wait for the end of the run, and what a model said beside
    its calls of tools, or before its last message, is left out. A run that is cancelled has no
    answer.

    Raises
    ------
    OutputGuardrailTripwireTriggered
        The answer is withheld: nothing of it was yielded.
    UserError
        The agent that answered has no `AnswerGuardrail`: nothing of its answer was yielded.
    """
    held: list[Any] = []
    async for event in result.stream_events():
        name = getattr(event, "name", None)
        if name in _GOES_ON or _begins(event):
            held.clear()
        if name in _PROGRESS:
            yield event
        else:
            held.append(event)
    judged = [
        item.output.tripwire_triggered
        for item in result.output_guardrail_results
        if isinstance(item.guardrail, AnswerGuardrail)
    ]
    if not judged and result.final_output is not None:
        raise agents.UserError(error_text("nobody_judged"))
    if judged and not any(judged):
        for event in _of_last_message(held):
            yield event


def _begins(event: Any) -> bool:
    """Say whether a further response of the model begins."""
    return getattr(getattr(event, "data", None), "type", "") == _BEGINS


def _of_last_message(events: Sequence[Any]) -> list[Any]:
    """Return the events without those of messages before the last one."""
    created = (it for it in events if getattr(it, "name", None) == "message_output_created")
    ids = [event.item.raw_item.id for event in created]
    return [event for event in events if _message_of(event) not in set(ids) - set(ids[-1:])]


def _message_of(event: Any) -> str | None:
    """Return the id of the message that an event is about."""
    if (item := getattr(event, "item", None)) is not None:
        return getattr(item.raw_item, "id", None)
    data = getattr(event, "data", None)
    whole = getattr(data, "item", None)
    return getattr(data, "item_id", None) or getattr(whole, "id", None)


class _Turn:
    """What the user asked last in a run, and what tools have said since."""

    def __init__(self) -> None:
        self.question = ""
        self._said: dict[str, list[str]] = {}
        self._answered: list[str] = []

    def hear(self, items: Sequence[Any]) -> None:
        """Take up items of the run; those that are known already change nothing."""
        for number, item in enumerate(map(_content, items)):
            kind = item.get("type", "message")
            if kind == "message" and item.get("role") == "user":
                self.question, self._said = "\n".join(texts_of_parts(item.get("content"))), {}
            elif kind in _RESULTS:
                call = item.get("call_id") or item.get("id") or str(number)
                self._said[call] = texts_of_parts(item.get(_RESULTS[kind]))

    def answered(self, output: Sequence[Any]) -> None:
        """Take up a response of the model, with all messages in it."""
        self.hear(output)
        messages = (item for item in map(_content, output) if item.get("type") == "message")
        self._answered = ["\n".join(texts_of_parts(item.get("content"))) for item in messages]

    def answer(self, output: Any) -> str:
        """Return the text to judge: a structured output's values, else all that was said at last.

        The SDK calls only the last message of a response its output, and keeps the others.
        """
        if isinstance(output, str) and output in self._answered:
            return "\n".join(self._answered)
        return text_of_values(output)

    def contexts(self) -> list[str]:
        """Return what tools have said, in order."""
        return [text for texts in self._said.values() for text in texts if text]


class _Heard(agents.AgentHooks[Any]):
    """Hears what a model is sent, and what it answers, in each run by itself."""

    def __init__(self) -> None:
        self._turns: WeakKeyDictionary[agents.RunContextWrapper[Any], _Turn] = WeakKeyDictionary()

    async def on_llm_start(
        self,
        context: agents.RunContextWrapper[Any],
        agent: agents.Agent[Any],
        system_prompt: str | None,
        input_items: list[Any],
    ) -> None:
        self._turns.setdefault(context, _Turn()).hear(input_items)

    async def on_llm_end(
        self,
        context: agents.RunContextWrapper[Any],
        agent: agents.Agent[Any],
        response: agents.ModelResponse,
    ) -> None:
        # Tools that the model's provider runs answer in the same response.
        self._turns.setdefault(context, _Turn()).answered(response.output)

    def heard(self, run: agents.RunContextWrapper[Any]) -> bool:
        """Whether a model of the run was asked while these hooks were there."""
        return run in self._turns

    def turn(self, run: agents.RunContextWrapper[Any]) -> _Turn:
        """Return the last turn of the user, by the run's input where nothing was heard."""
        if (turn := self._turns.get(run)) is None:
            turn = _Turn()
            turn.hear(run.turn_input)
        return turn


def _content(item: Any) -> Mapping[str, Any]:
    return item if isinstance(item, Mapping) else item.model_dump()


#: Events of a model's stream.
_DELTA: Final = "response.output_text.delta"
_BEGINS: Final = "response.created"


async def written(
    result: agents.RunResultStreaming, guard: AnswerGuardrail, *, ending: str = STOPPED
) -> AsyncIterator[str]:
    """Yield what may be shown of a streamed run as its model writes; the run ends at the stop.

    Each sentence is judged before it is yielded; at the first one that reaches the threshold the
    run is cancelled. What a model writes before it calls a tool is judged likewise, by what tools
    have said until then. The gate's ``notify`` and ``log`` get a decision for each of its texts.

    Parameters
    ----------
    result : RunResultStreaming
        What ``Runner.run_streamed`` returned, of agents with ``hooks=guard.hooks``. The guardrail
        need not be among their output guardrails, which judge an answer that was shown already.
    guard : AnswerGuardrail
        Made of a guardrail of sentences, or of answers by ``worst_sentence``.
    ending : str
        What is shown where the answer is stopped.
    """
    texts = _ModelTexts(result.stream_events())
    while await texts.begin():
        answer = Written(guard.gate, **guard.asked(result.context_wrapper), ending=ending)
        async with aclosing(answer.ashow(texts.tokens())) as shown:
            async for text in shown:
                yield text
        if answer.over:
            result.cancel()
            return


class _ModelTexts:
    """The texts of models among the events of a run."""

    def __init__(self, events: AsyncIterator[Any]) -> None:
        self._events, self._first = events, ""

    async def begin(self) -> bool:
        """Wait for the first token of the next text; say whether there is one."""
        async for event in self._events:
            if token := _token(event):
                self._first = token
                return True
        return False

    async def tokens(self) -> AsyncIterator[str]:
        """Yield the tokens of the text, up to the next response of a model."""
        yield self._first
        async for event in self._events:
            if _begins(event):
                return
            if token := _token(event):
                yield token


def _token(event: Any) -> str:
    data: Any = getattr(event, "data", None)
    return str(data.delta) if getattr(data, "type", "") == _DELTA else ""
