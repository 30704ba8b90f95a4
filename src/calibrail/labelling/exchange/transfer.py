"""Export of answers to other labelling programs, and import of their labels."""

import csv
import hashlib
import io
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, cast, get_args

from calibrail.atomic_files import write_atomically
from calibrail.data.aliases import is_model, judge_of_row
from calibrail.data.example import TEXT_FIELDS, RowProblem
from calibrail.data.labels import UNDECIDED, LabelReader, TieError, label_key, label_remedy
from calibrail.data.outputs import Output, refuse_foreign, refuse_other
from calibrail.data.spreadsheets import csv_rows
from calibrail.errors import DataError, InputError, errors_as, file_errors
from calibrail.labelling.ledger import ROUNDING, Balance, Lots, Span, json_line
from calibrail.labelling.session import Session, Task
from calibrail.options import ReadOptions, fields
from calibrail.options.data import SKIP, judge_of
from calibrail.options.fields import cli_or_python, one_of, optional
from calibrail.options.labelling import Drawing
from calibrail.serialization import Record

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
    return {"question": task.question, "contexts": joined(task.contexts), "response": task.response}


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
            raise InputError.on("mark_not_in_response", item=item)
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
    raise InputError.on("mark_not_at_its_place", start=start, stop=stop, text=text)


def _plain(text: str) -> str:
    return " ".join(text.replace("\\n", " ").split())[:LONGEST]


#: Names of what is asked of an annotator, in every program.
LABEL, SPANS = "label", "unsupported"


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
    return {name: data[name] for name in TEXT_FIELDS if isinstance(data.get(name), str)}


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

#: With what a formula begins, in any width; and, beside white space, what programs drop before it,
#: or nobody sees there: controls, directions, joints, fillers, selectors and tags.
_SIGNS: Final = r"=+\-@\u2212\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b"
_DROPPED: Final = (
    r"'\"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff"
)


def _places(kept: str) -> re.Pattern[str]:
    """Return where a formula would begin, or does not for what keeps it.

    At the beginning, where some trim white space; and where a cell may be parted, as by a
    spreadsheet whose list separator is a semicolon.
    """
    beginning = rf"\A{kept}(?=[{_DROPPED}\s]*[\t\r\n{_SIGNS}])"
    part = rf"[;\t\r\n]{kept}(?=(?:[{_DROPPED}]|[^\S\t\r\n])*[{_SIGNS}])"
    return re.compile(f"({beginning}|{part})")


_FORMULA, _KEPT = _places(""), _places("'")
#: Parts what is marked in one cell.
_NEXT: Final = " | "


