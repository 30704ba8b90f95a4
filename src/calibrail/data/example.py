"""Example: one labelled answer, and its identifier."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from calibrail.data.values import (
    canonical_text,
    column_value,
    name_of,
    native,
    same_cell,
    same_chunks,
)
from calibrail.errors import InputError
from calibrail.options import fields

FAITHFUL: Final = 0
HALLUCINATED: Final = 1

#: The text fields that a score may require, in the order in which they are reported.
TEXT_FIELDS: Final = ("question", "contexts", "response")

#: All fields that a column may hold.
FIELDS: Final = (*TEXT_FIELDS, "label", "group", "id", "samples")


#: What a digest is of: what the texts say; or the texts in their order, as they are spelt, by which
#: lots are drawn and older files know answers, or in plain spelling.
DigestForm = Literal["content", "plain", "spelt"]

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
        What the row holds, where the source gave it no id (of a row with a response a digest);
        empty where that is not known. None where ``id`` is its own.
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
        columns: Mapping[str, fields.Cell] | None = None,
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
        chunks = (contexts,) if isinstance(contexts, str) else fields.texts(contexts, "contexts")
        more = fields.texts(samples, "samples")
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

    @property
    def told_by(self) -> str:
        """What tells this example from another with the same texts; empty where nothing does."""
        return self.id if self.content is None else self.content

    def digest(self, form: DigestForm = "content") -> str:
        """Return 16 hexadecimal digits that identify the texts (question, contexts, response).

        Two examples with the same texts have the same digest, whatever their id and label, and
        however they are spelt: see `same_text` and `same_chunks` of `calibrail.data.values`. An
        example without a response (scores only, a question and a score) is identified by its own
        id; without one, by what its row holds beside the label. By the texts that it has, or its
        place in the file, only where nothing else is known.
        """
        parts: tuple[str, ...] = (self.question, *self.contexts, self.response)
        known_by = self.known_by
        if known_by == "content":
            parts = ("content", self.content or "")
        elif known_by == "id" or (self.before is None and not any(parts)):
            parts = ("id", self.id if form == "spelt" else name_of(self.id) or "")
        elif form == "content":
            texts = map(same_cell, (self.question, self.response, self.before or ""))
            kind = "says" if self.before is None else "says after"
            parts = (kind, *texts, *same_chunks(self.contexts))
        else:
            if self.before is not None:
                parts = (*parts, "after", self.before)
            parts = parts if form == "spelt" else tuple(map(canonical_text, parts))
        hasher = hashlib.sha256()
        for part in parts:
            encoded = part.encode("utf-8", "surrogatepass")
            hasher.update(len(encoded).to_bytes(8, "big"))
            hasher.update(encoded)
        return hasher.hexdigest()[:16]


def cell_of(cell: Any, name: str) -> float | str | None:
    """Return a cell as a row holds it: numbers of sentences as the text of a JSON list.

    >>> cell_of([0.5, None], "nli"), cell_of(0.5, "nli")
    ('[0.5, null]', 0.5)
    """
    if not isinstance(cell := native(cell), list):
        return column_value(cell)
    numbers = [None if item is None else fields.number(item, f"each of {name}") for item in cell]
    return json.dumps(numbers)


def identities(
    names: Sequence[str | None] | NDArray[np.integer[Any]] | None, n: int
) -> NDArray[np.uint64]:
    """Return a number for each of n rows, the same for the same name.

    Parameters
    ----------
    names : sequence of str or None, or array of int, length n, or None
        Whole numbers stand for themselves, texts for their hashes, and None for its position.
    n : int
        Number of rows.

    Examples
    --------
    >>> identities(["a", None, "a"], 3).tolist()
    [3405396810240292928, 1, 3405396810240292928]
    """
    if names is None:
        return np.arange(n, dtype=np.uint64)
    if isinstance(names, np.ndarray):
        return names.astype(np.uint64, copy=False)
    hashes = (i if name is None else _hash(name) for i, name in enumerate(names))
    return np.fromiter(hashes, np.uint64, n)


def n_repeated(numbers: NDArray[np.number[Any]]) -> int:
    """Return how many of some numbers, none of them NaN, occur among them more than once.

    >>> n_repeated(np.array([7, 3, 7, 7, 1]))
    3
    """
    counts = np.unique(numbers, return_counts=True)[1]
    return int(counts[counts > 1].sum())


def mix64(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers spread evenly, one to one: SplitMix64's finalizer (Steele et al. 2014).

    >>> mix64(np.array([0, 1], np.uint64)).tolist()
    [16294208416658607535, 10451216379200822465]
    """
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    # In place: there may be millions.
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    bits ^= bits >> np.uint64(31)
    return bits


def _hash(text: str) -> int:
    """Return 64 bits of the text's digest."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


class SourceIds:
    """The ids so far; one that another file has, too, is told apart by the name of its file.

    Attributes
    ----------
    repeated : dict of str to int
        How many answers have each id that stands for several.
    """

    def __init__(self) -> None:
        self._all: set[str] = set()
        self._first: dict[str, dict[str, int]] = {}
        self._renamed: dict[tuple[str, str], str] = {}
        self._further: set[tuple[str, int]] = set()
        self.repeated: dict[str, int] = {}

    def name(self, id: str, file: str, content: int) -> str | None:
        """Return the id that a row is given, or None where its file has this very row already.

        Several answers of one id are given the same: see `told_apart`.
        """
        first = self._first.setdefault(file, {})
        if (before := first.get(id)) is not None:
            name = self._renamed.get((file, id), id)
            if content == before or (name, content) in self._further:
                return None
            self._further.add((name, content))
            self.repeated[name] = self.repeated.get(name, 1) + 1
            return name
        names = (id, f"{file}:{id}") if file else (id,)
        unique = next((name for name in names if name not in self._all), None)
        if unique is not None:
            self._all.add(unique)
            first[id] = content
            if unique != id:
                self._renamed[file, id] = unique
        return unique
