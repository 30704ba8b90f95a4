"""Long text beside short text: token windows."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from calibrail.errors import ModelError
from calibrail.text.sentences import sentences

#: A window of whole sentences: how much of them is read together, at most. MiniCheck's code counts
#: words between spaces or the model's tokens, FactCG's words and punctuation marks.
WHOLE_SENTENCES: Final = re.compile(r"([1-9]\d{0,5}) (words and marks|words|tokens)")
_WORD_OR_MARK: Final = re.compile(r"\w+|[^\w\s]")
#: Tokens that the long text gets at least, however long the short one is.
LEAST_LONG: Final = 64

Texts = Sequence[str]


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
class TokenPair:
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


@dataclass(frozen=True, slots=True)
class Window:
    """One pass: a stretch of the long text with the short text.

    Attributes
    ----------
    ids, types : list of int
        What the model reads.
    long, short : (int, int)
        From which of those tokens to which the two texts lie.
    first, first_short : int
        Which token of the long (the short) text comes first.
    start, end : int
        Characters of the long text that the stretch covers.
    """

    ids: list[int]
    types: list[int]
    long: tuple[int, int]
    short: tuple[int, int]
    first: int
    first_short: int
    start: int
    end: int


def whole_characters(text: str) -> str:
    """Replace halves of characters, left over from broken UTF-16: no tokenizer takes them."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def readable(texts: Sequence[str], special: Sequence[str]) -> list[str]:
    """Replace what a tokenizer would fail on or obey, character by character.

    A text that spells out one of the tokenizer's own signs (``[SEP]``, ``</s>``) would otherwise
    end the premise where it likes; its first character becomes a blank. Offsets stay as they are.
    """
    signs = [re.escape(sign) for sign in sorted(special, key=len, reverse=True) if sign]
    # Without any sign, the pattern matches nowhere.
    sign = re.compile("|".join(signs) or "(?!)")
    return [sign.sub(lambda match: " " + match[0][1:], whole_characters(text)) for text in texts]


def read(
    tokenizer: Any, longs: Texts, shorts: Texts, prompt: str = "", *, long_first: bool = True
) -> list[TokenPair]:
    """Tokenise pairs as a model was trained to read them.

    Parameters
    ----------
    tokenizer : transformers tokenizer
        A fast one.
    longs, shorts : sequence of str
        The texts.
    prompt : str
        With ``{long}`` before ``{short}``, each once; empty for the tokenizer's own template for
        two texts.
    long_first : bool
        Whether the long text is the first one of that template.
    """
    if not longs:
        return []
    longs, shorts = (readable(texts, tokenizer.all_special_tokens) for texts in (longs, shorts))
    before, _, rest = prompt.partition("{long}")
    between, _, after = rest.partition("{short}")
    columns = [longs, shorts] if long_first else [shorts, longs]
    if prompt:
        pairs = zip(longs, shorts, strict=True)
        columns = [[before + long + between + short + after for long, short in pairs]]
    options = {"padding": False, "truncation": False, "return_offsets_mapping": True}
    encodings = tokenizer(*columns, **options, verbose=False).encodings
    result = []
    for texts, encoding in zip(zip(longs, shorts, strict=True), encodings, strict=True):
        if prompt:
            starts = [len(before), len(before) + len(texts[0]) + len(between)]
            spans = [
                # Nowhere, if the text is empty.
                _span(text and start < b and a < start + len(text) for a, b in encoding.offsets)
                for text, start in zip(texts, starts, strict=True)
            ]
            if spans[1][0] < spans[1][1]:
                # A token on the border belongs to one of them.
                spans[0] = (spans[0][0], min(spans[0][1], spans[1][0]))
        else:
            starts, parts = [0, 0], encoding.sequence_ids
            spans = [_span(n == 0 for n in parts), _span((n == 1 for n in parts), len(parts))]
            spans = spans if long_first else spans[::-1]
        result.append(_tokens(encoding, *zip(spans, starts, texts, strict=True)))
    return result


def read_framed(
    tokenizer: Any, frames: Sequence[tuple[str, str]], longs: Texts, shorts: Texts
) -> list[TokenPair]:
    """Tokenise pairs whose first text is a long one between texts that are always read with it.

    Parameters
    ----------
    tokenizer : transformers tokenizer
        A fast one; its own template for two texts is used.
    frames : sequence of (str, str)
        What stands before and after each long text.
    longs, shorts : sequence of str
        The texts; the short one is the second text of the template.
    """
    if not longs:
        return []
    befores, afters, longs, shorts = (
        readable(texts, tokenizer.all_special_tokens)
        for texts in (*zip(*frames, strict=True), longs, shorts)
    )
    firsts = list(map("".join, zip(befores, longs, afters, strict=True)))
    options = {"padding": False, "truncation": False, "return_offsets_mapping": True}
    encodings = tokenizer(firsts, list(shorts), **options, verbose=False).encodings
    result = []
    for before, long, short, encoding in zip(befores, longs, shorts, encodings, strict=True):
        start, parts = len(before), encoding.sequence_ids
        places = zip(parts, encoding.offsets, strict=True)
        inside = (n == 0 and start < b and a < start + len(long) for n, (a, b) in places)
        spans = [_span(inside, 1), _span((n == 1 for n in parts), len(parts))]
        result.append(_tokens(encoding, *zip(spans, (start, 0), (long, short), strict=True)))
    return result


def _span(inside: Iterable[object], place: int = 0) -> tuple[int, int]:
    """Return from which token to which a text lies; nowhere, at a place, if it is empty."""
    tokens = [index for index, is_inside in enumerate(inside) if is_inside]
    return (tokens[0], tokens[-1] + 1) if tokens else (place, place)


