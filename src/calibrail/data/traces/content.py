"""Which question, answer or documents does a value hold that a tool traced?

Frameworks log what goes in and out as they have it: a text, an object of fields, chat messages of
any provider, LangChain's serialised objects, or JSON that spells one of these.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from calibrail.data.json_text import load_json
from calibrail.data.texts import chunks_of, text_of

_QUESTION: Final = (
    *("question", "query", "user_input", "user_query", "input", "inputs", "prompt", "messages"),
    *("message", "text", "content", "input_text", "query_str", "value", "request"),
)
_RESPONSE: Final = (
    *("answer", "response", "output", "outputs", "result", "output_text", "completion", "content"),
    *("text", "messages", "message", "choices", "generations", "generated_text", "value"),
    *("replies", "actual_output", "return_value"),
)
_DOCUMENTS: Final = (
    *("documents", "docs", "contexts", "context", "retrieved_contexts", "retrieved_documents"),
    *("source_documents", "source_nodes", "nodes", "results", "output", "outputs", "passages"),
    *("chunks", "matches", "hits", "value", "result", "response"),
)
_USER: Final = ("user", "human", "humanmessage")
_ASSISTANT: Final = ("assistant", "ai", "model", "aimessage", "aimessagechunk")
_DEPTH: Final = 8


def parsed(value: object) -> object:
    """Return what JSON text spells if it is an object, a list or a quoted text; else the value.

    >>> parsed('{"a": 1}'), parsed('"a"'), parsed("[1] says so")
    ({'a': 1}, 'a', '[1] says so')
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text[:1] + text[-1:] not in ("{}", "[]", '""') or len(text) < 2:
        return value
    try:
        return load_json(text)
    except ValueError:
        return value


def question_in(value: object) -> str | None:
    """Return the question in what went into a step: of messages, the user's last one.

    >>> question_in({"messages": [{"role": "user", "content": "Who?"}]}), question_in({"k": 4})
    ('Who?', None)
    """
    return _text(value, _QUESTION, _USER, _DEPTH)


def response_in(value: object) -> str | None:
    """Return the answer in what came out of a step: of messages, the assistant's last one.

    >>> response_in({"choices": [{"message": {"role": "assistant", "content": "Ada."}}]})
    'Ada.'
    """
    return _text(value, _RESPONSE, _ASSISTANT, _DEPTH)


def system_in(value: object) -> str | None:
    """Return the text of the system's messages, or None where there is none."""
    value = parsed(value)
    if isinstance(value, dict):
        value = value.get("messages")
    texts = [
        text
        for item in (value if isinstance(value, list) else ())
        if _role(item) in ("system", "developer", "systemmessage")
        and (text := _text(_message(item), ("content", "parts"), (), _DEPTH))
    ]
    return "\n".join(texts) or None


def documents_in(value: object) -> list[str] | None:
    """Return the texts of retrieved documents, or None where there is no list of them.

    >>> documents_in({"documents": [{"page_content": "One.", "type": "Document"}, "Two."]})
    ['One.', 'Two.']
    """
    value = parsed(value)
    for _ in range(_DEPTH):
        if not isinstance(value, dict):
            break
        inner = next((value[key] for key in _DOCUMENTS if value.get(key) is not None), None)
        if inner is None:
            text = _document(value)
            return None if text is None else [text]
        value = parsed(inner)
    if isinstance(value, str):
        return [value] if value.strip() else []
    if not isinstance(value, list):
        return None
    texts = [_document(parsed(item)) for item in value]
    return [text for text in texts if text and text.strip()]


def _document(item: object) -> str | None:
    for _ in range(_DEPTH):
        if not isinstance(item, dict):
            break
        inner = next((item[key] for key in ("kwargs", "document", "node") if item.get(key)), None)
        if inner is None:
            break
        item = parsed(inner)
    if isinstance(item, list):
        return " ".join(chunks_of(item) or ()) or None
    return text_of(item)


def _text(value: object, keys: Sequence[str], roles: Sequence[str], depth: int) -> str | None:
    value = parsed(value)
    if isinstance(value, str) or not depth:
        return value if isinstance(value, str) and value.strip() else None
    if isinstance(value, dict):
        value = _message(value)
        if isinstance(parts := value.get("parts"), list):
            return _parts(parts)
        for key in keys:
            if value.get(key) is not None:
                text = _text(value[key], keys, roles, depth - 1)
                if text is not None:
                    return text
        rest = [item for item in value.values() if item is not None]
        return _text(rest[0], keys, roles, depth - 1) if len(rest) == 1 else None
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(item, str) for item in value):
        return value[-1] if len(value) == 1 else " ".join(value)
    if any(_role(item) for item in value):
        spoken = [item for item in value if _role(item) in roles]
        texts = (_text(item, ("content",), roles, depth - 1) for item in reversed(spoken))
        return next((text for text in texts if text), None)
    if all(isinstance(item, dict) and "type" in item for item in value):
        return _parts(value)
    return _text(value[-1 if roles is _USER else 0], keys, roles, depth - 1)


def _parts(parts: Iterable[object]) -> str | None:
    """Return the text of a message's parts; calls of tools, pictures and thoughts hold none."""
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and part.get("type", "text") in (
            *("text", "output_text", "input_text"),
        ):
            text = part.get("text", part.get("content"))
            texts.append(text if isinstance(text, str) else "")
    return "".join(texts) if any(text.strip() for text in texts) else None


def _message(item: object) -> Mapping[str, object]:
    """Return a message's own fields: LangChain keeps them in ``kwargs``, OpenInference apart."""
    if not isinstance(item, dict):
        return {}
    for key in ("kwargs", "message"):
        if isinstance(inner := item.get(key), dict):
            return inner
    return item


def _role(item: object) -> str:
    """Return who speaks in a message, in lower case, or an empty text where it is none."""
    if not isinstance(item, dict):
        return ""
    path = item.get("id")
    if isinstance(item.get("kwargs"), dict) and isinstance(path, list) and path:
        return str(path[-1]).lower()
    message = _message(item)
    for key in ("role", "type"):
        role = message.get(key)
        if isinstance(role, str) and (
            key == "role" or role in ("human", "ai", "system", "tool") or "Message" in role
        ):
            return role.lower()
    return ""
