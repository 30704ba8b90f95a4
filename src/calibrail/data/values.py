"""What a cell holds: JSON text, nested paths, texts, chunks."""

import ast
import html
import json
import math
import re
import struct
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from numbers import Real
from typing import Any, Final, Self
from uuid import UUID

from calibrail.options.fields import doubles, small_float
from calibrail.text.words import INVISIBLE, lazily_compiled, patterns

#: Lists and objects within one another. What walks down a value takes a few frames a level, of
#: which Python has a thousand.
DEPTH: Final = 100


class JsonLimitError(ValueError):
    """A text is nested deeper, or holds a longer number, than is read; says which."""


_SURROGATE: Final = lazily_compiled(r"\\u[dD][89a-fA-F]")


def load_json(text: str) -> object:
    """Return the value that a JSON text spells.

    Lone surrogates in escapes become U+FFFD, since no other program could write them out again.

    Raises
    ------
    ValueError
        It is not JSON.
    JsonLimitError
        It holds a number of more digits than Python will parse, or two values under one name, or is
        nested more than `DEPTH` deep.
    """
    try:
        # An order of bytes before the text is json's to refuse.
        value = json.loads(text) if text.startswith("\ufeff") else _DECODER.decode(text)
    except RecursionError as error:
        raise JsonLimitError(_TOO_DEEP) from error
    except (json.JSONDecodeError, JsonLimitError):
        raise
    except ValueError as error:
        digits = sys.get_int_max_str_digits()
        raise JsonLimitError(f"a number of more than {digits:,} digits") from error
    _require_shallow(text, value)
    if "\\u" in text and _SURROGATE.search(text):
        escaped = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
        return json.loads(escaped.decode("utf-16", "replace"))
    return value


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object; refuse one that says two things under one name."""
    made = dict(pairs)
    if len(made) < len(pairs):
        for name, value in pairs:
            if made[name] != value:
                raise JsonLimitError(f"an object that names {name!r:.60} twice, with two values")
    return made


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object)


def load_literal(text: str) -> object:
    """Return the value that a text spells in Python's own notation; errors as `load_json`."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, TypeError) as error:
        raise ValueError(str(error)) from error
    except (RecursionError, MemoryError) as error:
        raise JsonLimitError(_TOO_DEEP) from error
    _require_shallow(text, value)
    if "\\" in text:
        # Refuses half of a surrogate pair, with a ValueError.
        json.dumps(value, ensure_ascii=False, default=str, skipkeys=True).encode()
    return value


_TOO_DEEP: Final = f"lists or objects nested more than {DEPTH} deep"


def _require_shallow(text: str, value: object) -> None:
    # Counting characters is quick; few rows have as many brackets.
    if text.count("[") + text.count("{") + text.count("(") <= DEPTH:
        return
    level = [value]
    for _ in range(DEPTH + 1):
        nested = [item for item in level if isinstance(item, (list, tuple, dict))]
        held = (item.values() if isinstance(item, dict) else item for item in nested)
        level = [inner for items in held for inner in items]
        if not nested:
            return
    raise JsonLimitError(_TOO_DEEP)


# Names are listed this deep, and this many of one row: tables may be wide.
_DEPTH: Final = 5
_LISTED: Final = 1000

#: Names of who speaks in a message, and of what is said, as OpenAI and ShareGPT have them.
_SPEECH: Final = (("role", "content"), ("from", "value"))


def value_at(values: Mapping[str, object], column: str) -> object:
    """Return what a row holds under a column, which may be a path of names and positions.

    A column of that very name wins. On the way down, a name is looked up in every element of a
    list, a number is a position in it, from its end where it is negative, and a cell of JSON text
    is what it spells. Of messages the name of a speaker is a list of theirs. A name may hold points
    itself. What is not there is None.

    >>> row = {"meta": {"label": 1}, "annotations": [{"label": "good"}, {"label": "bad"}]}
    >>> value_at(row, "meta.label"), value_at(row, "annotations.label"), value_at(row, "a.b")
    (1, ['good', 'bad'], None)
    >>> value_at({"attributes": {"input.value": "q"}}, "attributes.input.value")
    'q'
    >>> chat = [{"role": "user", "content": "q"}, {"role": "tool", "content": "c"}]
    >>> [value_at({"turns": chat}, f"turns.{path}") for path in ("user.-1.content", "-1.role")]
    ['q', 'tool']
    """
    if column in values or "." not in column:
        return values.get(column)
    return _down(values, column.split("."))


