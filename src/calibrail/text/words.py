"""Words, content words, names, numbers, LCS, language."""

import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache, cached_property, lru_cache, partial, wraps
from itertools import compress, groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar, cast

from calibrail.errors import tables_beside, variable_set

P = ParamSpec("P")
R = TypeVar("R")

#: The editions of all rules for texts and for replies. A guardrail keeps that of its file: with the
#: first edition it was frozen before other scripts, German dates and full replies were read; with
#: the second before signs that nobody sees were passed over.
_LATEST: Final = 3
_EDITION: Final[ContextVar[int]] = ContextVar("edition", default=_LATEST)
_VERSION: Final = re.compile(r"calibrail-(?:words|names|numbers|sentences|claims|judge)/(\d+)")


def edition() -> int:
    """Return the edition of the rules that is in force."""
    return _EDITION.get()


def edition_in(fingerprint: str) -> int:
    """Return the edition of the rules that the fingerprint of a detector names."""
    return min(_LATEST, max(map(int, _VERSION.findall(fingerprint)), default=_LATEST))


def rules_of(number: int) -> AbstractContextManager[int]:
    """Let an edition of the rules be in force within the block."""
    return variable_set(_EDITION, number)


def by_edition(first: R, latest: R) -> R:
    """Return what the edition in force has of two things."""
    return first if _EDITION.get() == 1 else latest


def rules_version(name: str) -> str:
    """Return the version of a rule, as it enters the fingerprint of every score that uses it."""
    own = _EDITION.get() if name in ("words", "names", "numbers") else min(_EDITION.get(), 2)
    return f"calibrail-{name}/{own}"


words_version = partial(rules_version, "words")


