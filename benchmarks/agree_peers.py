"""Do the ranges of ``agree`` and of two other libraries hold, and how wide are they?

``python benchmarks/agree_peers.py [RUNS]`` writes ``results/agree_peers.md``, anew after each
round of runs. ``CALIBRAIL_PEERS`` names the python of an environment that has the other two.
"""

from __future__ import annotations

import csv
import importlib.metadata
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm

Array = NDArray[Any]
#: Labels of people and judge, scores, groups; or ranges, NaN where there is none.
Arrays, Errs = dict[str, Array], tuple[float, float]

RUNS, ROUND, LEVEL, ERROR = 2000, 50, 0.95, 1e-3
#: One run in so many has a bootstrap, which takes long; no label; labels drawn of a set; no range.
EACH, NONE, DRAWN, NOTHING = 5, 2, 100, (math.nan, math.nan)
OWN = ("calibrail, Rogan-Gladen", "calibrail, prediction-powered")
ALONE, PEERS = "labels alone", ("glide-py", "truescore")
ABOUT = """\
The same labels and the same judge go through the two estimates of `calibrail.agree` and those of
{libraries}, with their defaults. A cell: the share of 95 % ranges that held the true share of
hallucinated answers, of those given (± its standard error); their median width within 0 and 1, over
that of the exact (Clopper-Pearson) range of the labels alone, which stands before; *none*: the
share of runs with an error, or a reason, in place of one. **Bold**: held less often than chance
explains ({error:g} over all cells). PTD is a bootstrap: one run in {each}.

Simulated: the judge labels 2,000 answers, people some of them at random. Of groups, alike with a
correlation of 0.3, people label whole ones; the others' estimators for clusters are taken. Without
*of scores* a score is its side of the limit. Where people label no random sample `agree`'s test for
that is run, too, which withholds a range. Real: the whole set is the truth, labels are drawn from
it without replacement, no group as a whole, so that the others take rows as single."""


@dataclass
class Row:
    """A line of a table: where its runs come from, and the ranges that they gave so far."""

    name: str
    n: int
    rate: float
    draw: Callable[[int, np.random.Generator], Arrays]
    real: bool = False
    sampled: bool = True
    scored: bool = False
    ranges: dict[str, list[Array]] = field(default_factory=dict)

    def add(self, seed: list[int], peers: Callable[[Arrays], Arrays]) -> None:
        """Take a round of runs through all estimators."""
        stream = self.draw(ROUND, np.random.default_rng(seed))
        for name, ends in {**own_ranges(stream, not self.sampled), **peers(stream)}.items():
            self.ranges.setdefault(name, []).append(np.clip(ends, 0.0, 1.0))

    def result(self, name: str) -> tuple[int, int, int, float]:
        """Return how many runs, ranges, and ranges that held, and their median width."""
        ends = np.concatenate(self.ranges[name])
        here = ends[~np.isnan(ends[:, 0])]
        held = int(np.sum((here[:, 0] <= self.rate) & (self.rate <= here[:, 1])))
        width = float(np.median(here[:, 1] - here[:, 0])) if len(here) else math.nan
        return len(ends), len(here), held, width


