"""Sources of a command: opened, split into batches, in order; who is told of the progress."""

import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from calibrail import guardrail as guardrails
from calibrail.atomic_files import append_whole
from calibrail.data.aliases import aliases_of, is_of_judge
from calibrail.data.columns import which_label
from calibrail.data.example import HALLUCINATED, TEXT_FIELDS, Example, RowProblem, shorten
from calibrail.data.labels import (
    NONE,
    PLAIN,
    LabelReader,
    TieError,
    another_column,
    is_turned,
    label_key,
    label_remedy,
    names_people,
)
from calibrail.data.reading import Reading, read
from calibrail.data.sources import Source, reusable, spoken
from calibrail.data.suggested_options import direction_of
from calibrail.data.tables import ACCEPTED, columns_of
from calibrail.data.values import column_value, name_of, number_in, parse_cell, value_at
from calibrail.errors import DataError, InputError, file_errors
from calibrail.models.hardware import installed_versions
from calibrail.options import ScoreThreshold, fields
from calibrail.options.data import SKIP, ReadOptions
from calibrail.report.messages import say
from calibrail.scores.base import Score
from calibrail.scores.registry import DEFAULT_SCORE, ColumnScore, Higher, build_column

#: Answers that are decided about, or counted, at a time.
BLOCK = 256

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")
#: The code of an answer that can be used, and is not.
NOT_WANTED: Final = "not wanted"
#: File and row of an answer, or what is wrong with a row.
RowPlace: TypeAlias = tuple[str, int] | RowProblem


def open_source(
    source: Source,
    reading: ReadOptions | None = None,
    scores: Iterable[Score] = (),
    *,
    keep: Sequence[str] = (),
    labelled: bool = True,
    allow_none: bool = False,
    by_sentence: bool = False,
) -> Reading:
    """Open examples for one streaming pass.

    Parameters
    ----------
    source : path, str or data in memory
        Where the examples are.
    reading : ReadOptions, optional
        How to read them.
    scores : iterable of Score
        Every row needs the fields that they read; their columns are kept.
    keep : sequence of str
        Further columns to keep.
    labelled, allow_none : bool
        Whether every row needs a label, and whether a file without a usable row is fine.
    by_sentence : bool
        Whether marks are read, as `read` says.
    """
    scores = tuple(scores)
    # Answers without samples are read, and the score that wants them is undefined there.
    texts = [name for score in scores for name in score.requires if name in TEXT_FIELDS]
    opened = read(
        source,
        reading,
        keep=tuple(dict.fromkeys((*source_columns(scores), *keep))),
        require=tuple(dict.fromkeys(texts)),
        labelled=labelled,
        allow_none=allow_none,
        by_sentence=by_sentence,
        # Without labels rows are given as they come, each with its place.
        distinct=labelled,
    )
    for score in (score for score in scores if isinstance(score, ColumnScore)):
        # Where a yes means hallucinated, true and false may be said of the answer.
        if score.higher == "hallucinated" and score.positive is None:
            opened.verdicts.append(LabelReader(ReadOptions(), score.column))
            opened.verdicts[-1].named = HALLUCINATED
    return opened


def open_for(
    guardrail: "guardrails.Guardrail",
    source: Source,
    reading: ReadOptions | None,
    *,
    keep: Sequence[str] = (),
    labelled: bool = True,
    by_sentence: bool = False,
) -> Reading:
    """Open answers for a guardrail to decide about, one that its score cannot read among them.

    Raises
    ------
    DataError
        The source has no column of the texts, or of the scores, that the guardrail reads.
    """
    with guardrail.rules():
        return read(
            source,
            reading,
            keep=tuple(dict.fromkeys((*guardrail.columns, *keep))),
            require=(),
            expect=guardrail.texts,
            decimals=guardrail.decimals,
            labelled=labelled,
            allow_none=not labelled,
            by_sentence=by_sentence,
            distinct=labelled,
        )


def source_columns(scores: Iterable[Score]) -> tuple[str, ...]:
    """Return the columns of the data that scores read, each once."""
    names = (name for score in scores for name in getattr(score, "columns", ()))
    return tuple(dict.fromkeys(names))


def batches(items: Iterable[_Item], size: int = BLOCK) -> Iterator[list[_Item]]:
    """Yield so many items at a time."""
    rest = (item for item in items)
    while batch := list(islice(rest, size)):
        yield batch


