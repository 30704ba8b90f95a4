"""Which promises are simulated from file to report, in which settings, how often?

One of them is that the command line says what the call in Python says, so that both keep what one
keeps. The other simulations call Python, on files, since a command also renders a page each time.
"""

import json
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np

import calibrail
from calibrail.errors import InputError
from calibrail.options import Promise, Requirement

from ..check import Check, MeanCheck, Setting, pooled
from ..resume import part
from ..sentences import ALIKE
from . import certificates, people, production, sentences, systems, thresholds
from .files import (
    ALONE,
    COLUMNS,
    LARGE_ARE_HARD,
    QUESTIONS,
    SCORE,
    Population,
    command,
    folder,
    options,
)
from .sentences import Texts
from .thresholds import BY_TOPIC

_LIMIT: Final = Requirement(max_false_alarms=0.4)
#: What is asked of which population.
CASES: Final[dict[str, tuple[Population | Texts, Promise, Requirement]]] = {
    "marginal": (ALONE, Promise(0.2, "marginal"), _LIMIT),
    "pac": (LARGE_ARE_HARD, Promise(0.2, "pac"), _LIMIT),
    "by topic": (BY_TOPIC[-1], Promise(0.2, "marginal", by="topic"), _LIMIT),
    "three-way": (QUESTIONS, Promise(0.2, "marginal", beta=0.1), _LIMIT),
    "by sentence": (
        Texts(ALIKE),
        Promise(0.2, "marginal", unit="sentence"),
        Requirement(min_kept=0.3),
    ),
    "several risks": (ALONE, Promise(0.2), Requirement(risks=("recall>=0.5", "fpr<=0.4"))),
}


def commands_and_calls(at: Setting) -> Iterator[Check]:
    """Say something else by the command line than by the call: never."""
    for design, (population, _, _) in CASES.items():
        rng = at.rng(f"commands, {design}")
        differs: dict[str, list[bool]] = {}
        for _ in range(at.runs):
            with folder() as place:
                labelled, fresh = (
                    _file(population, place, name, rng, at.n) for name in ("labelled", "fresh")
                )
                for name, (said, called) in _pairs(design, labelled, fresh):
                    differs.setdefault(name, []).append(_plain(said) != _plain(called))
        for name, items in differs.items():
            what = f"{name}, command and call differ"
            yield at.check(what, items, 0.0, design=f"{design}, {population.name}")


def _file(
    population: Population | Texts, place: Path, name: str, rng: np.random.Generator, n: int
) -> Path:
    if isinstance(population, Texts):
        return population.write(place, name, population.draw(rng, n))
    return population.write(place, name, population.draw(rng, n))


