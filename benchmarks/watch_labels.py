"""After how many labels does a watch notice that a promise is broken, beside MAPIE?

Both have the same labels in the same order, and are wrong equally often where the promise is just
kept. ``python benchmarks/watch_labels.py [STREAMS]`` writes ``results/watch_labels.md``. About five
minutes on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from results import write
from watch_peers import RiskBoundary
from watch_sets import DATA, table

from calibrail.conformal.sequential.betting import counted_bets, evidence

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

STREAMS = 1_000
#: Tolerated miss rate, and what it really is before a change.
LIMIT, BEFORE = 0.1, 0.05
#: Miss rates after it, and labels of hallucinated answers before it.
AFTER, STARTS = (0.15, 0.2, 0.3, 0.5), (0, 200, 1_000)
#: A broken promise is said falsely, ever, with at most this probability, as the watch states.
STATED = 0.05
#: Labels in a stream whose promise is just kept, and the most after a change.
NULL_LABELS, MOST = 5_000, 3_000
#: Of these labels, how many come with one batch: 20 answers a day, one in ten hallucinated. A new
#: bet begins with each batch, so that smaller ones leave less for each.
BATCH = 2
#: Thresholds of the replays let this share of the first side's hallucinated answers pass.
PASSED = 0.05
REFERENCE_LABELS = 200


class Rivals:
    """MAPIE's monitor at its stated level, and at the level that errs as often as the watch."""

    def __init__(self, streams: int) -> None:
        rng = np.random.default_rng(11)
        missed = rng.random((streams, NULL_LABELS)) < LIMIT
        self.ours = float(np.isfinite(broken(missed)).mean())
        rows = max(NULL_LABELS, max(STARTS) + MOST)
        self.stated = RiskBoundary.of_mapie(STATED, rows)
        self.stated_error = error(self.stated, missed)
        # In halves of the logarithm: the highest level that errs no more often. One above 1 is none
        # that the class takes; its boundary goes on.
        low, high = np.log(1e-3), np.log(1.99)
        for _ in range(12):
            middle = (low + high) / 2.0
            made = RiskBoundary.of_mapie(float(np.exp(middle)), rows)
            low, high = (middle, high) if error(made, missed) <= self.ours else (low, middle)
        self.matched = RiskBoundary.of_mapie(float(np.exp(low)), rows)
        self.matched_error = error(self.matched, missed)


def broken(missed: Bools) -> Floats:
    """Return the label with which the watch says that the promise is broken, or inf."""
    starts, goal = np.arange(0, missed.shape[1], BATCH), np.log(2.0 / STATED)
    first = np.full(len(missed), np.inf)
    for stream, row in enumerate(missed):
        bets = counted_bets((~row).astype(np.float64), 1.0 - LIMIT, above=False)
        won = evidence(bets, starts) >= goal
        if won.any():
            first[stream] = won.argmax() + 1.0
    return first


def noticed(boundary: RiskBoundary, missed: Bools) -> Floats:
    """Return the label with which MAPIE's monitor raises its alarm, or inf."""
    above = boundary.lower(missed.astype(np.float64)) > LIMIT
    return np.where(above.any(axis=1), above.argmax(axis=1) + 1.0, np.inf)


def error(boundary: RiskBoundary, missed: Bools) -> float:
    return float(np.isfinite(noticed(boundary, missed)).mean())


def ranges(first: Floats, start: int) -> str:
    """Return the median and 90 % range of labels after the change, where none came before it."""
    delay = (first - start)[first > start]
    if not len(delay):
        return "-"
    low, middle, high = (np.quantile(delay, q, method="higher") for q in (0.05, 0.5, 0.95))
    text = [f"{value:,.0f}" if np.isfinite(value) else "never" for value in (low, middle, high)]
    return f"{text[1]} ({text[0]} to {text[2]})"


def compared(missed: Bools, start: int, rivals: Rivals) -> tuple[str, bool]:
    """Return the cells of a row, and whether MAPIE was faster at the same error."""
    ways = [
        broken(missed),
        noticed(rivals.matched, missed),
        noticed(rivals.stated, missed),
    ]
    middles = [float(np.median((way - start)[way > start])) for way in ways]
    return " | ".join(ranges(way, start) for way in ways), middles[1] < middles[0]


def simulated(streams: int, rivals: Rivals) -> Iterator[tuple[str, str, bool]]:
    for after in AFTER:
        for start in STARTS:
            rng = np.random.default_rng(12)
            rate = np.where(np.arange(start + MOST) < start, BEFORE, after)
            missed = rng.random((streams, start + MOST)) < rate
            cells, faster = compared(missed, start, rivals)
            name = f"missed: {BEFORE:.0%}, then {after:.0%}"
            yield f"| {name} | {start:,} | {cells} |", f"{name}, after {start:,} labels", faster


