"""What does a detector's result rest on, where does it fail, and who agrees with it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrail.errors import InputError
from calibrail.evaluation.audit import conclusions as said
from calibrail.evaluation.audit.answers import Answers, Floats
from calibrail.evaluation.audit.components import Components, components
from calibrail.evaluation.audit.confounds import Matched, confound, prepare, prepare_columns
from calibrail.evaluation.audit.detector_pairs import Pair, pair_agreement
from calibrail.evaluation.audit.leakage import Leakage
from calibrail.evaluation.audit.reliability import reliability
from calibrail.evaluation.audit.result import Audit, Audited, Conclusion, LeftOut
from calibrail.evaluation.audit.strata import Division, corrected, stratify
from calibrail.evaluation.audit.wording import called, third
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
        conclusions=tuple(
            _conclusions(audited, known, pairs, material.leakage, answers.confidence, undefined)
        ),
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


def _conclusions(
    audited: Sequence[Audited],
    parts: Sequence[Components],
    pairs: Sequence[Pair],
    leakage: Leakage,
    confidence: float,
    undefined: str,
) -> list[Conclusion]:
    """Return all sentences: what explains each result first, the data's own last."""
    found: list[tuple[str, str | None, str | None]] = []
    for item in audited:
        where = [
            f"{called(division.name)}: {third(division.name, stratum.name)}"
            for division in item.strata
            for stratum in division.strata
            if stratum.reversed
        ]
        found.append(("reversed", item.name, said.reversed_sentence(item.name, item.auroc, where)))
        main = said.main_sentence(item.name, item.confounds)
        found.append(("lead", item.name, said.lead_sentence(item.name, item.confounds)))
        found.append(("confounds", item.name, main or said.result_sentence(item.name, item.auroc)))
        length = said.length_sentence(item.name, item.confounds, main)
        found.append(("length", item.name, length))
    for item in audited:
        for division in item.strata:
            sentence = said.strata_sentence(item.name, division, confidence)
            found.append(("strata", item.name, sentence))
        found.append(
            ("reliability", item.name, said.reliability_sentence(item.name, item.reliability))
        )
        total = sum(item.n_undefined.values())
        if total:
            meaning = "as if passed" if undefined == "pass" else "above every other"
            found.append((
                "undefined", item.name,
                f"{item.name} is undefined for {item.n_undefined['hallucinated']:,} hallucinated "
                f"and {item.n_undefined['faithful']:,} faithful answers; they rank {meaning} "
                f"(policy: {undefined}).",
            ))  # fmt: skip
    found.extend(("components", None, said.components_sentence(part)) for part in parts)
    found.append(("agreement", None, said.agreement_sentence(pairs)))
    found.extend((code, None, text) for code, text in said.leakage_sentences(leakage))
    return [Conclusion(code, name, text) for code, name, text in found if text is not None]
