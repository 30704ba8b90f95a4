"""How do answers become tasks of Label Studio, and its annotations labels?

The format is that of Label Studio's JSON import and export: ``data`` holds what is shown, and each
of ``annotations`` the results of one person. The flat export (JSON-MIN) is read, too.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from calibrail.labelling.exchange.given import CHOICES, Given, texts_of
from calibrail.labelling.tasks import Task

#: Our id in the data of a task: "id" is its own.
ID: Final = "answer_id"
#: Names of what is asked in the labelling interface.
LABEL, SPANS = "label", "unsupported"

#: The labelling interface for the tasks.
INTERFACE: Final = f"""<View>
  <Header value="Question"/>
  <Text name="question" value="$question"/>
  <Header value="What the answer may rest on"/>
  <Text name="contexts" value="$contexts"/>
  <Header value="Answer: mark what nothing above supports"/>
  <Labels name="{SPANS}" toName="response">
    <Label value="unsupported" background="#c2410c"/>
  </Labels>
  <Text name="response" value="$response"/>
  <Choices name="{LABEL}" toName="response" choice="single" required="true" showInLine="true">
{"".join(f'    <Choice value="{word}"/>{chr(10)}' for word in CHOICES)}  </Choices>
</View>
"""


def write(tasks: Iterable[Task]) -> bytes:
    """Return the tasks as a JSON list, without predictions: annotators are to be blind."""
    content = [{"data": {ID: task.alias, **texts_of(task)}} for task in tasks]
    return json.dumps(content, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")


def is_task(content: Mapping[str, Any]) -> bool:
    """Return whether this is a task of Label Studio, whole or flat."""
    return ID in content or (isinstance(content.get("data"), Mapping))


def given(content: Mapping[str, Any], where: str) -> Iterator[Given]:
    """Yield the label of each annotation of a task; one that was cancelled says nothing."""
    if ID in content:
        yield from _flat(content, where)
        return
    data = content["data"]
    key, texts = str(data.get(ID, data.get("id", ""))), _texts(data)
    for number, annotation in enumerate(content.get("annotations") or (), start=1):
        if annotation.get("was_cancelled"):
            continue
        place = f"{where}, annotation {number}"
        results = annotation.get("result") or ()
        choices = [item for item in results if item.get("type") == "choices"]
        named = [item for item in choices if item.get("from_name") == LABEL] or choices
        said = [word for item in named for word in item.get("value", {}).get("choices", ())]
        marked = tuple(
            _span(item["value"])
            for item in results
            if item.get("type") == "labels" and item.get("to_name") == "response"
        )
        by = _person(annotation.get("completed_by"))
        label = None if not said else said[0] if len(set(said)) == 1 else said
        yield Given(place, key, label, by, marked, texts, annotation)


def _flat(content: Mapping[str, Any], where: str) -> Iterator[Given]:
    marked = tuple(_span(item) for item in content.get(SPANS) or () if isinstance(item, Mapping))
    yield Given(
        where,
        str(content[ID]),
        content.get(LABEL),
        _person(content.get("annotator")),
        marked,
        _texts(content),
        content,
    )


def _texts(data: Mapping[str, Any]) -> dict[str, str]:
    names = ("question", "contexts", "response")
    return {name: data[name] for name in names if isinstance(data.get(name), str)}


def _span(value: Mapping[str, Any]) -> tuple[int, int, str]:
    start, stop = (int(value.get(end, -1)) for end in ("start", "end"))
    return start, stop, str(value.get("text", "")).replace("\\n", "\n")


def _person(by: object) -> str | None:
    """Return who annotated: an address, or the number of the account."""
    if isinstance(by, Mapping):
        by = by.get("email") or by.get("id")
    if by is None or by == "":
        return None
    return by if isinstance(by, str) else f"label-studio {by}"
