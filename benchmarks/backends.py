"""What does another library or precision cost a detector under guarantee, and what does it gain?

The embedded encoder by torch, onnxruntime and OpenVINO, on HaluEval QA and RAGTruth QA: seconds for
all distinct texts, cosine errors against torch in float32, and what `compare` says of `rad` by
each. Where a small entailment model lies at ``CALIBRAIL_MODELS`` (``nli-minilm``, 22 million
parameters), the same for its probabilities.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from results import write

from calibrail import compare
from calibrail.data import Example, read
from calibrail.models.backends import n_threads
from calibrail.models.encoder import load_encoder
from calibrail.models.nli import EntailmentModel, load_nli
from calibrail.scores import build, key_of
from calibrail.scores.registry import ScoreSpec

SHARED = Path(__file__).resolve().parents[1] / ".." / "shared"
DATA = Path(os.environ.get("CALIBRAIL_DATA", SHARED / "data"))
MODEL = Path(os.environ.get("CALIBRAIL_MODELS", SHARED / "models")) / "nli-minilm"
SETS = {"HaluEval QA": "halueval/qa_data.json", "RAGTruth QA": "ragtruth"}
KINDS: dict[str, dict[str, str]] = {
    "torch float32": {},
    "torch bfloat16": {"dtype": "bfloat16"},
    "onnx float32": {"backend": "onnx"},
    "onnx int8": {"backend": "onnx", "dtype": "int8"},
    "openvino float32": {"backend": "openvino"},
}
ALPHA = 0.1
#: Where `sgi` tells answers apart; `rad` flags nearly all of them on both sets.
SKILLED = "HaluEval QA"
#: Answers read of each set, and pairs that the entailment model judges.
LARGEST = int(os.environ.get("CALIBRAIL_ANSWERS", "1000"))
PAIRS = 100

Floats = NDArray[np.float64]


def in_turns(
    works: dict[str, Callable[[Sequence[Any]], Floats]], items: Sequence[Any], block: int
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return each one's seconds, by the clock and of all cores, and what it computed.

    They take turns, block by block, so that all of them meet the same load.
    """
    seconds = {name: np.zeros(2) for name in works}
    values: dict[str, list[Floats]] = {name: [] for name in works}
    for start in range(0, len(items), block):
        for name, work in works.items():
            before = np.array([time.perf_counter(), time.process_time()])
            values[name].append(work(items[start : start + block]))
            seconds[name] += np.array([time.perf_counter(), time.process_time()]) - before
    return seconds, {name: np.concatenate(parts) for name, parts in values.items()}


