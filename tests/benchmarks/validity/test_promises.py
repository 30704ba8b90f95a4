from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks.validity import (
    ALPHAS,
    KINDS,
    SIZES,
    Check,
    certificates,
    failures,
    grid,
    groups,
    observe,
    sentences,
    simulate,
    thresholds,
)
from benchmarks.validity.check import Setting
from benchmarks.validity.grid import OTHERS, PROMISES
from calibrail.conformal import Guarantee, calibrate_threshold, minimum_n, rank
from calibrail.errors import InputError
from calibrail.options import Promise, Requirement

Rank = Callable[[int, float, Guarantee, float], int]
Run = Callable[[Setting], Iterator[Check]]
ERROR = 1e-4
GUARANTEE_OF: dict[Run, Guarantee] = {
    thresholds.training_conditional: "pac",
    thresholds.anytime_ever: "anytime",
}


#: Of the runs of the three slowest one of so many is done here; `make validate` does them all.
FEWER = {sentences.wrong_verdicts: 10, groups.overlapping_marginal: 4, sentences.kept_bound: 5}


@pytest.fixture(scope="module")
def small() -> Iterator[tuple[Check, ...]]:
    fewer = tuple(
        dataclasses.replace(item, each=item.each * FEWER.get(item.run, 1)) for item in PROMISES
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(grid, "PROMISES", fewer)
        yield simulate(runs=400, sizes=(30,), alphas=(0.1,), seed=7)


def test_every_promise_holds_in_one_setting(small: tuple[Check, ...]) -> None:
    assert failures(small, ERROR) == ()
    assert len({check.what for check in small}) == 37
    assert {check.kind for check in small} == set(KINDS)
    assert sum(check.exact for check in small) > 20


def test_each_simulation_takes_part(small: tuple[Check, ...]) -> None:
    assert all(item.includes(100, 0.1, item.kinds[0]) for item in PROMISES)
    assert {check.runs for check in small} >= {400, 80, 10}


@pytest.mark.parametrize(
    "run",
    [
        thresholds.marginal_coverage,
        thresholds.training_conditional,
        thresholds.anytime_ever,
        thresholds.undefined_passed,
        thresholds.p_value_uniformity,
        thresholds.band_coverage,
    ],
)
def test_one_threshold_keeps_its_promises_over_the_grid(run: Run) -> None:
    checks = [
        check
        for n in SIZES
        for alpha in ALPHAS
        for kind in KINDS
        if n >= minimum_n(alpha, GUARANTEE_OF.get(run, "marginal"))
        for check in run(Setting(kind, n, alpha, 1000, seed=7))
    ]
    assert failures(checks, ERROR) == ()


def one_more(n: int, alpha: float, kind: Guarantee = "marginal", delta: float = 0.1) -> int:
    return rank(n, alpha, kind, delta) + 1


def of_the_paper(n: int, alpha: float, kind: Guarantee = "marginal", delta: float = 0.1) -> int:
    return rank(n, alpha, "paper")


@pytest.mark.parametrize("broken", [one_more, of_the_paper])
@pytest.mark.parametrize("run", [thresholds.marginal_coverage, thresholds.training_conditional])
def test_a_rank_that_promises_too_much_is_noticed(
    run: Run, broken: Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thresholds, "rank", broken)
    settings = [Setting("continuous", n, 0.05, 5000, seed=7) for n in (60, 100)]
    assert failures([check for at in settings for check in run(at)], ERROR)


def test_one_look_too_few_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    at = Setting("continuous", 600, 0.1, 2000, seed=7)
    assert failures(list(thresholds.anytime_ever(at)), ERROR) == ()
    monkeypatch.setattr(thresholds, "rank", lambda n, alpha, _, delta: rank(n, alpha, "pac", delta))
    assert failures(list(thresholds.anytime_ever(at)), ERROR)


def changed(
    wrapped: Callable[..., Any], position: int, change: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Return the function with its argument at this position changed."""

    def call(*args: Any, **options: Any) -> Any:
        return wrapped(*args[:position], change(args[position]), *args[position + 1 :], **options)

    return call


def too_sure(confidence: float) -> float:
    """Return the confidence that allows five times the error."""
    return 1.0 - 5.0 * (1.0 - confidence)


def too_sure_a_verdict(requirement: Requirement) -> Requirement:
    return dataclasses.replace(requirement, confidence=too_sure(requirement.confidence))


def doubled(alpha: float) -> float:
    return 2.0 * alpha


def looser(promise: Promise) -> Promise:
    return dataclasses.replace(promise, alpha=2.0 * promise.alpha)


def more_flags(promise: Promise) -> Promise:
    return dataclasses.replace(promise, beta=2.0 * (promise.beta or 0.1))


def naive(scores: Any, _: Any, promise: Promise) -> Any:
    return calibrate_threshold(scores, promise)


def every_score(scores: Any, clusters: Any, promise: Promise) -> Any:
    made = CLUSTERS(scores, clusters, promise)

    class Every:
        def one_per_cluster(self) -> Any:
            return made.scores

    return Every()


def pooled(scores: Any, names: Any, promise: Promise) -> Any:
    one = calibrate_threshold(scores, dataclasses.replace(promise, by=None))

    class Pooled:
        def of(self, _: str) -> Any:
            return one

        def flags(self, values: Any, _: Any) -> Any:
            return one.flags(values)

        def is_covered(self, names: Any) -> Any:
            return np.ones(len(names), np.bool_)

        def has_promise(self, *_: Any) -> bool:
            return True

    return Pooled()


def unweighted(scores: Any, weights: Any, alpha: float) -> Any:
    return WEIGHTED(scores, np.ones_like(weights), alpha)


def too_low(*args: Any) -> Any:
    bounds = DISCOVERIES(*args)
    return dataclasses.replace(bounds, most=bounds.most // 4)


def all_valid(*args: Any, **options: Any) -> Any:
    control = CONTROL(*args, **options)
    return dataclasses.replace(control, valid=(True,) * len(control.candidates))


def boastful(*args: Any) -> Any:
    certificate = CERTIFY(*args)
    if certificate.flips is None:
        return certificate
    return dataclasses.replace(certificate, flips=dataclasses.replace(certificate.flips, flips=99))


CLUSTERS = groups.calibrate_clusters
WEIGHTED, DISCOVERIES = thresholds.calibrate_weighted, certificates.discoveries
CERTIFY, CONTROL = certificates.certify_counts, certificates.control_risks


BROKEN: list[tuple[Run, str, Callable[..., Any], tuple[Any, ...]]] = [
    (
        thresholds.band_everywhere,
        "simultaneous_band",
        changed(thresholds.simultaneous_band, 1, too_sure),
        ("continuous", 19, 0.1, 2000),
    ),
    (
        thresholds.band_everywhere,
        "simultaneous_band",
        changed(thresholds.simultaneous_band, 1, too_sure),
        ("discrete", 19, 0.1, 200),
    ),
    (groups.clustered_pac, "calibrate_clusters", naive, ("continuous", 100, 0.1, 100)),
    (groups.clustered_marginal, "calibrate_clusters", naive, ("continuous", 30, 0.05, 1000)),
    (groups.clustered_selection, "calibrate_clusters", every_score, ("continuous", 100, 0.2, 1000)),
    (
        certificates.storey_rate,
        "storey_share",
        changed(certificates.storey_share, 0, lambda p: p / 2.0),
        ("continuous", 100, 0.2, 500),
    ),
    (
        certificates.both_classes_rate,
        "labelled_share",
        changed(certificates.labelled_share, 1, lambda n: 2 * n),
        ("continuous", 100, 0.1, 500),
    ),
    (groups.grouped_marginal, "calibrate_groups", pooled, ("continuous", 30, 0.1, 300)),
    (groups.overlapping_marginal, "calibrate_overlapping", pooled, ("continuous", 100, 0.1, 60)),
    (groups.grouped_pac, "calibrate_groups", pooled, ("continuous", 100, 0.1, 100)),
    (
        groups.fallback,
        "calibrate_groups",
        changed(groups.calibrate_groups, 2, looser),
        ("continuous", 30, 0.1, 500),
    ),
    (
        certificates.false_discovery_rate,
        "conformal_selection",
        changed(certificates.conformal_selection, 1, doubled),
        ("continuous", 100, 0.1, 1000),
    ),
    (certificates.discoveries_everywhere, "discoveries", too_low, ("continuous", 19, 0.1, 8)),
    (
        thresholds.three_way_marginal,
        "three_way",
        changed(thresholds.three_way, 2, more_flags),
        ("continuous", 30, 0.1, 1000),
    ),
    (
        thresholds.three_way_pac,
        "three_way",
        changed(thresholds.three_way, 2, looser),
        ("discrete", 100, 0.1, 100),
    ),
    (thresholds.weighted_coverage, "calibrate_weighted", unweighted, ("continuous", 100, 0.1, 500)),
    (certificates.several_risks, "control_risks", all_valid, ("continuous", 30, 0.1, 20)),
    (
        certificates.wrong_verdicts,
        "certify_counts",
        changed(certificates.certify_counts, 1, too_sure_a_verdict),
        ("continuous", 100, 0.1, 2000),
    ),
    (certificates.wrong_labels, "certify_counts", boastful, ("continuous", 100, 0.1, 2000)),
    (
        certificates.wrong_group_verdicts,
        "certify_groups",
        changed(certificates.certify_groups, 1, too_sure_a_verdict),
        ("continuous", 30, 0.05, 2000),
    ),
    (certificates.holm_family, "holm", lambda p: p, ("continuous", 100, 0.1, 2000)),
]


@pytest.mark.parametrize(
    ("run", "name", "broken", "setting"),
    BROKEN,
    ids=[f"{run.__name__}-{setting[0]}" for run, _, _, setting in BROKEN],
)
def test_a_method_that_promises_too_much_is_noticed(
    run: Run,
    name: str,
    broken: Callable[..., Any],
    setting: tuple[Any, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = Setting(*setting)
    assert failures(tuple(run(at)), ERROR) == ()
    thresholds._probabilities.cache_clear()
    monkeypatch.setattr(f"{run.__module__}.{name}", broken)
    try:
        assert failures(tuple(run(at)), ERROR)
    finally:
        thresholds._probabilities.cache_clear()


def test_what_is_not_promised_is_seen_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    slowest = groups.overlapping_beside
    monkeypatch.setattr(grid, "OTHERS", tuple(item for item in OTHERS if item.run is not slowest))
    seen = {item.what: item for item in observe(runs=2000, sizes=(100,), alphas=(0.1,), seed=7)}
    for start in (
        "naive pac threshold",
        "one threshold for all misses in the hard",
        "shift ignored",
        "wrong certificate where",
    ):
        (item,) = (observed for what, observed in seen.items() if what.startswith(start))
        assert item.interval(1 - ERROR)[0] > item.promised


def test_the_same_seed_gives_the_same_counts() -> None:
    at = Setting("tied", 30, 0.1, 50, seed=3)
    for run in (
        groups.clustered_marginal,
        certificates.false_discovery_rate,
        thresholds.weighted_coverage,
    ):
        assert tuple(run(at)) == tuple(run(at))
    one, two = (observe(runs=20, sizes=(30,), alphas=(0.1,), seed=3, processes=n) for n in (1, 2))
    assert one == two


def test_no_runs_are_refused() -> None:
    with pytest.raises(InputError, match="runs"):
        simulate(runs=0)
    with pytest.raises(InputError, match="runs"):
        observe(runs=0)


def test_under_pass_the_thresholds_that_come_out_may_miss_more() -> None:
    """The promise counts refusals: without them it is broken where nearly alpha is undefined."""
    at = Setting("continuous", 100, 0.1, 4000, seed=3)
    (found,) = thresholds.undefined_passed_where_returned(at)
    assert found.runs < at.runs
    assert found.interval(0.999)[0] > 0.105
