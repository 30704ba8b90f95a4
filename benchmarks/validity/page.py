"""How do simulated promises look on a page, and in a figure?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from scipy.stats import binom

from .check import KINDS, Check, Observation, failures
from .grid import ALPHAS, SIZES

RUNS = 10_000
#: Probability that any check at all fails although every promise is true.
ERROR = 1e-3
FIGURE = "validity.png"
#: Promises by the first word of their name, as the figure colours them.
FAMILIES = {
    "one threshold": ("marginal", "pac", "anytime", "recalibration,", "p-value", "coverage"),
    "certificates": ("wrong", "certificate", "group", "Holm"),
    "bands": ("Berk-Jones", "DKW"),
    "clusters": ("clusters,",),
    "groups": ("groups,",),
    "selection": ("selection", "selection,", "discoveries,"),
    "three-way": ("three-way,",),
    "covariate shift": ("covariate",),
    "several risks": ("several", "a"),
    "sentences": ("sentences,", "trimming,"),
    "verdicts at any time": ("sequential,",),
    "a watch": ("watch,", "promise,"),
}


def page(checks: Sequence[Check], observations: Sequence[Observation], runs: int) -> list[str]:
    failed, error = failures(checks, ERROR), ERROR / len(checks)
    promises = list(dict.fromkeys(check.what for check in checks))
    lines = [
        f"{len(promises)} promises in {len(checks)} settings: n in {list(SIZES)}, alpha in "
        f"{list(ALPHAS)}, scores {', '.join(KINDS)}. A setting is "
        f"left out where n is below the minimum of its guarantee. {runs:,} runs a setting where "
        "they are one array operation; fewer where each run calls the public function, and fewer "
        "settings for the slowest.",
        "",
        f"**{len(checks) - len(failed)} of {len(checks)} hold.** Limits are binomial quantiles at "
        f"the number of runs; that any true promise falls outside has probability at most "
        f"{ERROR:g} over all settings. Promised is the highest failure rate that the "
        "promise allows. A probability marked `=` is known exactly and checked on both sides, one "
        "marked `<=` is an upper limit (ties can only lower it).",
        "",
        f"![Observed against allowed failure rates]({FIGURE})",
        "",
        "Each dot is a setting, each grey bar what chance explains there. Left: rates known "
        "exactly, so dots scatter around the diagonal. Right: upper limits, so dots lie below it "
        "but for chance.",
        "",
        "n counts calibration or test examples of each class (clusters, where examples come in "
        "clusters). alpha is the tolerated miss rate; for bands, group certificates, discoveries "
        "and several risks it is 1 - confidence, for selection the false discovery rate, for Holm "
        "the family-wise error. For a watch n is the number of answers in its reference, alpha "
        "the probability of a false alarm. For sequential verdicts n is the least number of "
        "hallucinated answers expected, alpha the tolerated miss rate. Each row sums up the "
        "settings of one design, and shows the one whose count was the least likely.",
        *(f"\nFAILED: {check}" for check in failed),
    ]
    for promise in promises:
        mine = [check for check in checks if check.what == promise]
        lines += ["", f"## {promise[0].upper()}{promise[1:]}", ""]
        lines += [
            "| design | scores | settings | runs each | least likely at | promised | failed "
            "| probability | limits | all hold |",
            "|---" * 10 + "|",
        ]
        for design, kind in dict.fromkeys((check.design, check.kind) for check in mine):
            part = [check for check in mine if (check.design, check.kind) == (design, kind)]
            lines.append(summary(design or "-", kind, part, error))
    return lines + without(observations, checks)


def surprise(check: Check) -> float:
    """Return the probability of a count at least as far out as the one seen."""
    law = binom(check.runs, check.probability)
    above = float(law.sf(check.failed - 1))
    return min(above, float(law.cdf(check.failed))) if check.exact else above


def summary(design: str, kind: str, checks: Sequence[Check], error: float) -> str:
    worst = min(checks, key=surprise)
    least, most = (limit / worst.runs for limit in worst.limits(error))
    good = sum(check.holds(error) for check in checks)
    return (
        f"| {design} | {kind} | {len(checks)} | {worst.runs:,} | n = {worst.n}, alpha = "
        f"{worst.alpha:g} | {worst.promised:.4g} | {worst.rate:.4f} | "
        f"{'=' if worst.exact else '<='} {worst.probability:.4f} | {least:.4f} to {most:.4f} | "
        f"{'yes' if good == len(checks) else f'NO: {good} of {len(checks)}'} |"
    )


def without(observations: Sequence[Observation], checks: Sequence[Check]) -> list[str]:
    """Return what happens where a promise does not apply, beside the method that has one."""
    sections = (
        (
            "What clustering does to the naive threshold",
            "Up to ten answers share a question (intra-class correlation 0.8), and questions that "
            "are easy to catch have more of them. The naive calibration takes all answers as "
            "independent. n counts questions. Nothing is promised for the naive threshold; right "
            "of it, what calibration on clusters did on the same data.",
            "naive",
            {"marginal": "clusters, marginal coverage", "pac": "clusters, pac coverage"},
        ),
        (
            "What one threshold for all does to a group",
            "Three groups of n hallucinated answers each, whose scores differ by one standard "
            "deviation from group to group. One threshold from all of them keeps its promise on "
            "average only. Right of it, the group's own threshold.",
            "one threshold",
            {name: "groups, marginal coverage" for name in ("easy", "middle", "hard")},
        ),
        (
            "What a shift does",
            "A feature that lowers the score moves by one standard deviation between calibration "
            "and production. With the known density ratio the promise holds; right, its rate. "
            "The estimate knows the form of the ratio and lacks one number; a real one knows less.",
            "",
            {"shift": "covariate shift, known ratio", "ratio": "covariate shift, known ratio"},
        ),
        (
            "What wrong labels do to a certificate",
            "Someone who sees the scores flips up to 10 of 2n labels so that a threshold that is "
            "just not good enough looks certified. A certificate that claims to survive at least "
            "as many flips is wrong no more often than promised (right); one read "
            "without its claim often is.",
            "wrong certificate",
            {"wrong": "certificate under wrong labels"},
        ),
        (
            "What clustered traffic does to a watch",
            "A watch takes answers to be independent while nothing changes. Here answers to one "
            "question are alike, and come one after the other or among the answers to others. "
            "Its alarms then say that answers are not alike over time, which is true, and no "
            "run length is promised. Right, its rate where answers are independent.",
            "clustered traffic",
            {n: f"watch, false alarm within {n} rows" for n in ("1,000", "10,000")},
        ),
    )
    lines: list[str] = []
    for title, text, start, beside in sections:
        mine = [item for item in observations if belongs(item.what, start)]
        lines += ["", f"## {title}", "", text, ""]
        lines += [
            "| what failed | n | alpha | runs | observed | 95 % interval | wanted "
            "| promised method |",
            "|---" * 8 + "|",
        ]
        lines += [row(item, partner(item, beside, checks)) for item in mine]
    return lines


def belongs(what: str, start: str) -> bool:
    return what.startswith(start) if start else what.startswith(("shift", "ratio"))


def partner(item: Observation, beside: dict[str, str], checks: Sequence[Check]) -> Check | None:
    """Return the check of the method that promises what ``item`` does not, in its setting."""
    words = item.what.replace(":", "").split()
    names = [beside[word] for word in words if word in beside]
    if item.what.startswith("naive threshold"):
        names = [beside["marginal"]]
    for check in checks:
        if (check.kind, check.n, check.alpha) != (item.kind, item.n, item.alpha):
            continue
        matches = check.design in (item.design, "", "one feature", *words)
        if check.what in names and (matches or check.design.startswith("1 to")):
            return check
    return None


def row(item: Observation, check: Check | None) -> str:
    low, high = item.interval()
    seen = "too few for it" if check is None else f"{check.rate:.4f}"
    design = f" ({item.design})" if item.design else ""
    return (
        f"| {item.what}{design} | {item.n} | {item.alpha:g} | {item.runs:,} | {item.rate:.4f} | "
        f"{low:.4f} to {high:.4f} | {item.promised:.4g} | {seen} |"
    )


def draw(checks: Iterable[Check], error: float, folder: Path) -> None:
    """Draw every setting's observed failure rate over the allowed one, with its limits."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 5.5), sharex=True, sharey=True)
    colours = dict(zip(FAMILIES, pyplot.get_cmap("tab20").colors, strict=False))
    shown = list(checks)
    for axis, exact in zip(axes, (True, False), strict=True):
        part = [check for check in shown if check.exact is exact]
        limits = np.array([np.array(check.limits(error)) / check.runs for check in part])
        allowed = np.array([check.probability for check in part])
        if len(part):
            axis.vlines(allowed, limits[:, 0], limits[:, 1], color="0.85", linewidth=1, zorder=1)
        for family, words in FAMILIES.items():
            mine = [check for check in part if check.what.split()[0] in words]
            axis.scatter(
                [check.probability for check in mine],
                [check.rate for check in mine],
                s=9,
                color=colours[family],
                label=family,
                zorder=3,
            )
        top = max(check.probability for check in shown) * 1.15
        axis.plot([0, top], [0, top], color="black", linewidth=0.8, zorder=2)
        axis.set_xscale("function", functions=(np.sqrt, np.square))
        axis.set_yscale("function", functions=(np.sqrt, np.square))
        ticks = [0, 0.01, 0.05, 0.1, 0.2, 0.3]
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_title("known exactly" if exact else "upper limit")
        axis.set_xlabel("failure rate allowed")
    axes[0].set_ylabel("failure rate observed")
    axes[0].set_xlim(0, top)
    axes[0].set_ylim(0, top * 1.15)
    axes[0].legend(fontsize=8, loc="upper left", frameon=False)
    figure.tight_layout()
    folder.mkdir(exist_ok=True)
    figure.savefig(folder / FIGURE, dpi=130, metadata={"Software": None})
