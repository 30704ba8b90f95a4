"""How does an answer become sentences, each of them an example like any other?"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from calibrail.data.example import FAITHFUL, HALLUCINATED, Example, GivenSentence
from calibrail.data.rows import FieldError
from calibrail.phrases import count
from calibrail.text.answer_sentences import answer_sentences

#: Characters that stand before the sentences of an answer, added up over all of them.
MOST_BEFORE: Final = 100_000_000

_LONG: Final = "check it in parts: each sentence is judged after what stands before it"
_EACH: Final = "give one for each of them, in their order"
_LEFT_OUT: Final = (
    "what no sentence holds is shown unjudged: give all sentences of the response, or leave "
    "sentences out, so that they are found in its text"
)
#: A word, and no number of a list ("iv.").
_WORD = re.compile(r"\b(?![ivxlc]+\b)[^\W\d_]{2,}", re.IGNORECASE)


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
        A sentence is unsupported where marked spans cover at least this share of its letters and
        digits; 0 for any of them. A sentence without one counts all that is no white space.

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


def cut_otherwise(example: Example) -> bool:
    """Return whether the data gives an answer other sentences than are found in its text.

    >>> text = "It rained, the sun shone."
    >>> halves = GivenSentence(0, 10), GivenSentence(11, 25)
    >>> cut_otherwise(Example(response=text, sentences=halves))
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
        What stands before its sentences adds up to more than `MOST_BEFORE`, a list has another
        length, or sentences that the data gives leave words of the response out.
    """
    places = sentences_of(example)
    if example.sentences is not None and (word := _left_out(example.response, places)):
        seen = f"{count(len(places), 'sentence')}, none with {word!r:.40}"
        raise FieldError("sentences", "words of the response are in none", seen, _LEFT_OUT)
    if sum(place.start for place in places) > MOST_BEFORE:
        seen = f"{count(len(example.response), 'character')} in {count(len(places), 'sentence')}"
        raise FieldError("response", "too long to judge by sentence", seen, _LONG)
    for name in columns:
        numbers = listed(example.columns.get(name))
        if numbers is not None and len(numbers) != len(places):
            seen = f"{count(len(numbers), 'number')}, and the answer has "
            seen += count(len(places), "sentence")
            raise FieldError(name, "not one number for each sentence", seen, _EACH)


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
    """Return what a cell with a JSON list holds; None of any other cell."""
    if not isinstance(cell, str) or not cell.lstrip().startswith("["):
        return None
    try:
        held = json.loads(cell)
    except (ValueError, RecursionError):
        return None
    return held if isinstance(held, list) else None


def marked_characters(example: Example, start: int, end: int) -> tuple[int, int]:
    """Return how many characters of a part of the response are marked, and how many there are.

    White space is not counted; without spans nothing is marked.
    """
    return _covered(example, start, end, _written)


def marked_letters(example: Example, start: int, end: int) -> tuple[int, int]:
    """Return how many letters and digits of a part of the response are marked, and how many are."""
    return _covered(example, start, end, _letters)


def _covered(example: Example, start: int, end: int, size: Callable[[str], int]) -> tuple[int, int]:
    text, spans = example.response, example.spans or ()
    marked = sum(size(text[max(start, first) : min(end, last)]) for first, last in spans)
    return marked, size(text[start:end])


def sentence_labels(example: Example, share: float = 0.0) -> list[int | None]:
    """Return the labels that `sentence_examples` gives.

    >>> sentence_labels(Example(response="It rained. The sun shone.", spans=((11, 18),)))
    [0, 1]
    """
    return [_label(example, item, share) for item in sentences_of(example)]


def _label(example: Example, item: GivenSentence, share: float) -> int | None:
    if item.label is not None or example.spans is None:
        return item.label
    marked, n = marked_letters(example, item.start, item.end)
    if not n:
        # Of signs alone, every one is what the sentence says.
        marked, n = marked_characters(example, item.start, item.end)
    # In whole numbers a share of exactly a half is a half.
    return HALLUCINATED if marked and marked >= share * n else FAITHFUL


def _written(text: str) -> int:
    return sum(not character.isspace() for character in text)


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _numbers(cell: Any, n: int) -> list[Any] | None:
    """Return the numbers of a cell that holds a list of n, None of any other cell.

    What is no finite number is a text that says where it stands.
    """
    numbers = listed(cell)
    if numbers is None or len(numbers) != n:
        return None
    return [
        item if _is_number(item) else f"number {place} of {n}: {item}"
        for place, item in enumerate(numbers, start=1)
    ]


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
