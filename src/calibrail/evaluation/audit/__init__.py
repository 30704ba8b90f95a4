"""What does a detector's result rest on: length, new words, strata, copies, one angle?"""

from calibrail.evaluation.audit.answers import Answers
from calibrail.evaluation.audit.audit import Material, audit_scores
from calibrail.evaluation.audit.result import SCHEMA, Audit, Audited, LeftOut
from calibrail.evaluation.audit.strata import Division, by_column, thirds

__all__ = [
    "SCHEMA",
    "Answers",
    "Audit",
    "Audited",
    "Division",
    "LeftOut",
    "Material",
    "audit_scores",
    "by_column",
    "thirds",
]