def write_spreadsheet(tasks: Iterable[Task]) -> bytes:
    """Return a CSV file that spreadsheets open as it is: UTF-8 with a byte order mark.

    No cell, and no part of one, begins a formula: an apostrophe before it keeps the text.
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for task in tasks:
        cells = [kept_as_text(text[:LONGEST]) for text in texts_of(task).values()]
        writer.writerow([task.alias, *cells, "", "", ""])
    return out.getvalue().encode("utf-8-sig", "surrogatepass")


def kept_as_text(text: str) -> str:
    """Return the cell that a spreadsheet shows as this text.

    Examples
    --------
    >>> [kept_as_text(text) for text in ("=1+1", "q-7", "a; =1+1")]
    ["'=1+1", 'q-7', "a;' =1+1"]
    """
    return _FORMULA.sub(r"\1'", text)


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
    for item in csv_rows(path):
        if isinstance(item, RowProblem):
            problem = f"{item.reason} ({item.detail or item.value}); {item.remedy}"
            yield ImportedLabel(f"{path}, row {item.row}", "", None, problem=problem)
            continue
        where = f"{path}, row {item.number}"
        cells = {name.strip().lower(): value for name, value in item.values.items()}
        for name in ("id", label.lower()):
            if name not in cells:
                names = ", ".join(cells)
                raise DataError.on("import_column_missing", path=path, name=name, names=names)
        marked = str(cells.get("unsupported") or "").split(_NEXT.strip())
        yield ImportedLabel(
            where,
            _text(cells["id"]),
            cells[label.lower()],
            str(cells["annotator"]).strip() if cells.get("annotator") else None,
            tuple(_text(part.strip()) for part in marked if part.strip()),
            {name: _text(cells[name]) for name in TEXT_FIELDS if cells.get(name) is not None},
            cells,
        )


def _text(cell: object) -> str:
    """Return the text of a cell, without the apostrophes that kept it."""
    return _KEPT.sub(lambda place: place[0][:-1], "" if cell is None else str(cell))


Format = Literal["csv", "jsonl", "label-studio", "argilla"]

_BY_SUFFIX: Final[Mapping[str, Format]] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_WRITE: Final[Mapping[str, Callable[[Iterable[Task]], bytes]]] = {
    "csv": write_spreadsheet,
    "jsonl": write_json_lines,
    "label-studio": write_label_studio,
    "argilla": write_argilla,
}


def format_of(path: Path, given: str | None = None) -> Format:
    """Return the format to write a file in: the one named, else the one of its name's ending.

    Raises
    ------
    InputError
        It is unknown.
    """
    named = given or _BY_SUFFIX.get(path.suffix.lower())
    if named is None:
        names = ", ".join(get_args(Format))
        option = cli_or_python("--export-as", "export_as=")
        raise InputError.on("export_format", path=path, option=option, names=names)
    return cast(Format, one_of(named, Format, "export_as"))


def read(path: Path, label: str = "label") -> Iterator[ImportedLabel]:
    """Yield what the rows of a file say; its content tells its format.

    Parameters
    ----------
    path : Path
        The file.
    label : str
        Column of the labels, of a CSV file.

    Raises
    ------
    DataError
        It cannot be read, or is in none of the formats.
    """
    with file_errors(f"cannot read {path}", "; name a file that holds labels"):
        raw = path.read_bytes()
    if raw.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] not in (b"[", b"{"):
        yield from read_spreadsheet(path, label)
        return
    for where, content in _objects(path, raw):
        try:
            if not isinstance(content, dict):
                raise ValueError(f"an object was expected; got {content!r:.60}")
            labels = json_lines_labels
            if ID in content or isinstance(content.get("data"), dict):
                labels = label_studio_labels
            elif isinstance(content.get("fields"), dict):
                labels = argilla_labels
            yield from list(labels(content, where))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            remedy = "give it as it was exported, with a label"
            yield ImportedLabel(where, "", None, problem=f"it cannot be read ({error}); {remedy}")


def _objects(path: Path, raw: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the items of a JSON list, or what each of JSON lines holds."""
    with errors_as(DataError, UnicodeDecodeError, "import_no_utf8", path=path):
        text = raw.decode("utf-8-sig")
    whole = None
    with suppress(ValueError, RecursionError):
        whole = json.loads(text)
    if isinstance(whole, list):
        yield from ((f"{path}, item {number}", item) for number, item in enumerate(whole, start=1))
        return
    for number, line in enumerate([text] if whole else text.split("\n"), start=1):
        if line.strip():
            # Where it is no JSON, whoever takes it says that no object was found.
            item: Any = line
            with suppress(ValueError, RecursionError):
                item = json.loads(line)
            yield f"{path}, line {number}", item


@dataclass(frozen=True, slots=True)
class Imported(Record):
    """What became of the rows of a file.

    Attributes
    ----------
    labelled, unsure : int
        Answers that got a label, and those of them that cannot be told.
    again : int
        Rows whose label was there already.
    blank : int
        Rows without a label.
    problems : tuple of str
        Rows that were not taken, each with its place and a remedy; all others were.
    """

    labelled: int
    unsure: int
    again: int
    blank: int
    problems: tuple[str, ...]

    schema: ClassVar = "calibrail.imported/1"