def _down(value: object, parts: list[str]) -> object:
    for position, part in enumerate(parts):
        if isinstance(value, str):
            value = _parsed(value)
        if isinstance(value, Mapping):
            if part in value:
                value = value[part]
                continue
            # Names may hold points themselves, as those of a span's attributes do.
            for end in range(position + 2, len(parts) + 1):
                if (name := ".".join(parts[position:end])) in value:
                    return _down(value[name], parts[end:])
            return None
        if isinstance(value, list) and part.removeprefix("-").isdecimal():
            place = int(part)
            value = value[place] if -len(value) <= place < len(value) else None
        elif isinstance(value, list) and (speaker := _speaker_key(value)) and part not in value[0]:
            value = [item for item in value if item.get(speaker) == part] or None
        elif isinstance(value, list):
            return [_down(item, parts[position:]) for item in value]
        else:
            return None
    return value


def _speaker_key(items: list[Any]) -> str | None:
    """Return the name of who speaks in each of some messages; None where they are none."""
    objects = bool(items) and all(isinstance(item, Mapping) for item in items)
    for who, what in _SPEECH if objects else ():
        if all(who in item for item in items) and any(what in item for item in items):
            return who
    return None


def _parsed(cell: str) -> object:
    with suppress(ValueError):
        return load_json(cell) if cell.lstrip()[:1] in ("{", "[") else None
    return None


def nested_names(values: Mapping[str, object]) -> list[str]:
    """Return the columns of a row, with the paths that lead into its objects, spelt as text or not.

    >>> nested_names({"id": 1, "meta": {"label": 1}, "spans": [{"start": 0}]})
    ['id', 'meta.label', 'spans', 'spans.start']
    >>> nested_names({"results": [{"score": 0.5}]})  # what one grader said
    ['results', 'results.0.score', 'results.score']
    """
    return list(islice(_names(values, "", _DEPTH), _LISTED))


def _names(values: Mapping[str, object], prefix: str, depth: int) -> Iterator[str]:
    for name, value in values.items():
        path = f"{prefix}{name}"
        opened = _parsed(value) if isinstance(value, str) and prefix == "" else value
        listed = isinstance(opened, list)
        inner = opened[0] if isinstance(opened, list) and opened else opened
        below = isinstance(inner, Mapping) and bool(inner) and depth > 1
        if not below or listed:
            yield path
        if not below or not isinstance(inner, Mapping):
            continue
        if isinstance(opened, list) and (speaker := _speaker_key(opened)):
            # Of messages each speaker's are together.
            speakers = dict.fromkeys(str(item[speaker]) for item in opened)
            yield from (f"{path}.{who}.{dict(_SPEECH)[speaker]}" for who in speakers)
            continue
        if isinstance(opened, list) and len(opened) == 1:
            said = (key for key in ("score", "result") if isinstance(inner.get(key), int | float))
            yield from (f"{path}.0.{key}" for key in said)
        yield from _names(inner, f"{path}.", depth - 1)


#: Where an object holds its text, the first that it has.
_TEXT_KEYS: Final = (
    *("text", "content", "contents", "page_content", "passage", "passage_text", "chunk", "body"),
    *("snippet", "paragraph", "sentence", "sentences", "document", "context", "claim", "answer"),
)

#: Names of texts that an object numbers, such as ``doc_1``.
_NUMBERED: Final = lazily_compiled(r"\d$")

#: The key of a sentence in a list of pairs, such as 0a or b: a title is longer.
_KEY: Final = lazily_compiled(r"(?=\w*\d)[^\W_]{1,6}|[A-Za-z]|[a-z]{2}")


