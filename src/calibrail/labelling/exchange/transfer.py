"""Export of answers to other labelling programs, and import of their labels."""

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, get_args

from calibrail.data.example import RowProblem
from calibrail.data.labels import LabelReader
from calibrail.data.outputs import Output, refuse_foreign, refuse_other
from calibrail.data.tables import csv_rows
from calibrail.errors import DataError, InputError, error_text, errors_as, file_errors
from calibrail.labelling.exchange import formats
from calibrail.labelling.exchange.formats import ImportedLabel, LabelWords, changed_text, spans_of
from calibrail.labelling.ledger import Balance, Lots
from calibrail.labelling.session import Session, Task
from calibrail.options import ReadOptions, fields
from calibrail.options.data import SKIP
from calibrail.options.fields import cli_or_python, one_of, optional
from calibrail.options.labelling import Drawing
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
    named = given or _BY_SUFFIX.get(path.suffix.lower())
    if named is None:
        names = ", ".join(get_args(Format))
        raise InputError(
            f"the name {path.name!r} does not say in which format to write; end it in .csv or "
            f".jsonl, or name the format ({cli_or_python('--export-as', 'export_as=')} one of "
            f"{names})"
        )
    format: Format = one_of(named, Format, "export_as")
    return format


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
            if not isinstance(content, dict):
                raise ValueError(f"an object was expected; got {content!r:.60}")
            labels = formats.json_lines_labels
            if formats.ID in content or isinstance(content.get("data"), dict):
                labels = formats.label_studio_labels
            elif isinstance(content.get("fields"), dict):
                labels = formats.argilla_labels
            yield from list(labels(content, where))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            remedy = "give it as it was exported, with a label"
            yield ImportedLabel(where, "", None, problem=f"it cannot be read ({error}); {remedy}")


def _objects(path: Path, raw: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the items of a JSON list, or what each of JSON lines holds."""
    with errors_as(DataError, UnicodeDecodeError, "import_no_utf8", path=path):
        text = raw.decode("utf-8-sig")
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
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
    judge: str | None,
) -> str:
    """Take one row in, and return what it was."""
    if row.problem:
        raise InputError(row.problem)
    if words.read(row.label) == SKIP:
        return "blank"
    name, order = (row.annotator or annotator).strip(), known.get(row.id)
    if order is None:
        hint = ""
        if meant := next((item for item in known if item.lstrip("0") == row.id.lstrip("0")), None):
            hint = f" (a spreadsheet may have made it out of {meant!r})"
        raise InputError(error_text("import_unknown_id", row=row, hint=hint))
    if not order:
        raise InputError(error_text("import_ambiguous_id", row=row))
    label, task = words(row.label), session.task(order)
    if (text := changed_text(row, task)) is not None:
        raise InputError(error_text("import_changed_text", text=text, row=row))
    there = session.labels_of(order).get(name)
    before = first.setdefault((order, name), row.where)
    if there is not None and there.label == label:
        return "again"
    if before != row.where:
        raise InputError(error_text("import_second_label", name=name, row=row, before=before))
    if there is not None:
        raise InputError(
            f"{name!r} has labelled {row.id!r} otherwise already (as {_WORDS[there.label]}); undo "
            "that label to change it, or take the row out"
        )
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
        beside, interface = place.with_suffix(".xml"), formats.INTERFACE.read_bytes()
        refuse_other(beside, interface, force=force)
        files[beside] = interface
    files[place] = _WRITE[format](session.hand_out(annotator, n))
    for file, raw in files.items():
        with file_errors(f"cannot write {file}", "; name another file"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(raw)
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
        raise InputError(error_text("labels_of_judge_for_people", judge=judge))
    column = reading.label_column or "label"
    if not isinstance(column, str):
        raise InputError("label_column must name one column; import each annotator's by itself")
    words, known = LabelWords(LabelReader(reading, column)), session.handed_out()
    counts = dict.fromkeys(("labelled", "unsure", "again", "blank"), 0)
    problems: list[str] = []
    first: dict[tuple[int, str], str] = {}
    for row in read(place, column):
        try:
            kind = _take(session, row, words, judge or annotator, known, first, judge)
        except InputError as error:
            problems.append(f"{row.where}: {error}")
            continue
        counts[kind] += 1
        counts["labelled"] += kind == "unsure"
    return Imported(**counts, problems=tuple(problems))


#: What rounding may take from a probability, and from its being the same for all.
_ROUNDING: Final = 1e-12
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
            raise InputError(
                f"{where}: {id!r} stands there twice, first in {rows[id]['where']}; keep one"
            )
        given, share = row.get("probability"), math.nan
        with suppress(TypeError, ValueError):
            share = float(given or 0)
        if not 0.0 < share <= 1.0:
            raise InputError(error_text("import_probability", where=where, given=given))
        rows[id] = {**row, "label": label, "probability": share, "where": where}
    if not rows:
        raise InputError(f"{place} holds no label; give rows of id, label and probability")
    weighted = drawing.weighted
    shares = [row["probability"] for row in rows.values()]
    if not weighted and max(shares) - min(shares) > _ROUNDING:
        raise InputError(
            f"the probabilities in {path} differ, from {min(shares):g} to {max(shares):g}: add "
            f"{fields.spell_option(Drawing, 'design', 'active')}, which weighs them"
        )
    if not weighted and drawing.whole_groups:
        raise InputError(
            f"{path} is a sample of answers, and whole groups were to be drawn; leave out "
            f"{fields.spell_option(Drawing, 'whole_groups', True)}"
        )
    low = [row for row in rows.values() if row["probability"] < drawing.floors[0] - _ROUNDING]
    if weighted and low:
        raise InputError(
            f"{low[0]['where']}: probability must be at least {drawing.floor:g}; got "
            f"{low[0]['probability']:g} for {low[0]['id']!r}, and {len(low):,} of {len(rows):,} "
            f"rows lie below: name a lower {fields.spell_option(Drawing, 'floor')}, at most half "
            "of the lowest probability of an answer that the guardrail passes"
        )
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
        least = floor if lots.weighted else share
        p = _bernstein(estimate, n, list(units.values()), least)
    weighed = Balance(len(shares), n, estimate, p)
    if p < _REFUSED:
        raise InputError(
            f"the labels in {lots.path} ({len(shares):,}) stand for about {estimate:,.0f} traces "
            f"by their probabilities, and there are {n:,}, which chance does not explain (p < "
            f"{_REFUSED:g}): labels were left out of the file, or the probabilities are not those "
            "of the lot that chose the answers. Give every answer that it chose (with the label "
            "unsure where nobody can tell), the probability that each had before it was chosen, "
            "and all traces that took part, and no others; where there was no such lot, these "
            "labels cannot count"
        )
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

    Raises
    ------
    InputError
        A label says neither class, or a probability is below the floor: the row is named.
    """
    words = LabelWords(LabelReader(ReadOptions(), "label"))
    while (task := session.next(ELSEWHERE)) is not None:
        row = lots.rows[task.id]
        with errors_as(InputError, InputError, "import_row", where=row["where"]):
            label = words(row["label"])
        session.put(str(row.get("annotator") or ELSEWHERE), task.order, label)
