"""How often is a verdict wrong that is looked for after every label?

The true rates lie on the limit, where a wrong verdict is likeliest: one claim alone for a wrong
``certified``, both for a wrong ``rejected``. Streams go on to the end whatever they say, so that
what is counted is a wrong verdict at any moment, and one that stands at the end.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from calibrail.conformal.streams import Draw, Units, follow, gaussian
from calibrail.settings import Drawing, Requirement
from calibrail.validity.check import CONFIDENCE, Check, Setting

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


def _wrong(at: Setting, drawing: Drawing, design: str, *, misled: bool = False) -> Iterator[Check]:
    """Yield how often each verdict is wrong, ever and at the end, at each base rate."""
    edge = 1.0 - at.alpha
    required = Requirement(MAX_FPR, edge, CONFIDENCE)
    truths = (
        ("certified", "coverage just too low", (edge, _GOOD_FPR)),
        ("certified", "FPR just too high", (_GOOD_COVERAGE, MAX_FPR)),
        ("rejected", "both just met", (edge, MAX_FPR)),
    )
    for base_rate in BASE_RATES[1::2] if misled else BASE_RATES:
        for verdict, truth, rates in truths:
            name = f"sequential, {design}, {verdict}, {truth}"
            draw = gaussian(*rates, base_rate)
            if misled:
                draw = _turned_around(draw)
            if drawing.whole_groups:
                draw = grouped(draw)
            found = follow(
                draw,
                required,
                drawing,
                streams=at.runs,
                units=max(_LEAST_UNITS, round(at.n / base_rate)),
                seed=int(at.rng(f"{name}, {base_rate}").integers(2**32)),
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
        taken = np.where(alike, 0, np.arange(LARGEST_GROUP))
        flagged = np.take_along_axis(answers.flagged.reshape(shape), taken, axis=2)
        hallucinated = np.take_along_axis(answers.hallucinated.reshape(shape), taken, axis=2)
        guess = np.take_along_axis(answers.guess.reshape(shape), taken, axis=2)
        size = rng.integers(1, LARGEST_GROUP + 1, (streams, units, 1))
        weight = np.where(np.arange(LARGEST_GROUP) < size, 1.0 / size, 0.0)
        return Units(flagged, hallucinated, guess, weight)

    return whole
