"""Certified thresholds for hallucination detectors.

>>> import calibrail
>>> run = calibrail.calibrate("example:facts", score="novel_count", alpha=0.1)
>>> run.verdict
'inconclusive'

Importing the package imports nothing heavy: each name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibrail.conformal import Calibration as Calibration
    from calibrail.conformal import Certificate as Certificate
    from calibrail.data import Example as Example
    from calibrail.data import Reading as Reading
    from calibrail.data import read as read
    from calibrail.engine import use_engine as use_engine
    from calibrail.errors import CalibrailError as CalibrailError
    from calibrail.errors import DataError as DataError
    from calibrail.errors import GuardrailError as GuardrailError
    from calibrail.errors import InputError as InputError
    from calibrail.errors import LogError as LogError
    from calibrail.errors import ModelError as ModelError
    from calibrail.errors import ServiceError as ServiceError
    from calibrail.errors import TooFewExamplesError as TooFewExamplesError
    from calibrail.estimator import ConformalThresholdClassifier as ConformalThresholdClassifier
    from calibrail.evaluation import Report as Report
    from calibrail.guardrail import Decision as Decision
    from calibrail.guardrail import Guardrail as Guardrail
    from calibrail.labelling.exchange import Imported as Imported
    from calibrail.labelling.exchange import export_answers as export_answers
    from calibrail.labelling.exchange import import_labels as import_labels
    from calibrail.labelling.session import Session as Session
    from calibrail.labelling.tasks import Counts as Counts
    from calibrail.labelling.tasks import Task as Task
    from calibrail.models.call_limits import CallLimits as CallLimits
    from calibrail.models.call_limits import Price as Price
    from calibrail.models.call_limits import limit_calls as limit_calls
    from calibrail.monitoring.monitor import Monitor as Monitor
    from calibrail.monitoring.rows import Rows as Rows
    from calibrail.scores import Score as Score
    from calibrail.scores import Scores as Scores
    from calibrail.scores.custom import CustomScore as CustomScore
    from calibrail.serve.client import AsyncClient as AsyncClient
    from calibrail.serve.client import Client as Client
    from calibrail.settings import AuditOptions as AuditOptions
    from calibrail.settings import Drawing as Drawing
    from calibrail.settings import EngineOptions as EngineOptions
    from calibrail.settings import LabelOptions as LabelOptions
    from calibrail.settings import Promise as Promise
    from calibrail.settings import ReadOptions as ReadOptions
    from calibrail.settings import RecalibrateOptions as RecalibrateOptions
    from calibrail.settings import Requirement as Requirement
    from calibrail.settings import ScoreThreshold as ScoreThreshold
    from calibrail.settings import ShiftSplit as ShiftSplit
    from calibrail.settings import SplitOptions as SplitOptions
    from calibrail.settings import WatchOptions as WatchOptions
    from calibrail.workflow.agree import JudgedRates as JudgedRates
    from calibrail.workflow.agree import agree as agree
    from calibrail.workflow.arrow_batches import BatchChecker as BatchChecker
    from calibrail.workflow.arrow_batches import BatchScorer as BatchScorer
    from calibrail.workflow.audit import AuditRun as AuditRun
    from calibrail.workflow.audit import audit as audit
    from calibrail.workflow.audit_batch import AuditBatch as AuditBatch
    from calibrail.workflow.audit_sample import audit_sample as audit_sample
    from calibrail.workflow.batch_selection import BatchSelection as BatchSelection
    from calibrail.workflow.calibrate import calibrate as calibrate
    from calibrail.workflow.card import Card as Card
    from calibrail.workflow.card import card as card
    from calibrail.workflow.certification import Certification as Certification
    from calibrail.workflow.certify import certify as certify
    from calibrail.workflow.compare import ComparisonRun as ComparisonRun
    from calibrail.workflow.compare import compare as compare
    from calibrail.workflow.context import Context as Context
    from calibrail.workflow.doctor import diagnose as diagnose
    from calibrail.workflow.label import label as label
    from calibrail.workflow.log import export_log as export_log
    from calibrail.workflow.log import verify_log as verify_log
    from calibrail.workflow.monitor import monitor as monitor
    from calibrail.workflow.recalibrate import Recalibration as Recalibration
    from calibrail.workflow.recalibrate import recalibrate as recalibrate
    from calibrail.workflow.run import Run as Run
    from calibrail.workflow.select import select as select
    from calibrail.workflow.sentence_scores import score_sentences as score_sentences
    from calibrail.workflow.shift import ShiftRun as ShiftRun
    from calibrail.workflow.shift import shift as shift
    from calibrail.workflow.watch import Watch as Watch

#: Where each public name is defined. Type checkers read the imports above, Python this.
_ROOMS = {
    "conformal": "Calibration Certificate",
    "data": "Example Reading read",
    "engine": "use_engine",
    "errors": "CalibrailError DataError GuardrailError InputError LogError ModelError "
    "ServiceError TooFewExamplesError",
    "estimator": "ConformalThresholdClassifier",
    "evaluation": "Report",
    "guardrail": "Decision Guardrail",
    "labelling.exchange": "Imported export_answers import_labels",
    "labelling.session": "Session",
    "labelling.tasks": "Counts Task",
    "models.call_limits": "CallLimits Price limit_calls",
    "monitoring.monitor": "Monitor",
    "monitoring.rows": "Rows",
    "scores": "Score Scores",
    "scores.custom": "CustomScore",
    "serve.client": "AsyncClient Client",
    "settings": "AuditOptions Drawing EngineOptions LabelOptions Promise ReadOptions "
    "RecalibrateOptions Requirement ScoreThreshold ShiftSplit SplitOptions WatchOptions",
    "workflow.agree": "JudgedRates agree",
    "workflow.arrow_batches": "BatchChecker BatchScorer",
    "workflow.audit": "AuditRun audit",
    "workflow.audit_batch": "AuditBatch",
    "workflow.audit_sample": "audit_sample",
    "workflow.calibrate": "calibrate",
    "workflow.card": "Card card",
    "workflow.certification": "Certification",
    "workflow.certify": "certify",
    "workflow.compare": "ComparisonRun compare",
    "workflow.context": "Context",
    "workflow.doctor": "diagnose",
    "workflow.label": "label",
    "workflow.log": "export_log verify_log",
    "workflow.monitor": "monitor",
    "workflow.recalibrate": "Recalibration recalibrate",
    "workflow.run": "Run",
    "workflow.batch_selection": "BatchSelection",
    "workflow.select": "select",
    "workflow.sentence_scores": "score_sentences",
    "workflow.shift": "ShiftRun shift",
    "workflow.watch": "Watch",
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names.split()}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'calibrail' has no attribute {name!r}")
    value = getattr(import_module(f"calibrail.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