def _take(
    session: Session,
    row: ImportedLabel,
    words: LabelWords,
    annotator: str,
    known: Mapping[str, int],
    first: dict[tuple[int, str], str],
    by: str | None,
) -> str:
    """Take one row in, and return what it was; ``by`` says who labelled, where anybody does."""
    if row.problem:
        raise InputError(row.problem)
    if words.read(row.label) == SKIP:
        return "blank"
    name, order = (row.annotator or annotator).strip(), known.get(row.id)
    if order is None:
        hint = ""
        if meant := next((item for item in known if item.lstrip("0") == row.id.lstrip("0")), None):
            hint = f" (a spreadsheet may have made it out of {meant!r})"
        raise InputError.on("import_unknown_id", row=row, hint=hint)
    if not order:
        raise InputError.on("import_ambiguous_id", row=row)
    if by is None and is_model(row.annotator or "") is None:
        # Whose a label of a folder is cannot be unsaid.
        ways = (fields.spell_option(ReadOptions, "labelled_by", it) for it in ("people", name))
        raise InputError.on("import_whose", name=name, ways=" or ".join(ways))
    label, task = words(row.label), session.task(order)
    if (text := changed_text(row, task)) is not None:
        raise InputError.on("import_changed_text", text=text, row=row)
    there = session.labels_of(order).get(name)
    before = first.setdefault((order, name), row.where)
    if there is not None and there.label == label:
        return "again"
    if before != row.where:
        raise InputError.on("import_second_label", name=name, row=row, before=before)
    if there is not None:
        raise InputError.on(
            "import_labelled_otherwise", name=name, row=row, value=_WORDS[there.label]
        )
    judge = judge_of_row(row.row, by) or by
    session.put(name, order, label, spans_of(row, task.response), judge=judge)
    return "unsure" if label is None else "labelled"


_WORDS: Final = {1: "hallucinated", 0: "faithful", None: "unsure"}
#: Who labelled where a file does not say so.
ELSEWHERE: Final = "elsewhere"


def export_answers(
    session: Session,
    path: str | PathLike[str],
    annotator: str,
    n: int = 100,
    *,
    export_as: str | None = None,
    force: bool = False,
) -> Sequence[Path]:
    """Hand out the next answers to an annotator in a file for another program.

    They count as handed out: nobody else is asked for them, and they hold up the verdict until
    their labels come back with ``import_labels``. Exported again, those without a label come first.
    The file says nothing of what the guardrail thinks of them.

    Parameters
    ----------
    session : Session
        From ``calibrail.label``.
    path : path
        The file to write.
    annotator : str
        Who will label them.
    n : int
        How many; fewer where no more are left.
    export_as : {"csv", "jsonl", "label-studio", "argilla"}, optional
        The format; guessed from the ending .csv or .jsonl.
    force : bool
        Whether a file that stands there is replaced: one of others, or with labels in it.

    Returns
    -------
    sequence of Path
        The file, and for Label Studio its labelling interface beside it (.xml).

    Raises
    ------
    InputError
        The format is unknown, or something else stands there; nothing is handed out then.
    DataError
        The file cannot be written.
    """
    place = fields.path(path, "path")
    format = format_of(place, export_as)
    refuse_foreign([Output("", place, kind="export")], force=force)
    files = {place: b""}
    if format == "label-studio":
        beside, interface = place.with_suffix(".xml"), INTERFACE.read_bytes()
        refuse_other(beside, interface, force=force)
        files[beside] = interface
    files[place] = _WRITE[format](session.hand_out(annotator, n))
    for file, raw in files.items():
        with file_errors(f"cannot write {file}", "; name another file"):
            write_atomically(file, raw)
    return list(files)


