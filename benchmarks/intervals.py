"""How often do the intervals and tests that reports show hold, for few answers and near 1?

``python benchmarks/intervals.py [RUNS]`` writes ``results/intervals.md``, and exits with 1 where an
interval holds less often than chance explains. Some ten minutes on one core, most of them for how
many of just these answers ``agree`` calls hallucinated, and for the ranges that it prints of real
labelled sets (the folder ``CALIBRAIL_DATA``).
"""

from __future__ import annotations

import csv
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from results import write
from scipy.stats import binom, norm

import calibrail
from calibrail.conformal import calibrate_threshold
from calibrail.conformal.bounds import clopper_pearson
from calibrail.data.example import Example
from calibrail.evaluation.compare import matched_coverage
from calibrail.evaluation.judge_agreement import (
    LabelCounts,
    Method,
    RateName,
    corrected_rates,
    hallucinated_among,
    kappa,
    sample_tests,
)
from calibrail.evaluation.scored_answers import Sample
from calibrail.evaluation.stats.auroc import auroc, auroc_test, partial_auroc
from calibrail.evaluation.stats.tests import overlap, rank_correlation
from calibrail.evaluation.winner import Candidate, Candidates, PairTests
from calibrail.options import Promise

RUNS = 1000
#: Probability that any row falls below its limit although all intervals hold.
ERROR = 1e-3
Floats = NDArray[np.float64]
#: What a judge's labels are corrected for: its sensitivity and specificity, among so many answers
#: that it alone has labelled.
JUDGES = (
    (0.02, (0.99, 0.99)),
    (0.1, (0.9, 0.9)),
    (0.3, (0.9, 0.6)),
    (0.3, (0.6, 0.6)),
    (0.5, (1.0, 0.8)),
)
JUDGED = 2000
COVERAGE, FPR = 0.9, 0.2
DATA = Path(os.environ.get("CALIBRAIL_DATA", Path(__file__).parents[2] / "shared" / "data"))
#: Human labels that are drawn of a real set, how often, and its rows at most: every so-manieth.
DRAWN, DRAWS = (100, 300), 300
#: Files of so many answers, of which people label a share drawn without replacement; how often, and
#: how often each judge is right, whatever the answer (None: it says hallucinated as often as it is
#: so, whatever the answer).
FILE, FILES, FILE_RUNS, SHARES = 400, 4, 2000, (0.05, 0.3, 0.9)
FILE_JUDGES = {"perfect": 1.0, "right 80 %": 0.8, "useless": None, "inverted": 0.0}
WAYS: tuple[Method, ...] = ("rogan_gladen", "prediction_powered")
#: Real sets: file, subset of it, column of the judge, and whether it says hallucinated from a value
#: on (1), or below it (-1).
SETS = {
    "FRANK": ("frank/metric_scores.csv", "", "qags", -1, 0.6),
    "FaithBench": ("faithbench/summaries.csv", "", "gpt_4o", -1, 0.5),
    "FaithBench, another judge": ("faithbench/summaries.csv", "", "hhem_2_1", -1, 0.5),
    "RAGTruth, Llama-2-7B": ("ragtruth/llama2_7b_redeep.csv", "", "redeep_out_of_fold", 1, -0.1),
    **{
        f"LLM-AggreFact, {name}": ("aggrefact/scores.csv", name, "factcg_base", -1, 0.5)
        for name in ("ClaimVerify", "FactCheck-GPT", "Reveal", "Lfqa", "ExpertQA", "RAGTruth")
    },
}


@dataclass(frozen=True)
class Case:
    """One interval in one setting: whether it holds the truth in a run."""

    what: str
    setting: str
    held: Callable[[np.random.Generator], bool]
    stated: float = 0.95
    #: Shown as it is, and known not to hold for few answers.
    asymptotic: bool = False
    #: One run in so many, where each takes long.
    each: int = 1


