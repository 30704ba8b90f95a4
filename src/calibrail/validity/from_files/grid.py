"""Which promises are simulated from file to report, in which settings, how often?"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Final

from calibrail.errors import InputError
from calibrail.validity.check import Check, MeanCheck, Setting
from calibrail.validity.from_files import (
    batches,
    certificates,
    choices,
    command_line,
    copied,
    labelled,
    overlapping,
    sessions,
    streamed,
    thresholds,
    trimming,
    watching,
)
from calibrail.validity.from_files import looks as looking


@dataclass(frozen=True, slots=True)
class FromFile:
    """One simulation in one setting.

    Attributes
    ----------
    run : callable
        Takes a setting, yields its checks.
    n : int
        Groups of answers in a file; where answers stand alone, answers.
    alpha : float
        As in ``Setting``.
    each : int
        One of so many of the runs asked for is done.
    """

    run: Callable[[Setting], Iterator[Check | MeanCheck]]
    n: int
    alpha: float
    each: int = 1

    def checks(self, runs: int, seed: int) -> tuple[Check | MeanCheck, ...]:
        """Return the checks after so many runs, or the part of them that is done."""
        runs = max(2, math.ceil(runs / self.each))
        return tuple(self.run(Setting("continuous", self.n, self.alpha, runs, seed)))


#: The slowest first, so that none is left to one process in the end.
FROM_FILES: Final = (
    FromFile(looking.seeds_tried, 400, 0.05, each=4),
    FromFile(looking.calibrate_growing, 400, 0.05, each=2),
    FromFile(looking.certify_growing, 240, 0.05, each=2),
    FromFile(thresholds.miss_rates, 800, 0.05, each=4),
    FromFile(trimming.verdicts, 60, 0.05, each=4),
    FromFile(trimming.miss_rates, 120, 0.2, each=4),
    FromFile(choices.broken_risks, 400, 0.1),
    FromFile(choices.winners_certificate, 400, 0.05),
    FromFile(thresholds.by_topic, 400, 0.2),
    FromFile(overlapping.misses, 400, 0.2),
    FromFile(certificates.calibrate_verdicts, 120, 0.05),
    FromFile(thresholds.miss_rates, 200, 0.1),
    FromFile(choices.winner_among_equals, 200, 0.05),
    FromFile(certificates.certify_verdicts, 120, 0.05),
    FromFile(batches.released, 400, 0.2),
    FromFile(trimming.by_topic, 240, 0.2, each=2),
    FromFile(trimming.shown, 60, 0.2, each=3),
    FromFile(streamed.stopped, 60, 0.2, each=4),
    FromFile(thresholds.miss_rates, 120, 0.2),
    FromFile(certificates.certify_by_topic, 240, 0.05),
    FromFile(certificates.by_lot, 400, 0.05),
    FromFile(sessions.session_verdicts, 120, 0.2, each=10),
    FromFile(copied.broken_certified, 120, 0.05, each=2),
    FromFile(batches.drift_seen, 240, 0.05),
    FromFile(labelled.until_calibrated, 300, 0.2, each=2),
    FromFile(watching.false_alarms, 1000, 0.2, each=5),
    FromFile(watching.kept_promises, 200, 0.05, each=5),
    FromFile(command_line.commands_and_calls, 200, 0.05, each=250),
)


def simulate_from_files(
    runs: int = 1000, *, seed: int = 0, processes: int = 1
) -> tuple[Check | MeanCheck, ...]:
    """Simulate every promise as a user gets it: a file is written, read, split and judged.

    Parameters
    ----------
    runs : int
        Repetitions of each setting; the slowest are repeated less often (see ``FROM_FILES``).
    seed : int
        Same seed, same counts.
    processes : int
        How many work at the same time. The result does not depend on it.

    Returns
    -------
    tuple of Check or MeanCheck
    """
    if runs < 1:
        raise InputError(f"runs must be at least 1; got {runs}")
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        started = [pool.submit(item.checks, runs, seed) for item in FROM_FILES]
        return tuple(check for result in started for check in result.result())
