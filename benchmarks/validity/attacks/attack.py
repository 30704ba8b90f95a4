"""An attack: a way to a wrong verdict, how often it worked once, and how often it may."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.stats import binom

from calibrail.conformal import clopper_pearson

#: One run in an empty folder: whether the attack led to something wrong; None counts for nothing.
Try = Callable[[np.random.Generator, Path], bool | None]


@dataclass(frozen=True, slots=True)
class Attack:
    """A way to a wrong verdict.

    Attributes
    ----------
    name : str
        What is done, and what is counted as wrong.
    setting : str
        Sizes, shares and promises.
    promised : float
        Highest probability of a wrong result that is stated to users.
    before : tuple of int or None
        Wrong results and runs of the same code before the defect was mended; None where none was
        found.
    attempt : callable
        One run.
    runs : int
        Runs of the full simulation.
    """

    name: str
    setting: str
    promised: float
    before: tuple[int, int] | None
    attempt: Try
    runs: int = 400

    def counted(self, first: int, runs: int) -> tuple[int, int]:
        """Return wrong results and runs that count, of runs by their numbers."""
        seed = zlib.crc32(f"{self.name}, {self.setting}".encode())
        results = []
        for number in range(first, first + runs):
            with TemporaryDirectory() as folder:
                results.append(self.attempt(np.random.default_rng([seed, number]), Path(folder)))
        counting = [bool(result) for result in results if result is not None]
        return sum(counting), len(counting)


def holds(wrong: int, runs: int, promised: float, error: float) -> bool:
    """Return whether chance explains as many wrong results, given what is promised."""
    return bool(binom.sf(wrong - 1, runs, promised) > error)


def row(attack: Attack, wrong: int, runs: int, error: float) -> str:
    """Return an attack's line of the page."""
    low, high = clopper_pearson(wrong, runs, 0.95)
    was = "never more" if attack.before is None else _rate(*attack.before)
    well = "yes" if holds(wrong, runs, attack.promised, error) else "**no**"
    return (
        f"| {attack.name} | {attack.setting} | {attack.promised:g} | {was} | {_rate(wrong, runs)}"
        f" | {low:.3f} to {high:.3f} | {well} |"
    )


def _rate(wrong: int, runs: int) -> str:
    return f"{wrong / runs:.3f} ({wrong} of {runs})"
