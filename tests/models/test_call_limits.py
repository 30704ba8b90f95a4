from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from calibrail.errors import InputError
from calibrail.models.llm import transport


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
        transport.CallLimits(**{name: value})  # type: ignore[arg-type]


def test_the_cache_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CALIBRAIL_CACHE", "off")
    assert transport.default_cache() is None
    assert transport.CallLimits().cache is None
    monkeypatch.setenv("CALIBRAIL_CACHE", str(tmp_path / "mine.sqlite"))
    assert transport.default_cache() == transport.CallLimits().cache == tmp_path / "mine.sqlite"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CALIBRAIL_CACHE", "~/here.sqlite")
    assert transport.default_cache() == tmp_path / "here.sqlite"
    monkeypatch.delenv("CALIBRAIL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert transport.default_cache() == tmp_path / "xdg" / "calibrail" / "answers.sqlite"
    for unset in ("", None):
        if unset is None:
            monkeypatch.delenv("XDG_CACHE_HOME")
        else:
            monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert transport.default_cache() == tmp_path / ".cache" / "calibrail" / "answers.sqlite"
    assert not (tmp_path / ".cache").exists()


def test_a_budget_is_spent_once(tmp_path: Path) -> None:
    spent = transport.Account(transport.CallLimits(max_calls=1000, cache=tmp_path / "cache.sqlite"))
    spent.answered()

    def spend(_: int) -> bool:
        try:
            spent.spend()
        except transport.BudgetError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(spend, range(1200))) == 1000
    assert spent.n_sent == 1000
    with pytest.raises(transport.BudgetError) as caught:
        spent.spend()
    assert "the budget of 1,000 calls is spent, after 1 answers" in str(caught.value)
    assert "CallLimits(max_calls=...)" in str(caught.value)
    assert "not asked for again" in str(caught.value)


def test_the_innermost_limits_hold() -> None:
    assert transport.account() is not transport.account()
    with transport.limit_calls(transport.CallLimits(max_calls=5)) as outer:
        assert transport.account() is outer
        with transport.limit_calls(transport.CallLimits(max_calls=7)) as inner:
            assert transport.account() is inner
            assert transport.account().limits.max_calls == 7
        assert transport.account() is outer
        with pytest.raises(RuntimeError), transport.limit_calls():
            raise RuntimeError
        assert transport.account() is outer
    assert transport.account() is not outer


def test_watchers_see_every_answer() -> None:
    seen: list[int] = []
    with transport.limit_calls(watch=seen.append) as spent, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: spent.answered(), range(50)))
    assert seen == list(range(1, 51))


def test_the_cost_so_far_is_that_of_the_tokens_that_were_counted() -> None:
    priced = transport.Account(transport.CallLimits(price=transport.Price(1.0, 10.0), cache=None))
    assert priced.dollars() is None
    for tokens in ((200_000, 10_000), (300_000, None), ()):
        priced.spend()
        priced.answered(tokens)
    assert priced.dollars() == pytest.approx(0.5 + 0.1)
    free = transport.Account(transport.CallLimits(cache=None))
    free.spend()
    free.answered((1, 1))
    assert free.dollars() is None


def test_nothing_is_sent_where_no_call_may_be_made_and_the_cache_stays(tmp_path: Path) -> None:
    limits = transport.CallLimits(max_calls=5, cache=tmp_path / "cache.sqlite")
    with transport.limit_calls(limits) as outer:
        with transport.no_calls() as spent, pytest.raises(transport.BudgetError):
            assert spent.limits == replace(limits, max_calls=0)
            transport.account().spend()
        transport.account().spend()
    assert (outer.n_sent, spent.n_sent) == (1, 0)


def test_an_account_that_ends_stops_what_is_asked_within_it() -> None:
    with transport.limit_calls() as outer, transport.limit_calls() as inner:
        begun = inner.stop()
        assert not begun.is_set()
        outer.end()
        assert begun.is_set() and inner.stop().is_set()
    with transport.limit_calls() as other:
        assert not other.stop().is_set()