def _pairs(design: str, labelled: Path, fresh: Path) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Yield for each command what it prints and what the call gives."""
    population, promise, requirement = CASES[design]
    asked = options(promise, requirement)
    said = command("calibrate", labelled, "-o", "run", *COLUMNS, *asked)
    run = calibrail.calibrate(labelled, SCORE, promise, requirement)
    yield "calibrate", (said, run.report.to_dict())
    guardrail = run.freeze()
    said = command("export", "run", "-o", "guardrail.json")
    yield "export", (said["digest"], guardrail.config.digest)
    if requirement.risks:
        # They are frozen in the guardrail.
        requirement = Requirement()
    limits = options(requirement)
    said = command("certify", "guardrail.json", fresh, *limits)
    called = calibrail.certify(guardrail, fresh, requirement, looks="called.looks.json")
    yield "certify", (said, called.to_dict())
    if design not in ("marginal", "pac"):
        return
    words = *COLUMNS, *options(promise)
    # What lies beside a folder is its history, and a call has none.
    said = command("compare", labelled, "-o", "apart/compared", *words, *limits)
    compared = calibrail.compare(labelled, [SCORE], promise, requirement)
    yield "compare", (said, compared.to_dict())
    said = command("shift", labelled, "--test", fresh, "-o", "shifted", *words)
    yield "shift", (said, calibrail.shift(labelled, SCORE, test=fresh, promise=promise).to_dict())
    if population is ALONE:
        said = command("select", "guardrail.json", fresh, "--fdr", "0.1")
        yield "select", (said, calibrail.select(guardrail, fresh, fdr=0.1).to_dict())


def _plain(content: Any) -> Any:
    """Return content as JSON holds it, without the command that a reader would run."""
    content = json.loads(json.dumps(content))
    if isinstance(content, dict):
        content.get("reproduce", {}).pop("command", None)
        for detector in content.get("detectors", ()):
            detector.get("reproduce", {}).pop("command", None)
    return content


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
    each : float
        One of so many of the runs asked for is done; below 1, more of them.
    """

    run: Callable[[Setting], Iterator[Check | MeanCheck]]
    n: int
    alpha: float
    each: float = 1.0

    def lots(self, runs: int) -> list[int]:
        """Return how many of the runs each process takes at a time, never a single one."""
        runs = max(2, math.ceil(runs / self.each))
        n = max(1, runs // LOT)
        return [runs // n + (i < runs % n) for i in range(n)]

    def checks(self, runs: int, seed: int) -> tuple[Check | MeanCheck, ...]:
        """Return the checks after so many runs, or the part of them that is done."""
        at = Setting("continuous", self.n, self.alpha, runs, seed)
        key = ("from files", self.run.__module__, self.run.__qualname__, at)
        return part(key, lambda: tuple(self.run(at)))


#: Runs that one process takes at a time.
LOT: Final = 10
#: Where a hundred labels stand for many judged answers, 2,000 runs.
_MANY: Final = 0.15

#: The slowest first, so that none is left to one process in the end.
FROM_FILES: Final = (
    FromFile(certificates.judge_gates, 400, 0.05, each=2),
    FromFile(certificates.judge_gates, 120, 0.05, each=_MANY),
    FromFile(production.judged_verdicts, 30, 0.2, each=2),
    FromFile(production.session_verdicts, 120, 0.2, each=10),
    FromFile(certificates.seeds_tried, 400, 0.05, each=4),
    FromFile(certificates.calibrate_growing, 400, 0.05, each=2),
    FromFile(certificates.certify_growing, 240, 0.05, each=2),
    FromFile(thresholds.miss_rates, 800, 0.05, each=4),
    FromFile(sentences.verdicts, 60, 0.05, each=4),
    FromFile(sentences.miss_rates, 120, 0.2, each=4),
    FromFile(certificates.broken_risks, 400, 0.1),
    FromFile(certificates.winners_certificate, 400, 0.05),
    FromFile(thresholds.by_topic, 400, 0.2),
    FromFile(thresholds.overlapping_misses, 400, 0.2),
    FromFile(certificates.calibrate_verdicts, 120, 0.05),
    FromFile(thresholds.miss_rates, 200, 0.1),
    FromFile(certificates.winner_among_equals, 200, 0.05),
    FromFile(certificates.certify_verdicts, 120, 0.05),
    FromFile(certificates.tested_verdicts, 120, 0.05, each=2),
    FromFile(production.released, 400, 0.2),
    FromFile(sentences.by_topic, 240, 0.2, each=2),
    FromFile(sentences.shown, 60, 0.2, each=3),
    FromFile(sentences.stopped, 60, 0.2, each=4),
    FromFile(thresholds.miss_rates, 120, 0.2),
    FromFile(thresholds.exceeded_costs, 240, 0.1, each=2),
    FromFile(certificates.certify_by_topic, 240, 0.05),
    FromFile(certificates.by_lot, 400, 0.05),
    FromFile(production.queued_verdicts, 120, 0.2),
    FromFile(certificates.broken_certified, 120, 0.05, each=2),
    FromFile(production.drift_seen, 240, 0.05),
    FromFile(production.until_calibrated, 300, 0.2, each=2),
    FromFile(production.false_alarms, 1000, 0.2, each=5),
    FromFile(production.kept_promises, 200, 0.05),
    FromFile(systems.two_systems, 30, 0.05, each=_MANY),
    FromFile(systems.two_systems, 100, 0.05, each=_MANY),
    FromFile(systems.two_systems, 300, 0.05, each=0.3),
    FromFile(systems.two_systems, 3000, 0.05, each=20),
    FromFile(people.judged_rates, 40, 0.05, each=_MANY),
    FromFile(people.judged_rates, 200, 0.05, each=_MANY),
    FromFile(commands_and_calls, 200, 0.05, each=250),
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
        started = [
            pool.submit(item.checks, lot, seed + number)
            for item in FROM_FILES
            for number, lot in enumerate(item.lots(runs))
        ]
        return pooled(check for result in started for check in result.result())