def cases() -> Iterator[Case]:
    """Yield every interval in the settings where it is hardest to keep."""
    for m, n, area, spread in (
        (10, 10, 0.85, 1.0),
        (20, 20, 0.93, 3.0),
        (20, 500, 0.98, 1.0),
        (20, 500, 0.98, 3.0),
        (100, 100, 0.995, 3.0),
        (300, 300, 0.75, 1.0),
    ):
        setting = f"{m} against {n}, AUROC {area}, spread {spread:g}"
        yield Case("AUROC", setting, _area(m, n, area, spread))
    for n, shift in ((20, 0.0), (200, 0.0), (2000, 0.0), (200, 1.0)):
        yield Case("overlap, upper bound", f"{n} each, {shift:g} apart", _overlap(n, shift))
    for groups, size in ((6, 4), (15, 4), (15, 10), (40, 4)):
        yield Case("paired AUROC", f"{groups} groups of {size}", _paired(groups, size))
    for alpha, m, n in ((0.05, 60, 300), (0.05, 80, 80), (0.1, 60, 300), (0.2, 30, 100)):
        setting = f"alpha {alpha}, {m} against {n}"
        yield Case("FPR at the same coverage", setting, _matched(alpha, m, n))
    for m, n in ((40, 40), (40, 400)):
        for size in (1, 5):
            for better in (0.0, 1.5):
                setting = f"{m} against {n} in groups of {size}, {better:g} better"
                held = _difference(m, n, size, better)
                yield Case("difference in FPR at the same coverage", setting, held, each=10)
    for n in (20, 50, 200):
        yield Case("Spearman", f"{n} answers, continuous", _spearman(n, 0.5, None))
        yield Case("Spearman", f"{n} answers, in fifths", _spearman(n, 0.5, 5), asymptotic=True)
    for n in (100, 200):
        held = _partial(n)
        yield Case("AUROC, 80 %+ caught", f"{n} each", held, asymptotic=True, each=5)
    for n, rates, value in (
        (10, (0.5, 0.5), 0.0),
        (30, (0.5, 0.5), 0.8),
        (50, (0.05, 0.15), 0.3),
        (100, (0.05, 0.05), 0.8),
        (300, (0.2, 0.2), 0.98),
    ):
        setting = f"{n} answers, called by {rates[0]:.0%} and {rates[1]:.0%}, kappa {value}"
        yield Case("Cohen's kappa", setting, _kappa(n, rates, value), each=4)
    for n in (20, 60, 200):
        for prevalence, judge in JUDGES:
            for name in get_args(RateName):
                setting = f"{name}, {n} by people, {prevalence:.0%} hallucinated, judge {judge}"
                methods: tuple[Method, ...] = ("rogan_gladen", "prediction_powered")
                for method in methods[name != "prevalence" :]:
                    held = _judged(name, method, n, prevalence, judge)
                    yield Case(f"agree, {method}", setting, held, each=4)


def _area(m: int, n: int, area: float, spread: float) -> Callable[[np.random.Generator], bool]:
    mean = float(norm.ppf(area)) * math.hypot(1.0, spread)

    def held(rng: np.random.Generator) -> bool:
        found = auroc(rng.normal(mean, spread, m), rng.normal(size=n))
        return not (found.lies_above(area) or found.lies_below(area))

    return held


def _overlap(n: int, shift: float) -> Callable[[np.random.Generator], bool]:
    truth = 2.0 * float(norm.cdf(-shift / 2.0))
    return lambda rng: not overlap(rng.normal(shift, 1, n), rng.normal(size=n)).lies_below(truth)


def _paired(groups: int, size: int) -> Callable[[np.random.Generator], bool]:
    member = np.repeat(np.arange(groups), size)
    labels = np.tile(np.arange(size) % 2, groups).astype(np.int8)

    def held(rng: np.random.Generator) -> bool:
        shared, own = rng.normal(size=(2, groups))[:, member], rng.normal(size=(2, len(labels)))
        first, second = shared + own + labels
        return auroc_test(first, second, labels, member).p_value > 0.05

    return held


