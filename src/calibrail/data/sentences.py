"""Sentences of an answer as examples, their labels, and files whose rows are sentences."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from calibrail.data.aliases import aliases_of
from calibrail.data.example import FAITHFUL, HALLUCINATED, Example, FieldError, GivenSentence
from calibrail.data.labels import LabelReader, read_label
from calibrail.data.spans import (
    ENDS,
    STARTS,
    MarkColumns,
    NumberedRows,
    Span,
    first_of,
    place,
    read_spans,
    whole,
)
from calibrail.data.values import column_value, parse_cell, spelt_out, value_at
from calibrail.errors import error_text
from calibrail.formatting import count
from calibrail.options.data import SKIP
from calibrail.text.sentences import answer_sentences
from calibrail.text.words import edition, lazily_compiled, rules_of

#: Characters that stand before the sentences of an answer, added up over all of them.
MOST_BEFORE: Final = 100_000_000
#: Characters of the longest answer that is judged in pieces: one crafted answer must not hold up
#: all others.
MOST_CHARACTERS: Final = 100_000

_LONG: Final = (
    f"check it in parts of {MOST_CHARACTERS:,} characters at most: each sentence is judged after "
    "what stands before it"
)
_EACH: Final = "give one for each of them, in their order"
#: A word, and no number of a list ("iv.").
_WORD = lazily_compiled(r"\b(?![ivxlc]+\b)[^\W\d_]{2,}", re.IGNORECASE)


def sentence_examples(example: Example, share: float = 0.0) -> list[Example]:
    """Return an answer's sentences in order, as examples that any detector can score.

    Each has the question and the contexts of its answer, the sentence as its response, and as
    ``before`` what the answer says up to there: nothing of a sentence's score can depend on what
    comes after it. Its label is 1 where it is unsupported. Ids are those of the answer with the
    number of the sentence, counted from 1.

    Parameters
    ----------
    example : Example
        An answer. Its own sentences are taken where the data gives them, those of
        `calibrail.text.sentences` otherwise. A column that holds a JSON list of as many
        numbers as there are sentences gives each its own; another cell is left to all of them.
    share : float
        A sentence is unsupported where marked spans cover at least this share of its letters and
        digits; 0 for any of them. A sentence without one counts all that is no white space.

    Examples
    --------
    >>> answer = Example(response="It rained. The sun shone.", spans=((11, 18),), id="a")
    >>> [(item.id, item.before, item.response, item.label) for item in sentence_examples(answer)]
    [('a#1', '', 'It rained.', 0), ('a#2', 'It rained. ', 'The sun shone.', 1)]
    """
    given = sentences_of(example)
    n = len(given)
    cells = {name: _numbers(cell, n) or [cell] * n for name, cell in example.columns.items()}
    columns = ({name: held[row] for name, held in cells.items()} for row in range(n))
    return [
        sentence_example(example, item, number, share, columns=own)
        for number, (item, own) in enumerate(zip(given, columns, strict=True), start=1)
    ]


def sentence_example(
    example: Example,
    item: GivenSentence,
    number: int,
    share: float = 0.0,
    *,
    columns: Mapping[str, float | str | None] | None = None,
) -> Example:
    """Return one sentence of an answer, of which no more need be written than up to its end.

    Parameters
    ----------
    example : Example
        The answer.
    item : GivenSentence
        Where the sentence stands in it.
    number : int
        Which one it is, counted from 1.
    share : float
        As of `sentence_examples`.
    columns : mapping, optional
        Its own cells; left out, those of the answer.
    """
    cells = example.columns if columns is None else columns
    return replace(
        example,
        response=example.response[item.start : item.end],
        label=item.label if item.label is not None else _label(example, item, share),
        id=f"{example.id}#{number}",
        columns=dict(cells) | dict(item.columns),
        content=None,
        spans=None,
        sentences=None,
        before=example.response[: item.start],
    )


def sentences_of(example: Example) -> tuple[GivenSentence, ...]:
    """Return the places of an answer's sentences: the data's own, or those of its text."""
    if example.sentences is not None:
        return example.sentences
    return tuple(GivenSentence(item.start, item.end) for item in answer_sentences(example.response))


def n_split_differently(example: Example) -> bool:
    """Return whether the data gives an answer other sentences than are found in its text.

    >>> text = "It rained, the sun shone."
    >>> halves = GivenSentence(0, 10), GivenSentence(11, 25)
    >>> n_split_differently(Example(response=text, sentences=halves))
    True
    """
    if example.sentences is None:
        return False
    found = [item.text for item in answer_sentences(example.response)]
    given = [example.response[item.start : item.end] for item in example.sentences]
    # By what each says, since marks of lists and white space may stand on either side.
    return _spelt(given) != _spelt(found)


def require_judgeable(example: Example, columns: Iterable[str] = ()) -> None:
    """Refuse an answer whose sentences cannot each be judged, in labelled data and in production.

    Parameters
    ----------
    example : Example
        The answer.
    columns : iterable of str
        Columns that are read of each sentence: a list must hold a number for each.

    Raises
    ------
    FieldError
        It has more than `MOST_CHARACTERS`, what stands before its sentences adds up to more than
        `MOST_BEFORE`, a list has another length, or sentences that the data gives leave words of
        the response out.
    """
    require_length(example)
    places = sentences_of(example)
    if sum(place.start for place in places) > MOST_BEFORE:
        seen = f"{count(len(example.response), 'character')} in {count(len(places), 'sentence')}"
        raise FieldError("response", "too long to judge by sentence", seen, _LONG)
    if example.sentences is not None and (word := _left_out(example.response, places)):
        seen = f"{count(len(places), 'sentence')}, none with {word!r:.40}"
        remedy = error_text("words_left_out")
        raise FieldError("sentences", "words of the response are in none", seen, remedy)
    for name in columns:
        numbers = listed(example.columns.get(name))
        if numbers is not None and len(numbers) != len(places):
            seen = f"{count(len(numbers), 'number')}, and the answer has "
            seen += count(len(places), "sentence")
            raise FieldError(name, "not one number for each sentence", seen, _EACH)


def require_length(example: Example) -> None:
    """Refuse an answer that is too long for its sentences to be looked for.

    Raises
    ------
    FieldError
        It has more than `MOST_CHARACTERS`.
    """
    if len(example.response) > MOST_CHARACTERS:
        seen = count(len(example.response), "character")
        raise FieldError("response", "too long to judge by sentence", seen, _LONG)


def _spelt(texts: Iterable[str]) -> list[str]:
    """Return the letters of each text, without the texts that have none."""
    return [letters for text in texts if (letters := "".join(filter(str.isalpha, text)))]


def _left_out(response: str, places: Iterable[GivenSentence]) -> str | None:
    """Return the first word of a response that no sentence holds."""
    ends = [0, *(item.end for item in places)]
    starts = [*(item.start for item in places), len(response)]
    gaps = (response[end:start] for end, start in zip(ends, starts, strict=True))
    return next((found.group() for gap in gaps if (found := _WORD.search(gap))), None)


def listed(cell: object) -> list[Any] | None:
    """Return what a cell with a list holds; None of any other cell."""
    held = parse_cell(cell) if isinstance(cell, str) else None
    return held if isinstance(held, list) else None


def marked_characters(example: Example, start: int, end: int) -> tuple[int, int]:
    """Return how many characters of a part of the response are marked, and how many there are.

    White space is not counted; without spans nothing is marked.
    """
    return _covered(example, start, end, lambda character: not character.isspace())


def _covered(
    example: Example, start: int, end: int, counts: Callable[[str], bool]
) -> tuple[int, int]:
    text, spans = example.response, example.spans or ()
    parts = (text[max(start, first) : min(end, last)] for first, last in spans)
    return sum(sum(map(counts, part)) for part in parts), sum(map(counts, text[start:end]))


def sentence_labels(example: Example, share: float = 0.0) -> list[int | None]:
    """Return the labels that `sentence_examples` gives.

    >>> sentence_labels(Example(response="It rained. The sun shone.", spans=((11, 18),)))
    [0, 1]
    """
    return [_label(example, item, share) for item in sentences_of(example)]


def _label(example: Example, item: GivenSentence, share: float) -> int | None:
    if item.label is not None or example.spans is None:
        return item.label
    marked, n = _covered(example, item.start, item.end, str.isalnum)
    if not n:
        # Of signs alone, every one is what the sentence says.
        marked, n = marked_characters(example, item.start, item.end)
    # In whole numbers a share of exactly a half is a half.
    return HALLUCINATED if marked and marked >= share * n else FAITHFUL


def _numbers(cell: Any, n: int) -> list[Any] | None:
    """Return the numbers of a cell that holds a list of n, None of any other cell.

    What is no finite number is a text that says where it stands.
    """
    numbers = listed(cell)
    if numbers is None or len(numbers) != n:
        return None
    return [
        item
        if item is None or (type(item) in (int, float) and math.isfinite(item))
        else f"number {place} of {n}: {item}"
        for place, item in enumerate(numbers, start=1)
    ]


_TEXTS: Final = ("text", "sentence", "content", "claim", "sent")
#: How a sentence calls its text and its place.
NAMED: Final = (*_TEXTS, *STARTS, *ENDS)

_ORDER: Final = (
    "sentences must stand in the response word for word, in their order, none within another"
)

_WORDS: Final = "give the text of every sentence, or leave out those without one"


@dataclass(frozen=True, slots=True)
class SentenceCell:
    """A sentence as a row gives it.

    Parameters
    ----------
    text : str
        Its words; empty where the offsets alone are known.
    label : object
        As it is stored.
    start, end : int or None
        Its place, where the row says so.
    columns : mapping
        What else is known of it.
    row : int or None
        Its own row, where rows are sentences.
    """

    text: str
    label: object = None
    start: int | None = None
    end: int | None = None
    columns: Mapping[str, object] = field(default_factory=dict)
    row: int | None = None


def given_in(value: object, labels: object) -> list[SentenceCell] | None:
    """Return the sentences that a value lists, or None where it lists none.

    Parameters
    ----------
    value : object
        A list of texts, of ``[key, text]`` pairs, of objects with a ``text`` (and offsets, a label
        and columns of their own), or of `Given` and `GivenSentence`; or what spells one.
    labels : object
        A list of as many labels, or of the keys of those that are unsupported; None where
        sentences bring their own.

    Examples
    --------
    >>> [(item.text, item.label) for item in given_in([["a", "One."], ["b", "Two."]], ["b"])]
    [('One.', 0), ('Two.', 1)]
    >>> given_in(["One.", "Two."], [1]) is None
    True
    """
    value = spelt_out(value)
    if not isinstance(value, list | tuple) or not value:
        return None
    labels = spelt_out(labels)
    keys = [one[0] if isinstance(one, list | tuple) and len(one) == 2 else None for one in value]
    if all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys):
        texts: list[Any] = [item[1] for item in value]
        if isinstance(labels, list) and all(item in keys for item in labels):
            labels = [int(key in labels) for key in keys]
    else:
        texts = list(value)
    if labels is not None and (not isinstance(labels, list | tuple) or len(labels) != len(texts)):
        return None
    made = [_one(item) for item in texts]
    sentences = [item for item in made if item is not None]
    if len(sentences) < len(made):
        return None
    if labels is None:
        return sentences
    return [replace(item, label=label) for item, label in zip(sentences, labels, strict=True)]


def label_key_of(value: object) -> str | None:
    """Return the key under which the sentences of a list have their label."""
    value = spelt_out(value)
    for item in value if isinstance(value, list | tuple) else ():
        if isinstance(item, Mapping):
            found = aliases_of("label", [str(key) for key in item])
            return found[0] if len(found) == 1 else None
    return None


def joined(sentences: Sequence[SentenceCell]) -> str:
    """Return the answer that sentences make where the row has no other."""
    return " ".join(text for item in sentences if (text := item.text.strip()))


def placed(
    sentences: Sequence[SentenceCell],
    response: str,
    label_of: Callable[[SentenceCell], int | None],
    keep: Sequence[str],
) -> tuple[GivenSentence, ...]:
    """Return sentences by their places in the answer.

    Parameters
    ----------
    sentences : sequence of Given
        In their order.
    response : str
        The answer.
    label_of : callable
        Reads a label.
    keep : sequence of str
        Which of their columns are kept.

    Raises
    ------
    FieldError
        One stands nowhere behind the one before it, or has no word.
    """
    at, result = 0, list[GivenSentence]()
    for number, item in enumerate(sentences, start=1):
        name = f"sentence {number} of {len(sentences)}"
        if item.start is None and not item.text.strip():
            raise FieldError("sentences", "empty", name, _WORDS, item.row)
        if item.start is not None and item.end is not None:
            start, end = item.start, item.end
            there = response[start:end]
            fits = at <= start < end <= len(response) and there.strip()
            if item.text and fits and there.split() != item.text.split():
                seen = f"{name}: {item.text[:40]!r}, there is {there[:40]!r}"
                raise FieldError("sentences", "text is not at its offsets", seen, _ORDER, item.row)
            found = (start, end) if fits else None
        else:
            found = place(item.text.strip(), response, at)
        if found is None:
            seen = f"{name}: {item.text[:60]!r}" if item.text else f"{name}: {item.start}"
            raise FieldError("sentences", "not in the response", seen, _ORDER, item.row)
        columns = {key: column_value(item.columns[key]) for key in keep if key in item.columns}
        result.append(GivenSentence(*found, label_of(item), columns))
        at = found[1]
    return tuple(result)


def _one(item: object) -> SentenceCell | None:
    if isinstance(item, SentenceCell):
        return item
    if isinstance(item, GivenSentence):
        return SentenceCell("", item.label, item.start, item.end, item.columns)
    if isinstance(item, str):
        return SentenceCell(item)
    if not isinstance(item, Mapping):
        return None
    text = first_of(item, _TEXTS)
    start, end = (whole(first_of(item, names)) for names in (STARTS, ENDS))
    if not isinstance(text, str) and (start is None or end is None):
        return None
    key = label_key_of([item])
    return SentenceCell(
        text if isinstance(text, str) else "",
        item.get(key) if key else None,
        start if end is not None else None,
        end,
        {str(name): held for name, held in item.items()},
    )


_UNDEFINED: Final = math.nan


def cells_of_sentences(rows: Sequence[Mapping[str, object]], column: str | None) -> tuple[str, ...]:
    """Return what the sentences that rows list say of themselves, text, place and label apart.

    >>> cells_of_sentences([{"s": [{"text": "It rained.", "label": 0, "nli": 0.2}]}], "s")
    ('nli',)
    """
    values = [] if column is None else [value_at(row, column) for row in rows]
    names = dict.fromkeys(v for k in values for it in given_in(k, None) or () for v in it.columns)
    passed_over = {*NAMED, *map(label_key_of, values)}
    return tuple(name for name in names if name not in passed_over)


class SentenceColumns:
    """The numbers that columns hold for the sentences of a whole file, as a score reads them.

    Parameters
    ----------
    names : sequence of str
        The columns that answers and their sentences carry.

    Attributes
    ----------
    set_aside : dict of str to int
        Answers of which a column lists another number of values than they have sentences; they
        cannot be used with it.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.set_aside = dict.fromkeys(names, 0)
        #: The number and the label of each sentence of the answers that a column is for.
        self._cells: dict[str, list[tuple[float, int]]] = {name: [] for name in names}
        self._of_sentences: set[str] = set()

    def add(self, example: Example, labels: Sequence[int | None]) -> None:
        """Take the cells of an answer, whose sentences have these labels."""
        sentences = sentence_examples(example) if self._cells else []
        told = [int(label == 1) for label in labels]
        own = {name for item in sentences_of(example) for name in item.columns}
        for name, cells in self._cells.items():
            if listed(example.columns.get(name)) is not None or name in own:
                self._of_sentences.add(name)
                try:
                    require_judgeable(example, (name,))
                except FieldError:
                    self.set_aside[name] += 1
                    continue
            numbers = (_number(item.columns.get(name)) for item in sentences)
            cells.extend(zip(numbers, told, strict=True))

    def values(self) -> dict[str, tuple[NDArray[np.float64], NDArray[np.int8]]]:
        """Return the numbers of each column and the labels beside them, of the answers it is for.

        Columns that say nothing of single sentences, or hold no number, are left out; NaN stands
        for a sentence without a number.
        """
        result = {}
        for name, cells in self._cells.items():
            numbers = np.array([number for number, _ in cells], np.float64)
            if name in self._of_sentences and not np.isnan(numbers).all():
                result[name] = numbers, np.array([label for _, label in cells], np.int8)
        return result


