"""Expected number of further labels.

The same wealths as ``SequentialTest``, side by side: plans and simulations of validity rest on
them. Streams are followed in short blocks; what a label is worth is worked out before each.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit, ndtri

from calibrail.conformal import argument_checks
from calibrail.conformal.argument_checks import Bools, Floats, Ints
from calibrail.conformal.power import Assumption, plan
from calibrail.conformal.sequential import betting
from calibrail.conformal.sequential.audited_calibration import informative, limits, truth_values
from calibrail.conformal.sequential.sequential_test import UnsureTest, goals, share_so_far
from calibrail.conformal.threshold import first_where
from calibrail.errors import InputError
from calibrail.options.guarantee import Promise, Requirement
from calibrail.options.labelling import Drawing, LabellingDesign
from calibrail.serialization import Record

#: Answers of all streams that are followed in one go.
_BLOCK: Final = 8192
#: Assumed rates of 0 and 1 are taken as this close to them.
_CERTAIN_STREAM: Final = 1e-9


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

    Nothing has where it says no more.

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

    counts: Ints = np.zeros((4, 2), np.int64)
    log: Floats = np.zeros((4, len(betting.FRACTIONS)))
    highest: Floats = np.zeros(4)
    mass: float = 0.0
    drawn: int = 0


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
    sure = np.clip([coverage, fpr], _CERTAIN_STREAM, 1.0 - _CERTAIN_STREAM)
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
    rng, start = np.random.default_rng(seed), start or Start()
    if drawing.design == "uniform" and not drawing.whole_groups:
        return _counted(draw, requirement, rng, (streams, units), labels, start)
    edges, floors, goal = limits(requirement), drawing.floors, _four_goals(requirement)
    log, seen = np.tile(start.log, (streams, 1, 1)), np.tile(start.highest >= goal, (streams, 1))
    at_end = np.zeros((streams, 4), bool)
    n_labels, mass, n_drawn = np.zeros(streams), np.full(streams, start.mass), 0
    when = np.stack([np.where(seen, 0.0, np.inf)] * 2)
    going = np.arange(streams)
    while n_drawn < units and len(going):
        block = int(min(max(1, _BLOCK // len(going)), units - n_drawn, 32))
        unit = taken = draw(rng, len(going), block)
        if learner is not None:
            unit = taken._replace(guess=learner.guess(going, taken))
        known = share_so_far(mass[going], start.drawn + n_drawn)[:, None, None]
        still = ~seen[going][:, :, None, None]
        q = np.ones_like(unit.guess)
        if drawing.design == "active":
            claims = known, (still[:, 0], still[:, 2])
            q = informative(unit.flagged, unit.guess, edges, floors, claims)
        labelled = rng.random(q.shape) < q
        if learner is not None:
            learner.told(going, taken, labelled)
        answer = unit.guess + labelled / q * (unit.hallucinated - unit.guess)
        values = answer, answer * unit.flagged, unit.flagged
        w, hits, flagged = (np.sum(unit.weight * value, axis=2) for value in values)
        rows = np.stack([w, 1.0 - w, hits, flagged - hits], axis=2)
        path = betting.required_steps(rows, edges, floors)
        labels_of_unit = np.sum(labelled & (unit.weight > 0.0), axis=2)
        for place in range(1, block):
            path[:, place] += path[:, place - 1]
        path += log[going][:, None]
        counts = n_labels[going][:, None] + np.cumsum(labels_of_unit, axis=1)
        reached = betting.reaches(path, goal)
        ever = reached.any(axis=1)
        stream, bet = np.nonzero(ever & ~seen[going])
        place = reached[stream, :, bet].argmax(axis=1)
        when[:, going[stream], bet] = counts[stream, place], n_drawn + 1 + place
        log[going], at_end[going] = path[:, -1], reached[:, -1]
        seen[going] |= ever
        n_labels[going], n_drawn = counts[:, -1], n_drawn + block
        mass[going] += w.sum(axis=1)
        if np.isfinite(labels):
            shown = seen[going]
            over = (shown[:, 0] & shown[:, 2]) | shown[:, 1] | shown[:, 3]
            going = going[~over & (n_labels[going] < labels)]
    when[:, when[0] > labels] = np.inf
    return Streams(when[0], when[1], at_end)


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
    while np.any(open_ := high - low > 1):
        middle = np.maximum(np.where(open_, (low + high) // 2, np.minimum(high, n)), 0)
        won, lost = middle.astype(np.float64), (n - middle).astype(np.float64)
        pair = (won, lost) if above else (lost, won)
        enough = betting.wealth_of_counts(*pair, limit, above=above) >= goal
        high = np.where(open_ & enough, middle, high)
        low = np.where(open_ & ~enough, middle, low)
    return high if above else n - high


def _four_goals(requirement: Requirement) -> Floats:
    return np.array(goals(requirement.confidence) * 2)


#: Why no number is given.
Unforeseeable = Literal["decided", "few_hallucinated", "few_faithful", "queue"]

#: Labels of a class without which its rate could be anything.
_LEAST: Final = 5
#: Simulated futures.
_RUNS: Final = 200
#: Most further labels of a future, and most answers drawn for them.
_BUDGET, _DRAWN = 3_000, 10_000
#: Guesses that stand for all of those seen.
_GUESSES: Final = 256
#: Shares are kept this far off 0 and 1.
_CERTAIN: Final = 1e-6
_HALVINGS: Final = 40


@dataclass(frozen=True, slots=True)
class LabelsLeft(Record):
    """Labels that a verdict will still take, in futures simulated from what is known.

    In each future the rates are another draw from what the labels so far leave possible (a Beta
    distribution with Jeffreys' prior for each), so that the range holds that doubt, too.

    Attributes
    ----------
    low, median, high : int or None
        Further labels until the verdict in a tenth, a half and nine tenths of the futures; None
        where fewer have one within ``budget``.
    certified, rejected, inconclusive : float or None
        Shares of the futures, adding up to 1.
    budget, runs : int
        Most further labels of a future, and how many futures.
    unforeseeable : {"decided", "few_hallucinated", "few_faithful", "queue"} or None
        Why there is nothing to foresee, too little is known, or labels are not drawn for it.
    """

    low: int | None
    median: int | None
    high: int | None
    certified: float | None
    rejected: float | None
    inconclusive: float | None
    budget: int
    runs: int
    unforeseeable: Unforeseeable | None = None


def labels_left(
    test: UnsureTest,
    flagged: ArrayLike,
    guess: ArrayLike | None = None,
    *,
    per_unit: float = 1.0,
    seed: int = 0,
) -> LabelsLeft:
    """Simulate how many more labels a verdict will take.

    Parameters
    ----------
    test : UnsureTest
        What has been learnt so far.
    flagged, guess : array-like, shape (n,)
        What the guardrail said of the answers drawn so far, and P(hallucinated) as guessed: the
        answers to come are like them. The guess may be left out with ``uniform``.
    per_unit : float
        Answers of a unit drawn, on average, at least 1: of a group, which is taken as if all were
        alike.
    seed : int
        Same seed, same numbers.

    Raises
    ------
    InputError
        If an argument is outside its domain.

    Examples
    --------
    >>> from calibrail.conformal.sequential.sequential_test import SequentialTest
    >>> from calibrail.options import Requirement
    >>> flagged, labels = [True] * 18 + [False] * 22, [1] * 18 + [0] * 22
    >>> start = UnsureTest.of(SequentialTest(Requirement(0.3, 0.8, 0.95)))
    >>> left = labels_left(start.update(flagged, labels), flagged)
    >>> left.low <= left.median <= left.high, left.certified > 0.9
    (True, True)
    """
    known, drawing = test.known, test.certifying.drawing
    drawn = truth_values(flagged, "flagged")
    guesses = np.full(len(drawn), 0.5) if guess is None else argument_checks.rates(guess, "guess")
    argument_checks.paired(guesses, len(drawn), "guess", "answer")
    each = argument_checks.number(per_unit, "per_unit")
    if not 1.0 <= each < np.inf:
        raise InputError(f"per_unit must be at least 1; got {per_unit!r}")
    seed = argument_checks.whole(seed, "seed")
    reasons: dict[Unforeseeable, bool] = {
        "decided": test.verdict != "inconclusive",
        "few_hallucinated": known.n_hallucinated < _LEAST,
        "few_faithful": known.n_faithful < _LEAST,
        "queue": drawing.design == "disagreements",
    }
    if reason := next((name for name, holds in reasons.items() if holds), None):
        return LabelsLeft(None, None, None, None, None, None, _BUDGET, _RUNS, reason)
    # What an answer drawn costs in labels tells how many are drawn for the budget.
    share = max(0.05, test.certifying.labelled / max(1, len(drawn)))
    units = int(min(_BUDGET / each / share, _DRAWN)) if test.certifying.weighted else _BUDGET
    found = follow(
        _futures(test, drawn, guesses, np.random.default_rng(seed)),
        test.certifying.requirement,
        drawing,
        streams=_RUNS,
        units=units,
        seed=seed,
        start=_start(test),
    )
    labels = found.labelled * each
    labels[labels > _BUDGET] = np.inf
    verdicts = found.decided(labels)
    first = np.minimum(*verdicts)
    low, median, high = (_quantile(first, level) for level in (0.1, 0.5, 0.9))
    return LabelsLeft(low, median, high, *_shares(*verdicts), _BUDGET, _RUNS)


def _start(test: UnsureTest) -> Start:
    """Return what has been won so far, each bet by the test that may use it."""
    tests = test.certifying, test.rejecting
    counts = [(item.caught, item.n_hallucinated) for item in tests]
    counts += [(item.false_alarms, item.n_faithful) for item in tests]
    logs = [betting.on_requirement(item.state()) for item in tests]
    return Start(
        np.array(counts, np.int64),
        np.stack(logs)[[0, 1, 0, 1], np.arange(4)],
        np.array(test.log_wealth()),
        tests[0].mass[0],
        tests[0].drawn,
    )


def _futures(test: UnsureTest, flagged: Bools, guess: Floats, rng: np.random.Generator) -> Draw:
    """Return answers to come, in each stream with rates of its own that may be the true ones."""
    known = test.known
    n_labelled = known.n_hallucinated + known.n_faithful

    def possible(estimate: float, n: int) -> Floats:
        rates = rng.beta(estimate * n + 0.5, (1.0 - estimate) * n + 0.5, _RUNS)
        return np.asarray(np.clip(rates, _CERTAIN, 1.0 - _CERTAIN))

    mass, hits = np.maximum(known.mass, 1e-9), np.array(known.hits)
    coverage, fpr = np.clip(hits / mass, 0.0, 1.0).tolist()
    share = float(np.clip(mass[0] / mass.sum(), 0.0, 1.0))
    base = possible(share, n_labelled)
    caught, alarms = possible(coverage, known.n_hallucinated), possible(fpr, known.n_faithful)
    passing = np.stack([1.0 - caught, caught]), np.stack([1.0 - alarms, alarms])
    rate = base * passing[0] + (1.0 - base) * passing[1]
    chance = base * passing[0] / rate
    # Guesses as seen, of passed and of flagged answers, moved so that they are right on average.
    guesses, moved = [], []
    for side in (False, True):
        seen = guess[flagged == side]
        seen = seen if len(seen) else np.array([0.5])
        kept = np.quantile(seen, (np.arange(_GUESSES) + 0.5) / _GUESSES)
        guesses.append(kept)
        moved.append(_with_mean(np.clip(kept, 1e-3, 1.0 - 1e-3), chance[int(side)]))
    table, truth = np.stack(guesses), np.stack(moved)

    def draw(rng: np.random.Generator, streams: int, units: int) -> Units:
        rows = np.arange(streams)[:, None]
        side: Ints = (rng.random((streams, units)) < rate[1][:streams, None]).astype(np.int64)
        place = rng.integers(_GUESSES, size=(streams, units))
        hallucinated = rng.random((streams, units)) < truth[side, rows, place]
        drawn = (side == 1)[..., None], hallucinated[..., None], table[side, place][..., None]
        return Units(*drawn, np.ones((streams, units, 1)))

    return draw


def _with_mean(guesses: Floats, means: Floats) -> Floats:
    """Return guesses moved on the logits to each of some means: shape (means, guesses)."""
    low, high = np.full(len(means), -40.0), np.full(len(means), 40.0)
    logits = logit(guesses)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        below = expit(logits + middle[:, None]).mean(axis=1) < means
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(expit(logits + low[:, None]))


#: Budget where none is given: this many times the fixed number, or so many where none suffices.
_TIMES, _WITHOUT = 3, 5_000
_MOST: Final = 50_000


@dataclass(frozen=True, slots=True)
class LabelsToExpect(Record):
    """Labels until a verdict falls with one way of drawing.

    Attributes
    ----------
    median, percentile_80 : int or None
        Of the labels until a verdict; None where the budget is not enough for that share.
    drawn_median : int or None
        Of the answers drawn by then, labelled or not.
    certified, rejected, inconclusive : float
        Probabilities within the budget, adding up to 1.
    """

    median: int | None
    percentile_80: int | None
    drawn_median: int | None
    certified: float
    rejected: float
    inconclusive: float


@dataclass(frozen=True, slots=True)
class SequentialPlan(Record):
    """Labels to expect of both ways of drawing, simulated, beside the fixed number.

    Attributes
    ----------
    assumed : mapping of str to float
        ``coverage`` and ``fpr`` of the threshold.
    base_rate : float
        Share of hallucinated answers among those drawn.
    min_coverage, max_fpr, confidence : float
        What is required.
    fixed : int or None
        The labels after which one look certifies with probability ``power``; None where no number
        suffices.
    power : float
        Of the fixed number.
    budget : int
        Most labels of a stream.
    runs, seed : int
        Simulated streams; same seed, same numbers.
    floor : float
        Of the ``active`` design.
    designs : mapping of str to LabelsToExpect
        For ``uniform`` and ``active``.
    """

    assumed: Mapping[str, float]
    base_rate: float
    min_coverage: float
    max_fpr: float
    confidence: float
    fixed: int | None
    power: float
    budget: int
    runs: int
    seed: int
    floor: float
    designs: Mapping[str, LabelsToExpect]


def plan_sequential(
    requirement: Requirement,
    assumption: Assumption,
    base_rate: float,
    *,
    power: float = 0.8,
    budget: int | None = None,
    floor: float = Drawing().floor,
    runs: int = 1000,
    seed: int = 0,
) -> SequentialPlan:
    """Simulate how many labels a verdict takes that is looked for after every one of them.

    The guess of ``active`` is the true P(hallucinated) given a Gaussian score whose threshold has
    the assumed rates, and its traces never run out: a cheaper score saves less.

    Parameters
    ----------
    requirement : Requirement
        With ``min_coverage`` and ``max_fpr`` in (0, 1).
    assumption : Assumption
        ``coverage`` and ``fpr`` of a threshold that exists.
    base_rate : float
        Share of hallucinated answers among those drawn, in (0, 1).
    power : float
        Of the fixed number beside it, in [0.5, 1).
    budget : int, optional
        Most labels; three times the fixed number when left out.
    floor : float
        Least probability of a label with ``active``.
    runs, seed : int
        Simulated streams of each design; same seed, same numbers.

    Returns
    -------
    SequentialPlan

    Raises
    ------
    InputError
        If an argument is outside its domain, or no rates are assumed.

    Examples
    --------
    >>> required = Requirement(min_caught=0.9, max_false_alarms=0.2)
    >>> made = plan_sequential(required, Assumption(coverage=0.97, fpr=0.1), 0.3, runs=100)
    >>> made.designs["active"].median < made.fixed
    True
    """
    edges, base = limits(requirement), argument_checks.share(base_rate, "base_rate")
    rates = assumption.rates
    if rates is None:
        raise InputError.on("assume_rates")
    repeated = argument_checks.whole(runs, "runs", least=1)
    lot = argument_checks.whole(seed, "seed")
    fixed = plan(Promise(), requirement, assumption, base_rate=base, power=power).n
    most = min(_MOST, _TIMES * fixed) if fixed else _WITHOUT
    if budget is not None:
        most = argument_checks.whole(budget, "budget", least=1)
        if most > _MOST:
            raise InputError(f"budget must be at most {_MOST:,}; got {budget:,}")
    designs = {}
    for name in get_args(LabellingDesign):
        drawing = Drawing(name, floor)
        # No stream labels fewer than the floor of all that it draws, but by chance.
        units = most if name == "uniform" else int(2 * most / min(drawing.floors))
        found = follow(
            gaussian(*rates, base),
            requirement.at_first_look(spends=True),
            drawing,
            streams=repeated,
            units=units,
            labels=most,
            seed=lot,
        )
        verdicts, drawn = found.decided(found.labelled), np.minimum(*found.decided(found.drawn))
        first = np.minimum(*verdicts)
        ends = _quantile(first, 0.5), _quantile(first, 0.8), _quantile(drawn, 0.5)
        designs[name] = LabelsToExpect(*ends, *_shares(*verdicts))
    return SequentialPlan(
        assumption.to_dict(),
        base,
        *edges,
        float(requirement.confidence),
        fixed,
        argument_checks.share(power, "power"),
        most,
        repeated,
        lot,
        float(floor),
        designs,
    )


def fewest_drawn(requirement: Requirement, drawing: Drawing) -> tuple[int, int]:
    """Return how many answers of each class a guardrail without an error takes to be certified.

    Drawn ``uniform``ly no fewer are ever enough. With ``active``, where labels weigh more the lower
    their probability, no guess and no guardrail wins faster on average: the logarithm of a bet is
    concave, and what is drawn weighs 1 on average.

    Parameters
    ----------
    requirement : Requirement
        With ``min_coverage`` and ``max_fpr`` in (0, 1).
    drawing : Drawing
        How answers are drawn; with ``whole_groups`` groups are counted.

    Returns
    -------
    (int, int)
        Hallucinated and faithful answers drawn, labelled or not.

    Examples
    --------
    >>> required = Requirement(min_caught=0.8, max_false_alarms=0.2)
    >>> fewest_drawn(required, Drawing())
    (20, 20)
    >>> fewest_drawn(required, Drawing("active"))[0] > 50
    True
    """
    edges, goal = limits(requirement), goals(requirement.confidence)[0]
    if drawing.design == "uniform" and not drawing.whole_groups:

        def won(n: int, faithful: bool) -> float:
            hits, misses = np.array([0.0, n] if faithful else [n, 0.0])
            wealth = betting.wealth_of_counts(hits, misses, edges[faithful], above=not faithful)
            return float(wealth)

    else:
        perfect = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
        # Coverage kept by a hallucinated answer, FPR kept by a faithful one.
        steps = betting.required_steps(perfect, edges, drawing.floors)[[0, 1], [0, 2]]

        def won(n: int, faithful: bool) -> float:
            return float(betting.mixture(n * steps[int(faithful)]))

    def fewest(*, faithful: bool) -> int:
        return first_where(lambda n: won(n, faithful) >= goal, 10**15, 1)

    return fewest(faithful=False), fewest(faithful=True)


def labels_alone(test: UnsureTest) -> int | None:
    """Return about how many labels would have shown as much if every answer drawn had had one.

    The fewest with which bets on counts that have the rates and the shares seen win what the
    verdict took: an estimate for readers, on which nothing rests. None before a verdict, and where
    such bets would not win it.

    Examples
    --------
    >>> from calibrail.conformal.sequential.sequential_test import SequentialTest
    >>> test = UnsureTest.of(SequentialTest(Requirement(0.3, 0.8, 0.9)))
    >>> labels_alone(test.update([True] * 40 + [False] * 40, [1] * 40 + [0] * 40))
    32
    """
    known, edges = test.known, limits(test.certifying.requirement)
    kept, broken = goals(test.certifying.requirement.confidence)
    claims = [(0, True, kept), (1, False, kept)]
    if test.verdict != "certified":
        won = test.log_wealth()
        claims = [(rate, bool(rate), broken) for rate in (0, 1) if won[1 + 2 * rate] >= broken]
    mass = np.maximum(known.mass, _CERTAIN)
    rates, shares = np.clip(np.array(known.hits) / mass, 0.0, 1.0), mass / mass.sum()

    def needed(rate: int, above: bool, goal: float) -> int:
        def won(n: int) -> bool:
            hits, misses = n * shares[rate] * np.array([rates[rate], 1.0 - rates[rate]])
            return bool(betting.wealth_of_counts(hits, misses, edges[rate], above=above) >= goal)

        return first_where(won, _MOST, 1)

    most = max((needed(*claim) for claim in claims), default=_MOST)
    return None if most >= _MOST else most


def _shares(certified: Floats, rejected: Floats) -> tuple[float, float, float]:
    """Return how many of the streams were certified, rejected, and neither."""
    ends = certified, rejected
    some, others = (float(np.mean(np.isfinite(end))) for end in ends)
    return some, others, float(np.mean(np.isinf(np.minimum(*ends))))


def _quantile(values: Floats, share: float) -> int | None:
    """Return the smallest whole number that so many reach; None where it is infinite."""
    found = float(np.quantile(values, share, method="higher"))
    return int(np.ceil(found)) if np.isfinite(found) else None
