"""Sources of a command: opened, split into batches, in order; who is told of the progress."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar, cast

from calibrail.data.example import TEXT_FIELDS, Example, RowProblem
from calibrail.data.labels import PLAIN, is_turned, label_key
from calibrail.data.reading import Reading, read
from calibrail.data.sources import Source, spoken
from calibrail.data.tables import ACCEPTED, columns_of
from calibrail.errors import InputError
from calibrail.guardrail.runtime import Guardrail
from calibrail.models.hardware import installed_versions
from calibrail.options.data import ReadOptions
from calibrail.report.messages import say
from calibrail.scores.base import Score
from calibrail.scores.registry import DEFAULT_SCORE, Higher, build_column

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
    return read(
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


def open_for(
    guardrail: Guardrail,
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


def source_name(source: Source | None) -> str | None:
    """Return how a report names a source."""
    if source is None:
        return None
    return spoken(source)


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
        if higher is not None:
            raise InputError("higher says what the values of scores= mean; it was given without")
        return source, score
    if score != DEFAULT_SCORE:
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

    def _answers(self) -> Iterator[Example]:
        for example in self._read:
            self._ahead.append((self._read.place, example))
            yield example

    def answers(
        self, wanted: Callable[[list[Example]], Sequence[bool]] | None = None
    ) -> Iterator[Example]:
        """Yield the answers of each of which one thing is made; the others count as problems.

        Which of them are ``wanted`` is asked of many at a time.
        """
        for block in batches(self._answers(), 1 if wanted is None else BLOCK):
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
