"""Run every benchmark; each prints its table and writes it under ``results/``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NOT_BENCHMARKS = {
    *(
        "claim_sets.py",
        "label_ceiling.py",
        "text_sets.py",
        "leaderboard_sets.py",
        "mutants.py",
        "public_sets.py",
        "ragtruth_f1.py",
        "trimming_sets.py",
    ),
    *("watch_peers.py", "watch_sets.py"),
    *("run_all.py", "results.py", "same_results.py", "__init__.py"),
}


PAPERS = ("sgi", "semantic_illusion", "provenance", "displacement")


def main() -> None:
    scripts = [*sorted(HERE.glob("*.py")), *(HERE / "papers" / f"{name}.py" for name in PAPERS)]
    for script in scripts:
        if script.name not in NOT_BENCHMARKS:
            print(f"\n--- {script.name}", flush=True)
            subprocess.run([sys.executable, str(script)], check=True)


if __name__ == "__main__":
    main()