def _matched(alpha: float, m: int, n: int) -> Callable[[np.random.Generator], bool]:
    truth = float(norm.sf(norm.ppf(alpha) + 2.0))
    labels, codes = np.repeat([1, 0], [m, n]).astype(np.int8), np.full(m + n, 2, np.int8)
    made = calibrate_threshold(np.arange(100.0), Promise(alpha))

    def held(rng: np.random.Generator) -> bool:
        sample = Sample(rng.normal(size=m + n) + 2.0 * labels, labels, codes)
        (level,) = matched_coverage(
            Candidates.on(sample, [Candidate.of("one", sample, made)]), 1.0 - alpha
        )["levels"]
        fpr = level["rows"][0]["fpr"]
        return bool(fpr["lower"] <= truth <= (1.0 if fpr["upper"] is None else fpr["upper"]))

    return held


def _difference(
    m: int, n: int, size: int, better: float, alpha: float = 0.1
) -> Callable[[np.random.Generator], bool]:
    """Return whether the interval of the difference of two scores, the second better, holds it."""
    moved = np.array([2.0, 2.0 + better])
    truth = float(np.subtract(*norm.sf(norm.ppf(alpha) + moved)))
    labels, codes = np.repeat([1, 0], [m, n]).astype(np.int8), np.ones(m + n, np.int8)

    def held(rng: np.random.Generator) -> bool:
        groups = rng.permutation(np.arange(m + n) % ((m + n) // size))
        shared = 0.8 * rng.normal(size=m + n)[groups] + 0.6 * rng.normal(size=m + n)
        members = []
        for shift in moved:
            values = np.sqrt(0.5) * (shared + rng.normal(size=m + n)) + shift * labels
            sample = Sample(values, labels, codes, groups)
            calibration = sample.calibrated(Promise(alpha))
            members.append(Candidate.of(f"d{len(members)}", sample, calibration))
        pairs = PairTests(Candidates.on(sample, members), codes == 1)
        found = pairs.difference("d0", "d1")
        return bool(found.lower <= truth <= found.upper)

    return held


def _spearman(n: int, rho: float, parts: int | None) -> Callable[[np.random.Generator], bool]:
    def drawn(rng: np.random.Generator, size: int) -> tuple[Floats, Floats]:
        x = rng.normal(size=size)
        y = rho * x + math.sqrt(1.0 - rho**2) * rng.normal(size=size)
        return (x, y) if parts is None else (x, np.floor(parts * norm.cdf(y)))

    truth = float(rank_correlation(*drawn(np.random.default_rng(1), 1_000_000)).estimate or 0.0)

    def held(rng: np.random.Generator) -> bool:
        found = rank_correlation(*drawn(rng, n))
        return not (found.lies_above(truth) or found.lies_below(truth))

    return held


def _partial(n: int) -> Callable[[np.random.Generator], bool]:
    def area(rng: np.random.Generator, size: int, draws: int) -> tuple[float, float, float]:
        labels = np.repeat([1, 0], size).astype(np.int8)
        values, groups = rng.normal(size=2 * size) + 1.5 * labels, np.arange(2 * size)
        found = partial_auroc(values, labels, groups, draws=draws)
        return found.estimate or 0.0, found.lower or 0.0, found.upper or 1.0

    truth = area(np.random.default_rng(1), 100_000, 1)[0]

    def held(rng: np.random.Generator) -> bool:
        _, lower, upper = area(rng, n, 300)
        return lower <= truth <= upper

    return held


def _kappa(
    n: int, rates: tuple[float, float], value: float
) -> Callable[[np.random.Generator], bool]:
    a, b = rates
    excess = value * (a * (1 - b) + b * (1 - a)) / 2
    cells = [(1 - a) * (1 - b) + excess, (1 - a) * b - excess, a * (1 - b) - excess, a * b + excess]

    def held(rng: np.random.Generator) -> bool:
        found = kappa(rng.multinomial(n, cells).reshape(2, 2))
        return not (found.lies_above(value) or found.lies_below(value))

    return held


def _judged(
    name: RateName, method: Method, n: int, prevalence: float, judge: tuple[float, float]
) -> Callable[[np.random.Generator], bool]:
    """Return whether a corrected rate holds the truth if shown."""
    true = {"prevalence": prevalence, "coverage": COVERAGE, "fpr": FPR}[name]
    errs = np.array([[judge[1], 1 - judge[1]], [1 - judge[0], judge[0]]])
    flags = np.array([[1 - rate, rate] for rate in (FPR, COVERAGE)])
    law = np.array([1 - prevalence, prevalence])[:, None, None] * errs[:, :, None]
    law = law * flags[:, None, :]

    def held(rng: np.random.Generator) -> bool:
        cells = np.zeros((3, 3, 2), np.int64)
        cells[:2, :2] = rng.multinomial(n, law.ravel()).reshape(2, 2, 2)
        cells[2, :2] = rng.multinomial(JUDGED, law.sum(axis=0).ravel()).reshape(2, 2)
        # Without decisions nothing but the prevalence is estimated.
        flagged = name != "prevalence"
        counts = LabelCounts(cells, flagged)
        found = corrected_rates(counts)[name][method]
        return not (found.lies_above(true) or found.lies_below(true))

    return held


def labelled(name: str) -> list[Example]:
    """Return the rows of a real set that have a human label and the judge's, as ``agree`` reads."""
    file, subset, column, sign, limit = SETS[name]
    with (DATA / file).open(encoding="utf-8", newline="") as handle:
        rows = [row for row in csv.DictReader(handle) if not subset or row["subset"] == subset]
    rows = [row for row in rows if row[column].strip()]
    found = []
    for row in rows:
        label = row["label"] if "label" in row else str(1 - int(row["label_supported"]))
        said = (float(row[column]) >= limit) == (sign > 0)
        cells: dict[str, float | str | None] = {"human": label, "judge": str(int(said))}
        found.append(Example(id=row["id"], columns=cells, group=row.get("group") or None))
    return found


class Printed:
    """The ranges of the share of hallucinated answers that ``agree`` prints of a set.

    Parameters
    ----------
    rows : list of Example
        All of them with both labels, 0 or 1.
    """

    def __init__(self, rows: list[Example]) -> None:
        self.rows = rows
        self.people, self.judge = (
            np.array([int(str(row.columns[column])) for row in rows])
            for column in ("human", "judge")
        )
        # One row of each group by lot: as `agree` tests whether a sample is random.
        self._alone, chosen = np.array([row.group is None for row in rows]), dict[str, int]()
        for row in np.random.default_rng(0).permutation(len(rows)).tolist():
            chosen.setdefault(rows[row].group or "", row)
        self._alone[[row for name, row in chosen.items() if name]] = True
        self._unit = np.array(
            [chosen[row.group] if row.group else at for at, row in enumerate(rows)]
        )

    def counts(self, drawn: NDArray[np.bool_], among: NDArray[np.bool_] | None) -> LabelCounts:
        """Count rows by labels, those of people only where they are drawn; of all, by groups."""
        unit = self._unit if among is None else np.arange(len(drawn))
        rows = np.full(len(drawn), True) if among is None else among
        places = np.where(drawn, self.people, 2)[rows], self.judge[rows], np.zeros(rows.sum(), int)
        return LabelCounts.weighted(places, unit[rows], decided=False)

    def __call__(self, drawn: NDArray[np.bool_]) -> dict[str, tuple[float, float] | None]:
        """Return lower and upper end by estimator; None where none is printed."""
        found = corrected_rates(self.counts(drawn, None))["prevalence"]
        doubted = any(test["differs"] for test in sample_tests(self.counts(drawn, self._alone)))
        return {
            way: None
            if item.lower is None or (doubted and way == "prediction_powered")
            else (item.lower, item.upper)
            for way, item in found.items()
            if way in WAYS
        }

    def by_agree(self, drawn: NDArray[np.bool_]) -> dict[str, tuple[float, float] | None]:
        """Return the same from ``calibrail.agree``, which reads all rows anew."""
        blank: dict[str, float | str | None] = {"human": None}
        file = [
            row if known else Example(id=row.id, group=row.group, columns={**row.columns, **blank})
            for row, known in zip(self.rows, drawn.tolist(), strict=True)
        ]
        result = calibrail.agree(file, label_column="human", judge_column="judge").to_dict()
        found = result["judges"][0]["rates"]["prevalence"]
        return {
            way: None if item["lower"] is None else (item["lower"], item["upper"])
            for way, item in found.items()
            if way in WAYS
        }


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Say whether ranges are the same but for the order in which rows were summed."""
    return one.keys() == other.keys() and all(
        mine is theirs if mine is None or theirs is None else np.allclose(mine, theirs, atol=1e-12)
        for mine, theirs in ((ends, other[way]) for way, ends in one.items())
    )


def real_set(name: str, n: int, draws: int = DRAWS) -> tuple[str, list[int]]:
    """Return a line of how often printed ranges held a set's own rate, and how often each did."""
    printed, rng = Printed(labelled(name)), np.random.default_rng([11, n])
    size, rate = len(printed.rows), float(printed.people.mean())
    held, widths = dict.fromkeys(WAYS, 0), {way: list[float]() for way in (*WAYS, "alone")}
    for k in range(draws):
        drawn = np.zeros(size, bool)
        drawn[rng.choice(size, n, replace=False)] = True
        ranges = printed(drawn)
        if not k and not same(ranges, printed.by_agree(drawn)):
            raise SystemExit(f"{name}: agree prints other ranges than are counted here")
        for way, ends in ranges.items():
            held[way] += ends is None or ends[0] <= rate <= ends[1]
            widths[way] += [] if ends is None else [ends[1] - ends[0]]
        low, high = clopper_pearson(int(printed.people[drawn].sum()), n, 0.95)
        widths["alone"].append(high - low)
    cells = [name, f"{size:,}", f"{rate:.3f}", f"{np.mean(printed.people == printed.judge):.0%}"]
    cells += [
        str(n),
        *(f"{item / draws:.3f} ± {_error(item, draws):.3f}" for item in held.values()),
    ]
    cells.append(f"{len(widths['prediction_powered']) / draws:.1%}")
    cells += [f"{np.median(item):.3f}" for item in widths.values()]
    return f"| {' | '.join(cells)} |", [*held.values()]


def _error(times: int, of: int) -> float:
    """Return the Monte-Carlo standard error of a share, of half a run where it is all or none."""
    share = min(max(times, 0.5), of - 0.5) / of
    return math.sqrt(share * (1.0 - share) / of)


def real_sets() -> tuple[list[str], int]:
    """Return the section of real sets, and how many rows hold less often than chance explains."""
    lines = [
        "",
        "## Printed ranges on real labelled sets",
        "",
        f"Of all human labels of a set {' or '.join(map(str, DRAWN))} are drawn at random, "
        f"{DRAWS} times, the others are blank, and `calibrail.agree` prints the share of "
        "hallucinated answers: held is the share of files whose 95 % range holds the share in the "
        "set (± the standard error of that share), or in which none was printed since the draw "
        "looked like no random sample (printed: the share with one). Width: the median; alone: of "
        "the exact range of the same labels without the judge. Judges are published detectors at a "
        "fixed limit; right: how often they say what people say. The first draw of each line is "
        "read by `agree`, and the others are counted as it counts.",
        "",
        "| set | answers | hallucinated | judge right | labels | Rogan-Gladen held "
        "| prediction-powered held | printed | width, Rogan-Gladen | prediction-powered | alone |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    failed, least = 0, binom.ppf(ERROR / (2 * len(DRAWN) * len(SETS)), DRAWS, 0.95)
    for name in (item for item in SETS if (DATA / SETS[item][0]).exists()):
        for n in DRAWN:
            line, held = real_set(name, n)
            failed += min(held) < least
            lines.append(line)
            print(line, flush=True)
    return lines, failed


def among(n: int, rate: float, right: float | None, runs: int, size: int = FILE) -> tuple[int, Any]:
    """Return how often the range of how many of a file are hallucinated holds that, and widths.

    Widths are the median, and that of the labels alone: as of a judge that calls all alike.
    """
    truth = np.arange(size) < round(rate * size)
    rng, held, widths = np.random.default_rng([13, n, round(1000 * rate)]), 0, list[Any]()

    @cache
    def ends(*judge: tuple[int, int, int]) -> tuple[int, int]:
        cells = np.zeros((3, 3, 2), np.int64)
        cells[:, : len(judge), 0] = np.transpose(judge)
        found = hallucinated_among(LabelCounts(cells, decided=False), 0.95)
        assert found is not None
        return found["lower"], found["upper"]

    for run in range(runs):
        if run % (runs // FILES) == 0:
            correct = rng.random(size) < (right or 0.0)
            said = rng.random(size) < rate if right is None else truth == correct
        people = np.where(rng.permutation(size) < n, truth, 2)
        each = [tuple(np.bincount(people[said == j], minlength=3).tolist()) for j in (0, 1)]
        low, high = ends(*each)
        alone = ends(tuple(np.sum(each, axis=0).tolist()))
        held += low <= truth.sum() <= high
        widths.append((high - low, alone[1] - alone[0]))
    return held, np.median(widths, axis=0)


def among_these(runs: int = FILE_RUNS) -> tuple[list[str], int]:
    """Return the section of ranges about just the answers of a file, and how many rows fail."""
    lines = [
        "",
        "## How many of just these answers",
        "",
        f"Files of {FILE} answers, of which people label a share, drawn without replacement "
        f"({runs:,} draws a cell, from {FILES} files): how often the 95 % range of how many of "
        "them are hallucinated (`agree`, *of these answers*) held that, and its median width over "
        "that of the labels alone (hypergeometric; in answers).",
        "",
        f"| labelled | hallucinated | labels alone | {' | '.join(FILE_JUDGES)} |",
        "|---" * (3 + len(FILE_JUDGES)) + "|",
    ]
    rates = (0.01, 0.05, 0.1, 0.3, 0.5)
    failed = 0
    least = binom.ppf(ERROR / (len(SHARES) * len(rates) * len(FILE_JUDGES)), runs, 0.95)
    for share in SHARES:
        for rate in rates:
            cells = []
            for right in FILE_JUDGES.values():
                held, (width, alone) = among(round(share * FILE), rate, right, runs)
                failed += held < least
                cells.append(f"{held / runs:.3f}; {width / alone:.2f}")
            lines.append(f"| {share:.0%} | {rate:.0%} | {alone:.0f} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return lines, failed


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    every = list(cases())
    lines = [
        f"{runs:,} runs a row (fewer where each takes long); stated: 95 %. A row fails where fewer "
        "intervals hold the truth than chance explains. Those marked *asymptotic* are shown with "
        "what they reach. For *paired AUROC*: the share of true null hypotheses not rejected. For "
        "*agree*: the share of files in which no wrong interval is shown.",
        "",
        "| interval | setting | held | |",
        "|---|---|---|---|",
    ]
    failed = 0
    for place, case in enumerate(every):
        rng, done = np.random.default_rng([7, place]), max(1, runs // case.each)
        held = sum(case.held(rng) for _ in range(done))
        short = held < binom.ppf(ERROR / len(every), done, case.stated)
        failed += short and not case.asymptotic
        note = "asymptotic" if case.asymptotic else "FAILED" if short else ""
        lines.append(f"| {case.what} | {case.setting} | {held / done:.3f} | {note} |")
    if runs < RUNS:
        print("\n".join(lines))
    else:
        real, short = real_sets()
        these, fell_short = among_these()
        lines, failed = [*lines, *real, *these], failed + short + fell_short
        write("intervals", "Do the intervals hold?", lines, ("numpy", "scipy"))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
