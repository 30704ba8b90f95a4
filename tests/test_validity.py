from __future__ import annotations

import pytest

from calibrail.conformal import Guarantee, rank
from calibrail.validity import Check, run_grid


def failed(checks: tuple[Check, ...]) -> set[str]:
    return {check.promise for check in checks if not check.ok}


def test_every_promise_holds_over_the_grid() -> None:
    checks = run_grid(runs=3000, seed=7)
    assert {check.promise for check in checks} == {
        "marginal coverage",
        "p-value at most alpha",
        "coverage outside its 90 % band",
        "pac exceeded",
        "wrongly rejected",
        "wrongly certified",
    }
    assert [check for check in checks if not check.ok] == []


def one_more(n: int, alpha: float, guarantee: Guarantee, delta: float) -> int:
    return rank(n, alpha, guarantee, delta) + 1


def one_less(n: int, alpha: float, guarantee: Guarantee, delta: float) -> int:
    return max(rank(n, alpha, guarantee, delta) - 1, 1)


def of_the_paper(n: int, alpha: float, guarantee: Guarantee, delta: float) -> int:
    return rank(n, alpha, "paper")


@pytest.mark.parametrize("broken", [one_more, one_less, of_the_paper])
def test_a_broken_rank_is_noticed(broken: object) -> None:
    checks = run_grid(3000, seed=7, sizes=(30, 100), alphas=(0.05, 0.2), rank_of=broken)  # type: ignore[arg-type]
    assert {"marginal coverage", "pac exceeded"} & failed(checks)


def test_the_same_seed_gives_the_same_checks() -> None:
    arguments = {"runs": 50, "seed": 3, "sizes": (30,), "alphas": (0.1,)}
    assert run_grid(**arguments) == run_grid(**arguments)  # type: ignore[arg-type]
