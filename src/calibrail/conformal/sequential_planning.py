"""How many labels does a verdict at any time need, beside one on a fixed number of them?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, get_args

import numpy as np

from calibrail.conformal import validation
from calibrail.conformal.betting import mixture
from calibrail.conformal.eprocess import wealth_of_counts
from calibrail.conformal.joint_bets import required_steps
from calibrail.conformal.labelling import limits
from calibrail.conformal.planning import Assumption, plan
from calibrail.conformal.sequential_certificate import goals
from calibrail.conformal.streams import Streams, follow, gaussian
from calibrail.conformal.validation import Floats
from calibrail.errors import InputError
from calibrail.record import Record
from calibrail.settings.drawing import Drawing, LabellingDesign
from calibrail.settings.promise import Promise
from calibrail.settings.requirement import Requirement

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
    >>> required = Requirement(min_coverage=0.9, max_fpr=0.2)
    >>> made = plan_sequential(required, Assumption(coverage=0.97, fpr=0.1), 0.3, runs=100)
    >>> made.designs["active"].median < made.fixed
    True
    """
    edges, base = limits(requirement), validation.share(base_rate, "base_rate")
    rates = assumption.rates
    if rates is None:
        raise InputError(
            "coverage and fpr must be assumed: a verdict while labelling is about a threshold "
            "that exists"
        )
    repeated = validation.whole(runs, "runs", least=1)
    lot = validation.whole(seed, "seed")
    fixed = plan(Promise(), requirement, assumption, base_rate=base, power=power).n
    most = min(_MOST, _TIMES * fixed) if fixed else _WITHOUT
    if budget is not None:
        most = validation.whole(budget, "budget", least=1)
        if most > _MOST:
            raise InputError(f"budget must be at most {_MOST:,}; got {budget:,}")
    designs = {}
    for name in get_args(LabellingDesign):
        drawing = Drawing(name, floor)
        # No stream labels fewer than the floor of all that it draws, but by chance.
        units = most if name == "uniform" else int(2 * most / min(drawing.floors))
        found = follow(
            gaussian(*rates, base),
            requirement,
            drawing,
            streams=repeated,
            units=units,
            labels=most,
            seed=lot,
        )
        designs[name] = _expected(found)
    return SequentialPlan(
        assumption.to_dict(),
        base,
        *edges,
        float(requirement.confidence),
        fixed,
        validation.share(power, "power"),
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
    >>> required = Requirement(min_coverage=0.8, max_fpr=0.2)
    >>> fewest_drawn(required, Drawing())
    (20, 20)
    >>> fewest_drawn(required, Drawing("active"))[0] > 50
    True
    """
    edges, goal = limits(requirement), goals(requirement.confidence)[0]
    if drawing.design == "uniform" and not drawing.whole_groups:

        def won(n: int, faithful: bool) -> float:
            counts = (0.0, float(n)) if faithful else (float(n), 0.0)
            hits, misses = np.array(counts[0]), np.array(counts[1])
            return float(wealth_of_counts(hits, misses, edges[faithful], above=not faithful))

    else:
        perfect = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
        # Coverage kept by a hallucinated answer, FPR kept by a faithful one.
        steps = required_steps(perfect, edges, drawing.floors)[[0, 1], [0, 2]]

        def won(n: int, faithful: bool) -> float:
            return float(mixture(n * steps[int(faithful)]))

    return _first(partial(won, faithful=False), goal), _first(partial(won, faithful=True), goal)


def _first(won: Callable[[int], float], goal: float) -> int:
    """Return the first number with which a growing wealth has reached its goal."""
    high = 1
    while won(high) < goal:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if won(middle) >= goal else (middle, high)
    return high


def _expected(found: Streams) -> LabelsToExpect:
    """Return what streams show of the labels to expect."""
    certified, rejected = found.decided(found.labelled)
    labels = np.minimum(certified, rejected)
    drawn = np.minimum(*found.decided(found.drawn))
    return LabelsToExpect(
        median=_quantile(labels, 0.5),
        percentile_80=_quantile(labels, 0.8),
        drawn_median=_quantile(drawn, 0.5),
        certified=float(np.mean(np.isfinite(certified))),
        rejected=float(np.mean(np.isfinite(rejected))),
        inconclusive=float(np.mean(np.isinf(labels))),
    )


def _quantile(values: Floats, share: float) -> int | None:
    """Return the smallest value that so many reach; None where it is infinite."""
    found = float(np.quantile(values, share, method="higher"))
    return int(found) if np.isfinite(found) else None
