"""Which small changes of the core does no test notice? Mutation testing with mutmut.

A mutant is the code with one small change: ``<`` for ``<=``, ``+`` for ``-``, another constant. The
tests of ``pyproject.toml``'s section ``tool.mutmut`` run on it, and should fail. By default a
seeded sample is taken from each file; ``--all`` takes every mutant, which takes hours. Mutants that
change nothing that could be observed stand in ``tests/equivalent_mutants.toml``, each with the
reason, and count neither way. The exit status is 1 where fewer than 90 % of the others die.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from mutmut.stats import status_by_exit_code

WANTED_SHARE = 0.9
#: What mutmut reports of a mutant that the tests noticed; a time-out is noticed, too.
KILLED = frozenset({"killed", "timeout", "segfault", "caught by type check"})
EQUIVALENT = Path("tests/equivalent_mutants.toml")


@dataclass(frozen=True, slots=True)
class Change:
    """The lines that a mutant takes from a file and those that it puts there."""

    file: str
    before: str
    after: str


def read_results(folder: Path) -> dict[str, dict[str, int | None]]:
    """Return by source file the exit code of each mutant, None where it has not been tested."""
    results = {}
    for path in sorted((folder / "src").rglob("*.meta")):
        codes = json.loads(path.read_text("utf-8"))["exit_code_by_key"]
        if codes:
            results[path.relative_to(folder).as_posix().removesuffix(".meta")] = codes
    return results


def sample(names: list[str], size: int, seed: int, file: str) -> list[str]:
    """Return so many of a file's mutants, the same for the same seed."""
    return random.Random(f"{seed} {file}").sample(sorted(names), min(size, len(names)))


def change_of(file: str, diff: str) -> Change:
    """Return what a unified diff of one hunk changes, without indentation."""
    lines = [line for line in diff.splitlines() if line[:3] not in {"---", "+++"}]
    before = "\n".join(line[1:].strip() for line in lines if line.startswith("-"))
    after = "\n".join(line[1:].strip() for line in lines if line.startswith("+"))
    return Change(file, before, after)


def known_equivalents(path: Path) -> set[Change]:
    """Return the mutants that are known to change nothing that could be observed."""
    if not path.exists():
        return set()
    entries = tomllib.loads(path.read_text("utf-8")).get("mutant", [])
    return {Change(item["file"], item["before"], item["after"]) for item in entries}


def mutmut(*arguments: str) -> str:
    """Run mutmut and return what it prints."""
    command = [sys.executable, "-m", "mutmut", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def main() -> int:
    """Test mutants, print how many died in each file, and the survivors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--per-file", type=int, default=10, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    folder = Path("mutants")
    # Nothing has this name: mutants are made and tests are timed, and nothing else.
    printed = mutmut("run", "none")
    results = read_results(folder)
    if not results:
        print(printed)
        return 2
    chosen = {
        file: sorted(codes)
        if options.all
        else sample(list(codes), options.per_file, options.seed, file)
        for file, codes in results.items()
    }
    printed = mutmut("run", *(name for names in chosen.values() for name in names))
    results = read_results(folder)
    equivalents = known_equivalents(EQUIVALENT)
    survivors: list[tuple[str, Change]] = []
    dead = alive = same = untested = 0
    for file, names in chosen.items():
        counts = {"killed": 0, "survived": 0, "equivalent": 0}
        for name in names:
            status = status_by_exit_code[results[file][name]]
            if status == "not checked":
                untested += 1
            elif status in KILLED:
                counts["killed"] += 1
            elif (change := change_of(file, mutmut("show", name))) in equivalents:
                counts["equivalent"] += 1
            else:
                counts["survived"] += 1
                survivors.append((name, change))
        dead, alive = dead + counts["killed"], alive + counts["survived"]
        same += counts["equivalent"]
        print(f"{file:48}" + "".join(f"{value:5} {name}" for name, value in counts.items()))
    for name, change in survivors:
        print(f"\n{name}\n- {change.before}\n+ {change.after}")
    if untested or not dead + alive:
        print(printed[-2000:])
        print(f"{untested} mutants were not tested")
        return 2
    share = dead / (dead + alive)
    print(f"\n{dead} of {dead + alive} mutants died: {share:.1%} ({same} equivalent ones left out)")
    return 0 if share >= WANTED_SHARE else 1


if __name__ == "__main__":
    raise SystemExit(main())
