"""How does a tokenizer read a long text beside a short one, and where do the two lie?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Tokens:
    """A long and a short text as their model reads them when everything fits.

    Attributes
    ----------
    ids : list of int
        All tokens, special ones included.
    types : list of int
        Token type of each.
    long, short : (int, int)
        From which token to which the two texts lie.
    offsets : list of (int, int)
        From which character to which each token of the long text lies in it.
    short_offsets : list of (int, int)
        The same for the short text.
    words, short_words : list of int
        Tokens before which the long (the short) text may be cut: the first ones of its words.
    n_characters : int
        Length of the long text.
    """

    ids: list[int]
    types: list[int]
    long: tuple[int, int]
    short: tuple[int, int]
    offsets: list[tuple[int, int]]
    short_offsets: list[tuple[int, int]]
    words: list[int]
    short_words: list[int]
    n_characters: int


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
        result.append(sign.sub(lambda found: " " + found[0][1:], whole) if sign else whole)
    return result


def read_pairs(
    tokenizer: Any, longs: Sequence[str], shorts: Sequence[str], *, long_first: bool
) -> list[Tokens]:
    """Tokenise pairs by the tokenizer's own template for two texts."""
    long_texts = readable(longs, tokenizer.all_special_tokens)
    short_texts = readable(shorts, tokenizer.all_special_tokens)
    first, second = (long_texts, short_texts) if long_first else (short_texts, long_texts)
    result = []
    for long, encoding in zip(long_texts, _encode(tokenizer, first, second), strict=True):
        own = 0 if long_first else 1
        sequences = encoding.sequence_ids
        long_span, short_span = _span(sequences, own), _span(sequences, 1 - own)
        result.append(_tokens(encoding, long_span, short_span, 0, 0, len(long)))
    return result


def read_prompts(
    tokenizer: Any, template: str, longs: Sequence[str], shorts: Sequence[str]
) -> list[Tokens]:
    """Tokenise pairs by a template with ``{long}`` before ``{short}``, each once."""
    before, _, rest = template.partition("{long}")
    between, _, after = rest.partition("{short}")
    long_texts = readable(longs, tokenizer.all_special_tokens)
    short_texts = readable(shorts, tokenizer.all_special_tokens)
    texts = [
        before + long + between + short + after
        for long, short in zip(long_texts, short_texts, strict=True)
    ]
    result = []
    for long, short, encoding in zip(
        long_texts, short_texts, _encode(tokenizer, texts, None), strict=True
    ):
        start = len(before)
        short_start = start + len(long) + len(between)
        offsets = encoding.offsets
        short_span = _inside(offsets, short_start, short_start + len(short))
        long_span = _inside(offsets, start, start + len(long))
        if short_span[0] < short_span[1]:
            # A token on the border belongs to one of them.
            long_span = (long_span[0], min(long_span[1], short_span[0]))
        result.append(_tokens(encoding, long_span, short_span, start, short_start, len(long)))
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
    encoding: Any,
    long: tuple[int, int],
    short: tuple[int, int],
    start: int,
    short_start: int,
    n_characters: int,
) -> Tokens:
    offsets, words = encoding.offsets, encoding.word_ids
    return Tokens(
        ids=encoding.ids,
        types=encoding.type_ids,
        long=long,
        short=short,
        offsets=[(a - start, b - start) for a, b in offsets[slice(*long)]],
        short_offsets=[(a - short_start, b - short_start) for a, b in offsets[slice(*short)]],
        words=_beginnings(words[slice(*long)]),
        short_words=_beginnings(words[slice(*short)]),
        n_characters=n_characters,
    )


def _beginnings(words: Sequence[int | None]) -> list[int]:
    return [index for index in range(1, len(words)) if words[index] != words[index - 1]]
