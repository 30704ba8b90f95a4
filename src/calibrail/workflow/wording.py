"""How does a measured report get its sentences?"""

from dataclasses import replace

from calibrail.evaluation import Report
from calibrail.report.documents.calibrate_findings import baselines_finding, message, reason


def worded(report: Report) -> Report:
    """Return a report of ``evaluate`` with its codes put into words."""
    content = report.to_dict()
    why, confounds = reason(content), report.confounds
    return replace(
        report,
        reason=why,
        certificate={**report.certificate, "reason": why},
        warnings=tuple(
            replace(item, message=message(item.code, content, item.values))
            for item in report.warnings
        ),
        confounds=confounds and {**confounds, "finding": baselines_finding(confounds)},
    )
