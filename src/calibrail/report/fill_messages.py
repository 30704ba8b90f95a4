"""Words of a report, made from its codes."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from calibrail.evaluation import Report
from calibrail.report.documents.calibrate_messages import baselines_finding, message, reason
from calibrail.report.documents.measures import spell

Result = TypeVar("Result")


def worded(report: Report) -> Report:
    """Return a report of ``evaluate`` with its codes put into words."""
    content = report.to_dict()
    n_assumed = sum(item.values.get("n_sharing", 0) for item in report.warnings)
    why, confounds = reason(content, n_assumed), report.confounds
    said = replace(
        report,
        reason=why,
        certificate={**report.certificate, "reason": why},
        warnings=tuple(
            replace(item, message=message(item.code, content, item.values))
            for item in report.warnings
        ),
        confounds=confounds and {**confounds, "finding": baselines_finding(confounds)},
    )
    return spelled(said)


def spelled(result: Result) -> Result:
    """Return a result in which every ``reason`` why a measure is missing is in words."""
    spelt: Result = _spelled(result)
    return spelt


def _spelled(value: Any) -> Any:
    """Return a value with its reasons in words, however deep; the same object without any."""
    if isinstance(value, tuple | list):
        items = [_spelled(item) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else type(value)(items)
    if is_dataclass(value):
        parts = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    elif isinstance(value, Mapping):
        parts = dict(value)
    else:
        return value
    changed = {
        name: new
        for name, part in parts.items()
        if (new := spell(part) if name == "reason" and isinstance(part, str) else _spelled(part))
        is not part
    }
    if not changed:
        return value
    return parts | changed if isinstance(value, Mapping) else replace(value, **changed)
