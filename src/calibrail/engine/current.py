"""Which engine does the work that is being done now?"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from calibrail.settings.checks import optional
from calibrail.settings.engine import EngineOptions

_LOCAL: Final = EngineOptions()

_current: ContextVar[EngineOptions] = ContextVar("engine", default=_LOCAL)


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
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)


@contextmanager
def in_this_process() -> Iterator[None]:
    """Score, within the block, in this process: what a shard is made of is not cut again."""
    with use_engine(_LOCAL):
        yield
