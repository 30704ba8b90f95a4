"""Profile of a file for doctor: what it holds and supports, and what is wrong with it."""

import re
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.duplicates import CrossSplitDuplicates, Sketcher
from calibrail.data.example import FAITHFUL, TEXT_FIELDS, Example
from calibrail.data.labels import EITHER, holds_others, what_is_held
from calibrail.data.sentences import (
    NumberLook,
    SentenceColumns,
    marked_characters,
    sentence_labels,
    sentences_of,
)
from calibrail.data.spans import MarkLook, Support
from calibrail.data.splits import group_numbers, merge_groups
from calibrail.data.suggested_options import AnswerColumn, ColumnLook, UnreadText
from calibrail.data.values import ABSENT, likely_number, spelt_alike
from calibrail.formatting import Shown
from calibrail.serialization import Record
from calibrail.text.words import patterns


@dataclass(frozen=True, slots=True)
class TextLengths(Record):
    """Sizes of one text field over the examples that have it.

    Parameters
    ----------
    field : str
        ``question``, ``contexts`` (all chunks together) or ``response``.
    n, empty : int
        Examples with and without it.
    median_chars, p95_chars : float
        Median and 95th percentile, in characters; NaN without any.
    """

    field: str
    n: int
    empty: int
    median_chars: float
    p95_chars: float


@dataclass(frozen=True, slots=True)
class GroupSizes(Record):
    """How examples hang together.

    Parameters
    ----------
    n : int
        Groups, not counting examples without one.
    ungrouped : int
        Examples without a group.
    largest : int
        Examples in the largest group.
    mixed : int
        Groups with examples of both classes.
    alike : list of str
        The first names that letter case or spaces alone tell apart, or none.
    """

    n: int
    ungrouped: int
    largest: int
    mixed: int
    alike: list[str]


@dataclass(frozen=True, slots=True)
class ScoreSupport(Record):
    """On how many examples a built-in score can be computed.

    Parameters
    ----------
    name : str
        The score.
    requires : tuple of str
        The text fields that it reads.
    n : int
        Examples that have them all.
    """

    name: str
    requires: tuple[str, ...]
    n: int


@dataclass(frozen=True, slots=True)
class NumericColumn(Record):
    """A column that may hold another detector's score.

    Parameters
    ----------
    name : str
        The column.
    n, missing, distinct : int
        Examples with a value and without, and how many different values there are.
    auroc : float or None
        Probability that a hallucinated example has the higher value (ties count half); below 0.5
        the column is higher for faithful ones. None without both classes.
    tells_label : bool
        Whether it separates the classes without a mistake, as a detector's score hardly does.
    higher : str or None
        The class that a higher value means by the column's name, never by the labels; None where
        the name says none.
    stand_in : dict or None
        A number that seems to stand for a missing one (``at``), and how often (``n``); or how many
        per cents from ``low`` on there are beside ``n_shares``.
    """

    name: str
    n: int
    missing: int
    distinct: int
    auroc: float | None
    tells_label: bool = False
    higher: str | None = None
    stand_in: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Artefact(Record):
    """What answers look like apart from what they say, and how well that gives their label away.

    Parameters
    ----------
    code : str
        Of what is seen, e.g. ``trailing_space``.
    text : str
        The words of an opening, or the sign at the end; else empty.
    auroc, lower, upper : float
        Probability that a hallucinated answer has more of it, with an interval whose level counts
        everything that was looked for.
    hallucinated, faithful : float
        Its mean in each class: of what an answer has or has not, the share that has it.
    """

    code: str
    text: str
    auroc: float
    lower: float
    upper: float
    hallucinated: float
    faithful: float


@dataclass(frozen=True, slots=True)
class DataFinding(Record):
    """Something that a user should know before trusting a result on this file.

    Parameters
    ----------
    code : str
        Stable short name, e.g. ``length_separates``.
    message : str
        What was seen, with its number, and what it means.
    """

    code: str
    message: str


