"""LangChain and LangGraph: a middleware of agents, a step of chains, a node of graphs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, Final

from calibrail.guardrail.decision import Decision
from calibrail.integrations.gate import Gate, Guarding, needs, text_of_values, text_or_error
from calibrail.integrations.streaming import STOPPED, Written

with needs("langchain"):
    from langchain.agents import middleware
    from langchain_core.callbacks import BaseCallbackManager
    from langchain_core.documents import Document
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
    from langchain_core.runnables import Runnable, RunnableLambda
    from langchain_core.runnables.config import ensure_config, var_child_runnable_config
    from langgraph.constants import TAG_NOSTREAM

#: Names by which a chain's mapping may call each text; the first that is there counts.
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "question": ("question", "query", "input"),
    "contexts": ("contexts", "context", "documents", "docs"),
    "response": ("response", "answer", "output", "result"),
}
#: Parts of a message that are not shown to who asked.
_NOT_SHOWN: Final = ("reasoning", "thinking", "tool_call", "tool_use", "server_tool_call")

#: The tool of LangChain itself that says back what the model told it.
_TODOS: Final = "write_todos"


def question(messages: Sequence[BaseMessage]) -> str:
    """Return the last turn of the user."""
    turns = (str(item.text) for item in reversed(messages) if isinstance(item, HumanMessage))
    return next(turns, "")


def tool_results(messages: Sequence[BaseMessage]) -> list[str]:
    """Return what tools have returned since the last turn of the user, chunk by chunk.

    A tool that hands over Documents as its artifact has returned these. What failed is no source,
    since it repeats what the model asked; nor is a list of things to do, which the model wrote.
    """
    chunks: list[str] = []
    for item in messages:
        if isinstance(item, HumanMessage):
            chunks.clear()
        elif isinstance(item, ToolMessage) and item.status != "error" and item.name != _TODOS:
            found = item.artifact
            if isinstance(found, list) and found and all(isinstance(it, Document) for it in found):
                chunks += [it.page_content for it in found]
            else:
                chunks.append(str(item.text))
    return chunks


def text_of(answer: Any) -> str:
    """Return the text of an answer; raise where a part of it is none."""
    if isinstance(answer, AIMessage):
        parts = answer.content if isinstance(answer.content, list) else ()
        kinds = [part.get("type") for part in parts if isinstance(part, dict)]
        if other := sorted({str(kind) for kind in kinds} - {"text", *_NOT_SHOWN}):
            raise ValueError(f"a part of the answer is no text: {', '.join(other)}")
        return str(answer.text)
    return text_of_values(answer)


def values_of(given: Any) -> Mapping[str, Any]:
    """Return a mapping, or a graph's state that is a model or a dataclass as one."""
    if isinstance(given, Mapping):
        return given
    fields = getattr(type(given), "model_fields", getattr(given, "__dataclass_fields__", None))
    if fields is None:
        raise TypeError(f"a guardrail takes a mapping with an answer; got {type(given).__name__}")
    return {name: getattr(given, name) for name in fields}


def asked_of(given: Any) -> tuple[str, list[Any]]:
    """Return the question and the chunks that a mapping holds for an answer still to be written."""
    values = values_of(given)
    asked, found = _named(values, "question"), _named(values, "contexts")
    if found is None:
        raise _missing("sources", "contexts", values)
    chunks = values[found]
    chunks = [chunks] if isinstance(chunks, str | Document) else chunks
    return "" if asked is None else _plain(values[asked]), [_plain(item) for item in chunks]


