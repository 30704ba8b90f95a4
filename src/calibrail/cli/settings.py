"""How do the fields of settings objects become the options of a command?"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from functools import wraps
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from calibrail.errors import InputError
from calibrail.settings.checks import one_of
from calibrail.settings.option import OPTION, Option, pairs


@dataclass(frozen=True, slots=True)
class Pick:
    """Which fields of a settings object a command offers, and what is different there.

    Attributes
    ----------
    only, without : tuple of str
        The fields offered (all when empty), and those that are not.
    help : mapping of str to str
        What a field means in this command, where that is more than it says itself.
    default : mapping of str to object
        Defaults of this command.
    """

    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    help: Mapping[str, str] = field(default_factory=dict)
    default: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Offered:
    """One option: the field behind it, and how the command line sees it."""

    item: Field[Any]
    hint: Any
    option: Option
    default: Any

    @property
    def flag(self) -> str:
        return (self.option.flag or self.item.name).replace("_", "-")

    @property
    def name(self) -> str:
        return self.flag.replace("-", "_")

    def parameter(self) -> inspect.Parameter:
        """Return the parameter that typer reads."""
        hint, default, metavar = self.hint, self.default, self.option.metavar
        if get_origin(hint) is Literal:
            hint, metavar = str, metavar or "|".join(get_args(hint))
        elif _is_list(hint):
            kind = get_args(hint)[0] if _is_tuple(hint) else str
            hint, default = list[kind] | None, None  # type: ignore[valid-type]
        elif self.option.parse is not None or hint is Any:
            hint = str | None
        # What is done unless it is refused can be refused.
        spelling = f"--{self.flag}/--no-{self.flag}" if default is True else f"--{self.flag}"
        declared = typer.Option(spelling, help=self.option.help, metavar=metavar)
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[hint, declared],
        )

    def value(self, given: Any) -> Any:
        """Return the field's value from what stands on the command line."""
        flag = f"--{self.flag}"
        if get_origin(self.hint) is Literal:
            return one_of(given, self.hint, flag)
        if _is_list(self.hint):
            return tuple(given or ()) if _is_tuple(self.hint) else pairs(given, flag) or None
        if self.option.parse is not None:
            return None if given is None else self.option.parse(given)
        return given


def takes_settings(run: Callable[..., None]) -> Callable[..., None]:
    """Return the command with every settings object among its parameters spread into options.

    A parameter whose type is a dataclass becomes one option a field that has an ``Option``; what
    is given there makes the object that the command is called with. One that may be None is None
    where none of its options is given.
    """
    hints = get_type_hints(run, include_extras=True)
    parameters: list[inspect.Parameter] = []
    objects: dict[str, tuple[type, bool, list[_Offered]]] = {}
    for name, parameter in inspect.signature(run).parameters.items():
        kind, optional, pick = _kind(hints[name])
        if kind is None:
            parameters.append(
                parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
            )
            continue
        offered = _offered(kind, pick)
        objects[name] = kind, optional, offered
        parameters += [item.parameter() for item in offered]

    @wraps(run)
    def command(**given: Any) -> None:
        for name, (kind, optional, offered) in objects.items():
            values = {item.item.name: item.value(given.pop(item.name)) for item in offered}
            absent = optional and all(values[item.item.name] == item.default for item in offered)
            given[name] = None if absent else kind(**values)
        run(**given)

    del command.__wrapped__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {item.name: item.annotation for item in parameters}
    return command


def _kind(hint: Any) -> tuple[type | None, bool, Pick]:
    """Return a parameter's settings class (None for a plain one), if it may be None, its pick."""
    pick = Pick()
    if get_origin(hint) is Annotated:
        hint, *extra = get_args(hint)
        # The outermost says what this command offers.
        pick = next((item for item in reversed(extra) if isinstance(item, Pick)), pick)
    inner = [item for item in get_args(hint) if item is not type(None)]
    optional = len(inner) == 1 and is_dataclass(inner[0])
    kind = inner[0] if optional else hint
    return (kind if isinstance(kind, type) and is_dataclass(kind) else None), optional, pick


def _offered(kind: type, pick: Pick) -> list[_Offered]:
    hints = get_type_hints(kind)
    offered = []
    for item in fields(kind):
        option = item.metadata.get(OPTION)
        if option is None or item.name in pick.without:
            continue
        if pick.only and item.name not in pick.only:
            continue
        option = replace(option, help=pick.help.get(item.name, option.help))
        default = pick.default.get(item.name, item.default)
        if default is MISSING:
            raise InputError(f"{kind.__name__}.{item.name} needs a default to be an option")
        offered.append(_Offered(item, hints[item.name], option, default))
    return offered


def _is_tuple(hint: Any) -> bool:
    return get_origin(hint) is tuple


def _is_list(hint: Any) -> bool:
    """Return whether an option is repeatable: a tuple of words, or ``KEY=VALUE`` pairs."""
    inner = [item for item in get_args(hint) if item is not type(None)]
    pairs_of = any(get_origin(item) is not None for item in inner)
    return _is_tuple(hint) or (not _is_tuple(hint) and get_origin(hint) is not Literal and pairs_of)
