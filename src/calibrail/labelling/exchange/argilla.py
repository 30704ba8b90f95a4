"""How do answers become records of Argilla, and its responses labels?

The format is that of ``Record.to_dict`` in Argilla 2, which ``dataset.records.to_json`` writes and
``from_json`` reads: fields, suggestions, and for each question the responses of several users.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from calibrail.labelling.exchange.given import Given, texts_of
from calibrail.labelling.tasks import Task

#: Names of the questions.
LABEL, SPANS = "label", "unsupported"
_FIELDS: Final = ("question", "contexts", "response")


def write(tasks: Iterable[Task]) -> bytes:
    """Return the records as a JSON list, without suggestions: annotators are to be blind."""
    content = [
        {
            "id": task.alias,
            "fields": texts_of(task),
            "metadata": {},
            "suggestions": {},
            "responses": {},
            "vectors": {},
            "_server_id": None,
        }
        for task in tasks
    ]
    return json.dumps(content, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")


def is_record(content: Mapping[str, Any]) -> bool:
    """Return whether this is a record of Argilla."""
    return isinstance(content.get("fields"), Mapping)


def given(content: Mapping[str, Any], where: str) -> Iterator[Given]:
    """Yield the response of each user to the question about the label."""
    responses, fields = content.get("responses") or {}, content["fields"]
    texts = {name: fields[name] for name in _FIELDS if isinstance(fields.get(name), str)}
    marked = {str(item.get("user_id")): item["value"] for item in responses.get(SPANS) or ()}
    for item in responses.get(LABEL) or ():
        user = item.get("user_id")
        yield Given(
            f"{where}, user {user}",
            str(content.get("id", "")),
            item.get("value"),
            None if user is None else str(user),
            tuple(_span(span) for span in marked.get(str(user)) or ()),
            texts,
            content,
        )


def _span(value: Mapping[str, Any]) -> tuple[int, int, str]:
    return int(value.get("start", -1)), int(value.get("end", -1)), str(value.get("text", ""))
