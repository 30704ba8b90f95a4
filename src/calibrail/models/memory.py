"""How much memory does this process hold, and how much more could it take?"""

import os
import sys
from pathlib import Path

#: Where Linux says how much memory a container may take, and takes: version 2, then version 1.
_GROUPS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
)


def held_memory() -> int | None:
    """Return the bytes that this process holds: now on Linux, at most so far on macOS.

    None where that cannot be told.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        pass
    try:
        import resource
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def free_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that this machine, or this container, could still give.

    None where that cannot be told: elsewhere than on Linux.

    Parameters
    ----------
    root : Path
        Where ``proc`` and ``sys`` are.
    """
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        free = 1024 * int(fields["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return None
    groups = root / "sys/fs/cgroup"
    for limit, taken, cache in _GROUPS:
        try:
            most = int((groups / limit).read_text())
            now = int((groups / taken).read_text())
            stat = (groups / taken).with_name("memory.stat").read_text().split()
        except (OSError, ValueError):
            continue
        # Files that were read are in it, and given up for whoever needs the room.
        kept = int(stat[stat.index(cache) + 1]) if cache in stat else 0
        return max(0, min(free, most - now + kept))
    return free