def simulated(
    name: str, n: int, rate: Any, judge: Any, group: int = 1, rows: int = 2000, **row: bool
) -> Row:
    """Return a setting whose two halves may have rates and a judge of their own."""
    first = np.arange(rows) < rows // 2
    rates = np.where(first, *np.broadcast_to(rate, 2))
    sensitivity, specificity = (np.where(first, *part) for part in np.broadcast_to(judge, (2, 2)).T)

    def draw(runs: int, rng: np.random.Generator) -> Arrays:
        shape, alike = (runs, rows // group), 1.0 / 0.3 - 1.0
        a, b = rates[0] * alike, (1.0 - rates[0]) * alike
        of_answer = np.repeat(rng.beta(a, b, shape), group, axis=1) if group > 1 else rates
        bad = rng.random((runs, rows)) < of_answer
        # A score is above 0 with the judge's rates; how far says more.
        edge = np.where(bad, norm.ppf(sensitivity), -norm.ppf(specificity))
        score = rng.normal(size=bad.shape) + edge
        # Outside a random sample people label the first half alone.
        lots = rng.random(shape) + (0.0 if made.sampled else ~first)
        last = np.partition(lots, n // group - 1, axis=1)[:, n // group - 1, None]
        human = np.where(np.repeat(lots <= last, group, axis=1), bad, NONE)
        stream = {"human": human.astype(np.int8), "judge": (score > 0.0).astype(np.int8)}
        if made.scored:
            stream["score"] = norm.cdf(score)
        return stream if group == 1 else stream | {"group": np.arange(rows) // group}

    made = Row(name, n, float(rates.mean()), draw, **row)
    return made


def simulated_rows() -> Iterator[Row]:
    """Yield the simulated settings; of judges sensitivity and specificity."""
    judges = {"perfect": (1.0, 1.0), "right in 90%": (0.9, 0.9), "inverted": (0.1, 0.1)}
    for rate, (judge, errs), n in product((0.01, 0.1), judges.items(), (30, 300)):
        yield simulated(f"{rate:.0%} hallucinated, judge {judge}", n, rate, errs)
    for n in (30, 300):
        yield simulated("50% hallucinated, judge right in 90%", n, 0.5, (0.9, 0.9))
    yield simulated("10% hallucinated, judge misses 40%", 300, 0.1, (0.6, 0.95))
    yield simulated("10% hallucinated, judge a coin", 300, 0.1, (0.5, 0.5))
    yield simulated("1% hallucinated, 90% of 20,000 right", 3000, 0.01, (0.9, 0.9), rows=20_000)
    both = (0.95, 0.95), (0.6, 0.8)
    yield simulated("2% and 18% hallucinated, judge worse in the latter", 300, (0.02, 0.18), both)
    yield simulated("10% hallucinated, judge worse from half time", 300, 0.1, both)
    yield simulated("the same, labels of the first half alone", 300, 0.1, both, sampled=False)
    for n in (50, 300):
        yield simulated("10% hallucinated, 90% right, groups of 5", n, 0.1, (0.9, 0.9), group=5)
    for n in (30, 300):
        yield simulated("10% hallucinated, score right in 90%", n, 0.1, (0.9, 0.9), scored=True)


def real_row(name: str) -> Row:
    """Return the line of a labelled set, of which human labels are drawn without replacement."""
    from intervals import DATA, SETS

    file, subset, column, sign, limit = SETS[name]
    with (DATA / file).open(encoding="utf-8", newline="") as handle:
        rows = [row for row in csv.DictReader(handle) if not subset or row["subset"] == subset]
    rows = [row for row in rows if row[column].strip()]
    score = np.array([float(row[column]) for row in rows])
    bad = np.array([int(row.get("label") or 1 - int(row["label_supported"])) for row in rows])
    shared = {"judge": ((score >= limit) == (sign > 0)).astype(np.int8)}
    if len(np.unique(score)) > 2:
        shared["score"] = score * sign
    groups = [row["group"] for row in rows if row.get("group")]
    single = {"group_of_single": np.unique(groups, return_inverse=True)[1]} if groups else {}

    def draw(runs: int, rng: np.random.Generator) -> Arrays:
        human = np.full((runs, len(bad)), NONE, np.int8)
        for labels in human:
            at = rng.choice(len(bad), DRAWN, replace=False)
            labels[at] = bad[at]
        wide = {key: np.broadcast_to(part, human.shape) for key, part in shared.items()}
        return {"human": human, **wide, **single}

    return Row(name, DRAWN, float(bad.mean()), draw, real=True)


def own_ranges(stream: Arrays, withheld: bool = False) -> Arrays:
    """Return calibrail's ranges, and exact ones of the labels alone."""
    from calibrail.conformal import bounds
    from calibrail.evaluation.judge_agreement import LabelCounts, corrected_rates, sample_tests

    found: dict[str, list[Errs]] = {name: [] for name in (*OWN, ALONE)}
    group = stream.get("group", stream.get("group_of_single"))
    for human, judge in zip(stream["human"], stream["judge"], strict=True):
        cells = np.zeros((3, 3, 2), np.int64)
        cells[:, :2, 0] = np.bincount(human * 2 + judge, minlength=6).reshape(3, 2)
        single = counts = LabelCounts(cells, decided=False)
        if group is not None:
            counts = LabelCounts.weighted((human, judge, 0 * judge), group, decided=False)
        rates = corrected_rates(counts, LEVEL)["prevalence"]
        doubted = withheld and sample_tests(counts)[0]["differs"]
        for name, way in zip(OWN, ("rogan_gladen", "prediction_powered"), strict=True):
            hidden = rates[way].lower is None or (doubted and name == OWN[1])
            found[name].append(NOTHING if hidden else (rates[way].lower, rates[way].upper))
        both = (counts if "group" in stream else single).both.sum(axis=(1, 2))
        found[ALONE].append(bounds.interval(both[1], both.sum(), LEVEL))
    return {name: np.array(ends, float) for name, ends in found.items()}


def peer_ranges(stream: Arrays) -> Arrays:
    """Return the ranges of the other libraries; their own python runs this."""
    from glide import estimators
    from truescore import correct

    kind, by_group = ("Clustered", {"clusters": stream["group"]}) if "group" in stream else ("", {})

    def glide(name: str, human: Array, proxy: Array, **options: Any) -> Errs:
        made = getattr(estimators, f"{kind}{name}MeanEstimator")()
        people = np.where(human == NONE, np.nan, human)
        ends = made.estimate(people, proxy.astype(float), **by_group, **options).confidence_interval
        return ends.lower_bound, ends.upper_bound

    def truescore(name: str, human: Array, proxy: Array, **options: Any) -> Errs:
        at = np.flatnonzero(human != NONE)
        ends = getattr(correct, f"{name}_estimate")(proxy, human[at], at, **options)
        return ends.low, ends.high

    ppi, ppi_too = partial(glide, "PPI"), partial(truescore, "ppi", **by_group)
    ways: dict[str, tuple[Callable[..., Errs], str]] = {
        "glide, PPI++": (ppi, "judge"),
        "glide, PTD": (partial(glide, "PTD", random_seed=0), "judge"),
        "truescore, PPI++": (ppi_too, "judge"),
        "truescore, Rogan-Gladen": (partial(truescore, "rogan_gladen"), "judge"),  # not of groups
        "glide, PPI++ of scores": (ppi, "score"),
        "truescore, PPI++ of scores": (ppi_too, "score"),
    }
    found = {}
    for name, (way, of) in ways.items():
        if of in stream and not (by_group and "Rogan" in name):
            each = EACH if "PTD" in name else 1
            pairs = zip(stream["human"][::each], stream[of][::each], strict=True)
            found[name] = np.array([_ends_or_none(way, *pair) for pair in pairs])
    return found


def _ends_or_none(way: Callable[..., Errs], human: Array, proxy: Array) -> Errs:
    try:
        return way(human, proxy)
    except (ValueError, ArithmeticError):
        return NOTHING


def answer_requests() -> None:
    """Say which libraries are here, then answer streams, all on standard input and output."""
    installed = {item.name: item.version for item in importlib.metadata.distributions()}
    answer: dict[str, Any] = {name: installed.get(name) for name in PEERS}
    while True:
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.flush()
        answer = peer_ranges(pickle.load(sys.stdin.buffer))


def peers_at(python: str) -> tuple[dict[str, str | None], Callable[[Arrays], Arrays]]:
    """Return the other libraries' versions in an environment, and what asks for their ranges."""
    if not Path(python).is_file():
        return dict.fromkeys(PEERS), dict
    command, pipe, quiet = [python, "-E", __file__, "--answer"], subprocess.PIPE, subprocess.DEVNULL
    process: Any = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=quiet)

    def ranges(stream: Arrays) -> Arrays:
        pickle.dump(stream, process.stdin)
        process.stdin.flush()
        return dict(pickle.load(process.stdout))

    return pickle.load(process.stdout), ranges


def page(rows: list[Row], libraries: str) -> tuple[list[str], bool]:
    """Return the page, and whether a range of calibrail's holds less often than it says."""
    cells, totals = sum(len(row.ranges) - 1 for row in rows), dict[str, list[list[float]]]()
    tables: list[str] = []
    for real, heading in ((False, "Simulated"), (True, "Real labelled sets")):
        here = [row for row in rows if row.real == real]
        names = list(dict.fromkeys(name for row in here for name in row.ranges if name != ALONE))
        head = " | ".join(["setting", "labels", "runs", ALONE, *names])
        tables += ["", f"## {heading}", "", f"| {head} |", "|---" * (4 + len(names)) + "|"]
        for row in here:
            runs, _, _, alone = row.result(ALONE)
            line = [row.name, f"{row.n:,}", f"{runs:,}", f"{alone:.3f}"]
            for name in names:
                runs, given, held, width = row.result(name) if name in row.ranges else (0, 0, 0, 0)
                likely = min(max(held, 0.5), given - 0.5)
                error = math.sqrt(likely * (given - likely) / given**3) if given else 0.0
                text = f"{held / given:.1%} ± {error:.1%}; {width / alone:.2f}" if given else ""
                if short := bool(held < binom.ppf(ERROR / cells, given, LEVEL)):
                    text = f"**{text}**"
                if row.sampled and given > runs / 2:
                    result = [short, held / given, width / alone, 1.0 - given / runs]
                    totals.setdefault(name, []).append(result)
                line.append(text + (f" none {1.0 - given / runs:.1%}" if given < runs else ""))
            tables.append(f"| {' | '.join(line)} |")
    head = "| estimate | settings | held too rarely | least held | median width | most none |"
    title = "## All settings with labels drawn at random, where most runs gave a range"
    about, rule = ABOUT.format(libraries=libraries, error=ERROR, each=EACH), "|---" * 6 + "|"
    lines = [about, "", title, "", head, rule]
    for name, results in totals.items():
        short, least, width, none = np.array(results).T
        shown = f"{short.sum():.0f} | {least.min():.1%} | {np.median(width):.2f} | {none.max():.0%}"
        lines.append(f"| {name} | {len(results)} | {shown} |")
    return lines + tables, any(item[0] for name in OWN for item in totals[name])


def main() -> int:
    versions, peers = peers_at(os.environ.get("CALIBRAIL_PEERS", ""))
    if not all(versions.values()):
        print(f"CALIBRAIL_PEERS names no python that has {' and '.join(PEERS)}: nothing was run")
        return 0
    from intervals import DATA, SETS
    from results import write

    sets = [real_row(name) for name, (file, *_) in SETS.items() if (DATA / file).exists()]
    rows, failed = [*simulated_rows(), *sets], False
    for turn in range(math.ceil(int((*sys.argv, RUNS)[1]) / ROUND)):
        for place, row in enumerate(rows):
            row.add([12, place, turn], peers)
        lines, failed = page(rows, " and ".join(f"{k} {v}" for k, v in versions.items()))
        write("agree_peers", "Do the ranges of agree and others hold?", lines, ("numpy", "scipy"))
    return int(failed)


if __name__ == "__main__":
    sys.exit(answer_requests() if sys.argv[1:] == ["--answer"] else main())
