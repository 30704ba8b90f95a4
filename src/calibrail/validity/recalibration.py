"""Does any of the thresholds that audited answers set, look after look, miss too much?

Hallucinations have become harder to see than when the old threshold was set. A new one is made at
every tenth of the answers. The labels of hard answers are late, so that at each look they are open.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import numpy as np
from scipy.special import expit, ndtri

from calibrail.conformal.audited import AuditedScores, calibrate_audited, grid_of
from calibrail.conformal.labelling import labelling_probability
from calibrail.conformal.threshold import Calibration, calibrate_threshold
from calibrail.conformal.validation import Bools
from calibrail.errors import TooFewExamplesError
from calibrail.settings import Drawing, Promise, Requirement
from calibrail.settings.drawing import LabellingDesign
from calibrail.validity.check import DELTA, Check, Setting

#: Means of hallucinated scores when the old threshold was set, and now; faithful ones have 0.
_THEN, _NOW = 2.0, 1.2
#: Share of hallucinated answers, and how many were there when the old threshold was set.
_BASE_RATE, _OLD_N = 0.4, 200
_LOOKS: Final = 10
_FLOOR: Final = 0.25


def uniform(at: Setting) -> Iterator[Check]:
    """Make an ``anytime`` threshold that misses too much at any look, all answers labelled."""
    yield _ever(at, "uniform")


def active(at: Setting) -> Iterator[Check]:
    """Make one where answers are labelled by a guess, with probabilities of their own."""
    yield _ever(at, "active")


def _ever(at: Setting, design: LabellingDesign) -> Check:
    name, promise = f"recalibration, {design}", at.promise("anytime")
    rng, drawing = at.rng(name), Drawing(design, _FLOOR)
    highest = _NOW + float(ndtri(at.alpha))
    bad = np.zeros(at.runs, np.bool_)
    for run in range(at.runs):
        old = calibrate_threshold(rng.normal(_THEN, 1.0, _OLD_N), Promise(at.alpha))
        answers, late = _drawn(at, rng, old, drawing)
        grid = grid_of(old)
        for end in np.linspace(0, len(late), _LOOKS + 1).astype(int)[1:].tolist():
            with suppress(TooFewExamplesError):
                made = calibrate_audited(_known(answers, late, end), promise, grid)
                bad[run] |= made.threshold > highest
    return at.check(f"{name}: any look's threshold misses too much", bad, DELTA)


def _drawn(
    at: Setting, rng: np.random.Generator, old: Calibration, drawing: Drawing
) -> tuple[AuditedScores, Bools]:
    """Return answers of which about n are hallucinated, and whose labels are late."""
    m = round(at.n / _BASE_RATE)
    hallucinated = rng.random(m) < _BASE_RATE
    score = rng.normal(_NOW * hallucinated, 1.0)
    flagged = score >= old.threshold
    guess, probability = np.full(m, np.nan), np.ones(m)
    if drawing.design == "active":
        # Wrong by the shift, as one learnt before would be.
        guess = expit(_THEN * score - _THEN * _THEN / 2.0)
        limits = Requirement(max_fpr=0.5, min_coverage=1.0 - at.alpha)
        probability = labelling_probability(flagged, guess, limits, drawing, base_rate=_BASE_RATE)
    handed_out = rng.random(m) < probability
    label = np.where(handed_out, hallucinated.astype(np.float64), np.nan)
    late = hallucinated & (score < _NOW - 0.5) & (rng.random(m) < 0.8)
    answers = AuditedScores(
        score, flagged, label, handed_out, probability, guess, drawing, old.threshold
    )
    return answers, np.asarray(late)


def _known(answers: AuditedScores, late: Bools, end: int) -> AuditedScores:
    """Return what is known at a look: late labels of the last half are not."""
    waiting = late[:end] & (np.arange(end) >= 0.5 * end)
    return AuditedScores(
        answers.score[:end],
        answers.flagged[:end],
        np.where(waiting, np.nan, answers.label[:end]),
        answers.handed_out[:end],
        answers.probability[:end],
        answers.guess[:end],
        answers.drawing,
        answers.threshold,
    )
