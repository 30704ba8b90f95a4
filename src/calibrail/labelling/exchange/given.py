"""What does a row of somebody else's file say about an answer?"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from calibrail.data.label_words import label_key
from calibrail.data.labels import LabelReader, TieError, label_remedy
from calibrail.errors import InputError
from calibrail.labelling.lines import Span
from calibrail.labelling.tasks import Task
from calibrail.settings.reading import SKIP

#: What annotators can say.
CHOICES: Final = ("faithful", "hallucinated", "unsure")
_UNSURE: Final = frozenset(
    {"unsure", "not sure", "unclear", "undecided", "unknown", "uncertain", "cannot tell", "?"}
    | {"can't tell", "don't know", "not decidable", "undecidable", "null", "none"}
)
#: Texts are compared up to here: a cell of a spreadsheet holds no more.
LONGEST: Final = 32_000


@dataclass(frozen=True, slots=True)
class Given:
    """One label in a file of another program.

    Attributes
    ----------
    where : str
        File and row, for messages.
    id : str
        Of the answer.
    label : object
        As it stands there; None where nothing does.
    annotator : str or None
        Who gave it, where the file says so.
    marked : sequence
        What nothing supports: (begin, end, text), or a text of the response.
    texts : mapping of str to str
        ``question``, ``contexts`` and ``response`` as they stand there, where they do.
    row : mapping
        Everything that stands there.
    problem : str
        Why the row cannot be read at all, with a remedy.
    """

    where: str
    id: str
    label: object
    annotator: str | None = None
    marked: Sequence[tuple[int, int, str] | str] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    row: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


class LabelWords:
    """Reads labels as every command does, and the words for "that cannot be told".

    Parameters
    ----------
    reader : LabelReader
        With the options of the user.

    Examples
    --------
    >>> from calibrail.settings import ReadOptions
    >>> words = LabelWords(LabelReader(ReadOptions(), "label"))
    >>> [words(value) for value in ("Hallucinated", "0", "not sure")]
    [1, 0, None]
    """

    def __init__(self, reader: LabelReader) -> None:
        self._reader = reader

    def blank(self, value: object) -> bool:
        """Return whether nothing was said, or what counts as nothing."""
        return self._reader.is_missing(value) or (
            not self._unsure(value) and self._read(value) == SKIP
        )

    def __call__(self, value: object) -> int | None:
        """Return 1, 0, or None for unsure.

        Raises
        ------
        InputError
            The value says neither.
        """
        if self._unsure(value):
            return None
        label = self._read(value)
        if isinstance(label, int):
            return label
        raise InputError(f"label {value!r:.60} says neither class: {label_remedy(value)}")

    def _read(self, value: object) -> object:
        try:
            return self._reader(value)
        except TieError as error:
            raise InputError(f"label {value!r:.60}: {error}; write one label") from error

    def _unsure(self, value: object) -> bool:
        return isinstance(value, str) and re.sub(r"[\s_-]+", " ", label_key(value)) in _UNSURE


def joined(contexts: Sequence[str]) -> str:
    """Return contexts as one text, each chunk with its number where there are several.

    >>> joined(("one chunk", "another")).split()
    ['[1]', 'one', 'chunk', '[2]', 'another']
    """
    if len(contexts) == 1:
        return contexts[0]
    return "\n\n".join(f"[{number}] {chunk}" for number, chunk in enumerate(contexts, start=1))


def texts_of(task: Task) -> dict[str, str]:
    """Return what an annotator reads of an answer, by its names in every format."""
    return {
        "question": task.question,
        "contexts": joined(task.contexts),
        "response": task.response,
    }


def changed_text(given: Given, task: Task) -> str | None:
    """Return which text is another one than was handed out, None where none is.

    Spaces and line breaks may differ, as programs change them.
    """
    for name, text in texts_of(task).items():
        there = given.texts.get(name)
        if there is not None and _plain(there) != _plain(text):
            return name
    return None


def spans_of(given: Given, response: str) -> tuple[Span, ...]:
    """Return what is marked as begin, end and text in characters of the response.

    Raises
    ------
    InputError
        It does not stand in the response.
    """
    found = []
    for item in given.marked:
        if isinstance(item, str):
            start = response.find(item)
            if start < 0:
                raise InputError(
                    f"{item!r:.60} does not stand in the response; copy what is marked from it"
                )
            found.append((start, start + len(item), item))
            continue
        start, stop, text = item
        found.append(_located(start, stop, text, response))
    return tuple(sorted(set(found)))


def _located(start: int, stop: int, text: str, response: str) -> Span:
    """Return where a text stands, by offsets in characters or in UTF-16, or by itself."""
    if 0 <= start < stop <= len(response) and (
        not text or _plain(response[start:stop]) == _plain(text)
    ):
        return start, stop, response[start:stop]
    raw = response.encode("utf-16-le", "surrogatepass")
    try:
        piece = raw[2 * start : 2 * stop].decode("utf-16-le")
        before = len(raw[: 2 * start].decode("utf-16-le"))
    except UnicodeDecodeError:
        piece, before = "", 0
    if piece and _plain(piece) == _plain(text):
        return before, before + len(piece), piece
    if text and response.count(text) == 1:
        begin = response.index(text)
        return begin, begin + len(text), text
    raise InputError(
        f"what is marked from {start} to {stop} ({text!r:.60}) does not stand there in the "
        "response; mark it again, or take it out"
    )


def _plain(text: str) -> str:
    return " ".join(text.replace("\\n", " ").split())[:LONGEST]
