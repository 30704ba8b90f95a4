"""What did a watch find, and how is it kept?"""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal

from calibrail.errors import file_errors
from calibrail.report.documents import watch as words
from calibrail.settings import checks
from calibrail.shown import Shown
from calibrail.workflow.run_folder import json_parts, write_figures, write_page
from calibrail.writing import write_atomically

#: Files in the folder of a watch, in the order in which they are written.
STATE: Final = "state.json"
STATUS: Final = "status.json"
PAGE: Final = "watch.html"


@dataclass(frozen=True, slots=True, repr=False)
class Watch(Shown):
    """What a watch has found so far.

    Attributes
    ----------
    content : mapping
        What ``status.json`` holds.
    state : bytes
        What it needs to go on, as ``state.json`` holds it.
    names : tuple of str
        The guardrail's file and its logs, as commands name them.
    labels : str or None
        The folder of labels.
    """

    shown_as = "watch"

    content: Mapping[str, Any]
    state: bytes
    names: tuple[str, ...] = ("guardrail.json", "LOG")
    labels: str | None = None

    @property
    def n(self) -> int:
        """How many decisions were watched."""
        return int(self.content["n"])

    @property
    def alarm(self) -> bool:
        """Whether the traffic differs from that of the first reference."""
        return bool(self.content["traffic"]["alarm"])

    @property
    def promise(self) -> Literal["kept", "undecided", "broken"]:
        """Whether the promise is kept, by the labels so far."""
        state: Literal["kept", "undecided", "broken"] = self.content["promise"]["state"]
        return state

    def to_dict(self) -> dict[str, Any]:
        """Return what ``status.json`` holds."""
        return dict(self.content)

    def details(self) -> dict[str, Any]:
        """Return what the document takes beside the content."""
        return {"guardrail": self.names[0], "logs": self.names[1:], "labels": self.labels}

    def save(self, folder: str | PathLike[str], *, page: bool = True) -> Path:
        """Write the watch into a folder, from which a later one goes on.

        The state is written first: a process that is killed before the status stands there writes
        the same one the next time. Where this very watch stands there already, nothing is written.

        Parameters
        ----------
        folder : path
            Made where it is missing.
        page : bool
            Whether ``watch.html`` and its figures are written, too.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        DataError
            It cannot be written.
        """
        path = checks.path(folder, "folder")
        with _writing(path):
            status = b"".join(json_parts(self.content))
            if self._stands_in(path, status, page=page):
                return path
            self.save_state(self.state, path)
            write_atomically(path / STATUS, status, durable=True)
            if page:
                document = words.document(self.content, **self.details())
                write_figures(document, path / "figures")
                # Last: a page that is newer than the status is whole.
                write_page(document, path / PAGE)
        return path

    def _stands_in(self, folder: Path, status: bytes, *, page: bool) -> bool:
        """Return whether a folder holds the same watch, and a page of it where one is wanted."""
        state, said, shown = (folder / name for name in (STATE, STATUS, PAGE))
        if not all(path.exists() for path in (state, said, *([shown] if page else []))):
            return False
        if page and shown.stat().st_mtime_ns < said.stat().st_mtime_ns:
            return False
        return state.read_bytes() == self.state and said.read_bytes() == status

    @staticmethod
    def save_state(state: bytes, folder: Path) -> None:
        """Write what a watch needs to go on; it survives a power cut."""
        with _writing(folder):
            write_atomically(folder / STATE, state, durable=True)


def _writing(folder: Path) -> Any:
    return file_errors(f"cannot write the watch into {folder}", "; make room, or name another one")
