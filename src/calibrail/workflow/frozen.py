"""What does a guardrail hold, without its detector, which may be a large model?"""

from os import PathLike
from pathlib import Path

from calibrail.conformal import parse_risk
from calibrail.guardrail.file import read_file
from calibrail.guardrail.frozen import FrozenConfig
from calibrail.guardrail.runtime import Guardrail


def frozen_config(
    guardrail: Guardrail | FrozenConfig | str | PathLike[str],
) -> tuple[FrozenConfig, Path | None]:
    """Return what a guardrail holds, and the file it was read from; its detector is not built."""
    if isinstance(guardrail, FrozenConfig):
        return guardrail, None
    if isinstance(guardrail, str | PathLike):
        read = read_file(guardrail)
        return read.config, read.origin.path
    loaded = Guardrail.of(guardrail)
    return loaded.config, None if loaded.origin is None else loaded.origin.path


def frozen_limits(config: FrozenConfig) -> tuple[float | None, float | None]:
    """Return the coverage that a guardrail promises and the FPR that it may not exceed.

    Either is None where nobody said, or where it is no share between 0 and 1.
    """
    requirement = config.requirement
    kept = {risk.name: risk.level for risk in map(parse_risk, requirement.risks)}
    coverage = kept.get("recall") if kept else requirement.coverage(config.promise)
    fpr = kept.get("fpr") if kept else requirement.max_fpr
    least, most = (
        limit if limit is not None and 0.0 < limit < 1.0 else None for limit in (coverage, fpr)
    )
    return least, most
