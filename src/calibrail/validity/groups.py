"""Does the promise hold within each group, and what does one threshold for all do there?"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from calibrail.conformal import Guarantee, calibrate_groups, calibrate_threshold
from calibrail.validity.check import DELTA, Check, Observation, Setting
from calibrail.validity.distributions import Floats, below, draw

#: Mean score of the hallucinated answers of each group; low ones are hard to tell from faithful.
GROUPS: Final = {"easy": 1.0, "middle": 0.0, "hard": -1.0}
#: Two groups that are too small together make up the fallback.
_SMALL: Final = {"rare": 0.5, "rarer": -0.5}


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
