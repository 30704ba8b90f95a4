"""What a label means; votes."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from calibrail.data.aliases import NAMES, aliases_of
from calibrail.data.example import FAITHFUL, HALLUCINATED
from calibrail.data.row_types import FieldError
from calibrail.data.traces._tool_export import ANNOTATION
from calibrail.data.values import parse_cell, value_at
from calibrail.options import ReadOptions
from calibrail.options.data import SKIP
from calibrail.options.fields import spell_option

YES, NO, PLAIN = (frozenset(NAMES["labels"][kind].split()) for kind in ("yes", "no", "plain"))
_HALLUCINATED, _FAITHFUL, _OF_ANYTHING = (
    frozenset(word.replace("_", " ") for word in NAMES["labels"][kind].split())
    for kind in ("hallucinated", "faithful", "of_anything")
)
_NAMED_FAITHFUL, _NAMED_HALLUCINATED = (
    re.compile(
        r"(?:(?:is|has|label|gold|human|sent|sentence|answer|response|summary|overall)_)*"
        rf"(?:{'|'.join(NAMES['labels'][kind].split())})(?:_(?:label|gold|human|score|flag))?"
    )
    for kind in ("named_faithful", "named_hallucinated")
)


def label_key(value: object) -> str:
    """Return how a label's value is compared: lower case, whole numbers without a point.

    Floating-point numbers have a zero below zero, too, which is 0.

    >>> label_key(" PASS "), label_key(1.0), label_key("0.0"), label_key(True), label_key([])
    ('pass', '1', '0', 'true', '[]')
    >>> label_key(-0.0)
    '0'
    """
    text = str(value).strip().lower()
    if not isinstance(value, bool) and re.fullmatch(r"[+-]?\d{1,9}\.0*", text):
        text = text.partition(".")[0]
    return "0" if text in ("-0", "+0") else text


def parse_label(value: object) -> int | None:
    """Return 0 (faithful), 1 (hallucinated), or None where the value says neither.

    Accepted are 0 and 1 as numbers of any kind or texts, true and false, and the words of which
    only one class is meant, such as ``faithful`` or ``FAIL``. Nothing else is guessed: a label
    read the wrong way round turns every number of a report around.

    >>> parse_label("1"), parse_label(0.0), parse_label("PASS"), parse_label("yes")
    (1, 0, 0, None)
    """
    key = label_key(value)
    if key in PLAIN:
        return plain(key, HALLUCINATED)
    word = re.sub(r"[\s_-]+", " ", key)
    if word in _HALLUCINATED:
        return HALLUCINATED
    return FAITHFUL if word in _FAITHFUL else None


def meaning_of_one(column: str) -> int | None:
    """Return the class that a label of 1, true or yes has by its column's name, if by any.

    >>> meaning_of_one("is_faithful"), meaning_of_one("meta.hallucinated"), meaning_of_one("label")
    (0, 1, None)
    """
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column.rpartition(".")[2])
    name = re.sub(r"[\W_]+", "_", name).strip("_").lower()
    if _NAMED_FAITHFUL.fullmatch(name):
        return FAITHFUL
    return HALLUCINATED if _NAMED_HALLUCINATED.fullmatch(name) else None


#: Names of a label that say nothing about what it is about: the one label that there is.
_ANY_LABEL: Final = re.compile(
    r"(?:.*_)?(?:verdict|truth|human|label|labels|annotation|judg[e]?ment|gold|correctness|accuracy)"
    r"(?:_.*)?"
)


def is_of_truth(column: str, values: Iterable[object]) -> bool:
    """Say whether a label that people gave is about faithfulness, by its name or its words.

    >>> is_of_truth("annotation.tone", ["pass"]), is_of_truth("annotation.tone", ["unsupported"])
    (False, True)
    >>> is_of_truth("annotation.verdict", ["pass"])
    True
    """
    name = re.sub(r"[\W_]+", "_", column.rpartition(".")[2]).lower()
    if meaning_of_one(column) is not None or _ANY_LABEL.fullmatch(name):
        return True
    words = (v for given in values for v in (given if isinstance(given, list | tuple) else [given]))
    telling = (_HALLUCINATED | _FAITHFUL) - _OF_ANYTHING
    return any(re.sub(r"[\s_-]+", " ", str(word)).strip().lower() in telling for word in words)


def plain(key: str, meaning_of_one: int) -> int:
    """Return the class of a yes or no, by what a yes means."""
    return meaning_of_one if key in YES else 1 - meaning_of_one


#: A class, the mark of a label that is left out on request, or None where a value says neither.
Meaning: TypeAlias = int | str | None

_OTHER: Final = {"yes": "no", "no": "yes", "y": "n", "n": "y", "t": "f", "f": "t"}

# So many different values are counted; a column with more is no column of labels.
_COUNTED: Final = 50


class LabelReader:
    """Reads the labels of one source as its user, or else its column's name, says.

    Parameters
    ----------
    reading : ReadOptions
        Its ``label_map``, ``positive`` and ``annotators`` are used.
    column : str
        Where the labels are; its name may say what a 1 means.
    spans : bool
        Whether a label is a list of marked spans: hallucinated when there is any.

    Attributes
    ----------
    seen : Counter of (str, int)
        How often each value was read as which class.
    others : Counter of str
        How often each value was met that is no label.
    n_others : int
        Rows with such a value.
    n_several, n_divided : int
        Rows with labels of several annotators, and those on which these disagree.
    """

    def __init__(self, reading: ReadOptions, column: str, spans: bool = False) -> None:
        self.column, self.spans = column, spans
        self.annotators = reading.annotators or "majority"
        self.named = meaning_of_one(column)
        # What people were asked may be whether an answer is good: of a thumb up 1 says nothing.
        own = column.rpartition(".")[2]
        self._unsaid = column.startswith(ANNOTATION) and not aliases_of("label", (own,))
        self.seen: Counter[tuple[str, Any]] = Counter()
        self.others: Counter[str] = Counter()
        self.n_several = self.n_divided = self.n_others = 0
        self.is_explicit = reading.label_map is not None or reading.positive is not None
        self._positive = None if reading.positive is None else label_key(reading.positive)
        self._map: Mapping[str, Meaning] | None = None
        if reading.label_map is not None:
            self._map = {label_key(k): v for k, v in reading.label_classes().items()}

    def __call__(self, value: object) -> Meaning:
        """Return a class, `SKIP`, or None where the value says neither; lists are combined.

        Raises
        ------
        TieError
            Annotators disagree, half against half.
        """
        if isinstance(value, (list, tuple)) and self.spans and not self.is_explicit:
            return self._count(f"{'some' if value else 'no'} marked spans", int(bool(value)))
        if (votes := votes_in(value)) is not None:
            return self._combine(votes)
        if isinstance(value, (list, tuple)) and (value or "[]" not in (self._map or {})):
            return self._combine([(self._of_one_person(item), 1) for item in value])
        label = None if value != [] and self.is_missing(value) else self._one(value)
        return self._count(value, label) if isinstance(label, int) else label

    def of_many(self, values: Sequence[tuple[object, int]]) -> list[Meaning] | None:
        """Return what single values mean that so many rows hold each, in their order.

        None, and nothing is counted, where one holds several people's labels. Rows whose value is
        no class are left for a call each.
        """
        if any(votes_in(value) is not None for value, _ in values):
            return None
        meanings = [None if self.is_missing(value) else self._one(value) for value, _ in values]
        for (value, n), label in zip(values, meanings, strict=True):
            if isinstance(label, int) and n:
                self._count(value, label, n)
        return meanings

    def _of_one_person(self, value: object) -> object:
        """Return the label that counts of all that one person chose: one that is hallucinated."""
        if not isinstance(value, (list, tuple)):
            return value
        chosen = list(_annotation(value))
        meant = {self._one(item): item for item in reversed(chosen) if not self.is_missing(item)}
        # What cannot be read may be either.
        return meant.get(HALLUCINATED, meant.get(None, next(iter(meant.values()), None)))

    def is_missing(self, value: object) -> bool:
        """Return whether there is no label at all."""
        if isinstance(value, (list, tuple)):
            return all(map(self.is_missing, value))
        blank = isinstance(value, str) and not value.strip()
        return value is None or blank or (isinstance(value, float) and math.isnan(value))

    def set_aside(self, value: object) -> None:
        """Count the label of a row that says neither class."""
        self.n_others += 1
        given = value if isinstance(value, (list, tuple)) and not self.spans else (value,)
        for item in given:
            key = label_key(item)[:40]
            if self.is_missing(item) or self._one(item) is not None:
                continue
            if key in self.others or len(self.others) < _COUNTED:
                self.others[key] += 1

    def described(self) -> dict[str, Any]:
        """Return how labels were read: values with their class and number, and who decided."""
        values = [
            {"value": value, "class": label, "n": n}
            for (value, label), n in self.seen.most_common()
        ]
        others = [{"value": value, "n": n} for value, n in self.others.most_common()]
        several = {"annotators": self.annotators, "n": self.n_several, "n_divided": self.n_divided}
        return {
            "column": self.column,
            "values": values,
            "others": {"n": self.n_others, "values": others} if others else None,
            "by_user": self.is_explicit,
            "by_name": not self.is_explicit and self.named == FAITHFUL,
            "several": several if self.n_several else None,
        }

    def turned(self) -> tuple[str, ...]:
        """Return the options that would read the labels seen the other way round."""
        classes = {label_key(value): label for value, label in self.seen}
        faithful = [value for value, label in classes.items() if label == FAITHFUL]
        if self.spans or not classes:
            return ()
        if len(faithful) == 1:
            return "--positive", faithful[0]
        turned = (f"{value}={1 - label}" for value, label in classes.items())
        return "--label-map", ",".join(turned)

    def _one(self, value: object) -> Meaning:
        key = label_key(value)
        if self._positive is not None:
            return HALLUCINATED if key == self._positive else FAITHFUL
        if self._map is not None:
            # Of a finer kind, such as Unwanted.Intrinsic, the kind is known.
            return self._map.get(key, self._map.get(key.partition(".")[0]))
        if self.named is not None and key in YES | NO:
            return plain(key, self.named)
        return None if self._unsaid and key in PLAIN else parse_label(value)

    def _combine(self, values: Sequence[tuple[object, int]]) -> Meaning:
        """Return the class that labels come to, each with its number; those missing do not count.

        Those that annotators left out on request do not count, either.
        """
        given = [(item, self._one(item), n) for item, n in values if not self.is_missing(item)]
        if not given or any(label is None for _, label, _ in given):
            return None
        votes = Counter[int]()
        for item, label, n in given:
            if isinstance(label, int):
                votes[label] += n
                self._count(item, label, n)
        total, hallucinated = votes.total(), votes[HALLUCINATED]
        if not total:
            return SKIP
        self.n_several += total > 1
        self.n_divided += 0 < hallucinated < total
        if self.annotators == "any":
            return int(hallucinated > 0)
        if self.annotators == "all":
            return int(hallucinated == total)
        if 2 * hallucinated == total:
            raise TieError(f"{hallucinated} of {total} say hallucinated")
        return int(2 * hallucinated > total)

    def _count(self, value: object, label: int, n: int = 1) -> int:
        key = (str(value).strip()[:40], label)
        if key in self.seen or len(self.seen) < _COUNTED:
            self.seen[key] += n
        return label


class TieError(Exception):
    """Annotators disagree, half against half; says how many there are."""


def votes_in(value: object) -> list[tuple[object, int]] | None:
    """Return labels with the number of those who gave each, or None where a value counts none.

    >>> votes_in({"yes": 2, "no": 1, "other": None}), votes_in({"yes": 0.6}), votes_in([1, 0])
    ([('yes', 2), ('no', 1)], None, None)
    """
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        value = parse_cell(value)
    if not isinstance(value, Mapping) or not value:
        return None
    votes: list[tuple[object, int]] = []
    for label, n in value.items():
        if n is None:
            continue
        if isinstance(n, bool) or not isinstance(n, int | float) or n < 0 or n != n // 1:
            return None
        if n:
            votes.append((label, int(n)))
    return votes


def _annotation(value: object) -> Iterable[object]:
    """Return an annotation's labels: of a kind with its finer kinds, the kind alone."""
    if not isinstance(value, (list, tuple)):
        return (value,)
    first = [item for item in value if "." not in str(item)]
    return first or value