@dataclass(frozen=True, slots=True, repr=False)
class Diagnosis(Shown, Record):
    """Everything that `diagnose` returns; NaN is null in JSON.

    Parameters
    ----------
    source, format, sha256 : str
        What was read, how, and the digest of its files.
    fields : tuple of str
        Column names of the first rows.
    columns : mapping of str to str
        The column of each field.
    rows, usable, quarantined, filtered : int
        Rows of the source; examples made of them; problems; answers left out on request.
    reasons : tuple of (field, reason, count)
        Problems, most frequent first.
    n_faithful, n_hallucinated, n_unlabelled : int
        Usable examples by label.
    groups : GroupSizes
        Groups.
    lengths : tuple of TextLengths
        For question, contexts and response.
    repeated : int
        Examples whose texts are the same as an earlier example's.
    contradictory : int
        Different texts that carry both labels.
    copies : mapping of str to int
        Examples of which the file holds copies, the same or nearly so, as ``n``; their groups; the
        ``largest`` group.
    cross_split : CrossSplitDuplicates or None
        Near-duplicates across the default split; None where there are no texts or no labels.
    length_auroc : float or None
        AUROC of the response's length in characters, longer = hallucinated.
    supports : tuple of Support
        Guarantees at the default split.
    scores : tuple of ScoreSupport
        Built-in scores that need no more than texts.
    numeric_columns : tuple of NumericColumn
        Candidates for ``--score-column``.
    empty_columns : tuple of str
        Columns without a value in any usable row.
    inputs : tuple of str
        What was named, as on a command line.
    reading : mapping
        How it was read: columns, options, what labels meant, several files with their digests.
    layout : tuple of ColumnLook
        What is in each column, by the first rows.
    suggested : tuple of str
        Options that would read what was not understood.
    verdict : mapping, or None
        The column in which a judge says words, and what a yes means there (``name``, ``higher``).
    inverted : mapping of str to float, or None
        AUROCs of the scores of overlap, where they say that labels are inverted.
    context_is_answer, context_holds_answer : mapping
        ``faithful`` and ``hallucinated`` answers that are one of their own contexts, and that
        stand word for word in them.
    warnings : tuple of Finding
        What to know first.
    marks : MarkLook or None
        What people marked, sentence by sentence; None where the source holds no marks.
    because, about : str
        Code of what a person must check of ``suggested``, and what it speaks of.
    answers : tuple of AnswerColumn
        The answers of a row that holds several in columns of their own; no options read them.
    unread : tuple of UnreadText
        Columns of texts that are no field.
    artefacts : tuple of Artefact
        What of the look of answers gives their labels away, beyond chance.
    """

    shown_as = "doctor"

    schema: ClassVar[str] = "calibrail.diagnosis/1"

    source: str
    format: str
    sha256: str | None
    fields: tuple[str, ...]
    columns: Mapping[str, str]
    rows: int
    usable: int
    quarantined: int
    filtered: int
    reasons: tuple[tuple[str, str, int], ...]
    n_faithful: int
    n_hallucinated: int
    n_unlabelled: int
    groups: GroupSizes
    lengths: tuple[TextLengths, ...]
    repeated: int
    contradictory: int
    copies: Mapping[str, int]
    cross_split: CrossSplitDuplicates | None
    length_auroc: float | None
    supports: tuple[Support, ...]
    scores: tuple[ScoreSupport, ...]
    numeric_columns: tuple[NumericColumn, ...]
    empty_columns: tuple[str, ...]
    inputs: tuple[str, ...]
    reading: Mapping[str, Any]
    layout: tuple[ColumnLook, ...]
    suggested: tuple[str, ...]
    verdict: Mapping[str, str | None] | None
    inverted: Mapping[str, float] | None
    context_is_answer: Mapping[str, int]
    context_holds_answer: Mapping[str, int]
    warnings: tuple[DataFinding, ...]
    marks: MarkLook | None = None
    because: str = ""
    about: str = ""
    answers: tuple[AnswerColumn, ...] = ()
    unread: tuple[UnreadText, ...] = ()
    artefacts: tuple[Artefact, ...] = ()


