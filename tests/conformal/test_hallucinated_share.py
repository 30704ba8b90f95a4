from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrail.conformal import conformal_selection, labelled_share, p_values, storey_share

CHECK = settings(max_examples=40, deadline=None)
SCORES = st.integers(0, 6)


def splits(items: list[Any], n: int) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield every way to take n of the items, with the rest."""
    places = range(len(items))
    for chosen in itertools.combinations(places, n):
        taken = set(chosen)
        yield [items[i] for i in chosen], [items[i] for i in places if i not in taken]


def false_share(scores: list[int], bad: int, calibration: list[int], q: float, **known: int) -> Any:
    """Return the share of the first ``bad`` answers among the released."""
    p = p_values(np.sort(np.array(calibration, dtype=float)), np.array(scores, dtype=float))
    share = labelled_share(**known) if known else storey_share(p, len(calibration))
    released = conformal_selection(p, q, share).released
    return np.count_nonzero(released[:bad]) / max(1, np.count_nonzero(released))


@CHECK
@given(
    st.integers(1, 5),
    st.integers(1, 4).flatmap(
        lambda bad: st.tuples(st.just(bad), st.lists(SCORES, min_size=5 + bad, max_size=5 + bad))
    ),
    st.lists(SCORES, max_size=6),
    st.floats(0.05, 0.9),
)
def test_storey_keeps_the_rate_over_all_orders_with_any_ties_and_faithful_answers(
    n: int, hallucinated: tuple[int, list[int]], faithful: list[int], q: float
) -> None:
    """Exact: whichever hallucinated scores there are, each n of them are as likely to calibrate."""
    bad, scores = hallucinated
    rates = [
        false_share(batch + faithful, bad, calibration, q)
        for calibration, batch in splits(scores[: n + bad], n)
    ]
    assert np.mean(rates) <= q + 1e-9


@CHECK
@given(
    st.lists(st.tuples(SCORES, st.booleans()), min_size=4, max_size=8),
    st.integers(1, 3),
    st.floats(0.05, 0.9),
)
def test_both_classes_keep_the_rate_over_all_ways_to_draw_the_batch(
    answers: list[tuple[int, bool]], m: int, q: float
) -> None:
    rates = []
    for labelled, batch in splits(answers, len(answers) - m):
        calibration = [score for score, wrong in labelled if wrong]
        ordered = sorted(batch, key=lambda answer: not answer[1])
        bad = sum(wrong for _, wrong in batch)
        known = {"n_hallucinated": len(calibration), "n": len(labelled)}
        scores = [score for score, _ in ordered]
        rates.append(false_share(scores, bad, calibration, q, **known))
    assert np.mean(rates) <= q + 1e-9


def test_with_the_labelled_answers_alone_to_calibrate_it_is_the_p_value_of_both_classes() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=60), rng.random(60) < 0.3
    batch = rng.normal(size=40)
    hallucinated = np.sort(scores[labels])
    share = labelled_share(len(hallucinated), len(scores))
    both = (1 + np.searchsorted(hallucinated, batch, side="right")) / (len(scores) + 1)
    found = conformal_selection(p_values(hallucinated, batch), 0.2, share)
    assert np.array_equal(found.released, conformal_selection(both, 0.2).released)
    assert found.n_released > conformal_selection(p_values(hallucinated, batch), 0.2).n_released


@pytest.mark.parametrize(("n", "least"), [(1, 1 / 2), (2, 2 / 3), (3, 1 / 2), (9, 1 / 2)])
def test_p_values_from_the_middle_on_count(n: int, least: float) -> None:
    places = np.arange(1, n + 2) / (n + 1)
    high = int(sum(places >= least - 1e-12))
    assert storey_share(places, n) == pytest.approx((1 + high) / ((n + 1) * (1 - least)))


def test_undefined_answers_count_as_hallucinated_and_are_never_released() -> None:
    p = [0.1, 0.1, 0.1, math.nan]
    assert storey_share(p, 9) == storey_share([0.1, 0.1, 0.1, 1.0], 9) == 1.0
    # At a level above 1 everything with a score is released, at the rate for all four answers.
    found = conformal_selection([*p, 1.0], 0.5, 0.25)
    assert found.released.tolist() == [True, True, True, False, True]
    assert conformal_selection([1.0, math.nan, math.nan], 0.5, 0.9).n_released == 0
    assert storey_share([], 5) == 1.0 and conformal_selection([], 0.1, 0.2).n_released == 0