def _tokens(
    encoding: Any, long: tuple[tuple[int, int], int, str], short: tuple[tuple[int, int], int, str]
) -> TokenPair:
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
    return TokenPair(encoding.ids, encoding.type_ids, *sides)


def packed(text: str, window: str, n_tokens: Callable[[str], int]) -> list[tuple[int, int]]:
    """Return from which character to which the whole sentences go that are read together.

    Parameters
    ----------
    text : str
        The long text.
    window : str
        See ``WHOLE_SENTENCES``. A longer sentence is read by itself.
    n_tokens : callable
        Counts the tokens of a text.
    """
    most, _, unit = window.partition(" ")
    packs, first, last, size = list[tuple[int, int]](), 0, 0, 0
    for sentence in sentences(text):
        words = sentence.text.split() if unit == "words" else _WORD_OR_MARK.findall(sentence.text)
        more = n_tokens(sentence.text) if unit == "tokens" else len(words)
        if size and size + more > int(most):
            packs.append((first, last))
            first, size = last, 0
        last, size = sentence.end, size + more
    bounds = [*packs, (first, len(text))]
    return [(a + len(text[a:b]) - len(text[a:b].lstrip()), b) for a, b in bounds]


def cut(tokens: TokenPair, max_length: int, window: int | None) -> tuple[list[Window], bool]:
    """Return the windows of a pair, and whether the short text had to be cut at its end.

    Parameters
    ----------
    tokens : Tokens
        The pair.
    max_length : int
        Tokens that the model takes at a time.
    window : int or None
        Most tokens of the long text at a time; None for what fits.

    Raises
    ------
    ModelError
        If the model takes fewer tokens than its own template has.
    """
    n_long, n_short = len(tokens.long), len(tokens.short)
    fixed = len(tokens.ids) - n_long - n_short
    least = min(n_long, LEAST_LONG, max_length // 2)
    kept = min(n_short, max_length - fixed - least)
    if kept < min(n_short, 1):
        raise ModelError.on("window_too_small", max_length=max_length, fixed=fixed)
    size = min(max_length - fixed - kept, window or max_length)
    spans = stretches(n_long, size, tokens.long.words)
    return [assemble(tokens, span, (0, kept)) for span in spans], kept < n_short


def passes(tokens: TokenPair, max_length: int, window: int | None) -> list[Window]:
    """Return the passes of a pair of which nothing is cut away: neither text, however long.

    Each window of the long text is read with the whole short one, or, where both do not fit and the
    short one takes more than half of what fits, with each of its consecutive parts.

    Parameters
    ----------
    tokens : Tokens
        The pair.
    max_length : int
        Tokens that the model takes at a time.
    window : int or None
        Most tokens of the long text at a time; None for what fits.
    """
    n_long, n_short = len(tokens.long), len(tokens.short)
    if not n_short:
        return []
    room = max_length - (len(tokens.ids) - n_long - n_short)
    parts = [(0, n_short)]
    if n_long + n_short > room:
        parts = stretches(n_short, max(room // 2, 1), tokens.short.words, overlapping=False)
    result = []
    for part in parts:
        size = max(room - (part[1] - part[0]), 1)
        spans = stretches(n_long, min(size, window or size), tokens.long.words)
        result += [assemble(tokens, span, part) for span in spans]
    return result


def stretches(
    n: int, size: int, words: Sequence[int], *, overlapping: bool = True
) -> list[tuple[int, int]]:
    """Return from which token to which each window of a text of n tokens goes.

    Parameters
    ----------
    n, size : int
        Tokens of the text, and of a window at most (at least 1).
    words : sequence of int
        First tokens of words, increasing. Windows begin and end there where a word is not
        longer than an eighth of a window.
    overlapping : bool
        Whether windows overlap by a quarter and the last one is full. Any stretch of up to a
        quarter of a window is then whole in one of them.
    """
    if n <= size:
        return [(0, n)]
    slack = size // 8
    spans = []
    start = 0
    while start + size < n:
        end = _word_before(words, start + size, slack)
        spans.append((start, end))
        start = _word_before(words, end - size // 4, slack) if overlapping else end
    if overlapping:
        last = bisect_left(words, n - size)
        start = words[last] if last < len(words) and words[last] <= start else n - size
    spans.append((start, n))
    return spans


def assemble(tokens: TokenPair, long: tuple[int, int], short: tuple[int, int]) -> Window:
    """Return the pass that reads these tokens of the two texts and all that stands around them."""
    kept: list[int] = []
    places: dict[str, tuple[int, int]] = {}
    position = 0
    parts = [("long", tokens.long, long), ("short", tokens.short, short)]
    for name, side, (first, last) in sorted(parts, key=lambda part: (part[1].first, part[1].stop)):
        kept += [*range(position, side.first), *range(side.first + first, side.first + last)]
        places[name] = (len(kept) - (last - first), len(kept))
        position = side.stop
    kept += range(position, len(tokens.ids))
    first, last = long
    offsets = tokens.long.offsets
    return Window(
        [tokens.ids[index] for index in kept],
        [tokens.types[index] for index in kept],
        long=places["long"],
        short=places["short"],
        first=first,
        first_short=short[0],
        start=0 if first == 0 else offsets[first][0],
        end=tokens.long.n_characters if last == len(tokens.long) else offsets[last - 1][1],
    )


def _word_before(words: Sequence[int], token: int, slack: int) -> int:
    """Return the last first token of a word at or before a token, if it is near; else the token."""
    index = bisect_right(words, token) - 1
    return words[index] if index >= 0 and words[index] >= token - slack else token