def label_remedy(value: object, reader: LabelReader | None = None) -> str:
    """Say how a value that is not read as a label can be turned into one.

    >>> label_remedy("yes")
    "'yes' can mean either class: positive='yes' if it means hallucinated, else positive='no'"
    """
    key = label_key(value)
    start = value if not isinstance(value, str) or len(value) < 40 else value[:40]
    if reader is not None and reader.is_explicit:
        class_of = spell_option(ReadOptions, "label_map", {key: 1})
        return f"give {start!r} a class, too: {class_of} (hallucinated), 0, or skip"
    if key in _OTHER:
        yes, no = (spell_option(ReadOptions, "positive", word) for word in (key, _OTHER[key]))
        return f"{start!r} can mean either class: {yes} if it means hallucinated, else {no}"
    if isinstance(value, (int, float)) and 0 < value < 1:
        return "a graded label needs a cut-off: write 1 where it counts as hallucinated, else 0"
    if isinstance(value, (int, str)) and key and len(key) < 40:
        meaning = spell_option(ReadOptions, "label_map", {key: 1})
        return (
            f"say what it means: {meaning} (hallucinated) or 0 (faithful), with every other value, "
            f"or {spell_option(ReadOptions, 'positive', 'VALUE')} for the one that means "
            f"hallucinated"
        )
    return f"write 1 for hallucinated and 0 for faithful{another_column()}"