def replayed(streams: int, rivals: Rivals) -> Iterator[tuple[str, str, bool]]:
    """Yield the same for real answers, whose threshold was set on the first side."""
    rng = np.random.default_rng(13)
    for name, first, then in sides():
        threshold = float(np.quantile(first, PASSED, method="lower"))
        before, after = first < threshold, then < threshold
        size = (streams, REFERENCE_LABELS)
        parts = [before[rng.integers(0, len(before), size)]]
        parts.append(after[rng.integers(0, len(after), (streams, MOST))])
        cells, faster = compared(np.concatenate(parts, axis=1), REFERENCE_LABELS, rivals)
        name = f"{name} (missed: {before.mean():.0%}, then {after.mean():.0%})"
        yield f"| {name} | {REFERENCE_LABELS} | {cells} |", name, faster


def sides() -> Iterator[tuple[str, Floats, Floats]]:
    """Yield the scores of hallucinated answers of both sides; higher = more likely hallucinated."""
    frank = table("frank/metric_scores.csv")
    for column in ("bertscore_p_article", "feqa"):
        parts = [
            [
                -float(row[column])
                for row in frank
                if row["dataset"] == source and row["label"] == "1" and row[column].strip()
            ]
            for source in ("bbc", "cnndm")
        ]
        if all(parts):
            yield f"FRANK {column}: bbc, then cnndm", *map(np.array, parts)
    rows = [row for row in table("faithbench/summaries.csv") if row["label"] == "1"]
    if rows:
        parts = [
            [-float(row["hhem_2_1"]) for row in rows if row["summarizer"].startswith(names)]
            for names in (("mistral", "microsoft", "Anthropic"), ("openai", "Qwen"))
        ]
        yield "FaithBench hhem_2_1: three makers, then two others", *map(np.array, parts)


def table_of(rows: list[tuple[str, str, bool]]) -> list[str]:
    head = "change | labels before it | watch | MAPIE, same error | MAPIE, level as stated"
    return [f"| {head} |", "|---" * 5 + "|", *(line for line, _, _ in rows)]


def main() -> None:
    streams = int(sys.argv[1]) if len(sys.argv) > 1 else STREAMS
    rivals = Rivals(streams)
    rows = list(simulated(streams, rivals))
    real = list(replayed(streams, rivals)) if DATA.is_dir() else []
    faster = [name for _, name, sooner in [*rows, *real] if sooner]
    lines = [
        "Concept change: scores stay as they are and mean something else. No monitor of scores can "
        "see it. With labels the watch says that the promise is broken; MAPIE's `RiskMonitoring` "
        "has the same labels in the same order, one by one, and the same limit (a miss rate of "
        f"{LIMIT:g}). Labels are counted that are of hallucinated answers; a batch holds "
        f"{BATCH} of them, as where 20 answers a day are drawn and one in ten is hallucinated. "
        f"Medians (and 90 % ranges) over "
        f"{streams:,} streams of the labels from the change on, up to {MOST:,}, where "
        "no alarm came before it.",
        "",
        f"**One error.** Where the miss rate is {LIMIT:g} all the time, the watch says ever within "
        f"{NULL_LABELS:,} labels that the promise is broken in {rivals.ours:.2%} of the streams "
        f"(stated: {STATED:.0%} for coverage and FPR together, of which this is one); MAPIE at "
        f"level {STATED:g} in {rivals.stated_error:.2%}, and at {rivals.matched.level:.3g} in "
        f"{rivals.matched_error:.2%}. MAPIE keeps half of its level for a reference, and half of "
        "the rest for another side; where its level is above 1 the class would not take it, and "
        "its boundary alone is brought to the same error.",
        "",
        "## Simulated",
        "",
        *table_of(rows),
        "",
        "## Real answers",
        "",
        f"Drawn anew; the threshold lets {PASSED:.0%} of the hallucinated ones of the first side "
        "pass.",
        "",
        *table_of(real),
        "",
        "## Where MAPIE is faster",
        "",
        f"At the same error, by the median, in {len(faster)} of {len(rows) + len(real)} rows"
        + (":" if faster else "."),
        "",
        *(f"- {name}" for name in faster),
    ]
    if streams < STREAMS:
        print("\n".join(lines))
    else:
        title = "How soon labels show that a promise is broken"
        write("watch_labels", title, lines, ("numpy", "mapie"))


if __name__ == "__main__":
    main()
