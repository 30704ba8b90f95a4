"""What does a detector's result rest on, where does it fail, and who agrees with it?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np

from calibrail.errors import InputError
from calibrail.evaluation.audit.answers import Answers
from calibrail.evaluation.audit.components import Components, components
from calibrail.evaluation.audit.confounds import Confound, confound, prepare, prepare_columns
from calibrail.evaluation.audit.detector_pairs import Pair, pair_agreement
from calibrail.evaluation.audit.leakage import Leakage
from calibrail.evaluation.audit.reliability import Reliability, reliability
from calibrail.evaluation.audit.strata import Division, Stratification, corrected, stratify
from calibrail.evaluation.sample import CLASSES
from calibrail.evaluation.stats.arrays import Floats
from calibrail.evaluation.stats.measure import Measure
from calibrail.evaluation.stats.separation import Moments
from calibrail.evaluation.stats.undefined import ranked_values
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


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """What is known of the answers beside the detectors' scores.

    Attributes
    ----------
    leakage : Leakage
        What could give labels away.
    features : mapping of str to ndarray of float64, shape (n,)
        Surface features, NaN where undefined.
    divisions : sequence of Division
        How to divide answers into strata.
    angles : mapping of str to mapping
        Per encoder, the angles ``theta_rq`` and ``theta_rc``.
    left_out : sequence of LeftOut
        Parts that could not be prepared.
    """

    leakage: Leakage
    features: Mapping[str, Floats] = field(default_factory=dict)
    divisions: Sequence[Division] = ()
    angles: Mapping[str, Mapping[str, Floats]] = field(default_factory=dict)
    left_out: Sequence[LeftOut] = ()


def audit_scores(
    values: Mapping[str, Floats],
    answers: Answers,
    material: Material,
    *,
    specs: Mapping[str, Mapping[str, Any]] | None = None,
    undefined: str = "flag",
    data: Mapping[str, Any] | None = None,
    reproduce: Mapping[str, Any] | None = None,
) -> Audit:
    """Audit detectors on labelled answers.

    Parameters
    ----------
    values : mapping of str to ndarray of float64, shape (n,)
        Scores per detector, higher = more likely hallucinated; NaN where undefined.
    answers : Answers
        Labels and groups, and the level of every interval.
    material : Material
        What is known of the answers beside.
    specs : mapping of str to mapping, optional
        Specifications of the detectors.
    undefined : {"flag", "review", "pass"}
        Policy for undefined scores.
    data, reproduce : mapping, optional
        Passed through.

    Raises
    ------
    InputError
        If there is no detector, a class is empty, or arrays differ in length.
    """
    if not values:
        raise InputError("values must hold at least one detector; got none")
    for name, column in {**values, **material.features}.items():
        if len(column) != len(answers):
            raise InputError(f"{name} must have {len(answers)} values; got {len(column)}")
    if not answers.both_classes:
        raise InputError("labels must hold both classes, 1 = hallucinated and 0 = faithful")
    features = [
        *prepare(material.features, answers),
        *prepare_columns(material.divisions, answers),
    ]

    def audited(name: str, column: Floats) -> Audited:
        ranks, lost = ranked_values(column, undefined), answers.by_class(np.isnan(column))
        divided = [stratify(item, column, ranks, answers) for item in material.divisions]
        return Audited(
            name=name,
            score=(specs or {}).get(name, {"name": name}),
            n_undefined={kind: int(part.sum()) for kind, part in zip(CLASSES, lost, strict=True)},
            confounds=tuple(confound(feature, ranks, answers) for feature in features),
            strata=corrected(divided),
            reliability=reliability(column, answers),
            **answers.separation(column, ranks),
        )

    parts = (components(encoder, angles, answers) for encoder, angles in material.angles.items())
    return Audit(
        n_hallucinated=int(np.sum(answers.labels == 1)),
        n_faithful=int(np.sum(answers.labels == 0)),
        n_groups=len(np.unique(answers.clusters)),
        confidence=answers.confidence,
        undefined=undefined,
        seed=answers.seed,
        detectors=tuple(audited(name, column) for name, column in values.items()),
        components=tuple(part for part in parts if part is not None),
        agreement=pair_agreement(values, answers),
        leakage=material.leakage,
        left_out=tuple(material.left_out),
        data=dict(data or {}),
        reproduce=dict(reproduce or {}),
    )
