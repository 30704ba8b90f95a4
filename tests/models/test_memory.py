"""Is the memory of this process, and of the container that it runs in, told as it is?"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from calibrail.models.hardware import free_memory, held_memory


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="told by /proc")
def test_what_is_held_grows_with_what_is_made() -> None:
    before = held_memory()
    kept = b"x" * 200_000_000
    after = held_memory()
    assert before is not None and after is not None
    assert 0.9 * len(kept) < after - before < 1.5 * len(kept)
    free = free_memory()
    assert free is not None and free > 0


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


MEMINFO = {"proc/meminfo": "MemTotal:  9000 kB\nMemAvailable:    8000 kB\n"}
GROUP = "sys/fs/cgroup"


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, 8000 * 1024),
        ({f"{GROUP}/memory.max": "max\n", f"{GROUP}/memory.current": "5\n"}, 8000 * 1024),
        (
            {
                f"{GROUP}/memory.max": "3000000\n",
                f"{GROUP}/memory.current": "2500000\n",
                f"{GROUP}/memory.stat": "anon 1\ninactive_file 400000\n",
            },
            900_000,
        ),
        (
            {
                f"{GROUP}/memory/memory.limit_in_bytes": "3000000\n",
                f"{GROUP}/memory/memory.usage_in_bytes": "2900000\n",
                f"{GROUP}/memory/memory.stat": "cache 1\ntotal_inactive_file 50000\n",
            },
            150_000,
        ),
    ],
)
def test_what_is_free_is_no_more_than_a_container_may_take(
    files: dict[str, str], free: int, tmp_path: Path
) -> None:
    assert free_memory(machine(tmp_path, MEMINFO | files)) == free


def test_where_nothing_is_said_nothing_is_known(tmp_path: Path) -> None:
    assert free_memory(tmp_path) is None
    assert free_memory(machine(tmp_path, {"proc/meminfo": "MemTotal: 5 kB\n"})) is None
