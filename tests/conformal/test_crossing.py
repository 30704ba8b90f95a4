from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson

from calibrail.conformal.bounds import stays_below

CHECK = settings(max_examples=40, deadline=None)

_Floats = np.ndarray[Any, np.dtype[np.float64]]
Step = tuple[int, _Floats]

STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.lists(st.integers(0, 5), min_size=1, max_size=3).map(
            lambda weights: (np.array(weights) + 0.5) / (sum(weights) + 0.5 * len(weights))
        ),
    ),
    min_size=1,
    max_size=4,
)


def by_enumeration(limits: list[int], steps: list[Step], last: _Floats) -> float:
    """Add the probabilities of all ways through the staircase, one way at a time."""
    total = 0.0
    for choice in itertools.product(*(range(len(masses)) for _, masses in steps)):
        places = list(
            itertools.accumulate(
                least + index for (least, _), index in zip(steps, choice, strict=True)
            )
        )
        if all(place <= limit for place, limit in zip(places, limits, strict=True)):
            masses = (mass[index] for (_, mass), index in zip(steps, choice, strict=True))
            total += math.prod(masses) * float(last[places[-1]])
    return total


@CHECK
@given(STEPS, st.data())
def test_the_recursion_adds_up_every_way_through_the_staircase(
    steps: list[Step], data: st.DataObject
) -> None:
    bound = st.integers(0, 9)
    limits = sorted(data.draw(st.lists(bound, min_size=len(steps), max_size=len(steps))))
    last = np.linspace(1.0, 0.2, limits[-1] + 1)
    expected = by_enumeration(limits, steps, last)
    assert stays_below(limits, steps, last.take) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_lattice_paths_below_the_diagonal_are_the_catalan_numbers(n: int) -> None:
    """Count paths of n ups and n rights that never rise above the diagonal.

    Between two rights a path rises by anything; each such growth has weight 1 here, so that the
    "probability" is the number of the paths.
    """
    rise = (0, np.ones(n + 1))
    paths = stays_below(list(range(n)), [rise] * n, np.ones(n).take)
    catalan = math.comb(2 * n, n) // (n + 1)
    assert paths == pytest.approx(catalan)
    inside = sum(
        all(ups <= rights for rights, ups in enumerate(itertools.accumulate(gaps)))
        for gaps in itertools.product(range(n + 1), repeat=min(n, 5))
        if sum(gaps) <= n
    )
    if n <= 5:
        assert inside == catalan


def test_long_steps_are_convolved_alike_with_and_without_a_fourier_transform() -> None:
    mean, size = 300.0, 700
    grow = poisson.pmf(np.arange(size), mean)
    limits = [330, 640, 930]
    state = np.ones(1)
    for limit in limits:
        state = np.convolve(state, grow)[: limit + 1]
    last = np.ones(limits[-1] + 1)
    found = stays_below(limits, [(0, grow)] * 3, last.take)
    assert found == pytest.approx(state.sum(), rel=1e-9)
    # Leaving the unlikely lower growths out changes nothing that matters, and never adds.
    cut = 150
    trimmed = stays_below(limits, [(cut, grow[cut:])] * 3, last.take)
    assert trimmed <= found + 1e-12 and trimmed == pytest.approx(found, rel=1e-9)
