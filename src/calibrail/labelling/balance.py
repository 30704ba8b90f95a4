"""Can labels made elsewhere have been chosen with the probabilities that stand beside them?"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, fsum
from typing import Final

from calibrail.errors import InputError
from calibrail.labelling.elsewhere import Lots
from calibrail.record import Record

#: Chance of so great a difference, or a greater one, below which labels are refused.
_REFUSED: Final = 0.001


@dataclass(frozen=True, slots=True)
class Balance(Record):
    """How many traces labels stand for by their probabilities, beside how many there are.

    Attributes
    ----------
    labelled, traces : int
        Labels of the file, and traces.
    estimate : float
        Sum of 1 / probability over the labels, which estimates the number of traces without bias
        (Horvitz and Thompson 1952).
    p : float
        At most the chance of so great a difference where the probabilities are those of the lot.
    """

    labelled: int
    traces: int
    estimate: float
    p: float


def balance(lots: Lots, n: int, groups: Mapping[str, str | None], floor: float) -> Balance:
    """Compare the labels that were made elsewhere with the traces they were chosen from.

    The answers of a group may have been chosen together. The chance is exact where all
    probabilities are the same and no two labels share a group. Otherwise it is Bernstein's bound,
    with the variance of the labels there are, and the largest that missing ones may have.

    Parameters
    ----------
    lots : Lots
        What the file of labels says.
    n : int
        Traces, labelled or not.
    groups : mapping of str to str or None
        Group of each answer with a label, by its id.
    floor : float
        Least probability, where they differ.

    Raises
    ------
    InputError
        The difference has a chance below 0.001: both numbers are named.
    """
    shares = {id: float(row["probability"]) for id, row in lots.rows.items()}
    estimate = fsum(1.0 / share for share in shares.values())
    units: dict[tuple[bool, str], list[float]] = defaultdict(list)
    for id, share in shares.items():
        group = groups.get(id)
        units[group is not None, id if group is None else group].append(share)
    share = min(shares.values())
    if len(units) == len(shares) and not lots.weighted:
        from scipy.stats import binom  # Half a second that most commands need not wait for.

        below, above = binom.cdf(len(shares), n, share), binom.sf(len(shares) - 1, n, share)
        p = min(1.0, 2.0 * float(min(below, above)))
    else:
        least = floor if lots.weighted else share
        p = _bernstein(estimate, n, list(units.values()), least)
    found = Balance(len(shares), n, estimate, p)
    if p < _REFUSED:
        raise InputError(
            f"the labels in {lots.path} ({len(shares):,}) stand for about {estimate:,.0f} traces "
            f"by their probabilities, and there are {n:,}, which chance does not explain (p < "
            f"{_REFUSED:g}): labels were left out of the file, or the probabilities are not those "
            "of the lot that chose the answers. Give every answer that it chose (with the label "
            "unsure where nobody can tell), the probability that each had before it was chosen, "
            "and all traces that took part, and no others; where there was no such lot, these "
            "labels cannot count"
        )
    return found


def _bernstein(estimate: float, n: int, units: list[list[float]], least: float) -> float:
    """Return a bound on the chance that the estimate is so far from n, two-sided."""
    sizes = [fsum(1.0 / share for share in shares) for shares in units]
    pairs = zip(units, sizes, strict=True)
    variance = fsum((1.0 - min(shares)) * size**2 for shares, size in pairs)
    apart, answers = abs(estimate - n), max(map(len, units))
    if estimate > n:
        variance, largest = variance * n / estimate, max(sizes)
    else:
        # All that is missing may have had the least probability.
        variance, largest = variance + apart * answers * (1.0 - least) / least, float(answers)
    spread = variance + largest * apart / 3.0
    return 1.0 if not apart else min(1.0, 2.0 * exp(-(apart**2) / (2.0 * spread)))