def another_column() -> str:
    """Return the end of a remedy that says how another column of labels is named."""
    return f", or name another column ({spell_option(ReadOptions, 'label_column')})"


def read_label(
    labels: LabelReader, value: object, column: str, *, needed: bool, row: int | None = None
) -> Meaning:
    """Return a class, the mark of what is left out on request, or None without a label.

    Parameters
    ----------
    labels : LabelReader
        Reads it, and counts.
    value : object
        The label as it is stored, or the list of several people's.
    column : str
        Where it is.
    needed : bool
        Whether there must be one; without, one that cannot be read is passed over.
    row : int, optional
        Which row it is in, where an answer is made of several.

    Raises
    ------
    FieldError
        A label is needed, and there is none, or none that says either class.
    """
    try:
        label = labels(value)
    except TieError as tie:
        if not needed:
            return None
        remedy = f"decide ties with {spell_option(ReadOptions, 'annotators', 'any')} or all ({tie})"
        raise FieldError("label", "annotators tie", value, remedy, row) from tie
    if label is None and needed:
        reason, remedy = "not 0 or 1", label_remedy(value, labels)
        if labels.is_missing(value):
            reason, remedy = "missing", f"give every row a {column!r} of 0 or 1"
        else:
            labels.set_aside(value)
        raise FieldError("label", reason, value, remedy, row)
    return label


