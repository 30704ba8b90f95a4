"""Does the threshold come out as if every answer had been labelled, at a rank that keeps it?"""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.label_ceiling import ceiling, ceiling_rank, to_label
from calibrail.conformal import rank
from calibrail.errors import InputError
from calibrail.options import Guarantee

guarantees = st.sampled_from(["marginal", "pac"])


@given(st.integers(0, 200), st.sampled_from([0.05, 0.1, 0.3]), guarantees)
def test_with_all_answers_labelled_it_is_the_rank(n: int, alpha: float, kind: Guarantee) -> None:
    assert ceiling_rank(n, 1.0, alpha, kind) == rank(n, alpha, kind)


@pytest.mark.parametrize(("n", "share"), [(4, 0.5), (7, 0.5), (3, 0.25)])
@pytest.mark.parametrize("alpha", [0.1, 0.25])
def test_the_rank_is_the_largest_that_exact_fractions_allow(
    n: int, share: float, alpha: float
) -> None:
    part, a = Fraction(share), Fraction(str(alpha))
    # So many unknown ones that the rest changes no comparison below.
    law = [(n + u, comb(n + u - 1, u) * part**n * (1 - part) ** u) for u in range(250)]

    def marginal(k: int) -> bool:
        return sum(chance * Fraction(k, total + 1) for total, chance in law) <= a

    def pac(k: int) -> bool:
        error = sum(
            chance * sum(comb(total, i) * a**i * (1 - a) ** (total - i) for i in range(k))
            for total, chance in law
        )
        return error <= Fraction(1, 10)

    for kind, keeps in (("marginal", marginal), ("pac", pac)):
        expected = max([0, *(k for k in range(1, n + 1) if keeps(k))])
        assert ceiling_rank(n, share, alpha, kind, 0.1) == expected  # type: ignore[arg-type]


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.sampled_from([0.1, 0.4]))
def test_the_threshold_is_the_one_that_labels_for_all_would_give(
    seed: int, k: int, share: float
) -> None:
    rng, n = np.random.default_rng(seed), 6
    scores, hallucinated = rng.random(2000), rng.random(2000) < 0.3
    lots = rng.random(2000)
    end = int(np.flatnonzero(np.cumsum(hallucinated & (lots < share)) == n)[0]) + 1
    known: list[float] = []
    for score, label, lot in zip(scores[:end], hallucinated[:end], lots[:end], strict=True):
        if to_label([score], [lot], share, ceiling(known, k))[0] and label:
            known.append(score)
    assert ceiling(known, k) == np.sort(scores[:end][hallucinated[:end]])[k - 1]
    assert n <= len(known) <= hallucinated[:end].sum()


def test_all_is_labelled_until_enough_are_found_and_less_above_them() -> None:
    assert ceiling([], 1) == np.inf
    assert ceiling([0.3, 0.1, 0.2], 2) == 0.2
    assert to_label([0.9, 0.1], [0.99, 0.99], 0.2, np.inf).tolist() == [True, True]
    assert to_label([0.2, 0.2, 0.1], [0.19, 0.2, 0.99], 0.2, 0.2).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: ceiling_rank(5, 0.0, 0.1), "share must lie in"),
        (lambda: ceiling_rank(5, 1.1, 0.1), "share must lie in"),
        (lambda: ceiling_rank(-1, 0.5, 0.1), "n must be"),
        (lambda: ceiling_rank(5, 0.5, 0.1, "paper"), "guarantee must be"),
        (lambda: ceiling([0.1, np.nan], 1), "scores"),
        (lambda: ceiling([0.1], 0), "k must be"),
        (lambda: to_label([0.1], [1.0], 0.5, 0.3), "lots must lie in"),
        (lambda: to_label([0.1, 0.2], [0.5], 0.5, 0.3), "lots"),
    ],
)
def test_what_cannot_be_is_refused_by_name(call: object, names: str) -> None:
    with pytest.raises(InputError, match=names):
        call()  # type: ignore[operator]
