"""Does every public function refuse what is outside its domain, by name, and let no NaN out?"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrail.conformal as public
from calibrail.conformal import ClassCounts, calibrate_threshold
from calibrail.errors import InputError
from calibrail.options import Drawing, Promise, Requirement

CHECK = settings(max_examples=25, deadline=None)

RAMP = list(range(60))
PROMISE = Promise(0.2, "pac", 0.05, beta=0.2)
PAC = calibrate_threshold(RAMP, Promise(0.2, "pac", 0.05))
COUNTED, REQUIRED = ClassCounts(9, 10, 1, 10), Requirement(0.5, 0.5, 0.9)
LABELLED = public.UnsureTest.of(public.SequentialTest(REQUIRED)).update(
    [True, False, True, False] * 6, [1, 1, 0, 0] * 6
)

#: For every public function, arguments that it accepts.
ACCEPTED: Mapping[str, dict[str, Any]] = {
    "attainable_coverages": {"scores": RAMP},
    "calibrate_clusters": {"scores": RAMP, "clusters": RAMP, "promise": PROMISE},
    "calibrate_groups": {"scores": RAMP, "groups": ["a"] * 60, "promise": PROMISE},
    "calibrate_overlapping": {
        "scores": RAMP,
        "groups": ['["a","b"]'] * 60,
        "promise": Promise(0.2, by=("model", "topic")),
    },
    "calibrate_threshold": {"scores": RAMP, "promise": PROMISE},
    "calibrate_weighted": {"scores": RAMP, "weights": [1.0] * 60, "alpha": 0.2},
    "certify_counts": {"counts": COUNTED, "requirement": REQUIRED},
    "certify_groups": {"counts": {"a": COUNTED}, "requirement": REQUIRED},
    "clopper_pearson": {"count": 3, "n": 9, "confidence": 0.9},
    "control_risks": {
        "scores": RAMP,
        "labels": [0, 1] * 30,
        "risks": ["recall>=0.5"],
        "confidence": 0.8,
        "undefined": "flag",
        "groups": RAMP,
        "search": public.CandidateSearch(grid=5, method="split_fixed_sequence"),
    },
    "confidence_sequence": {"count": 3, "n": 9, "confidence": 0.9},
    "conformal_selection": {"p_values": [0.1, 0.5, math.nan], "fdr": 0.2, "share": 0.5},
    "coverage_band": {"calibration": (3, 60), "m": 30, "confidence": 0.9},
    "discoveries": {"p_values": [0.1, 0.5, math.nan], "n": 9, "confidence": 0.9},
    "estimated_labels": {
        "hallucinated": [True, False, None],
        "probability": [0.5, 1.0, 0.2],
        "guess": [0.0, 1.0, 0.5],
    },
    "exact_bound": {"count": 3, "n": 9, "confidence": 0.9},
    "flags": {"values": [0.0, 1.0], "threshold": 0.5, "tolerance": 0.1},
    "flip_tolerance": {"counts": COUNTED, "requirement": REQUIRED},
    "holm": {"p_values": [0.1, 0.5]},
    "joint_certificate": {"calibration": PAC, "counts": COUNTED, "requirement": REQUIRED},
    "minimum_n_for_selection": {"fdr": 0.1, "m": 5, "share": 0.5},
    "labelling_probability": {
        "flagged": [True, False, False],
        "guess": [0.9, 0.2, 0.0],
        "requirement": REQUIRED,
        "drawing": Drawing("active"),
        "base_rate": 0.3,
        "undecided": (True, False),
    },
    "labels_left": {
        "test": LABELLED,
        "flagged": [True, False, False],
        "guess": [0.9, 0.2, 0.0],
        "per_unit": 1.5,
        "seed": 1,
    },
    "labelled_share": {"n_hallucinated": 5, "n": 60},
    "least_withheld": {"base_rate": 0.3, "share": 0.1},
    "log_wealth": {"count": 3, "n": 9, "limit": 0.5, "above": True},
    "minimum_n": {"alpha": 0.2, "guarantee": "pac", "delta": 0.1},
    "p_values": {"calibration_scores": RAMP, "values": [1.0, 2.0]},
    "parse_risk": {"text": "recall>=0.5"},
    "plan": {
        "promise": PROMISE,
        "requirement": Requirement(max_fpr=0.2, min_coverage=0.8, confidence=0.9),
        "assumption": public.Assumption(coverage=0.95, fpr=0.05),
        "base_rate": 0.5,
        "power": 0.8,
        "n": [100],
    },
    "plan_sequential": {
        "requirement": Requirement(max_fpr=0.2, min_coverage=0.8, confidence=0.9),
        "assumption": public.Assumption(coverage=0.95, fpr=0.05),
        "base_rate": 0.5,
        "power": 0.8,
        "budget": 50,
        "floor": 0.2,
        "runs": 3,
        "seed": 1,
    },
    "rank": {"n": 60, "alpha": 0.2, "guarantee": "pac", "delta": 0.1},
    "storey_share": {"p_values": [0.1, 0.2], "n": 9},
    "three_way": {"hallucinated": RAMP, "faithful": RAMP, "promise": PROMISE},
}

NO_NUMBER = ["0.5", True, [0.5], 1j]
SHARE = [0.0, 1.0, -0.1, 1.3, math.nan, math.inf, -math.inf, None, *NO_NUMBER]
OPEN = [0.0, -0.1, math.nan, math.inf, -math.inf, None, *NO_NUMBER]
RATE = [-0.1, 1.1, math.nan, math.inf, *NO_NUMBER]
COUNT = [-1, 1.5, 9.0, math.nan, None, 10**13, *NO_NUMBER]
ARRAY = [None, 1.0, "abc", ["a"], ["1.5"], [1j], [[1.0]], [[1], [1, 2]], [10**400]]
CHOICE = ["x", "", None, 5, ["pac"]]
NAN, INFINITE = [[1.0, math.nan] * 30, [None] * 60], [[1.0, math.inf] * 30, [-math.inf] * 60]

#: Values outside the domain, by the name of the parameter.
REFUSED: Mapping[str, list[Any]] = {
    **{name: SHARE for name in ("alpha", "confidence", "delta", "fdr", "limit", "share", "power")},
    **{name: [None, *RATE] for name in ("base_rate", "min_coverage")},
    **{name: RATE for name in ("coverage", "fpr")},
    **{name: COUNT for name in ("count", "n", "m", "n_hallucinated", "runs", "seed")},
    **{name: [*ARRAY, *NAN, [-0.1] * 3, [1.1] * 3, [0.5]] for name in ("guess", "probability")},
    "flagged": [*ARRAY, *NAN, [0.5] * 3],
    "hallucinated": [*ARRAY, [math.inf] * 3, [0.5] * 3, [2] * 3],
    "budget": [value for value in [0, *COUNT] if value is not None],
    "floor": OPEN,
    "above": [None, 1, "above"],
    "k": [0, *COUNT],
    "lots": [*ARRAY, *NAN, [1.0] * 60, [-0.1] * 60, [0.5]],
    "highest": [math.nan, None, *NO_NUMBER],
    "per_unit": [0.5, *OPEN],
    "tolerance": [-1e-9, math.nan, math.inf, None, *NO_NUMBER],
    "threshold": [math.nan, None, *NO_NUMBER],
    **{name: [*ARRAY, *INFINITE] for name in ("scores", "faithful")},
    "weights": [*ARRAY, *NAN, *INFINITE, [-1.0] * 60, [0.0] * 60, [1.0] * 59],
    **{name: [*ARRAY, *NAN] for name in ("values", "calibration_scores", "candidates")},
    "p_values": [*ARRAY, *INFINITE, [-0.1], [1.1]],
    "clusters": [None, 1, "abc", ["a"] * 60, [0.5] * 60, [[1]] * 60, [True] * 60, [1] * 59],
    "groups": ["a" * 60, [1] * 60, [None] * 60, [math.nan] * 60, ["a"] * 59],
    "labels": [None, 1, ["a"] * 60, [2] * 60, [0.5] * 60, [1] * 60, [0] * 60, [0, 1], [None] * 60],
    "risks": [[], ["recall"], ["recall<=0.5"], ["recall>=1.5"], ["speed>=0.5"], [5]],
    "text": ["", "recall", "recall>=", "recall>=nan", "recall>=0", "fpr>=0.5", "x>=0.5", None, 5],
    "guarantee": CHOICE,
    "undefined": CHOICE,
    "method": CHOICE,
    "counts": [{}],
    "calibration": [(0, 60), (61, 60), (-1, 60), (1.5, 60), (1, None)],
}

#: The same where one function has a domain of its own.
OWN: Mapping[tuple[str, str], list[Any]] = {
    ("three_way", "hallucinated"): [*ARRAY, *INFINITE],
    ("joint_certificate", "calibration"): [calibrate_threshold(RAMP, Promise(0.2))],
    ("control_risks", "groups"): [1, [1] * 59],
    **{(name, "counts"): [] for name in ("certify_counts", "joint_certificate", "flip_tolerance")},
    **{(name, "share"): OPEN for name in ("conformal_selection", "minimum_n_for_selection")},
    # It may be left out.
    ("labels_left", "guess"): [*ARRAY[1:], *NAN, [-0.1] * 3, [1.1] * 3, [0.5]],
    ("plan", "n"): [[-1], [1.5], [math.nan], ["5"], [10**13]],
    ("plan", "base_rate"): RATE,
}

#: Names under which a refusal may speak of a parameter.
ALSO = {
    "calibration": "rank|n|calibration",
    "text": "risk|level",
    "risks": "risks?|level",
    "hallucinated": "scores|hallucinated",
}

#: Where more is refused than under a parameter of that name elsewhere.
MORE: Mapping[tuple[str, str], list[Any]] = {
    ("attainable_coverages", "scores"): [[], *NAN],
    ("calibrate_weighted", "scores"): NAN,
    ("holm", "p_values"): NAN,
    ("discoveries", "n"): [0],
    ("discoveries", "p_values"): [[0.0], [0.15]],
    ("minimum_n_for_selection", "m"): [0],
    ("storey_share", "n"): [0],
    ("p_values", "calibration_scores"): [[2.0, 1.0]],
}

#: What is given, not what is found.
WITHOUT_JSON = {"ClassCounts", "VerdictProbabilities", "CandidateSearch"}

#: Tested where several of them are at work together.
ELSEWHERE = {"promise", "requirement", "assumption", "search", "calibration_share", "withhold"}
ELSEWHERE |= {"drawing", "undecided", "test", "together", "thresholds"}

PUBLIC = {name: getattr(public, name) for name in public.__all__}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    name: item for name, item in PUBLIC.items() if inspect.isfunction(item)
}


#: What they need is checked where each kind of threshold is found.
COMPOSED = {"fit_rule"}


def test_every_public_function_is_tested_with_all_of_its_parameters() -> None:
    assert set(ACCEPTED) | COMPOSED == set(FUNCTIONS)
    for name, accepted in ACCEPTED.items():
        parameters = set(inspect.signature(FUNCTIONS[name]).parameters)
        assert parameters - ELSEWHERE == set(accepted) - ELSEWHERE


def test_every_public_name_exists_and_says_what_it_is() -> None:
    for name, item in PUBLIC.items():
        if is_dataclass(item) or inspect.isfunction(item):
            assert item.__doc__
            assert item.__module__.startswith(("calibrail.conformal", "calibrail.options"))
        if is_dataclass(item):
            assert hasattr(item, "__slots__") and vars(item)["__dataclass_params__"].frozen
            assert name in WITHOUT_JSON or hasattr(item, "to_dict")


@pytest.mark.parametrize("name", sorted(ACCEPTED))
def test_what_is_outside_the_domain_is_refused_by_name(name: str) -> None:
    problems = []
    for parameter in (item for item in ACCEPTED[name] if item not in ELSEWHERE):
        place = name, parameter
        for value in [*OWN.get(place, REFUSED[parameter]), *MORE.get(place, [])]:
            arguments = {**ACCEPTED[name], parameter: value}
            problem = unrefused(FUNCTIONS[name], parameter, arguments)
            if problem is not None:
                problems.append(f"{parameter} = {value!r:.60}: {problem}")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", ["caught", "n_hallucinated", "false_alarms", "n_faithful"])
@pytest.mark.parametrize("value", COUNT)
def test_counts_refuse_what_is_no_count_by_name(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name):
        replace(COUNTED, **{name: value})


def unrefused(
    function: Callable[..., Any], parameter: str, arguments: Mapping[str, Any]
) -> str | None:
    """Return what is wrong with the refusal of one argument, None where it is as it should be."""
    try:
        function(**arguments)
    except InputError as error:
        message = str(error)
        if not re.search(rf"\b({ALSO.get(parameter, parameter)})\b", message):
            return f"the message does not name it: {message}"
        return "the message is long" if len(message) >= 400 else None
    except Exception as error:
        return f"raises {error!r}"
    return "is accepted"


@pytest.mark.parametrize("name", sorted(ACCEPTED))
def test_what_is_accepted_gives_the_same_without_nan_each_time(name: str) -> None:
    first, second = (FUNCTIONS[name](**ACCEPTED[name]) for _ in range(2))
    assert first is not None and type(first) is type(second)
    assert numbers(first) == numbers(second)
    assert not any(math.isnan(number) for number in numbers(first))


def numbers(result: Any) -> list[float]:
    """Return every number in a result, however deep, but whole ones, which are never NaN."""
    if isinstance(result, np.ndarray):
        return [float(value) for value in result.ravel()]
    if isinstance(result, float | np.floating):
        return [float(result)]
    if isinstance(result, Mapping):
        return [number for value in result.values() for number in numbers(value)]
    if isinstance(result, list | tuple):
        return [number for value in result for number in numbers(value)]
    if is_dataclass(result):
        return [n for item in fields(result) for n in numbers(getattr(result, item.name))]
    return []


FINITE = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.lists(st.one_of(FINITE, st.sampled_from([0.0, 1.0, 1.0])), max_size=30)
INSIDE = st.floats(0.0, 1.0, exclude_min=True, exclude_max=True)
MODERATE = st.floats(0.01, 0.999)
COUNTS = st.tuples(st.integers(0, 300), st.integers(0, 300)).map(lambda t: (min(t), max(t)))


def quiet(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return the result, free of NaN, or None where the input was refused."""
    try:
        result = call(*arguments, **options)
    except InputError:
        return None
    assert not any(math.isnan(number) for number in numbers(result))
    return result


