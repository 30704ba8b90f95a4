"""Does the promise hold in each group, and where answers come in clusters or groups overlap?

Groups are known and have a threshold each. Answers of one cluster, such as those to one question,
share an effect (intra-class correlation 0.8), and the higher it is, the more answers the cluster
has. What is promised counts each cluster once, so the true miss rate of a threshold is that of one
normal score.

Groups that overlap: answers are of one of two models on one of two topics. The rarer model is the
hard one, it writes on one topic more often than on the other, and worst where it writes least: what
a model and a topic add to the scores is not a sum, which is what the thresholds are made of.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from scipy.special import ndtr

from calibrail.conformal import (
    Guarantee,
    calibrate_clusters,
    calibrate_groups,
    calibrate_overlapping,
    calibrate_threshold,
    conformal_selection,
    p_values,
    storey_share,
)
from calibrail.conformal.argument_checks import Ints
from calibrail.conformal.group_thresholds import joined

from .check import DELTA, Check, Floats, Observation, Setting, as_score, below, draw

#: Mean score of the hallucinated answers of each group; low ones are hard to tell from faithful.
GROUPS: Final = {"easy": 1.0, "middle": 0.0, "hard": -1.0}
#: Two groups that are too small together make up the fallback.
_SMALL: Final = {"rare": 0.5, "rarer": -0.5}
#: Share of the scores' variance that answers to one question have in common.
CORRELATION: Final = 0.8
#: A question has 1 to this many answers.
LARGEST: Final = 10

DESIGN: Final = f"1 to {LARGEST} answers a cluster, correlation {CORRELATION:g}"


def grouped_marginal(at: Setting) -> Iterator[Check]:
    """Miss a fresh hallucination of one group: k / (n + 1), at most alpha, in each."""
    thresholds = _by_group(at, "marginal")
    rng, what = at.rng("new answers"), "groups, marginal coverage"
    for name, loc in GROUPS.items():
        missed = draw(rng, at.kind, at.runs, loc) < thresholds[name]
        yield at.check(what, missed, at.alpha, exact=at.miss_rate, design=name)


def grouped_pac(at: Setting) -> Iterator[Check]:
    """Draw a ``pac`` threshold that misses more than alpha in a group: at most ``DELTA`` each."""
    thresholds = _by_group(at, "pac")
    bad = {name: below(at.kind, thresholds[name], loc) > at.alpha for name, loc in GROUPS.items()}
    for name, failed in bad.items():
        yield at.check("groups, pac coverage", failed, DELTA, exact=at.pac_error, design=name)
    some, count = np.logical_or.reduce(list(bad.values())), len(GROUPS)
    exact, design = 1.0 - (1.0 - at.pac_error) ** count, "any of the three"
    yield at.check("groups, pac coverage", some, count * DELTA, exact=exact, design=design)


def fallback(at: Setting) -> Iterator[Check]:
    """Miss a fresh hallucination of either of two groups that share the fallback: at most alpha.

    Which groups are small is known beforehand, and both are as frequent among new answers as among
    the calibration ones. Without that nothing is promised for the fallback.
    """
    rng, locs = at.rng("fallback"), np.array(list(_SMALL.values()))

    def missed() -> bool:
        members = rng.integers(len(locs), size=at.n + 1)
        scores = draw(rng, at.kind, at.n + 1, locs[members])
        names = [list(_SMALL)[member] for member in members.tolist()]
        # No group reaches a minimum of all n, so they share one threshold.
        shared = calibrate_groups(scores[1:], names[1:], at.promise(by="group", min_n=at.n))
        return not shared.flags(scores[:1], names[:1])[0]

    name, design = "groups, fallback coverage", "two groups known to be small, same mix"
    yield at.check(name, at.repeated(missed), at.alpha, exact=at.miss_rate, design=design)


def pooled_over_groups(at: Setting) -> Iterator[Observation]:
    """Miss a fresh hallucination of a group with one threshold for all; nothing is promised."""
    pooled = [calibrate_threshold(row, at.promise()).threshold for row in _pooled(at)]
    fresh = at.rng("new answers")
    for name, loc in GROUPS.items():
        missed = draw(fresh, at.kind, at.runs, loc) < pooled
        yield at.observed(f"one threshold for all misses in the {name} group", missed, at.alpha)


def _pooled(at: Setting) -> Floats:
    """Return n scores of each group, group by group, shape (runs, groups * n)."""
    rng = at.rng("groups")
    parts = [draw(rng, at.kind, (at.runs, at.n), loc) for loc in GROUPS.values()]
    return np.concatenate(parts, axis=1)


def _by_group(at: Setting, guarantee: Guarantee) -> dict[str, Floats]:
    """Return each group's thresholds over the runs."""
    names = np.repeat(list(GROUPS), at.n).tolist()
    calibrated = [calibrate_groups(row, names, at.promise(guarantee)) for row in _pooled(at)]
    return {name: np.array([item.of(name).threshold for item in calibrated]) for name in GROUPS}


