"""Public functions spell out the fields of the option objects that they take."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

import pytest

from calibrail import (
    Monitor,
    Promise,
    ReadOptions,
    Requirement,
    agree,
    audit,
    audit_sample,
    calibrate,
    certify,
    compare,
    diagnose,
    label,
    monitor,
    read,
    recalibrate,
    repeat,
    score_sentences,
    shift,
    test,
    versus,
)
from calibrail.errors import InputError
from calibrail.options import AuditOptions, Costs, LabelOptions, ShiftSplit, WatchOptions
from calibrail.options.data import ReadKeywords
from calibrail.options.fields import KEYWORDS
from calibrail.options.keywords import options_from_keywords

#: The classes whose fields each function takes by themselves.
SPELLED: dict[Callable[..., object], tuple[type, ...]] = {
    calibrate: (Promise, Requirement, ReadOptions, Costs),
    compare: (Promise, Requirement, ReadOptions),
    certify: (Requirement, ReadOptions),
    shift: (ShiftSplit, Promise, Requirement, ReadOptions),
    label: (Requirement, LabelOptions, ReadOptions),
    recalibrate: (Requirement,),
    audit_sample: (AuditOptions, ReadOptions),
    monitor: (WatchOptions,),
    Monitor.__init__: (WatchOptions,),
    agree: (ReadOptions,),
    versus: (ReadOptions,),
    audit: (ReadOptions,),
    read: (ReadOptions,),
    diagnose: (ReadOptions,),
    test: (ReadOptions, Costs),
    score_sentences: (ReadOptions,),
}


@pytest.mark.parametrize("function", SPELLED, ids=lambda function: function.__qualname__)
def test_the_keywords_are_the_fields_with_their_defaults(function: Callable[..., object]) -> None:
    parameters = inspect.signature(function).parameters
    assert tuple(function.option_kinds.values()) == SPELLED[function]  # type: ignore[attr-defined]
    assert not any(item.kind is item.VAR_KEYWORD for item in parameters.values())
    declared: dict[str, Any] = {}
    for kind in reversed(SPELLED[function]):
        declared |= {KEYWORDS.get(item.name, item.name): item.default for item in fields(kind)}
    declared.pop("reference", None)  # a number, or rows
    for name in function.option_kinds:  # type: ignore[attr-defined]
        declared.pop(name, None)
    assert MISSING not in declared.values()
    assert {name: parameters[name].default for name in declared} == declared
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in declared)
    assert all(parameters[name].annotation is not inspect.Parameter.empty for name in declared)


@options_from_keywords(promise=Promise, requirement=Requirement)
def asked(
    source: str,
    promise: Promise | None = None,
    requirement: Requirement | None = None,
    *,
    alpha: float = 0.05,
    max_false_alarms: float | None = None,
    confidence: float = 0.95,
) -> tuple[Promise | None, Requirement | None]:
    return promise, requirement


def test_what_is_given_makes_the_objects() -> None:
    assert asked("data", alpha=0.2, confidence=0.9) == (
        Promise(alpha=0.2),
        Requirement(confidence=0.9),
    )
    assert asked("data", max_fpr=0.5) == (None, Requirement(max_fpr=0.5))
    assert asked("data", Promise(0.3)) == (Promise(0.3), None)
    assert asked("data") == (None, None)


@pytest.mark.parametrize("alpha", [0.1, 0.05])
def test_a_field_beside_its_object_is_refused_whatever_its_value(alpha: float) -> None:
    with pytest.raises(InputError, match="give alpha by itself or in the promise, not both"):
        asked("data", Promise(alpha=0.2), alpha=alpha)


def test_keywords_win_over_an_object_where_they_are_to() -> None:
    @options_from_keywords(promise=Promise, override=True)
    def told(promise: Promise | None = None, *, alpha: float = 0.05) -> Promise | None:
        return promise

    assert told(Promise(0.3, "pac"), alpha=0.05) == Promise(0.05, "pac")


def test_an_object_of_another_kind_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"promise must be a Promise, e.g. .*; got Requirement"):
        asked("data", Requirement())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "among"),
    [
        (calibrate, "scores labels groups ids higher target reading splitting looks alpha"),
        (compare, "scores reading splitting alpha max_false_alarms baselines"),
        (certify, "scores labels max_false_alarms reading looks"),
        (shift, "alpha reading"),
    ],
)
def test_an_unknown_argument_is_met_with_all_that_are_known(
    function: Callable[..., object], among: str
) -> None:
    with pytest.raises(InputError, match="unknown argument 'alhpa'") as refused:
        function("example:facts", alhpa=0.1)
    known = str(refused.value).partition("Known are ")[2].split(", ")
    assert {*among.split()} <= {*known}
    assert ("did you mean alpha?" in str(refused.value)) == ("alpha" in known)


@pytest.mark.parametrize(
    ("new", "old"), [("max_false_alarms", "max_fpr"), ("min_caught", "min_coverage")]
)
def test_limits_may_be_given_by_their_names_and_by_those_that_files_have(
    new: str, old: str
) -> None:
    def report(**limits: float) -> dict[str, Any]:
        return calibrate("example:facts", "novel_count", alpha=0.1, **limits).report.to_dict()  # type: ignore[call-overload, arg-type, unused-ignore]

    beside = {"max_fpr": 0.9} if new == "min_caught" else {}
    assert report(**beside, **{new: 0.5}) == report(**beside, **{old: 0.5})
    assert Requirement(**{new: 0.5}) == Requirement(**{old: 0.5})  # type: ignore[arg-type]
    assert Requirement(**{old: 0.5}).to_dict()[old] == 0.5
    assert new in inspect.signature(Requirement).parameters
    for function in (calibrate, compare, certify):
        assert {new} == {new, old} & {*inspect.signature(function).parameters}
    for twice in (report, Requirement):
        with pytest.raises(InputError, match=f"give {new} or {old}, not both"):
            twice(**{new: 0.5, old: 0.5})
    with pytest.raises(InputError, match=f"^{new} must lie in"):
        Requirement(**{old: 1.5})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="max_fp"):
        Requirement(max_fp=0.1)


def test_a_part_of_another_object_is_named_with_it() -> None:
    with pytest.raises(InputError, match=r"give it as splitting=SplitOptions\(fit_share=...\)"):
        calibrate("example:facts", fit_share=0.1)  # type: ignore[call-arg]


def test_what_is_said_of_reading_may_stand_by_itself() -> None:
    rows = [
        {"answer": f"Lake {n % 7}.", "context": "Lake 1.", "verdict": "bad" if n % 2 else "good"}
        for n in range(40)
    ]
    reading = ReadOptions(label_column="verdict", positive="bad")
    run = calibrate(rows, "length", alpha=0.2, label_column="verdict", positive="bad")
    assert run.report == calibrate(rows, "length", alpha=0.2, reading=reading).report
    done = audit(rows, "length", label_column="verdict", positive="bad")
    assert done.to_dict()["data"]["n_examples"] == 40
    with pytest.raises(InputError, match="give positive by itself or in the reading, not both"):
        compare(rows, "length", reading=reading, positive="good")


@pytest.mark.parametrize("function", [audit, calibrate, compare, repeat, shift, test])
def test_a_column_of_scores_is_named_as_on_the_command_line(function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters
    assert {"score_column", "higher"} <= {*parameters}
    more = {"by": "domain"} if function is shift else {}
    if function is not test:
        with pytest.raises(InputError, match=r"^higher=\.\.\. says .* name the column"):
            function("example:facts", higher="faithful", **more)


def test_columns_of_scores_stand_after_the_detectors_that_are_named_otherwise() -> None:
    rows = [
        {"answer": f"Lake {n % 7}.", "context": "Lake 1.", "label": n % 2, "gauge": n % 4, "b": n}
        for n in range(80)
    ]
    of = dict(score_column="gauge", higher="hallucinated", baselines=False, alpha=0.2)
    spelled = "column:column=gauge,higher=hallucinated"
    alone: Any = calibrate(rows, spelled, alpha=0.2, baselines=False)
    assert calibrate(rows, **of).report == alone.report  # type: ignore[arg-type]
    both = compare(rows, "length", **{**of, "score_column": ["gauge", "b"]})  # type: ignore[arg-type]
    assert {name for name, _ in both.comparison.detectors} == {"length", "gauge", "b"}
    with pytest.raises(InputError, match="a column of scores needs a direction"):
        calibrate(rows, score_column="gauge")
    # A list of one is one, several are none for a threshold, and arrays have no columns.
    tested: Any = calibrate(rows, score_column=["gauge"], higher="hallucinated", threshold=2)
    alone = test(rows, score_column="gauge", higher="hallucinated", threshold=2)
    assert tested.report == alone.report
    with pytest.raises(InputError, match="test takes one score; got gauge, b"):
        test(rows, score_column=["gauge", "b"], higher="hallucinated", threshold=2)
    arrays: Any = dict(scores=[0.1, 0.9] * 9, labels=[0, 1] * 9)
    named: Any = dict(score_column="gauge", higher="hallucinated")
    for given in (dict(alpha=0.2), dict(threshold=0.5)):
        with pytest.raises(InputError, match="give scores= or the detector"):
            calibrate(**arrays, **named, **given)  # type: ignore[arg-type]
    for wrong in (arrays, dict(source=rows, score_column="gauge")):
        with pytest.raises(InputError, match="higher"):
            test(**wrong, threshold=0.5, higher="worse")  # type: ignore[arg-type]


def test_the_keywords_of_reading_are_its_fields() -> None:
    assert [item.name for item in fields(ReadOptions)] == list(ReadKeywords.__annotations__)
