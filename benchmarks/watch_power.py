"""After how many rows does a watch notice a change, beside other monitors?

Every monitor has the same false-alarm rate: that of the watch, as measured on streams that do not
change. ``python benchmarks/watch_power.py [STREAMS]`` writes ``results/watch_power.md``: simulated
streams, and real rows where they lie beside the project. About ten minutes on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from results import write
from scipy.special import kolmogi
from validity.monitoring import follow
from watch_peers import (
    Statistic,
    first_above,
    in_windows,
    kolmogorov_smirnov,
    population_stability,
    rows_per_alarm,
    threshold_for,
)
from watch_sets import DATA, Change, real, simulated

from calibrail.conformal.change_point import alarm_threshold

Floats = NDArray[np.float64]

STREAMS = 400
#: Mean rows to a false alarm that the watch of one column states.
STATED = 10_000
REFERENCE, SMALL_REFERENCE = 1_000, 200
#: Rows of a stream that does not change, and of one after its change.
NULL_ROWS, AFTER = 100_000, 10_000
#: Rows between the reference and the change lie from the first of these up to 1,000 more.
CHANGES = (500, 9_500)
WINDOWS, SMALL_WINDOWS = (100, 500, 1_000), (25, 50, 100)
#: Streams whose windows are compared in one go.
BLOCK = 50


@dataclass(frozen=True)
class Peer:
    """A statistic of windows of one size."""

    name: str
    statistic: Statistic
    size: int

    @property
    def title(self) -> str:
        """Name and size of the windows."""
        return f"{self.name} {self.size:,}"

    def usual(self, reference: int) -> float:
        """Return the threshold by default: p = 0.05 for KS, 0.1 for PSI."""
        if self.name == "PSI":
            return 0.1
        return float(kolmogi(0.05)) * (1.0 / self.size + 1.0 / reference) ** 0.5


def peers(sizes: tuple[int, ...], *, named: bool) -> list[Peer]:
    """Return the peers; KS needs values in an order."""
    found = [] if named else [Peer("KS", kolmogorov_smirnov, size) for size in sizes]
    return found + [Peer("PSI", population_stability, size) for size in sizes]


def statistics(peer: Peer, reference: Floats, stream: Floats) -> Floats:
    parts = [
        peer.statistic(
            reference[start : start + BLOCK], in_windows(stream[start : start + BLOCK], peer.size)
        )
        for start in range(0, len(stream), BLOCK)
    ]
    return np.concatenate(parts)


def alarms(change: Change, reference: Floats, stream: Floats, seed: int) -> Floats:
    """Return the rows of the watch's first alarms."""
    feature = "language" if change.named else "score"
    return follow(reference, stream, (alarm_threshold(STATED),), feature=feature, seed=seed)[:, 0]


class Level(NamedTuple):
    """A peer's threshold, and its rows per false alarm there and by default."""

    threshold: float
    rows: float
    rows_by_default: float


class Rates:
    """False alarms of the watch, and thresholds of the peers that give as many.

    Thresholds of one column serve all changes of that column.
    """

    def __init__(self, streams: int, reference: int, sizes: tuple[int, ...]) -> None:
        self.streams, self.reference, self.sizes = streams, reference, sizes
        self.of: dict[str, tuple[float, dict[str, Level]]] = {}

    def measured(self, change: Change) -> tuple[float, dict[str, Level]]:
        """Return rows per false alarm of the watch, and the thresholds of the peers."""
        if change.column not in self.of:
            rng = np.random.default_rng(1)
            base = change.before(rng, (self.streams, self.reference))
            stream = change.before(rng, (self.streams, NULL_ROWS))
            first = alarms(change, base, stream, seed=1)
            wanted = rows_per_alarm(first, NULL_ROWS)
            levels = {}
            for peer in peers(self.sizes, named=change.named):
                found = statistics(peer, base, stream)
                level = threshold_for(found, peer.size, wanted)
                usual = peer.usual(self.reference)
                lengths = [
                    rows_per_alarm(first_above(found, at, peer.size), NULL_ROWS)
                    for at in (level, usual)
                ]
                levels[peer.title] = Level(level, *lengths)
            self.of[change.column] = (wanted, levels)
        return self.of[change.column]


