"""How does a tokenizer read a long text beside a short one, and where do the two lie?"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Side:
    """Where one of the two texts lies.

    Attributes
    ----------
    first, stop : int
        From which token to which.
    offsets : list of (int, int)
        From which character to which each of these tokens lies in the text.
    words : list of int
        Tokens before which the text may be cut: the first ones of its words.
    n_characters : int
        Length of the text.
    """

    first: int
    stop: int
    offsets: list[tuple[int, int]]
    words: list[int]
    n_characters: int

    def __len__(self) -> int:
        return self.stop - self.first


@dataclass(frozen=True, slots=True)
class Tokens:
    """A long and a short text as their model reads them when everything fits.

    Attributes
    ----------
    ids : list of int
        All tokens, special ones included.
    types : list of int
        Token type of each.
    long, short : Side
        Where the two texts lie.
    """

    ids: list[int]
    types: list[int]
    long: Side
    short: Side


def whole_characters(text: str) -> str:
    """Replace halves of characters, left over from broken UTF-16: no tokenizer takes them."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def readable(texts: Sequence[str], special: Sequence[str]) -> list[str]:
    """Replace what a tokenizer would fail on or obey, character by character.

    A text that spells out one of the tokenizer's own signs (``[SEP]``, ``</s>``) would otherwise
    end the premise where it likes; its first character becomes a blank. Offsets stay as they are.
    """
    signs = [re.escape(sign) for sign in sorted(special, key=len, reverse=True) if sign]
    sign = re.compile("|".join(signs)) if signs else None
    result = []
    for text in texts:
        whole = whole_characters(text)
        result.append(sign.sub(lambda match: " " + match[0][1:], whole) if sign else whole)
    return result


def read_pairs(
    tokenizer: Any, longs: Sequence[str], shorts: Sequence[str], *, long_first: bool
) -> list[Tokens]:
    """Tokenise pairs by the tokenizer's own template for two texts."""
    longs, shorts = (readable(texts, tokenizer.all_special_tokens) for texts in (longs, shorts))
    encodings = _encode(tokenizer, *((longs, shorts) if long_first else (shorts, longs)))
    result = []
    for long, short, encoding in zip(longs, shorts, encodings, strict=True):
        sequences = encoding.sequence_ids
        spans = (
            _span((which == 0 for which in sequences), 0),
            _span((which == 1 for which in sequences), len(sequences)),
        )
        long_span, short_span = spans if long_first else reversed(spans)
        result.append(_tokens(encoding, (long_span, 0, long), (short_span, 0, short)))
    return result


def read_prompts(
    tokenizer: Any, template: str, longs: Sequence[str], shorts: Sequence[str]
) -> list[Tokens]:
    """Tokenise pairs by a template with ``{long}`` before ``{short}``, each once."""
    before, _, rest = template.partition("{long}")
    between, _, after = rest.partition("{short}")
    longs, shorts = (readable(texts, tokenizer.all_special_tokens) for texts in (longs, shorts))
    pairs = list(zip(longs, shorts, strict=True))
    prompts = [before + long + between + short + after for long, short in pairs]
    result = []
    start = len(before)
    for (long, short), encoding in zip(pairs, _encode(tokenizer, prompts), strict=True):
        short_start = start + len(long) + len(between)
        long_span, short_span = (
            # Nowhere, if the text is empty.
            _span(first < b and a < first + len(text) and text != "" for a, b in encoding.offsets)
            for text, first in ((long, start), (short, short_start))
        )
        if short_span[0] < short_span[1]:
            # A token on the border belongs to one of them.
            long_span = (long_span[0], min(long_span[1], short_span[0]))
        result.append(_tokens(encoding, (long_span, start, long), (short_span, short_start, short)))
    return result


def _encode(tokenizer: Any, *texts: Sequence[str]) -> Sequence[Any]:
    if not texts[0]:
        return []
    encoded = tokenizer(
        *map(list, texts),
        padding=False,
        truncation=False,
        return_offsets_mapping=True,
        verbose=False,
    )
    encodings: Sequence[Any] = encoded.encodings
    return encodings


def _span(inside: Iterable[bool], place: int = 0) -> tuple[int, int]:
    """Return from which token to which a text lies; nowhere, at a place, if it is empty."""
    tokens = [index for index, is_inside in enumerate(inside) if is_inside]
    return (tokens[0], tokens[-1] + 1) if tokens else (place, place)


def _tokens(
    encoding: Any, long: tuple[tuple[int, int], int, str], short: tuple[tuple[int, int], int, str]
) -> Tokens:
    """Return the tokens of two texts, each given by its tokens, its first character and itself."""
    offsets, words = encoding.offsets, encoding.word_ids
    sides = [
        Side(
            first,
            stop,
            [(a - start, b - start) for a, b in offsets[first:stop]],
            [i - first for i in range(first + 1, stop) if words[i] != words[i - 1]],
            len(text),
        )
        for (first, stop), start, text in (long, short)
    ]
    return Tokens(encoding.ids, encoding.type_ids, *sides)
