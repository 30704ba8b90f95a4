"""What does a detector's result rest on, where does it fail, and who agrees with it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import InputError
from calibrail.evaluation.audit import conclusions as said
from calibrail.evaluation.audit.components import Components, components
from calibrail.evaluation.audit.confounds import confound, prepare, prepare_columns
from calibrail.evaluation.audit.detector_pairs import Pair, agreement
from calibrail.evaluation.audit.leakage import Leakage
from calibrail.evaluation.audit.reliability import reliability
from calibrail.evaluation.audit.result import Audit, Audited, Conclusion, LeftOut
from calibrail.evaluation.audit.strata import Division, corrected, stratify
from calibrail.evaluation.audit.wording import called, third
from calibrail.evaluation.stats.measure import checked_confidence
from calibrail.evaluation.stats.ranking import area_measure
from calibrail.evaluation.stats.separation import cohens_d, moments
from calibrail.evaluation.stats.undefined import ranked_values

_Floats = NDArray[np.float64]


def audit_scores(
    values: Mapping[str, _Floats],
    *,
    labels: NDArray[np.int8],
    clusters: NDArray[np.int64],
    leakage: Leakage,
    features: Mapping[str, _Floats] | None = None,
    divisions: Sequence[Division] = (),
    angles: Mapping[str, Mapping[str, _Floats]] | None = None,
    specs: Mapping[str, Mapping[str, Any]] | None = None,
    left_out: Sequence[LeftOut] = (),
    undefined: str = "flag",
    confidence: float = 0.95,
    seed: int = 0,
    data: Mapping[str, Any] | None = None,
    reproduce: Mapping[str, Any] | None = None,
) -> Audit:
    """Audit detectors on labelled answers.

    Parameters
    ----------
    values : mapping of str to ndarray of float64, shape (n,)
        Scores per detector, higher = more likely hallucinated; NaN where undefined.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.
    clusters : ndarray of int64, shape (n,)
        What answers hang together; a number of its own for one that stands alone.
    leakage : Leakage
        What could give labels away.
    features : mapping of str to ndarray of float64, shape (n,)
        Surface features, NaN where undefined.
    divisions : sequence of Division
        How to divide answers into strata.
    angles : mapping of str to mapping, optional
        Per encoder, the angles ``theta_rq`` and ``theta_rc``.
    specs : mapping of str to mapping, optional
        Specifications of the detectors.
    left_out : sequence of LeftOut
        Parts that could not be prepared.
    undefined : {"flag", "review", "pass"}
        Policy for undefined scores.
    confidence : float
        Level of every interval.
    seed : int
        Seed of the folds.
    data, reproduce : mapping, optional
        Passed through.

    Raises
    ------
    InputError
        If there is no detector, a class is empty, or arrays differ in length.
    """
    level = checked_confidence(confidence)
    if not values:
        raise InputError("values must hold at least one detector; got none")
    for name, column in {**values, **(features or {}), "clusters": clusters}.items():
        if len(column) != len(labels):
            raise InputError(f"{name} must have {len(labels)} values; got {len(column)}")
    if not ((labels == 1).any() and (labels == 0).any()):
        raise InputError("labels must hold both classes, 1 = hallucinated and 0 = faithful")
    prepared = (
        *prepare(features or {}, labels, clusters, seed),
        *prepare_columns(divisions, labels, clusters, seed),
    )
    audited = []
    for name, column in values.items():
        ranks = ranked_values(column, undefined)
        area = area_measure(ranks, labels, clusters, level)
        high, low = column[labels == 1], column[labels == 0]
        audited.append(
            Audited(
                name=name,
                score=(specs or {}).get(name, {"name": name}),
                n_undefined={
                    "hallucinated": int(np.isnan(high).sum()),
                    "faithful": int(np.isnan(low).sum()),
                },
                means={"hallucinated": moments(high), "faithful": moments(low)},
                cohens_d=cohens_d(high, low),
                auroc=area,
                reversed=area.upper is not None and area.upper < 0.5,
                confounds=tuple(
                    confound(item, ranks, labels, clusters, level, seed) for item in prepared
                ),
                strata=corrected(
                    [
                        stratify(division, column, ranks, labels, clusters, level)
                        for division in divisions
                    ]
                ),
                reliability=reliability(column, labels, clusters, level, seed),
            )
        )
    parts = [
        components(encoder, item, labels, clusters, level)
        for encoder, item in (angles or {}).items()
    ]
    pairs = agreement(values, labels, clusters, level)
    known = tuple(part for part in parts if part is not None)
    return Audit(
        n_hallucinated=int(np.sum(labels == 1)),
        n_faithful=int(np.sum(labels == 0)),
        n_groups=len(np.unique(clusters)),
        confidence=level,
        undefined=undefined,
        seed=seed,
        conclusions=tuple(_conclusions(audited, known, pairs, leakage, level, undefined)),
        detectors=tuple(audited),
        components=known,
        agreement=pairs,
        leakage=leakage,
        left_out=tuple(left_out),
        data=dict(data or {}),
        reproduce=dict(reproduce or {}),
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
