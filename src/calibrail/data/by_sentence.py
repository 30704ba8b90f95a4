"""How does an answer become sentences, each of them an example like any other?"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from calibrail.data.example import FAITHFUL, HALLUCINATED, Example, GivenSentence
from calibrail.text.answer_sentences import answer_sentences


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
        `calibrail.text.answer_sentences` otherwise. A column that holds a JSON list of as many
        numbers as there are sentences gives each its own; another cell is left to all of them.
    share : float
        A sentence is unsupported where marked spans cover at least this share of its characters,
        white space apart; 0 for any overlap.

    Examples
    --------
    >>> answer = Example(response="It rained. The sun shone.", spans=((11, 18),), id="a")
    >>> [(item.id, item.before, item.response, item.label) for item in sentence_examples(answer)]
    [('a#1', '', 'It rained.', 0), ('a#2', 'It rained. ', 'The sun shone.', 1)]
    """
    given = sentences_of(example)
    cells = {name: _numbers(cell, len(given)) for name, cell in example.columns.items()}
    return [
        sentence_example(example, item, number, share, columns=_columns(example, cells, number - 1))
        for number, item in enumerate(given, start=1)
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
    found = answer_sentences(example.response)
    return tuple(GivenSentence(item.start, item.end) for item in found)


def marked_characters(example: Example, start: int, end: int) -> tuple[int, int]:
    """Return how many characters of a part of the response are marked, and how many there are.

    White space is not counted; without spans nothing is marked.
    """
    text = example.response
    n = _written(text[start:end])
    marked = sum(
        _written(text[max(start, first) : min(end, last)]) for first, last in example.spans or ()
    )
    return marked, n


def sentence_labels(example: Example, share: float = 0.0) -> list[int | None]:
    """Return the labels that `sentence_examples` gives.

    >>> sentence_labels(Example(response="It rained. The sun shone.", spans=((11, 18),)))
    [0, 1]
    """
    return [_label(example, item, share) for item in sentences_of(example)]


def _label(example: Example, item: GivenSentence, share: float) -> int | None:
    if item.label is not None or example.spans is None:
        return item.label
    marked, n = marked_characters(example, item.start, item.end)
    # In whole numbers a share of exactly a half is a half.
    return HALLUCINATED if marked and marked >= share * n else FAITHFUL


def _written(text: str) -> int:
    return sum(not character.isspace() for character in text)


def _numbers(cell: Any, n: int) -> list[Any] | None:
    """Return the numbers of a cell that holds a list of n, None of any other cell."""
    if not isinstance(cell, str) or not cell.lstrip().startswith("["):
        return None
    try:
        numbers = json.loads(cell)
    except ValueError:
        return None
    return numbers if len(numbers) == n and all(map(_is_number, numbers)) else None


def _is_number(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _columns(
    example: Example, cells: Mapping[str, list[Any] | None], row: int
) -> dict[str, float | str | None]:
    return {
        name: cell if (numbers := cells[name]) is None else numbers[row]
        for name, cell in example.columns.items()
    }
