"""SQLite cache of answers."""

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

from calibrail.errors import CalibrailError
from calibrail.models.hardware import leave_to_parent, renewed
from calibrail.serialization import Record

#: Those of a question and of its answer, None where they were not counted.
Tokens = tuple[int | None, int | None]

#: Raised when the table's columns change.
VERSION: Final = 1

#: Answers that a cache in memory holds, or up to twice as many.
MOST_IN_MEMORY: Final = 5_000

#: Seconds to wait for another process that writes.
_PATIENCE: Final = 60.0

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, endpoint TEXT NOT NULL, model TEXT NOT NULL, kind TEXT NOT NULL,
    characters INTEGER NOT NULL, tokens_in INTEGER, tokens_out INTEGER,
    created REAL NOT NULL, value TEXT NOT NULL
) WITHOUT ROWID
"""


class CacheError(CalibrailError):
    """The file of the cache cannot be used."""


class Source(NamedTuple):
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
    asked, never the question itself. A forked process opens the file anew; one in memory starts
    empty there.

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
        self._puts = count(1)
        self._lock = Lock()
        with self._explained():
            self._connection: sqlite3.Connection | None = self._opened()
        renewed(self)

    def renew_after_fork(self) -> None:
        """Open the file anew when it is next used; the parent's connection stays the parent's."""
        leave_to_parent(self._connection)
        self._lock, self._connection = Lock(), None

    def _opened(self) -> sqlite3.Connection:
        path = self.path
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            # A judge may quote what it read: the file is its owner's alone.
            path.touch(mode=0o600)
        connection = sqlite3.connect(
            ":memory:" if path is None else path,
            timeout=_PATIENCE,
            isolation_level=None,
            check_same_thread=False,
        )
        run = connection.execute
        tables = run("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        if tables and ("answers",) not in tables:
            raise CacheError(
                f"{path} is the database of another program; name another file with the "
                "environment variable CALIBRAIL_CACHE"
            )
        if path is not None:
            # Readers and a writer at once, and no answer is lost when a process is killed. SQLite
            # does not wait for another one that switches at the same moment.
            end = time.monotonic() + _PATIENCE
            while True:
                try:
                    run("PRAGMA journal_mode = WAL").fetchall()
                    break
                except sqlite3.OperationalError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.02)
            run("PRAGMA synchronous = NORMAL")
        run(_TABLE)
        ((version,),) = run("PRAGMA user_version").fetchall()
        if version == 0:
            run(f"PRAGMA user_version = {VERSION}")
        if version not in (0, VERSION):
            raise CacheError(
                f"the cache {path} was written by another version (layout {version}, this one is "
                f"{VERSION}); remove the file"
            )
        return connection

    def get(self, key: str) -> Any | None:
        """Return the value kept under a key, None if there is none."""
        rows = self._rows("SELECT value FROM answers WHERE key = ?", (key,))
        with self._explained():
            return json.loads(rows[0][0]) if rows else None

    def put(
        self, key: str, value: Mapping[str, Any], source: Source, characters: int, tokens: Tokens
    ) -> None:
        """Keep a value; what another process has kept meanwhile stays."""
        text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
        row = (key, *source, characters, *tokens, time.time(), text)
        self._rows("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        if self.path is None and next(self._puts) % MOST_IN_MEMORY == 0:
            self._rows(
                "DELETE FROM answers WHERE key NOT IN "
                "(SELECT key FROM answers ORDER BY created DESC LIMIT ?)",
                (MOST_IN_MEMORY,),
            )

    def tokens_per_character(self, source: Source) -> float | None:
        """Return how many tokens a character of this model's questions took, None if unknown."""
        ((tokens, characters),) = self._rows(
            "SELECT SUM(tokens_in), SUM(characters) FROM answers WHERE endpoint = ? AND "
            "model = ? AND kind = ? AND tokens_in IS NOT NULL",
            source,
        )
        return tokens / characters if characters else None

    def contents(self) -> list[CachedModel]:
        """Return what is kept, by endpoint, model and kind."""
        rows = self._rows(
            "SELECT endpoint, model, kind, COUNT(*), COALESCE(SUM(tokens_in), 0), "
            "COALESCE(SUM(tokens_out), 0), MIN(created), MAX(created) FROM answers "
            "GROUP BY endpoint, model, kind ORDER BY endpoint, model, kind"
        )
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
        latest = None if older_than is None else time.time() - 86_400.0 * older_than
        with self._used() as connection:
            removed = connection.execute(
                "DELETE FROM answers WHERE model = COALESCE(?1, model) AND (?2 IS NULL OR "
                "created < ?2)",
                (model, latest),
            ).rowcount
            connection.execute("VACUUM")
        return removed

    def size(self) -> int:
        """Return the bytes that the answers take."""
        ((n_pages,),), ((page_size,),) = map(self._rows, ("PRAGMA page_count", "PRAGMA page_size"))
        return int(n_pages) * int(page_size)

    def close(self) -> None:
        """Close the file."""
        with self._used() as connection:
            connection.close()

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._used() as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def _used(self) -> Iterator[sqlite3.Connection]:
        with self._explained(), self._lock:
            if self._connection is None:
                self._connection = self._opened()
            yield self._connection

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