def import_labels(
    session: Session,
    path: str | PathLike[str],
    annotator: str,
    *,
    reading: ReadOptions | None = None,
) -> Imported:
    """Take the labels of a file into a session, by the rules that hold for every label.

    Its format is seen from its content: CSV, JSON lines, tasks of Label Studio with their
    annotations (JSON and JSON-MIN), records of Argilla with their responses. Each row stands for
    itself: those that cannot be taken are told, and the others are kept.

    Parameters
    ----------
    session : Session
        From ``calibrail.label``, whose answers they are about.
    path : path
        The file.
    annotator : str
        Who labelled, where a row does not say so.
    reading : ReadOptions, optional
        Its ``label_column``, ``label_map`` and ``positive`` say what labels mean that are no plain
        words for a class. Labels of a judge (``labelled_by``) say so, and what they would certify
        only agrees with it; for answers of a log they are refused.

    Returns
    -------
    Imported

    Raises
    ------
    DataError
        The file cannot be read, or its columns are others.
    """
    place = fields.path(path, "path")
    reading = optional(reading, ReadOptions, "reading")
    judge = None if reading.labelled_by == "people" else reading.labelled_by
    if judge is not None and session.plan.purpose == "watch":
        raise InputError.on("labels_of_judge_for_people", judge=judge)
    column = reading.label_column or "label"
    if not isinstance(column, str):
        raise InputError("label_column must name one column; import each annotator's by itself")
    words, known = LabelWords(LabelReader(reading, column)), session.handed_out()
    counts = dict.fromkeys(("labelled", "unsure", "again", "blank"), 0)
    problems: list[str] = []
    first: dict[tuple[int, str], str] = {}
    for row in read(place, column):
        try:
            kind = _take(session, row, words, judge or annotator, known, first, reading.labelled_by)
        except InputError as error:
            problems.append(f"{row.where}: {error}")
            continue
        counts[kind] += 1
        counts["labelled"] += kind == "unsure"
    return Imported(**counts, problems=tuple(problems))


#: Chance of so great a difference, or a greater one, below which labels are refused.
_REFUSED: Final = 0.001


def read_lots(path: str | Path, drawing: Drawing) -> Lots:
    """Read labels that were made elsewhere: CSV or JSON lines of id, label and probability.

    Raises
    ------
    DataError
        The file cannot be read.
    InputError
        A row has no probability, or one that is outside its domain or below the floor; an id
        stands there twice; or probabilities differ and the design is ``uniform``.
    """
    place, rows = Path(path), dict[str, Mapping[str, Any]]()
    with file_errors(f"cannot read {place}", "; name a file of id, label and probability"):
        raw = place.read_bytes()
    for where, row in _rows(place, raw):
        id, label = str(row.get("id") or ""), row.get("label")
        if not id:
            raise InputError(f"{where} has no id; give each row that of its trace")
        if label is None or (isinstance(label, str) and not label.strip()):
            continue
        if id in rows:
            raise InputError.on("import_twice", where=where, id=id, first=rows[id]["where"])
        given, share = row.get("probability"), math.nan
        with suppress(TypeError, ValueError):
            share = float(given or 0)
        if not 0.0 < share <= 1.0:
            raise InputError.on("import_probability", where=where, given=given)
        rows[id] = {**row, "label": label, "probability": share, "where": where}
    if not rows:
        raise InputError(f"{place} holds no label; give rows of id, label and probability")
    weighted = drawing.weighted
    shares = [row["probability"] for row in rows.values()]
    if not weighted and max(shares) - min(shares) > ROUNDING:
        add, low, high = fields.spell_option(Drawing, "design", "active"), min(shares), max(shares)
        raise InputError.on("import_unequal", path=path, low=low, high=high, add=add)
    if not weighted and drawing.whole_groups:
        option = fields.spell_option(Drawing, "whole_groups", True)
        raise InputError.on("import_whole_groups", path=path, option=option)
    below = [row for row in rows.values() if row["probability"] < drawing.floors[0] - ROUNDING]
    if weighted and below:
        where, id, share = (below[0][name] for name in ("where", "id", "probability"))
        about = f"{where}: probability must be at least {drawing.floor:g}; got {share:g} for {id!r}"
        n, option = f"{len(below):,} of {len(rows):,}", fields.spell_option(Drawing, "floor")
        raise InputError.on("import_below_floor", about=about, n=n, option=option)
    return Lots(place, hashlib.sha256(raw).hexdigest(), rows, weighted)