def text_of(value: object) -> str | None:
    r"""Return the text that a value holds, or None where it holds none.

    A list of sentences is joined; of ``[key, text]`` pairs the keys are left out; an object is its
    text, below its title where it has one.

    >>> text_of(["One.", "Two."]), text_of([["0a", "One."], ["0b", "Two."]])
    ('One. Two.', 'One. Two.')
    >>> text_of({"title": "Rome", "text": "A city."}), text_of(7)
    ('Rome\nA city.', None)
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        found = next((value[key] for key in _TEXT_KEYS if value.get(key) is not None), None)
        return _titled(value.get("title"), text_of(found))
    if isinstance(value, (list, tuple)):
        value = _without_keys(value)
        if len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], (list, tuple)):
            return _titled(value[0], text_of(value[1]))
        parts = [item if isinstance(item, str) else text_of(item) for item in value]
        return None if None in parts else " ".join(part.strip() for part in parts if part)
    return None


def spoken_text(text: str) -> str:
    """Return the text within one that spells a list of texts, or an object, as programs do.

    >>> spoken_text('{"answer": "Rome.", "why": "[1]"}'), spoken_text('{"city": "Rome"}')
    ('Rome.', '{"city": "Rome"}')
    """
    return text_of(parse_cell(text)) or text


def chunks_of(value: object) -> tuple[str, ...] | None:
    r"""Return the texts that a value lists, or None where it holds anything else.

    Parameters
    ----------
    value : object
        A text; a list of texts, of objects with texts, of lists of sentences; or one object, whose
        texts may be listed in it, or numbered; or what spells one, as JSON or as Python prints it.

    Examples
    --------
    >>> chunks_of([{"title": "Rome", "text": "A city."}, ["One.", "Two."]])
    ('Rome\nA city.', 'One. Two.')
    >>> chunks_of({"title": ["Rome"], "sentences": [["One.", "Two."]]})
    ('Rome\nOne. Two.',)
    >>> chunks_of({"doc_1": "One.", "doc_2": "Two."}), chunks_of({"url": "x"})
    (('One.', 'Two.'), None)
    """
    if isinstance(value, str):
        listed = chunks_of(parse_cell(value))
        return (value,) if listed is None else listed
    if isinstance(value, Mapping):
        titles, texts = value.get("title"), next(filter(None, map(value.get, _TEXT_KEYS)), None)
        if not isinstance(titles, list) or not isinstance(texts, list):
            text = text_of(value)
            if text is None and value and all(map(_NUMBERED.search, map(str, value))):
                return chunks_of(list(value.values()))
            return None if text is None else (text,)
        value = [{"title": t, "text": s} for t, s in zip(titles, texts, strict=False)]
    if not isinstance(value, (list, tuple)):
        return None
    if all(isinstance(item, str) for item in value):
        return tuple(value)
    texts = [text_of(item) for item in _without_keys(value)]
    return None if None in texts else tuple(text for text in texts if text is not None)


def spelt_out(value: object) -> object:
    """Return what a text spells, as `parse_cell` does; what is no text stays as it is."""
    return parse_cell(value) if isinstance(value, str) else value


def parse_cell(cell: str) -> object:
    """Return the list or object that a cell spells in JSON or Python, or None.

    >>> parse_cell("['a', 'b']"), parse_cell("[c]"), parse_cell("text")
    (['a', 'b'], None, None)
    """
    text = cell.strip()
    if text[:1] + text[-1:] not in ("[]", "{}", "()"):
        return None
    for parse in (load_json, load_literal):
        try:
            value = parse(text)
        except ValueError:
            continue
        if isinstance(value, tuple):
            return list(value)
        # Python reads texts without a comma between them as one.
        glued = parse is load_literal and printed_list(text)
        return value if isinstance(value, (list, dict)) and not glued else None
    return None


_CELLS: Final = patterns("cells")
_QUOTED: Final = lazily_compiled(_CELLS["quoted"], re.DOTALL)
_BESIDE: Final = lazily_compiled(_CELLS["beside"])
_CUT_OFF: Final = lazily_compiled(_CELLS["cut_off"], re.DOTALL)
#: How lists are printed that cannot be read back, every text in them being ``'``.
_PRINTED: Final = patterns("printed")

#: Who prints words of their own beside the items.
_WORDY: Final = ("pandas", "polars", "pyarrow", "JavaScript")


def printed_list(text: str) -> str | None:
    """Return whose way of printing a list a text shows, where it cannot be read back, or None.

    >>> printed_list("['a.' 'b.']"), printed_list("['a.', 'b.']"), printed_list("['a.', 'b")
    ('as numpy prints it', None, 'that is cut off')
    """
    text = text.strip()
    if _CUT_OFF.fullmatch(text):
        return "that is cut off"
    if text[-1:] not in ("]", "}", ")") and "dtype: " not in text[-80:]:
        return None
    bare = _QUOTED.sub("'", text)
    for speller, pattern in _PRINTED.items():
        if re.fullmatch(pattern, bare, re.DOTALL) and (
            speller in _WORDY or not re.search(r"[^\W\d_]", _BESIDE.sub("", bare))
        ):
            return f"as {speller} prints it"
    return None


def _titled(title: object, text: str | None) -> str | None:
    return f"{title}\n{text}" if text and isinstance(title, str) and title.strip() else text


def _without_keys(items: Sequence[Any]) -> Sequence[Any]:
    """Return the texts of ``[key, text]`` pairs, with a key of its own each; else the items."""
    pairs = (item for item in items if isinstance(item, (list, tuple)) and len(item) == 2)
    keys = {k for k, v in pairs if isinstance(k, str) and isinstance(v, str) and _KEY.fullmatch(k)}
    return [text for _, text in items] if len(keys) == len(items) else items


#: Tables may have thousands of numbers a row: a number's four bytes take a tenth of the time of its
#: shortest digits.
_FLOAT32: Final = struct.Struct(">f")


#: Spaces of other kinds than the plain one, and ends of lines of other systems.
_SPACES: Final = lazily_compiled("\r\n?|[\u00a0\u2007\u202f]")
#: What programs write behind a whole number, and behind a date.
_NEEDLESS: Final = re.compile(r"(-?\d+)(?:\.0+|,0)|(\d{4}-\d\d-\d\d)[ T]00:00(?::00(?:\.0+)?)?")
_MOMENT: Final = lazily_compiled(_CELLS["moment"], re.ASCII)
#: A whole number as R writes it.
_OF_R: Final = lazily_compiled(r"-?[1-9](?:\.\d+)?e\+\d\d", re.ASCII)


def canonical_text(text: str) -> str:
    r"""Return a text as it is compared: composed and visible characters, plain spaces within.

    >>> canonical_text(" caf\u0065\u0301\u00a0noir\r\n") == "caf\u00e9 noir"
    True
    """
    if text.isascii() and "\r" not in text:
        return text.strip()
    if not text.isascii():
        text = unicodedata.normalize("NFC", INVISIBLE.sub("", text))
    return _SPACES.sub(lambda match: "\n" if match[0][0] == "\r" else " ", text).strip()


#: Signs that programs put in place of others.
_SIGNS: Final = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-")
    # Digits and letters as wide as those of Chinese.
    | {chr(code): chr(code - 0xFEE0) for code in range(0xFF10, 0xFF5B) if chr(code).isalnum()}
    | {"\u2026": "..."}
)
#: To look for them takes a tenth of the time of looking up each character.
_SIGN: Final = re.compile(f"[{''.join(map(chr, _SIGNS))}]")
#: A letter that letter case must not make another two of: not all that is *Ma\u00dfe* is *Masse*.
_SHARP_S: Final = lazily_compiled("[\u00df\u1e9e]")
#: Where chunks may have been joined: ends of lines, and of sentences.
_JOINT: Final = lazily_compiled(r"[\r\n\v\f\u2028\u2029]+|(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])")


def same_text(text: str) -> str:
    r"""Return what texts have in common that are spelt differently: for identity, not for reading.

    Forms of characters, entities of HTML, letter case, quotation marks, dashes and white space do
    not count.

    >>> same_text("\u201cCafe\u0301\u201d\u00a0 NOIR\r\n") == same_text('"caf\u00e9" noir')
    True
    """
    text = html.unescape(text) if "&" in text else text
    if text.isascii():
        return " ".join(text.lower().split())
    plain = _SIGN.sub(lambda sign: _SIGNS[ord(sign[0])], unicodedata.normalize("NFC", text))
    text = INVISIBLE.sub("", plain)
    return " ".join("\u00df".join(map(str.casefold, _SHARP_S.split(text))).split())


#: White space that begins a line.
_INDENT: Final = re.compile(r"\n([ \t]+)")


def written_text(text: str) -> str:
    r"""Return a text with its letter case and how its lines are indented, else as `same_text`.

    >>> written_text("Of \u201ctwo\u201d\r\nlines") == written_text('Of "two" lines')
    True
    >>> written_text("if a:\n  b\n  c") == written_text("if a:\n  b\nc")
    False
    """
    if not text.isascii():
        text = _SIGN.sub(lambda sign: _SIGNS[ord(sign[0])], unicodedata.normalize("NFC", text))
        text = INVISIBLE.sub("", text)
    return "\n".join((" ".join(text.split()), *_INDENT.findall(text)))


def same_cell(text: str) -> str:
    """Return the same of a text which may spell a list of texts, or an object, as programs do."""
    return same_text(spoken_text(text))


def same_chunks(chunks: Sequence[str]) -> list[str]:
    r"""Return what lists of chunks have in common that hold the same text, sorted.

    Their order, repetitions, and how they are joined do not count.

    >>> same_chunks(["Rome is old. It is big.", "A"]) == same_chunks(["a\nIt is big. Rome is old"])
    True
    """
    parts = (
        same_text(part).strip(" .")
        for chunk in chunks
        for text in chunks_of(chunk) or (chunk,)
        for part in _joined_parts(text)
    )
    return sorted(set(filter(None, parts)))


def _joined_parts(text: str) -> list[str]:
    """Return the parts between all joints of a text; without odd spaces this takes no pattern."""
    if not (text.isascii() and text.replace("\n", " ").isprintable()):
        return _JOINT.split(text)
    for end in ".!?":
        text = text.replace(f"{end} ", f"{end}\n")
    return text.split("\n")


class Named(float):
    """A number that is also a name, which its digits do not give back: 1.10, 01234, true."""

    __slots__ = ("name",)
    name: str

    def __new__(cls, number: float, name: str) -> Self:
        """Name a number."""
        made = super().__new__(cls, number)
        made.name = name
        return made

    def __getnewargs__(self) -> tuple[float, str]:  # type: ignore[override]
        return float(self), self.name

    def __str__(self) -> str:
        return self.name


def stored(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of an example as JSON holds them, for `restored`."""
    return {
        key: {"number": float(cell), "name": cell.name} if isinstance(cell, Named) else cell
        for key, cell in cells.items()
    }


