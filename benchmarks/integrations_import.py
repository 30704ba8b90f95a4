"""What does importing an adapter add to importing its framework? Goal: at most 50 ms.

Each process imports what the adapter imports of its framework, then the adapter; seconds are those
of the processor, which other processes do not change much. Frameworks that
need an environment of their own are measured where ``make test-integrations`` has made it.
"""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from results import write

ROOT = Path(__file__).resolve().parents[1]
ADAPTERS = ROOT / "src" / "calibrail" / "integrations"
#: Of the room itself.
NO_ADAPTERS = ("__init__", "gate", "missing", "structured", "turns")
RUNS = 5

TIMED = """
import sys, time
start = time.process_time()
{framework}
between = time.process_time()
import calibrail.integrations.{adapter}
print(between - start, time.process_time() - between)
"""


def frameworks(path: Path) -> Iterator[str]:
    """Yield what an adapter imports when it is imported, of its framework."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    blocks = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.With))]
    for block in blocks:
        for node in block:
            if isinstance(node, ast.Import):
                yield from (f"import {alias.name}" for alias in node.names)
            if isinstance(node, ast.ImportFrom) and node.module:
                names = ", ".join(alias.name for alias in node.names)
                if node.module != "__future__" and not node.module.startswith("calibrail"):
                    yield f"from {node.module} import {names}"


def python_of(adapter: str) -> Path:
    """Return the Python of the environment that has an adapter's framework."""
    own = ROOT / ".venv-integrations" / adapter.replace("_", "-") / "bin" / "python"
    return own if own.is_file() else Path(sys.executable)


def measured(path: Path) -> tuple[list[float], list[float]] | str:
    """Return seconds of the framework and of the adapter, or why there are none."""
    code = TIMED.format(framework="\n".join(frameworks(path)), adapter=path.stem)
    times = []
    for _ in range(RUNS):
        run = subprocess.run(
            [str(python_of(path.stem)), "-W", "ignore", "-c", code], capture_output=True, text=True
        )
        if run.returncode:
            return run.stderr.strip().splitlines()[-1]
        times.append(tuple(map(float, run.stdout.split()[-2:])))
    framework, adapter = zip(*times, strict=True)
    return list(framework), list(adapter)


def main() -> None:
    """Measure every adapter."""
    rows = [
        "| adapter | framework s | adapter ms, median of 5 | min | max |",
        "|---|---|---|---|---|",
    ]
    left_out = []
    for path in sorted(ADAPTERS.glob("*.py")):
        if path.stem in NO_ADAPTERS:
            continue
        if isinstance(found := measured(path), str):
            left_out.append(f"{path.stem} ({found})")
            continue
        framework, adapter = found
        values = (statistics.median(adapter), min(adapter), max(adapter))
        shown = " | ".join(f"{1e3 * value:.1f}" for value in values)
        rows.append(f"| {path.stem} | {statistics.median(framework):.2f} | {shown} |")
    if left_out:
        rows += ["", f"Not measured here: {'; '.join(left_out)}."]
    write("integrations_import", "What adapters add to importing their frameworks", rows)


if __name__ == "__main__":
    main()
