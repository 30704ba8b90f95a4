"""What surrounds a run without changing any of its numbers?"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

#: Called with the number of examples scored so far.
Progress = Callable[[int], None]

#: Distributions whose version is recorded, since they can change a score.
RECORDED: Final = (
    "calibrail",
    "numpy",
    "scipy",
    "scikit-learn",
    "nupunkt",
    "tokenizers",
    "torch",
    "transformers",
    "sentence-transformers",
)


@dataclass(frozen=True, slots=True)
class Context:
    """How a run can be repeated, and who is told how far it is.

    Attributes
    ----------
    command : str or None
        The command that a reader would run to get this result again.
    progress : callable or None
        Called with the number of examples scored so far.
    text : bool
        Whether pages may show questions, contexts and answers; no other file ever holds them.
    """

    command: str | None = None
    progress: Progress | None = None
    text: bool = True

    def reproduce(self) -> dict[str, Any]:
        """Return what a report says about how to get it again."""
        return {"command": self.command, "versions": installed_versions()}


def installed_versions() -> dict[str, str]:
    """Return the versions of the libraries that can change a score, without importing them."""
    return dict(_versions())


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    versions = []
    for name in RECORDED:
        with suppress(PackageNotFoundError):
            versions.append((name, version(name)))
    return tuple(versions)
