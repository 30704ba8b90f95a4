"""Is labelling for a verdict the first look at a guardrail on these traces?

Labels of one folder are one look, whose place among all looks is where it began: what others look
at later takes nothing away from it, and a verdict that is recomputed stays as it is.
"""

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from calibrail.conformal.certificate import Verdict
from calibrail.labelling.folder import agreed_on, read_plan
from calibrail.labelling.ledger import Answer
from calibrail.labelling.plan import SessionPlan
from calibrail.workflow.look import Look, told
from calibrail.workflow.looks import Looks, looks_of


def looks_beside(plan: SessionPlan, given: str | PathLike[str] | None = None) -> Path | None:
    """Return the file of looks at the guardrail that labels are about; None where none can be.

    It stands beside the guardrail that they were begun with. Where the place of that is gone, or
    was never known, it is beside the one given.
    """
    for file in (plan.guardrail_file, given):
        if file is not None and Path(file).parent.is_dir():
            return looks_of(file)
    return None


def look_at_labels(
    folder: Path, plan: SessionPlan, answers: list[Answer], verdict: Verdict
) -> Look:
    """Return the look at these answers of a folder of labels, with what it says."""
    digests = np.array([int(item.draw.digest, 16) for item in answers], np.uint64)
    labels = np.array([-1 if item.label is None else item.label for item in answers], np.int8)
    return replace(
        Look.at(digests, labels, seed=plan.seed),
        verdict=verdict,
        session=agreed_on(folder),
        traces=plan.traces.sha256 or "",
        folder=str(folder.absolute()),
    )


def begin_look(folder: Path, looks: str | PathLike[str] | None) -> list[dict[str, Any]]:
    """Keep that labelling has begun; return earlier looks on which nothing can be certified.

    Raises
    ------
    DataError
        If the file of looks is damaged, or cannot be written.
    """
    plan = read_plan(folder)
    look = look_at_labels(folder, plan, [], "inconclusive")
    earlier = Looks(looks).record(plan.guardrail, look)
    return [item for item in told(earlier) if item["same_traces"]]
