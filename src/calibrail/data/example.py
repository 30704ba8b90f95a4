"""Examples, which are labelled answers, and the rows and problems that readers yield."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, Final, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrail.atomic_files import whole_file
from calibrail.data.values import (
    canonical_text,
    chunks_of,
    column_value,
    name_of,
    native,
    same_cell,
    same_chunks,
)
from calibrail.errors import InputError, file_errors
from calibrail.options import fields

FAITHFUL: Final = 0
HALLUCINATED: Final = 1

#: The text fields that a score may require, in the order in which they are reported.
TEXT_FIELDS: Final = ("question", "contexts", "response")

#: All fields that a column may hold.
FIELDS: Final = (*TEXT_FIELDS, "label", "group", "id", "samples")


#: What a digest is of: what the texts say; or the texts in their order, in plain spelling, by which
#: splits are drawn, or as they are spelt, by which samples are drawn and older files know answers.
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
    #: Its digest, once it has been asked for: making it takes half of the time of reading a text.
    _digest: str | None = field(default=None, init=False, repr=False, compare=False)

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
        listed = chunks_of(contexts) if isinstance(contexts, str) else None
        chunks = fields.texts(contexts, "contexts") if listed is None else listed
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
        """What tells this example from another with the same texts; empty where nothing does.

        Without an answer `digest` holds the id, or what the row holds, and nothing else is known.
        """
        if not self.response:
            return ""
        return self.id if self.content is None else self.content

    def digest(self, form: DigestForm = "content") -> str:
        """Return 16 hexadecimal digits that identify the texts (question, contexts, response).

        Two examples with the same texts have the same digest, whatever their id and label, and
        however they are spelt: see `same_text` and `same_chunks` of `calibrail.data.values`. An
        example without a response (scores only, a question and a score) is identified by its own
        id; without one, by what its row holds beside the label. By the texts that it has, or its
        place in the file, only where nothing else is known.
        """
        known_by = self.known_by
        held = form == "content" or (form == "plain" and known_by in ("id", "content"))
        if held and self._digest is not None:
            return self._digest
        parts: tuple[str, ...] = (self.question, *self.contexts, self.response)
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
        encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
        sized = b"".join([len(part).to_bytes(8, "big") + part for part in encoded])
        digest = hashlib.sha256(sized).hexdigest()[:16]
        if held:
            object.__setattr__(self, "_digest", digest)
        return digest


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
    raw = (None if name is None else name.encode("utf-8", "surrogatepass") for name in names)
    hashes = (i if name is None else hash64(name) for i, name in enumerate(raw))
    return np.fromiter(hashes, np.uint64, n)


def n_repeated(numbers: NDArray[np.number[Any]]) -> int:
    """Return how many of some numbers, none of them NaN, occur among them more than once.

    >>> n_repeated(np.array([7, 3, 7, 7, 1]))
    3
    """
    ordered = ascending(numbers)
    same = ordered[1:] == ordered[:-1]
    return int(np.count_nonzero(np.append(same, False) | np.append(False, same)))


def ascending(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return numbers, none of them NaN, in order; they are put in it where they are not."""
    return numbers if (numbers[1:] >= numbers[:-1]).all() else np.sort(numbers)


def mix64(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers spread evenly, one to one: SplitMix64's finalizer (Steele et al. 2014).

    >>> mix64(np.array([0, 1], np.uint64)).tolist()
    [16294208416658607535, 10451216379200822465]
    """
    mixed = bits + np.uint64(0x9E3779B97F4A7C15)
    # In place, and so many at a time as stay next to the processor: there may be millions.
    for start in range(0, len(mixed), 1 << 14):
        some = mixed[start : start + (1 << 14)]
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            some ^= some >> np.uint64(shift)
            some *= np.uint64(factor)
        some ^= some >> np.uint64(31)
    return mixed


def hash64(raw: bytes) -> int:
    """Return 64 bits of a text's digest."""
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "little")


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
        unique = f"{file}:{id}" if file and id in self._all else id
        if unique in self._all:
            return None
        if unique != id:
            self._renamed[file, id] = unique
        self._all.add(unique)
        first[id] = content
        return unique


#: The field that a problem names when the row as a whole cannot be read.
WHOLE_ROW: Final = "row"

