"""How often is a good detector certified, by calibrail and by MAPIE, and how often wrongly?

Both answer, from the same n labelled examples: is there a threshold with coverage >= 1 - alpha and
FPR <= max_fpr, at confidence 1 - delta? ``python benchmarks/power.py [--quick]`` takes about ten
minutes of one core; ``--quick`` prints a page of a few runs and writes nothing.
"""

from __future__ import annotations

import csv
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from mapie.risk_control import BinaryClassificationController
from mapie.risk_control.methods import compute_hoeffding_bentkus_p_value
from numpy.typing import NDArray
from results import write
from scipy.special import expit, logit
from scipy.stats import beta, binom, norm

from calibrail.conformal import (
    Assumption,
    ClassCounts,
    calibrate_threshold,
    clopper_pearson,
    joint_certificate,
    rank,
)
from calibrail.conformal import (
    plan as planned,
)
from calibrail.data import read_all
from calibrail.engine import score_examples
from calibrail.evaluation.stats.intervals import wilson
from calibrail.options import Promise, Requirement
from calibrail.scores import build, parse_specs

ALPHA, DELTA, SHARE = 0.1, 0.1, 0.3
SIZES, PILOT = (1000, 3000, 5000), 5000
#: Runs of calibrail, of MAPIE, of calibrail with the time taken, of each configuration tried.
RUNS, QUICK = (2000, 200, 40, 150), (10, 2, 2, 4)
GRIDS, WINDOWS, LEARNING = (5, 10, 20, 50, 100, 200), (1, 2, 3, 5, 10), (0.1, 0.2, 0.5)
HOLM, SPLIT = "bonferroni_holm", "split_fixed_sequence"
#: Distances of the classes and limits on the FPR for which labels are counted.
LIMITS = ((2.0, 0.3), (2.0, 0.4), (2.0, 0.5), (3.0, 0.1), (3.0, 0.2), (1.0, 0.7))
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
METRICS = ("bertscore_p_article", "qags", "feqa", "rouge_l")
HALF, ALL = "calibrail, class split", "calibrail, all hallucinated"
DEFAULT, ONCE = "MAPIE, default", "MAPIE, tuned once"
TUNED, KNOWN = "MAPIE, tuned here", "MAPIE, window known"
METHODS = (HALF, ALL, DEFAULT, ONCE, TUNED, KNOWN)

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]
#: Hallucinated and faithful scores.
Sample = tuple[Floats, Floats]


@dataclass(frozen=True)
class Setting:
    """Where scores come from, and the true rates of every threshold."""

    name: str
    max_fpr: float
    draws: tuple[Draw, Draw]
    coverage: Callable[[Floats], Floats]
    fpr: Callable[[Floats], Floats]
    separation: float | None = None
    aim: float | None = None

    def sample(self, rng: np.random.Generator, n: int) -> Sample:
        """Draw n examples."""
        hallucinated = round(SHARE * n)
        return self.draws[0](rng, hallucinated), self.draws[1](rng, n - hallucinated)

    def good(self, thresholds: Floats) -> NDArray[np.bool_]:
        """Return which thresholds truly meet both requirements."""
        covers = self.coverage(thresholds) >= 1 - ALPHA - 1e-12
        good: NDArray[np.bool_] = covers & (self.fpr(thresholds) <= self.max_fpr + 1e-12)
        return good


@dataclass(frozen=True)
class Plan:
    """A configuration of MAPIE: thresholds as scores and as probabilities, and a procedure."""

    words: str
    grid: Floats
    params: Floats
    method: str = HOLM
    learning: float = 0.0


@dataclass
class Tally:
    """What one method did in one setting at one n."""

    words: str = ""
    exact: float | None = None
    runs: int = 0
    certified: int = 0
    wrong: int = 0
    wrong_choice: int = 0
    timed: int = 0
    seconds: float = 0.0

    def add(self, certified: bool, wrong: bool, wrong_choice: bool, seconds: float | None) -> None:
        """Count one run."""
        self.runs, self.certified = self.runs + 1, self.certified + certified
        self.wrong, self.wrong_choice = self.wrong + wrong, self.wrong_choice + wrong_choice
        if seconds is not None:
            self.timed, self.seconds = self.timed + 1, self.seconds + seconds

    @property
    def rate(self) -> float:
        """Return the share of runs that certify."""
        return self.certified / self.runs


