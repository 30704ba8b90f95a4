from __future__ import annotations

from collections.abc import Callable

import pytest

import calibrail.validity as validity
from calibrail.conformal import Guarantee, rank
from calibrail.errors import InputError

Rank = Callable[[int, float, Guarantee, float], int]


def test_every_promise_holds_over_the_grid() -> None:
    checks = validity.simulate(runs=2000, seed=7)
    assert {(check.n, check.alpha) for check in checks} >= {(19, 0.05), (600, 0.01)}
    assert {check.kind for check in checks} == set(validity.KINDS)
    assert len({check.promise for check in checks}) == 7
    assert validity.failures(checks, error=1e-4) == ()


def one_more(n: int, alpha: float, kind: Guarantee = "marginal", delta: float = 0.1) -> int:
    return rank(n, alpha, kind, delta) + 1


def of_the_paper(n: int, alpha: float, kind: Guarantee = "marginal", delta: float = 0.1) -> int:
    return rank(n, alpha, "paper")


@pytest.mark.parametrize("broken", [one_more, of_the_paper])
def test_a_rank_that_promises_too_much_is_noticed(
    broken: Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    import calibrail.conformal.threshold as threshold

    monkeypatch.setattr(threshold, "rank", broken)
    monkeypatch.setattr(validity, "rank", broken)
    checks = validity.simulate(runs=2000, sizes=(30, 100), alphas=(0.05, 0.2), seed=7)
    assert validity.failures(checks, error=1e-4)


def test_the_same_seed_gives_the_same_counts() -> None:
    first, second = (
        validity.simulate(runs=50, sizes=(30,), alphas=(0.1,), seed=3) for _ in range(2)
    )
    assert first == second


def test_no_runs_are_refused() -> None:
    with pytest.raises(InputError, match="runs"):
        validity.simulate(runs=0)
