"""What does a detector's result rest on, where does it fail, and who agrees with it?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrail.errors import InputError
from calibrail.evaluation.audit.answers import Answers, Floats
from calibrail.evaluation.audit.components import components
from calibrail.evaluation.audit.confounds import Matched, confound, prepare, prepare_columns
from calibrail.evaluation.audit.detector_pairs import pair_agreement
from calibrail.evaluation.audit.leakage import Leakage
from calibrail.evaluation.audit.reliability import reliability
from calibrail.evaluation.audit.result import Audit, Audited, LeftOut
from calibrail.evaluation.audit.strata import Division, corrected, stratify
from calibrail.evaluation.stats.separation import cohens_d, moments
from calibrail.evaluation.stats.undefined import ranked_values


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
    prepared = (
        *prepare(material.features, answers),
        *prepare_columns(material.divisions, answers),
    )
    audited = [
        _audited(
            name,
            (specs or {}).get(name, {"name": name}),
            column,
            ranked_values(column, undefined),
            answers,
            prepared,
            material.divisions,
        )
        for name, column in values.items()
    ]
    parts = (components(encoder, angles, answers) for encoder, angles in material.angles.items())
    known = tuple(part for part in parts if part is not None)
    pairs = pair_agreement(values, answers)
    return Audit(
        n_hallucinated=int(np.sum(answers.labels == 1)),
        n_faithful=int(np.sum(answers.labels == 0)),
        n_groups=len(np.unique(answers.clusters)),
        confidence=answers.confidence,
        undefined=undefined,
        seed=answers.seed,
        detectors=tuple(audited),
        components=known,
        agreement=pairs,
        leakage=material.leakage,
        left_out=tuple(material.left_out),
        data=dict(data or {}),
        reproduce=dict(reproduce or {}),
    )


def _audited(
    name: str,
    score: Mapping[str, Any],
    values: Floats,
    ranks: Floats,
    answers: Answers,
    features: Sequence[Matched],
    divisions: Sequence[Division],
) -> Audited:
    """Return everything about one detector by itself."""
    area = answers.auroc(ranks)
    high, low = answers.by_class(values)
    return Audited(
        name=name,
        score=score,
        n_undefined={
            "hallucinated": int(np.isnan(high).sum()),
            "faithful": int(np.isnan(low).sum()),
        },
        means={"hallucinated": moments(high), "faithful": moments(low)},
        cohens_d=cohens_d(high, low),
        auroc=area,
        reversed=area.lies_below(0.5),
        confounds=tuple(confound(feature, ranks, answers) for feature in features),
        strata=corrected([stratify(item, values, ranks, answers) for item in divisions]),
        reliability=reliability(values, answers),
    )