@dataclass
class Cell:
    """One setting at one n: the methods' results, and what is needed to run them."""

    setting: Setting
    n: int
    seed: int
    middle: float = 0.0
    spread: float = 1.0
    tried: list[tuple[str, float, Plan]] = field(default_factory=list)
    tallies: dict[str, Tally] = field(default_factory=dict)

    def shares(self, scores: Floats) -> Floats:
        """Map scores to what MAPIE takes for probabilities: fixed before the sample is drawn."""
        return np.asarray(expit((scores - self.middle) / self.spread))

    def scores(self, shares: Floats) -> Floats:
        """Invert ``shares``."""
        return np.asarray(self.middle + self.spread * logit(shares))


def gaussian(name: str, separation: float, max_fpr: float, aim: float | None = None) -> Setting:
    return Setting(
        f"{name}: N(0, 1) and N({separation:g}, 1)",
        max_fpr,
        (lambda rng, n: rng.normal(separation, 1.0, n), lambda rng, n: rng.normal(0.0, 1.0, n)),
        lambda at: norm.sf(at - separation),
        norm.sf,
        separation,
        aim,
    )


def pool(name: str, scores: Floats, labels: NDArray[np.int_]) -> Setting:
    """Draw with replacement: the pool's rates are the true ones."""
    hallucinated, faithful = np.sort(scores[labels == 1]), np.sort(scores[labels == 0])

    def flagged(ordered: Floats) -> Callable[[Floats], Floats]:
        return lambda at: 1.0 - np.searchsorted(ordered, at) / len(ordered)

    highest = hallucinated[math.floor(ALPHA * len(hallucinated))]
    return Setting(
        f"{name}: {len(hallucinated):,} hallucinated, {len(faithful):,} faithful",
        round(float(flagged(faithful)(highest)) + 0.05, 3),
        (lambda rng, n: rng.choice(hallucinated, n), lambda rng, n: rng.choice(faithful, n)),
        flagged(hallucinated),
        flagged(faithful),
    )


