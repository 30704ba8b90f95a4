"""Which engine does the work that is being done now?"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from calibrail.settings.checks import optional
from calibrail.settings.engine import EngineOptions

_LOCAL: Final = EngineOptions()

_current: ContextVar[EngineOptions] = ContextVar("engine", default=_LOCAL)

#: What was said within the innermost ``use_engine``, and to whom it is said.
_said: ContextVar[frozenset[str]] = ContextVar("said", default=frozenset())
_say: ContextVar[Callable[[str], None] | None] = ContextVar("say", default=None)


def engine() -> EngineOptions:
    """Return where scoring runs: as the innermost ``use_engine`` says, or in this process."""
    return _current.get()


@contextmanager
def use_engine(options: EngineOptions | None = None) -> Iterator[EngineOptions]:
    """Say where everything that is scored within the block is scored.

    Processes are spawned, so that a script that uses them needs ``if __name__ == "__main__":``.

    Parameters
    ----------
    options : EngineOptions, optional
        Where; in this process when left out.

    Examples
    --------
    >>> with use_engine(EngineOptions(engine="processes", workers=2)) as used:
    ...     pass  # calibrate(..., "rad"), compare(...), audit(...)
    >>> used.workers
    2
    """
    chosen = optional(options, EngineOptions, "options")
    token, before = _current.set(chosen), _said.set(frozenset())
    try:
        yield chosen
    finally:
        _current.reset(token)
        _said.reset(before)


@contextmanager
def in_this_process() -> Iterator[None]:
    """Score, within the block, in this process: what a shard is made of is not cut again."""
    with use_engine(_LOCAL):
        yield


def say_once(sentence: str) -> None:
    """Say what a user should know of the engine, once within ``use_engine``: a warning."""
    if sentence in _said.get():
        return
    _said.set(_said.get() | {sentence})
    if (say := _say.get()) is None:
        warnings.warn(sentence, UserWarning, stacklevel=4)
    else:
        say(f"warning: {sentence}")


@contextmanager
def telling_of_engine(say: Callable[[str], None]) -> Iterator[None]:
    """Say to a callable, within the block, what would be a warning."""
    token = _say.set(say)
    try:
        yield
    finally:
        _say.reset(token)
