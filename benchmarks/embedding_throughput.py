"""What do three detectors cost beyond the forward passes that their texts need anyway?

Scores HaluEval QA with sgi, rad and tfg, and encodes the same distinct texts with a bare
``SentenceTransformer.encode``, in turns. Goal: at most 0.75 times its time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from results import write

from calibrail import calibrate
from calibrail.data import read
from calibrail.engine import score_examples
from calibrail.models.embeddings import load_encoder
from calibrail.models.loading import DEFAULT_MODEL, locate
from calibrail.scores import build, parse_specs

SCORES = "sgi,rad,tfg"
ROUNDS = 3
DEFAULT_DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return seconds of wall clock and of all cores together."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    source = Path(os.environ.get("CALIBRAIL_DATA", DEFAULT_DATA)) / "halueval" / "qa_data.json"
    if not source.is_file():
        print(f"skipped: no data set at {source}; set CALIBRAIL_DATA")
        return
    from sentence_transformers import SentenceTransformer

    examples = list(read(source))
    texts = list(
        dict.fromkeys(
            text for item in examples for text in (item.question, *item.contexts, item.response)
        )
    )
    model = SentenceTransformer(str(locate(DEFAULT_MODEL).folder))
    encoder = load_encoder()
    model.encode(texts[:64], batch_size=32)
    encoder.sentences(texts[:64])

    def score() -> None:
        score_examples(examples, [build(spec) for spec in parse_specs(SCORES)])

    def run() -> None:
        calibrate(str(source), SCORES, alpha=0.05, max_fpr=0.2)

    works: dict[str, Callable[[], object]] = {
        "bare `SentenceTransformer.encode`, batch size 32": lambda: model.encode(
            texts, batch_size=32
        ),
        f"scoring with {SCORES}": score,
        f"`calibrate --score {SCORES}`, reading, baselines and report included": run,
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            encoder.forget()
            found[name].append(timed(work))
    before = encoder.n_embedded
    score()
    embedded = encoder.n_embedded - before
    best = {
        name: [min(column) for column in zip(*runs, strict=True)] for name, runs in found.items()
    }
    bare = next(iter(best.values()))
    lines = [
        f"{len(examples):,} answers of HaluEval QA, {len(texts):,} distinct texts, of which "
        f"{embedded:,} ran through the encoder. Best of {ROUNDS} rounds taken in turns. "
        "Goal: at most 0.75 times the bare encoding.",
        "",
        "| what | seconds | ratio | core seconds | ratio |",
        "|---|---|---|---|---|",
    ]
    for name, (wall, cpu) in best.items():
        lines.append(
            f"| {name} | {wall:.1f} | {wall / bare[0]:.2f} | {cpu:.1f} | {cpu / bare[1]:.2f} |"
        )
    write(
        "embedding_throughput",
        "Embedding throughput",
        lines,
        ["torch", "sentence-transformers", "transformers"],
    )


if __name__ == "__main__":
    main()