def settings() -> Iterator[Setting]:
    yield gaussian("Main", 2.0, 0.3)
    yield gaussian("Easy", 3.0, 0.1)
    yield gaussian("Boundary", 2.0, 0.23, aim=0.3)
    folder = Path(os.environ.get("CALIBRAIL_DATA", DATA)).resolve()
    if not folder.is_dir():
        print(f"real score sets skipped: no data sets at {folder}; set CALIBRAIL_DATA")
        return
    with (folder / "frank" / "metric_scores.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for metric in METRICS:
        found = [row for row in rows if row[metric]]
        scores = -np.array([float(row[metric]) for row in found])
        yield pool(f"FRANK `{metric}`", scores, np.array([int(row["label"]) for row in found]))
    examples, _ = read_all(folder / "ragtruth", format="ragtruth")
    table = score_examples(examples, [build(spec) for spec in parse_specs("novel_count")])
    yield pool("RAGTruth QA `novel_count`", table.columns["novel_count"], np.array(table.labels))


def class_split(
    setting: Setting, sample: Sample, test: int, timed: bool
) -> tuple[bool, bool, bool, float | None]:
    """Certify with calibrail; ``test`` of the hallucinated examples are kept from the threshold."""
    hallucinated, faithful = sample
    started = time.process_time()
    calibration = calibrate_threshold(hallucinated[test:], Promise(ALPHA, "pac", DELTA / 2))
    caught = int(np.count_nonzero(calibration.flags(hallucinated[:test])))
    alarms = int(np.count_nonzero(calibration.flags(faithful)))
    # Without this bound there is no certificate; to work out how many examples would lead to one
    # takes longer than all the rest and is done in the timed runs only.
    hopeless = clopper_pearson(alarms, len(faithful), 1 - DELTA)[1] > setting.max_fpr
    if hopeless and not timed:
        return False, False, False, None
    certificate = joint_certificate(
        calibration,
        ClassCounts(caught, test, alarms, len(faithful)),
        Requirement(setting.max_fpr, confidence=1 - DELTA),
    )
    seconds = time.process_time() - started
    certified = certificate.verdict == "certified"
    wrong = certified and not bool(setting.good(np.array([calibration.threshold]))[0])
    return certified, wrong, wrong, seconds if timed else None


def exact_power(separation: float, max_fpr: float, n: int, test: int) -> float:
    """Integrate over the miss rate of the threshold, which is Beta(k, m + 1 - k)."""
    faithful = n - round(SHARE * n)
    m = n - faithful - test
    k = rank(m, ALPHA, "pac", DELTA / 2)
    missed = beta.ppf((np.arange(4000) + 0.5) / 4000, k, m + 1 - k)
    fpr = norm.sf(norm.ppf(missed) + separation)
    alarms = [clopper_pearson(x, faithful, 1 - DELTA)[1] <= max_fpr for x in range(faithful + 1)]
    short = [clopper_pearson(x, test, 1 - DELTA)[1] < 1 - ALPHA for x in range(test + 1)]
    not_rejected = binom.sf(sum(short) - 1, test, 1 - missed)
    return float(np.mean(binom.cdf(sum(alarms) - 1, faithful, fpr) * not_rejected))


def mapie(cell: Cell, plan: Plan, sample: Sample) -> tuple[bool, bool, bool, float]:
    """Return whether MAPIE certifies, any threshold wrongly, its choice wrongly, and seconds."""
    labels = np.repeat([1, 0], [len(part) for part in sample])
    given = cell.shares(np.concatenate(sample))[:, None]
    learn = np.concatenate([np.arange(len(part)) < plan.learning * len(part) for part in sample])
    started = time.process_time()
    controller = BinaryClassificationController(
        lambda values: np.column_stack([1.0 - values[:, 0], values[:, 0]]),
        risk=["recall", "fpr"],
        target_level=[1.0 - ALPHA, cell.setting.max_fpr],
        confidence_level=1.0 - DELTA,
        list_predict_params=plan.params,
        fwer_method=plan.method,
    )
    with warnings.catch_warnings():
        # That no threshold is valid is an answer here, and so is that all are.
        warnings.filterwarnings("ignore", message="No predict parameters were found")
        warnings.filterwarnings("ignore", message="All provided predict_params control")
        if plan.method == SPLIT:
            # The first of the order decides whether anything is valid; 12 targets find it.
            targets = np.logspace(-25, 0, 12)
            controller.learn_fixed_sequence_order(given[learn], labels[learn], targets, True)
        controller.calibrate(given[~learn], labels[~learn])
    seconds = time.process_time() - started
    valid = np.isin(plan.params, controller.valid_predict_params.astype(np.float64))
    wrong = valid & ~cell.setting.good(plan.grid)
    chosen = plan.params == controller.best_predict_param
    return bool(valid.any()), bool(wrong.any()), bool(wrong[chosen].any()), seconds


def plans(cell: Cell, aim: float, pilot: Sample) -> Iterator[tuple[str, Plan]]:
    """Yield MAPIE's default and what is tried; ``KNOWN`` uses the labels of the pilot."""
    unit = np.linspace(0.0, 0.99, 100)
    yield DEFAULT, Plan("100 thresholds in [0, 0.99], Holm", cell.scores(unit), unit)
    grids = []
    for k in GRIDS:
        unit = cell.scores(np.linspace(0.0, 0.99, k))
        spread = np.quantile(np.concatenate(pilot), np.linspace(0.01, 0.99, k))
        grids += [(TUNED, f"{k} thresholds in [0, 0.99]", unit)]
        grids += [(TUNED, f"{k} thresholds at quantiles 1 % to 99 %", spread)]
    ends = np.quantile(pilot[0], ALPHA), np.quantile(pilot[1], 1 - aim)
    for k in WINDOWS:
        inside = np.linspace(min(ends), max(ends), k + 2)[1:-1]
        grids += [(KNOWN, f"{k} threshold{'s' * (k > 1)} in the pilot's window", inside)]
    for kind, words, grid in grids:
        grid = np.unique(grid)
        yield kind, Plan(f"{words}, Holm", grid, cell.shares(grid))
        for learning in LEARNING if len(grid) > 1 else ():
            how = f"{words}, sequence learned on {learning:.0%}"
            yield kind, Plan(how, grid, cell.shares(grid), SPLIT, learning)


def rate(plan: Plan, samples: Sequence[Sample], max_fpr: float) -> float:
    """Return how often MAPIE finds anything valid, from its p-values alone.

    Under Holm the smallest decides (as under Bonferroni, which certifies exactly as often), in a
    learned sequence the first.
    """

    def p_values(start: float, stop: float) -> Floats:
        found = []
        for side, level in ((0, ALPHA), (1, max_fpr)):
            m = len(samples[0][side])
            rows = [sample[side][math.ceil(start * m) : math.ceil(stop * m)] for sample in samples]
            size = len(rows[0])
            below = np.array([np.searchsorted(np.sort(row), plan.grid) for row in rows])
            # As MAPIE rounds, since it rounds the count of this share up.
            risks = 1.0 - (size - below) / size if side == 0 else (size - below) / size
            sizes = np.full(risks.size, size)
            p = compute_hoeffding_bentkus_p_value(risks.ravel(), sizes, level, True)
            found.append(p.reshape(risks.shape))
        return np.asarray(np.maximum(*found))

    tested = p_values(plan.learning, 1.0)
    if plan.method == HOLM:
        return float(np.mean(tested.min(axis=1) <= DELTA / len(plan.grid)))
    first = p_values(0.0, plan.learning).argmin(axis=1)
    return float(np.mean(tested[np.arange(len(samples)), first] <= DELTA))


def tune(cell: Cell, runs: int) -> None:
    """Try MAPIE's configurations on a pilot and on samples that serve nothing else."""
    rng = np.random.default_rng([cell.seed, cell.n, 0])
    pilot = cell.setting.sample(rng, PILOT)
    cell.middle = float(np.concatenate(pilot).mean())
    cell.spread = float(np.concatenate(pilot).std())
    samples = [cell.setting.sample(rng, cell.n) for _ in range(runs)]
    aim = cell.setting.aim or cell.setting.max_fpr
    cell.tried = [(kind, rate(p, samples, aim), p) for kind, p in plans(cell, aim, pilot)]


def measure(cell: Cell, once: str, runs: tuple[int, int, int, int]) -> None:
    """Run every method on the same draws; MAPIE, the slow one, on the first of them."""
    setting, n = cell.setting, cell.n
    kept = {HALF: round(SHARE * n) // 2, ALL: 0}
    chosen = {}
    for kind in (DEFAULT, ONCE, TUNED, KNOWN):
        fit = [t for t in cell.tried if (t[2].words == once if kind == ONCE else t[0] == kind)]
        chosen[kind] = max(fit, key=lambda t: t[1])[2]
    cell.tallies = {method: Tally() for method in kept}
    if setting.separation is not None:
        for method, test in kept.items():
            power = exact_power(setting.separation, setting.max_fpr, n, test)
            cell.tallies[method].exact = power
    cell.tallies |= {method: Tally(plan.words) for method, plan in chosen.items()}
    rng = np.random.default_rng([cell.seed, n, 1])
    for run in range(runs[0]):
        sample = setting.sample(rng, n)
        for method, test in kept.items():
            cell.tallies[method].add(*class_split(setting, sample, test, run < runs[2]))
        for method, plan in chosen.items() if run < runs[1] else ():
            cell.tallies[method].add(*mapie(cell, plan, sample))


def page(cells: list[Cell], once: str, runs: tuple[int, int, int, int], took: float) -> list[str]:
    lines = [
        f"Asked of {', '.join(f'{n:,}' for n in SIZES)} labelled examples, {SHARE:.0%} of them "
        f"hallucinated: is there a threshold with coverage of at least {1 - ALPHA:.0%} and an FPR "
        f"of at most the one stated, at confidence {1 - DELTA:.0%}?",
        "",
        *(f"- {sentence}" for sentence in conclusions(cells, once)),
        "",
        "| setting | max FPR | n | " + " | ".join(METHODS) + " |",
        "|---" * (3 + len(METHODS)) + "|",
    ]
    for cell in cells:
        rates = " | ".join(f"{cell.tallies[method].rate:.3f}" for method in METHODS)
        lines += [f"| {cell.setting.name} | {cell.setting.max_fpr:g} | {cell.n:,} | {rates} |"]
    tried = len(GRIDS) * 2 * (1 + len(LEARNING))
    lines += [
        "",
        f"- {HALF}: a `pac` threshold at delta / 2 from half of the hallucinated examples, the "
        "other half observed; `joint_certificate` with all faithful ones.",
        f"- {ALL}: the same with every hallucinated example in the threshold.",
        "- MAPIE: `BinaryClassificationController`, recall and FPR, on all n; certified if any "
        "threshold is valid. Scores become probabilities by a logistic map that a pilot of "
        f"{PILOT:,} further examples centres and scales.",
        f"- {DEFAULT}: 100 thresholds in [0, 0.99], Holm.",
        f"- {ONCE}: of {tried} configurations the one with the highest mean over all cells.",
        f"- {TUNED}: the best of these {tried} in each cell: {', '.join(map(str, GRIDS))} "
        "thresholds in [0, 0.99] or at quantiles of the pilot, Holm or a split sequence learned on "
        f"{', '.join(f'{x:.0%}' for x in LEARNING)}. A grid of few thresholds may hit the good "
        "window by luck, and tuning on the true distribution finds that luck. Bonferroni certifies "
        "exactly as often as Holm; `fixed_sequence` is refused for two risks.",
        f"- {KNOWN}: the best with {', '.join(map(str, WINDOWS))} thresholds between the pilot's "
        "thresholds at the required coverage and at the maximum FPR. The pilot's labels are more "
        "than the sample has, and calibrail does without.",
        "- The boundary is tuned for the main setting and counts in no choice or comparison.",
        "",
        f"{runs[0]:,} runs of calibrail, {runs[1]:,} of MAPIE on the first of the same draws, "
        f"{runs[3]} others per configuration tried; {took / 60:.0f} CPU minutes. Intervals: "
        "Wilson, 95 %. Wrong: certified, although an issued threshold misses a requirement in "
        "truth (MAPIE: any valid one; in brackets, the one it picks); a share of all runs, "
        f"promised to be at most {DELTA:g}. CPU seconds: mean; calibrail's of its first {runs[2]} "
        "runs.",
    ]
    lines += labels()
    for cell in cells:
        if cell.n == SIZES[0]:
            lines += ["", f"## {cell.setting.name}", "", truth(cell.setting), ""]
            lines += ["| n | method | certified | wrong | seconds | exact, or configuration |"]
            lines += ["|---" * 6 + "|"]
        lines += [row(cell.n, method, cell.tallies[method]) for method in METHODS]
    return lines


def labels() -> list[str]:
    """Return how many labels give a certificate in 80 % of cases, with a test half and without."""
    lines = [
        "",
        "## Labels for 80 % power",
        "",
        f"As `plan` computes them, with {SHARE:.0%} hallucinated: the fewest from which on a "
        f"certificate at confidence {1 - DELTA:.0%} comes out with a probability of 0.8.",
        "",
        "| means apart | max FPR | half for a test | all calibrate, as by default | fewer |",
        "|---" * 5 + "|",
    ]
    promise = Promise(ALPHA, "pac", DELTA / 2)
    for separation, limit in LIMITS:
        wanted = Requirement(limit, confidence=1.0 - DELTA)
        needed = [
            planned(
                promise,
                wanted,
                Assumption(separation=separation),
                base_rate=SHARE,
                calibration_share=share,
                withhold=False,
            ).n
            for share in (0.5, None)
        ]
        halves, whole = needed
        assert halves and whole
        counts = f"{halves:,} | {whole:,} | {1 - whole / halves:.0%}"
        lines.append(f"| {separation:g} | {limit:g} | {counts} |")
    return lines


def truth(setting: Setting) -> str:
    if setting.separation is None:
        return f"FPR allowed: {setting.max_fpr:g}, the pool's at {1 - ALPHA:.0%} coverage + 0.05."
    return (
        f"FPR at {1 - ALPHA:.0%} coverage: {fpr_at(setting.separation):.3f}; allowed: "
        f"{setting.max_fpr:g}."
    )


def fpr_at(separation: float) -> float:
    return float(norm.sf(norm.ppf(ALPHA) + separation))


def row(n: int, method: str, tally: Tally) -> str:
    shown = [interval(tally.certified, tally.runs), interval(tally.wrong, tally.runs)]
    if tally.words:
        shown[1] += f" [{tally.wrong_choice / tally.runs:.3f}]"
    last = tally.words if tally.exact is None else f"{tally.exact:.3f}"
    seconds = tally.seconds / tally.timed
    return f"| {n:,} | {method} | {shown[0]} | {shown[1]} | {seconds:.1e} | {last} |"


def interval(count: int, n: int) -> str:
    bound = wilson(count, n)
    return f"{bound.estimate:.3f} ({bound.lower:.3f} to {bound.upper:.3f})"


def conclusions(cells: list[Cell], once: str) -> Iterator[str]:
    main = cells[len(SIZES) - 1]
    rates = {method: f"{main.tallies[method].rate:.3f}" for method in METHODS}
    exact = {method: f"{main.tallies[method].exact:.3f}" for method in (HALF, ALL)}
    yield (
        f"Main setting (each class one unit from the midpoint), n = {main.n:,}: calibrail "
        f"certifies in {rates[ALL]} of runs (exact {exact[ALL]}) with all hallucinated examples "
        f"in the threshold, in {rates[HALF]} (exact {exact[HALF]}) with half of them kept for a "
        f"test. MAPIE certifies in {rates[DEFAULT]} as it comes, {rates[ONCE]} tuned once for all "
        f"settings ({once}), {rates[TUNED]} tuned on this distribution, {rates[KNOWN]} with a few "
        f"thresholds in a window that {PILOT:,} further labelled examples show. With means one "
        f"unit apart nothing could be certified: FPR {fpr_at(1.0):.2f} at {1 - ALPHA:.0%} coverage."
    )
    able = [cell for cell in cells if cell.setting.aim is None]
    for ours in (ALL, HALF):
        found = []
        for theirs in METHODS[2:]:
            ahead = [clearly(cell.tallies[ours], cell.tallies[theirs]) for cell in able]
            found += [f"{ahead.count(1)} / {ahead.count(0)} / {ahead.count(-1)} against {theirs}"]
        yield (
            f"Of {len(able)} cells, {ours} certifies clearly more often / no clear difference / "
            f"clearly less often (95 % intervals apart): {'; '.join(found)}."
        )
    behind = [
        f"{cell.setting.name.split(':')[0]}, n = {cell.n:,} ({method}: "
        f"{cell.tallies[method].rate:.3f} against {cell.tallies[ALL].rate:.3f})"
        for cell in able
        for method in METHODS[2:]
        if clearly(cell.tallies[ALL], cell.tallies[method]) < 0
    ]
    yield f"MAPIE is clearly ahead of {ALL} in: {'; '.join(behind) or 'no cell'}."
    for maker in ("calibrail", "MAPIE"):
        all_of_it = [t for cell in cells for m, t in cell.tallies.items() if m.startswith(maker)]
        most = max(all_of_it, key=lambda tally: tally.wrong / tally.runs)
        above = sum(wilson(tally.wrong, tally.runs).lower > DELTA for tally in all_of_it)
        times = [tally.seconds / tally.timed for tally in all_of_it]
        yield (
            f"{maker}: wrong certificates in at most {interval(most.wrong, most.runs)} of a "
            f"cell's runs, clearly above {DELTA:g} in {above} of {len(all_of_it)} results; "
            f"{min(times):.1e} to {max(times):.1e} CPU seconds per run"
            + (", most for the number needed where inconclusive." if maker != "MAPIE" else ".")
        )


def clearly(ours: Tally, theirs: Tally) -> int:
    """Return 1, -1 or 0: more often, less often, or intervals that overlap."""
    a, b = wilson(ours.certified, ours.runs), wilson(theirs.certified, theirs.runs)
    return int(a.lower > b.upper) - int(a.upper < b.lower)


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    runs = QUICK if quick else RUNS
    started = time.process_time()
    cells = [Cell(s, n, seed) for seed, s in enumerate(settings()) for n in SIZES]
    for cell in cells:
        tune(cell, runs[3])
        print(f"tuned: {cell.setting.name}, n = {cell.n}", file=sys.stderr)
    totals: dict[str, float] = {}
    for kind, share, plan in (t for c in cells if c.setting.aim is None for t in c.tried):
        if kind == TUNED:
            totals[plan.words] = totals.get(plan.words, 0.0) + share
    once = max(totals, key=lambda words: totals[words])
    for cell in cells:
        measure(cell, once, runs)
        print(f"measured: {cell.setting.name}, n = {cell.n}", file=sys.stderr)
    lines = page(cells, once, runs, time.process_time() - started)
    if quick:
        print("\n".join(lines))
    else:
        write(
            "power",
            "Probability of certifying, and of certifying wrongly",
            lines,
            ("numpy", "mapie"),
        )


if __name__ == "__main__":
    main()
