"""After how many labels does each bet win, in many simulated streams at once?

The same wealths as ``SequentialTest``, side by side: plans and simulations of validity rest on
them. Streams are followed in short blocks; what a label is worth is worked out before each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
from scipy.special import expit, ndtri

from calibrail.conformal.betting import FRACTIONS, mixture
from calibrail.conformal.eprocess import wealth_of_counts
from calibrail.conformal.joint_bets import required_steps
from calibrail.conformal.labelling import informative, limits
from calibrail.conformal.sequential_certificate import goals
from calibrail.conformal.validation import Bools, Floats, Ints
from calibrail.settings.drawing import Drawing
from calibrail.settings.requirement import Requirement

#: Answers of all streams that are followed in one go.
_BLOCK: Final = 8192
#: Assumed rates of 0 and 1 are taken as this close to them.
_CERTAIN: Final = 1e-9


class Units(NamedTuple):
    """What is drawn next in each stream: arrays of shape (streams, units, answers of a unit).

    ``weight`` adds up to 1 over the answers of a unit; 0 where it has fewer of them.
    """

    flagged: Bools
    hallucinated: Bools
    guess: Floats
    weight: Floats


class Learner(Protocol):
    """Makes a guess for each stream of what was labelled there so far."""

    def guess(self, going: Ints, unit: Units) -> Floats:
        """Return P(hallucinated) of what is drawn next, of the streams that go on."""

    def told(self, going: Ints, unit: Units, labelled: Bools) -> None:
        """Take in which of them were labelled, with their labels."""


#: From random numbers, streams and units to what is drawn.
Draw = Callable[[np.random.Generator, int, int], Units]


class Start(NamedTuple):
    """What has been won before the first answer of a stream, in the order of a verdict's bets.

    Attributes
    ----------
    counts : ndarray of int, shape (4, 2)
        Flagged ones and all of the class that a bet is about, where answers count one each.
    log : ndarray of float64, shape (4, bets)
        Logarithms of the bets on the requirement, where answers are weighted.
    highest : ndarray of float64, shape (4,)
        Of the logarithms of the wealths.
    mass : float
        Sum of the weights of hallucinated answers.
    drawn : int
        Answers or groups.
    """

    counts: Ints
    log: Floats
    highest: Floats
    mass: float
    drawn: int


def nothing_known() -> Start:
    """Return what is known before any answer is drawn."""
    return Start(np.zeros((4, 2), np.int64), np.zeros((4, len(FRACTIONS))), np.zeros(4), 0.0, 0)


@dataclass(frozen=True, slots=True)
class Streams:
    """When the four wealths of each stream first reached their goals, in the order of a verdict.

    Attributes
    ----------
    labelled, drawn : ndarray of float64, shape (streams, 4)
        Labels and answers drawn by then; infinite where it never happened.
    at_end : ndarray of bool, shape (streams, 4)
        Whether the wealth stands there at the end, too.
    """

    labelled: Floats
    drawn: Floats
    at_end: Bools

    def decided(self, counted: Floats) -> tuple[Floats, Floats]:
        """Return when each stream was certified and rejected, whichever came first, by a count."""
        certified = np.maximum(counted[:, 0], counted[:, 2])
        rejected = np.minimum(counted[:, 1], counted[:, 3])
        first = certified < rejected
        return np.where(first, certified, np.inf), np.where(first, np.inf, rejected)


def gaussian(coverage: float, fpr: float, base_rate: float) -> Draw:
    """Return streams of answers whose guess is the posterior of a Gaussian score with these rates.

    The two classes' scores have the same variance; a threshold on them has this coverage and FPR.
    """
    sure = np.clip([coverage, fpr], _CERTAIN, 1.0 - _CERTAIN)
    distance = float(ndtri(sure[0]) - ndtri(sure[1]))
    threshold = -float(ndtri(sure[1]))
    prior = np.log(base_rate / (1.0 - base_rate))

    def draw(rng: np.random.Generator, streams: int, units: int) -> Units:
        shape = (streams, units, 1)
        hallucinated = rng.random(shape) < base_rate
        score = rng.standard_normal(shape) + distance * hallucinated
        guess = expit(prior + distance * score - distance * distance / 2.0)
        return Units(score >= threshold, hallucinated, guess, np.ones(shape))

    return draw


def follow(
    draw: Draw,
    requirement: Requirement,
    drawing: Drawing,
    *,
    streams: int,
    units: int,
    labels: float = np.inf,
    seed: int = 0,
    start: Start | None = None,
    learner: Learner | None = None,
) -> Streams:
    """Follow streams until so many units are drawn, or all are decided or out of labels.

    Parameters
    ----------
    draw : callable
        What comes next; asked for all streams in their order, unless ``labels`` leaves some out.
    requirement, drawing
        As for ``SequentialTest``.
    streams, units : int
        How many streams, and the most units that each draws.
    labels : float
        Stop a stream at this many labels, or once it is decided; infinite: all go on to the end.
    seed : int
        Same seed, same streams.
    start : Start, optional
        What was won before; labels and answers are counted from there.
    learner : Learner, optional
        Makes the guess, in place of the one that is drawn.
    """
    rng, start = np.random.default_rng(seed), start or nothing_known()
    if drawing.design == "uniform" and not drawing.whole_groups:
        return _counted(draw, requirement, rng, (streams, units), labels, start)
    edges, floors = limits(requirement), drawing.floors
    goal = _four_goals(requirement)
    log, best = np.tile(start.log, (streams, 1, 1)), np.tile(start.highest, (streams, 1))
    at_end = np.zeros((streams, 4), bool)
    n_labels, mass, n_drawn = np.zeros(streams), np.full(streams, start.mass), 0
    none_yet = np.where(best >= goal, 0.0, np.inf)
    when = {name: none_yet.copy() for name in ("labelled", "drawn")}
    going = np.arange(streams)
    while n_drawn < units and len(going):
        block = int(min(max(1, _BLOCK // len(going)), units - n_drawn, 32))
        taken = draw(rng, len(going), block)
        unit = taken
        if learner is not None:
            unit = taken._replace(guess=learner.guess(going, taken))
        known = np.clip((mass[going] + 5.0) / (start.drawn + n_drawn + 10.0), 0.01, 0.99)[
            :, None, None
        ]
        still = (best[going] < goal)[:, :, None, None]
        q = (
            informative(
                unit.flagged, unit.guess, edges, floors, (known, (still[:, 0], still[:, 2]))
            )
            if drawing.design == "active"
            else np.ones_like(unit.guess)
        )
        labelled = rng.random(q.shape) < q
        if learner is not None:
            learner.told(going, taken, labelled)
        answer = unit.guess + labelled / q * (unit.hallucinated - unit.guess)
        w, hits, flagged = (
            np.sum(unit.weight * value, axis=2)
            for value in (answer, answer * unit.flagged, unit.flagged)
        )
        rows = np.stack([w, 1.0 - w, hits, flagged - hits], axis=2)
        path = log[going][:, None] + np.cumsum(required_steps(rows, edges, floors), axis=1)
        wealth = mixture(path)
        counts = n_labels[going][:, None] + np.cumsum(
            np.sum(labelled & (unit.weight > 0.0), axis=2), axis=1
        )
        drawn = n_drawn + 1 + np.broadcast_to(np.arange(block), counts.shape)
        reached = wealth >= goal
        for name, counted in (("labelled", counts), ("drawn", drawn)):
            first = np.where(reached, counted[:, :, None], np.inf).min(axis=1)
            when[name][going] = np.minimum(when[name][going], first)
        log[going], at_end[going] = path[:, -1], reached[:, -1]
        best[going] = np.maximum(best[going], wealth.max(axis=1))
        n_labels[going], n_drawn = counts[:, -1], n_drawn + block
        mass[going] += w.sum(axis=1)
        if np.isfinite(labels):
            seen = best[going] >= goal
            over = (seen[:, 0] & seen[:, 2]) | seen[:, 1] | seen[:, 3]
            going = going[~over & (n_labels[going] < labels)]
    late = when["labelled"] > labels
    for counted in when.values():
        counted[late] = np.inf
    return Streams(when["labelled"], when["drawn"], at_end)


def _counted(
    draw: Draw,
    requirement: Requirement,
    rng: np.random.Generator,
    size: tuple[int, int],
    labels: float,
    start: Start,
) -> Streams:
    """Return ``follow`` where every answer drawn is labelled and counts one."""
    streams, units = size
    units = int(min(units, labels))
    edges, (kept, broken) = limits(requirement), goals(requirement.confidence)
    tests = ((0, True, kept), (0, False, broken), (1, False, kept), (1, True, broken))
    needed = [
        most_or_least(edges[rate], goal, units + int(before[1]), above=side)
        for (rate, side, goal), before in zip(tests, start.counts, strict=True)
    ]
    first, at_end = np.full((streams, 4), np.inf), np.zeros((streams, 4), bool)
    step = max(1, 2_000_000 // max(1, units))
    for row in range(0, streams, step):
        part = slice(row, min(streams, row + step))
        unit = draw(rng, part.stop - part.start, units)
        flagged, hallucinated = unit.flagged[:, :, 0], unit.hallucinated[:, :, 0]
        for index, (rate, above, _) in enumerate(tests):
            event = ~hallucinated if rate else hallucinated
            caught, seen = start.counts[index]
            n = seen + np.cumsum(event, axis=1)
            count = caught + np.cumsum(event & flagged, axis=1)
            edge = needed[index][n]
            reached = count >= edge if above else count <= edge
            ever = reached.any(axis=1)
            first[part, index] = np.where(ever, reached.argmax(axis=1) + 1.0, np.inf)
            at_end[part, index] = reached[:, -1]
    first[:, start.highest >= _four_goals(requirement)] = 0.0
    return Streams(first, first.copy(), at_end)


def most_or_least(limit: float, goal: float, most: int, *, above: bool) -> Ints:
    """Return the count of each n up to ``most`` from which on the wealth has reached its goal.

    The least one for a bet on a rate above the limit, n + 1 where none is enough; the most one for
    a bet on a rate below, -1 where none is few enough. The wealth grows with the count that is bet
    on, so bisection finds it.
    """
    n = np.arange(most + 1)
    low, high = np.full(most + 1, -1), n + 1
    # The number of those that speak for the bet: flagged ones, or the others.
    while np.any(high - low > 1):
        middle = np.where(high - low > 1, (low + high) // 2, np.minimum(high, n))
        middle = np.maximum(middle, 0)
        won, lost = middle.astype(np.float64), (n - middle).astype(np.float64)
        pair = (won, lost) if above else (lost, won)
        enough = wealth_of_counts(*pair, limit, above=above) >= goal
        open_ = high - low > 1
        high = np.where(open_ & enough, middle, high)
        low = np.where(open_ & ~enough, middle, low)
    return high if above else n - high


def _four_goals(requirement: Requirement) -> Floats:
    kept, broken = goals(requirement.confidence)
    return np.array([kept, broken, kept, broken])
