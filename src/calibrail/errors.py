"""Exceptions of the package, and errors of files in plain words."""

import os
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar

Value = TypeVar("Value")


class CalibrailError(Exception):
    """Base of every error that calibrail raises on purpose.

    The message names what was wrong, the value that was seen and the remedy. The command line
    prints it without a traceback and exits with 1.
    """

    @classmethod
    def on(cls, code: str, /, **given: Any) -> Self:
        """Return the error in the words of a code, as `error_text` makes them."""
        return cls(error_text(code, **given))


class InputError(CalibrailError, ValueError):
    """An argument or option is outside its domain, e.g. ``alpha must lie in (0, 1); got 1.3``."""


class DataError(CalibrailError):
    """A file or a row cannot be used: unreadable, a field is missing, no usable row is left."""


class TooFewExamplesError(InputError):
    """No threshold short of flagging everything keeps the promise at this sample size.

    Parameters
    ----------
    message : str
        What was asked, how many examples there were and how many are needed; ``{labels}`` in it is
        where it says how many more to label.
    minimum_n : int
        The smallest number of calibration examples, or of their groups, that would do.
    n : int
        How many there are.
    of : {"hallucinated", "faithful", "groups"}
        What these are.
    to_label : int, optional
        How many more to label, of which a share calibrates; all of them, if not given.
    """

    def __init__(
        self,
        message: str,
        minimum_n: int,
        n: int = 0,
        of: Literal["hallucinated", "faithful", "groups"] = "hallucinated",
        to_label: int | None = None,
    ) -> None:
        super().__init__(message.replace("{labels}", self.more(minimum_n - n, of)))
        self.message, self.minimum_n, self.n, self.of = message, minimum_n, n, of
        to_label = minimum_n - n if to_label is None else to_label
        self.counts = {"n": n, "minimum_n": minimum_n, "to_label": to_label, "of": of}

    @staticmethod
    def more(n: int, of: str) -> str:
        """Return how many further examples, in words."""
        return f"answers of {n:,} more groups" if of == "groups" else f"{n:,} more"


class MissingExtraError(CalibrailError):
    """A library is not installed that an extra of calibrail brings."""


class ModelError(CalibrailError):
    """A model cannot be found, loaded or trusted: not installed, offline, wrong weights."""


class GuardrailError(CalibrailError):
    """A frozen guardrail cannot be used: a changed byte, an unknown field, other weights."""


class LogError(CalibrailError):
    """A decision could not be logged: a full disk, a read-only folder. It must not be given."""


class ServiceError(CalibrailError):
    """A service did not decide: it refused, failed, could not be reached, or said nonsense.

    The answer was not judged, and so has not passed.

    Parameters
    ----------
    message : str
        What was asked, and what came back.
    status : int or None
        HTTP's status, where there was an answer.
    problem : str
        The name of the problem that the service gave, e.g. ``queue-full``.
    """

    def __init__(self, message: str, *, status: int | None = None, problem: str = "") -> None:
        super().__init__(message)
        self.status, self.problem = status, problem


def error_text(code: str, /, **given: Any) -> str:
    """Return what ``errors.toml`` says of a code; what was given stands in its words."""
    return " ".join(_texts()[code].split()).format(**given)


@cache
def _texts() -> dict[str, str]:
    return tables_beside(__file__, "errors.toml")


def tables_beside(module: str, name: str) -> dict[str, Any]:
    """Return what a file of TOML holds that stands beside the file of a module."""
    return tomllib.loads(Path(module).with_name(name).read_text("utf-8"))


@contextmanager
def errors_as(
    kind: Callable[[str], Exception],
    causes: type[Exception] | tuple[type[Exception], ...],
    code: str,
    /,
    **given: Any,
) -> Iterator[None]:
    """Raise errors of some classes as another one, in the words of a code.

    Beside what was given, ``error`` stands in them for the error, ``reason`` for what an operating
    system says of it.
    """
    try:
        yield
    except causes as error:
        reason = getattr(error, "strerror", None) or error
        raise kind(error_text(code, **{"error": error, "reason": reason, **given})) from error


#: What keeps libraries from reporting their use to their makers, or from fetching on import.
_QUIET: Final = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "DO_NOT_TRACK": "1",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "ORT_DISABLE_TELEMETRY": "1",
    "RAGAS_DO_NOT_TRACK": "true",
}


def keep_libraries_quiet() -> None:
    """Let libraries that are imported after this report to nobody, unless the environment says so.

    OpenVINO asks no variable; without the package that sends for it, it sends nothing.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    modules: dict[str, Any] = sys.modules
    modules.setdefault("openvino_telemetry", None)


@contextmanager
def variable_set(variable: ContextVar[Any], value: Value) -> Iterator[Value]:
    """Let a context variable have a value within the block; yield the value."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


class Library:
    """A library that is imported where something of it is first used, by those who use it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            # Who copies or inspects it asks for what every object may have.
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


def extra(name: str, what: str) -> AbstractContextManager[None]:
    """Name the extra of calibrail that a library comes with, where it cannot be imported.

    Parameters
    ----------
    name : str
        The extra.
    what : str
        What needs the library, at the beginning of a sentence.

    Raises
    ------
    MissingExtraError
        In place of an `ImportError`.
    """
    return errors_as(MissingExtraError, ImportError, "extra_missing", what=what, name=name)


@contextmanager
def file_errors(action: str, remedy: str = "") -> Iterator[None]:
    """Raise what the file system refuses as a `DataError`: action, reason, remedy."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{action}: {error.strerror or error}{remedy}") from error