def watched(items: Iterable[_Item], *watchers: Callable[[_Item], object]) -> Iterator[_Item]:
    """Yield items, each after every watcher has seen it."""
    for item in items:
        for watch in watchers:
            watch(item)
        yield item


#: The column that holds the scores of a call with arrays.
SCORE_COLUMN: Final = "score"


#: Which column each array becomes; the scores' is another in every call.
_FIELDS: Final = {"scores": "", "labels": "label", "groups": "group", "ids": "id"}


def source_of(source: Source | None, given: Mapping[str, Any], column: str | None) -> Source:
    """Return the source of a call: what was given, or its arrays.

    Parameters
    ----------
    source : path, str or data in memory, or None
        What stands in the source's place.
    given : mapping
        ``scores``, ``labels``, ``groups`` and ``ids`` of the call, or None.
    column : str or None
        The column that the scores stand for; None where no column is read.

    Raises
    ------
    InputError
        If both are given, or neither; if scores or labels are missing, or lengths differ.
    """
    arrays = {name: values for name, values in given.items() if values is not None}
    if not arrays:
        if source is None:
            raise InputError(f"no data was given: give {ACCEPTED}, or scores= and labels=")
        return source
    if source is not None:
        raise InputError("give the data or its scores= and labels=, not both")
    if lacking := [name for name in ("scores", "labels") if name not in arrays]:
        raise InputError(f"{' and '.join(arrays)} need {lacking[0]}=, one value per answer")
    if column is None:
        raise InputError("this guardrail computes its score from texts; give answers, not scores=")
    columns = columns_of(**arrays)
    named = str(getattr(arrays["labels"], "name", None) or "label")
    if is_turned(named) and not PLAIN.isdisjoint(map(label_key, columns["labels"])):
        raise InputError(say("refused.turned_name", named=named))
    return {_FIELDS[name] or column: values for name, values in columns.items()}


def calibration_source(
    source: Source | None, score: Any, arrays: Mapping[str, Any], higher: Higher | None
) -> tuple[Source, Any]:
    """Return the source and the detector of a call that may give arrays in their place."""
    source = source_of(source, arrays, SCORE_COLUMN)
    if arrays["scores"] is None:
        return source, score
    if score not in (None, DEFAULT_SCORE):
        raise InputError("give scores= or the detector that computes them, not both")
    return source, build_column(SCORE_COLUMN, higher=higher or "hallucinated")


#: Called with the number of examples scored so far.
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Context:
    """How a run can be repeated, and who is told how far it is.

    Attributes
    ----------
    command : str or None
        The command that a reader would run to get this result again.
    progress : callable or None
        Called with the number of examples scored so far.
    text : bool
        Whether pages may show questions, contexts and answers; no other file ever holds them.
    """

    command: str | None = None
    progress: Progress | None = None
    text: bool = True

    def reproduce(self) -> dict[str, Any]:
        """Return what a report says about how to get it again."""
        return {"command": self.command, "versions": installed_versions()}


class RowOrder:
    """Brings what is made of answers back into the order of all rows of their source.

    Parameters
    ----------
    read : Reading
        Not begun.
    """

    def __init__(self, read: Reading) -> None:
        self._read = read
        self._rows: deque[RowPlace] = deque()
        self._ahead: list[tuple[RowPlace, Example | None]] = []
        read.told = lambda problem: self._ahead.append((problem, None))

    def answers(
        self, wanted: Callable[[list[Example]], Sequence[bool]] | None = None
    ) -> Iterator[Example]:
        """Yield the answers of each of which one thing is made; the others count as problems.

        Which of them are ``wanted`` is asked of many at a time.
        """
        noted = watched(self._read, lambda item: self._ahead.append((self._read.place, item)))
        for block in batches(noted, 1 if wanted is None else BLOCK):
            rows, self._ahead = self._ahead, []
            admitted = iter([True] if wanted is None else wanted(block))
            for place, example in rows:
                if example is None or next(admitted):
                    self._rows.append(place)
                    yield from () if example is None else (example,)
                else:
                    file, row = cast(tuple[str, int], place)
                    why = RowProblem(row, "row", NOT_WANTED, example.id, file=file, code=NOT_WANTED)
                    self._rows.append(why)
        self._rows.extend(place for place, _ in self._ahead)

    def interleaved(
        self, made: Iterable[_Made]
    ) -> Iterator[tuple[_Made, tuple[str, int]] | RowProblem]:
        """Yield what is made of each answer with its file and row, and the rows that are none."""
        for item in made:
            for place in self.of(1):
                yield place if isinstance(place, RowProblem) else (item, place)
        yield from cast(list[RowProblem], self.of(0))

    def of(self, n: int) -> list[RowPlace]:
        """Take the places of the next n answers, and the problems up to the answer after them."""
        places: list[RowPlace] = []
        while self._rows and (n or isinstance(self._rows[0], RowProblem)):
            places.append(place := self._rows.popleft())
            n -= not isinstance(place, RowProblem)
        return places


