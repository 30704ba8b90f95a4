"""What stands beside the detectors of a run, and why does a baseline not?"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from calibrail.data.example import Example
from calibrail.data.reading import Reading
from calibrail.scores.base import Score
from calibrail.scores.registry import BASELINES, ScoreSpec, build, key_of
from calibrail.scores.table import ScoreTable
from calibrail.settings.checks import yes_or_no

#: What is computed beside the detectors, told from them and the first example.
Beside = Callable[[Sequence[Score], Example], Sequence[Score]]

#: Why no baseline stands beside the detectors at all.
NOT_ASKED: Final = "not asked for"
NO_TEXTS: Final = "no texts"


def baselines_beside(detectors: Sequence[Score], first: Example) -> tuple[Score, ...]:
    """Return the baselines that are not detectors themselves."""
    named = {score.name for score in detectors}
    return tuple(build(ScoreSpec(name)) for name in BASELINES if name not in named)


def nothing_beside(detectors: Sequence[Score], first: Example) -> tuple[Score, ...]:
    """Return nothing, where baselines are not asked for."""
    return ()


def beside_of(short: dict[str, Any]) -> Beside:
    """Return what a call sets beside its detectors; its keyword ``baselines`` is taken out."""
    wanted = short.pop("baselines", True)
    yes_or_no(wanted, "baselines")
    return baselines_beside if wanted else nothing_beside


def stand_beside(
    beside: Beside, detectors: Sequence[Score], examples: Reading, first: Example
) -> tuple[Score, ...]:
    """Return what is computed beside the detectors; no baseline where no answer has a text."""
    if beside is baselines_beside and not _has_answers(examples):
        return ()
    return tuple(beside(detectors, first))


def without_others(beside: Beside, examples: Reading) -> bool:
    """Say whether nothing is computed beside the detectors, whatever the first answer."""
    return beside is nothing_beside or why_none(beside, examples) is not None


def undefined_baselines(
    beside: Beside, others: Sequence[Score], table: ScoreTable
) -> dict[str, str]:
    """Return the baselines that are undefined for every answer, with the first reason."""
    return {
        key: next(iter(table.reasons[key].values()))
        for key in map(key_of, others if beside is baselines_beside else ())
        if np.isnan(table.columns[key]).all()
    }


def why_none(beside: Beside, examples: Reading) -> str | None:
    """Return why there is no baseline at all; None where there may be some."""
    if beside is nothing_beside:
        return NOT_ASKED
    return NO_TEXTS if beside is baselines_beside and not _has_answers(examples) else None


def _has_answers(examples: Reading) -> bool:
    return "response" in examples.columns.present
