"""What is one labelled RAG answer?"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Self

from calibrail.errors import InputError
from calibrail.settings import checks

FAITHFUL: Final = 0
HALLUCINATED: Final = 1

#: The text fields that a score may require, in the order in which they are reported.
TEXT_FIELDS: Final = ("question", "contexts", "response")

#: All fields that a column may hold.
FIELDS: Final = (*TEXT_FIELDS, "label", "group", "id", "samples")


#: What an example is recognised by.
KnownBy = Literal["texts", "id", "content", "nothing"]


@dataclass(frozen=True, slots=True)
class GivenSentence:
    """A sentence of an answer as the data itself splits it.

    Attributes
    ----------
    start, end : int
        Character offsets into the response, end exclusive.
    label : {0, 1} or None
        1 = unsupported, 0 = supported, None = not labelled.
    columns : mapping of str to float, str or None
        What further columns hold of this sentence: an outside score.
    """

    start: int
    end: int
    label: int | None = None
    columns: Mapping[str, float | str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Example:
    """One answer of a RAG system with what it was asked and what it was given to read.

    Parameters
    ----------
    question : str
        The user's question; empty where the data set has none (summarisation).
    contexts : tuple of str
        The retrieved chunks, in retrieval order.
    response : str
        The answer to judge.
    label : {0, 1} or None
        1 = hallucinated, 0 = faithful, None = not labelled.
    group : str or None
        What the example shares with others that must stay on its side of a split: a source
        document, a question. None means that it stands alone.
    id : str
        Unique within its file.
    samples : tuple of str
        Further answers sampled for the same question, for consistency scores.
    columns : mapping of str to float, str or None
        Further columns of the source row that a caller asked to keep: an outside score, the
        user's own split.
    content : str or None
        What the row holds, where the source gave it neither an id nor a response; empty where
        that is not known. None where ``id`` is its own.
    spans : tuple of (int, int), or None
        Unsupported characters of the response as somebody marked them: offsets, end exclusive,
        sorted, none touching another. None where nobody looked.
    sentences : tuple of GivenSentence, or None
        The response's sentences in order, where the data itself splits it.
    before : str or None
        Of a sentence of an answer, which is an example like any other: what the answer says before
        it. None where ``response`` is a whole answer.
    """

    question: str = ""
    contexts: tuple[str, ...] = ()
    response: str = ""
    label: int | None = None
    group: str | None = None
    id: str = ""
    samples: tuple[str, ...] = ()
    columns: Mapping[str, float | str | None] = field(default_factory=dict)
    content: str | None = None
    spans: tuple[tuple[int, int], ...] | None = None
    sentences: tuple[GivenSentence, ...] | None = None
    before: str | None = None

    @classmethod
    def asked(
        cls,
        *,
        response: str = "",
        question: str = "",
        contexts: Sequence[str] | str = (),
        id: str = "",
        samples: Sequence[str] = (),
        columns: Mapping[str, checks.Cell] | None = None,
    ) -> Self:
        """Return the answer that a caller asks about; one string as contexts is one chunk.

        Raises
        ------
        InputError
            If a text is none, columns are no dict, or a list in one holds anything but numbers.
        """
        for name, text in (("response", response), ("question", question), ("id", id)):
            if not isinstance(text, str):
                raise InputError(f"{name} must be a text; got {text!r:.80}")
        if not isinstance(columns, Mapping | None):
            raise InputError(f"columns must be a dict; got {columns!r:.80}")
        chunks = (contexts,) if isinstance(contexts, str) else checks.texts(contexts, "contexts")
        more = checks.texts(samples, "samples")
        cells = {name: cell_of(cell, name) for name, cell in (columns or {}).items()}
        return cls(question, chunks, response, id=id, samples=more, columns=cells)

    @property
    def known_by(self) -> KnownBy:
        """What tells this example from others, in another file and in another order.

        Texts do where there is an answer: a question may be asked again.
        """
        if self.response:
            return "texts"
        if self.content is None:
            return "id" if self.id else "nothing"
        return "content" if self.content else "nothing"

    def digest(self) -> str:
        """Return 16 hexadecimal digits that identify the texts (question, contexts, response).

        Two examples with the same texts have the same digest, whatever their id and label. An
        example without a response (scores only, a question and a score) is identified by its own
        id; without one, by what its row holds beside the label. By the texts that it has, or its
        place in the file, only where nothing else is known.
        """
        parts: tuple[str, ...] = (self.question, *self.contexts, self.response)
        if self.before is not None:
            parts = (*parts, "after", self.before)
        known_by = self.known_by
        if known_by == "content":
            parts = ("content", self.content or "")
        elif known_by == "id" or not any(parts):
            parts = ("id", self.id)
        hasher = hashlib.sha256()
        for part in parts:
            encoded = part.encode("utf-8", "surrogatepass")
            hasher.update(len(encoded).to_bytes(8, "big"))
            hasher.update(encoded)
        return hasher.hexdigest()[:16]


def cell_of(cell: checks.Cell, name: str) -> float | str | None:
    """Return a cell as a row holds it: numbers of sentences as the text of a JSON list.

    >>> cell_of([0.5, None], "nli"), cell_of(0.5, "nli")
    ('[0.5, null]', 0.5)
    """
    if isinstance(cell, str | bytes) or not isinstance(cell, Sequence):
        return cell
    numbers = [None if item is None else checks.number(item, f"each of {name}") for item in cell]
    return json.dumps(numbers)
