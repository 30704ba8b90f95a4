from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from calibrail.errors import InputError
from calibrail.models.llm.transport import (
    Account,
    BudgetError,
    CallLimits,
    Price,
    account,
    default_cache,
    limit_calls,
    no_calls,
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("concurrency", 0),
        ("concurrency", True),
        ("concurrency", "8"),
        ("attempts", 0),
        ("max_calls", -1),
        ("max_calls", 1.5),
        ("timeout", 0),
        ("timeout", math.inf),
        ("timeout", "60"),
        ("patience", 0.0),
    ],
)
def test_a_limit_out_of_its_domain_is_refused(name: str, value: object) -> None:
    with pytest.raises(InputError, match=f"^{name} must be .*; got {value!r}$"):
        CallLimits(**{name: value})  # type: ignore[arg-type]


def test_the_cache_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CALIBRAIL_CACHE", "off")
    assert default_cache() is None
    assert CallLimits().cache is None
    monkeypatch.setenv("CALIBRAIL_CACHE", str(tmp_path / "mine.sqlite"))
    assert default_cache() == CallLimits().cache == tmp_path / "mine.sqlite"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CALIBRAIL_CACHE", "~/here.sqlite")
    assert default_cache() == tmp_path / "here.sqlite"
    monkeypatch.delenv("CALIBRAIL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache() == tmp_path / "xdg" / "calibrail" / "answers.sqlite"
    for unset in ("", None):
        if unset is None:
            monkeypatch.delenv("XDG_CACHE_HOME")
        else:
            monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert default_cache() == tmp_path / ".cache" / "calibrail" / "answers.sqlite"
    assert not (tmp_path / ".cache").exists()


def test_a_budget_is_spent_once(tmp_path: Path) -> None:
    spent = Account(CallLimits(max_calls=1000, cache=tmp_path / "cache.sqlite"))
    spent.answered()

    def spend(_: int) -> bool:
        try:
            spent.spend()
        except BudgetError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(spend, range(1200))) == 1000
    assert spent.n_sent == 1000
    with pytest.raises(BudgetError) as caught:
        spent.spend()
    assert "the budget of 1,000 calls is spent, after 1 answers" in str(caught.value)
    assert "CallLimits(max_calls=...)" in str(caught.value)
    assert "not asked for again" in str(caught.value)


def test_the_innermost_limits_hold() -> None:
    assert account() is not account()
    with limit_calls(CallLimits(max_calls=5)) as outer:
        assert account() is outer
        with limit_calls(CallLimits(max_calls=7)) as inner:
            assert account() is inner
            assert account().limits.max_calls == 7
        assert account() is outer
        with pytest.raises(RuntimeError), limit_calls():
            raise RuntimeError
        assert account() is outer
    assert account() is not outer


def test_watchers_see_every_answer() -> None:
    seen: list[int] = []
    with limit_calls(watch=seen.append) as spent, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: spent.answered(), range(50)))
    assert seen == list(range(1, 51))


def test_the_cost_so_far_is_that_of_the_tokens_that_were_counted() -> None:
    priced = Account(CallLimits(price=Price(1.0, 10.0), cache=None))
    assert priced.dollars() is None
    for tokens in ((200_000, 10_000), (300_000, None), ()):
        priced.spend()
        priced.answered(tokens)
    assert priced.dollars() == pytest.approx(0.5 + 0.1)
    free = Account(CallLimits(cache=None))
    free.spend()
    free.answered((1, 1))
    assert free.dollars() is None


def test_nothing_is_sent_where_no_call_may_be_made_and_the_cache_stays(tmp_path: Path) -> None:
    limits = CallLimits(max_calls=5, cache=tmp_path / "cache.sqlite")
    with limit_calls(limits) as outer:
        with no_calls() as spent, pytest.raises(BudgetError):
            assert spent.limits == replace(limits, max_calls=0)
            account().spend()
        account().spend()
    assert (outer.n_sent, spent.n_sent) == (1, 0)