#: What an answer may have apart from what it says, by a pattern; and what else is looked at.
_LOOKS: Final = {code: re.compile(pattern) for code, pattern in patterns("look").items()}
_OF_LETTERS: Final = ("lower_case_start", "capitals")


def _appearance(text: str) -> Iterator[float]:
    """Yield what an answer looks like, in the order of `_LOOKS` and `_OF_LETTERS`."""
    letters = [letter for letter in text if letter.isalpha()]
    yield from (pattern.search(text) is not None for pattern in _LOOKS.values())
    yield bool(letters) and letters[0].islower()
    yield sum(map(str.isupper, letters)) / max(1, len(letters))


#: So many openings of answers, the most frequent ones, are looked at, of so many words.
_OPENINGS, _OPENING_WORDS, _CHARACTERS = 5, 2, 40


UNLABELLED: Final = -1

# Where an answer stands in its own contexts.
_QUOTE: Final = 1
_COPY: Final = 2


class Survey:
    """The memory of one pass over n examples: about 400 bytes each, and of texts two words.

    Parameters
    ----------
    examples : iterable of Example
        Read once.
    columns : sequence of str
        The further columns that the examples carry.

    Attributes
    ----------
    labels : ndarray of int8, shape (n,)
        0, 1, or -1 without a label.
    groups, ids : lists of length n
        As in the examples.
    chars : ndarray of int64, shape (n, 3)
        Sizes of question, contexts and response.
    digests : ndarray of uint64, shape (n,)
        What tells examples apart: see `Example.digest`.
    texts : ndarray of uint64, shape (n,)
        Digest of all texts; 0 for an example without any.
    columns : mapping of str to ndarray of float64, shape (n,)
        Further columns that hold only numbers; NaN without a value.
    empty_columns : tuple of str
        Further columns without any value.
    appearance : ndarray of float32, shape (n, k)
        What answers look like, as `Artefact` has it.
    openings : list of str, length n
        Their first words.
    copies, quotes : ndarray of bool, shape (n,)
        Answers that are one of their own contexts, and that stand word for word in them.
    sketches : Sketches
        For near-duplicates.
    """

    def __init__(self, examples: Iterable[Example], columns: Sequence[str]) -> None:
        self.groups: list[str | None] = []
        self.ids: list[str] = []
        labels, sizes, places = list[int](), list[list[int]](), list[int]()
        digests, texts_held = list[int](), list[int]()
        cells: dict[str, list[Any]] = {name: [] for name in columns}
        appearance = array("f")
        self.openings, self.endings = list[str](), list[str]()
        sketcher = Sketcher()
        for example in examples:
            labels.append(UNLABELLED if example.label is None else example.label)
            self.groups.append(example.group)
            self.ids.append(example.id)
            texts = ((example.question,), example.contexts, (example.response,))
            sizes.append([sum(map(len, parts)) for parts in texts])
            places.append(_copied(example))
            appearance.extend(_appearance(example.response))
            opening = example.response[:_CHARACTERS].casefold().split()[:_OPENING_WORDS]
            self.openings.append(sys.intern(" ".join(opening)))
            self.endings.append(re.sub(r"[\w.]", "", example.response.rstrip()[-1:]))
            digests.append(int(example.digest("plain"), 16))
            texts_held.append(int(example.digest(), 16))
            for name, values in cells.items():
                values.append(example.columns.get(name))
            sketcher.add(example)
        self.labels, where = np.array(labels, np.int8), np.array(places, np.int8)
        self.copies, self.quotes = where == _COPY, where > 0
        self.chars = np.array(sizes, np.int64).reshape(-1, 3)
        looks = np.array(appearance, np.float32)
        self.appearance = looks.reshape(-1, len(_LOOKS) + len(_OF_LETTERS))
        self.digests, held = np.array(digests, np.uint64), np.array(texts_held, np.uint64)
        self.texts = np.where((self.chars > 0).any(axis=1), held, np.uint64(0))
        numbers = {name: list(map(_number, values)) for name, values in cells.items()}
        held_in = {k: np.array(v, np.float64) for k, v in numbers.items() if None not in v}
        self.empty_columns = tuple(k for k, values in held_in.items() if np.isnan(values).all())
        self.columns = {k: v for k, v in held_in.items() if k not in self.empty_columns}
        self.sketches = sketcher.finish()


