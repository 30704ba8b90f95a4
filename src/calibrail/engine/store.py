"""Where do the results of shards stand, whole or not at all?"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from calibrail.errors import file_errors
from calibrail.own_folder import own_folder
from calibrail.writing import write_atomically

MANIFEST: Final = "manifest.json"

#: Key of the metadata under which a file says what it should be.
_SEAL: Final = b"calibrail.seal"

_RESULTS, _INPUTS = "results", "inputs"


class ShardStore:
    """A folder of results by content: of what they were computed, and by what.

    ``results/ab/abcdef.../TASK.parquet`` holds what the task made of the shard whose rows have this
    digest. In ``inputs`` every run has a folder of its own, which is gone afterwards: the rows of
    shards that are being computed, with their texts, and files that are being written.

    Parameters
    ----------
    folder : Path
        The folder.
    own : Path
        What belongs to this run alone.
    """

    def __init__(self, folder: Path, own: Path) -> None:
        self.folder, self._own = folder, own

    @classmethod
    @contextmanager
    def opened(cls, folder: Path) -> Iterator[Self]:
        """Open a folder, made where it does not exist; what killed runs left there is removed.

        Raises
        ------
        DataError
            If it cannot be made or written into, or is a file.
        """
        folder = folder.absolute()
        inputs = folder / _INPUTS
        with ExitStack() as stack:
            with file_errors(f"cannot keep shards in {folder}", "; name another folder"):
                inputs.mkdir(parents=True, exist_ok=True)
                (folder / _RESULTS).mkdir(exist_ok=True)
                own = stack.enter_context(own_folder(inputs))
                # On a cluster others may have to read it: those who may read what it stands in.
                own.chmod(inputs.stat().st_mode & 0o777)
            yield cls(folder, own)

    def result(self, digest: str, task: str) -> Path:
        """Return where a task's result for a shard stands, or will stand."""
        return self._of(digest) / f"{task}.parquet"

    def results(self, digest: str) -> list[Path]:
        """Return what stands there for a shard, by name."""
        return sorted(self._of(digest).glob("*.parquet"))

    def _of(self, digest: str) -> Path:
        return self.folder / _RESULTS / digest[:2] / digest

    def put_input(self, name: str, table: pa.Table) -> Path:
        """Write the rows of a shard for whoever computes it."""
        path = self._own / f"{name}.parquet"
        with file_errors(f"cannot write {path}"):
            write_result(path, table, durable=False)
        return path

    def tell(self, content: Mapping[str, Any]) -> None:
        """Write the manifest."""
        raw = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        path = self.folder / MANIFEST
        with file_errors(f"cannot write {path}"):
            write_atomically(path, raw.encode("utf-8", "backslashreplace"), beside=self._own)


def write_result(
    path: Path, table: pa.Table, *, beside: Path | None = None, durable: bool = True
) -> None:
    """Write a table elsewhere, and rename it: it is there whole or not at all.

    Parameters
    ----------
    path : Path
        Its folder is made where it is missing.
    table : Table
        The content.
    beside : Path, optional
        Folder, of the same file system, where it is written; that of ``path`` when left out.
    durable : bool
        Whether it is to survive a power cut.
    """
    known = {**(table.schema.metadata or {}), _SEAL: _seal(table)}
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(known), sink, write_page_checksum=True)
    write_atomically(path, sink.getvalue().to_pybytes(), durable=durable, beside=beside)


def read_result(path: Path) -> pa.Table | None:
    """Read a result; None where there is none, or the file is damaged."""
    try:
        table = pq.read_table(path, page_checksum_verification=True)
        sealed = (table.schema.metadata or {}).get(_SEAL) == _seal(table)
    except (OSError, pa.ArrowException, ValueError):
        return None
    return table if sealed else None


def _seal(table: pa.Table) -> bytes:
    """Return a digest of what no checksum of a page covers: names, types, rows and metadata."""
    metadata = table.schema.metadata or {}
    kept = [part for key in sorted(metadata) if key != _SEAL for part in (key, metadata[key])]
    columns = [f"{item.name} {item.type}".encode() for item in table.schema]
    return digest_of([str(table.num_rows).encode(), *columns, *kept]).encode()


def digest_of(parts: Iterable[bytes | memoryview]) -> str:
    """Return the SHA-256 of parts of any length, as hexadecimal digits.

    >>> digest_of([b"ab", b"c"]) == digest_of([b"a", b"bc"])
    False
    """
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(len(part).to_bytes(8, "big"))
        hasher.update(part)
    return hasher.hexdigest()
