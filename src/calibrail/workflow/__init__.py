"""How do the rooms work together in one run, from a file to a verdict?"""

from calibrail.workflow.agree import JudgedRates, agree
from calibrail.workflow.audit import AuditRun, audit
from calibrail.workflow.calibrate import calibrate
from calibrail.workflow.certify import Certification, certify
from calibrail.workflow.compare import ComparisonRun, compare
from calibrail.workflow.doctor import diagnose
from calibrail.workflow.run import Run
from calibrail.workflow.select import BatchSelection, select
from calibrail.workflow.shift import ShiftRun, shift

__all__ = [
    "AuditRun",
    "BatchSelection",
    "Certification",
    "ComparisonRun",
    "JudgedRates",
    "Run",
    "ShiftRun",
    "agree",
    "audit",
    "calibrate",
    "certify",
    "compare",
    "diagnose",
    "select",
    "shift",
]
