"""How often is a verdict wrong, or a threshold, that is looked for after label upon label?

Verdicts: the true rates lie on the limit, where a wrong verdict is likeliest: one claim alone for a
wrong ``certified``, both for a wrong ``rejected``. Streams go on to the end whatever they say, so
that what is counted is a wrong verdict at any moment, and one that stands at the end.

Recalibration: hallucinations have become harder to see than when the old threshold was set. A new
one is made at every tenth of the answers. The labels of hard answers are late, so that at each look
they are open.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Final

import numpy as np
from scipy.special import expit, logit, ndtri

from calibrail.conformal.argument_checks import Bools, Floats, Ints
from calibrail.conformal.sequential.audited_calibration import (
    AuditedScores,
    calibrate_audited,
    features,
    fitted,
    grid_of,
    labelling_probability,
)
from calibrail.conformal.sequential.forecast import Draw, Units, follow, gaussian
from calibrail.conformal.sequential.sequential_test import SequentialTest
from calibrail.conformal.threshold import Calibration, calibrate_threshold
from calibrail.errors import TooFewExamplesError
from calibrail.options import Drawing, Promise, Requirement
from calibrail.options.labelling import LabellingDesign

from .check import CONFIDENCE, DELTA, Check, Setting

#: Limit on the FPR.
MAX_FPR: Final = 0.2
#: Shares of hallucinated answers among those drawn.
BASE_RATES: Final = (0.02, 0.1, 0.3, 0.5)
#: A group has 1 to this many answers; this share of the groups have answers that are all alike.
LARGEST_GROUP, _ALIKE = 4, 0.6
#: Rates that leave the decision to the other claim.
_GOOD_COVERAGE, _GOOD_FPR = 0.995, 0.02
#: Streams have so many units at least, and enough to expect n hallucinated answers.
_LEAST_UNITS: Final = 1000
_ERROR: Final = 1.0 - CONFIDENCE


def uniform(at: Setting) -> Iterator[Check]:
    """Label every answer drawn: the bets of a mixture over rates."""
    yield from _wrong(at, Drawing(), "uniform")


def active(at: Setting) -> Iterator[Check]:
    """Label by a guess that is as good as the score allows, and by one that is turned around."""
    yield from _wrong(at, Drawing("active"), "active")
    yield from _wrong(at, Drawing("active"), "active, guess turned around", misled=True)


def groups(at: Setting) -> Iterator[Check]:
    """Draw whole groups whose answers are alike, all of them labelled or by a guess."""
    for drawing in (Drawing(whole_groups=True), Drawing("active", whole_groups=True)):
        yield from _wrong(at, drawing, f"{drawing.design}, groups of 1 to {LARGEST_GROUP}")


#: Share of the judge's labels that are wrong: a good judge, and one that is mostly wrong.
_MISJUDGED: Final = (0.15, 0.6)


def disagreements(at: Setting) -> Iterator[Check]:
    """Label first where judge and guardrail disagree, and the others with the floor.

    The judge errs more often where the guardrail does, so that what is labelled most is not like
    the rest. The guess is the judge's word.
    """
    edge, drawing = 1.0 - at.alpha, Drawing("disagreements")
    required = Requirement(MAX_FPR, edge, CONFIDENCE)
    for base_rate, wrong in product(BASE_RATES[1:3], _MISJUDGED):
        for verdict, truth, (coverage, fpr) in (
            ("certified", "coverage just too low", (edge, _GOOD_FPR)),
            ("certified", "FPR just too high", (_GOOD_COVERAGE, MAX_FPR)),
            ("rejected", "both just met", (edge, MAX_FPR)),
        ):
            design = f"disagreements, {wrong:.0%} misjudged, {truth}, {base_rate:g}"
            rng, failed = at.rng(design), []
            n = max(_LEAST_UNITS, round(at.n / base_rate))
            for _ in range(at.runs):
                hallucinated = rng.random(n) < base_rate
                flagged = rng.random(n) < np.where(hallucinated, coverage, fpr)
                misjudged = rng.random(n) < wrong * (1.0 + (flagged != hallucinated)) / 2.0
                judged = hallucinated ^ misjudged
                q = np.where(judged != flagged, 1.0, np.where(flagged, *drawing.floors))
                label = np.where(rng.random(n) < q, hallucinated, np.nan)
                test = SequentialTest(required, drawing).update(
                    flagged, label, q, 0.1 + 0.8 * judged
                )
                failed.append(test.verdict == verdict)
            yield at.check(f"sequential, wrongly {verdict} ever", failed, _ERROR, design=design)


def judged(at: Setting) -> Iterator[Check]:
    """Label by a guess that is learnt on the way, of the score and of judges of every kind."""
    for judge in JUDGES:
        yield from _wrong(at, Drawing.beside(judge, None), f"judge {judge}", judge=judge)
    groups = replace(Drawing.beside("judge", None), whole_groups=True)
    yield from _wrong(at, groups, "judge right 85 %, groups", judge="right 85 %")


def _wrong(
    at: Setting, drawing: Drawing, design: str, *, misled: bool = False, judge: str | None = None
) -> Iterator[Check]:
    """Yield how often each verdict is wrong, ever and at the end, at each base rate."""
    edge = 1.0 - at.alpha
    required = Requirement(MAX_FPR, edge, CONFIDENCE)
    truths = (
        ("certified", "coverage just too low", (edge, _GOOD_FPR)),
        ("certified", "FPR just too high", (_GOOD_COVERAGE, MAX_FPR)),
        ("rejected", "both just met", (edge, MAX_FPR)),
    )
    for base_rate in BASE_RATES[1::2] if misled or judge else BASE_RATES:
        for verdict, truth, rates in truths:
            name = f"sequential, {design}, {verdict}, {truth}"
            draw = gaussian(*rates, base_rate)
            if misled:
                draw = _turned_around(draw)
            learner = None
            if judge is not None:
                draw, learner = _with_judge(draw, judge), Learnt(_CELLS, at.runs)
            if drawing.whole_groups:
                draw = grouped(draw)
            found = follow(
                draw,
                required,
                drawing,
                streams=at.runs,
                units=max(_LEAST_UNITS, round(at.n / base_rate)),
                seed=int(at.rng(f"{name}, {base_rate}").integers(2**32)),
                learner=learner,
            )
            ever = np.isfinite(found.labelled)
            for when, reached in (("ever", ever), ("at the end", found.at_end)):
                wrong = (
                    reached[:, 0] & reached[:, 2]
                    if verdict == "certified"
                    else reached[:, 1] | reached[:, 3]
                )
                what = f"sequential, wrongly {verdict} {when}"
                yield at.check(what, wrong, _ERROR, design=f"{design}, {truth}, {base_rate:g}")


#: How often a judge is right about hallucinated and about faithful answers that are passed, and
#: about both that are flagged; ``turns`` does well for so many answers, and then says the opposite.
JUDGES: Final = {
    "right 85 %": (0.85, 0.85, 0.85, 0.85),
    "perfect": (1.0, 1.0, 1.0, 1.0),
    "inverted": (0.0, 0.0, 0.0, 0.0),
    "blind to hallucinations": (0.3, 0.95, 0.3, 0.95),
    "blind where the score is": (0.0, 1.0, 1.0, 0.0),
    "turns": (1.0, 1.0, 1.0, 1.0),
}
_TURNS_AFTER, _BINS = 150, 12
#: Clues of each cell: the bin of the score's own chance, and what the judge says.
_CELLS: Final = np.stack(np.divmod(np.arange(2 * _BINS), 2), axis=1).astype(np.float64)


def _with_judge(draw: Draw, judge: str) -> Draw:
    """Return the same answers with a cell in place of the guess: of their score and their judge."""
    right, drawn = np.array(JUDGES[judge]), 0

    def told(rng: np.random.Generator, streams: int, units: int) -> Units:
        nonlocal drawn
        unit = draw(rng, streams, units)
        kind = 2 * unit.flagged.astype(np.int64) + ~unit.hallucinated
        agrees = rng.random(kind.shape) < right[kind]
        if judge == "turns":
            agrees &= (drawn + np.arange(units) < _TURNS_AFTER)[None, :, None]
        drawn += units
        says = unit.hallucinated == agrees
        place = np.clip(np.floor(_BINS / 2 + logit(unit.guess)), 0, _BINS - 1)
        return unit._replace(guess=2.0 * place + says)

    return told


class Learnt:
    """What ``LearntGuess`` says in many streams of one pool, whose guess is its row.

    ``clues`` holds the score of each row, and what a judge says of it. Fitted again whenever a
    tenth more is drawn.
    """

    def __init__(self, clues: Floats, streams: int) -> None:
        clues = clues.reshape(len(clues), -1)
        cells, self._value = np.unique(clues, axis=0, return_inverse=True)
        self._value = self._value.reshape(-1)
        places = [np.unique(clue, return_inverse=True)[1] for clue in cells.T]
        # Which cells have which value of a clue, and which value each cell has.
        self._clues = [(np.eye(place.max() + 1)[place], place) for place in places]
        size = (streams, len(cells))
        self._labels = np.zeros((2, *size))
        self._seen = np.zeros(size)
        self._chance = np.full(size, 0.5)
        self._drawn = self._again = 0

    def guess(self, going: Ints, unit: Units) -> Floats:
        """Return the chances of the rows drawn, by what was labelled so far."""
        if self._drawn >= self._again:
            parts = []
            for number, (member, place) in enumerate(self._clues):
                seen = self._seen[going] @ member
                high = np.cumsum(seen, axis=1)
                ranks = (2.0 * high - seen + 1.0) / (2.0 * high[:, -1:] + 2.0)
                parts.append(features(ranks[:, place])[..., min(number, 1) :])
            rows = np.concatenate(parts, axis=-1)
            slopes = fitted(rows, self._labels[1, going], self._labels[0, going])
            self._chance[going] = expit(np.einsum("snf,sf->sn", rows, slopes))
            self._again = 1 + int(1.1 * self._drawn)
        return self._chance[going[:, None, None], self._of(unit)]

    def told(self, going: Ints, unit: Units, labelled: Bools) -> None:
        """Take in which rows were drawn, and the labels of some."""
        streams = np.broadcast_to(going[:, None, None], labelled.shape)
        value = self._of(unit)
        np.add.at(self._seen, (streams, value), 1.0)
        kind = unit.hallucinated[labelled].astype(np.int64)
        np.add.at(self._labels, (kind, streams[labelled], value[labelled]), 1.0)
        self._drawn += labelled.shape[1]

    def _of(self, unit: Units) -> Ints:
        return self._value[unit.guess.astype(np.int64)]


def _turned_around(draw: Draw) -> Draw:
    """Return the same answers with a guess that says the opposite."""

    def misled(rng: np.random.Generator, streams: int, units: int) -> Units:
        unit = draw(rng, streams, units)
        return unit._replace(guess=1.0 - unit.guess)

    return misled


def grouped(draw: Draw) -> Draw:
    """Return groups of such answers, alike in most groups, so that all rates stay as they are."""

    def whole(rng: np.random.Generator, streams: int, units: int) -> Units:
        answers = draw(rng, streams, units * LARGEST_GROUP)
        shape = (streams, units, LARGEST_GROUP)
        alike = rng.random((streams, units, 1)) < _ALIKE
        columns = (column.reshape(shape) for column in answers[:3])
        flagged, truth, guess = (np.where(alike, it[..., :1], it) for it in columns)
        size = rng.integers(1, LARGEST_GROUP + 1, (streams, units, 1))
        weight = np.where(np.arange(LARGEST_GROUP) < size, 1.0 / size, 0.0)
        return Units(flagged, truth, guess, weight)

    return whole


#: Means of hallucinated scores when the old threshold was set, and now; faithful ones have 0.
_THEN, _NOW = 2.0, 1.2
#: Share of hallucinated answers, and how many were there when the old threshold was set.
_BASE_RATE, _OLD_N = 0.4, 200
_LOOKS: Final = 10
_FLOOR: Final = 0.25


def recalibrated_uniform(at: Setting) -> Iterator[Check]:
    """Make an ``anytime`` threshold that misses too much at any look, all answers labelled."""
    yield _ever(at, "uniform")


def recalibrated_active(at: Setting) -> Iterator[Check]:
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
        limits = Requirement(max_false_alarms=0.5, min_caught=1.0 - at.alpha)
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
