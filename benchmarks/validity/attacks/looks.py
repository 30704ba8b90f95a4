"""Looks: certify again and again until it is certified."""

from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

import calibrail
from calibrail import Guardrail
from calibrail.options import Requirement

from ..from_files.certificates import frozen
from ..from_files.files import ALONE
from .attack import Attack, Try

#: Answers of one look.
_N: Final = 240
_LITTLE: Final = 1e-6


@lru_cache
def _guardrail() -> Guardrail:
    """Return one guardrail, whose true rates are known, for all attempts."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        return frozen(Path(folder), ALONE, np.random.default_rng(0))


def _again(looks: int, *, declared: bool) -> Try:
    """Return an attempt to get a wrong certificate in one of several looks."""

    def attempt(rng: np.random.Generator, place: Path) -> bool:
        guardrail = _guardrail()
        coverage = ALONE.coverage(guardrail.calibration.threshold)
        limits = Requirement(0.95, coverage + _LITTLE, n_looks=looks if declared else None)
        for _ in range(looks):
            answers = ALONE.draw(rng, _N)
            rows = {"id": answers.names, "label": answers.labels, "s0": answers.scores[0]}
            kept = place / "guardrail.looks.json"
            if calibrail.certify(guardrail, rows, limits, looks=kept).verdict == "certified":
                return True
        return False

    return attempt


ATTACKS = [
    Attack(
        "certified in any of six fresh batches",
        f"coverage just too low, {_N} answers each",
        0.05,
        (15, 70),
        _again(6, declared=False),
    ),
    Attack(
        "certified in any of six declared looks",
        f"coverage just too low, {_N} answers each; undeclared before",
        0.05,
        (15, 70),
        _again(6, declared=True),
    ),
]