def delays(
    change: Change, base: Floats, stream: Floats, at: NDArray[np.int64], rates: Rates
) -> dict[str, Floats]:
    """Return the rows from the change to the alarm of every monitor; NaN: alarmed before it."""
    _, levels = rates.measured(change)
    found = {"watch": alarms(change, base, stream, seed=2)}
    for peer in peers(rates.sizes, named=change.named):
        values = statistics(peer, base, stream)
        found[peer.title] = first_above(values, levels[peer.title].threshold, peer.size)
    return {name: np.where(first > at, first - at, np.nan) for name, first in found.items()}


def drawn_anew(change: Change, start: int, rates: Rates) -> dict[str, Floats]:
    """Return the delays where every row is drawn independently."""
    rng = np.random.default_rng(2)
    at = start + rng.integers(0, 1_000, rates.streams)
    size = (rates.streams, start + 1_000 + AFTER)
    base = change.before(rng, (rates.streams, rates.reference))
    rows = np.arange(size[1])
    stream = np.where(rows < at[:, None], change.before(rng, size), change.after(rng, size))
    return delays(change, base, stream, at, rates)


def each_once(change: Change, rates: Rates) -> dict[str, Floats]:
    """Return the delays where each real row comes once, in many orders."""
    assert change.rows is not None
    rng = np.random.default_rng(3)
    before, after = (
        rng.permuted(np.tile(part, (rates.streams, 1)), axis=1) for part in change.rows
    )
    base, rest = before[:, : rates.reference], before[:, rates.reference :]
    at = np.full(rates.streams, rest.shape[1])
    return delays(change, base, np.concatenate([rest, after], axis=1), at, rates)


def cell(delay: Floats, *, fastest: bool) -> str:
    """Return the median and the 90 % range of the delays of streams without a false alarm."""
    known = delay[~np.isnan(delay)]
    if not len(known):
        return "-"
    low, middle, high = (np.quantile(known, q, method="higher") for q in (0.05, 0.5, 0.95))
    if not np.isfinite(middle):
        return f"never ({np.isfinite(known).mean():.0%} found)"
    text = f"{shown(middle)} ({shown(low)} to {shown(high)})"
    return f"**{text}**" if fastest else text


def shown(value: float) -> str:
    return f"{value:,.0f}" if np.isfinite(value) else "never"


def middle(delay: Floats) -> float:
    known = delay[~np.isnan(delay)]
    return float(np.quantile(known, 0.5, method="higher")) if len(known) else np.inf


def compared(found: dict[str, Floats], titles: list[str]) -> tuple[str, list[str]]:
    """Return the cells of a row, and the peers with a shorter median than the watch."""
    medians = {name: middle(delay) for name, delay in found.items()}
    least = min(medians.values())
    cells = [
        cell(found[name], fastest=np.isfinite(least) and medians[name] == least)
        if name in found
        else ""
        for name in titles
    ]
    faster = [name for name in titles if medians.get(name, np.inf) < medians["watch"]]
    return " | ".join(cells), faster


def titles(sizes: tuple[int, ...]) -> list[str]:
    return ["watch", *(peer.title for peer in peers(sizes, named=False))]


def head(first: str, sizes: tuple[int, ...]) -> list[str]:
    names = " | ".join(titles(sizes))
    return [f"| {first} | {names} |", "|---" * (first.count("|") + 2 + 6) + "|"]


def rate_rows(rates: Rates, *, by_default: bool) -> Iterator[str]:
    """Yield what the monitors' false-alarm rates are."""
    for column, (ours, levels) in rates.of.items():
        cells = [f"{ours:,.0f}"]
        for name in titles(rates.sizes)[1:]:
            if name not in levels:
                cells.append("")
            elif by_default:
                rows = levels[name].rows_by_default
                cells.append(f"{rows:,.0f}" if np.isfinite(rows) else "no alarm")
            else:
                cells.append(f"{levels[name].rows:,.0f} (> {levels[name].threshold:.3g})")
        yield f"| {column} | {' | '.join(cells)} |"


def summed_up(faster: dict[str, list[str]]) -> list[str]:
    """Return in which rows which peers were faster."""
    lost = {name: found for name, found in faster.items() if found}
    lines = [f"A peer's median is shorter than that of the watch in {len(lost)} of {len(faster)}:"]
    lines += ["", *(f"- {name}: {', '.join(found)}" for name, found in lost.items())]
    return lines if lost else ["No peer's median is shorter than that of the watch in any row."]


def simulated_section(rates: Rates) -> list[str]:
    lines, faster = [], {}
    for change in simulated():
        for start in CHANGES:
            found = drawn_anew(change, start, rates)
            cells, sooner = compared(found, titles(rates.sizes))
            lines.append(f"| {change.name} | {start + 500:,} | {cells} |")
            faster[f"{change.name}, after {start + 500:,} rows"] = sooner
            print(lines[-1], flush=True)
    return [*head("change | rows before it", rates.sizes), *lines, "", *summed_up(faster)]