def column_of_people(
    seen: Reading, reading: ReadOptions, others: Sequence[str], here: bool, apart: bool = False
) -> tuple[str, ReadOptions]:
    """Return the column of people's labels; refuse data that is to have one, and has none.

    What is refused names the labels' own file where they may stand apart. Where a program gave
    them by the name of the column, the options for reading that are returned say so.
    """
    human = cast("str | None", reading.label_column)
    if human:
        fields.column(human, "label_column")
    found = ("human", *aliases_of("label", others), *seen.columns.label_columns)
    if not human and here and not any(name in others for name in found):
        rows = [{name: value_at(row, name) for name in others} for row in seen.head]
        about = {"name": seen.source, "listed": ", ".join(others), "which": which_label(rows)}
        about["taken"] = next(
            (it for it in seen.fields if it not in others and names_people(it)), ""
        )
        raise DataError(say("refused.no_people", about, apart=apart))
    human = human or next((name for name in found if name in others), "human")
    whose = reading.labelled_by or (human if is_of_judge(human) else None)
    return human, replace(reading, labelled_by=whose)


#: What a 1 means where it is not what it was read as, by the class that a name says.
_TURNED: Final = {None: "faithful", 1: "faithful", 0: "hallucinated"}


def is_label_folder(source: object) -> bool:
    """Return whether a source is a folder of labels; the file of labels in it is refused."""
    from calibrail.labelling.folder import has_labels

    if not isinstance(source, str | PathLike):
        return False
    place = Path(source)
    if place.name == "labels.jsonl" and has_labels(place.parent):
        # Alone it says not how they were drawn.
        raise InputError(say("refused.file_of_labels", name=place, folder=place.parent))
    return has_labels(place)


def reading_by_ids(reading: ReadOptions, source: Source, labels: Source) -> ReadOptions:
    """Return how to read data that ids join with labels: by its own where they have the column."""
    name = reading.id_column
    if name is None or _has(_opened(source, reading), name):
        return reading
    return replace(reading, id_column=None) if _has(_opened(labels, reading), name) else reading


def _opened(source: Source, reading: ReadOptions) -> Reading:
    """Open a source of which neither ids nor labels and groups are asked for."""
    plain = replace(reading, id_column=None, group_column=None, label_column=None, quarantine=None)
    return open_source(source, plain, labelled=False)


def _has(seen: Reading, name: str) -> bool:
    """Return whether rows have a field, which may stand within another one."""
    return name in seen.fields or any(value_at(row, name) is not None for row in seen.head)


def labels_by_id(
    labels: Source, reading: ReadOptions, column: str | None = None
) -> tuple[dict[Any, Any], Reading]:
    """Return the labels of people by the ids of their answers, and how these were read.

    Where a column says whose they are, they are known by what it holds and the id.

    Raises
    ------
    DataError
        An answer has no id, or one id has two labels.
    """
    by_id, name, labels = dict[Any, Any](), spoken(labels), reusable(labels)
    how = replace(reading, quarantine=None, group_column=None)
    seen = _opened(labels, how)
    if not (reading.label_column or aliases_of("label", seen.fields)) and "human" in seen.fields:
        # By its name, though all labels there are alike.
        how = replace(how, label_column="human")
    if how.id_column is not None and not _has(seen, how.id_column):
        how = replace(how, id_column=None)
    found = read(labels, how, keep=() if column is None else (column,), require=())
    for item in found:
        if item.content is not None:
            raise DataError(say("refused.labels_without_ids", name=name))
        key = item.id if column is None else (name_of(item.columns.get(column)), item.id)
        if by_id.setdefault(key, item.label) != item.label:
            raise DataError(say("refused.two_labels", name=name, id=item.id, rows=None))
    return by_id, found


