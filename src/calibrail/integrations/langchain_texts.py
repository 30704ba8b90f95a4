"""What do messages and mappings of LangChain hold: a question, chunks, an answer?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from calibrail.integrations.missing import needs
from calibrail.integrations.structured import text_of_values

with needs("langchain"):
    from langchain_core.documents import Document
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

#: Names by which a chain's mapping may call each text; the first that is there counts.
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "question": ("question", "query", "input"),
    "contexts": ("contexts", "context", "documents", "docs"),
    "response": ("response", "answer", "output", "result"),
}
#: Parts of a message that are not shown to who asked.
_NOT_SHOWN: Final = ("reasoning", "thinking", "tool_call", "tool_use", "server_tool_call")

#: Tools of LangChain itself that say back what the model told them.
_NO_SOURCES: Final = ("write_todos",)


def question(messages: Sequence[BaseMessage]) -> str:
    """Return the last turn of the user."""
    return next((str(item.text) for item in reversed(messages) if _is_asked(item)), "")


def tool_results(messages: Sequence[BaseMessage]) -> list[str]:
    """Return what tools have returned since the last turn of the user, chunk by chunk.

    A tool that hands over Documents as its artifact has returned these. What failed is no source,
    since it repeats what the model asked; nor is a list of things to do, which the model wrote.
    """
    turns = [place for place, item in enumerate(messages) if _is_asked(item)]
    since = messages[turns[-1] + 1 :] if turns else messages
    results = (item for item in since if isinstance(item, ToolMessage))
    return [
        text
        for item in results
        if item.status != "error" and item.name not in _NO_SOURCES
        for text in _chunks_of_tool(item)
    ]


def _is_asked(message: BaseMessage) -> bool:
    return isinstance(message, HumanMessage)


def _chunks_of_tool(message: ToolMessage) -> list[str]:
    found = message.artifact
    if isinstance(found, list) and found and all(isinstance(item, Document) for item in found):
        return [item.page_content for item in found]
    return [str(message.text)]


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


def checked_of(values: Mapping[str, Any]) -> Any:
    """Return what a gate checks, or why it cannot: a part of the answer is no text."""
    _, answer = answer_in(values)
    messages = values.get("messages") or ()
    asked, found = _named(values, "question"), _named(values, "contexts")
    if found is None and not messages:
        # An empty list says that there are none; a name that is not known must not.
        raise _missing("sources", "contexts", values)
    chunks = tool_results(messages) if found is None else values[found]
    if isinstance(chunks, str | Document):
        chunks = [chunks]
    try:
        text = text_of(answer) if isinstance(answer, AIMessage) else answer
    except ValueError as error:
        return error
    return {
        "question": question(messages) if asked is None else _plain(values[asked]),
        "contexts": [_plain(item) for item in chunks],
        "response": text,
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