def checked_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a gate checks."""
    _, answer = answer_in(values)
    messages = values.get("messages") or ()
    asked, found = _named(values, "question"), _named(values, "contexts")
    if found is None and not messages:
        # An empty list says that there are none; a name that is not known must not.
        raise _missing("sources", "contexts", values)
    chunks = tool_results(messages) if found is None else values[found]
    chunks = [chunks] if isinstance(chunks, str | Document) else chunks
    return {
        "question": question(messages) if asked is None else _plain(values[asked]),
        "contexts": [_plain(item) for item in chunks],
        "response": text_or_error(answer, text_of) if isinstance(answer, AIMessage) else answer,
    }


def answer_in(values: Mapping[str, Any]) -> tuple[str | None, Any]:
    """Return the name of the answer, None for the last message, and the answer."""
    names = [name for name in _NAMES["response"] if name in values]
    if len(names) > 1:
        raise KeyError(f"several answers, {' and '.join(names)}: which one is shown to the user?")
    if names:
        return names[0], values[names[0]]
    if values.get("messages"):
        return None, values["messages"][-1]
    raise _missing("answer", "response", values)


def _missing(what: str, field: str, values: Mapping[str, Any]) -> KeyError:
    names = ", ".join(_NAMES[field])
    return KeyError(f"no {what} under {names}; got {', '.join(map(str, values))}")


def _named(values: Mapping[str, Any], field: str) -> str | None:
    return next((name for name in _NAMES[field] if name in values), None)


def _plain(value: Any) -> Any:
    if isinstance(value, Document):
        return value.page_content
    return str(value.text) if isinstance(value, BaseMessage) else value


#: Where a message and a chain's output hold the decision.
DECISION: Final = "decision"
_METADATA: Final = "calibrail"

Contexts = Callable[[Sequence[BaseMessage]], Sequence[str]]


class GuardrailMiddleware(middleware.AgentMiddleware):
    """Lets an agent's final answer into its state only where the guardrail says ``pass``.

    Any other answer is replaced by the gate's refusal before anything else sees it, and no stream,
    of updates, values, messages or events, shows it: the decided message comes whole. Calls
    of tools go on as they are. The message's ``response_metadata["calibrail"]`` holds the decision.

    The question is the last turn of the user, and the contexts are what tools have returned since.
    Put it first among an agent's middleware, so that no other one changes what was decided.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides.
    contexts : callable, optional
        Returns the chunks, given the messages; for an agent that gets them in another way.
    """

    def __init__(self, guardrail: Guarding, contexts: Contexts | None = None) -> None:
        super().__init__()
        self._gate, self._contexts = Gate.of(guardrail), contexts or tool_results

    def wrap_model_call(
        self,
        request: middleware.ModelRequest,
        handler: Callable[[middleware.ModelRequest], middleware.ModelResponse],
    ) -> middleware.ModelResponse:
        """Ask the model, and decide about what it says."""
        with _held_back():
            response = handler(request)
        if (answer := _final(response)) is None:
            return response
        decision = self._gate.check(**self._asked(request.messages, answer))
        return _decided(self._gate, response, decision)

    async def awrap_model_call(
        self,
        request: middleware.ModelRequest,
        handler: Callable[[middleware.ModelRequest], Awaitable[middleware.ModelResponse]],
    ) -> middleware.ModelResponse:
        """Ask and decide while the event loop goes on."""
        with _held_back():
            response = await handler(request)
        if (answer := _final(response)) is None:
            return response
        decision = await self._gate.acheck(**self._asked(request.messages, answer))
        return _decided(self._gate, response, decision)

    @middleware.hook_config(can_jump_to=["end"])
    def after_model(self, state: Mapping[str, Any], runtime: Any) -> dict[str, Any] | None:
        """End the turn after a refusal: an agent with a response format would ask once more."""
        kept = state["messages"][-1].response_metadata.get(_METADATA)
        return {"jump_to": "end"} if kept and kept["outcome"] != "pass" else None

    def _asked(self, messages: Sequence[BaseMessage], answer: Any) -> dict[str, Any]:
        """Return what the guardrail is asked, or why it cannot be in the response's place."""
        try:
            chunks = list(self._contexts(messages))
            if wrong := [chunk for chunk in chunks if not isinstance(chunk, str)]:
                raise TypeError(f"contexts must be texts; got {wrong[0]!r:.80}")
            return {"question": question(messages), "contexts": chunks, "response": text_of(answer)}
        except Exception as error:
            # Whatever a callable of the user's raises leaves it to the failure policy.
            return {"response": error}


def guardrail_runnable(guardrail: Guarding) -> RunnableLambda[Any, Any]:
    """Return the last step of a chain: it shows the answer, or the refusal, and the decision.

    It takes a mapping with the answer (``response``, ``answer``, ``output`` or ``result``), the
    question (``question``, ``query`` or ``input``) and the chunks (``contexts``, ``context`` or
    ``documents``: texts, Documents, or one text), and returns it with the answer replaced where it
    is withheld, and with ``decision``, as JSON values.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides.
    """
    return _step(guardrail, lambda values, updates: {**values, **updates})


def guardrail_node(guardrail: Guarding) -> RunnableLambda[Any, Any]:
    """Return a node of LangGraph: it updates the answer in the state, and adds ``decision``.

    The state has the names that `guardrail_runnable` takes, and ``decision`` as one of its keys. Or
    it has ``messages``: the last one is the answer, question and chunks are those of the middleware
    unless the state names others, and the message's ``response_metadata["calibrail"]`` holds the
    decision. `outcome_of` routes by what was decided.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides.
    """
    return _step(guardrail, lambda _, updates: updates)


def outcome_of(state: Any) -> str:
    """Return the outcome in a state that `guardrail_node` has updated, for conditional edges."""
    values = values_of(state)
    kept = values.get(DECISION) or values["messages"][-1].response_metadata[_METADATA]
    return str(kept["outcome"])


