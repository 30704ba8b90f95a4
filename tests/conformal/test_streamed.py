from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrail.conformal import (
    GUARANTEES,
    BandStream,
    ClassCounts,
    CountStream,
    PValueStream,
    ThresholdStream,
    calibrate_clusters,
    calibrate_threshold,
    coverage_band,
    joint_certificate,
    rank,
    simultaneous_band,
)
from calibrail.conformal import streamed as module
from calibrail.errors import InputError, TooFewExamplesError
from calibrail.options import Promise, Requirement

#: Ties, both zeros and undefined scores among all others.
score = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 2.0, 5e-324, -1e308, math.nan]),
    st.floats(-3.0, 3.0),
)
promises = st.builds(
    Promise,
    st.floats(0.02, 0.7),
    st.sampled_from(GUARANTEES),
    st.floats(0.05, 0.5),
    st.sampled_from(["flag", "review", "pass"]),
    st.booleans(),
)


def chunks(values: np.ndarray[Any, Any], seed: int) -> Iterator[np.ndarray[Any, Any]]:
    """Cut values anywhere, empty chunks included."""
    cuts = np.sort(np.random.default_rng(seed).integers(0, len(values) + 1, 5))
    yield from np.split(values, cuts)


def outcome(call: Any) -> dict[str, Any] | str:
    """Return what a threshold says of itself, or the error in its place."""
    try:
        made = call()
    except InputError as error:
        return f"{type(error).__name__}: {error}"
    said: dict[str, Any] = made.to_dict() | {"missed": made.missed}
    return {name: value for name, value in said.items() if name != "scores"}


@settings(deadline=None, max_examples=300)
@given(st.lists(score, max_size=120), promises, st.integers(0, 300), st.integers(0, 99), st.data())
def test_a_stream_gives_the_threshold_or_the_error_of_all_scores(
    scores: list[float], promise: Promise, more: int, seed: int, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # Few enough that scores are dropped.
        patch.setattr(module, "_SPARE", data.draw(st.sampled_from([1, 2**16])))
        stream = ThresholdStream(promise, len(scores) + more)
        for chunk in chunks(np.array(scores), seed):
            stream.add(chunk)
        expected = outcome(lambda: calibrate_threshold(scores, promise))
        assert outcome(stream.threshold) == expected
        assert outcome(stream.threshold) == expected


@given(st.integers(0, 500), st.integers(0, 500), promises)
def test_more_scores_never_have_a_lower_rank(n: int, more: int, promise: Promise) -> None:
    """What a bound on their number rests on."""
    asked = promise.alpha, promise.guarantee, promise.delta
    assert rank(n, *asked) <= rank(n + more, *asked)


def test_a_stream_can_be_read_and_goes_on() -> None:
    scores = np.random.default_rng(0).normal(size=1000)
    promise = Promise(0.1, "pac")
    stream = ThresholdStream(promise, 1000)
    for so_far in range(100, 1001, 100):
        stream.add(scores[so_far - 100 : so_far])
        assert (
            stream.threshold().threshold == calibrate_threshold(scores[:so_far], promise).threshold
        )


def test_a_stream_keeps_few_scores_and_none_of_the_callers_memory() -> None:
    """Two million scores of which 20,000 matter: 16 MB come in, below 3 MB are held."""
    rng = np.random.default_rng(0)
    chunk = np.empty(20_000)
    tracemalloc.start()
    stream, everything = ThresholdStream(Promise(0.01), 2_000_000), []
    for _ in range(100):
        # The caller's one buffer is filled again.
        chunk[:] = rng.normal(size=len(chunk))
        everything.append(chunk.astype(np.float32))
        chunk[:] = everything[-1]
        stream.add(chunk)
    held = sum(
        trace.size
        for trace in tracemalloc.take_snapshot().traces
        if trace.traceback[0].filename == module.__file__
    )
    tracemalloc.stop()
    assert 1e5 < held < 3e6
    expected = calibrate_threshold(np.concatenate(everything), Promise(0.01))
    assert stream.threshold().threshold == expected.threshold


def test_what_rests_on_a_calibration_rests_on_its_threshold_alone() -> None:
    scores = np.append(np.random.default_rng(0).normal(1.0, 1.0, 500), np.nan)
    promise = Promise(0.2, "pac", undefined="pass")
    stream = ThresholdStream(promise, 501)
    stream.add(scores)
    streamed, whole = stream.threshold(), calibrate_threshold(scores, promise)
    counts, required = ClassCounts(180, 200, 15, 400), Requirement(max_fpr=0.1, confidence=0.8)
    certificate = joint_certificate(whole, counts, required)
    assert certificate.verdict == "certified" and certificate.flips is not None
    assert joint_certificate(streamed, counts, required) == certificate
    assert coverage_band(streamed, 90, 0.9) == coverage_band(whole, 90, 0.9)
    values = [-5.0, streamed.threshold, math.nan]
    assert streamed.flags(values).tolist() == [False, True, False] == whole.flags(values).tolist()
    assert type(streamed).from_dict(streamed.to_dict()) == streamed


@settings(deadline=None)
@given(
    st.lists(st.tuples(score, st.booleans()), max_size=80),
    st.sampled_from(["flag", "pass"]),
    st.sampled_from([0.0, 0.1]),
    st.integers(0, 99),
)
def test_counts_are_those_of_all_answers(
    answers: list[tuple[float, bool]], undefined: Any, tolerance: float, seed: int
) -> None:
    calibration = calibrate_threshold(np.arange(-10.0, 10.0), Promise(0.5, undefined=undefined))
    scores, truth = (np.array([row[index] for row in answers]) for index in (0, 1))
    stream = CountStream(calibration, tolerance)
    for values, labels in zip(chunks(scores, seed), chunks(truth, seed), strict=True):
        stream.add(values, labels)
    flagged = calibration.flags(scores.astype(float), tolerance)
    is_true = truth.astype(bool)
    expected = [flagged & is_true, is_true, flagged & ~is_true, ~is_true]
    assert stream.counts == ClassCounts(*(int(part.sum()) for part in expected))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.one_of(st.sampled_from([0.0, -0.0, 1.0]), st.floats(-3, 3)), min_size=1),
    st.lists(st.one_of(st.sampled_from([0.0, math.inf, -math.inf]), st.floats(-4, 4))),
    st.sampled_from(["berk-jones", "dkw"]),
    st.integers(0, 99),
)
def test_a_band_is_that_of_all_scores(
    scores: list[float], thresholds: list[float], method: Any, seed: int
) -> None:
    stream = BandStream(thresholds, 0.9, method)
    for chunk in chunks(np.array(scores), seed):
        stream.add(chunk)
    expected = simultaneous_band(scores, 0.9, method).at(thresholds)
    for given_one, wanted in zip(stream.bounds(), expected, strict=True):
        assert np.array_equal(given_one, wanted)


