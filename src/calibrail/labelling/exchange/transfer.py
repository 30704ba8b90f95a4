"""Export of answers to other labelling programs, and import of their labels."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, get_args

from calibrail.data.labels import LabelReader
from calibrail.errors import DataError, InputError, file_errors
from calibrail.labelling.exchange import formats
from calibrail.labelling.exchange.formats import ImportedLabel, LabelWords, changed_text, spans_of
from calibrail.labelling.plan import Lots
from calibrail.labelling.progress import Task
from calibrail.labelling.session import Session
from calibrail.options import ReadOptions, fields
from calibrail.options.fields import cli_or_python, one_of, optional
from calibrail.serialization import Record

Format = Literal["csv", "jsonl", "label-studio", "argilla"]

_BY_SUFFIX: Final[Mapping[str, Format]] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_WRITE: Final[Mapping[str, Callable[[Iterable[Task]], bytes]]] = {
    "csv": formats.write_spreadsheet,
    "jsonl": formats.write_json_lines,
    "label-studio": formats.write_label_studio,
    "argilla": formats.write_argilla,
}


def format_of(path: Path, given: str | None = None) -> Format:
    """Return the format to write a file in: the one named, else the one of its name's ending.

    Raises
    ------
    InputError
        It is unknown.
    """
    if given is not None:
        named: Format = one_of(given, Format, "export_as")
        return named
    named_by_suffix = _BY_SUFFIX.get(path.suffix.lower())
    if named_by_suffix is None:
        names = ", ".join(get_args(Format))
        raise InputError(
            f"the name {path.name!r} does not say in which format to write; end it in .csv or "
            f".jsonl, or name the format ({cli_or_python('--export-as', 'export_as=')} one of "
            f"{names})"
        )
    return named_by_suffix


def write(path: Path, tasks: Iterable[Task], format: Format) -> list[Path]:
    """Write answers for another program, with its labelling interface where it takes one.

    Returns
    -------
    list of Path
        The files written.
    """
    files = {path: _WRITE[format](tasks)}
    if format == "label-studio":
        files[path.with_suffix(".xml")] = formats.INTERFACE.encode("utf-8")
    for place, raw in files.items():
        with file_errors(f"cannot write {place}", "; name another file"):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(raw)
    return list(files)


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
        yield from formats.read_spreadsheet(path, label)
        return
    for where, content in _objects(path, raw):
        try:
            yield from list(_given(content, where))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            remedy = "give it as it was exported, with a label"
            yield ImportedLabel(where, "", None, problem=f"it cannot be read ({error}); {remedy}")


def _given(content: Any, where: str) -> Iterator[ImportedLabel]:
    if not isinstance(content, dict):
        raise ValueError(f"an object was expected; got {content!r:.60}")
    if formats.is_task(content):
        return formats.label_studio_labels(content, where)
    if formats.is_record(content):
        return formats.argilla_labels(content, where)
    return formats.json_lines_labels(content, where)


def _objects(path: Path, raw: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the items of a JSON list, or what each of JSON lines holds."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8: {error}; save it as UTF-8") from error
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, list):
        for number, item in enumerate(whole, start=1):
            yield f"{path}, item {number}", item
        return
    if isinstance(whole, dict):
        yield f"{path}, line 1", whole
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except (ValueError, RecursionError):
            # What follows says that no object was found.
            item = line
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


def take_labels(
    session: Session, rows: Iterable[ImportedLabel], words: LabelWords, annotator: str
) -> Imported:
    """Put the labels of a file into a session, by the rules that hold for every label.

    Parameters
    ----------
    session : Session
        Whose answers they are about.
    rows : iterable of Given
        What the file says.
    words : LabelWords
        What labels mean.
    annotator : str
        Who labelled where a row does not say so.
    """
    known = session.handed_out()
    counts = dict.fromkeys(("labelled", "unsure", "again", "blank"), 0)
    problems: list[str] = []
    first: dict[tuple[int, str], str] = {}
    for row in rows:
        try:
            kind = _take(session, row, words, annotator, known, first)
        except InputError as error:
            problems.append(f"{row.where}: {error}")
            continue
        counts[kind] += 1
        counts["labelled"] += kind == "unsure"
    return Imported(**counts, problems=tuple(problems))


def _take(
    session: Session,
    row: ImportedLabel,
    words: LabelWords,
    annotator: str,
    known: Mapping[str, int],
    first: dict[tuple[int, str], str],
) -> str:
    """Take one row in, and return what it was."""
    if row.problem:
        raise InputError(row.problem)
    if words.blank(row.label):
        return "blank"
    name, order = (row.annotator or annotator).strip(), known.get(row.id)
    if order is None:
        hint = ""
        if meant := next((item for item in known if item.lstrip("0") == row.id.lstrip("0")), None):
            hint = f" (a spreadsheet may have made it out of {meant!r})"
        raise InputError(
            f"no answer with the id {row.id!r} was handed out to be labelled{hint}; correct the "
            "id, or take the row out"
        )
    if not order:
        raise InputError(
            f"the id {row.id!r} is that of several answers that were handed out; name the one that "
            "is meant by what stands for its id in an exported file, such as no17-3f2a9c1b"
        )
    label, task = words(row.label), session.task(order)
    if (text := changed_text(row, task)) is not None:
        raise InputError(
            f"the {text} of {row.id!r} is another one than was handed out, so the label may be "
            f"about something else; restore it, or empty that cell to say that it is the same"
        )
    there = session.labels_of(order).get(name)
    if (before := first.setdefault((order, name), row.where)) != row.where:
        if there is None or there.label != label:
            raise InputError(
                f"a second label of {name!r} for {row.id!r}, another one than in {before}; keep one"
            )
        return "again"
    if there is not None:
        if there.label == label:
            return "again"
        raise InputError(
            f"{name!r} has labelled {row.id!r} otherwise already (as {_WORDS[there.label]}); undo "
            "that label to change it, or take the row out"
        )
    session.put(name, order, label, spans_of(row, task.response))
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

    Returns
    -------
    sequence of Path
        The file, and for Label Studio its labelling interface beside it (.xml).

    Raises
    ------
    InputError
        The format is unknown; nothing is handed out then.
    DataError
        The file cannot be written.
    """
    place = fields.path(path, "path")
    format = format_of(place, export_as)
    return write(place, session.hand_out(annotator, n), format)


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
        words for a class.

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
    column = reading.label_column or "label"
    if not isinstance(column, str):
        raise InputError("label_column must name one column; import each annotator's by itself")
    words = LabelWords(LabelReader(reading, column))
    return take_labels(session, read(place, column), words, annotator)


def take_all(session: Session, lots: Lots) -> None:
    """Draw all traces, and give each that was labelled elsewhere its label.

    Raises
    ------
    InputError
        A label says neither class, or a probability is below the floor: the row is named.
    """
    words = LabelWords(LabelReader(ReadOptions(), "label"))
    while (task := session.next(ELSEWHERE)) is not None:
        row = lots.rows[task.id]
        try:
            label = words(row["label"])
        except InputError as error:
            raise InputError(f"{row['where']}: {error}") from error
        session.put(str(row.get("annotator") or ELSEWHERE), task.order, label)
