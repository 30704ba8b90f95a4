"""Marked spans of an answer, and what a file holds of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Final

from calibrail.data.aliases import MARK_FIELDS
from calibrail.data.example import FieldError
from calibrail.data.values import spelt_out
from calibrail.errors import error_text
from calibrail.serialization import Record

#: How other tools call the first character of a span, the one behind its last, and its text.
STARTS: Final = ("start", "begin", "start_offset", "start_char", "startOffset", "start_index")
ENDS: Final = ("end", "stop", "end_offset", "end_char", "endOffset", "end_index")
_TEXTS: Final = ("text", "quote", "span", "span_text")


Span = tuple[int, int]


def looks_marked(value: object) -> bool:
    """Say whether a value is a list of spans by its looks, or spells one.

    >>> looks_marked([[0, 4]]), looks_marked('[{"start": 0, "end": 4}]'), looks_marked(["a"])
    (True, True, False)
    """
    value = spelt_out(value)
    return isinstance(value, list) and all(_offsets(item) is not None for item in value)


def is_spans(value: object) -> bool:
    """Say whether a label is a list of spans that were marked in the answer, or spells one."""
    value = spelt_out(value)
    return isinstance(value, list) and any(
        isinstance(item, Mapping) and {"start", "end"} <= item.keys() for item in value
    )


def read_spans(value: object, response: str) -> tuple[Span, ...] | None:
    """Return the marked characters of a response: sorted, none touching another.

    Where a span brings its text, that must stand at its offsets. One that is beside them by no more
    characters than white space explains, and stands in the response once, is moved there.

    Parameters
    ----------
    value : object
        A list of ``[start, end]``, ``[start, end, text]`` or objects with these; or what spells
        one. None where nobody marked anything.
    response : str
        The answer.

    Raises
    ------
    FieldError
        It is something else, or leads out of the response.

    Examples
    --------
    >>> read_spans([{"start": 4, "end": 7, "text": "red"}, [6, 9]], "the red fox")
    ((4, 9),)
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    marks = spelt_out(value)
    if not isinstance(marks, list | tuple):
        seen = value if marks is None else marks
        raise FieldError("spans", "wrong type", seen, error_text("spans_shape"))
    spans = (_span(item, response) for item in marks)
    # White space is no word that somebody could doubt.
    return merged([(start, end) for start, end in spans if response[start:end].strip()])


def merged(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return spans in their order, those that overlap or touch as one.

    >>> merged([(5, 9), (0, 2), (2, 3), (7, 8)])
    ((0, 3), (5, 9))
    """
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return tuple(result)


def place(text: str, response: str, start: int = 0) -> Span | None:
    r"""Return where a text first stands from a character on, whatever its white space is like.

    >>> place("red  fox", "the red\nfox"), place("cat", "the red fox")
    ((4, 11), None)
    """
    words = text.split()
    if not words:
        return None
    found = response.find(text, start)
    if found >= 0:
        return found, found + len(text)
    match = re.compile(r"\s+".join(map(re.escape, words))).search(response, start)
    return match and match.span()


def _span(item: object, response: str) -> Span:
    found = _offsets(item)
    if found is None:
        raise FieldError("spans", "wrong type", item, error_text("spans_shape"))
    start, end, text = found
    if text is not None and text.strip():
        return _at_text(start, end, text, response, item)
    if start > end:
        raise FieldError("spans", "end before start", item, error_text("spans_shape"))
    if start < 0 or end > len(response):
        seen = f"[{start}, {end}] in {len(response)} characters"
        raise FieldError("spans", "outside the response", seen, error_text("spans_elsewhere"))
    return start, end


def _at_text(start: int, end: int, text: str, response: str, item: object) -> Span:
    """Return the span with its text, moved by white space where it has to be."""
    if 0 <= start <= end <= len(response) and response[start:end].split() == text.split():
        return start, end
    words = [re.escape(word) for word in text.split()]
    matches = [match.span() for match in re.finditer(r"\s+".join(words), response)]
    slack = sum(map(str.isspace, response)) + sum(map(str.isspace, text))
    near = [span for span in matches if abs(span[0] - start) <= slack]
    if len(matches) == 1 and near:
        return near[0]
    there = response[max(0, start) : max(0, end)][:40]
    seen = f"{text[:40]!r}, there is {there!r}"
    raise FieldError("spans", "text is not at its offsets", seen, error_text("spans_elsewhere"))


def _offsets(item: object) -> tuple[int, int, str | None] | None:
    if isinstance(item, Mapping):
        start, end, text = (first_of(item, names) for names in (STARTS, ENDS, _TEXTS))
    elif isinstance(item, list | tuple) and 2 <= len(item) <= 3:
        start, end, text = (*item, None)[:3]
    else:
        return None
    first, last = whole(start), whole(end)
    if first is None or last is None:
        return None
    return first, last, text if isinstance(text, str) else None


def first_of(item: Mapping[Any, Any], names: Sequence[str]) -> Any:
    """Return what an object holds under the first of some names that it has."""
    return next((item[name] for name in names if item.get(name) is not None), None)


def whole(value: object) -> int | None:
    """Return a whole number, whatever its type; None of anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value)


