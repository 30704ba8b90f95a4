"""Which guardrails decide, and when does another file take over?"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.guardrail.runtime import Guardrail
from calibrail.models.remote import RemoteModel
from calibrail.serve.problems import Problem

#: What a guardrail may be called in an address.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: Made up to open a model before the first request.
_WARMING: Final = Example("What is this?", ("This is a test.",), "This is a test.", id="warming")


@dataclass(frozen=True, eq=False)
class Loaded:
    """A guardrail that decides.

    Attributes
    ----------
    name : str
        What requests call it.
    path : Path
        Its file.
    guardrail : Guardrail
        The guardrail.
    since : datetime
        When it was loaded.
    """

    name: str
    path: Path
    guardrail: Guardrail
    since: datetime

    @property
    def digest(self) -> str:
        """The digest of its content."""
        return self.guardrail.config.digest

    @property
    def asks(self) -> bool:
        """Whether its detector asks an endpoint."""
        return asks(self.guardrail)


def asks(guardrail: Guardrail) -> bool:
    """Return whether a guardrail's detector asks an endpoint."""
    return any(isinstance(model, RemoteModel) for model in getattr(guardrail.score, "models", ()))


def named(sources: Sequence[str] | str) -> dict[str, Path]:
    """Return the file of each ``[NAME=]FILE``; a file without a name is called as it is.

    Raises
    ------
    InputError
        If a name is none, or stands for two files.

    >>> named(["faq=g.json", "legal.json"])
    {'faq': PosixPath('g.json'), 'legal': PosixPath('legal.json')}
    """
    files: dict[str, Path] = {}
    for source in [sources] if isinstance(sources, str) else sources:
        name, separator, file = source.partition("=")
        if not separator or not _NAME.fullmatch(name):
            name, file = Path(source).stem, source
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{source}: {name!r} cannot stand in an address; name it, e.g. faq={source}"
            )
        if name in files:
            raise InputError(
                f"{name} stands for {files[name]} and for {file}; name one of them otherwise, "
                f"e.g. other={file}"
            )
        files[name] = Path(file)
    return files


def warm(guardrail: Guardrail) -> None:
    """Open the models of a guardrail, so that the first request does not wait for them."""
    if getattr(guardrail.score, "models", ()) and not asks(guardrail):
        guardrail.decide([_WARMING])


class Guardrails:
    """The guardrails of a service by name.

    Parameters
    ----------
    files : mapping of str to Path
        Their files.
    load : callable
        Loads, verifies and probes one; raises `CalibrailError` where it must not decide.
    """

    def __init__(self, files: Mapping[str, Path], load: Callable[[Path], Guardrail]) -> None:
        self._load = load
        self._loaded = {name: self._opened(name, path) for name, path in files.items()}

    def __iter__(self) -> Iterator[Loaded]:
        return iter(tuple(self._loaded.values()))

    def get(self, name: str | None) -> Loaded:
        """Return a guardrail by its name; the only one needs none.

        Raises
        ------
        Problem
            If there is none of that name, or several and none is named.
        """
        names = ", ".join(self._loaded)
        if name is None:
            if len(self._loaded) == 1:
                return next(iter(self._loaded.values()))
            detail = f"several guardrails decide here; add ?guardrail= and one of {names}"
            raise Problem(422, "guardrail-not-named", detail, errors=[("", detail)])
        if name not in self._loaded:
            raise Problem(
                404, "no-such-guardrail", f"no guardrail is called {name!r}; there is {names}"
            )
        return self._loaded[name]

    def _opened(self, name: str, path: Path) -> Loaded:
        guardrail = self._load(path)
        warm(guardrail)
        return Loaded(name, path, guardrail, datetime.now(UTC))
