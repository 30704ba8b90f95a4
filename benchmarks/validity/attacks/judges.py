"""Corrected rates where a judge and a detector err on the same answers.

A rate that is shown, with an interval that does not hold the true one, counts as wrong.
"""

import csv
from pathlib import Path
from typing import Final

import numpy as np

from calibrail.options import ScoreThreshold
from calibrail.pipelines.agree import agree

from .attack import Attack, Try

#: Answers that the judge labels, and the share of them that is hallucinated.
_N: Final = 1500
_PREVALENCE: Final = 0.3
#: Of what is caught, of false alarms, and of what the judge gets wrong in either class.
_COVERAGE: Final = 0.9
_ALARMS: Final = 0.2
_ERROR: Final = 0.1


def _together(link: float, flagged: float, called: float) -> list[float]:
    """Return P(passed or flagged, not called or called), linked by a share of the most."""
    along = link * min(called * (1 - flagged), flagged * (1 - called))
    return [
        (1 - flagged) * (1 - called) + along,
        (1 - flagged) * called - along,
        flagged * (1 - called) - along,
        flagged * called + along,
    ]


def corrected(link: float, by_people: int) -> Try:
    """Return an attempt to be shown a wrong rate."""
    kinds = [_together(link, _ALARMS, _ERROR), _together(link, _COVERAGE, 1 - _ERROR)]

    def attempt(rng: np.random.Generator, folder: Path) -> bool | None:
        truth = (rng.random(_N) < _PREVALENCE).astype(int)
        drawn = [rng.choice(4, _N, p=kind) for kind in kinds]
        cells = np.where(truth == 1, drawn[1], drawn[0])
        with (folder / "judged.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["id", "human", "judge", "score"])
            for row, (label, cell) in enumerate(zip(truth.tolist(), cells.tolist(), strict=True)):
                rows.writerow([row, label if row < by_people else "", cell % 2, cell // 2])
        scores = ScoreThreshold("score", "hallucinated", 0.5)
        rate = agree(folder / "judged.csv", human="human", judge="judge", scores=scores)
        measure = rate.rates["coverage"].rogan_gladen.measure
        if measure.lower is None or measure.upper is None:
            return False
        return not measure.lower <= _COVERAGE <= measure.upper

    return attempt


_SHOWN = "agree: a corrected rate that is wrong, judge and detector linked by"

ATTACKS = [
    Attack(
        f"{_SHOWN} half of the most",
        f"{_N} answers, 400 by people",
        0.05,
        (28, 40),
        corrected(0.5, 400),
        200,
    ),
    Attack(
        f"{_SHOWN} half of the most, few labels",
        f"{_N} answers, 60 by people",
        0.05,
        (28, 40),
        corrected(0.5, 60),
        200,
    ),
]
