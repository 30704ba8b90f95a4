# Where each public name is defined: type checkers read this, and so does __init__.py.

from calibrail.client import AsyncClient as AsyncClient
from calibrail.client import Client as Client
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
from calibrail.evaluation import Report as Report
from calibrail.guardrail import Decision as Decision
from calibrail.guardrail import Guardrail as Guardrail
from calibrail.guardrail.decision_log.verify import export_log as export_log
from calibrail.guardrail.decision_log.verify import verify_log as verify_log
from calibrail.labelling.exchange.transfer import Imported as Imported
from calibrail.labelling.exchange.transfer import export_answers as export_answers
from calibrail.labelling.exchange.transfer import import_labels as import_labels
from calibrail.labelling.session import Counts as Counts
from calibrail.labelling.session import Session as Session
from calibrail.labelling.session import Task as Task
from calibrail.models.llm.transport import CallLimits as CallLimits
from calibrail.models.llm.transport import Price as Price
from calibrail.models.llm.transport import limit_calls as limit_calls
from calibrail.monitoring.history import Rows as Rows
from calibrail.monitoring.monitor import Monitor as Monitor
from calibrail.options import AuditOptions as AuditOptions
from calibrail.options import Drawing as Drawing
from calibrail.options import EngineOptions as EngineOptions
from calibrail.options import LabelOptions as LabelOptions
from calibrail.options import Promise as Promise
from calibrail.options import ReadOptions as ReadOptions
from calibrail.options import RecalibrateOptions as RecalibrateOptions
from calibrail.options import Requirement as Requirement
from calibrail.options import ScoreThreshold as ScoreThreshold
from calibrail.options import ShiftSplit as ShiftSplit
from calibrail.options import SplitOptions as SplitOptions
from calibrail.options import WatchOptions as WatchOptions
from calibrail.pipelines.agree import JudgedRates as JudgedRates
from calibrail.pipelines.agree import agree as agree
from calibrail.pipelines.agree import judge_on_labels as judge_on_labels
from calibrail.pipelines.audit import AuditRun as AuditRun
from calibrail.pipelines.audit import audit as audit
from calibrail.pipelines.audit_sample import AuditBatch as AuditBatch
from calibrail.pipelines.audit_sample import audit_sample as audit_sample
from calibrail.pipelines.calibrate import calibrate as calibrate
from calibrail.pipelines.card import GuardrailCard as GuardrailCard
from calibrail.pipelines.card import card as card
from calibrail.pipelines.certify import certify as certify
from calibrail.pipelines.certify_labels import Certification as Certification
from calibrail.pipelines.check import BatchChecker as BatchChecker
from calibrail.pipelines.check import BatchScorer as BatchScorer
from calibrail.pipelines.compare import ComparisonRun as ComparisonRun
from calibrail.pipelines.compare import compare as compare
from calibrail.pipelines.doctor import diagnose as diagnose
from calibrail.pipelines.fixed_threshold import test as test
from calibrail.pipelines.label import label as label
from calibrail.pipelines.loading import Context as Context
from calibrail.pipelines.monitor import Watch as Watch
from calibrail.pipelines.monitor import monitor as monitor
from calibrail.pipelines.recalibrate import Recalibration as Recalibration
from calibrail.pipelines.recalibrate import recalibrate as recalibrate
from calibrail.pipelines.repeat import RepeatRun as RepeatRun
from calibrail.pipelines.repeat import repeat as repeat
from calibrail.pipelines.run import Run as Run
from calibrail.pipelines.scoring import score_sentences as score_sentences
from calibrail.pipelines.select import BatchSelection as BatchSelection
from calibrail.pipelines.select import select as select
from calibrail.pipelines.shift import ShiftRun as ShiftRun
from calibrail.pipelines.shift import shift as shift
from calibrail.pipelines.versus import SystemComparison as SystemComparison
from calibrail.pipelines.versus import versus as versus
from calibrail.scores import Score as Score
from calibrail.scores import Scores as Scores
from calibrail.scores.custom import CustomScore as CustomScore
from calibrail.sklearn import ConformalThresholdClassifier as ConformalThresholdClassifier

# What `import calibrail` offers. The other names above were offered once, and are still found.
__all__ = [
    "CalibrailError",
    "CallLimits",
    "Client",
    "Decision",
    "Example",
    "Guardrail",
    "Monitor",
    "Promise",
    "ReadOptions",
    "Report",
    "Requirement",
    "Run",
    "Score",
    "SplitOptions",
    "agree",
    "audit",
    "audit_sample",
    "calibrate",
    "card",
    "certify",
    "compare",
    "diagnose",
    "judge_on_labels",
    "label",
    "limit_calls",
    "monitor",
    "read",
    "recalibrate",
    "repeat",
    "score_sentences",
    "select",
    "shift",
    "test",
    "use_engine",
    "versus",
]
