"""Is what labelling asks for just enough for the threshold that is calibrated on it?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import calibrail
from calibrail.conformal import calibrate_threshold, minimum_n
from calibrail.data.splits import CALIBRATION, split
from calibrail.errors import InputError
from calibrail.labelling.session import coverage_to_expect, hallucinated_needed, labels_to_expect
from calibrail.options import Drawing, Guarantee, Promise
from tests.labelling.rows import traces, truth


def calibrated(n: int, guarantee: Guarantee) -> int:
    """Return how many of so many hallucinated answers calibrate."""
    share = 1.0 if guarantee == "pac" else 0.5
    return int(np.count_nonzero(split([1] * n, calibration_share=share) == CALIBRATION))


@pytest.mark.parametrize("guarantee", ["marginal", "pac"])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.3])
def test_one_fewer_would_leave_too_few_to_calibrate(alpha: float, guarantee: Guarantee) -> None:
    needed = hallucinated_needed(Promise(alpha, guarantee))
    calibrating = [calibrated(n, guarantee) for n in (needed - 1, needed)]
    least = minimum_n(alpha, guarantee, 0.1)
    assert calibrating == [least - 1, least]


@pytest.mark.parametrize("guarantee", ["marginal", "pac"])
def test_nine_of_ten_thresholds_catch_what_is_said(guarantee: Guarantee) -> None:
    """Simulated as `calibrate` does it: half of the answers calibrate, or all under ``pac``."""
    promise = Promise(0.1, guarantee)
    rng, n = np.random.default_rng(0), hallucinated_needed(promise)
    for expected in coverage_to_expect(promise, n):
        calibrating = calibrated(int(expected["hallucinated"]), guarantee)
        # Uniform scores: what lies above the threshold is caught.
        thresholds = [
            calibrate_threshold(rng.random(calibrating), promise).threshold for _ in range(2000)
        ]
        caught = 1.0 - np.array(thresholds)
        inside = np.mean((caught >= expected["lower"]) & (caught <= expected["upper"]))
        assert inside == pytest.approx(0.9, abs=0.03)


def test_labels_to_expect_follow_from_the_share_so_far() -> None:
    assert labels_to_expect(5, 0, 9) is None
    assert labels_to_expect(5, 0, 10) == 110
    assert labels_to_expect(50, 100, 1000) == pytest.approx(500, abs=5)


def test_a_session_says_what_is_missing_and_stops_when_nothing_is(tmp_path: Path) -> None:
    promise = Promise(0.2)
    with calibrail.label(traces(90), tmp_path, promise=promise) as session:
        before = session.counts("ada")
        assert (before.needed, before.missing, before.to_expect) == (7, 7, None)
        held: list[int] = []
        while not session.counts("ada").decided:
            task = session.next("ada")
            assert task is not None
            if not held:
                # What stands behind an answer that is put off does not count.
                held.append(task.order)
                session.skip("ada", task.order)
                continue
            label = None if task.id == "t6" else truth(task.id)
            session.put("ada", task.order, label)
            counts = session.counts("ada")
            assert counts.missing is not None and counts.missing >= 7 - counts.hallucinated
        after = session.counts("ada")
        assert after.missing == after.to_expect == 0
        assert after.hallucinated >= 7 and after.holding == 0
    run = calibrail.calibrate(tmp_path, "column:column=suspicion,higher=hallucinated", promise)
    assert run.calibration.n >= minimum_n(0.2)


def test_both_halves_need_a_faithful_answer(tmp_path: Path) -> None:
    with calibrail.label(traces(40), tmp_path, promise=Promise(0.4)) as session:
        for label in (1, 1, 1, 0, 1):
            assert not session.counts("ada").decided
            task = session.next("ada")
            assert task is not None
            session.put("ada", task.order, label)
        counts = session.counts("ada")
        assert (counts.missing, counts.to_expect, counts.decided) == (0, 0, False)
        task = session.next("ada")
        assert task is not None
        session.put("ada", task.order, 0)
        assert session.counts("ada").decided
    run = calibrail.calibrate(tmp_path, "column:column=suspicion,higher=hallucinated", alpha=0.4)
    assert run.report.test.n_faithful == 1


def test_what_cannot_be_counted_beforehand_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="by must be left out while labelling"):
        calibrail.label(traces(20), tmp_path, promise=Promise(0.2, by="topic"))
    with pytest.raises(InputError, match=r"drawn uniformly.*measured.*leave out design=.active"):
        calibrail.label(traces(20), tmp_path, promise=Promise(0.2), drawing=Drawing("active"))
