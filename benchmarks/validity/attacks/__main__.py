"""Attacks at full size: ``python -m benchmarks.validity.attacks [SHARE]``.

Writes ``benchmarks/results/attacks.md`` and exits with 1 if any attack succeeds more often than
what is promised allows. SHARE of the runs prints the page alone.
"""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from pkgutil import iter_modules

from benchmarks.results import write

from ..resume import keep_parts, minutes, part
from .attack import Attack, holds, row

#: Probability that any attack counts as successful although every promise is true.
ERROR = 1e-3
#: Runs that one process takes at a time.
LOT = 10


def attacks() -> list[Attack]:
    """Return the attacks of every module of this package."""
    package = __package__ or "benchmarks.validity.attacks"
    folder = import_module(package).__path__
    names = sorted(item.name for item in iter_modules(folder) if item.name != "__main__")
    modules = [import_module(f"{package}.{name}") for name in names]
    return [attack for module in modules for attack in getattr(module, "ATTACKS", ())]


def lot(task: tuple[int, int, int]) -> tuple[int, int]:
    """Return the counts of one attack's runs from a first one on."""
    index, first, runs = task
    attack = attacks()[index]
    key = ("attack", attack.name, attack.setting, first, runs)
    return part(key, lambda: attack.counted(first, runs))


def main() -> int:
    share = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    every = attacks()
    error, failed, lines = ERROR / len(every), 0, []
    if share >= 1.0:
        keep_parts()
    with ProcessPoolExecutor(os.cpu_count() or 1) as pool:
        for index, attack in enumerate(every):
            total = max(LOT, round(attack.runs * share))
            tasks = [(index, i, min(LOT, total - i)) for i in range(0, total, LOT)]
            wrong, runs = map(sum, zip(*pool.map(lot, tasks), strict=True))
            failed += not holds(wrong, runs, attack.promised, error)
            lines.append(row(attack, wrong, runs, error))
            print(lines[-1], file=sys.stderr, flush=True)
    head = [
        "Each line is a way to a wrong result that worked once, or never more often than is "
        "promised, tried through the command or the public function: how often it led to one "
        "before it was mended and now, with the exact 95 % interval of the rate. An attack holds "
        "where chance explains what lies above what is promised.",
        "",
        "| attack | setting | promised | before | now | 95 % interval | holds |",
        "|---" * 7 + "|",
    ]
    page = [*head, *lines]
    if share < 1.0:
        print("\n".join(page))
    else:
        script = "benchmarks/validity/attacks"
        took = f"{minutes() / 60:.1f} hours of one processor"
        page += ["", f"With both other parts of `make validate` these attacks took {took}."]
        write("attacks", "Attacks on the promises", page, ("numpy", "scipy"), script)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
