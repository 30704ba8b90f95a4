"""How many hallucinated answers are enough for a threshold, and how many labels is that?

Answers are drawn one after another, in an order that depends on nothing but the lot, and labelling
stops with a number of hallucinated ones that is fixed beforehand, and not before there are a few
faithful ones. When it stops depends on labels alone, so that the scores of the hallucinated ones
are exchangeable with those of answers to come, whatever they are and however rare: what a threshold
promises rests on nothing else.
"""

import math
from typing import Final

from scipy.special import betaincinv

from calibrail.conformal.rank import minimum_n, rank
from calibrail.errors import InputError
from calibrail.labelling.ledger import Ledger
from calibrail.settings.promise import Promise
from calibrail.settings.splitting import SplitOptions

#: Faithful answers that there must be, so that each part has one: else nothing says what is flagged
#: in vain.
FAITHFUL_NEEDED: Final = 2
#: Labels before which the share of hallucinated answers says too little.
_FIRST: Final = 10


def hallucinated_needed(promise: Promise) -> int:
    """Return the fewest hallucinated answers of which the part that calibrates holds enough.

    The rest tests the threshold: `calibrail calibrate` splits labelled answers in two.

    Raises
    ------
    InputError
        The promise is one for each group of a column, whose numbers nobody knows beforehand.

    Examples
    --------
    >>> hallucinated_needed(Promise(0.05)), hallucinated_needed(Promise(0.05, "pac"))
    (37, 89)
    """
    if promise.by is not None:
        raise InputError(
            "by must be left out while labelling: labels are counted for one threshold; name the "
            "column when it is calibrated"
        )
    least = minimum_n(promise.alpha, promise.guarantee, promise.delta)
    share = SplitOptions().shares(learning=False)["calibration_share"]
    # Of two equal remainders the calibration part's is rounded up.
    return math.ceil((least - 0.5) / share)


def coverage_to_expect(promise: Promise, n_hallucinated: int) -> list[dict[str, float]]:
    """Return between which coverages nine of ten thresholds lie, from so many answers and more.

    What a threshold truly catches is random: the k-th lowest of n scores that calibrate misses a
    share with a Beta(k, n + 1 - k) law, whatever the scores are.

    Parameters
    ----------
    promise : Promise
        Of the threshold.
    n_hallucinated : int
        Hallucinated answers labelled.

    Returns
    -------
    list of dict
        ``hallucinated``, ``lower`` and ``upper`` for so many, twice and four times as many.

    Examples
    --------
    >>> now, twice, four = coverage_to_expect(Promise(0.1), 17)
    >>> [round(now[end], 3) for end in ("lower", "upper")], four["hallucinated"]
    ([0.717, 0.994], 68)
    """
    share, found = SplitOptions().shares(learning=False)["calibration_share"], []
    for times in (1, 2, 4):
        labelled = times * n_hallucinated
        n = math.floor(labelled * share + 0.5)
        k = rank(n, promise.alpha, promise.guarantee, promise.delta)
        lower, upper = betaincinv(n + 1 - k, k, [0.05, 0.95]).tolist()
        found.append({"hallucinated": labelled, "lower": lower, "upper": upper})
    return found


def found(ledger: Ledger, stop: int | None = None) -> tuple[int, int]:
    """Return how many hallucinated and faithful answers there are: of a group drawn whole one each.

    Parameters
    ----------
    ledger : Ledger
        What was drawn, and its labels.
    stop : int, optional
        Only the first so many answers drawn.
    """
    answers = ledger.answers[:stop]
    return (
        len({item.draw.unit for item in answers if item.label == 1}),
        len({item.draw.unit for item in answers if item.label == 0}),
    )


def held_up(ledger: Ledger, needed: int | None) -> bool:
    """Return whether enough answers are labelled, if only those counted that are still open."""
    if needed is None:
        return False
    n_hallucinated, n_faithful = found(ledger)
    some = found(ledger, ledger.counted)
    enough = n_hallucinated >= needed and n_faithful >= FAITHFUL_NEEDED
    return enough and (some[0] < needed or some[1] < FAITHFUL_NEEDED)


def labels_to_expect(missing: int, n_hallucinated: int, n_labelled: int) -> int | None:
    """Return about how many more labels it takes to find so many more hallucinated answers.

    None while too little is labelled to say.

    Examples
    --------
    >>> labels_to_expect(10, 10, 100), labels_to_expect(0, 10, 100), labels_to_expect(9, 0, 5)
    (97, 0, None)
    """
    if missing <= 0:
        return 0
    if n_labelled < _FIRST:
        return None
    return math.ceil(missing * (n_labelled + 1) / (n_hallucinated + 0.5))
