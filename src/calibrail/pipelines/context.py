"""Context, progress."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calibrail.models.hardware import installed_versions

#: Called with the number of examples scored so far.
Progress = Callable[[int], None]


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
