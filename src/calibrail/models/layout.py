"""How does a tokenizer read a long text beside a short one, and where do the two lie?"""

import re
from collections.abc import Sequence
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
        long_span, short_span = (_span(encoding.sequence_ids, which) for which in (0, 1))
        if not long_first:
            long_span, short_span = short_span, long_span
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
    for (long, short), encoding in zip(pairs, _encode(tokenizer, prompts, None), strict=True):
        start = len(before)
        short_start = start + len(long) + len(between)
        short_span = _inside(encoding.offsets, short_start, short_start + len(short))
        long_span = _inside(encoding.offsets, start, start + len(long))
        if short_span[0] < short_span[1]:
            # A token on the border belongs to one of them.
            long_span = (long_span[0], min(long_span[1], short_span[0]))
        result.append(_tokens(encoding, (long_span, start, long), (short_span, short_start, short)))
    return result


def _encode(tokenizer: Any, first: Sequence[str], second: Sequence[str] | None) -> Sequence[Any]:
    if not first:
        return []
    encoded = tokenizer(
        list(first),
        list(second) if second is not None else None,
        padding=False,
        truncation=False,
        return_offsets_mapping=True,
        verbose=False,
    )
    encodings: Sequence[Any] = encoded.encodings
    return encodings


def _span(sequences: Sequence[int | None], which: int) -> tuple[int, int]:
    """Return from which token to which a sequence lies; nowhere, at its place, if it is empty."""
    inside = [index for index, sequence in enumerate(sequences) if sequence == which]
    if inside:
        return inside[0], inside[-1] + 1
    place = 0 if which == 0 else len(sequences)
    return place, place


def _inside(offsets: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int]:
    """Return from which token to which the characters from start to end lie."""
    if start == end:
        return (0, 0)
    inside = [index for index, (a, b) in enumerate(offsets) if b > start and a < end]
    return (inside[0], inside[-1] + 1) if inside else (0, 0)


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