@CHECK
@given(NUMBERS, NUMBERS, INSIDE, INSIDE, st.sampled_from(public.GUARANTEES))
def test_no_nan_escapes_from_thresholds(
    scores: list[float], values: list[float], alpha: float, delta: float, guarantee: Any
) -> None:
    clusters = [index // 2 for index in range(len(scores))]
    groups = ["ab"[cluster % 2] for cluster in clusters]
    promise = Promise(alpha, guarantee, delta, allow_flag_all=True, beta=delta)
    for made in (
        quiet(public.calibrate_threshold, scores, promise),
        quiet(public.calibrate_clusters, scores, clusters, promise),
    ):
        if made is not None:
            p = quiet(made.p_value, values)
            assert ((p > 0.0) & (p <= 1.0)).all()
            assert len(made.flags(values)) == len(values)
    grouped = quiet(public.calibrate_groups, scores, groups, promise)
    if grouped is not None:
        assert quiet(grouped.p_value, values, ["a"] * len(values)) is not None
    both = quiet(public.three_way, scores, values, replace(promise, allow_flag_all=False))
    if both is not None:
        assert set(both.decide(values).tolist()) <= {0, 1, 2}


@CHECK
@given(NUMBERS)
def test_attainable_coverages_are_of_any_score(scores: list[float]) -> None:
    thresholds = quiet(public.attainable_coverages, scores)
    assert (thresholds is None) == (not scores)


@CHECK
@given(
    st.lists(st.floats(0.0, 1.0), max_size=30),
    st.lists(st.integers(1, 10), max_size=15),
    INSIDE,
)
def test_no_nan_escapes_from_selection(p: list[float], places: list[int], level: float) -> None:
    assert quiet(public.conformal_selection, [*p, math.nan], level) is not None
    assert quiet(public.holm, p) is not None
    table = quiet(public.discoveries, [place / 10 for place in places], 9, level)
    assert table is not None and (table.most <= table.released).all()
    assert quiet(public.minimum_n_for_selection, level, 7) >= 1
    assert 0.0 <= quiet(public.least_withheld, level, level) <= level


@CHECK
@given(COUNTS, COUNTS, st.floats(0.0, 1.0), st.one_of(st.none(), st.floats(0.0, 1.0)), MODERATE)
def test_no_nan_escapes_from_certificates(
    hits: tuple[int, int],
    alarms: tuple[int, int],
    required: float,
    limit: float | None,
    level: float,
) -> None:
    counts, wanted = ClassCounts(*hits, *alarms), Requirement(limit, required, level)
    made = quiet(public.certify_counts, counts, wanted)
    for bound in (made.coverage, made.fpr):
        assert 0.0 <= bound.lower <= bound.upper <= 1.0
        if bound.estimate is not None:
            assert bound.lower <= bound.estimate <= bound.upper
    found = quiet(public.certify_groups, {"a": counts}, wanted)
    assert 0.0 <= found["a"].p_undercovered <= 1.0
    joint = quiet(public.joint_certificate, PAC, counts, replace(wanted, min_coverage=None))
    assert joint is None or 0.0 < joint.confidence < 1.0


@CHECK
@given(st.lists(st.tuples(FINITE, st.floats(0.0, 1e200)), max_size=20), INSIDE, st.floats(0.0, 1e9))
def test_no_nan_escapes_from_weighted_thresholds(
    examples: list[tuple[float, float]], alpha: float, own: float
) -> None:
    scores, weights = [pair[0] for pair in examples], [pair[1] for pair in examples]
    made = quiet(public.calibrate_weighted, scores, weights, alpha)
    if made is not None:
        p = quiet(made.p_value, scores, [own] * len(scores))
        assert p is not None and ((p >= 0.0) & (p <= 1.0)).all()
        assert p.max() == pytest.approx(1.0)
        assert not math.isnan(made.threshold()) and np.isfinite(made.effective_n)
