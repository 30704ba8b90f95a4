"""Does labelling begin at once, and go on at once, among a million traces?

Writes generated traces (about 700 bytes each, a detector's score among them) as JSON lines and as
Parquet. Each row of the tables is a process of its own: what peers need to read the same file, what
`calibrail.label` needs to begin and to go on, and how long the next answer takes to appear, with
everything that happens for it: the draw, the guardrail, the verdict so far, the disk.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from results import write

import calibrail
from calibrail.labelling.session import Session
from calibrail.options import Drawing

SIZES = (100_000, 1_000_000)
LABELS = {"uniform": 3000, "active": 1000}
#: Seconds that a person takes for a label, which is little, and labels that are given while the
#: traces are read again in the background.
THINKING, MEANWHILE = 0.05, 300
_WORDS = [f"{first}{last}" for first in "bcdfghklmnprstvz" for last in ["arin", "oleth", "uster"]]


def rows(n: int, prefix: str = "trace") -> Iterator[dict[str, object]]:
    """Yield answers; a tenth are hallucinated, which the score tells with an AUROC of 0.92."""
    rng = np.random.default_rng(n)
    picks = rng.integers(0, len(_WORDS), (997, 24))
    texts = [" ".join(_WORDS[i] for i in row) for row in picks]
    hallucinated = rng.random(n) < 0.1
    scores = rng.standard_normal(n) + 2.0 * hallucinated
    for i in range(n):
        yield {
            "id": f"{prefix}-{i}{'-h' if hallucinated[i] else ''}",
            "question": f"Question {i} of {prefix} about {texts[i % 997][:60]}?",
            "contexts": [_own(i, texts[(i + 1) % 997]), _own(7 * i, texts[(i + 2) % 997])],
            "response": _own(3 * i, texts[(i + 3) % 997][:100]),
            "score": round(float(scores[i]), 5),
            "group": f"source-{i // 4}",
        }


def _own(i: int, text: str) -> str:
    """Return a text whose word pairs no other has: near copies are passed over."""
    return " ".join(f"{word} {i + place}" for place, word in enumerate(text.split()))


def generate(folder: Path, n: int) -> None:
    """Write traces in both formats, and a guardrail that was calibrated on others."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer, batch = None, []
    with (folder / "traces.jsonl").open("w", encoding="utf-8") as stream:
        for i, row in enumerate(rows(n), start=1):
            stream.write(json.dumps(row) + "\n")
            batch.append(row)
            if len(batch) == 10_000 or i == n:
                table = pa.Table.from_pylist(batch)
                writer = writer or pq.ParquetWriter(folder / "traces.parquet", table.schema)
                writer.write_table(table)
                batch = []
    if writer is not None:
        writer.close()
    labelled = [
        row | {"label": int(str(row["id"]).endswith("h")), "group": row["id"]}
        for row in rows(6000, "calibration")
    ]
    run = calibrail.calibrate(labelled, "column:column=score,higher=hallucinated", alpha=0.1)
    run.freeze().save(folder / "guardrail.json")


def plain(path: Path) -> None:
    """Read every row of a file, and keep none."""
    if path.suffix == ".jsonl":
        with path.open("rb") as lines:
            for line in lines:
                json.loads(line)
    else:
        import pyarrow.parquet as pq

        for batch in pq.ParquetFile(path).iter_batches():
            batch.to_pylist()


def shuffled(path: Path) -> None:
    """Do what a notebook would: load the file, shuffle it, take the first ones."""
    import pandas as pd

    read = pd.read_json if path.suffix == ".jsonl" else pd.read_parquet
    options = {"lines": True} if path.suffix == ".jsonl" else {}
    read(path, **options).sample(frac=1.0, random_state=0).head(4096).to_dict("records")


def begun(path: Path, design: str) -> Session:
    """Begin labels beside the file, or go on with them."""
    return calibrail.label(
        path,
        path.parent / f"labels-{path.suffix[1:]}-{design}",
        guardrail=path.parent / "guardrail.json",
        max_fpr=0.3,
        drawing=Drawing("active" if design == "active" else "uniform"),
    )


def label(session: Session, n: int) -> dict[str, list[float]]:
    """Label n answers; return the seconds that next, put and counts took.

    ``processor`` is what next took of the processor, however busy other programs keep it.
    """
    taken: dict[str, list[float]] = {"next": [], "processor": [], "put": [], "counts": []}
    for _ in range(n):
        start, busy = time.perf_counter(), time.thread_time()
        task = session.next("ada")
        taken["next"].append(time.perf_counter() - start)
        taken["processor"].append(time.thread_time() - busy)
        if task is None:
            break
        time.sleep(THINKING)
        start = time.perf_counter()
        session.put("ada", task.order, int(task.id.endswith("h")))
        taken["put"].append(time.perf_counter() - start)
        start = time.perf_counter()
        session.counts("ada")
        taken["counts"].append(time.perf_counter() - start)
    return taken