def encoded(texts: Sequence[str]) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return seconds and unit vectors by kind; the vectors stay known to the encoders."""
    encoders = {name: load_encoder(**options) for name, options in KINDS.items()}
    for encoder in encoders.values():
        encoder.sentences(["Opened, and exported where it must be."])
    works = {name: encoder.sentences for name, encoder in encoders.items()}
    return in_turns(works, texts, 500)


def spelled(options: dict[str, str], score: str = "rad") -> str:
    """Return a score with its options as a report names it."""
    return key_of(build(ScoreSpec(score, options)))


def vectors_section(name: str, examples: list[Example]) -> list[str]:
    """Return what was measured on one data set."""
    texts = list(
        dict.fromkeys(
            text for item in examples for text in (*item.contexts, item.response) if text.strip()
        )
    )
    seconds, vectors = encoded(texts)
    base, exact = seconds["torch float32"], vectors["torch float32"]
    run = compare(examples, [spelled(options) for options in KINDS.values()], alpha=ALPHA)
    found = {item["name"]: item for item in run.to_dict()["detectors"]}
    lines = [
        "",
        f"## {name}: {len(examples):,} answers, {len(texts):,} distinct texts",
        "",
        "| encoder | seconds | of torch | core seconds | of torch | 1 - cosine: mean | largest "
        "| threshold of `rad` | coverage | FPR | AUROC |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for kind, options in KINDS.items():
        wall, cpu = seconds[kind]
        apart = 1.0 - (vectors[kind] * exact).sum(axis=1)
        item: Any = found[spelled(options)]
        test = item["test"]
        lines.append(
            f"| {kind} | {wall:.1f} | {wall / base[0]:.2f} | {cpu:.1f} | {cpu / base[1]:.2f} "
            f"| {max(0.0, apart.mean()):.1e} | {max(0.0, apart.max()):.1e} "
            f"| {item['threshold']:.4f} | {share(test['coverage'])} | {share(test['fpr'])} "
            f"| {test['auroc']['estimate']:.3f} |"
        )
    return lines


def share(measure: dict[str, Any]) -> str:
    """Return a share with its interval."""
    estimate, lower, upper = (100.0 * measure[key] for key in ("estimate", "lower", "upper"))
    return f"{estimate:.1f} % ({lower:.1f} to {upper:.1f})"


def guarantee_section(name: str, examples: list[Example]) -> list[str]:
    """Return what each is worth under guarantee as a detector that has some skill on a set."""
    run = compare(examples, [spelled(options, "sgi") for options in KINDS.values()], alpha=ALPHA)
    found = {item["name"]: item for item in run.to_dict()["detectors"]}
    lines = [
        "",
        f"## `sgi` under guarantee: {name}, {len(examples):,} answers",
        "",
        "| encoder | threshold | coverage | FPR | AUROC |",
        "|---|---|---|---|---|",
    ]
    for kind, options in KINDS.items():
        item: Any = found[spelled(options, "sgi")]
        test = item["test"]
        lines.append(
            f"| {kind} | {item['threshold']:.4f} | {share(test['coverage'])} "
            f"| {share(test['fpr'])} | {test['auroc']['estimate']:.3f} |"
        )
    return lines


def pairs_section(examples: list[Example]) -> list[str]:
    """Return what was measured of a model of pairs."""
    pairs = [("\n".join(item.contexts), item.response) for item in examples[:PAIRS]]

    models = {name: load_nli(str(MODEL), **options) for name, options in KINDS.items()}
    for model in models.values():
        model.judge([("It was opened.", "It is open, and exported where it must be.")])

    def work(model: EntailmentModel) -> Callable[[Sequence[Any]], Floats]:
        return lambda block: np.array([said.entailment for said in model.judge(block)])

    works = {name: work(model) for name, model in models.items()}
    seconds, found = in_turns(works, pairs, 25)
    base, exact = seconds["torch float32"], found["torch float32"]
    lines = [
        "",
        f"## A model of pairs: nli-minilm on {len(pairs)} pairs of RAGTruth QA",
        "",
        "| model | seconds | of torch | core seconds | of torch | change of P(entailment): mean "
        "| largest |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        wall, cpu = seconds[kind]
        apart = np.abs(found[kind] - exact)
        lines.append(
            f"| {kind} | {wall:.1f} | {wall / base[0]:.2f} | {cpu:.1f} | {cpu / base[1]:.2f} "
            f"| {apart.mean():.1e} | {apart.max():.1e} |"
        )
    return lines


def main() -> None:
    if missing := [str(DATA / place) for place in SETS.values() if not (DATA / place).exists()]:
        print(f"skipped: no data set at {', '.join(missing)}; set CALIBRAIL_DATA")
        return
    lines = [
        f"Blocks of texts taken in turns, {n_threads()} threads, on a machine that others use: "
        "seconds of the cores say more than those of the clock. `rad` by each is calibrated "
        f"to catch {1 - ALPHA:.0%} of hallucinations on the same half of the answers by `compare`; "
        "coverage and FPR are those of the other half, with 95 % intervals. No graphics processor.",
    ]
    examples: list[Example] = []
    for name, place in SETS.items():
        examples = list(read(DATA / place))[:LARGEST]
        lines += vectors_section(name, examples)
        if name == SKILLED:
            lines += guarantee_section(name, examples)
    if MODEL.is_dir():
        lines += pairs_section(examples)
    libraries = ("torch", "sentence-transformers", "transformers", "onnxruntime", "openvino")
    write("backends", "Backends", lines, libraries)


if __name__ == "__main__":
    main()