def _number(cell: object) -> float | None:
    """Return a cell's number, NaN where none or no finite one is there, None for anything else."""
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in ABSENT):
        return float("nan")
    number = likely_number(cell)
    return float("nan") if number is not None and np.isinf(number) else number


def _copied(example: Example) -> int:
    """Return whether the answer is one of its contexts, stands in one, or neither."""
    answer = _folded(example.response)
    chunks = [_folded(chunk) for chunk in example.contexts] if answer else []
    if answer in chunks:
        return _COPY
    return _QUOTE if any(answer in chunk for chunk in chunks) else 0


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def by_class(flags: NDArray[np.bool_], labels: NDArray[np.int8]) -> dict[str, int]:
    """Return how many answers of each class are marked."""
    classes = {"faithful": labels == 0, "hallucinated": labels == 1}
    return {name: int(np.count_nonzero(flags & of_class)) for name, of_class in classes.items()}


def text_lengths(survey: Survey) -> tuple[TextLengths, ...]:
    """Return the sizes of question, contexts and response."""
    lengths = []
    for i, field in enumerate(TEXT_FIELDS):
        chars = survey.chars[survey.chars[:, i] > 0, i]
        empty = len(survey.chars) - len(chars)
        lengths.append(TextLengths(field, len(chars), empty, *median_and_p95(chars)))
    return tuple(lengths)


def median_and_p95(values: NDArray[np.int64]) -> tuple[float, float]:
    """Return the median and the 95th percentile, NaN without values."""
    if not values.size:
        return float("nan"), float("nan")
    median, p95 = np.quantile(values, (0.5, 0.95))
    return float(median), float(p95)


def group_sizes(survey: Survey) -> GroupSizes:
    """Return how many groups there are, how large, and how many hold both classes."""
    grouped = np.array([group is not None for group in survey.groups], dtype=bool)
    numbers = group_numbers(survey.groups, len(grouped))[grouped]
    sizes = np.unique(numbers, return_counts=True)[1]
    mixed = _in_both_classes(numbers, survey.labels[grouped])
    alike = spelt_alike(name for name in survey.groups if name is not None)
    return GroupSizes(len(sizes), int((~grouped).sum()), int(sizes.max(initial=0)), mixed, alike)


def repeats(survey: Survey) -> tuple[int, int]:
    """Return (examples with the texts of an earlier one, different texts with both labels)."""
    worded = survey.texts != 0
    texts = survey.texts[worded]
    return len(texts) - len(np.unique(texts)), _in_both_classes(texts, survey.labels[worded])


def _in_both_classes(values: NDArray[Any], labels: NDArray[np.int8]) -> int:
    return int(np.intersect1d(values[labels == 0], values[labels == 1]).size)


def artefacts(
    survey: Survey, copies: NDArray[np.int64], area_of: Callable[..., tuple[float, float, float]]
) -> tuple[Artefact, ...]:
    """Return what of the look of answers tells their labels beyond chance, the most telling first.

    Parameters
    ----------
    survey : Survey
        The answers.
    copies : ndarray of int64, shape (n,)
        Which answers are copies of each other; -1 of none.
    area_of : callable
        Returns the AUROC with its interval: of values, labels, groups and a level.
    """
    used = (survey.labels >= 0) & (survey.chars[:, TEXT_FIELDS.index("response")] > 0)
    groups = merge_groups(group_numbers(survey.groups, len(survey.groups)), copies)[used]
    labels = survey.labels[used]
    if len(np.unique(labels)) < 2:
        return ()
    codes = (*_LOOKS, *_OF_LETTERS)
    looked = {(code, ""): survey.appearance[used, i] for i, code in enumerate(codes)}
    for code, texts in (("opening", survey.openings), ("ending", survey.endings)):
        seen = np.array(texts)[used]
        common = Counter(filter(None, seen.tolist())).most_common(_OPENINGS)
        looked |= {(code, text): seen == text for text, n in common if n >= _FEW}
    made = []
    for (code, text), column in looked.items():
        values = np.asarray(column, np.float64)
        area, lower, upper = area_of(values, labels, groups, 1.0 - _CHANCE / len(looked))
        # The words of a topic begin an answer here and there, and give little away.
        if (lower > 0.5 or upper < 0.5) and not (text and abs(area - 0.5) < _TOPICAL):
            means = (float(values[labels == label].mean()) for label in (1, 0))
            made.append(Artefact(code, text, area, lower, upper, *means))
    return tuple(sorted(made, key=lambda item: -abs(item.auroc - 0.5)))


