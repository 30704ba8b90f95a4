"""How do answers leave for another program, and how do labels come back?"""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Final

from calibrail.data.labels import LabelReader
from calibrail.errors import InputError
from calibrail.labelling.elsewhere import Lots
from calibrail.labelling.exchange.files import format_of, read, write
from calibrail.labelling.exchange.given import LabelWords
from calibrail.labelling.exchange.taking import Imported as Imported
from calibrail.labelling.exchange.taking import take_labels
from calibrail.labelling.session import Session
from calibrail.settings import ReadOptions, checks
from calibrail.settings.checks import optional

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
    place = checks.path(path, "path")
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
    place = checks.path(path, "path")
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
