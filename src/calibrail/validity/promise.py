"""How often does a watch say falsely that a promise is broken?

The true rates lie on their limits all the time, where that is likeliest. Draws, batches and labels
are what ``calibrail audit-sample`` and people would make of them, and the bets are those of the
watch, looked at after every draw.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from calibrail.conformal import labelling_probability
from calibrail.conformal.streams import gaussian
from calibrail.conformal.validation import Bools, Floats
from calibrail.labelling.audited import Audited
from calibrail.monitoring.draws import Rate
from calibrail.monitoring.watched import Watched
from calibrail.settings import Drawing, Requirement
from calibrail.validity.check import Check, Setting

#: Limit on the FPR, and most probable that a promise which is kept is ever said to be broken.
MAX_FPR, DELTA = 0.2, 0.05
#: Shares of hallucinated answers among those drawn.
BASE_RATES: Final = (0.1, 0.5)
#: Draws of a stream, and of a batch; a batch comes every day.
DRAWS, BATCH = 1000, 20
#: Labels that are read so many times while they come in.
_LOOKS: Final = 10
#: Days until a label comes, on average: of a missed hallucination, or a false alarm; of the others.
_DAYS: Final = (1.0, 10.0)
#: One in so many answers nobody can tell.
_UNSURE: Final = 20


def uniform(at: Setting) -> Iterator[Check]:
    """Every answer drawn is labelled at once."""
    yield from _checks(at, Drawing(), "every draw labelled", _broken)


def active(at: Setting) -> Iterator[Check]:
    """Answers are labelled by a guess that is as good as the score allows."""
    yield from _checks(at, Drawing("active"), "labelled by a guess", _broken)


def late(at: Setting) -> Iterator[Check]:
    """Labels that speak against the promise come first; some never come."""
    rng = at.rng("late")

    def looked(audited: Audited, limits: Requirement) -> bool:
        return _broken_while_waiting(rng, audited, limits)

    yield from _checks(at, Drawing(), "bad news first", looked)


def _checks(
    at: Setting, drawing: Drawing, design: str, broken: Callable[[Audited, Requirement], bool]
) -> Iterator[Check]:
    limits = Requirement(MAX_FPR, 1.0 - at.alpha, 1.0 - DELTA)
    for base_rate in BASE_RATES:
        rng = at.rng(f"promise, {design}, {base_rate}")
        failed = [broken(audit(rng, limits, drawing, base_rate), limits) for _ in range(at.runs)]
        what = f"promise, falsely broken within {DRAWS:,} draws"
        yield at.check(what, failed, DELTA, design=f"{design}, base rate {base_rate:g}")


def audit(
    rng: np.random.Generator, limits: Requirement, drawing: Drawing, base_rate: float
) -> Audited:
    """Return drawn answers of a guardrail whose rates lie on the limits."""
    draw = gaussian(float(limits.min_coverage or 0.0), float(limits.max_fpr or 0.0), base_rate)
    unit = draw(rng, 1, DRAWS)
    flagged, truth, guess = unit.flagged[0, :, 0], unit.hallucinated[0, :, 0], unit.guess[0, :, 0]
    n = len(flagged)
    chance: Floats = np.ones(n)
    if drawing.design == "active":
        chance = labelling_probability(flagged, guess, limits, drawing, base_rate=base_rate)
    handed_out = rng.random(n) < chance
    batch = 1 + np.arange(n) // BATCH
    return Audited(
        flagged=flagged,
        label=np.where(handed_out, truth, np.nan),
        settled=np.ones(n, bool),
        unsure=np.zeros(n, bool),
        handed_out=handed_out,
        probability=chance,
        guess=guess if drawing.design == "active" else np.full(n, np.nan),
        share=np.full(n, 0.01),
        time=(batch * 86_400.0).astype(np.float64),
        batch=batch,
        score=guess,
        group=np.full(n, None, object),
        language=np.full(n, None, object),
        id=np.arange(n).astype(str).astype(object),
        drawing=drawing,
    )


def _broken(audited: Audited, limits: Requirement) -> bool:
    """Return whether the promise is ever said to be broken."""
    rates: dict[Rate, float] = {
        "coverage": float(limits.min_coverage or 0.0),
        "fpr": float(limits.max_fpr or 0.0),
    }
    watched = Watched(audited, rates, DELTA, len(audited))
    return any(bool((path >= watched.goal).any()) for path in watched.broken().values())


def _broken_while_waiting(rng: np.random.Generator, audited: Audited, limits: Requirement) -> bool:
    """Return whether it ever is at any look while labels come in."""
    against: Bools = audited.flagged != (audited.label == 1.0)
    days = audited.batch + rng.exponential(np.where(against, *_DAYS))
    unsure = rng.random(len(audited)) < 1.0 / _UNSURE
    last = float(audited.batch[-1])
    for day in np.linspace(last / _LOOKS, 2.0 * last, _LOOKS):
        drawn = audited.batch <= day
        settled = days <= day
        here = replace(
            audited,
            **{
                name: values[drawn]
                for name, values in (
                    *((name, getattr(audited, name)) for name in _COLUMNS),
                    ("label", np.where(settled & ~unsure, audited.label, np.nan)),
                    ("settled", settled),
                    ("unsure", settled & unsure),
                )
            },
        )
        if _broken(here, limits):
            return True
    return False


#: Columns that do not change while labels come in.
_COLUMNS: Final = (
    *("flagged", "handed_out", "probability", "guess", "share", "time", "batch", "score"),
    *("group", "language", "id"),
)
