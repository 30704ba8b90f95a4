"""What do detectors leave of real answers that are trimmed, and what does that free?

``python benchmarks/trimming.py`` writes ``results/trimming.md``: RAGTruth QA, FaithBench and two
tables of WikiBio (``CALIBRAIL_DATA``), with the entailment model at ``CALIBRAIL_MODELS``. Sentences
are scored once; then the answers are split by lot ``SPLITS`` times, half to calibrate and half to
measure, as ``calibrail calibrate --unit sentence --clustered`` splits them. Minutes on one core;
the first time, where the entailment model is there, some twenty more a set: with ``--quick``
entailment scores that are not kept from an earlier run are left out, and named.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from detectors import DATA, MODEL
from numpy.typing import NDArray
from results import write
from trimming_sets import OVERLAP, SETS, Set

from calibrail.conformal import calibrate_clusters
from calibrail.data.splits import CALIBRATION, TEST
from calibrail.errors import TooFewExamplesError
from calibrail.evaluation.measures import Outcomes
from calibrail.evaluation.stats.auroc import clustered_auroc
from calibrail.evaluation.stats.intervals import Measure
from calibrail.options import Promise, SplitOptions
from calibrail.pipelines.splitting import group_codes, split_codes
from calibrail.scores.registry import key_of
from calibrail.scores.table import ScoreTable, SentenceTable, Trimming

SPLITS, RESAMPLES = 30, 2000
ALPHAS: Final = (0.1, 0.2)
Floats = NDArray[np.float64]
#: What is measured: a sum over answers, and what it is divided by.
MEASURES: Final = ("freed", "kept", "emptied", "precision", "recall", "f1", "whole")


@dataclass(frozen=True)
class Scored:
    """A set of answers whose sentences are scored."""

    set: Set
    table: ScoreTable
    sentences: SentenceTable
    #: Column of each detector, and its tolerance.
    keys: dict[str, tuple[str, float]]
    #: Source of each answer, 0 to K - 1.
    sources: NDArray[np.int64]
    #: Detectors that were not computed.
    left_out: tuple[str, ...] = ()

    @property
    def hallucinated(self) -> NDArray[np.bool_]:
        """Which answers hold an unsupported sentence."""
        return self.sentences.any(self.sentences.labels == 1)


@dataclass(frozen=True)
class Row:
    """What a way of trimming does, over all splits: estimate and interval of each measure."""

    name: str
    shares: dict[str, tuple[float, float, float]]
    splits: int


def main() -> None:
    if missing := [item.path for item in SETS if not (DATA / item.path).exists()]:
        sys.exit(f"skipped: no {missing}; set CALIBRAIL_DATA")
    lines = preface()
    if not MODEL.is_dir():
        lines += ["", "Entailment scores were left out: CALIBRAIL_MODELS holds no nli-minilm."]
    for item in SETS:
        scored = score(item, quick="--quick" in sys.argv[1:])
        areas = {name: area(scored, key) for name, (key, _) in scored.keys.items()}
        lines += heading(scored)
        for alpha in ALPHAS:
            lines += table(list(trimmed(scored, alpha)), areas, alpha)
    write("trimming", "What trimming leaves of real answers", lines, ("numpy", "torch"))


def preface() -> list[str]:
    return [
        f"Means over {SPLITS} splits by source, half to calibrate and half to measure; in brackets "
        "95 % intervals from drawing sources anew. Thresholds count each source once "
        "(`--clustered`) and promise that with probability 1 - alpha every unsupported sentence of "
        "a hallucinated answer goes. All answers of the other half count.",
        "",
        "- freed: hallucinated answers of which no unsupported sentence is shown (promised: "
        "1 - alpha)",
        "- kept: of the supported sentences of an answer that holds one, those that are shown, on "
        "average over answers",
        "- emptied: answers of which nothing is left",
        "- precision, recall, F1: of removed characters those that people marked, the reverse, and "
        "the harmonic mean of both, taken in each split (sentences go whole, marks are often a few "
        "words)",
        "- whole: what is kept of the supported sentences if answers are flagged as a whole "
        "instead, by their highest sentence score, at a threshold that catches 1 - alpha of the "
        "hallucinated ones: the same promise that nothing unsupported is shown",
        "- AUROC: of all sentences, unsupported against supported, with an interval by source",
        "",
        "`least overlapping` removes one sentence of every answer: the one with the lowest word "
        "overlap with the contexts. nli, sec and claims, where they stand, rest on a small test "
        "model that is not public (22 million parameters; its AUROC of whole answers of HaluEval "
        "QA is 0.60 at most, results/detectors.md): their rows judge this model, not entailment, "
        "and nobody else can make them. A sentence without a claim has no score of claims, and is "
        "removed. Token classifiers and judges have no row: no real model of theirs was at hand.",
    ]


def score(item: Set, *, quick: bool) -> Scored:
    """Score the sentences of a set, once."""
    scores = item.scores()
    answers, sentences = item.read(scores, quick=quick)
    keys = {
        name: (key_of(made), float(made.tolerance))
        for name, made in scores.items()
        if key_of(made) in sentences.columns
    }
    sources = np.unique(group_codes(answers), return_inverse=True)[1].astype(np.int64)
    left_out = tuple(name for name in scores if name not in keys)
    return Scored(item, answers, sentences, keys, sources, left_out)


def area(scored: Scored, key: str) -> Measure:
    """Return the AUROC of sentences, with an interval by source."""
    values = scored.sentences.columns[key]
    clusters = np.repeat(scored.sources, np.diff(scored.sentences.first))
    ranked = np.where(np.isnan(values), np.inf, values)
    return clustered_auroc(ranked, scored.sentences.labels, clusters, 0.95)


def trimmed(scored: Scored, alpha: float) -> Iterator[Row]:
    """Yield what every baseline and every detector does."""
    sentences, n = scored.sentences, scored.sentences.n_answers
    codes = [split_codes(scored.table, SplitOptions(seed=s), False) for s in range(SPLITS)]
    for name, removed in baselines(scored).items():
        chosen = replace(sentences, columns={name: removed.astype(np.float64)})
        left = chosen.trim(name, np.full(n, 0.5), "flag", 0.0)
        yield row(name, scored, [counts(scored, code == TEST, left) for code in codes])
    for name, (key, tolerance) in scored.keys.items():
        found = []
        values, worst = sentences.values(key, "flag"), highest(sentences, key)
        for code in codes:
            part = (code == CALIBRATION) & scored.hallucinated
            try:
                at, whole = (
                    calibrate_clusters(
                        each[part], scored.sources[part], Promise(alpha, clustered=True)
                    ).threshold
                    for each in (values, worst)
                )
            except TooFewExamplesError:
                continue
            left = sentences.trim(key, np.full(n, at), "flag", tolerance)
            flagged = np.isnan(worst) | (worst + tolerance >= whole)
            found.append(counts(scored, code == TEST, left, flagged))
        yield row(name, scored, found)


def baselines(scored: Scored) -> dict[str, NDArray[np.bool_]]:
    """Return what is removed by ways that need no labels."""
    sentences = scored.sentences
    m = len(sentences)
    ways = {"nothing": np.zeros(m, np.bool_), "everything": np.ones(m, np.bool_)}
    if OVERLAP in scored.keys:
        values = sentences.columns[scored.keys[OVERLAP][0]]
        order = np.lexsort((-np.where(np.isnan(values), np.inf, values), sentences.answers))
        least = np.zeros(m, np.bool_)
        least[order[sentences.first[:-1]]] = True
        ways["least overlapping"] = least
    return ways


def highest(sentences: SentenceTable, key: str) -> Floats:
    """Return the highest sentence score of each answer; NaN where one has none."""
    values = sentences.columns[key]
    return np.maximum.reduceat(values, sentences.first[:-1])


def counts(
    scored: Scored,
    test: NDArray[np.bool_],
    left: Trimming,
    flagged: NDArray[np.bool_] | None = None,
) -> Floats:
    """Return by source what is counted and of how many, shape (measures, 2, sources)."""
    sentences, outcomes = scored.sentences, Outcomes.of(scored.sentences, left)
    hallucinated, holds = scored.hallucinated & test, ~np.isnan(outcomes.kept) & test
    removed = np.where(left.removed, sentences.written, 0)
    hit = np.where(left.removed & (sentences.marked > 0), sentences.marked, 0)
    marked = np.where(sentences.marked > 0, sentences.marked, 0)
    # Where people marked sentences and no characters, there is nothing to compare with.
    if not marked.any():
        removed = np.zeros_like(removed)

    def of_answers(values: NDArray[np.int32]) -> Floats:
        return np.add.reduceat(values, sentences.first[:-1]).astype(np.float64) * test

    characters = of_answers(marked) + sentences.outside * test
    pairs = {
        "freed": (outcomes.freed & hallucinated, hallucinated),
        "kept": (np.where(holds, outcomes.kept, 0.0), holds),
        "emptied": (outcomes.emptied & test, test),
        "precision": (of_answers(hit), of_answers(removed)),
        "recall": (of_answers(hit), characters),
        "f1": (2.0 * of_answers(hit), of_answers(removed) + characters),
        "whole": (holds if flagged is None else holds & ~flagged, holds),
    }
    k = int(scored.sources.max()) + 1
    return np.array(
        [
            [np.bincount(scored.sources, np.asarray(side, np.float64), k) for side in pairs[name]]
            for name in MEASURES
        ]
    )


def row(name: str, scored: Scored, found: list[Floats]) -> Row:
    """Return means over the splits, with intervals from drawing sources anew."""
    if not found:
        return Row(name, {}, 0)
    stacked = np.array(found)
    k = stacked.shape[-1]
    drawn = np.random.default_rng(0).multinomial(k, np.full(k, 1.0 / k), RESAMPLES).T

    def shares(sums: Floats) -> Floats:
        # What nothing is counted of has no share.
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return np.nanmean(sums[:, :, 0] / sums[:, :, 1], axis=0)

    means, again = shares(stacked.sum(axis=-1)), shares(stacked @ drawn)
    ends = np.percentile(again, [2.5, 97.5], axis=-1)
    return Row(
        name,
        {
            measure: (float(means[i]), float(ends[0, i]), float(ends[1, i]))
            for i, measure in enumerate(MEASURES)
        },
        len(found),
    )


def heading(scored: Scored) -> list[str]:
    sentences, item = scored.sentences, scored.set
    bad = int(np.count_nonzero(sentences.labels == 1))
    n, hallucinated = sentences.n_answers, int(np.count_nonzero(scored.hallucinated))
    return [
        "",
        f"## {item.name}",
        "",
        f"{n} answers to {int(scored.sources.max()) + 1} sources, {hallucinated} hallucinated; "
        f"{len(sentences):,} sentences, {bad:,} unsupported. {item.note}",
        *([f"Not measured: {', '.join(scored.left_out)}."] if scored.left_out else []),
    ]


def table(rows: list[Row], areas: dict[str, Measure], alpha: float) -> list[str]:
    lines = [
        "",
        f"### {item_title(alpha)}",
        "",
        "| removed by | AUROC | freed | kept | emptied | precision | recall | F1 | whole |",
        "|---" * 9 + "|",
    ]
    for item in rows:
        cells = [shown(item, name) for name in MEASURES]
        if item.name not in areas:
            cells[-1] = ""
        lines.append(f"| {item.name} | {of(areas.get(item.name))} | {' | '.join(cells)} |")
    return lines


def item_title(alpha: float) -> str:
    return f"alpha = {alpha:g}"


def shown(item: Row, name: str) -> str:
    if not item.splits:
        return "too few answers"
    estimate, lower, upper = item.shares[name]
    if np.isnan(estimate):
        return "-"
    return f"{estimate:.0%} ({lower:.0%} to {upper:.0%})"


def of(measure: Measure | None) -> str:
    if measure is None or measure.estimate is None:
        return ""
    return f"{measure.estimate:.2f} ({measure.lower:.2f} to {measure.upper:.2f})"


if __name__ == "__main__":
    main()
