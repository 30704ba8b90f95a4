"""Which guardrails decide."""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Final

from calibrail import errors
from calibrail.atomic_files import folder_lock, read_regular, write_atomically
from calibrail.data.example import Example
from calibrail.guardrail.runtime import Guardrail
from calibrail.guardrail.signing import signature_path
from calibrail.pipelines.card import card
from calibrail.serve.schemas import ServiceProblem
from calibrail.text.sentences import answer_sentences

#: What a guardrail, or a client, may be called.
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
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

    @cached_property
    def asks(self) -> bool:
        """Whether its detector asks an endpoint."""
        return bool(self.guardrail.endpoints)

    @cached_property
    def cards(self) -> asyncio.Task[Mapping[str, bytes]]:
        """Its card as ``json``, ``html`` and ``md``, made once, beside the event loop."""
        return asyncio.ensure_future(asyncio.to_thread(_cards, self.guardrail))


def _cards(guardrail: Guardrail) -> Mapping[str, bytes]:
    made = card(guardrail)
    content = json.dumps(made.to_dict(), ensure_ascii=False)
    texts = {"json": content, "html": made.html(), "md": made.markdown()}
    return {kind: text.encode("utf-8", "replace") for kind, text in texts.items()}


def guardrail_files(sources: Sequence[str] | str) -> dict[str, Path]:
    """Return the file of each ``[NAME=]FILE``; a file without a name is called as it is.

    Raises
    ------
    InputError
        If a name is none, or stands for two files.

    >>> guardrail_files(["faq=g.json", "legal.json"])
    {'faq': PosixPath('g.json'), 'legal': PosixPath('legal.json')}
    """
    files: dict[str, Path] = {}
    for source in [sources] if isinstance(sources, str) else sources:
        name, separator, file = source.partition("=")
        if not separator or not NAME.fullmatch(name):
            name, file = Path(source).stem, source
        if not NAME.fullmatch(name):
            raise errors.InputError.on("guardrail_name_in_address", source=source, name=name)
        if name in files:
            raise errors.InputError.on("name_of_two", name=name, held=files[name], file=file)
        files[name] = Path(file)
    return files


def warm(guardrail: Guardrail) -> None:
    """Open what a guardrail needs, so that the first request does not wait for it."""
    # What splits an answer that comes in pieces would hold up all requests.
    answer_sentences("This is a test. So is this.")
    if getattr(guardrail.score, "models", ()) and not guardrail.endpoints:
        guardrail.decide([_WARMING])


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a file that changed does not decide.

    Attributes
    ----------
    time : datetime
        When it was refused.
    reason : str
        Why.
    """

    time: datetime
    reason: str


class Serials:
    """When each guardrail that was served last was signed: an older one does not take over.

    Parameters
    ----------
    folder : Path or None
        Where it is kept beyond the end of the process (``serials.json``), for other processes, too.
    allow_rollback : bool
        Whether what stands there first may be older.
    """

    def __init__(self, folder: Path | None, *, allow_rollback: bool) -> None:
        self._path = None if folder is None else folder / "serials.json"
        self._allow, self._known, self._lock = allow_rollback, dict[str, int](), threading.Lock()

    def take(self, name: str, guardrail: Guardrail) -> None:
        """Note a guardrail that takes over.

        Raises
        ------
        GuardrailError
            If it was signed before the one that this name had last.
        """
        if guardrail.signature is None:
            return
        serial = guardrail.signature.serial
        # Threads of several processes read and write it, one at a time.
        with self._lock, errors.file_errors(f"cannot write {self._path}"), ExitStack() as stack:
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(folder_lock(self._path.parent))
            stored = self._read()
            # Whoever takes the file away does not make this process forget.
            known = stored | {at: max(n, stored.get(at, 0)) for at, n in self._known.items()}
            if not self._allow and serial < known.get(name, 0):
                new, old = (datetime.fromtimestamp(at, UTC) for at in (known[name], serial))
                raise errors.GuardrailError.on(
                    "guardrail_rolled_back", of=guardrail, name=name, signed=old, served=new
                )
            known[name] = serial
            if self._path is not None and known != stored:
                write_atomically(self._path, json.dumps(known).encode(), durable=True)
            self._known = known

    def begun(self) -> None:
        """Refuse older ones from now on: all that stood there first has taken over."""
        self._allow = False

    def _read(self) -> dict[str, int]:
        if self._path is None:
            return {}
        wrong = (OSError, ValueError, AttributeError, TypeError, OverflowError)
        with errors.errors_as(errors.GuardrailError, wrong, "serials_unreadable", path=self._path):
            known = json.loads(read_regular(self._path)) if self._path.exists() else {}
            # What is no time is refused, too.
            times = {name: datetime.fromtimestamp(int(at), UTC) for name, at in known.items()}
            return {name: int(time.timestamp()) for name, time in times.items()}


class WatchedFiles:
    """Files that are read again when they are others."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self.take()

    def take(self) -> None:
        """Note what is there, before it is read."""
        self._read = self._seen = [*map(_stamp, self._paths)]

    def changed(self) -> bool:
        """Return whether they are others since they were read.

        What still grows is left until it has been the same twice.
        """
        before, self._seen = self._seen, [*map(_stamp, self._paths)]
        return self._seen == before != self._read


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return what tells a file from what stood there before."""
    with suppress(OSError):
        state = path.stat()
        return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino
    return None


class Guardrails:
    """The guardrails of a service by name.

    Parameters
    ----------
    files : mapping of str to Path
        Their files.
    load : callable
        Loads, verifies and probes one; raises `CalibrailError` where it must not decide.
    serials : Serials, optional
        Refuses what was signed before what decided last.
    """

    def __init__(
        self,
        files: Mapping[str, Path],
        load: Callable[[Path], Guardrail],
        serials: Serials | None = None,
    ) -> None:
        self._load = load
        self._serials = serials or Serials(None, allow_rollback=False)
        self._paths, self._refusals = dict(files), dict[str, Refusal]()
        #: By name, each file with its signature.
        self.files = {n: WatchedFiles(path, signature_path(path)) for n, path in files.items()}
        self._loaded = {name: self._opened(name) for name in files}
        self._serials.begun()

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
            raise ServiceProblem.of("several_guardrails", names=names)
        if name not in self._loaded:
            raise ServiceProblem.of("no_such_guardrail", name=name, names=names)
        return self._loaded[name]

    def refusal(self, name: str) -> Refusal | None:
        """Return why the file that stands there now does not decide, if it does not."""
        return self._refusals.get(name)

    def reload(self, name: str) -> Refusal | None:
        """Let a file take over, or keep what decides; return why it was refused.

        Requests under way finish with the guardrail that they came to.
        """
        self.files[name].take()
        try:
            self._loaded[name] = self._opened(name)
            self._refusals.pop(name, None)
        except (Exception, SystemExit) as error:
            # Foreign code may run here; whatever it raises, the old guardrail goes on.
            reason = str(error) if isinstance(error, errors.CalibrailError) else repr(error)
            self._refusals[name] = Refusal(datetime.now(UTC), reason)
        return self._refusals.get(name)

    def _opened(self, name: str) -> Loaded:
        guardrail = self._load(self._paths[name])
        warm(guardrail)
        self._serials.take(name, guardrail)
        return Loaded(name, self._paths[name], guardrail, datetime.now(UTC))
