"""Message catalogue: renders a code and its parameters as a sentence.

What names options or commands may have a text for callers in Python beside that for a command line.

What is computed carries codes and numbers; the sentences that users read stand in
``catalogue/*.toml``, one table a code, as Jinja templates. Nothing is escaped here: whoever shows a
text makes it safe for its medium. Line breaks of a template are spaces.

Examples
--------
>>> say("measure.few_strata", _0=10)
'fewer than two strata hold 10 answers of each class'
>>> title("warning.clustered")
'each group counts once'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from calibrail import formatting, options
from calibrail.errors import tables_beside
from calibrail.options.fields import cli_or_python, offers, spell_option
from calibrail.report import text
from calibrail.report.document import Json

if TYPE_CHECKING:
    from jinja2 import Environment, Template


Result = TypeVar("Result")


def say(code: str, /, *context: Json, **parameters: Any) -> str:
    """Return what a code says.

    Parameters
    ----------
    code : str
        File and table of the catalogue, e.g. ``warning.clustered``.
    *context : mapping
        What is measured, e.g. a report; its keys are parameters.
    **parameters : Any
        Further parameters, which come before the keys of a context.

    Raises
    ------
    KeyError
        If the catalogue lacks the code.
    jinja2.UndefinedError
        If a parameter that the template needs is missing.
    """
    known = {name: value for mapping in (*context, parameters) for name, value in mapping.items()}
    part = cli_or_python("text", "python")
    return _filled(code, part if part in message(code) else "text", known)


def say_each(
    applies: Mapping[str, object], *context: Json, **parameters: Any
) -> list[tuple[str, str]]:
    """Return title and text of each code that applies; the parameters are those of `say`."""
    return [(title(k), say(k, *context, **parameters)) for k, it in applies.items() if it]


def title(code: str) -> str:
    """Return a message in a few words: its title, or the words that its code is made of."""
    parts = message(code) if is_known(code) else {}
    return parts.get("title", code.rpartition(".")[2].replace("_", " "))


def is_known(code: str) -> bool:
    """Return whether the catalogue has a message for a code."""
    topic, _, name = code.partition(".")
    return name in _topic(topic)


def say_first(cases: Mapping[str, object], /, *context: Json, **parameters: Any) -> str:
    """Return what the first code says whose case holds; nothing where none does."""
    code = next((code for code, holds in cases.items() if holds), None)
    return "" if code is None else say(code, *context, **parameters)


def facts(code: str, /, *context: Json, **parameters: Any) -> list[tuple[str, str]]:
    """Return the parts of a message, each with its name; those that say nothing are left out."""
    known = {name: value for mapping in (*context, parameters) for name, value in mapping.items()}
    parts = [(name, _filled(code, name, known)) for name in message(code)]
    return [(name, part) for name, part in parts if part]


def remarks(code: str, /, *context: Json, **parameters: Any) -> list[str]:
    """Return the parts of a message that say something, without their names."""
    return [part for _, part in facts(code, *context, **parameters)]


def word(code: str, name: str, otherwise: str | None = None) -> str:
    """Return a word of a table of the catalogue; what it lacks, as it is or as it is given."""
    return message(code).get(name, text.plain(name) if otherwise is None else otherwise)


def labeller(data: Json, noun: str = "") -> str:
    """Return whose labels data has, or what these are called: a judge's bear its name.

    >>> labeller({"labelled_by": None}), labeller({"labelled_by": "gpt"}, "labels")
    ('people', 'labels of gpt')
    """
    if (judge := data["labelled_by"]) is None:
        return f"human {noun}" if noun else "people"
    return f"{noun} of {text.plain(judge)}" if noun else text.plain(judge)


def called(feature: str) -> str:
    """Return how a feature is called in sentences.

    >>> called("length"), called("domain")
    ('response length', 'the column domain')
    """
    return word("audit.features", feature, f"the column {feature}")


def spell(reason: str, asked: float | None = None, *, reviews: bool = False) -> str:
    """Return the words of the code of a missing measure; what is no code, unchanged.

    A certificate names the confidence that was ``asked`` in place of its own, where that is given,
    and with ``reviews`` what is not passed in place of what is flagged.

    Examples
    --------
    >>> spell("few_strata:10"), spell("the judge failed")
    ('fewer than two strata hold 10 answers of each class', 'the judge failed')
    """
    code, *numbers = reason.split(":")
    if is_known(f"certificate.{code}"):
        given = [number.split(",") for number in numbers]
        return say(f"certificate.{code}", given=given, asked=asked, reviews=reviews)
    if not is_known(f"measure.{code}"):
        return reason
    return say(f"measure.{code}", {f"_{i}": number for i, number in enumerate(numbers)})


def spell_reasons(result: Result) -> Result:
    """Return a result in which every ``reason`` why a measure is missing is in words.

    However deep it stands; what holds none is returned as it is.
    """
    value: Any = result
    if isinstance(value, tuple | list):
        items = [spell_reasons(item) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return result if same else cast("Result", type(value)(items))
    if is_dataclass(value):
        parts = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    elif isinstance(value, Mapping):
        parts = dict(value)
    else:
        return result
    changed: dict[str, Any] = {}
    for name, part in parts.items():
        new = spell(part) if name == "reason" and isinstance(part, str) else spell_reasons(part)
        if new is not part:
            changed[name] = new
    if not changed:
        return result
    if isinstance(value, Mapping):
        return cast("Result", parts | changed)
    return cast("Result", replace(value, **changed))


@cache
def _topic(name: str) -> Mapping[str, Any]:
    """Return the messages of a topic, as they stand in its file; none where there is no file."""
    file = Path(__file__).with_name("catalogue") / f"{name}.toml"
    return tables_beside(str(file), file.name) if file.exists() else {}


@cache
def message(code: str) -> dict[str, str]:
    """Return the parts of a message; nothing else of the catalogue is read."""
    topic, _, name = code.partition(".")
    entry = _topic(topic)[name]
    # A text alone may stand for its table.
    parts = {"text": entry} if isinstance(entry, str) else entry
    return {part: " ".join(said.split()) for part, said in parts.items()}


def _filled(code: str, part: str, known: Mapping[str, Any]) -> str:
    said = message(code)[part]
    return _template(code, part).render(known) if "{" in said else said


@cache
def _template(code: str, part: str) -> Template:
    return environment().from_string(message(code)[part])


#: The functions that are filters by their own names.
_FILTERS: Final = {
    formatting: "count percent lower_percent upper_percent floor_percent ceiling_percent outward "
    "upward number exact duration",
    text: "share interval bounds estimate with_bounds count_of p_value plain last_part capital "
    "conditional",
}


@cache
def environment() -> Environment:
    """Return what templates are compiled in, with filters for counts, shares and names."""
    # Most commands show few messages, and some none.
    from jinja2 import Environment, StrictUndefined

    # Rendered once, most of them: to simplify one takes longer than that.
    made = Environment(undefined=StrictUndefined, autoescape=False, optimized=False)
    filters: dict[str, Callable[..., str]] = {
        name: getattr(room, name) for room, names in _FILTERS.items() for name in names.split()
    }
    filters |= dict(
        n=lambda value: f"{value:,}",
        whole=lambda value: f"{value:,.0f}",
        fixed=lambda value, digits: f"{value:.{digits}f}",
        names=lambda items: formatting.listed([str(item) for item in items]),
        group=text.group_label,
        feature=called,
        quoted=repr,
        labeller=labeller,
    )
    made.filters.update({name: _of_known(function) for name, function in filters.items()})
    # How a command line, or Python, spells an option: `option_name("Promise", "by")`.
    # What one message says in another: `say("measure.no_sample")`.
    made.globals.update(cli_or_python=cli_or_python, offers=offers, say=say)
    made.globals["option_name"] = lambda kind, *about: spell_option(getattr(options, kind), *about)
    return made


def _of_known(function: Callable[..., str]) -> Callable[..., str]:
    """Return a filter that names a missing parameter, as Jinja's own do."""
    from jinja2 import StrictUndefined

    def of(value: Any, *arguments: Any, **named: Any) -> str:
        for item in (value, *arguments):
            if isinstance(item, StrictUndefined):
                str(item)
        return function(value, *arguments, **named)

    return of
