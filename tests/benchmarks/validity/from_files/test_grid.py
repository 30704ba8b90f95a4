"""At reduced size; ``make validate`` runs the same simulations in full."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks.validity import Check, MeanCheck, failures
from benchmarks.validity.check import Setting
from benchmarks.validity.from_files import (
    FROM_FILES,
    certificates,
    grid,
    people,
    production,
    sentences,
    simulate_from_files,
    systems,
    thresholds,
)
from benchmarks.validity.from_files.files import LARGE_ARE_HARD, TENS
from calibrail.data.splits import CALIBRATION, TEST, group_numbers
from calibrail.errors import InputError
from calibrail.pipelines.certify import DecisionCounts

Run = Callable[[Setting], Iterator[Check | MeanCheck]]
ERROR = 1e-4
#: Each simulation with n, alpha and runs.
SMALL: list[tuple[Run, int, float, int]] = [
    (thresholds.miss_rates, 120, 0.2, 3),
    (thresholds.by_topic, 240, 0.2, 2),
    (thresholds.exceeded_costs, 120, 0.1, 4),
    (thresholds.overlapping_misses, 300, 0.2, 2),
    (certificates.calibrate_verdicts, 60, 0.05, 2),
    (certificates.by_lot, 120, 0.05, 2),
    (certificates.certify_verdicts, 60, 0.05, 3),
    (certificates.tested_verdicts, 60, 0.05, 2),
    (certificates.certify_by_topic, 120, 0.05, 2),
    (certificates.broken_risks, 200, 0.1, 1),
    (certificates.winner_among_equals, 120, 0.05, 2),
    (certificates.winners_certificate, 200, 0.05, 2),
    (certificates.judge_gates, 60, 0.05, 1),
    (production.released, 200, 0.2, 2),
    (production.drift_seen, 120, 0.05, 4),
    (production.session_verdicts, 12, 0.2, 1),
    (production.judged_verdicts, 4, 0.2, 1),
    (production.queued_verdicts, 12, 0.2, 1),
    (certificates.broken_certified, 60, 0.05, 6),
    (certificates.certify_growing, 80, 0.05, 1),
    (certificates.calibrate_growing, 160, 0.05, 1),
    (certificates.seeds_tried, 160, 0.05, 1),
    (production.until_calibrated, 80, 0.2, 2),
    (production.false_alarms, 300, 0.2, 2),
    (production.kept_promises, 40, 0.05, 2),
    (sentences.miss_rates, 60, 0.2, 2),
    (sentences.by_topic, 120, 0.2, 2),
    (sentences.shown, 30, 0.2, 4),
    (sentences.verdicts, 20, 0.05, 1),
    (sentences.stopped, 40, 0.2, 2),
    (systems.two_systems, 30, 0.05, 2),
    (people.judged_rates, 60, 0.05, 2),
]


@pytest.fixture(autouse=True)
def _few_populations_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "THRESHOLDS", sentences.THRESHOLDS[1::2])
    monkeypatch.setattr(sentences, "TRIMMED", sentences.TRIMMED[1:4:2])
    monkeypatch.setattr(sentences, "JUDGED", sentences.JUDGED[1:2])


def name_of(item: Any) -> str:
    return str(getattr(item, "__name__", item))


@pytest.mark.parametrize(("run", "n", "alpha", "runs"), SMALL, ids=name_of)
def test_promises_hold_from_file_to_report(run: Run, n: int, alpha: float, runs: int) -> None:
    checks = tuple(run(Setting("continuous", n, alpha, runs, seed=7)))
    assert failures(checks, ERROR / len(SMALL)) == ()
    assert checks and {check.runs for check in checks} == {runs}


def test_every_simulation_is_run_in_full_and_at_reduced_size() -> None:
    small = {run for run, *_ in SMALL} | {grid.commands_and_calls}
    assert small == {item.run for item in FROM_FILES}


@pytest.mark.parametrize(
    ("case", "further"), [("marginal", {"compare", "shift", "select"}), ("by sentence", set())]
)
def test_the_command_says_what_the_call_says(
    case: str, further: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid, "CASES", {case: grid.CASES[case]})
    checks = tuple(grid.commands_and_calls(Setting("continuous", 120, 0.05, 1)))
    assert failures(checks, ERROR) == ()
    commands = {check.what.partition(",")[0] for check in checks}
    assert commands == {"calibrate", "export", "certify", *further}


def by_size(labels: Any, groups: Any, **_: Any) -> Any:
    """Calibrate on the smaller groups of each class."""
    members = group_numbers(groups, len(labels))
    sizes = np.bincount(members)
    hallucinated = np.bincount(members, labels) > 0
    sides = np.full(len(sizes), TEST, dtype=np.int8)
    for stratum in (np.flatnonzero(hallucinated), np.flatnonzero(~hallucinated)):
        smaller = stratum[np.argsort(sizes[stratum], kind="stable")]
        sides[smaller[: len(smaller) // 2]] = CALIBRATION
    return sides[members]


def every_answer_counts(by: str | None, **others: Any) -> DecisionCounts:
    return DecisionCounts(by, once=False)


BROKEN = [
    (thresholds.miss_rates, (LARGE_ARE_HARD,), "splitting.split", by_size, (120, 0.2, 8)),
    (
        certificates.certify_verdicts,
        (TENS,),
        "certify.DecisionCounts",
        every_answer_counts,
        (40, 0.05, 25),
    ),
]


@pytest.mark.parametrize(("run", "populations", "name", "broken", "setting"), BROKEN)
def test_a_path_that_breaks_a_promise_is_noticed(
    run: Run,
    populations: Any,
    name: str,
    broken: Any,
    setting: tuple[int, float, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{run.__module__}.POPULATIONS", populations)
    at = Setting("continuous", *setting, seed=7)
    assert failures(tuple(run(at)), ERROR) == ()
    monkeypatch.setattr(f"calibrail.pipelines.{name}", broken)
    assert failures(tuple(run(at)), ERROR)


def test_a_verdict_that_falls_too_soon_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(production, "DESIGNS", production.DESIGNS[:1])
    at = Setting("continuous", 20, 0.05, 8, seed=7)
    monkeypatch.setattr(
        "calibrail.conformal.sequential.sequential_test.goals", lambda _: (0.01, 0.01)
    )
    assert failures(tuple(production.session_verdicts(at)), ERROR)


def test_no_runs_are_refused() -> None:
    with pytest.raises(InputError, match="runs"):
        simulate_from_files(runs=0)


def test_every_run_is_in_one_lot_and_none_is_alone() -> None:
    item = FROM_FILES[0]
    for runs in (2, 3, 11, 19, 150):
        lots = item.lots(runs * item.each)
        assert sum(lots) == runs and min(lots) >= 2 and max(lots) < 2 * grid.LOT
