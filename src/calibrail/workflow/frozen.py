"""What does a guardrail hold, without its detector, which may be a large model?"""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from calibrail.conformal import DECISIONS, parse_risk
from calibrail.conformal.rule import Rule
from calibrail.conformal.validation import Bools, Floats
from calibrail.errors import DataError
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


def refuse_other_flags(
    config: FrozenConfig,
    scores: Floats,
    flagged: Bools,
    groups: Sequence[str | None],
    path: Path,
) -> None:
    """Refuse flags that the frozen threshold does not give to the scores beside them.

    Parameters
    ----------
    config : FrozenConfig
        The guardrail.
    scores, flagged : ndarray of shape (n,)
        Of answers drawn; NaN where undefined, of which the policy says what becomes.
    groups : sequence of str or None
        Theirs; where the guardrail has thresholds by group, answers without one are not looked at.
    path : Path
        The file, whose line n holds the n-th answer.

    Raises
    ------
    DataError
        The line is named.
    """
    rule = Rule.from_dict(vars(config))
    known = ~np.isnan(scores)
    if rule.groups is not None:
        known &= np.array([group is not None for group in groups], np.bool_)
    places = np.flatnonzero(known)
    if not len(places):
        return
    named = None if rule.groups is None else [str(groups[place]) for place in places.tolist()]
    codes = rule.decide(scores[places], named, config.score.tolerance)
    for place, code in zip(places.tolist(), codes.tolist(), strict=True):
        outcome = DECISIONS[code]
        if (outcome != "pass") != flagged[place]:
            raise DataError(
                f"{path}, line {place + 1}: the guardrail's decision on a score of "
                f"{scores[place]:.6g} is {outcome}, and flagged says "
                f"{str(bool(flagged[place])).lower()}; restore the line from a copy"
            )
