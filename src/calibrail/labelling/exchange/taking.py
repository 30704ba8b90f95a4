"""Which labels of a file become labels of a session, and why do others not?"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from calibrail.errors import InputError
from calibrail.labelling.exchange.given import Given, LabelWords, changed_text, spans_of
from calibrail.labelling.session import Session
from calibrail.record import plain


@dataclass(frozen=True, slots=True)
class Imported:
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

    def to_dict(self) -> dict[str, Any]:
        """Return what ``calibrail label --import --json`` prints."""
        values = {name: plain(getattr(self, name)) for name in self.__dataclass_fields__}
        return {"schema": "calibrail.imported/1"} | values


def take_labels(
    session: Session, rows: Iterable[Given], words: LabelWords, annotator: str
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
    row: Given,
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
    if (before := first.setdefault((order, name), row.where)) != row.where:
        given = session.labels_of(order).get(name)
        if given is None or given.label != label:
            raise InputError(
                f"a second label of {name!r} for {row.id!r}, another one than in {before}; keep one"
            )
        return "again"
    there = session.labels_of(order).get(name)
    if there is not None:
        if there.label == label:
            return "again"
        raise InputError(
            f"{name!r} has labelled {row.id!r} otherwise already (as {_said(there.label)}); undo "
            "that label to change it, or take the row out"
        )
    session.put(name, order, label, spans_of(row, task.response))
    return "unsure" if label is None else "labelled"


def _said(label: int | None) -> str:
    return {1: "hallucinated", 0: "faithful", None: "unsure"}[label]
