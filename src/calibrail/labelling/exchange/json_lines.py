"""How do answers and labels look as JSON lines of our own?"""

from collections.abc import Iterable, Iterator
from typing import Any

from calibrail.errors import InputError
from calibrail.labelling.exchange.given import Given, joined
from calibrail.labelling.store import encoded
from calibrail.labelling.tasks import Task


def write(tasks: Iterable[Task]) -> bytes:
    """Return one object a line; ``label`` is to be added: 1, 0, a word, or null for unsure."""
    return b"".join(
        encoded(
            {
                "id": task.alias,
                "question": task.question,
                "contexts": list(task.contexts),
                "response": task.response,
            }
        )
        for task in tasks
    )


def given(content: dict[str, Any], where: str) -> Iterator[Given]:
    """Yield what a line says; a line of ``labels.jsonl`` is one, too.

    Raises
    ------
    InputError
        It has no id, or spans that are none.
    """
    if not isinstance(content.get("id"), str | int):
        raise InputError("it has no id; give each line that of its answer")
    contexts = content.get("contexts")
    texts: dict[str, object] = {
        name: content[name] for name in ("question", "response") if name in content
    }
    if isinstance(contexts, list):
        texts["contexts"] = joined([str(chunk) for chunk in contexts])
    said = content.get("label")
    try:
        spans = tuple((int(a), int(b), str(c)) for a, b, c in content.get("spans") or ())
    except (TypeError, ValueError) as error:
        raise InputError(
            f"spans must hold [begin, end, text]; got {content.get('spans')!r:.60}"
        ) from error
    yield Given(
        where,
        str(content["id"]),
        "unsure" if said is None and "label" in content else said,
        content.get("annotator"),
        spans,
        {name: str(text) for name, text in texts.items()},
        content,
    )