class MarkSurvey:
    """The memory of one pass over n answers; no text.

    Parameters
    ----------
    examples : iterable of Example
        Read once; every sentence has a label.
    share : float
        As in `sentence_labels`.
    columns : sequence of str
        The further columns that the examples carry.

    Attributes
    ----------
    labels : ndarray of int8, shape (n,)
        1 where a sentence is unsupported.
    sentences, unsupported : ndarray of int64, shape (n,)
        How many there are.
    marked, outside : int
        Marked characters, and those of them in no sentence, without white space.
    groups : list of str or None, length n
        As in the examples.
    digests : ndarray of uint64, shape (n,)
        What tells answers apart.
    columns : SentenceColumns
        What the further columns say of sentences.
    numbers : NumberLook
        Columns that number sentences.
    """

    def __init__(
        self, examples: Iterable[Example], share: float, columns: Sequence[str] = ()
    ) -> None:
        self.columns, self.numbers = SentenceColumns(columns), NumberLook(columns)
        n_sentences, n_unsupported, digests = list[int](), list[int](), list[int]()
        self.groups: list[str | None] = []
        self.marked = self.outside = 0
        for read in examples:
            # An answer is parted once, whoever asks for its sentences.
            example = replace(read, sentences=sentences_of(read))
            labels = sentence_labels(example, share)
            self.columns.add(example, labels)
            self.numbers.add(example)
            n_sentences.append(len(labels))
            n_unsupported.append(sum(label == 1 for label in labels))
            digests.append(int(read.digest("plain"), 16))
            self.groups.append(example.group)
            marked, _ = marked_characters(example, 0, len(example.response))
            self.marked += marked
            self.outside += marked
            for item in sentences_of(example) if marked else ():
                self.outside -= marked_characters(example, item.start, item.end)[0]
        self.sentences: NDArray[np.int64] = np.array(n_sentences, np.int64)
        self.unsupported: NDArray[np.int64] = np.array(n_unsupported, np.int64)
        self.labels = (self.unsupported > 0).astype(np.int8)
        self.digests = np.array(digests, np.uint64)


# An AUROC as far from one half as this is no accident with a hundred examples of each class
# (its standard error is then about 0.04).
_SEPARATES: Final = 0.1

# Of all that is looked for in the look of answers, one or more are found by accident so often.
_CHANCE: Final = 0.05
_TOPICAL: Final = 0.02

# Answers that are their own context happen; where so many are, the column is a wrong one.
_MANY_COPIES: Final = 0.2
_FEW: Final = 10

# Among fewer examples a separation without a mistake may be luck.
ENOUGH: Final = 40


