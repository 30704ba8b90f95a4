"""Does a command take for granted what the Python function takes, where nothing is said?"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_args, get_type_hints

import pytest

import calibrail
from calibrail.cli import app
from calibrail.cli.parameters import DetectorArguments
from calibrail.conformal.power import plan
from calibrail.conformal.sequential.forecast import plan_sequential
from calibrail.models.llm.transport import CallLimits
from calibrail.options import EngineOptions
from calibrail.options.fields import OPTION
from calibrail.pipelines.loading import Context

#: The Python call behind each command that computes something.
CALLS: dict[str, Callable[..., Any]] = {
    "agree": calibrail.agree,
    "audit": calibrail.audit,
    "calibrate": calibrail.calibrate,
    "certify": calibrail.certify,
    "compare": calibrail.compare,
    "doctor": calibrail.diagnose,
    "label": calibrail.label,
    "plan": plan,
    "repeat": calibrail.repeat,
    "select": calibrail.select,
    "shift": calibrail.shift,
    "test": calibrail.test,
    "versus": calibrail.versus,
}
#: What an option calls beside it.
FURTHER: dict[str, Callable[..., Any]] = {
    "label": calibrail.audit_sample,
    "plan": plan_sequential,
}
#: What is set around a call.
AROUND = (CallLimits, EngineOptions, Context)
#: Options that name what is read or called, or say where and how results are shown.
SHOWING = {
    *(
        "data",
        "first",
        "second",
        "heldout",
        "traces",
        "source",
        "from_log",
        "output",
        "figure",
        "json",
        "markdown",
        "page",
        "dry_run",
        "verbose",
    ),
    *("no_text", "score", "score_column", "higher", "baselines"),
    *("labels", "sequential", "until", "annotator", "terminal", "browser"),
    *("trusted", "own_code", "forbid_own_code", "sign", "expires", "min_version", "best"),
    *("force", "errors"),
    *("export", "export_n", "export_as", "import_"),
}


def taken_for_granted(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the defaults of a Python call by option, those of settings objects field by field."""
    result: dict[str, Any] = {}
    hints = {name: hint for name, hint in get_type_hints(function).items() if name != "return"}
    kinds = [kind for hint in hints.values() for kind in (hint, *get_args(hint))]
    for kind in (*filter(is_dataclass, kinds), *AROUND):
        for item in fields(kind):
            option = item.metadata.get(OPTION)
            default = item.default if item.default_factory is MISSING else item.default_factory()
            result[((option and option.flag) or item.name).replace("-", "_")] = default
    parameters = inspect.signature(function).parameters
    return result | {name: item.default for name, item in parameters.items()}


@pytest.mark.parametrize("name", CALLS)
def test_a_command_and_its_function_have_the_same_defaults(name: str) -> None:
    python, compared = taken_for_granted(CALLS[name]), 0
    if name in FURTHER:
        python = taken_for_granted(FURTHER[name]) | python
    for parameter in app.commands[name].params:
        if (option := str(parameter.name)) in SHOWING:
            continue
        assert option in python, f"{name} has --{option}, which its function does not take"
        if parameter.required:
            assert python[option] in (MISSING, inspect.Parameter.empty), option
        else:
            # Nothing named is an empty list there and None or an empty tuple here.
            assert (parameter.default or None) == (python[option] or None), option
        compared += 1
    assert compared > 1


@pytest.mark.parametrize("name", ["audit", "calibrate", "compare", "repeat", "shift"])
def test_the_detector_that_nobody_named_is_the_same(name: str) -> None:
    parameters = inspect.signature(CALLS[name]).parameters
    scores = parameters["score"] if "score" in parameters else parameters["scores"]
    # The data's own column is looked for first.
    assert scores.default is None and not DetectorArguments().scores()
    assert DetectorArguments().baselines
