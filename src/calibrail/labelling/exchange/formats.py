"""File formats of labels: CSV, JSON lines, Label Studio, Argilla.

The format is that of ``Record.to_dict`` in Argilla 2, which ``dataset.records.to_json`` writes and
``from_json`` reads: fields, suggestions, and for each question the responses of several users.

The format is that of Label Studio's JSON import and export: ``data`` holds what is shown, and each
of ``annotations`` the results of one person. The flat export (JSON-MIN) is read, too.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from calibrail.data.example import RowProblem
from calibrail.data.labels import UNDECIDED, LabelReader, TieError, label_key, label_remedy
from calibrail.data.tables import csv_rows
from calibrail.errors import DataError, InputError, error_text, errors_as
from calibrail.labelling.ledger import Span, json_line
from calibrail.labelling.session import Task
from calibrail.options.data import SKIP

_UNSURE: Final = UNDECIDED | {"?", "null"}
#: Texts are compared up to here: a cell of a spreadsheet holds no more.
LONGEST: Final = 32_000


@dataclass(frozen=True, slots=True)
class ImportedLabel:
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
    >>> from calibrail.options import ReadOptions
    >>> words = LabelWords(LabelReader(ReadOptions(), "label"))
    >>> [words(value) for value in ("Hallucinated", "0", "not sure")]
    [1, 0, None]
    """

    def __init__(self, reader: LabelReader) -> None:
        self._reader = reader

    def __call__(self, value: object) -> int | None:
        """Return 1, 0, or None for unsure.

        Raises
        ------
        InputError
            The value says neither.
        """
        if isinstance(label := self.read(value), int | None):
            return label
        raise InputError(f"label {value!r:.60} says neither class: {label_remedy(value)}")

    def read(self, value: object) -> int | str | None:
        """Return the same, `SKIP` where nothing was said, and otherwise that it says neither."""
        if isinstance(value, str) and re.sub(r"[\s_-]+", " ", label_key(value)) in _UNSURE:
            return None
        with errors_as(InputError, TieError, "label_tied", value=value):
            label = SKIP if self._reader.is_missing(value) else self._reader(value)
        return "neither" if label is None else label


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


def changed_text(given: ImportedLabel, task: Task) -> str | None:
    """Return which text is another one than was handed out, None where none is.

    Spaces and line breaks may differ, as programs change them.
    """
    for name, text in texts_of(task).items():
        there = given.texts.get(name)
        if there is not None and _plain(there) != _plain(text):
            return name
    return None


def spans_of(given: ImportedLabel, response: str) -> tuple[Span, ...]:
    """Return what is marked as begin, end and text in characters of the response.

    Raises
    ------
    InputError
        It does not stand in the response.
    """
    spans = set[Span]()
    for item in given.marked:
        if not isinstance(item, str):
            spans.add(_located(*item, response))
        elif (start := response.find(item)) >= 0:
            spans.add((start, start + len(item), item))
        else:
            raise InputError(error_text("mark_not_in_response", item=item))
    return tuple(sorted(spans))


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
    raise InputError(error_text("mark_not_at_its_place", start=start, stop=stop, text=text))


def _plain(text: str) -> str:
    return " ".join(text.replace("\\n", " ").split())[:LONGEST]


#: Names of what is asked of an annotator, in every program.
LABEL, SPANS = "label", "unsupported"
_FIELDS: Final = ("question", "contexts", "response")


def write_argilla(tasks: Iterable[Task]) -> bytes:
    """Return the records as a JSON list, without suggestions: annotators are to be blind."""
    empty: dict[str, Any] = {"metadata": {}, "suggestions": {}, "responses": {}, "vectors": {}}
    empty["_server_id"] = None
    return _json_list([{"id": task.alias, "fields": texts_of(task), **empty} for task in tasks])