@contextmanager
def _held_back() -> Iterator[None]:
    """Keep what models say within from every stream: what is withheld must not be shown before.

    LangGraph leaves out what has its tag; other streams, of events, are handlers of callbacks.
    """
    config = ensure_config()
    callbacks = config.get("callbacks")
    if isinstance(callbacks, BaseCallbackManager):
        callbacks = callbacks.copy()
        for handler in [*callbacks.handlers, *callbacks.inheritable_handlers]:
            # LangChain's own mark of a handler that hands on what comes, as it comes.
            if hasattr(handler, "tap_output_iter"):
                callbacks.remove_handler(handler)
    tags = [*(config.get("tags") or ()), TAG_NOSTREAM]
    token = var_child_runnable_config.set({**config, "tags": tags, "callbacks": callbacks})
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def _final(response: middleware.ModelResponse) -> Any:
    """Return an agent's final answer, structured or a message; None while it calls tools."""
    if response.structured_response is not None:
        return response.structured_response
    last = response.result[-1]
    return last if isinstance(last, AIMessage) and not last.tool_calls else None


def _decided(
    gate: Gate, response: middleware.ModelResponse, decision: Decision
) -> middleware.ModelResponse:
    """Return the model's response with its decision, and without what is withheld."""
    *before, last = response.result
    structured = response.structured_response is not None
    shown = _shown(gate, last, decision, whole=structured)
    if not decision.flagged:
        return middleware.ModelResponse([*before, shown], response.structured_response)
    # A structured answer is a call of a tool and its result, both of which show it.
    return middleware.ModelResponse([shown] if structured else [*before, shown])


def _shown(gate: Gate, answer: Any, decision: Decision, *, whole: bool = False) -> Any:
    """Return what is shown for an answer, which may be one that is shown whole or not at all.

    A message holds the decision.
    """
    if not isinstance(answer, BaseMessage):
        return gate.shown(decision, answer)
    metadata = {_METADATA: gate.details(decision)}
    if not decision.flagged:
        noted = {**answer.response_metadata, **metadata}
        return answer.model_copy(update={"response_metadata": noted})
    # Nothing else that the model's own metadata say: the logarithms of probabilities name tokens.
    text = gate.refused(decision) if whole else gate.shown(decision, "")
    return AIMessage(text, id=answer.id, response_metadata=metadata)


def _step(
    guardrail: Guarding, result: Callable[[Mapping[str, Any], dict[str, Any]], dict[str, Any]]
) -> RunnableLambda[Any, Any]:
    """Return what decides about the answer in a mapping, and makes a result of what changes."""
    gate = Gate.of(guardrail)

    def run(given: Any) -> dict[str, Any]:
        values = values_of(given)
        return result(values, _updates(gate, values, gate.check(**checked_of(values))))

    async def arun(given: Any) -> dict[str, Any]:
        values = values_of(given)
        return result(values, _updates(gate, values, await gate.acheck(**checked_of(values))))

    return RunnableLambda(run, afunc=arun, name="calibrail")


def _updates(gate: Gate, values: Mapping[str, Any], decision: Decision) -> dict[str, Any]:
    name, answer = answer_in(values)
    shown = _shown(gate, answer, decision)
    changed = {"messages": [shown]} if name is None else {name: shown}
    messages = values.get("messages")
    if name is not None and decision.flagged and messages and isinstance(messages[-1], AIMessage):
        # The message that it was taken from shows it, too.
        changed["messages"] = [_shown(gate, messages[-1], decision)]
    return {**changed, DECISION: gate.details(decision)}


def guarded_stream(
    guardrail: Guarding, answer: Runnable[Any, Any], *, ending: str = STOPPED
) -> Runnable[Any, str]:
    """Return a step that streams what another step writes, and stops it.

    It takes the mapping that ``answer`` takes, which names the question and the chunks as
    `guardrail_runnable` does, and gives text: each sentence once it was judged. ``answer`` is
    not asked for more after the sentence that stops it. A gate's ``notify`` or ``log`` gets the
    decision.

    Parameters
    ----------
    guardrail : Gate, Guardrail or path
        What decides: a guardrail of sentences, or of answers by ``worst_sentence``.
    answer : Runnable
        What writes: it streams texts or messages, e.g. ``prompt | model``.
    ending : str
        What is shown where the answer is stopped.
    """
    gate = Gate.of(guardrail)
    Written(gate)  # a guardrail of whole answers is refused here

    def begun(values: Any) -> Written:
        question, contexts = asked_of(values)
        return Written(gate, question=question, contexts=contexts, ending=ending)

    def run(values: Any) -> Iterator[str]:
        yield from begun(values).show(_text(chunk) for chunk in answer.stream(values))

    async def arun(values: Any) -> AsyncIterator[str]:
        async with aclosing(begun(values).ashow(_atexts(answer.astream(values)))) as texts:
            async for text in texts:
                yield text

    return RunnableLambda(run, afunc=arun, name="calibrail")


async def _atexts(chunks: AsyncIterator[Any]) -> AsyncIterator[str]:
    try:
        async for chunk in chunks:
            yield _text(chunk)
    finally:
        if callable(close := getattr(chunks, "aclose", None)):
            await close()


def _text(chunk: Any) -> str:
    return str(chunk.text) if isinstance(chunk, BaseMessage) else str(chunk)
