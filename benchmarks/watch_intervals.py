"""How often does an interval that is read after every label miss, and how wide is it?

The confidence sequence of the watch beside asymptotic ones, on labels one by one, as they come in.
``python benchmarks/watch_intervals.py [STREAMS]`` writes ``results/watch_intervals.md``. About one
minute on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from results import write
from scipy.special import ndtri

from calibrail.conformal import clopper_pearson
from calibrail.conformal.sequential.betting import confidence_sequence
from calibrail.conformal.sequential.forecast import most_or_least

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Ends of one interval for each pair of a count and a number of labels.
Interval = Callable[[Ints, Ints], tuple[Floats, Floats]]

STREAMS = 10_000
COVERAGES = (0.9, 0.95, 0.99)
LOOKS = (100, 1_000, 10_000)
CONFIDENCE = 0.95
#: Labels at which the asymptotic sequence is as narrow as its parameter can make it.
TUNED_AT = 1_000
#: Asymptotic intervals are also read from here on only, after which they may be hoped to hold.
BURN_IN = 100
#: Streams that are followed in one go.
BLOCK = 500


def ours(count: Ints, n: Ints) -> tuple[Floats, Floats]:
    return confidence_sequence(count, n, CONFIDENCE)


def asymptotic(count: Ints, n: Ints) -> tuple[Floats, Floats]:
    """Return the asymptotic confidence sequence of a mean with its estimated variance.

    Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), "Time-uniform central limit theory and
    asymptotic confidence sequences", Annals of Statistics 52(6), with its parameter for the least
    width at one time.
    """
    error, rate = 1.0 - CONFIDENCE, count / n
    rho2 = (-2.0 * np.log(error) + np.log(1.0 - 2.0 * np.log(error))) / TUNED_AT
    grown = n * rho2 + 1.0
    half = np.sqrt(
        rate * (1.0 - rate) * 2.0 * grown / (n**2 * rho2) * np.log(np.sqrt(grown) / error)
    )
    return np.clip(rate - half, 0.0, 1.0), np.clip(rate + half, 0.0, 1.0)


def wald(count: Ints, n: Ints) -> tuple[Floats, Floats]:
    """Return the interval of the central limit theorem for one look after a fixed number."""
    rate = count / n
    half = float(ndtri((1.0 + CONFIDENCE) / 2.0)) * np.sqrt(rate * (1.0 - rate) / n)
    return np.clip(rate - half, 0.0, 1.0), np.clip(rate + half, 0.0, 1.0)


def exact(count: Ints, n: Ints) -> tuple[Floats, Floats]:
    """Return the exact interval for one look; numbers of labels are all the same."""
    values, inverse = np.unique(count, return_inverse=True)
    ends = np.array([clopper_pearson(int(k), int(n.flat[0]), CONFIDENCE) for k in values])
    return ends[inverse, 0].reshape(count.shape), ends[inverse, 1].reshape(count.shape)


def misses(interval: Interval, counts: Ints, n: Ints, rate: float) -> NDArray[np.bool_]:
    """Return whether the true rate lies outside the interval of each count."""
    if interval is ours:
        # The same, by the counts at which the bets on either side win: no interval is inverted.
        goal = float(np.log(2.0 / (1.0 - CONFIDENCE)))
        most = int(n[-1])
        high = most_or_least(rate, goal, most, above=True)[n]
        low = most_or_least(rate, goal, most, above=False)[n]
        return (counts >= high) | (counts <= low)
    low, high = interval(counts, n)
    return (rate < low) | (rate > high)


def streams(rate: float, total: int, labels: int) -> Iterator[Ints]:
    """Yield the counts of hits after each label, for some streams at a time."""
    rng = np.random.default_rng(round(rate * 1e6))
    for start in range(0, total, BLOCK):
        size = (min(BLOCK, total - start), labels)
        yield np.cumsum(rng.random(size) < rate, axis=1)


#: What is compared; whether it may be read after every label.
WAYS: dict[str, tuple[Interval, bool]] = {
    "watch (confidence sequence)": (ours, True),
    "asymptotic confidence sequence": (asymptotic, True),
    "Wald, for one look": (wald, False),
    "Clopper-Pearson, for one look": (exact, False),
}


def measured(rate: float, total: int) -> dict[tuple[str, int], tuple[float, ...]]:
    """Return of each way at each number of labels: missed ever, after burn-in, now; width."""
    n = np.arange(1, LOOKS[-1] + 1)
    found: dict[tuple[str, int], list[Floats]] = {
        (name, look): [] for name in WAYS for look in LOOKS
    }
    for counts in streams(rate, total, LOOKS[-1]):
        for name, (interval, _) in WAYS.items():
            # The exact interval of every label would take hours, and it is made for one look.
            missed = None if interval is exact else misses(interval, counts, n, rate)
            for look in LOOKS:
                at = counts[:, look - 1]
                low, high = interval(at, np.full_like(at, look))
                now = (rate < low) | (rate > high)
                ever, late = (
                    (np.full(len(at), np.nan),) * 2
                    if missed is None
                    else (missed[:, :look].any(1), missed[:, BURN_IN - 1 : look].any(1))
                )
                found[name, look].append(np.stack([ever, late, now, high - low]).astype(float))
    means = {key: np.concatenate(parts, axis=1).mean(axis=1) for key, parts in found.items()}
    return {key: tuple(values.tolist()) for key, values in means.items()}


def rows(all_found: dict[float, dict[tuple[str, int], tuple[float, ...]]]) -> Iterator[str]:
    for rate, found in all_found.items():
        for look in LOOKS:
            for name, (_, anytime) in WAYS.items():
                ever, late, now, width = found[name, look]
                cells = [shown(ever), shown(late), shown(now), f"{width:.4f}"]
                reading = "any time" if anytime else "once"
                yield f"| {rate:g} | {look:,} | {name} | {reading} | {' | '.join(cells)} |"


def conclusion(all_found: dict[float, dict[tuple[str, int], tuple[float, ...]]]) -> str:
    """Return what the table comes to."""
    watch, other = list(WAYS)[:2]
    last, most = LOOKS[-1], 1.0 - CONFIDENCE
    worst = max(found[watch, last][0] for found in all_found.values())
    late = [found[other, last][1] for found in all_found.values()]
    wider = [
        found[watch, look][3] / found[other, look][3] - 1.0
        for found in all_found.values()
        for look in LOOKS[1:]
    ]
    first = [found[watch, LOOKS[0]][3] / found[other, LOOKS[0]][3] for found in all_found.values()]
    return (
        f"The confidence sequence of the watch missed ever in at most {worst:.1%} of the streams "
        f"(promised: {most:.0%}). From {LOOKS[1]:,} labels on it is {min(wider):.0%} to "
        f"{max(wider):.0%} wider than the asymptotic one, and {min(first):.2f} to {max(first):.2f} "
        f"times as wide at {LOOKS[0]}. That is what the promise costs: even when it is read from "
        f"label {BURN_IN} on only, the asymptotic one misses in {min(late):.0%} to {max(late):.0%} "
        "of the streams, most where coverage is high."
    )


def shown(share: float) -> str:
    return "-" if np.isnan(share) else f"{share:.2%}"


def main() -> None:
    total = int(sys.argv[1]) if len(sys.argv) > 1 else STREAMS
    head = "true rate | labels | interval | made to be read | missed ever | missed ever from label "
    head += f"{BURN_IN} on | missed now | mean width"
    found = {rate: measured(rate, total) for rate in COVERAGES}
    lines = [
        f"{total:,} streams of independent labels for each true rate, read after every single "
        "label, not by means of batches: labels of hallucinated answers for coverage, of faithful "
        f"ones for 1 - FPR. All intervals are at {CONFIDENCE:.0%} two-sided, so what is made to be "
        f"read at any time should miss ever in at most {1 - CONFIDENCE:.0%} of the streams, what "
        f"is made for one look miss now in at most that. The standard error of a share of "
        f"{1 - CONFIDENCE:.0%} is {np.sqrt(0.05 * 0.95 / total):.2%}.",
        "",
        "The asymptotic sequence (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, 2024) is tuned "
        f"to be narrowest at {TUNED_AT:,} labels; it promises nothing before some unknown number "
        f"of labels, so its misses from label {BURN_IN} on are shown, too. Wherever all labels so "
        "far agree, its variance is estimated as 0 and the interval is a point, as is that of "
        "Wald.",
        "",
        conclusion(found),
        "",
        f"| {head} |",
        "|---" * 8 + "|",
        *rows(found),
    ]
    if total < STREAMS:
        print("\n".join(lines))
    else:
        write(
            "watch_intervals",
            "Intervals that are read after every label",
            lines,
            ("numpy", "scipy"),
        )


if __name__ == "__main__":
    main()