_SHOWN: Final = 120


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One row of a source that could be parsed, not yet judged.

    Parameters
    ----------
    number : int
        Where the row starts: 1-based line of a text file, 1-based row of a table.
    values : mapping of str to object
        The row's fields under their names in the source. A benchmark's reader yields calibrail's
        own names (``question``, ``contexts``, ``response``, ``label``, ``group``, ``id``,
        ``samples``); further keys can be kept as columns.
    file : str
        Which of several files it comes from; empty where there is one.
    """

    number: int
    values: Mapping[str, object]
    file: str = ""

    @property
    def name(self) -> str:
        """How a row without an id is called."""
        return f"{self.file}:row-{self.number}" if self.file else f"row-{self.number}"


@dataclass(frozen=True, slots=True, eq=False)
class RowBatch:
    """Some rows of a table, one after the other, as Arrow has them.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
        The rows.
    start : int
        Number of the first one.
    file : str
        As a `Row` has it.
    """

    rows: Any
    start: int
    file: str = ""


@dataclass(frozen=True, slots=True)
class RowProblem:
    """Why a row cannot be used.

    Parameters
    ----------
    row : int
        Number of the row, as in `Row`.
    field : str
        The field at fault in calibrail's names, or ``"row"`` for the whole row.
    reason : str
        The kind of problem; problems are counted by field and reason.
    value : str
        What was seen, shortened (see `shorten`).
    detail : str
        What a parser said, if anything.
    remedy : str
        What to do about it.
    file : str
        Which of several files it comes from; empty where there is one.
    code : str
        Stable name of the kind of problem, where something depends on it.
    """

    row: int
    field: str
    reason: str
    value: str = ""
    detail: str = ""
    remedy: str = ""
    file: str = ""
    code: str = ""

    @property
    def name(self) -> str:
        """How the row is called, whatever id it has."""
        return f"{self.file}:row-{self.row}" if self.file else f"row-{self.row}"

    @property
    def why(self) -> str:
        """What is wrong with it, and what to do about it."""
        return f"{self.field}: {self.entry()['reason']}" + f"; {self.remedy}" * bool(self.remedy)

    def entry(self) -> dict[str, object]:
        """Return the JSON object that a quarantine file holds for this problem."""
        reason = f"{self.reason}: {self.detail}" if self.detail else self.reason
        more = {"remedy": self.remedy, "file": self.file}
        entry = {"row": self.row, "field": self.field, "reason": reason, "value": self.value}
        return entry | {name: text for name, text in more.items() if text}


@dataclass(frozen=True, slots=True)
class Filtered:
    """A row, or one answer of a row, that an option of the reader leaves out on request."""

    row: int
    reason: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class LabelOrigin:
    """How the labels of a source came about, where it says so itself.

    Parameters
    ----------
    purpose : str
        ``calibrate``; ``certify``, where labelling stops when a verdict falls; or ``watch``, where
        answers are drawn from a decision log as it grows.
    design : str
        How answers were drawn.
    seed : int
        Of the order of drawing.
    guardrail : str or None
        Digest of the guardrail whose verdict they were drawn for.
    judge : str or None
        What labelled, where no person did.
    n_changed : int
        Answers whose annotator changed the label after seeing what judges say.
    """

    purpose: str
    design: str
    seed: int
    guardrail: str | None = None
    judge: str | None = None
    n_changed: int = 0


@dataclass(eq=False)
class FieldError(Exception):
    """A field of the row at hand cannot be used; never leaves the reading.

    Parameters
    ----------
    field, reason, value, remedy, code
        As a `RowProblem` has them; the value is not shortened yet.
    row : int or None
        Which row it is, where an answer is made of several.
    """

    field: str
    reason: str
    value: object
    remedy: str
    row: int | None = None
    code: str = ""

    def problem(self, row: int, file: str = "") -> RowProblem:
        """Return what is wrong with the row."""
        value = "" if self.reason == "missing" else shorten(self.value)
        at = row if self.row is None else self.row
        return RowProblem(at, self.field, self.reason, value, "", self.remedy, file, self.code)


#: What the reader of a table yields.
TableItem: TypeAlias = SourceRow | RowProblem

#: What every format comes to.
ParsedItem: TypeAlias = SourceRow | RowProblem | Filtered

#: What the reader of a format may yield. Plain mappings and finished examples are for third-party
#: readers; they are numbered by their position.
Item: TypeAlias = ParsedItem | Mapping[str, object] | Example

#: Opens a table from its start; may be called more than once.
OpenTable: TypeAlias = Callable[[], Iterator[TableItem]]

#: A format: path and options to items. The protocol of the entry-point group ``calibrail.readers``.
Reader: TypeAlias = Callable[[Path, Mapping[str, object]], Iterable[Item]]


def own_values(example: Example) -> dict[str, object]:
    """Return what an example holds, under calibrail's own names, columns beside them."""
    values = {name: getattr(example, name) for name in (*FIELDS, "spans", "sentences")}
    return dict.fromkeys(FIELDS) | dict(example.columns) | values


def shorten(value: object) -> str:
    """Return a one-line representation of at most about 120 characters.

    >>> shorten("x" * 500)[-12:]
    'xxx... (500)'
    """
    if isinstance(value, (str, bytes)) and len(value) > _SHOWN:
        return f"{value[:_SHOWN]!r}"[:_SHOWN] + f"... ({len(value)})"
    if isinstance(value, (list, tuple)) and len(value) > _SHOWN:
        value = list(value[:_SHOWN])
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


class Quarantine:
    """Writes one JSON line a problem to a file that only exists where there was a problem.

    It is there, whole, once it is closed. A file that an earlier run left at the same path is
    removed first, so that the file never speaks of other data than the run's.

    Parameters
    ----------
    path : Path or None
        None counts nothing and writes nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self.path, self._made = path, ExitStack()
        self._stream: IO[str] | None = None
        if path is not None:
            with file_errors(f"cannot replace {path}"):
                path.unlink(missing_ok=True)

    def add(self, problem: RowProblem) -> None:
        """Write ``problem`` as `Problem.entry` has it."""
        if self.path is None:
            return
        if self._stream is None:
            with file_errors(f"cannot write {self.path}"):
                at = self._made.enter_context(whole_file(self.path))
                stream = at.open("w", encoding="utf-8", newline="\n")
                self._stream = self._made.enter_context(stream)
        self._stream.write(json.dumps(problem.entry()) + "\n")

    def close(self) -> None:
        """Let the file take its place, if there is one."""
        with file_errors(f"cannot write {self.path}"):
            self._made.close()