# Whose labels they are is no thing that is labelled.
_OF_PEOPLE: Final = re.compile(r"annotat|worker|rater|judge|people|author|user", re.IGNORECASE)


def beside_labels(
    rows: Sequence[Mapping[str, object]], label_columns: Sequence[str], cells: bool
) -> list[str]:
    """Return the columns with a list as long as that of the labels, in most rows that list labels.

    Parameters
    ----------
    rows : sequence of mapping
        The first rows.
    label_columns : sequence of str
        Where labels are; several columns list nothing.
    cells : bool
        Whether a list may be spelt in a text, as in CSV.

    Examples
    --------
    >>> row = {"replies": ["a", "b"], "annotators": ["x", "y"], "docs": ["c"], "labels": [1, 0]}
    >>> beside_labels([row], ["labels"], cells=False)
    ['replies']
    """
    fitting: Counter[str] = Counter()
    n = 0
    for row in rows if len(label_columns) == 1 else ():
        labels = _list(value_at(row, label_columns[0]), cells)
        if not labels or any(isinstance(label, Mapping) for label in labels):
            continue
        n += 1
        for name, value in row.items():
            items = None if name == label_columns[0] else _list(value, cells)
            fitting[name] += items is not None and len(items) == len(labels)
    return [name for name, k in fitting.items() if 2 * k > n and not _OF_PEOPLE.search(name)]


def _list(value: object, cells: bool) -> list[object] | None:
    if cells and isinstance(value, str):
        value = parse_cell(value)
    return value if isinstance(value, list) else None
