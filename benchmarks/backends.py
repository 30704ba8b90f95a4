"""What does another library or precision cost a detector under guarantee, and what does it gain?

The embedded encoder by torch, onnxruntime and OpenVINO, on HaluEval QA and RAGTruth QA: seconds for
all texts that a detector with some skill on the set reads, errors of the vectors against torch in
float32, and what each is worth under guarantee. Each scores the answers once; the scores are then
split and calibrated many times over. Where a small entailment model lies at ``CALIBRAIL_MODELS``
(``nli-minilm``, 22 million parameters), the same for its probabilities.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from results import write

from calibrail.conformal.threshold import calibrate_threshold, flags_under
from calibrail.data import Example, read
from calibrail.data.splits import CALIBRATION, TEST, group_numbers, split
from calibrail.evaluation.stats.auroc import auroc
from calibrail.models.classifiers import EntailmentModel
from calibrail.models.hardware import n_threads
from calibrail.options import Promise
from calibrail.scores import build, parse_spec
from calibrail.scores.registry import ScoreSpec

SHARED = Path(__file__).resolve().parents[1] / ".." / "shared"
DATA = Path(os.environ.get("CALIBRAIL_DATA", SHARED / "data"))
MODEL = Path(os.environ.get("CALIBRAIL_MODELS", SHARED / "models")) / "nli-minilm"


class DataSet(NamedTuple):
    """A set of answers, and a detector that tells them apart (``results/detectors.md``)."""

    name: str
    place: str
    detector: str


SETS = (
    DataSet("HaluEval QA", "halueval/qa_data.json", "sgi"),
    DataSet("RAGTruth QA", "ragtruth", "rad:level=sentence"),
)
KINDS: dict[str, dict[str, str]] = {
    "torch float32": {},
    "torch bfloat16": {"dtype": "bfloat16"},
    "onnx float32": {"backend": "onnx"},
    "openvino float32": {"backend": "openvino"},
}
ALPHA = 0.1
SPLITS, RESAMPLES = 20, 200
#: Answers read of each set at most, and pairs that the entailment model judges.
LARGEST, PAIRS = 1000, 50

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Cells(NamedTuple):
    """What the summary says of one kind: time and largest change against torch in float32."""

    time: str
    moved: str
    lost: str = ""


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


def timed(seconds: Floats, base: Floats) -> str:
    """Return the cells that say what one kind took."""
    wall, cpu = seconds
    return f"{cpu:.1f} | {cpu / base[1]:.2f} | {wall:.1f} | {wall / base[0]:.2f}"


def set_section(data: DataSet, examples: list[Example]) -> tuple[list[str], dict[str, Cells]]:
    """Return what was measured on one data set, and its cells of the summary."""
    plain = parse_spec(data.detector)
    scores: dict[str, Any] = {
        kind: build(ScoreSpec(plain.name, {**plain.params, **options}))
        for kind, options in KINDS.items()
    }
    (demand,) = scores["torch float32"].demands(examples)
    texts = list(demand.parts[0])
    for score in scores.values():
        score.encoder.sentences(["Opened, and exported where it must be."])
    works = {kind: score.encoder.sentences for kind, score in scores.items()}
    # The vectors stay known to the encoders, where the scores look them up.
    seconds, vectors = in_turns(works, texts, 500)
    columns = np.array([score.score(examples).values for score in scores.values()])
    base, exact = seconds["torch float32"], vectors["torch float32"]
    lines = [
        "",
        f"## {data.name}: `{data.detector}`, {len(examples):,} answers, {len(texts):,} texts",
        "",
        "| encoder | core seconds | of torch | seconds | of torch | 1 - cosine: mean | largest "
        "| largest change of a component |",
        "|---|---|---|---|---|---|---|---|",
    ]
    apart = {kind: 1.0 - (vectors[kind] * exact).sum(axis=1) for kind in KINDS}
    for kind in KINDS:
        lines.append(
            f"| {kind} | {timed(seconds[kind], base)} | {error(apart[kind].mean())} "
            f"| {error(apart[kind].max())} | {error(np.abs(vectors[kind] - exact).max())} |"
        )
    rows, lost = guarantee_rows(columns, examples)
    cells = {
        kind: Cells(
            f"{seconds[kind][1] / base[1]:.2f}",
            error(apart[kind].max()),
            lost[kind],
        )
        for kind in KINDS
    }
    return [*lines, *rows], cells


def error(value: float) -> str:
    """Return an error in two digits; 0 where rounding alone is left of it."""
    return "0" if value < 1e-15 else f"{value:.1e}"


def guarantee_rows(columns: Floats, examples: list[Example]) -> tuple[list[str], dict[str, str]]:
    """Return what each kind is worth under guarantee, and how its false alarms changed."""
    labels = np.array([example.label for example in examples])
    groups = group_numbers([example.group for example in examples], len(examples))
    measured = calibrated(columns, labels, groups, range(SPLITS))
    change = resampled(columns, labels, groups)
    spread = np.nanstd(columns[0])
    n = int((labels == 1).sum())
    lines = [
        "",
        f"{n} hallucinated and {len(labels) - n} faithful answers, {groups.max() + 1} sources.",
        "",
        "| encoder | threshold | its change, in standard deviations of the score: largest "
        "| coverage | coverage at torch's threshold | FPR | FPR less torch's | AUROC |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lost = {}
    for number, kind in enumerate(KINDS):
        threshold, coverage, borrowed, fpr = measured[:, number].T
        moved = np.abs(threshold - measured[:, 0, 0]).max() / spread
        area = auroc(columns[number][labels == 1], columns[number][labels == 0])
        paired = (fpr - measured[:, 0, 3]).mean()
        low, high = np.percentile(change[:, number], [2.5, 97.5])
        lost[kind] = f"{points(paired)} ({points(low)} to {points(high)})" if number else ""
        lines.append(
            f"| {kind} | {threshold.mean():.4f} | {error(moved)} | {share(coverage)} "
            f"| {share(borrowed)} | {share(fpr)} | {lost[kind]} "
            f"| {area.estimate:.4f} ({area.lower:.3f} to {area.upper:.3f}) |"
        )
    return lines, lost


def calibrated(columns: Floats, labels: Ints, groups: Ints, seeds: Sequence[int]) -> Floats:
    """Return what calibration on one half gives on the other, shape (splits, kinds, 4).

    The last axis: threshold, coverage, coverage at torch's threshold, FPR. All kinds meet the same
    splits.
    """
    promise = Promise(alpha=ALPHA)
    result = np.empty((len(seeds), len(columns), 4))
    for place, seed in enumerate(seeds):
        sides = split(labels, groups, seed=seed)
        learnt = (sides == CALIBRATION) & (labels == 1)
        wrong, right = ((sides == TEST) & (labels == label) for label in (1, 0))
        for number, values in enumerate(columns):
            made = calibrate_threshold(values[learnt], promise)
            first = made.threshold if number == 0 else result[place, 0, 0]
            result[place, number] = (
                made.threshold,
                made.flags(values[wrong]).mean(),
                flags_under("flag", values[wrong], first).mean(),
                made.flags(values[right]).mean(),
            )
    return result


def resampled(columns: Floats, labels: Ints, groups: Ints) -> Floats:
    """Return FPR less torch's, mean over the splits, for resamples of sources, shape (B, kinds).

    A source that is drawn twice stays whole, so that nothing lies in both halves.
    """
    rng = np.random.default_rng(0)
    members = [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]
    changes = []
    for resample in range(1, RESAMPLES + 1):
        drawn = rng.integers(0, len(members), len(members))
        rows = np.concatenate([members[group] for group in drawn])
        seeds = range(resample * SPLITS, (resample + 1) * SPLITS)
        fpr = calibrated(columns[:, rows], labels[rows], groups[rows], seeds)[:, :, 3]
        changes.append((fpr - fpr[:, :1]).mean(axis=0))
    return np.array(changes)


def share(values: Floats) -> str:
    """Return the mean of shares over the splits, with their standard deviation."""
    return f"{values.mean():.1%} ({values.std(ddof=1):.1%})".replace("%", " %")


def points(value: float) -> str:
    """Return a difference of shares in percentage points."""
    return f"{100.0 * value + 0.0:+.1f}"


def pairs_section(examples: list[Example]) -> tuple[list[str], dict[str, Cells]]:
    """Return what was measured of a model of pairs, and its cells of the summary."""
    pairs = [("\n".join(item.contexts), item.response) for item in examples[:PAIRS]]

    models = {name: EntailmentModel(str(MODEL), **options) for name, options in KINDS.items()}
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
        "| model | core seconds | of torch | seconds | of torch | change of P(entailment): mean "
        "| largest |",
        "|---|---|---|---|---|---|---|",
    ]
    cells = {}
    for kind in KINDS:
        apart = np.abs(found[kind] - exact)
        lines.append(
            f"| {kind} | {timed(seconds[kind], base)} | {error(apart.mean())} "
            f"| {error(apart.max())} |"
        )
        cells[kind] = Cells(f"{seconds[kind][1] / base[1]:.2f}", error(apart.max()))
    return lines, cells


def summary(sets: Sequence[dict[str, Cells]], pairs: dict[str, Cells]) -> list[str]:
    """Return the table that the documentation shows."""
    names = [data.name for data in SETS]
    head = [
        "",
        *(f"time, {name}" for name in names),
        *(f"1 - cosine, largest, {name}" for name in names),
        *(f"FPR less torch's, points, {name}" for name in names),
    ]
    head += ["time, pairs", "P(entailment) moves by at most"] if pairs else []
    lines = ["", "## Summary", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for kind in KINDS:
        row = [kind]
        for part in ("time", "moved", "lost"):
            row += [getattr(cells[kind], part) for cells in sets]
        row += [pairs[kind].time, pairs[kind].moved] if pairs else []
        lines.append(f"| {' | '.join(row)} |")
    return lines


def main() -> None:
    if missing := [str(DATA / item.place) for item in SETS if not (DATA / item.place).exists()]:
        print(f"skipped: no data set at {', '.join(missing)}; set CALIBRAIL_DATA")
        return
    before = os.getloadavg()[0]
    lines: list[str] = []
    sets: list[dict[str, Cells]] = []
    pairs: dict[str, Cells] = {}
    examples: list[Example] = []
    for data in SETS:
        examples = list(read(DATA / data.place))[:LARGEST]
        section, cells = set_section(data, examples)
        lines += section
        sets.append(cells)
    if MODEL.is_dir():
        section, pairs = pairs_section(examples)
        lines += section
    preface = [
        f"Blocks of texts taken in turns, {n_threads()} threads, on a machine that others use "
        f"(load {before:.1f} at the start, {os.getloadavg()[0]:.1f} at the end): seconds of the "
        "cores say more than those of the clock. No graphics processor. Times are those of the "
        "texts that the detector reads: whole questions, contexts and answers for `sgi`, "
        "sentences for `rad:level=sentence`.",
        "",
        f"Each scored the answers once. The scores were split in halves by source {SPLITS} "
        f"times, the same way for all, calibrated on one half to catch {1 - ALPHA:.0%} of "
        "hallucinations, and measured on the other: means over the splits, in brackets their "
        "standard deviation. FPR less torch's: in percentage points, the mean over the same "
        f"splits with a 95 % interval from {RESAMPLES} resamples of the sources, each split "
        f"{SPLITS} times. AUROC of all answers, with DeLong's 95 % interval.",
    ]
    libraries = ("torch", "sentence-transformers", "transformers", "onnxruntime", "openvino")
    write("backends", "Backends", [*preface, *summary(sets, pairs), *lines], libraries)


if __name__ == "__main__":
    main()