@pytest.mark.parametrize("undefined", ["flag", "pass"])
@pytest.mark.parametrize("n", [60, 20_000])
def test_p_values_are_those_of_the_calibration(undefined: Any, n: int) -> None:
    rng = np.random.default_rng(0)
    scores = np.append(np.round(rng.normal(size=n), 4), [np.nan] * 3)
    calibration = calibrate_threshold(scores, Promise(0.3, undefined=undefined))
    stream = PValueStream(calibration)
    values = rng.normal(size=n)
    for chunk in chunks(values, 1):
        assert np.array_equal(stream.p_value(chunk, 0.01), calibration.p_value(chunk, 0.01))


def test_bad_input_is_named() -> None:
    stream = ThresholdStream(Promise(0.5), at_most=3)
    stream.add([1.0, 2.0])
    with pytest.raises(InputError, match="at_most must be at least the number of scores; got 3"):
        stream.add([3.0, 4.0])
    with pytest.raises(InputError, match="scores must be finite"):
        stream.add([math.inf])
    # What was refused changed nothing.
    assert stream.threshold().n == 2
    with pytest.raises(InputError, match="at_most must be a whole number"):
        ThresholdStream(Promise(0.5), at_most=1.5)  # type: ignore[arg-type]
    with pytest.raises(TooFewExamplesError, match="0 hallucinated calibration examples"):
        ThresholdStream(Promise(0.5), at_most=3).threshold()
    calibration = calibrate_threshold([1.0, 2.0, 3.0], Promise(0.5))
    with pytest.raises(InputError, match="hallucinated must have 2 entries"):
        CountStream(calibration).add([1.0, 2.0], [1])
    with pytest.raises(InputError, match="hallucinated must hold true or false"):
        CountStream(calibration).add([1.0], [0.5])
    with pytest.raises(InputError, match="tolerance must be finite"):
        CountStream(calibration, -1.0)
    with pytest.raises(InputError, match="scores must hold at least one score"):
        BandStream([1.0]).bounds()
    with pytest.raises(InputError, match="scores must hold at least one score, all finite"):
        BandStream([1.0]).add([math.nan])
    with pytest.raises(InputError, match="thresholds must not hold NaN"):
        BandStream([math.nan])
    with pytest.raises(InputError, match="method must be one of"):
        BandStream([1.0], method="x")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="values must not hold NaN"):
        PValueStream(calibration).p_value([math.nan])
    clustered = calibrate_clusters(np.arange(9.0), np.arange(9) // 2, Promise(0.5))
    with pytest.raises(InputError, match="got ClusteredCalibration, whose own p_value"):
        PValueStream(clustered)