def restored(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of an example that `stored` was given."""
    return {key: Named(**cell) if isinstance(cell, dict) else cell for key, cell in cells.items()}


def name_of(value: object) -> str | None:
    """Return an id or the name of a group, None where there is none; a number is its digits.

    >>> name_of(7), name_of(7.0), name_of("7.0"), name_of(" a "), name_of(float("nan"))
    ('7', '7', '7', 'a', None)
    >>> name_of("TRUE"), name_of(True), name_of("2024-01-01 00:00:00"), name_of("nan")
    ('True', 'True', '2024-01-01', None)

    Raises
    ------
    ValueError
        It is neither a text, a number, a truth value, a date, a time of day nor a UUID.
    """
    if type(value) is str and _IS_WORD(value):
        return value
    if (value := native(value)) is None:
        return None
    if isinstance(value, (str, bool, date, time, UUID, Named)):
        name = _plainly(str(value))
        return None if name in _NO_NAME else name
    if not isinstance(value, (int, float)):
        raise ValueError("a name must be a text or a number")
    if isinstance(value, float) and abs(value) < _LONG and value.is_integer():
        value = int(value)
    try:
        return str(value)
    except ValueError:  # a whole number of more digits than Python will print
        return hex(int(value))


#: From here on not every whole number is a float.
_LARGE: Final = 2**53
#: From here on the digits of a float say less than its exponent.
_LONG: Final = 1e22
#: What programs write where there is no name; NA may be one.
_NO_NAME: Final = ("", "nan", "NaN", "NaT", "None", "<NA>", "null", "NULL", "N/A", "n/a", "#N/A")


#: Matches a text that is compared as it is spelt.
_IS_WORD: Final = re.compile(_CELLS["word"]).fullmatch


def _plainly(text: str) -> str:
    """Return a text as a name: in canonical form, without needless decimals, flags as in Python."""
    text = canonical_text(text)
    if text.isdecimal() or not (text[:1].isdecimal() or text[:1] == "-"):
        return text.capitalize() if text in _FLAGS else text
    if text[-1] == "0" and (needless := _NEEDLESS.fullmatch(text)):
        return "0" if needless[1] == "-0" else needless[1] or needless[2]
    if ":" in text and (moment := _MOMENT.fullmatch(text)):
        with suppress(ValueError, OverflowError):
            at = datetime.fromisoformat(moment[1].replace(" ", "T") + (moment[2] or ""))
            return str(at.astimezone(UTC) if moment[2] else at)
    if "e+" in text and _OF_R.fullmatch(text) and Decimal(text).as_integer_ratio()[1] == 1:
        return name_of(float(text)) or text
    return text


def group_name(cell: object, *, as_number: bool = False) -> str:
    """Return the name of the group that a cell of any kind names; of none the empty one.

    Parameters
    ----------
    cell : object
        As a file, a frame or a caller gives it.
    as_number : bool
        Whether what spells a number is named as the float that it is, as guardrails of before do.

    Examples
    --------
    >>> group_name("1.10"), group_name(7.0), group_name(None), group_name("1.10", as_number=True)
    ('1.10', '7', '', '1.1')
    """
    value = column_value(cell)
    if not as_number:
        return name_of(value) or ""
    return float.__repr__(value) if isinstance(value, float) else value or ""


def same_group(name: str) -> str:
    r"""Return what names of one group have in common; what groups share, no verdict counts twice.

    Beside what `same_text` leaves out, white space and zeros before a whole number do not count.
    To take two groups for one costs labels; to take one for two makes a verdict too bold.

    >>> {*map(same_group, ("Q1", "q 1", "\uff51\uff11", "q\u200b1"))}, same_group("01")
    ({'q1'}, '1')
    """
    name = "".join(same_text(name).split())
    return name.lstrip("0") or "0" if name.isdecimal() else name


def spelt_alike(names: Iterable[str]) -> list[str]:
    """Return the first names that letter case or spaces alone tell apart; none where no two are.

    >>> spelt_alike(["de", "en", "DE", "d e"]), spelt_alike(["de", "en"])
    (['DE', 'd e', 'de'], [])
    """
    alike: dict[str, list[str]] = {}
    for name in sorted({*names}):
        alike.setdefault("".join(name.casefold().split()), []).append(name)
    return next((same for same in alike.values() if len(same) > 1), [])


#: True and false as programs write them, and as the numbers that they are elsewhere.
_FLAGS: Final = {"True": "1", "true": "1", "TRUE": "1", "False": "0", "false": "0", "FALSE": "0"}


#: Signs of numbers in other scripts, and as wide as those of Chinese.
_IN_NUMBERS: Final = str.maketrans("\u2212\u066b\uff05\uff0c\uff0e\uff0d\uff0b", "-.%,.-+")
#: A longer text spells no number.
_LONGEST: Final = 40


def spelling(value: object) -> str:
    """Return a value as it is compared across files: 0.5, 0.50 and a float32 of it are the same.

    >>> spelling(" 0.50 ") == spelling(0.5), spelling(0.10000000149011612) == spelling(0.1)
    (True, True)
    >>> spelling(7.0), spelling(" a "), spelling(None), spelling("True")
    ('7', 'a', '', '1')
    """
    if type(value) is not str or len(value) >= _LONGEST:
        return _spelling(value)
    return value if _IS_WORD(value) else _short_spelling(value)


def _spelling(value: object) -> str:
    known = column_value(value)
    if known is None or (isinstance(known, str) and known.strip().lower() in ABSENT):
        return ""
    if isinstance(known, str):
        if isinstance(value, str) and (listed := parse_cell(known)) is not None:
            return spelling(listed)
        number = number_in(known) if len(known) < _LONGEST else None
        return _plainly(known) if number is None else spelling(number)
    if known.is_integer():
        exact = str(known) if abs(known) >= _LARGE else ""
        return exact if exact.removeprefix("-").isdecimal() else str(int(known))
    # What a float32 is too small for is a whole number.
    return _FLOAT32.pack(known).hex()


#: Groups, topics and labels come again and again.
_short_spelling: Final = lru_cache(maxsize=4096)(_spelling)


#: What stands in no number as Python reads them or people write them, nor in true or false; and _.
_IN_NONE: Final = re.compile(r"""[!"#$&()*/:-@B-DGHJKMO-QV-XZ\[-`b-dghjkmo-qv-xz{-~]""")


def column_value(value: object) -> float | str | None:
    """Return a further column's value: a number where it is or spells one, else a text, or None.

    Empty cells, null and NaN are None; true and false are 1.0 and 0.0; lists and objects become
    JSON text.

    >>> column_value("0.5"), column_value("1_0"), column_value(""), column_value("fit")
    (0.5, '1_0', None, 'fit')
    """
    if type(value) is float or isinstance(value, Named):
        return None if math.isnan(value) else value
    if type(value) is not str and (value := native(value)) is None:
        return None
    if isinstance(value, str):
        if not value.strip():
            return None
        if _IN_NONE.search(value):
            return value
    elif isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    elif not isinstance(value, (int, float)):
        return str(value)
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return str(value)
    if math.isnan(number):
        return None
    if repr(number).removesuffix(".0") == str(value) or name_of(value) == name_of(number):
        return number
    return Named(number, name_of(value) or "")


#: How programs and people write, in lower case, that there is no number.
ABSENT: Final = frozenset(
    ["na", "n/a", "nan", "null", "none", "nil", "nat", "<na>", "#n/a", "#na", "-", "--"]
)
#: What pandas writes where nothing is, besides NaN; and what it writes into files as a text.
_ABSENT, _SPELT = ("NAType", "NaTType"), ("Period", "Interval")
#: From 10 to this on a `Decimal` is no whole number that anybody counted.
_DIGITS: Final = 100


def native(value: Any) -> Any:
    """Return a value as a file would give it: Python's own types, None where nothing is.

    >>> native(float("nan")), native({"scores": (1, Decimal("0.5"))}), native(Decimal("Infinity"))
    (None, {'scores': [1, 0.5]}, inf)
    """
    if value is None or type(value) in (str, int, bool, Named):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): native(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [native(item) for item in value]
    if isinstance(value, Decimal):
        if not value.is_finite() or value.adjusted() >= _DIGITS:
            return None if value.is_nan() else float(value)
        return int(value) if value == value.to_integral_value() else float(value)
    if type(value).__name__ in _ABSENT:
        return None
    if isinstance(value, timedelta):
        sign, rest = "+" * (value.days < 0), value - timedelta(value.days)
        return f"{value.days} days {sign}{(datetime.min + rest).time()}"
    if type(value).__name__ in _SPELT:
        return str(value)
    if small_float(value):
        return native(doubles(value).tolist())
    value = in_microseconds(value)
    for convert in ("tolist", "to_pylist", "to_list"):
        if callable(method := getattr(value, convert, None)):
            converted = method()
            if type(converted) is not type(value):
                return native(converted)
    return float(value) if isinstance(value, Real) else value


def in_microseconds(values: Any) -> Any:
    """Return times in units for which Python has a type; anything else as it is."""
    nano = str(getattr(values, "dtype", "")) == "datetime64[ns]"
    return values.astype("datetime64[us]") if nano else values


def likely_number(cell: object) -> float | None:
    """Return the number that a cell spells; of one that may be two the one with decimals."""
    number = number_in(cell)
    return number_in(cell, ",") if number is None else number


def number_in(cell: object, mark: str = "") -> float | None:
    """Return the number that a cell is or spells; None where it is none, or may be two.

    True and false are 1 and 0 in every format. A text may have a comma for its decimals, groups of
    three digits, and a per cent sign.

    Parameters
    ----------
    cell : object
        As a file, a frame or a caller gives it.
    mark : {"", ".", ","}
        What parts decimals; without, a point, or a comma that can be nothing else.

    Examples
    --------
    >>> number_in("0,87"), number_in("1.234,5"), number_in("87 %"), number_in("1,234")
    (0.87, 1234.5, 0.87, None)
    >>> number_in("1,234", ","), number_in("1,234", "."), number_in("True"), number_in("high")
    (1.234, 1234.0, 1.0, None)
    """
    if (value := column_value(cell)) is None:
        return None
    if not isinstance(value, str):
        spelt = cell if mark == "," and math.isfinite(value) else None
        return _spelt(spelt, mark) if isinstance(spelt, str) else float(value)
    return _spelt(value, mark)


def decimal_mark_in(values: Iterable[object], *, partly: bool) -> str:
    """Return what parts decimals in all texts of a column; ? where both may, "" where none does.

    With ``partly``, in all that spell numbers.
    """
    texts = {v.strip() for v in values if isinstance(v, str) and len(v) < 40}
    texts = {text for text in texts if text and text.lower() not in ABSENT}
    read = [(number_in(text, "."), number_in(text, ",")) for text in texts]
    read = [pair for pair in read if not partly or pair != (None, None)]
    points, commas = (any(pair[side] is None for pair in read) for side in (1, 0))
    if points or commas:
        return "" if points and commas else "." if points else ","
    return "?" if any(point != comma for point, comma in read) else ""


def with_decimals(cells: Mapping[str, Any], marks: Mapping[str, str]) -> Mapping[str, Any]:
    """Return a row with the numbers of the columns in which a mark parts decimals.

    >>> with_decimals({"score": "1.734", "id": "1.734"}, {"score": ","})
    {'score': 1734.0, 'id': '1.734'}
    """
    read: Mapping[str, Any] = marks and {
        name: number
        for name, mark in marks.items()
        if isinstance(cell := cells.get(name), str)
        and (number := number_in(cell, mark)) is not None
    }
    return {**cells, **read} if read else cells


def _spelt(text: str, mark: str) -> float | None:
    if _IN_NONE.search(text):
        return None
    text = INVISIBLE.sub("", text).strip().translate(_IN_NUMBERS)
    if text in _FLAGS:
        return float(_FLAGS[text])
    number = text.removesuffix("%").strip()
    if number[:1] not in "+-.," and not number[0].isdecimal():
        return None
    number = re.sub(r"(?<=\d)[ '\u00a0\u2009\u2019\u202f](?=\d{3}(?!\d))", "", number)
    readings = set()
    for decimals, group in ((".", ","), (",", ".")):
        pattern = rf"[+-]?(?:\d*|[1-9]\d{{0,2}}(?:\{group}\d{{3}})+)(?:\{decimals}\d+)?(e[+-]?\d+)?"
        if decimals != (mark or decimals) or not re.fullmatch(pattern, number, re.IGNORECASE):
            continue
        plain = number.replace(group, "").replace(decimals, ".")
        with suppress(ArithmeticError):
            readings.add(float(Decimal(plain).scaleb(-2 if text.endswith("%") else 0)))
    return readings.pop() if len(readings) == 1 else None
