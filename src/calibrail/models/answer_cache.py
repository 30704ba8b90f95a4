"""Where are the answers of endpoints kept, so that nothing is asked twice?"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Final

from calibrail.errors import CalibrailError
from calibrail.record import Record

#: Raised when the table's columns change.
VERSION: Final = 1

#: Answers that a cache in memory holds, or up to twice as many.
MOST_IN_MEMORY: Final = 5_000

#: Seconds to wait for another process that writes.
_PATIENCE: Final = 60.0

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY,
    endpoint TEXT NOT NULL,
    model TEXT NOT NULL,
    kind TEXT NOT NULL,
    characters INTEGER NOT NULL,
    tokens_in INTEGER,
    tokens_out INTEGER,
    created REAL NOT NULL,
    value TEXT NOT NULL
) WITHOUT ROWID
"""


class CacheError(CalibrailError):
    """The file of the cache cannot be used."""


@dataclass(frozen=True, slots=True)
class Source:
    """Whose answers, and of what kind.

    Attributes
    ----------
    endpoint, model : str
        Who answered.
    kind : str
        ``chat`` or ``embedding``.
    """

    endpoint: str
    model: str
    kind: str


@dataclass(frozen=True, slots=True)
class CachedModel(Record):
    """What the cache holds of one model.

    Attributes
    ----------
    endpoint, model : str
        Who answered.
    kind : str
        ``chat`` or ``embedding``.
    n : int
        Answers.
    tokens_in, tokens_out : int
        Tokens that they cost, as far as the endpoint counted them.
    oldest, newest : float
        Seconds since 1970.
    """

    endpoint: str
    model: str
    kind: str
    n: int
    tokens_in: int
    tokens_out: int
    oldest: float
    newest: float


class AnswerCache:
    """A SQLite file of JSON values, for several threads and processes at once.

    A value is written, and safe, as soon as its answer is in. The file holds digests of what was
    asked, never the question itself.

    Parameters
    ----------
    path : Path or None
        The file, made if it is absent; None for memory.

    Raises
    ------
    CacheError
        If the file cannot be opened or is something else.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._lock = Lock()
        self._n_put = 0
        with self._explained():
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                # A judge may quote what it read: the file is its owner's alone.
                path.touch(mode=0o600)
            self._connection = sqlite3.connect(
                ":memory:" if path is None else path,
                timeout=_PATIENCE,
                isolation_level=None,
                check_same_thread=False,
            )
            tables = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            names = {name for (name,) in tables.fetchall()}
            if names and "answers" not in names:
                raise CacheError(
                    f"{path} is the database of another program; name another file with the "
                    "environment variable CALIBRAIL_CACHE"
                )
            if path is not None:
                # Readers and a writer at once, and no answer is lost when a process is killed.
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(_TABLE)
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if version == 0:
                self._connection.execute(f"PRAGMA user_version = {VERSION}")
        if version not in (0, VERSION):
            raise CacheError(
                f"the cache {path} was written by another version (layout {version}, this one is "
                f"{VERSION}); remove the file"
            )

    def get(self, key: str) -> Any | None:
        """Return the value kept under a key, None if there is none."""
        with self._explained():
            with self._lock:
                row = self._connection.execute(
                    "SELECT value FROM answers WHERE key = ?", (key,)
                ).fetchone()
            return None if row is None else json.loads(row[0])

    def put(
        self,
        key: str,
        value: Mapping[str, Any],
        source: Source,
        *,
        characters: int,
        tokens_in: int | None,
        tokens_out: int | None,
    ) -> None:
        """Keep a value; what another process has kept meanwhile stays."""
        text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
        row = (key, *astuple(source), characters, tokens_in, tokens_out, time.time(), text)
        with self._explained(), self._lock:
            self._connection.execute(
                "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row
            )
            self._n_put += 1
            if self.path is None and self._n_put % MOST_IN_MEMORY == 0:
                self._connection.execute(
                    "DELETE FROM answers WHERE key NOT IN "
                    "(SELECT key FROM answers ORDER BY created DESC LIMIT ?)",
                    (MOST_IN_MEMORY,),
                )

    def tokens_per_character(self, source: Source) -> float | None:
        """Return how many tokens a character of this model's questions took, None if unknown."""
        with self._explained(), self._lock:
            tokens, characters = self._connection.execute(
                "SELECT SUM(tokens_in), SUM(characters) FROM answers WHERE endpoint = ? AND "
                "model = ? AND kind = ? AND tokens_in IS NOT NULL",
                astuple(source),
            ).fetchone()
        return tokens / characters if characters else None

    def contents(self) -> list[CachedModel]:
        """Return what is kept, by endpoint, model and kind."""
        with self._explained(), self._lock:
            rows = self._connection.execute(
                "SELECT endpoint, model, kind, COUNT(*), COALESCE(SUM(tokens_in), 0), "
                "COALESCE(SUM(tokens_out), 0), MIN(created), MAX(created) FROM answers "
                "GROUP BY endpoint, model, kind ORDER BY endpoint, model, kind"
            ).fetchall()
        return [CachedModel(*row) for row in rows]

    def clear(self, model: str | None = None, older_than: float | None = None) -> int:
        """Remove answers and return how many.

        Parameters
        ----------
        model : str, optional
            Only this model's.
        older_than : float, optional
            Only those older than so many days.
        """
        conditions, values = ["1"], list[Any]()
        if model is not None:
            conditions.append("model = ?")
            values.append(model)
        if older_than is not None:
            conditions.append("created < ?")
            values.append(time.time() - 86_400.0 * older_than)
        with self._explained(), self._lock:
            removed = self._connection.execute(
                f"DELETE FROM answers WHERE {' AND '.join(conditions)}", values
            ).rowcount
            self._connection.execute("VACUUM")
        return removed

    def size(self) -> int:
        """Return the bytes that the answers take."""
        with self._explained(), self._lock:
            (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
            (page,) = self._connection.execute("PRAGMA page_size").fetchone()
        return int(pages) * int(page)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:
            raise CacheError(
                f"the answer cache {self.path or 'in memory'} cannot be used ({error}); name "
                "another file with the environment variable CALIBRAIL_CACHE, or turn it off with "
                "CALIBRAIL_CACHE=off"
            ) from error


@lru_cache(maxsize=8)
def open_cache(path: Path | None) -> AnswerCache:
    """Return the process's one connection to a cache file."""
    return AnswerCache(path)