def step(mode: str, path: Path) -> dict[str, object]:
    """Run one row of a table; return what it took."""
    # Imports belong to the process, not to the pass.
    import calibrail.pipelines.label

    start = time.perf_counter()
    found: dict[str, object] = {}
    if mode == "plain reading":
        plain(path)
    elif mode == "pandas, shuffled":
        shuffled(path)
    elif mode == "calibrail.read":
        for _ in calibrail.read(path, labelled=False):
            pass
    else:
        design = mode.split()[0]
        session = begun(path, design)
        found["seconds"] = time.perf_counter() - start
        if mode.endswith("labels"):
            found["taken"] = label(session, LABELS[design])
        if mode.endswith("meanwhile"):
            found["taken"] = label(session, MEANWHILE)
        found["counts"] = session.counts("ada").to_dict()
        session.close()
    found.setdefault("seconds", time.perf_counter() - start)
    found["peak"] = peak_mib()
    return found


def peak_mib() -> float:
    """Return the most memory that this process has held, in MiB (Linux).

    Not ``getrusage``: what it says of a new process begins with the peak of the one that made it.
    """
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def measured(mode: str, path: Path) -> dict[str, object]:
    """Run one row of a table in a process of its own."""
    command = [sys.executable, __file__, mode, str(path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    content: dict[str, object] = json.loads(output)
    return content


def milliseconds(taken: list[float]) -> str:
    """Return median, 99th percentile and maximum as cells."""
    median, late, worst = np.percentile(np.array(taken) * 1000.0, (50, 99, 100))
    return f"{median:.0f} | {late:.0f} | {worst:.0f}"


def main() -> None:
    """Measure every step at every size and write the tables."""
    opening = ["| traces | file | step | seconds | peak MiB |", "|---|---|---|---|---|"]
    waiting = [
        "| traces | labels | what | median ms | 99 % ms | longest ms |",
        "|---|---|---|---|---|---|",
    ]
    steps = (
        "plain reading",
        "calibrail.read",
        "pandas, shuffled",
        "uniform begins",
        "uniform again",
    )
    for n in SIZES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            generate(folder, n)
            for suffix in ("jsonl", "parquet"):
                path = folder / f"traces.{suffix}"
                size = f"{suffix}, {path.stat().st_size / 2**20:.0f} MiB"
                for mode in steps:
                    row = measured(mode, path)
                    cells = f"{row['seconds']:.2f} | {row['peak']:.0f}"
                    opening.append(f"| {n:,} | {size} | {mode} | {cells} |")
            if n < SIZES[-1]:
                continue
            path = folder / "traces.jsonl"
            for design, count in LABELS.items():
                row = measured(f"{design} labels", path)
                taken = row["taken"]
                assert isinstance(taken, dict)
                said = f"| {n:,} | {design}"
                parts = (("first 500", slice(500)), (f"last 500 of {count:,}", slice(-500, None)))
                for part, place in parts:
                    for what, name in (("next", "next"), ("next, processor", "processor")):
                        row_of = milliseconds(taken[name][place])
                        waiting.append(f"{said}, {part} | {what} | {row_of} |")
                for what in ("put", "counts"):
                    waiting.append(f"{said}, all | {what} | {milliseconds(taken[what])} |")
                again = measured(f"{design} again", path)
                opening.append(
                    f"| {n:,} | jsonl | {design}, again after {count:,} labels | "
                    f"{again['seconds']:.2f} | {again['peak']:.0f} |"
                )
            row = measured("uniform meanwhile", path)
            taken = row["taken"]
            assert isinstance(taken, dict)
            for what, name in (("next", "next"), ("next, processor", "processor")):
                waiting.append(
                    f"| {n:,} | uniform, while the traces are read again | {what} | "
                    f"{milliseconds(taken[name])} |"
                )
    notes = [
        "`begins` reads all traces once and sets the first 4,096 groups aside; `again` goes on",
        "with these. `next` draws, asks the guardrail (a score of the data), brings the verdict up",
        "to date and writes the draw down; `put` is back when the label is on the disk. The traces",
        "are read again in the background as soon as 1,024 of the answers set aside are left. The",
        f"person who labels takes {THINKING} seconds.",
    ]
    libraries = ["numpy", "pyarrow", "pandas"]
    title = "Labelling among a million traces"
    write("label", title, [*notes, "", *opening, "", *waiting], libraries)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(step(sys.argv[1], Path(sys.argv[2]))))
    else:
        main()
