"""What must a watch keep to go on where it stopped, as if it had not?"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from calibrail.errors import DataError, InputError, file_errors
from calibrail.guardrail.decision_log.cursor import Cursor, Tally
from calibrail.guardrail.frozen import FrozenConfig
from calibrail.guardrail.regular import read_regular
from calibrail.monitoring.monitor import Monitor
from calibrail.settings.option import either

SCHEMA: Final = "calibrail.watch_state/1"

_REMEDY: Final = "; restore it, or name a new folder"


@dataclass(slots=True)
class WatchFile:
    """What stands in ``state.json``.

    Attributes
    ----------
    guardrail : str
        Digest of the guardrail.
    asked : mapping
        What the watch was begun with, and no later call may change: its options, the limits, the
        reference.
    monitor : Monitor
        What the traffic was like so far.
    cursor : Cursor
        How far the log was read.
    tally : Tally
        What was met in it.
    first, last : str or None
        Earliest and latest time of what was used.
    labels : str or None
        Digest of what was agreed on about the folder of labels; None before the first label.
    decided : mapping or None
        With which label the promise was seen to be broken: that stands, whatever becomes of labels.
    """

    guardrail: str
    asked: Mapping[str, Any]
    monitor: Monitor
    cursor: Cursor = field(default_factory=Cursor)
    tally: Tally = field(default_factory=Tally)
    first: str | None = None
    last: str | None = None
    decided: Mapping[str, Any] | None = None
    labels: str | None = None

    def refuse_other_labels(self, path: Path, labels: str | None) -> None:
        """Refuse labels of another folder: the error would be spent once more on them.

        Raises
        ------
        InputError
            The watch was begun with the labels of another folder.
        """
        if None not in (self.labels, labels) and labels != self.labels:
            raise InputError(
                f"{path} is of a watch that was begun with the labels of another folder; name that "
                "folder (a copy of it will do), or a new one for the watch"
            )

    def to_bytes(self) -> bytes:
        """Return the file's bytes: the same for the same watch."""
        content = {
            "schema": SCHEMA,
            "guardrail": self.guardrail,
            "asked": dict(self.asked),
            "from": self.first,
            "to": self.last,
            "decided": self.decided,
            "labels": self.labels,
            "cursor": self.cursor.to_dict(),
            "log": self.tally.to_dict(),
            "monitor": json.loads(self.monitor.to_state()),
        }
        text = json.dumps(
            content, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":")
        )
        return f"{text}\n".encode()

    @classmethod
    def read(cls, path: Path, guardrail: FrozenConfig, asked: Mapping[str, Any]) -> Self | None:
        """Return what a folder holds of the same watch; None where it holds none.

        Raises
        ------
        InputError
            It is the watch of another guardrail, or was begun with other options.
        DataError
            The file is damaged, or cannot be read.
        """
        with file_errors(f"cannot read {path}", _REMEDY):
            if not path.exists():
                return None
            raw = read_regular(path)
        with _damaged(path):
            content = json.loads(raw)
            schema, before = content["schema"], (content["guardrail"], dict(content["asked"]))
        if schema != SCHEMA:
            raise DataError(
                f"{path} is of another version of calibrail: its schema is {schema!r:.60}, and "
                f"this one writes {SCHEMA!r}; name a new folder"
            )
        _refuse_other(path, before, (guardrail.digest, asked))
        with _damaged(path):
            return cls(
                guardrail.digest,
                asked,
                Monitor.restore(json.dumps(content["monitor"]), guardrail),
                Cursor.from_dict(content["cursor"]),
                Tally.from_dict(content["log"]),
                content["from"],
                content["to"],
                content["decided"],
                content.get("labels"),
            )


@contextmanager
def _damaged(path: Path) -> Iterator[None]:
    """Say that a file is damaged where it cannot be understood."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path} is damaged: it holds no state of a watch{_REMEDY}") from error


_Begun = tuple[str, Mapping[str, Any]]


def _refuse_other(path: Path, before: _Begun, now: _Begun) -> None:
    """Refuse a watch of another guardrail, or one that was begun with other options."""
    folder = path.parent
    if before[0] != now[0]:
        raise InputError(
            f"{path} is the watch of another guardrail: its digest is {before[0]!s:.19}..., and "
            f"that of the one given {now[0]:.19}...; name a new folder in place of {folder}"
        )
    for name, value in now[1].items():
        if (then := before[1].get(name)) != value:
            raise InputError(
                f"{path} is of a watch that was begun with {_spelled(name)} {json.dumps(then)}; it "
                f"is {json.dumps(value)} now. Give the same again, or name a new folder in place "
                f"of {folder}"
            )


def _spelled(name: str) -> str:
    return either(f"--{name.replace('_', '-')}", name)
