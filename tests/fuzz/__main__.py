"""How are damaged files tried for minutes, whatever they do to the process?

``python -m tests.fuzz [MINUTES] [FIRST_SEED]``: cases run in processes of their own with 4 GiB of
memory and two minutes a case. A case that fails is printed with its seed and its traceback, and
makes the exit code 1; ``python -m tests.fuzz --seed N`` runs that one again.
"""

from __future__ import annotations

import faulthandler
import io
import re
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Final, cast

_BATCH: Final = 400
_MEMORY: Final = 4 << 30


def one(seed: int, folder: Path) -> str:
    """Run the case of a seed: mostly of the readers, at times of a command or a run's files."""
    from tests.fuzz.case import command_case, read_case, run_folder_case
    from tests.fuzz.frozen import frozen

    if seed % 10 < 8:
        return read_case(seed, folder)
    run, guardrail = frozen(folder)
    if seed % 10 == 8:
        return command_case(seed, folder, guardrail)
    return run_folder_case(seed, folder, run, guardrail)


def batch(first: int, last: int) -> None:
    """Run cases in this process; print the seed of each before, and its outcome after."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, last):
            faulthandler.dump_traceback_later(120, exit=True)
            print(f"case {seed}", flush=True)
            try:
                print(f"ended {one(seed, Path(folder))}", flush=True)
            except Exception:
                print(f"FAILED {seed}\n{traceback.format_exc()}", flush=True)


def main() -> int:
    """Run batches until the time is over; return 1 if a case failed."""
    # What is printed of a failed case may hold half of a surrogate pair.
    cast(io.TextIOWrapper, sys.stdout).reconfigure(errors="backslashreplace")
    if sys.argv[1:2] == ["--seed"]:
        with tempfile.TemporaryDirectory() as folder:
            print(one(int(sys.argv[2]), Path(folder)))
        return 0
    if sys.argv[1:2] == ["--batch"]:
        batch(*map(int, sys.argv[2:4]))
        return 0
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    until, ended, failed = time.monotonic() + 60 * minutes, Counter[str](), 0
    while time.monotonic() < until:
        words = [sys.executable, "-m", "tests.fuzz", "--batch", str(seed), str(seed + _BATCH)]
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
        blocks = re.split("^case ", done.stdout, flags=re.MULTILINE)
        for block in blocks[1:]:
            if "FAILED" in block:
                failed += 1
                print(block, flush=True)
        ended.update(line for line in done.stdout.splitlines() if line.startswith("ended "))
        last = int(blocks[-1].split()[0])
        if done.returncode:
            failed += 1
            print(f"FAILED {last}: the process ended with {done.returncode}\n{done.stderr[-3000:]}")
        seed = last + 1
    for outcome, count in sorted(ended.items()):
        print(f"{count:8,} {outcome.removeprefix('ended ')}")
    print(f"{failed} of {ended.total() + failed:,} cases failed; the next seed is {seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