class JudgedLabels:
    """Reads the labels of each row; sets rows aside where one is neither 0, 1 nor blank.

    A judge whose column holds other numbers gives ratings: their values stand for its labels,
    turned so that higher means hallucinated.
    """

    def __init__(
        self,
        source: str,
        reading: ReadOptions,
        human: str,
        judges: Sequence[str],
        higher: str | None,
        rows: Reading,
        by_people: Mapping[str, int] | None = None,
    ) -> None:
        self._source, self._reading, self._by_people = source, reading, by_people
        self._rows = rows
        self._names = human, *judges
        people, *others = ([value_at(row, name) for row in rows.head] for name in self._names)
        beside = None
        if judges and reading.positive is not None:
            # A value of the first judge's alone says nothing of the words of people.
            named = {*map(label_key, others[0])}.difference(map(label_key, people))
            beside = people if label_key(reading.positive) in named else None
        self._readers = [
            LabelReader(reading, column, names=rows.class_names.get(column, ()), beside=cells)
            for column, cells in zip(self._names, (beside, *others), strict=True)
        ]
        self.signs = _signs(self._readers[1:], others, higher)
        #: Rows that were set aside, how many of which column's, and the first of each.
        self.entries: list[str] = []
        self.unreadable = Counter[str]()
        self.first: dict[str, str] = {}

    def turning(self) -> dict[str, tuple[str, ...]]:
        """Return by judge the options that turn it or, where its words are plain, people's labels.

        None of what would turn both, or nothing.
        """
        people, *judges = self._readers
        of_people, options = people.turned(), dict[str, tuple[str, ...]]()
        for judge in judges:
            seen = {label_key(value) for value, _ in judge.seen}
            if seen and seen <= {"0", "1"}:
                # Its name may say what its 1 means, and be wrong.
                options[judge.column] = "--judge-higher", _TURNED[judge.named]
            elif of_people[:1] == ("--positive",) and label_key(of_people[1]) not in seen:
                options[judge.column] = of_people
        return options

    def require_labels(self, table: NDArray[np.float64], ids: Iterable[str | None]) -> None:
        """Refuse rows of which people, or a judge, labelled none.

        Parameters
        ----------
        table : ndarray of float64, shape (n, judges + 1)
            Labels: where there is none 2 in the first column, and no number in the others.
        ids : iterable of str or None
            Of the rows without a group.
        """
        for place, column in enumerate(self._names):
            if (table[:, place] < NONE).any() or (place and not np.isnan(table[:, place]).all()):
                continue
            if not place and self._by_people is not None:
                theirs, here = (next(filter(None, it), "") for it in (self._by_people, ids))
                where = {"name": self._source, "first": theirs, "here": here}
                raise DataError(say("refused.no_id_met", where))
            if not len(table) and self.entries:
                # What stands in the way may be a judge's label, where people's are fine.
                column = json.loads(self.entries[0])["field"]
            about = {
                "column": repr(column),
                "role": "human" if column == self._names[0] else "judge",
                "name": self._source,
                "first": next(iter(self.first.values()), None),
                "n_unreadable": len(self.entries),
            }
            code = "agree.no_labels" if about["first"] is None else "agree.unreadable_labels"
            raise DataError(say(code, about))

    def warnings(self) -> Iterator[str]:
        """Yield that options which say what labels mean were not used for a column."""
        for reader in (item for item in self._readers if item.is_explicit and item.n_own):
            yield say("agree.read_by_itself", column=repr(reader.column))
        for column, n in self.unreadable.items():
            yield say("agree.unreadable", column=repr(column), n=n, first=self.first[column])

    def call_two_ratings(self, table: NDArray[np.float64]) -> None:
        """Take the one of two ratings that means hallucinated for the call: no edge is chosen."""
        for place, sign in enumerate(self.signs, start=1):
            values = np.unique(table[~np.isnan(table[:, place]), place])
            if sign and len(values) == 2:
                table[:, place] = np.interp(table[:, place], values, (0.0, 1.0))
                self.signs[place - 1] = 0.0

    def read(self, example: Example) -> tuple[float, ...] | None:
        """Return all labels, those of people first; None where one cannot be read."""
        read: list[float] = []
        for reader, sign in zip(self._readers, (0.0, *self.signs), strict=True):
            if not read and self._by_people is not None:
                read.append(self._by_people.get(example.id, NONE))
                continue
            cell = example.columns.get(reader.column)
            label = _rating(cell, sign) if sign else _label(cell, reader)
            if label is None:
                if reader is not self._readers[0] and not sign and number_in(cell) is not None:
                    about = {"column": reader.column, "value": label_key(cell)}
                    raise DataError(say("refused.late_rating", about))
                self._set_aside(example, reader, rated=bool(sign))
                return None
            # What a judge left blank is no number, whatever its numbers are.
            read.append(np.nan if read and not sign and label == NONE else label)
        if self._by_people is None and read[0] != NONE:
            self._rows.count_label()
        return tuple(read)

    def _set_aside(self, example: Example, reader: LabelReader, *, rated: bool) -> None:
        column = reader.column
        value = example.columns[column]
        # The reader numbers rows without an id of their own.
        number = example.id.removeprefix("row-")
        row = int(number) if number.isdecimal() and number != example.id else None
        remedy = label_remedy(value, reader).removesuffix(another_column())
        wanted = "no number" if rated else "not 0 or 1"
        remedy = "this judge gives ratings" if rated else remedy
        entry = {"row": row, "id": example.id, "field": column, "reason": wanted}
        entry["value"] = shorten(value)
        problem = say("refused.label_not_read", entry, source=self._source, remedy=remedy)
        if self._reading.strict:
            raise DataError(problem)
        self.first.setdefault(column, problem)
        self.unreadable[column] += 1
        self.entries.append(json.dumps(entry) + "\n")

    def append(self) -> None:
        """Write the rows behind those that the reader has put into the quarantine file.

        Raises
        ------
        DataError
            A column's true or false may mean either class.
        """
        for reader in self._readers:
            reader.refuse_others(self._source)
        path = self._reading.quarantine
        if path is None or not self.entries:
            return
        with file_errors(f"cannot write {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            append_whole(path, "".join(self.entries).encode())


def _label(value: object, reader: LabelReader) -> int | None:
    """Return a label's index in the counts; None where it can be read as neither."""
    listed = parse_cell(value) if isinstance(value, str) else None
    try:
        label = reader(value if listed is None else listed)
    except TieError:
        return None
    if isinstance(label, int):
        return label
    return NONE if label == SKIP or reader.is_missing(value) else None


def _signs(
    readers: Sequence[LabelReader], first: Sequence[Sequence[object]], higher: str | None
) -> list[float]:
    """Return how judges' ratings are turned, so that higher means hallucinated; 0 of labels.

    Ratings are numbers, by most of the first cells, of which some can be read as no label. Where
    all judges have labels, a direction that is said is theirs, as of ratings.
    """
    numeric, rated, odd = list[bool](), list[bool](), list[object]()
    for reader, values in zip(readers, first, strict=True):
        cells = [cell for value in values if (cell := column_value(value)) is not None]
        numbers = [cell for cell in cells if number_in(cell) is not None]
        numeric.append(2 * len(numbers) > len(cells))
        labels = (cell for cell in numbers if numeric[-1] and _label(cell, reader) is None)
        odd.append(next(labels, None))
        rated.append(odd[-1] is not None)
    rated, signs = rated if any(rated) or not higher else numeric, list[float]()
    for reader, is_rated, value in zip(readers, rated, odd, strict=True):
        meant = higher or direction_of(reader.column)
        if is_rated and meant is None:
            about = {"column": reader.column, "value": label_key(value)}
            raise InputError(say("refused.which_rating", about))
        if is_rated:
            fields.direction(meant, ScoreThreshold)
        signs.append(is_rated * (1.0 if meant == "hallucinated" else -1.0))
    return signs


def _rating(value: object, sign: float) -> float | None:
    """Return a rating, higher for hallucinated; NaN of an empty cell, None of what is no number."""
    if (cell := column_value(value)) is None:
        return np.nan
    number = number_in(cell)
    return None if number is None else sign * number


def chance_of(source: str, example: Example, column: str) -> float:
    """Return the probability with which a row was drawn: without one no label speaks for it."""
    given = example.columns.get(column)
    chance = number_in(given) or 0.0
    if not 0.0 < chance <= 1.0:
        raise DataError.on("no_probability", source=source, id=example.id, name=column, given=given)
    return chance