@dataclass(frozen=True, slots=True)
class MarkColumns:
    """Where marks are; None where there are none.

    Parameters
    ----------
    spans : str or None
        Column of marked spans.
    sentences : str or None
        Column that lists the sentences of the answer.
    sentence_labels : str or None
        Column that lists a label for each of them, where they do not bring it themselves.
    answer_id : str or None
        Where rows are sentences: the column that says which answer a row belongs to.
    """

    spans: str | None = None
    sentences: str | None = None
    sentence_labels: str | None = None
    answer_id: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that hold nothing but marks."""
        return tuple(name for name in astuple(self)[:3] if name is not None)

    @property
    def by_field(self) -> dict[str, str]:
        """The column of each field that has one."""
        pairs = zip(MARK_FIELDS, astuple(self), strict=True)
        return {field: name for field, name in pairs if name is not None}


@dataclass(frozen=True, slots=True)
class Support(Record):
    """Whether a threshold with a guarantee exists at the default split.

    Parameters
    ----------
    alpha : float
        Tolerated miss rate.
    guarantee : str
        ``marginal``, or ``pac`` at delta 0.1.
    needed, available : int
        Hallucinated examples for calibration, one of each group.
    possible : bool
        Whether there are enough.
    to_label : int
        How many more hallucinated examples, each of a new group, make them enough.
    """

    alpha: float
    guarantee: str
    needed: int
    available: int
    possible: bool
    to_label: int


@dataclass(frozen=True, slots=True)
class SentenceColumn(Record):
    """A column that may hold another detector's score of each sentence.

    Parameters
    ----------
    name : str
        The column.
    n, missing : int
        Sentences with a number and without.
    set_aside : int
        Answers that cannot be used with it: it lists another number of values than they have
        sentences.
    auroc : float or None
        As of `NumericColumn`, of unsupported sentences against supported ones.
    tells_label, higher
        As of `NumericColumn`.
    """

    name: str
    n: int
    missing: int
    set_aside: int
    auroc: float | None
    tells_label: bool = False
    higher: str | None = None


@dataclass(frozen=True, slots=True)
class NumberedRows(Record):
    """A column that numbers the sentences of each answer, where rows are sentences.

    Parameters
    ----------
    name : str
        The column.
    n : int
        Answers of two or more sentences.
    unsorted, gaps, twice : int
        Those of them whose rows stand in another order, which lack a number, and in which one
        stands twice.
    """

    name: str
    n: int
    unsorted: int
    gaps: int
    twice: int


@dataclass(frozen=True, slots=True)
class MarkLook(Record):
    """What marks say of the sentences of a file.

    Parameters
    ----------
    kind : str
        ``spans``, ``sentences`` (each with a label, in its answer's row) or ``rows`` (a row a
        sentence).
    n, hallucinated : int
        Answers of which every sentence has a label, and those that hold an unsupported one.
    sentences, unsupported : int
        Their sentences, and those that are unsupported.
    median_sentences, p95_sentences : float
        Sentences an answer; NaN without any.
    marked_chars, outside_chars : int
        Marked characters without white space, and those of them that are in no sentence.
    span_share : float
        What of a sentence spans must cover for it to be unsupported.
    set_aside : tuple of (field, reason, count)
        Answers that cannot be used sentence by sentence, by what is wrong with them.
    supports : tuple of Support
        Guarantees at the default half split.
    columns : tuple of SentenceColumn
        Candidates for ``--score-column``.
    numbered : tuple of NumberedRows
        Columns that number the sentences of answers; they are no candidates.
    """

    kind: str
    n: int
    hallucinated: int
    sentences: int
    unsupported: int
    median_sentences: float
    p95_sentences: float
    marked_chars: int
    outside_chars: int
    span_share: float
    set_aside: tuple[tuple[str, str, int], ...]
    supports: tuple[Support, ...]
    columns: tuple[SentenceColumn, ...] = ()
    numbered: tuple[NumberedRows, ...] = ()
