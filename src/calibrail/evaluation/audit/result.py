"""What does an audit hold, and how is it written?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from calibrail.evaluation.audit.components import Components
from calibrail.evaluation.audit.confounds import Confound
from calibrail.evaluation.audit.detector_pairs import Pair
from calibrail.evaluation.audit.leakage import Leakage
from calibrail.evaluation.audit.reliability import Reliability
from calibrail.evaluation.audit.strata import Stratification
from calibrail.evaluation.stats.measure import Measure
from calibrail.evaluation.stats.separation import Moments
from calibrail.record import Record

#: Name of the format that ``Audit.to_dict`` writes.
SCHEMA: Final = "calibrail.audit/1"


@dataclass(frozen=True, slots=True)
class LeftOut(Record):
    """A part of the audit that could not be made.

    Parameters
    ----------
    part : str
        What is missing, e.g. ``strata by theta_qc``.
    reason : str
        Why.
    """

    part: str
    reason: str


@dataclass(frozen=True, slots=True)
class Audited(Record):
    """One detector under audit.

    Parameters
    ----------
    name : str
        The detector.
    score : mapping
        Its specification.
    n_undefined : mapping of str to int
        Answers without a score, per class; ranked as the policy says, left out of means.
    means : mapping of str to Moments
        Mean and standard deviation per class.
    cohens_d, auroc : Measure
        How far it separates the classes.
    reversed : bool
        The AUROC's interval lies below 0.5.
    confounds : tuple of Confound
        One a surface feature, and one a column that divides the answers.
    strata : tuple of Stratification
        One a division.
    reliability : Reliability or None
        None where no score is defined.
    """

    name: str
    score: Mapping[str, Any]
    n_undefined: Mapping[str, int]
    means: Mapping[str, Moments]
    cohens_d: Measure
    auroc: Measure
    reversed: bool
    confounds: tuple[Confound, ...]
    strata: tuple[Stratification, ...]
    reliability: Reliability | None


@dataclass(frozen=True, slots=True)
class Audit(Record):
    """Everything that an audit found.

    Parameters
    ----------
    n_hallucinated, n_faithful, n_groups : int
        Answers per class; groups that they form (one without a group is its own).
    confidence, undefined, seed
        Level of every interval, policy for undefined scores, seed of the folds.
    detectors : tuple of Audited
        In the order in which they were named.
    components : tuple of Components
        One an encoder.
    agreement : tuple of Pair
        Every two detectors.
    leakage : Leakage
        What could give labels away.
    left_out : tuple of LeftOut
        Parts that could not be made, with the reason.
    data, reproduce : mapping
        Passed through.
    """

    schema: ClassVar = SCHEMA

    n_hallucinated: int
    n_faithful: int
    n_groups: int
    confidence: float
    undefined: str
    seed: int
    detectors: tuple[Audited, ...]
    components: tuple[Components, ...]
    agreement: tuple[Pair, ...]
    leakage: Leakage
    left_out: tuple[LeftOut, ...]
    data: Mapping[str, Any] = field(default_factory=dict)
    reproduce: Mapping[str, Any] = field(default_factory=dict)
