"""How do tests measure one detector, or compare several, in one line?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal.threshold_rule import Rule, fit_rule
from calibrail.evaluation import Others, Report, ReportOrigin, Sample, evaluate
from calibrail.evaluation.compare import Comparison, compare_detectors
from calibrail.options import Promise, Requirement
from calibrail.report.documents.calibrate_sections import add_messages


def _taken(kind: type[Any], options: dict[str, Any]) -> Any:
    names = [item.name for item in fields(kind) if item.name in options]
    return kind(**{name: options.pop(name) for name in names})


def measure(sample: Sample, **options: Any) -> Report:
    """Evaluate, in words; the options are those of ``evaluated``."""
    return add_messages(evaluated(sample, **options))


def evaluated(
    sample: Sample,
    *,
    rule: Rule | None = None,
    names: Sequence[str] | None = None,
    score: str | Mapping[str, Any] = "toy",
    baselines: Mapping[str, NDArray[np.float64]] | None = None,
    others: Mapping[str, NDArray[np.float64]] | None = None,
    **options: Any,
) -> Report:
    """Evaluate; further options are fields of the promise, the requirement and the origin."""
    options = {"alpha": 0.1, "guarantee": "marginal", **options}
    promise, requirement = _taken(Promise, options), _taken(Requirement, options)
    promise = promise.settled(requirement)
    if rule is None:
        clusters = sample.groups if promise.clustered else None
        rule = fit_rule(
            sample.values, sample.labels, sample.rows(1), promise, clusters=clusters, names=names
        )
    if isinstance(score, str):
        score = {"name": score, "params": {}}

    def beside(table: Mapping[str, NDArray[np.float64]] | None) -> dict[str, Sample]:
        return {name: replace(sample, values=column) for name, column in (table or {}).items()}

    risks = options.pop("control", None)
    return evaluate(
        rule,
        sample,
        promise,
        requirement,
        ReportOrigin(score, **options),
        others=Others(beside(baselines), beside(others)),
        names=names,
        risks=risks,
    )


def compare(
    columns: Mapping[str, NDArray[np.float64]],
    *,
    labels: NDArray[np.int8],
    codes: NDArray[np.int8],
    groups: NDArray[np.int64] | None = None,
    baselines: Mapping[str, NDArray[np.float64]] | None = None,
    **options: Any,
) -> Comparison:
    """Compare; further options are fields of the promise, the requirement and the origins."""
    options = {"alpha": 0.1, "guarantee": "marginal", **options}
    promise, requirement = _taken(Promise, options), _taken(Requirement, options)
    sample = Sample(np.zeros(len(labels)), labels, codes, groups)
    result = compare_detectors(
        {name: sample.with_scores(column) for name, column in columns.items()},
        promise,
        requirement,
        {name: ReportOrigin({"name": name, "params": {}}, **options) for name in columns},
        baselines={name: sample.with_scores(x) for name, x in (baselines or {}).items()},
    )
    reports = tuple((name, add_messages(report)) for name, report in result.detectors)
    return replace(result, detectors=reports)