def clustered_marginal(at: Setting) -> Iterator[Check]:
    """Miss a fresh hallucination of a new cluster: at most alpha."""
    thresholds = [calibrate_clusters(*part, at.promise()).threshold for part in _samples(at)]
    missed = draw(at.rng("new cluster"), at.kind, at.runs) < thresholds
    yield at.check("clusters, marginal coverage", missed, at.alpha, design=DESIGN)


def clustered_pac(at: Setting) -> Iterator[Check]:
    """Draw a ``pac`` threshold that misses more than alpha of new clusters: at most ``DELTA``."""
    calibrated = (calibrate_clusters(*part, at.promise("pac")) for part in _samples(at))
    bad = below(at.kind, np.array([item.threshold for item in calibrated])) > at.alpha
    yield at.check("clusters, pac coverage", bad, DELTA, design=DESIGN)


def clustered_selection(at: Setting) -> Iterator[Check]:
    """Release hallucinated answers, one from each new cluster: at most alpha on average.

    By bh at most alpha * pi. The p-values come from one calibration score of each cluster.
    """
    rng, m, bad = at.rng("selected"), 40, 12
    wrong: dict[str, list[bool]] = {"bh": [], "storey": []}
    for part in _samples(at):
        made = calibrate_clusters(*part, at.promise(allow_flag_all=True))
        batch = np.append(draw(rng, at.kind, bad), draw(rng, at.kind, m - bad, -3.0))
        p = p_values(np.sort(made.one_per_cluster()), batch)
        for method, share in (("bh", 1.0), ("storey", storey_share(p, at.n))):
            released = np.flatnonzero(conformal_selection(p, at.alpha, share).released)
            wrong[method].append(len(released) > 0 and rng.choice(released) < bad)
    for method, promised in (("bh", at.alpha * bad / m), ("storey", at.alpha)):
        name, design = "clusters, false discovery rate of a selection", f"{method}, {DESIGN}"
        yield at.check(name, wrong[method], promised, design=design)


def naive_on_clusters(at: Setting) -> Iterator[Observation]:
    """Calibrate on the same data as if all answers were independent; nothing is promised."""
    samples = [scores for scores, _ in _samples(at)]
    marginal = [calibrate_threshold(scores, at.promise()).threshold for scores in samples]
    missed = draw(at.rng("new cluster"), at.kind, at.runs) < marginal
    yield at.observed("naive threshold misses an answer of a new cluster", missed, at.alpha)
    promise = at.promise("pac", allow_flag_all=True)
    pac = (calibrate_threshold(scores, promise) for scores in samples)
    bad = ndtr([item.threshold for item in pac]) > at.alpha
    yield at.observed("naive pac threshold misses more than alpha", bad, DELTA)


def _samples(at: Setting) -> Iterator[tuple[Floats, Ints]]:
    """Yield for each run the scores of ``n`` clusters and the cluster of each."""
    rng = at.rng("clusters")
    for _ in range(at.runs):
        effects = rng.standard_normal(at.n)
        sizes = 1 + rng.binomial(LARGEST - 1, ndtr(effects))
        clusters = np.repeat(np.arange(at.n), sizes)
        noise = rng.standard_normal(len(clusters))
        normal = np.sqrt(CORRELATION) * effects[clusters] + np.sqrt(1.0 - CORRELATION) * noise
        yield as_score(at.kind, normal), clusters


