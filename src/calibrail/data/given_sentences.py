"""Which sentences does a row give, where in its answer, and with which labels?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from calibrail.data.aliases import aliases_of
from calibrail.data.cell_values import column_value
from calibrail.data.example import GivenSentence
from calibrail.data.marked_spans import ENDS, STARTS, first_of, place, whole
from calibrail.data.rows import FieldError
from calibrail.data.texts import parse_cell

_TEXTS: Final = ("text", "sentence", "content", "claim")
#: How a sentence calls its text and its place.
NAMED: Final = (*_TEXTS, *STARTS, *ENDS)

_SHAPE: Final = (
    "write a list of texts or of {'text': ..., 'label': ...}, in the order in which they stand in "
    "the answer"
)
_ORDER: Final = (
    "sentences must stand in the response word for word, in their order, none within another"
)

_WORDS: Final = "give the text of every sentence, or leave out those without one"


@dataclass(frozen=True, slots=True)
class Given:
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


def given_in(value: object, labels: object) -> list[Given] | None:
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
    value = parse_cell(value) if isinstance(value, str) else value
    if not isinstance(value, list | tuple) or not value:
        return None
    labels = parse_cell(labels) if isinstance(labels, str) else labels
    keys = [
        item[0] if isinstance(item, list | tuple) and len(item) == 2 else None for item in value
    ]
    if all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys):
        texts: list[Any] = [item[1] for item in value]
        if isinstance(labels, list) and all(
            isinstance(item, str) and item in keys for item in labels
        ):
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
    return [
        Given(item.text, label, item.start, item.end, item.columns, item.row)
        for item, label in zip(sentences, labels, strict=True)
    ]


def label_key_of(value: object) -> str | None:
    """Return the key under which the sentences of a list have their label."""
    value = parse_cell(value) if isinstance(value, str) else value
    for item in value if isinstance(value, list | tuple) else ():
        if isinstance(item, Mapping):
            found = aliases_of("label", [str(key) for key in item])
            return found[0] if len(found) == 1 else None
    return None


def joined(sentences: Sequence[Given]) -> str:
    """Return the answer that sentences make where the row has no other."""
    return " ".join(text for item in sentences if (text := item.text.strip()))


def placed(
    sentences: Sequence[Given],
    response: str,
    label_of: Callable[[Given], int | None],
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


def _one(item: object) -> Given | None:
    if isinstance(item, Given):
        return item
    if isinstance(item, GivenSentence):
        return Given("", item.label, item.start, item.end, item.columns)
    if isinstance(item, str):
        return Given(item)
    if not isinstance(item, Mapping):
        return None
    text = first_of(item, _TEXTS)
    start, end = (whole(first_of(item, names)) for names in (STARTS, ENDS))
    if not isinstance(text, str) and (start is None or end is None):
        return None
    key = label_key_of([item])
    return Given(
        text if isinstance(text, str) else "",
        item.get(key) if key else None,
        start if end is not None else None,
        end,
        {str(name): held for name, held in item.items()},
    )


def shape_error(value: object) -> FieldError:
    """Return what is wrong with a value that is no list of sentences."""
    return FieldError("sentences", "wrong type", value, _SHAPE)