def _rows(path: Path, raw: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each row with where it stands."""
    if raw.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] != b"{":
        for item in csv_rows(path):
            if isinstance(item, RowProblem):
                raise DataError(f"{path}, row {item.row}: {item.reason}; {item.remedy}")
            yield f"{path}, row {item.number}", item.values
        return
    # What is no UTF-8 in further fields is no hindrance.
    for where, content in _objects(path, raw.decode("utf-8", "replace").encode()):
        if not isinstance(content, dict):
            raise DataError(f"{where} must hold an object; got {content!r:.60}")
        yield where, content


def balance(lots: Lots, n: int, groups: Mapping[str, str | None], floor: float) -> Balance:
    """Compare the labels that were made elsewhere with the traces they were chosen from.

    The answers of a group may have been chosen together. The chance is exact where all
    probabilities are the same and no two labels share a group. Otherwise it is Bernstein's bound,
    with the variance of the labels there are, and the largest that missing ones may have.

    Parameters
    ----------
    lots : Lots
        What the file of labels says.
    n : int
        Traces, labelled or not.
    groups : mapping of str to str or None
        Group of each answer with a label, by its id.
    floor : float
        Least probability, where they differ.

    Raises
    ------
    InputError
        The difference has a chance below 0.001: both numbers are named.
    """
    shares = {id: float(row["probability"]) for id, row in lots.rows.items()}
    estimate = math.fsum(1.0 / share for share in shares.values())
    units: dict[tuple[bool, str], list[float]] = defaultdict(list)
    for id, share in shares.items():
        group = groups.get(id)
        units[group is not None, id if group is None else group].append(share)
    share = min(shares.values())
    if len(units) == len(shares) and not lots.weighted:
        from scipy.stats import binom  # Half a second that most commands need not wait for.

        below, above = binom.cdf(len(shares), n, share), binom.sf(len(shares) - 1, n, share)
        p = min(1.0, 2.0 * float(min(below, above)))
    else:
        p = _bernstein(estimate, n, list(units.values()), floor if lots.weighted else share)
    weighed = Balance(len(shares), n, estimate, p)
    if p < _REFUSED:
        path, below = lots.path, _REFUSED
        raise InputError.on("import_no_lot", path=path, weighed=weighed, below=below)
    return weighed


def _bernstein(estimate: float, n: int, units: list[list[float]], least: float) -> float:
    """Return a bound on the chance that the estimate is so far from n, two-sided."""
    sizes = [math.fsum(1.0 / share for share in shares) for shares in units]
    pairs = zip(units, sizes, strict=True)
    variance = math.fsum((1.0 - min(shares)) * size**2 for shares, size in pairs)
    apart, answers = abs(estimate - n), max(map(len, units))
    if estimate > n:
        variance, largest = variance * n / estimate, max(sizes)
    else:
        # All that is missing may have had the least probability.
        variance, largest = variance + apart * answers * (1.0 - least) / least, float(answers)
    spread = variance + largest * apart / 3.0
    return 1.0 if not apart else min(1.0, 2.0 * math.exp(-(apart**2) / (2.0 * spread)))


def take_all(session: Session, lots: Lots) -> None:
    """Draw all traces, and give each that was labelled elsewhere its label.

    What labels mean, and which judge gave them, the reading says that the labels were begun with.

    Raises
    ------
    InputError
        A label says neither class, or a probability is below the floor: the row is named.
    """
    judge = judge_of(session.plan.reading)
    reading = ReadOptions(**session.plan.reading["settings"])
    words, whose = LabelWords(LabelReader(reading, "label")), judge or ELSEWHERE
    while (task := session.next(ELSEWHERE)) is not None:
        row = lots.rows[task.id]
        with errors_as(InputError, InputError, "import_row", where=row["where"]):
            label = words(row["label"])
        name = str(row.get("annotator") or whose)
        by = judge_of_row(row, reading.labelled_by) or reading.labelled_by
        session.put(name, task.order, label, judge=by)
