"""Do the answers that are released from a batch keep the promises about them?"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import numpy as np

from calibrail.conformal import (
    conformal_selection,
    discoveries,
    labelled_share,
    p_values,
    storey_share,
)
from calibrail.validity.check import Check, Setting
from calibrail.validity.distributions import Floats, draw

#: Batches: size, and share of hallucinated answers.
SELECTED: Final = ((2, 0.5), (50, 0.3), (50, 1.0))
SEARCHED: Final = ((50, 0.3), (50, 1.0))
#: The same where the share of hallucinated answers is estimated.
ESTIMATED: Final = ((20, 0.1), (20, 0.9), (200, 0.05), (200, 0.5))
#: The faithful scores lie this far below the hallucinated ones.
_SHIFT: Final = 3.0


def false_discovery_rate(at: Setting) -> Iterator[Check]:
    """Release hallucinated answers: on average at most alpha * pi of the released ones.

    A share has no binomial limits, so one of the released answers is drawn at random in each run
    and counted if it is hallucinated: the probability of that is the mean of the share.

    With continuous scores the rate is known exactly where alpha (n + 1) / m is a whole number
    (Marandon, Lei, Mary and Roquain, 2024, Annals of Statistics 52(1)).
    """
    for m, pi in SELECTED:
        rng = at.rng(f"select {m} {pi}")
        wrong = []
        for p, bad in _batches(rng, at, m, pi):
            released = np.flatnonzero(conformal_selection(p, at.alpha).released)
            wrong.append(len(released) > 0 and rng.choice(released) < bad)
        promised = at.alpha * round(m * pi) / m
        step = Fraction(repr(at.alpha)) * (at.n + 1) / m
        exact = promised if step.denominator == 1 else None
        name, design = "selection, false discovery rate", f"batch of {m}, pi = {pi:g}"
        yield at.check(name, wrong, promised, exact=exact, design=design)


def storey_rate(at: Setting) -> Iterator[Check]:
    """Release hallucinated answers where the batch tells their share: at most alpha on average."""
    for m, pi in ESTIMATED:
        rng, wrong = at.rng(f"storey {m} {pi}"), []
        for p, bad in _batches(rng, at, m, pi):
            share = storey_share(p, at.n)
            released = np.flatnonzero(conformal_selection(p, at.alpha, share).released)
            wrong.append(len(released) > 0 and rng.choice(released) < bad)
        name, design = "selection by storey, false discovery rate", f"batch of {m}, pi = {pi:g}"
        yield at.check(name, wrong, at.alpha, design=design)


def both_classes_rate(at: Setting) -> Iterator[Check]:
    """Release hallucinated answers where labels tell their share: at most alpha on average.

    Labels are drawn, in the batch as among the labelled answers; n of these are hallucinated on
    average, and the half of them that a split by class leaves to calibrate gives the p-values.
    """
    for m, pi in ESTIMATED:
        rng, wrong = at.rng(f"both classes {m} {pi}"), []
        for _ in range(at.runs):
            labelled = round(at.n / pi)
            hallucinated = int(rng.binomial(labelled, pi))
            calibration = np.sort(draw(rng, at.kind, (hallucinated + 1) // 2))
            bad = int(rng.binomial(m, pi))
            batch = np.append(draw(rng, at.kind, bad), draw(rng, at.kind, m - bad, -_SHIFT))
            share = labelled_share(hallucinated, labelled)
            p = p_values(calibration, batch)
            released = np.flatnonzero(conformal_selection(p, at.alpha, share).released)
            wrong.append(len(released) > 0 and rng.choice(released) < bad)
        name, design = "selection by both classes, false discovery rate", f"batch of {m}, pi = {pi}"
        yield at.check(name, wrong, at.alpha, design=design)


def discoveries_everywhere(at: Setting) -> Iterator[Check]:
    """Release more hallucinated answers than the bound at ANY cut-off: at most alpha."""
    for m, pi in SEARCHED:
        wrong = []
        for p, bad in _batches(at.rng(f"discoveries {m} {pi}"), at, m, pi):
            table = discoveries(p, at.n, 1.0 - at.alpha)
            hallucinated = np.searchsorted(np.sort(p[:bad]), table.cutoffs, side="right")
            beyond = np.append(hallucinated > table.most, bad > table.most_hallucinated)
            wrong.append(bool(beyond.any()))
        name, design = "discoveries, bound at any cut-off", f"batch of {m}, pi = {pi:g}"
        yield at.check(name, wrong, at.alpha, design=design)


def _batches(
    rng: np.random.Generator, at: Setting, m: int, pi: float
) -> Iterator[tuple[Floats, int]]:
    """Yield for each run a batch's p-values, hallucinated answers first, and their number."""
    bad = round(m * pi)
    for _ in range(at.runs):
        calibration = np.sort(draw(rng, at.kind, at.n))
        batch = np.append(draw(rng, at.kind, bad), draw(rng, at.kind, m - bad, -_SHIFT))
        yield p_values(calibration, batch), bad
