"""Which repeated numbers are copies, and which does chance explain?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrail.data.duplicates import score_copies

RNG = np.random.default_rng(0)
LABELS = np.repeat(RNG.integers(0, 2, 200), 6).astype(np.int8)
DRAWN = RNG.normal(size=200)


def entropies(samples: int, n: int) -> Any:
    """Return entropies of answers that fall into clusters: irrational, and few different ones."""
    shares = RNG.dirichlet(np.full(samples, 1.0), n)
    found = []
    for share in shares:
        counts = np.bincount(RNG.choice(samples, samples, p=share))
        part = counts[counts > 0] / samples
        found.append(-np.sum(part * np.log(part)))
    return np.array(found)


@pytest.mark.parametrize(
    ("scores", "least"),
    [
        (DRAWN, 1200),
        # One number in fifty is near a fraction whose terms single precision cannot tell apart.
        (DRAWN.astype(np.float32), 1100),
        (DRAWN.round(6), 1100),
        (1.0 / (1.0 + np.exp(-DRAWN)), 1190),
    ],
    ids=["double", "single", "six decimals", "probabilities"],
)
def test_copies_are_found(scores: Any, least: int) -> None:
    found = score_copies([np.repeat(scores.astype(np.float64), 6)], LABELS)
    assert least <= np.count_nonzero(found >= 0) <= 1200
    inside = found >= 0
    assert (np.bincount(found[inside]) == 6).all()
    assert (found[inside] == found[np.arange(1200) // 6 * 6][inside]).all()


COARSE = {
    "ratings": RNG.integers(1, 6, 1200),
    "shares of words": RNG.integers(0, 40, 1200) / RNG.integers(40, 80, 1200),
    "shares, ten decimals": (RNG.integers(0, 40, 1200) / RNG.integers(40, 80, 1200)).round(10),
    "shares, single": (RNG.integers(0, 9, 1200) / RNG.integers(9, 20, 1200)).astype(np.float32),
    "four decimals": RNG.random(1200).round(4),
    "five decimals": RNG.random(1200).round(5),
    "four digits": np.array([float(f"{x:.3e}") for x in RNG.random(1200) ** 30]),
    "half precision": RNG.random(1200).astype(np.float16),
    "saturated": np.clip(RNG.normal(3.0, 3.0, 1200), 0.123456789123, 4.987654321987),
    "entropies of five": entropies(5, 1200),
    "entropies of twenty": entropies(20, 1200),
    "undefined": np.full(1200, np.nan),
    "different": RNG.random(1200),
}


@pytest.mark.parametrize("name", COARSE)
def test_what_chance_explains_is_no_copy(name: str) -> None:
    labels = RNG.integers(0, 2, 1200).astype(np.int8)
    assert (score_copies([COARSE[name].astype(np.float64)], labels) < 0).all()


def test_single_precision_meets_by_chance_where_rows_are_many() -> None:
    scores = RNG.random(200_000, dtype=np.float32).astype(np.float64)
    repeated = len(scores) - len(np.unique(scores))
    found = score_copies([scores], RNG.integers(0, 2, len(scores)).astype(np.int8))
    assert repeated > 1000 and np.count_nonzero(found >= 0) < 400


def test_all_columns_are_the_same_and_one_is_telling() -> None:
    first = np.array([0.123456789, 0.123456789, 0.123456789, 0.5, 0.5, 0.1])
    second = np.array([1.0, 1.0, 2.0, 3.0, 3.0, 4.0])
    labels = np.array([1, 1, 1, 0, 0, 0], np.int8)
    assert score_copies([first, second], labels).tolist() == [0, 0, -1, -1, -1, -1]
    assert score_copies([second, first], labels).tolist() == [0, 0, -1, -1, -1, -1]
    assert score_copies([], labels).tolist() == [-1] * 6


def test_a_value_that_fills_gaps_does_not_hide_copies() -> None:
    scores = np.repeat(DRAWN, 6)
    scores[::5] = -0.6931471805599453
    found = score_copies([scores], LABELS)
    assert (found[::5] < 0).all() and np.count_nonzero(found >= 0) > 900


def test_answers_with_labels_of_three_people_are_copies() -> None:
    scores, labels = np.repeat(DRAWN, 3), RNG.integers(0, 2, 600).astype(np.int8)
    assert np.count_nonzero(score_copies([scores], labels) >= 0) == 600
