"""Certified thresholds for hallucination detectors.

>>> import calibrail
>>> run = calibrail.calibrate("example:facts", score="novel_count", alpha=0.1)
>>> run.verdict
'inconclusive'

Importing the package imports nothing heavy: each name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibrail.conformal import Calibration, Certificate
    from calibrail.data import Example, Reading, read
    from calibrail.errors import (
        CalibrailError,
        DataError,
        GuardrailError,
        InputError,
        ModelError,
        TooFewExamplesError,
    )
    from calibrail.estimator import ConformalThresholdClassifier
    from calibrail.evaluation import Report
    from calibrail.guardrail import Decision, Guardrail
    from calibrail.models.call_limits import CallLimits, Price, limit_calls
    from calibrail.scores import Score, Scores
    from calibrail.settings import (
        Promise,
        ReadOptions,
        Requirement,
        ScoreThreshold,
        ShiftSplit,
        SplitOptions,
    )
    from calibrail.workflow import (
        AuditRun,
        BatchSelection,
        Certification,
        ComparisonRun,
        JudgedRates,
        Run,
        ShiftRun,
        agree,
        audit,
        calibrate,
        certify,
        compare,
        diagnose,
        select,
        shift,
    )
    from calibrail.workflow.context import Context

_HOME = {
    "AuditRun": "workflow",
    "BatchSelection": "workflow",
    "Calibration": "conformal",
    "CalibrailError": "errors",
    "CallLimits": "models.call_limits",
    "Certificate": "conformal",
    "Certification": "workflow",
    "ComparisonRun": "workflow",
    "ConformalThresholdClassifier": "estimator",
    "Context": "workflow.context",
    "DataError": "errors",
    "Decision": "guardrail",
    "Example": "data",
    "Guardrail": "guardrail",
    "GuardrailError": "errors",
    "InputError": "errors",
    "JudgedRates": "workflow",
    "ModelError": "errors",
    "Price": "models.call_limits",
    "Promise": "settings",
    "ReadOptions": "settings",
    "Reading": "data",
    "Report": "evaluation",
    "Requirement": "settings",
    "Run": "workflow",
    "Score": "scores",
    "ScoreThreshold": "settings",
    "Scores": "scores",
    "ShiftRun": "workflow",
    "ShiftSplit": "settings",
    "SplitOptions": "settings",
    "TooFewExamplesError": "errors",
    "agree": "workflow",
    "audit": "workflow",
    "calibrate": "workflow",
    "certify": "workflow",
    "compare": "workflow",
    "diagnose": "workflow",
    "limit_calls": "models.call_limits",
    "read": "data",
    "select": "workflow",
    "shift": "workflow",
}

__all__ = [
    "AuditRun",
    "BatchSelection",
    "CalibrailError",
    "Calibration",
    "CallLimits",
    "Certificate",
    "Certification",
    "ComparisonRun",
    "ConformalThresholdClassifier",
    "Context",
    "DataError",
    "Decision",
    "Example",
    "Guardrail",
    "GuardrailError",
    "InputError",
    "JudgedRates",
    "ModelError",
    "Price",
    "Promise",
    "ReadOptions",
    "Reading",
    "Report",
    "Requirement",
    "Run",
    "Score",
    "ScoreThreshold",
    "Scores",
    "ShiftRun",
    "ShiftSplit",
    "SplitOptions",
    "TooFewExamplesError",
    "agree",
    "audit",
    "calibrate",
    "certify",
    "compare",
    "diagnose",
    "limit_calls",
    "read",
    "select",
    "shift",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'calibrail' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"calibrail.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