def findings(facts: Diagnosis) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the code of each warning, the gravest first, with what its message says."""
    if not facts.rows:
        yield "empty", {}
    elif not facts.usable:
        yield "nothing_usable", {}
    if facts.quarantined:
        yield "quarantined", {}
    if any((field, reason) == ("label", EITHER) for field, reason, _ in facts.reasons):
        yield "label_means_either", {}
    yield from _of_labels(facts)
    if facts.usable:
        yield from _of_classes(facts)
        yield from _of_texts(facts)
    yield from _of_copies(facts)
    for column in facts.numeric_columns:
        if column.tells_label:
            yield "column_tells_label", {"column": column.name}
        if column.stand_in:
            yield "stand_in", {"name": column.name, **column.stand_in}
    if facts.empty_columns:
        yield "empty_columns", {}
    if facts.marks is not None:
        yield from _of_marks(facts, facts.marks)


def _of_labels(facts: Diagnosis) -> Iterator[tuple[str, dict[str, Any]]]:
    if facts.inverted is not None:
        yield "labels_look_inverted", {}
    if facts.because == "rivals":
        yield "label_columns_contradict", {}
    labels = facts.reading["labels"]
    if not labels:
        return
    n_read = facts.usable + facts.filtered
    if holds_others(labels, n_read):
        yield "labels_unclear", {"held": what_is_held(labels, n_read)}
    if labels["by_name"]:
        ones = [item["value"] for item in labels["values"] if item["class"] == FAITHFUL]
        yield "label_by_name", {"labels": labels, "one": ones[0] if ones else 1}
    if labels["several"]:
        yield "annotators_divided", {"several": labels["several"]}


def _of_classes(facts: Diagnosis) -> Iterator[tuple[str, dict[str, Any]]]:
    labelled = facts.n_faithful + facts.n_hallucinated
    if not labelled:
        yield "unlabelled", {}
        return
    for count, name in ((facts.n_faithful, "faithful"), (facts.n_hallucinated, "hallucinated")):
        if not count:
            yield "one_class", {"name": name}
    marginal = [item for item in facts.supports if item.guarantee == "marginal"]
    short = [item for item in marginal if not item.possible]
    if facts.n_hallucinated and len(short) > 1:
        best = min((item.alpha for item in marginal if item.possible), default=None)
        yield "too_few", {"short": short, "best": best}
    if facts.groups.largest > max(1, labelled // 10):
        yield "large_group", {}
    if facts.groups.alike:
        yield "alike_groups", {}


def _of_texts(facts: Diagnosis) -> Iterator[tuple[str, dict[str, Any]]]:
    if not any(length.n for length in facts.lengths):
        yield "no_texts", {}
        return
    yield from ((f"empty_{it.field}", {"length": it}) for it in facts.lengths if it.empty)
    value, sizes = facts.length_auroc, (facts.n_hallucinated or 1, facts.n_faithful or 1)
    # Chance alone moves it so far in a hundredth of all files: 2.6 times sqrt((1/m + 1/n) / 12).
    by_chance = 0.75 * sum(1.0 / n for n in sizes) ** 0.5
    if value is not None and abs(value - 0.5) >= max(_SEPARATES, by_chance):
        yield "length_separates", {"value": value}
    yield from (("artefact", {"artefact": artefact}) for artefact in facts.artefacts)


def _of_copies(facts: Diagnosis) -> Iterator[tuple[str, dict[str, Any]]]:
    copied, quoted = sum(facts.context_is_answer.values()), facts.context_holds_answer
    if copied >= _MANY_COPIES * max(1, facts.usable) and copied:
        yield "context_is_answer", {"copied": copied}
    elif facts.n_hallucinated >= _FEW and quoted["hallucinated"] >= 0.9 * facts.n_hallucinated:
        yield "context_holds_answer", {"quoted": quoted["hallucinated"]}
    if facts.contradictory:
        yield "contradictory_labels", {}
    if facts.reading["repeated_ids"]:
        yield "repeated_ids", facts.reading["repeated_ids"]
    if facts.repeated:
        yield "repeated", {}
    if facts.copies["n"]:
        yield "copies", {}
    if facts.cross_split is not None and facts.cross_split.count:
        yield "cross_split_duplicates", {"twins": facts.cross_split}


def _of_marks(facts: Diagnosis, marks: MarkLook) -> Iterator[tuple[str, dict[str, Any]]]:
    # Where sentences say what an answer is, what is wrong with them was said of the answers.
    n = sum(count for _, _, count in marks.set_aside)
    if n and marks.set_aside != facts.reasons:
        yield "marks_unclear", {"n": n}
    if marks.outside_chars:
        yield "marked_outside", {}
    odd = (it for it in marks.numbered if it.unsorted or it.gaps or it.twice)
    yield from (("sentences_out_of_order", {"numbered": it}) for it in odd)
    yield from (("column_lengths", {"column": it}) for it in marks.columns if it.set_aside)