def remembered(maxsize: int | None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return what remembers the results of a function, those of each edition apart."""

    def remember(function: Callable[P, R]) -> Callable[P, R]:
        caches = [lru_cache(maxsize)(function) for _ in range(_LATEST)]

        @wraps(function)
        def recalled(*args: P.args, **kwargs: P.kwargs) -> R:
            return caches[_EDITION.get() - 1](*args, **kwargs)  # type: ignore[arg-type]

        return recalled

    return remember


_TABLES: Final = tables_beside(__file__, "patterns.toml")

_PART: Final = re.compile(r"\{\{(?:(\w+)\.)?(\w+)\}\}")


@cache
def patterns(section: str) -> dict[str, str]:
    """Return the patterns of a section of ``patterns.toml``, each with its parts in place.

    ``{{name}}`` is an entry above, ``{{section.name}}`` one of another section.
    """
    found: dict[str, str] = {}
    for name, parts in _TABLES[section].items():
        pattern = parts if isinstance(parts, str) else "|".join(parts)
        found[name] = _PART.sub(
            lambda part: (patterns(part[1]) if part[1] else found)[part[2]], pattern
        )
    return found


class _Lazy:
    """A regular expression that its first use compiles."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._how = pattern, flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(*self._how)

    def __getattr__(self, name: str) -> Any:
        # Found at once from then on.
        return self.__dict__.setdefault(name, getattr(self._compiled, name))


def lazily_compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return what does as a compiled pattern does: most processes use few of those that are long.

    >>> lazily_compiled("a+").findall("caat")
    ['aa']
    """
    return cast("re.Pattern[str]", _Lazy(pattern, flags))


_WORDING: Final = patterns("words")
#: Function words of English: they say little about whether an answer is supported.
STOP_WORDS: Final = frozenset(_WORDING["stop"].split())

#: What takes the place of a mark (an accent, a vowel sign) before words are looked for: it belongs
#: to the letter before it, and `re` has no class for marks.
_MARK: Final = "\ue000"
_WORD = lazily_compiled(_WORDING["word"])
_FIRST_WORD = lazily_compiled(_WORDING["first_word"])
#: What both of them find in ASCII, in lower case.
_ASCII_WORD: Final = re.compile("[0-9]+(?:[.,][0-9]+)+|[a-z0-9]+(?:'[a-z0-9]+)*")
# Behind these a word is capitalised whether or not it is a name.
_FIRST_SENTENCE_END = frozenset('.!?:\n"\u201c\u2022')
_SENTENCE_END = _FIRST_SENTENCE_END | frozenset("\u3002\uff01\uff1f\uff1a\u300c\u0964\u061f\u06d4")


class Piece(NamedTuple):
    """A word, a name or a number with its place.

    Attributes
    ----------
    text : str
        Its normal form, by which it is compared.
    start, end : int
        Character offsets into the original string, end exclusive.
    """

    text: str
    start: int
    end: int


#: Signs that nobody sees: soft hyphens, joints and directions.
INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufe0f\ufeff]")


def _over_invisible(pieces: Callable[[str], list[Piece]]) -> Callable[[str], list[Piece]]:
    """Return what finds the same pieces as if no sign stood there that nobody sees."""

    @wraps(pieces)
    def found(text: str) -> list[Piece]:
        if _EDITION.get() < _LATEST or text.isascii() or not INVISIBLE.search(text):
            return pieces(text)
        at = [place for place, letter in enumerate(text) if not INVISIBLE.match(letter)]
        seen = pieces("".join(text[place] for place in at))
        return [Piece(item.text, at[item.start], at[item.end - 1] + 1) for item in seen]

    return found


@_over_invisible
def words(text: str) -> list[Piece]:
    """Return the words of a string in order: casefolded, in composed form, apostrophes straight.

    Where a script is written without spaces, each letter with its marks is a word of its own: an
    approximation that keeps every score defined there, coarser than for other scripts.

    >>> [word.text for word in words("It's 3.5 km\u2014about 1,234 Schritte.")]
    ["it's", '3.5', 'km', 'about', '1,234', 'schritte']
    """
    if text.isascii():
        return [Piece(match[0], *match.span()) for match in _ASCII_WORD.finditer(text.lower())]
    seen = _without_marks(text)
    spans = (match.span() for match in by_edition(_FIRST_WORD, _WORD).finditer(seen))
    return [Piece(_normal(text[start:end]), start, end) for start, end in spans]


def content_words(text: str) -> list[Piece]:
    """Return the words that are not stop words; a possessive ``'s`` is cut off.

    >>> [word.text for word in content_words("The river's source is in the Alps.")]
    ['river', 'source', 'alps']
    """
    told = (word for word in words(text) if word.text not in STOP_WORDS)
    bare = (Piece(word.text.removesuffix("'s"), word.start, word.end) for word in told)
    return [word for word in bare if word.text and word.text not in STOP_WORDS]


@_over_invisible
def names(text: str) -> list[Piece]:
    """Return the capitalised words of a string, casefolded, without ``'s``, in order.

    A capitalised word counts unless it is a function word. At the start of a sentence any word is
    capitalised, so there it counts only if it is followed by another capitalised word ("Marie Curie
    was born ...") or is written with a second capital ("NASA").

    >>> text = "The Rhine flows through Basel. Marie Curie was born there. Rivers move."
    >>> [name.text for name in names(text)]
    ['rhine', 'basel', 'marie', 'curie']
    >>> names("It is Basel's river.")
    [Piece(text='basel', start=6, end=11)]
    """
    all_words = words(text)
    capital = [*(text[word.start].isupper() for word in all_words), False]
    result = []
    for index, word in compress(enumerate(all_words), capital):
        bare = word.text.removesuffix("'s")
        if bare in STOP_WORDS or len(bare) < 2:
            continue
        named = capital[index + 1] or any(map(str.isupper, text[word.start + 1 : word.end]))
        if named or not _starts_sentence(text, word.start):
            # An apostrophe and an s are one character each in any spelling compared as "'s".
            end = word.end if len(bare) == len(word.text) else word.end - 2
            result.append(Piece(bare, word.start, end))
    return result


def _without_marks(text: str) -> str:
    """Return a string of the same length with every mark replaced by the placeholder."""
    marks = {
        ord(letter): _MARK
        for letter in set(text)
        if unicodedata.category(letter).startswith("M") or letter == "\u200d"
    }
    return text.translate(marks) if marks else text


def _normal(word: str) -> str:
    """Return a word as it is compared: casefolded, composed, with straight apostrophes."""
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFC", word.casefold()).replace("\u2019", "'")
    return by_edition(plain, _plain_digits(plain))


def _plain_digits(text: str) -> str:
    """Return a text with the digits of every script, and the points between them, as English has.

    >>> _plain_digits("\u0661\u066c\u0662\u0663\u0664\u066b\u0665")
    '1,234.5'
    """
    if not any(map(str.isdecimal, text)):
        return text
    digits = (str(unicodedata.decimal(c)) if c.isdecimal() else c for c in text)
    return "".join(digits).replace("\u066b", ".").replace("\uff0e", ".").replace("\u066c", ",")


def _starts_sentence(text: str, start: int) -> bool:
    before = text[max(0, start - 200) : start].rstrip(" \t\r(*-")
    return not before or before[-1] in by_edition(_FIRST_SENTENCE_END, _SENTENCE_END)


_FORMS: Final = patterns("numbers")
_NUMBER, _IN_ASCII = (lazily_compiled(_FORMS[name]) for name in ("number", "in_ascii"))
#: What stood alone between spaces, the English way.
_FIRST_NUMBER = lazily_compiled(_FORMS["first"], re.IGNORECASE)
_DIGITS = "zero one two three four five six seven eight nine ten eleven twelve"
_WORDS = {name: str(value) for value, name in enumerate(_DIGITS.split())}
_NAMED = lazily_compiled(rf"\b(?:{'|'.join(list(_WORDS)[2:])})\b", re.IGNORECASE)


@_over_invisible
def numbers(text: str) -> list[Piece]:
    """Return the numbers of a string in a normal form, in order.

    Thousands separators go ("1,234" = "1234"), trailing zeros go ("2.50" = "2.5"), "million" and
    its kin are multiplied out, ordinals become cardinals, a percentage keeps its sign of being one,
    units are cut off ("5km" = "5"), and the words two to twelve count as numbers ("one" is mostly a
    pronoun). Points are read as decimal points and commas as thousands separators, the English way.
    Sign, percent sign, ordinal ending and scale lie inside a number's place, units outside.

    >>> text = "1,234 people, 5km, 2.50 %, 3.2 million, the 21st and seven more"
    >>> [number.text for number in numbers(text)]
    ['1234', '5', '2.5%', '3200000', '21', '7']
    >>> numbers("It has 3.2 million books.")
    [Piece(text='3200000', start=7, end=18)]
    """
    spans, latest = [], _IN_ASCII if text.isascii() else _NUMBER
    for match in by_edition(_FIRST_NUMBER, latest).finditer(text):
        scales = (name for name, text in match.groupdict().items() if text and "_" in name)
        zeros = sum(int(name.split("_")[1]) for name in scales)
        digits = match["digits"] or match["comma"].replace(".", "").replace(",", ".")
        value = _plain(digits, zeros)
        sign = "-" if match["sign"] and value != "0" else ""
        percent = "%" if match["percent"] else ""
        spans.append(Piece(f"{sign}{value}{percent}", match.start(), match.end()))
    named = [Piece(_WORDS[match[0].lower()], *match.span()) for match in _NAMED.finditer(text)]
    return sorted(spans + named, key=itemgetter(1)) if named else spans


def _plain(digits: str, zeros: int) -> str:
    """Return a decimal times 10**zeros, by its digits, so that no number is too long."""
    plain = digits if digits.isascii() else _plain_digits(digits)
    whole, _, fraction = re.sub(r"[,\u00a0\u202f]", "", plain).partition(".")
    fraction = fraction.ljust(zeros, "0")
    whole = (whole + fraction[:zeros]).lstrip("0") or "0"
    fraction = fraction[zeros:].rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


#: Most pairs of words that a score has compared: a fraction of a second. No algorithm is known that
#: is much faster on the worst input (Abboud, Backurs and Vassilevska Williams, 2015).
MOST_PAIRS: Final = 1_000_000_000


def lcs_length(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """Return the length of the longest common subsequence.

    Bit-parallel (Hyyro, 2004): one integer operation a word of the longer sequence on an integer as
    wide as the shorter one, so 200 words against 20,000 take milliseconds.

    >>> lcs_length("the cat sat on the mat".split(), "the dog sat near the mat".split())
    4
    """
    short, long = (left, right) if len(left) <= len(right) else (right, left)
    places: dict[Hashable, int] = {}
    for index, item in enumerate(short):
        places[item] = places.get(item, 0) | (1 << index)
    mask = (1 << len(short)) - 1
    state = mask
    for item in long:
        if item in places:
            common = state & places[item]
            state = ((state + common) | (state - common)) & mask
    return len(short) - state.bit_count()


def joined(text: str) -> tuple[str, str]:
    r"""Return a text with each surrogate pair as one character, and the half pair at its end.

    Programs that count in UTF-16 cut there; the half belongs before the next piece.

    >>> joined("\ud83d\ude00 and \ud83d") == ("\U0001f600 and ", "\ud83d")
    True
    """
    half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
    text = text[: len(text) - len(half)]
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return text, half


#: Characters that are looked at: more change the answer seldom, and cost time.
LOOKED_AT: Final = 400
#: Letters below which no language is named.
FEWEST_LETTERS: Final = 20
#: Below this probability, over all languages, the model has seen no language clearly.
CERTAIN: Final = 0.2
#: What the model calls a text below it, and what is no language at all: numbers, markup, noise.
_NONE: Final = ("und", "zxx")

_log: Final = logging.getLogger("calibrail.text.words")


def language_of(*texts: str) -> str | None:
    """Return the language of the first text that has enough letters to tell, as ISO 639 has it.

    Only the first 400 characters of each are looked at; in code and lists of names the language
    named may be a chance one.

    Parameters
    ----------
    *texts : str
        In order of preference.

    Returns
    -------
    str or None
        None where no text has 20 letters, no language is certain, or py3langid is not installed.
    """
    if (classify := _classifier()) is None:
        return None
    for text in texts:
        beginning = text[:LOOKED_AT]
        if sum(map(str.isalpha, beginning)) >= FEWEST_LETTERS:
            try:
                language, _ = classify(beginning)
            except Exception:
                # Nobody's answer waits for a language.
                return None
            return None if language in _NONE else language
    return None


def measure_texts(question: str, contexts: Sequence[str], response: str) -> dict[str, Any]:
    """Return lengths in characters, the number of chunks and the language of an answer.

    All is None where there is no text, as beside a score in a column.
    """
    if not (question or contexts or response):
        return dict.fromkeys(("question", "response", "chunks", "language"))
    lengths = {"question": len(question), "response": len(response), "chunks": len(contexts)}
    return {**lengths, "language": language_of(response, question)}


def languages_known() -> bool:
    """Return whether languages can be told; loads the model, in half a second and 75 MiB."""
    return _classifier() is not None


@cache
def _classifier() -> Callable[[str], tuple[str, float]] | None:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        model = LanguageIdentifier.from_model_file(
            MODEL_FILE, norm_probs=True, min_confidence=CERTAIN
        )
        classify: Callable[[str], tuple[str, float]] = model.classify
        # Loaded only if it works.
        classify("Is this a text in English, or in another language?")
    except ImportError:
        return None
    except Exception as error:
        _log.warning("languages are not told: py3langid does not load: %r", error)
        return None
    return classify


def named_in(text: str) -> Counter[str]:
    """Return what a text names and counts, which tells it from another one of the same template.

    These are capitalised words that begin no sentence, numbers, and words with a numeral in them.

    >>> sorted(named_in("Order ab-7c of 1,234.50 euros went to Ada."))
    ['1234.5', '7', '7c', 'ada']
    >>> sorted(named_in("\u8ba2\u5355\u4e09\u5341\u4e8c\u5df2\u53d1\u8d27"))
    ['\u4e09\u5341\u4e8c']
    """
    named = Counter(piece.text for piece in (*names(text), *numbers(text)))
    for word in re.findall(r"\w+", text):
        plain = word.isdecimal() or (word.isascii() and word.isalpha())
        if not plain and any(map(str.isnumeric, word)):
            runs = groupby(word, str.isnumeric)
            parts = ["".join(run) for is_numeral, run in runs if is_numeral]
            named.update([word.casefold()] if word.isascii() else parts)
    return named