def _json_list(content: Sequence[Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")


def argilla_labels(content: Mapping[str, Any], where: str) -> Iterator[ImportedLabel]:
    """Yield the response of each user to the question about the label."""
    responses, texts = content.get("responses") or {}, _texts(content["fields"])
    marked = {str(item.get("user_id")): item["value"] for item in responses.get(SPANS) or ()}
    for item in responses.get(LABEL) or ():
        user = item.get("user_id")
        yield ImportedLabel(
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


#: Our id in the data of a task: "id" is its own.
ID: Final = "answer_id"

#: The labelling interface for the tasks.
INTERFACE: Final = files(__package__) / "label_studio.xml"


def write_label_studio(tasks: Iterable[Task]) -> bytes:
    """Return the tasks as a JSON list, without predictions: annotators are to be blind."""
    return _json_list([{"data": {ID: task.alias, **texts_of(task)}} for task in tasks])


def label_studio_labels(content: Mapping[str, Any], where: str) -> Iterator[ImportedLabel]:
    """Yield the label of each annotation of a task; one that was cancelled says nothing."""
    data = content["data"] if ID not in content else content
    key, texts = str(data.get(ID, data.get("id", ""))), _texts(data)
    if data is content:
        # A flat export holds one annotation beside the data.
        marked = [item for item in content.get(SPANS) or () if isinstance(item, Mapping)]
        annotations = [(where, content.get(LABEL), content.get("annotator"), marked, content)]
    else:
        annotations = []
        for number, annotation in enumerate(content.get("annotations") or (), start=1):
            if annotation.get("was_cancelled"):
                continue
            results = annotation.get("result") or ()
            choices = [item for item in results if item.get("type") == "choices"]
            named = [item for item in choices if item.get("from_name") == LABEL] or choices
            words = [word for item in named for word in item.get("value", {}).get("choices", ())]
            label = words[0] if len(set(words)) == 1 else words or None
            marked = [
                item["value"]
                for item in results
                if item.get("type") == "labels" and item.get("to_name") == "response"
            ]
            by = annotation.get("completed_by")
            annotations.append((f"{where}, annotation {number}", label, by, marked, annotation))
    for place, label, by, marked, row in annotations:
        spans = [(start, end, text.replace("\\n", "\n")) for start, end, text in map(_span, marked)]
        yield ImportedLabel(place, key, label, _person(by), spans, texts, row)


def _texts(data: Mapping[str, Any]) -> dict[str, str]:
    return {name: data[name] for name in _FIELDS if isinstance(data.get(name), str)}


def _person(by: object) -> str | None:
    """Return who annotated: an address, or the number of the account."""
    if isinstance(by, Mapping):
        by = by.get("email") or by.get("id")
    if by is None or by == "":
        return None
    return by if isinstance(by, str) else f"label-studio {by}"


def write_json_lines(tasks: Iterable[Task]) -> bytes:
    """Return one object a line; ``label`` is to be added: 1, 0, a word, or null for unsure."""
    return b"".join(
        json_line({"id": task.alias, **texts_of(task), "contexts": list(task.contexts)})
        for task in tasks
    )


def json_lines_labels(content: dict[str, Any], where: str) -> Iterator[ImportedLabel]:
    """Yield what a line says; a line of ``labels.jsonl`` is one, too.

    Raises
    ------
    InputError
        It has no id.
    """
    if not isinstance(content.get("id"), str | int):
        raise InputError("it has no id; give each line that of its answer")
    texts: dict[str, str] = {}
    texts |= {name: str(content[name]) for name in ("question", "response") if name in content}
    if isinstance(contexts := content.get("contexts"), list):
        texts["contexts"] = joined([str(chunk) for chunk in contexts])
    label = content.get("label")
    yield ImportedLabel(
        where,
        str(content["id"]),
        "unsure" if label is None and "label" in content else label,
        content.get("annotator"),
        [(int(start), int(end), str(text)) for start, end, text in content.get("spans") or ()],
        texts,
        content,
    )


#: Of the file written: what is to be filled in comes last, where there is room.
COLUMNS: Final = ("id", "question", "contexts", "response", "label", "unsupported", "annotator")

#: What a spreadsheet would run as a formula (some take signs of full width and trim white space),
#: and what a text may begin with that was kept from it.
_FORMULA: Final = re.compile(r"'*\s*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
#: What it would turn into a number, a date or a truth value.
_CONVERTED: Final = re.compile(
    r"[\d.,:/\s%()eE-]+|true|false"
    r"|\d*[\s/.-]*(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[\s/.-]*\d*",
    re.IGNORECASE,
)
#: Parts what is marked in one cell.
_NEXT: Final = " | "


def write_spreadsheet(tasks: Iterable[Task]) -> bytes:
    """Return a CSV file that spreadsheets open as it is: UTF-8 with a byte order mark.

    No cell begins a formula, and no id is turned into a number: an apostrophe before it keeps the
    text.
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for task in tasks:
        cells = [kept_as_text(text[:LONGEST]) for text in texts_of(task).values()]
        writer.writerow([kept_as_text(task.alias, id=True), *cells, "", "", ""])
    return out.getvalue().encode("utf-8-sig", "surrogatepass")


def kept_as_text(text: str, *, id: bool = False) -> str:
    """Return the cell that a spreadsheet shows as this text.

    Examples
    --------
    >>> [kept_as_text(text, id=True) for text in ("=1+1", "0012", "q-7", "MAR-1")]
    ["'=1+1", "'0012", 'q-7', "'MAR-1"]
    """
    if _FORMULA.match(text) or (id and _CONVERTED.fullmatch(text.lstrip("'"))):
        return f"'{text}"
    return text


def read_spreadsheet(path: Path, label: str = "label") -> Iterator[ImportedLabel]:
    """Yield the rows of a CSV file.

    Parameters
    ----------
    path : Path
        The file; separated by commas, semicolons or tabs.
    label : str
        Column of the labels.

    Raises
    ------
    DataError
        It lacks a column.
    """
    with path.open("rb") as stream:
        first = stream.readline(4096)
    # What spreadsheets write in many places.
    semicolons = first.count(b";") > max(first.count(b","), first.count(b"\t"))
    for item in csv_rows(path, ";" if semicolons else None):
        if isinstance(item, RowProblem):
            problem = f"{item.reason} ({item.detail or item.value}); {item.remedy}"
            yield ImportedLabel(f"{path}, row {item.row}", "", None, problem=problem)
            continue
        where = f"{path}, row {item.number}"
        cells = {name.strip().lower(): value for name, value in item.values.items()}
        for name in ("id", label.lower()):
            if name not in cells:
                raise DataError(
                    f"{path} has no column {name!r}; it has {', '.join(cells)}: name that column "
                    "so, as in the file that was exported"
                )
        marked = str(cells.get("unsupported") or "").split(_NEXT.strip())
        yield ImportedLabel(
            where,
            _text(cells["id"], id=True),
            cells[label.lower()],
            str(cells["annotator"]).strip() if cells.get("annotator") else None,
            tuple(_text(part.strip()) for part in marked if part.strip()),
            {name: _text(cells[name]) for name in _FIELDS if cells.get(name) is not None},
            cells,
        )


def _text(cell: object, *, id: bool = False) -> str:
    """Return the text of a cell, without the apostrophe that kept it."""
    text = "" if cell is None else str(cell)
    return text[1:] if text[:1] == "'" and kept_as_text(text[1:], id=id) == text else text
