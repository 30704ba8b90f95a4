"""How many more labels will a verdict take, as far as what is known tells?"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from calibrail.conformal import validation
from calibrail.conformal.joint_bets import nothing_won, on_requirement
from calibrail.conformal.labelling import truth_values
from calibrail.conformal.streams import Draw, Start, Units, follow
from calibrail.conformal.unsure import UnsureTest
from calibrail.conformal.validation import Bools, Floats, Ints
from calibrail.errors import InputError
from calibrail.record import Record

#: Why no number is given.
Unforeseeable = Literal["decided", "few_hallucinated", "few_faithful"]

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
    unforeseeable : {"decided", "few_hallucinated", "few_faithful"} or None
        Why there is nothing to foresee, or too little is known.
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
    >>> from calibrail.conformal.sequential import SequentialTest
    >>> from calibrail.settings import Requirement
    >>> flagged, labels = [True] * 18 + [False] * 22, [1] * 18 + [0] * 22
    >>> start = UnsureTest.of(SequentialTest(Requirement(0.3, 0.8, 0.95)))
    >>> left = labels_left(start.update(flagged, labels), flagged)
    >>> left.low <= left.median <= left.high, left.certified > 0.9
    (True, True)
    """
    known, drawing = test.known, test.certifying.drawing
    drawn = truth_values(flagged, "flagged")
    guesses = np.full(len(drawn), 0.5) if guess is None else validation.vector(guess, "guess")
    validation.paired(guesses, len(drawn), "guess", "answer")
    if not np.all((guesses >= 0.0) & (guesses <= 1.0)):
        raise InputError("guess must lie in [0, 1] for every answer")
    each = validation.number(per_unit, "per_unit")
    if not 1.0 <= each < np.inf:
        raise InputError(f"per_unit must be at least 1; got {per_unit!r}")
    seed = validation.whole(seed, "seed")
    reason: Unforeseeable | None = None
    if test.verdict != "inconclusive":
        reason = "decided"
    elif known.n_hallucinated < _LEAST:
        reason = "few_hallucinated"
    elif known.n_faithful < _LEAST:
        reason = "few_faithful"
    if reason is not None:
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
    certified = np.maximum(labels[:, 0], labels[:, 2])
    rejected = np.minimum(labels[:, 1], labels[:, 3])
    first = np.minimum(certified, rejected)
    ends = [float(np.quantile(first, level, method="higher")) for level in (0.1, 0.5, 0.9)]
    low, median, high = (int(np.ceil(end)) if np.isfinite(end) else None for end in ends)
    shares = (
        float(np.mean(certified < rejected)),
        float(np.mean((rejected <= certified) & np.isfinite(rejected))),
        float(np.mean(np.isinf(first))),
    )
    return LabelsLeft(low, median, high, *shares, _BUDGET, _RUNS)


def _start(test: UnsureTest) -> Start:
    """Return what has been won so far, each bet by the test that may use it."""
    kept, broken = test.certifying, test.rejecting
    counts = [
        pair
        for one, other in (
            ((kept.caught, kept.n_hallucinated), (broken.caught, broken.n_hallucinated)),
            ((kept.false_alarms, kept.n_faithful), (broken.false_alarms, broken.n_faithful)),
        )
        for pair in (one, other)
    ]
    empty = nothing_won()
    logs = [
        on_requirement(
            empty if item.log_wealth is None else np.array(item.log_wealth).reshape(empty.shape)
        )
        for item in (kept, broken)
    ]
    by_test = np.array([0, 1, 0, 1])
    return Start(
        np.array(counts, np.int64),
        np.stack(logs)[by_test, np.arange(4)],
        np.array(test.log_wealth()),
        kept.mass[0],
        kept.drawn,
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
        shape = (streams, units, 1)
        return Units(
            (side == 1).reshape(shape),
            hallucinated.reshape(shape),
            table[side, place].reshape(shape),
            np.ones(shape),
        )

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
