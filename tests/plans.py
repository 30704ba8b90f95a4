"""Plans by the names of what they are made from, as the command line has them."""

from __future__ import annotations

from typing import Any

from calibrail.conformal.power import Assumption, Plan, plan
from calibrail.options import Promise, Requirement


def planned(alpha: float, **options: Any) -> Plan:
    """Return the plan of a ``pac`` threshold, each option in the object it belongs to."""

    def taken(*names: str) -> dict[str, Any]:
        return {name: options.pop(name) for name in names if name in options}

    promise = Promise(alpha, **{"guarantee": "pac", **taken("guarantee", "delta")})
    requirement = Requirement(**taken("max_fpr", "min_coverage", "confidence"))
    assumption = Assumption(**taken("coverage", "fpr", "auroc", "separation"))
    return plan(promise, requirement, assumption, **options)