def real_section(rates: Rates) -> list[str]:
    lines, faster = [], {}
    for change in real():
        found = drawn_anew(change, CHANGES[0], rates)
        cells, sooner = compared(found, titles(rates.sizes))
        lines.append(f"| {change.name} | {cells} |")
        faster[change.name] = sooner
        print(lines[-1], flush=True)
    return [*head("change", rates.sizes), *lines, "", *summed_up(faster)]


def once_section(rates: Rates) -> list[str]:
    lines, faster = [], {}
    for change in real():
        assert change.rows is not None
        before, after = map(len, change.rows)
        if before < 2 * rates.reference:
            continue
        found = each_once(change, rates)
        cells, sooner = compared(found, titles(rates.sizes))
        lines.append(f"| {change.name} | {before - rates.reference:,} + {after:,} | {cells} |")
        faster[change.name] = sooner
        print(lines[-1], flush=True)
    return [*head("change | rows", rates.sizes), *lines, "", *summed_up(faster)]


def main() -> None:
    streams = int(sys.argv[1]) if len(sys.argv) > 1 else STREAMS
    large = Rates(streams, REFERENCE, WINDOWS)
    small = Rates(streams, SMALL_REFERENCE, SMALL_WINDOWS)
    first = simulated_section(large)
    there = DATA.is_dir()
    second = real_section(large) if there else [f"No data at {DATA.name}; see CALIBRAIL_DATA."]
    third = once_section(small) if there else []
    lines = [
        f"Medians (and 90 % ranges) over {streams:,} streams. Each monitor watches the one column "
        "that changes. KS and PSI compare windows of so many rows with a reference, as NannyML "
        "(0.13) and Evidently (0.7) do: written with numpy here, and equal to what these packages "
        "compute of the same columns. They may look at the end of each window only; the watch "
        "looks at every row. What labels show: `watch_labels.md`.",
        "",
        f"**One false-alarm rate.** The watch states a mean of at least {STATED:,} rows to a false "
        "alarm for one column. What it really has was measured on streams that do not change, "
        f"{NULL_ROWS:,} rows long: rows watched for each first alarm. Each peer's threshold is the "
        "one that comes closest to as many rows on the same streams.",
        "",
        "Alarms of a watch with its defaults come later: six features and an `--arl` of 100,000 "
        "need 60 times as much evidence as one at 10,000 here, which takes 1.5 to 2 times as many "
        "rows.",
        "",
        "## Rows for each false alarm",
        "",
        "In brackets the threshold that gives so many.",
        "",
        *head("column", WINDOWS),
        *rate_rows(large, by_default=False),
        "",
        "By default, KS at p < 0.05 and PSI at > 0.1, which no table below uses:",
        "",
        *head("column", WINDOWS),
        *rate_rows(large, by_default=True),
        "",
        "## Where peers are faster, and why",
        "",
        "The watch ranks each row among the reference and all rows since, changed ones too: that "
        "makes its promise exact whatever the distribution, and makes it forget. A change that is "
        "so small that it is not found within about as many rows as there were before it becomes "
        "the rule, and may never be found. A test of windows against a reference that stays does "
        "not forget: its median is shorter for small changes soon after the start of a watch, "
        "where its window has the right size for the change. A longer reference helps the watch.",
        "",
        "## Simulated",
        "",
        f"Reference: {REFERENCE:,} rows; then rows as before, then the change. Rows from the "
        f"change to the alarm, of the streams without a false alarm before it, up to {AFTER:,}. "
        "The shortest median is bold.",
        "",
        *first,
        "",
        "## Real rows, drawn anew",
        "",
        f"As above, with a change after {CHANGES[0] + 500:,} rows on average; each row is drawn "
        "from all rows of its side, so that streams are as long as above.",
        "",
        *second,
        "",
        "## Real rows, each once",
        "",
        f"Many orders of the same rows: {SMALL_REFERENCE} are the reference, the rest of the first "
        "side comes before the change, all of the other side after it. Windows are smaller, and "
        "thresholds their own.",
        "",
        *third,
    ]
    if streams < STREAMS:
        print("\n".join(lines))
    else:
        write("watch_power", "How soon a watch notices a change", lines, ("numpy",))


if __name__ == "__main__":
    main()
