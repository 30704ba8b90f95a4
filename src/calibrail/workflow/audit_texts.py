"""Which texts do logged answers have, in the log or in traces that bear their ids?"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from calibrail.data.example import Example
from calibrail.data.reader import read
from calibrail.data.sources import Source
from calibrail.labelling.pool import Waiting
from calibrail.labelling.tasks import has_text
from calibrail.settings import ReadOptions
from calibrail.settings.checks import optional


def logged_example(id: str, content: Mapping[str, Any]) -> Example:
    """Return an answer of a log line, with its texts and the column of its score if it has them."""
    contexts, column = content.get("contexts"), content.get("column")
    value = content.get("column_value")
    return Example(
        _text(content.get("question")),
        tuple(map(_text, contexts)) if isinstance(contexts, list) else (),
        _text(content.get("response")),
        id=id,
        columns={column: value} if isinstance(column, str) and _is_number(value) else {},
    )


def logged_lengths(content: Mapping[str, Any]) -> dict[str, int]:
    """Return how long a log line says that question and response are, and how many chunks."""
    traffic = content.get("traffic")
    known = traffic if isinstance(traffic, Mapping) else {}
    return {
        name: known[name]
        for name in ("question", "response", "chunks")
        if isinstance(known.get(name), int)
    }


class Texts:
    """Finds the texts of answers that a log holds none of, by their ids, in one pass over traces.

    Parameters
    ----------
    answers : iterable of Waiting
        Answers that people are to label; those that have texts keep them.
    """

    def __init__(self, answers: Iterable[Waiting]) -> None:
        self._lacking = [item for item in answers if not has_text(item.example)]
        self._found: dict[str, Example] = {}

    def look(self, traces: Source | None, reading: ReadOptions | None) -> None:
        """Read traces, and keep the texts of those that are wanted."""
        wanted = {item.example.id for item in self._lacking}
        if traces is None or not wanted:
            return
        reading = optional(reading, ReadOptions, "reading")
        for example in read(traces, reading, labelled=False, require=("response",)):
            if example.id in wanted and has_text(example):
                self._found[example.id] = example

    @property
    def n_others(self) -> int:
        """Answers whose id was found with texts of another length than was logged."""
        pairs = ((self._found.get(item.example.id), item) for item in self._lacking)
        return sum(found is not None and not _fits(found, item) for found, item in pairs)

    def into(self, answer: Waiting) -> Waiting:
        """Return an answer with its texts, as far as they are known."""
        example = answer.example
        found = self._found.get(example.id)
        if has_text(example) or found is None or not _fits(found, answer):
            return answer
        texts = Example(
            found.question, found.contexts, found.response, id=example.id, columns=example.columns
        )
        return replace(answer, example=texts, lengths={})


def _fits(found: Example, logged: Waiting) -> bool:
    """Return whether texts are as long as was logged: an id may stand for another answer."""
    lengths = {
        "question": len(found.question),
        "response": len(found.response),
        "chunks": len(found.contexts),
    }
    return all(lengths[name] == n for name, n in logged.lengths.items())


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