#: Share and mean score of the hallucinated answers of each model on each topic.
CELLS: Final = {
    ("large", "law"): (0.45, 0.0),
    ("large", "news"): (0.35, 0.8),
    ("small", "law"): (0.15, -1.2),
    ("small", "news"): (0.05, -2.0),
}
_NAMES: Final = tuple(CELLS)
_SHARES: Final = np.array([share for share, _ in CELLS.values()])
_LOCS: Final = np.array([loc for _, loc in CELLS.values()])
_KEYS: Final = [joined(names) for names in _NAMES]
#: The groups: column and value.
OVERLAPPING: Final = tuple(
    (column, name) for column in range(2) for name in sorted({cell[column] for cell in _NAMES})
)


def overlapping_marginal(at: Setting) -> Iterator[Check]:
    """Miss a fresh hallucination of one group: at most alpha, in each group of both columns."""
    rng, promise = at.rng("overlapping"), at.promise(by=("model", "topic"))
    missed = {group: list[bool]() for group in OVERLAPPING}
    for _ in range(at.runs):
        scores, cells = _draw(rng, at, at.n)
        made = calibrate_overlapping(scores, [_KEYS[cell] for cell in cells], promise)
        for (column, name), wrong in missed.items():
            values, (cell,) = _draw(rng, at, 1, column, name)
            key = [_KEYS[cell]]
            promised = made.is_covered(key)[0] and made.has_promise(column, name)
            wrong.append(bool(promised and not made.flags(values, key)[0]))
    for (_, name), wrong in missed.items():
        yield at.check("overlapping groups, marginal coverage", wrong, at.alpha, design=name)


def overlapping_beside(at: Setting) -> Iterator[Observation]:
    """Miss a fresh hallucination of an intersection, or of a group with other thresholds.

    Nothing is promised where groups meet. One threshold for all breaks in the hard group. A
    threshold for each combination has too few examples where both groups are small, and is the one
    of all there.
    """
    rng = at.rng("overlapping, beside")
    columns, both = at.promise(by=("model", "topic")), at.promise(by="both")
    missed: dict[tuple[str, str], list[bool]] = {}
    for _ in range(at.runs):
        scores, cells = _draw(rng, at, at.n)
        keys = [_KEYS[cell] for cell in cells]
        overlapping = calibrate_overlapping(scores, keys, columns)
        crossed = calibrate_groups(scores, keys, both)
        shared = calibrate_threshold(scores, at.promise())
        fresh = [
            (" and ".join(names), cell, draw(rng, at.kind, 1, _LOCS[cell]))
            for cell, names in enumerate(_NAMES)
        ]
        for group in OVERLAPPING:
            values, (cell,) = _draw(rng, at, 1, *group)
            fresh.append((group[1], cell, values))
        for design, cell, values in fresh:
            key = [_KEYS[cell]]
            for what, flagged in (
                ("overlapping groups", overlapping.flags(values, key)),
                ("one threshold for all", shared.flags(values)),
                ("a threshold for each combination", crossed.flags(values, key)),
            ):
                missed.setdefault((what, design), []).append(not flagged[0])
    for (what, design), wrong in missed.items():
        yield at.observed(f"{what}, misses in {design}", wrong, at.alpha)


def _draw(
    rng: np.random.Generator, at: Setting, n: int, column: int = 0, name: str | None = None
) -> tuple[Floats, list[int]]:
    """Draw hallucinated answers, of one group where it is named: scores, and which cells."""
    inside = np.array([name is None or cell[column] == name for cell in _NAMES])
    shares = np.where(inside, _SHARES, 0.0)
    cells = rng.choice(len(_NAMES), size=n, p=shares / shares.sum())
    return draw(rng, at.kind, n, _LOCS[cells]), cells.tolist()