def _number(cell: object) -> float:
    return float(cell) if isinstance(cell, int | float) and math.isfinite(cell) else _UNDEFINED


class NumberLook:
    """Looks for a column that numbers the sentences of answers, and for rows that defy it.

    A column numbers them where it counts them from 0 or 1 in every other answer or more, whatever
    the order of its rows.

    Parameters
    ----------
    names : sequence of str
        The columns that sentences carry.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._numbers: dict[str, list[list[float]]] = {name: [] for name in names}

    def add(self, example: Example) -> None:
        """Take an answer with the cells of its sentences."""
        places = sentences_of(example)
        for name in list(self._numbers) if len(places) > 1 else ():
            cells = [item.columns.get(name) for item in places]
            numbers = [n for n in cells if isinstance(n, float) and n.is_integer() and n >= 0]
            if len(numbers) == len(cells):
                self._numbers[name].append(numbers)
            else:
                del self._numbers[name]

    def finish(self) -> tuple[NumberedRows, ...]:
        """Return the columns that number sentences, and how many answers are out of order."""
        made = []
        for name, answers in self._numbers.items():
            sizes = [(len(a), len(set(a)), min(a), max(a) - min(a)) for a in answers]
            counted = sum(n == k and low <= 1 and width < n for n, k, low, width in sizes)
            if counted and 2 * counted >= len(answers):
                unsorted = sum(numbers != sorted(numbers) for numbers in answers)
                gaps = sum(low > 1 or width >= k for _, k, low, width in sizes)
                twice = sum(k < n for n, k, _, _ in sizes)
                made.append(NumberedRows(name, len(answers), unsorted, gaps, twice))
        return tuple(made)


#: Where the sentences of rows that were gathered to an answer are.
GATHERED: Final = "sentences"

#: Code of the problem of a hallucinated answer in which nobody marked anything.
UNMARKED: Final = "unmarked"

_NOTHING: Final = "mark what is unsupported, or label the answer 0"
_FAITHFUL: Final = "label the answer 1, or take the marks away ([])"
_ALL: Final = "give every sentence a label of 0 or 1, or mark spans"
_OUTSIDE: Final = "mark words of the sentences, or label the answer 0"
_EITHER: Final = "correct one of them, or give sentences or spans alone"
_MARKED_WORDS: Final = "give a text with words, or leave the row out"


@dataclass(eq=False)
class MarkReader:
    """Reads the marks of one source.

    Parameters
    ----------
    columns : MarkColumns
        Where they are.
    labels : LabelReader
        Reads the labels of sentences.
    gives_labels : bool
        Whether an answer's label is that of its sentences, and in no column of its own.
    keep : sequence of str
        Columns of sentences that are kept.
    labelled : bool
        Whether every answer needs a label.
    by_sentence : bool
        Whether every sentence needs one, too.
    any_length : bool
        Whether a column that is kept may list more or fewer numbers than an answer has sentences.
    share : float
        What of a sentence spans must cover for it to be unsupported; 0 for any part.

    Attributes
    ----------
    n_marked : int
        Answers so far that somebody marked.
    edition : int
        By which edition of the rules the sentences of a text are found, whenever it is read.
    """

    columns: MarkColumns
    labels: LabelReader
    gives_labels: bool
    keep: Sequence[str]
    labelled: bool
    by_sentence: bool
    any_length: bool
    share: float
    n_marked: int = field(init=False, default=0)
    edition: int = field(init=False, default_factory=edition)

    def given(self, values: Mapping[str, object]) -> list[SentenceCell] | None:
        """Return the sentences that a row lists; None where it lists none.

        Raises
        ------
        FieldError
            It lists something else, or not a label for each.
        """
        name = GATHERED if self.columns.answer_id is not None else self.columns.sentences
        value = None if name is None else value_at(values, name)
        if value is None or value in ("", []):
            return None
        labels = self.columns.sentence_labels
        listed = None if labels is None else self._listed(values, labels)
        if (given := given_in(value, listed)) is not None:
            return given
        alone = given_in(value, None)
        if alone is None or self.columns.sentence_labels is None:
            raise FieldError("sentences", "wrong type", value, error_text("sentences_shape"))
        if not self.labelled:
            return alone
        seen = f"{listed!r:.60} for {len(alone)} sentences"
        raise FieldError("sentences", "not one label for each sentence", seen, _ALL)

    @staticmethod
    def _listed(values: Mapping[str, object], column: str) -> object:
        """Return what a column lists for the sentences; of several, the labels of each of them."""
        if column in values or "," not in column:
            return value_at(values, column)
        each = {name: value_at(values, name) for name in column.split(",")}
        cells = list(map(spelt_out, each.values()))
        # An annotator may have left an answer out.
        lists = [cell for cell in cells if isinstance(cell, list | tuple)]
        if len({*map(len, lists)}) != 1 or len(lists) + cells.count(None) < len(cells):
            return each if any(cell is not None for cell in cells) else None
        return list(map(list, zip(*lists, strict=True)))

    def sentences(
        self, given: Sequence[SentenceCell] | None, response: str
    ) -> tuple[GivenSentence, ...] | Literal["skip"] | None:
        """Return the sentences by their places; `SKIP` where one is left out on request.

        Raises
        ------
        FieldError
            One is not where it should be, or its label cannot be read.
        """
        if given is None:
            return None
        left_out = False

        def label_of(item: SentenceCell) -> int | None:
            nonlocal left_out
            missing = item.row is None and self.labels.is_missing(item.label)
            needed = self.labelled and not missing
            label = read_label(
                self.labels, item.label, self.labels.column, needed=needed, row=item.row
            )
            left_out |= label == SKIP
            return label if isinstance(label, int) else None

        found = placed(given, response, label_of, self.keep)
        return SKIP if left_out else found

    def spans(self, values: Mapping[str, object], response: str) -> tuple[Span, ...] | None:
        """Return the marked characters; None where nobody marked any, or labels are not read.

        Where labels are not needed, marks that cannot be read say nothing.

        Raises
        ------
        FieldError
            Labels are needed, and marks are something else or lead out of the response.
        """
        if self.columns.spans is None or not (self.labelled or self.by_sentence):
            return None
        try:
            return read_spans(value_at(values, self.columns.spans), response)
        except FieldError:
            if self.labelled:
                raise
            return None

    def checked(self, example: Example) -> Example:
        """Return an answer whose label is that of its sentences: 1 where one is unsupported.

        A faithful answer that nobody marked is one that was marked, and in which nothing is
        unsupported.

        Raises
        ------
        FieldError
            Marks and label contradict each other, or a sentence has neither.
        """
        with rules_of(self.edition):
            return self._checked(example)

    def _checked(self, example: Example) -> Example:
        if self.by_sentence and not sentences_of(example):
            raise FieldError("response", "holds no sentence", example.response, _MARKED_WORDS)
        if self.by_sentence:
            require_judgeable(example, () if self.any_length else self.keep)
        if not self.labelled:
            return _undisputed(example) if self.by_sentence else example
        labelled = [item.label is not None for item in example.sentences or ()]
        if example.spans is None and not any(labelled):
            if example.label == FAITHFUL:
                return replace(example, spans=())
            if example.label is None:
                raise FieldError("label", "missing", None, _ALL)
            reason = "hallucinated, and nobody marked what"
            raise FieldError("spans", reason, None, error_text("answer_unmarked"), code=UNMARKED)
        self.n_marked += 1
        if example.spans is None and not all(labelled):
            seen = f"{labelled.count(False)} of {len(labelled)}"
            raise FieldError("sentences", "without a label", seen, _ALL)
        self._require_agreement(example)
        touched = any(sentence_labels(example))
        field = "sentences" if any(labelled) else "spans"
        if example.label == FAITHFUL and (touched or example.spans):
            raise FieldError(field, "faithful, and something is marked", example.spans, _FAITHFUL)
        if not touched and example.spans:
            seen = f"{example.spans!r:.60}"
            raise FieldError(field, "marked outside of every sentence", seen, _OUTSIDE)
        if example.label == HALLUCINATED and not touched:
            raise FieldError(field, "hallucinated, and nothing is marked", None, _NOTHING)
        return replace(example, label=int(any(sentence_labels(example, self.share))))

    def _require_agreement(self, example: Example) -> None:
        """Refuse labels of sentences that the spans of the same row contradict."""
        if example.spans is None or example.sentences is None:
            return
        bare = tuple(replace(item, label=None) for item in example.sentences)
        by_spans = replace(example, sentences=bare)
        pairs = zip(
            example.sentences,
            sentence_labels(by_spans),
            sentence_labels(by_spans, self.share),
            strict=True,
        )
        for number, (item, touched, marked) in enumerate(pairs, start=1):
            # What spans touch, and cover less of than is asked, may be labelled either way.
            if item.label is not None and item.label not in (touched, marked):
                seen = f"sentence {number} of {len(bare)}: label {item.label}"
                raise FieldError("sentences", "label and spans contradict", seen, _EITHER)


def _undisputed(example: Example) -> Example:
    """Return an answer that needs no label, with the marks that its label does not contradict."""
    if example.label is None or any(item.label is not None for item in example.sentences or ()):
        return example
    spans = () if example.spans is None and example.label == FAITHFUL else example.spans
    told = replace(example, spans=spans)
    if spans is not None and any(sentence_labels(told)) != (example.label == HALLUCINATED):
        spans = None
    return replace(example, spans=spans)
