"""Which promises are simulated, in which settings, how often?"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from multiprocessing import get_context
from typing import Final, Generic, TypeVar

from calibrail.conformal import Guarantee, minimum_n
from calibrail.errors import InputError

from . import certificates, groups, monitoring, sentences, sequential, thresholds
from .check import DELTA, KINDS, Check, Kind, Observation, Setting
from .resume import part

SIZES: Final = (19, 30, 100, 600)
ALPHAS: Final = (0.01, 0.05, 0.1, 0.2)

_Result = TypeVar("_Result", Check, Observation)


@dataclass(frozen=True, slots=True)
class Simulation(Generic[_Result]):
    """One simulation with the settings that it is run in.

    Attributes
    ----------
    run : callable
        Takes a setting, yields the results there.
    guarantee : {"marginal", "pac", "anytime"} or None
        A setting is left out where n is below its minimum.
    kinds : sequence of str
        Score distributions; the first alone where scores play no part.
    each : int
        One of so many of the runs asked for is done: 1 where all runs are one array operation.
    delta : float
        Of the minimum for ``pac`` and ``anytime``.
    sizes, alphas : sequences or None
        The only ones of those asked for, where more would take too long.
    """

    run: Callable[[Setting], Iterator[_Result]]
    guarantee: Guarantee | None = None
    kinds: Sequence[Kind] = KINDS
    each: int = 1
    delta: float = DELTA
    sizes: Sequence[int] | None = None
    alphas: Sequence[float] | None = None

    def includes(self, n: int, alpha: float, kind: Kind) -> bool:
        """Return whether this simulation is run in a setting."""
        return (
            kind in self.kinds
            and (self.sizes is None or n in self.sizes)
            and (self.alphas is None or alpha in self.alphas)
            and (self.guarantee is None or n >= minimum_n(alpha, self.guarantee, self.delta))
        )


_ONE: Final = KINDS[:1]
PROMISES: Final[tuple[Simulation[Check], ...]] = (
    Simulation(thresholds.marginal_coverage, "marginal"),
    Simulation(thresholds.training_conditional, "pac"),
    Simulation(thresholds.anytime_ever, "anytime"),
    Simulation(thresholds.undefined_passed, "marginal"),
    Simulation(thresholds.p_value_uniformity),
    Simulation(thresholds.band_coverage, "marginal"),
    Simulation(certificates.wrong_verdicts, kinds=_ONE),
    Simulation(certificates.wrong_joint_certificate, "pac"),
    Simulation(certificates.wrong_group_verdicts, kinds=_ONE),
    Simulation(certificates.holm_family, kinds=_ONE, each=2),
    Simulation(certificates.wrong_labels, kinds=_ONE),
    Simulation(thresholds.band_everywhere, kinds=_ONE),
    Simulation(thresholds.band_everywhere, kinds=KINDS[1:], each=25),
    Simulation(groups.clustered_marginal, "marginal", each=5),
    Simulation(groups.clustered_pac, "pac", each=20),
    Simulation(groups.clustered_selection, each=20),
    Simulation(groups.grouped_marginal, "marginal", each=10),
    Simulation(groups.grouped_pac, "pac", each=10),
    Simulation(groups.fallback, "marginal", each=10),
    Simulation(
        groups.overlapping_marginal, "marginal", each=10, sizes=(30, 100, 600), alphas=(0.1,)
    ),
    Simulation(certificates.false_discovery_rate, "marginal", each=5),
    Simulation(certificates.storey_rate, each=10),
    Simulation(certificates.both_classes_rate, each=10),
    Simulation(
        certificates.discoveries_everywhere,
        kinds=("continuous", "tied"),
        each=40,
        sizes=(30, 100),
        alphas=(0.1,),
    ),
    Simulation(thresholds.three_way_marginal, "marginal", each=10),
    Simulation(thresholds.three_way_pac, "pac", each=10),
    Simulation(thresholds.weighted_coverage, each=4),
    *(
        Simulation(run, kinds=_ONE, sizes=(100,), alphas=(0.1,))
        for run in (sequential.uniform, sequential.active, sequential.groups)
    ),
    Simulation(sequential.disagreements, kinds=_ONE, each=5, sizes=(100,), alphas=(0.1,)),
    Simulation(sequential.judged, kinds=_ONE, each=5, sizes=(100,), alphas=(0.1,)),
    Simulation(monitoring.one_feature, sizes=(100, 600), alphas=(0.1,)),
    Simulation(monitoring.several_features, each=4, sizes=(100,), alphas=(0.1,)),
    *(
        Simulation(run, kinds=_ONE, each=each, sizes=(100,), alphas=(0.1,))
        for run, each in (
            (monitoring.promise_uniform, 1),
            (monitoring.promise_active, 1),
            (monitoring.promise_late, 10),
        )
    ),
    *(
        Simulation(run, kinds=_ONE, each=each, sizes=(100, 600), alphas=(0.1,))
        for run, each in (
            (sequential.recalibrated_uniform, 5),
            (sequential.recalibrated_active, 50),
        )
    ),
    Simulation(sentences.removed, "marginal"),
    Simulation(sentences.removed_undefined, "marginal", sizes=(30, 100)),
    Simulation(sentences.removed_pac, "pac", _ONE),
    *(
        Simulation(run, "marginal", each=10, sizes=(30, 100))
        for run in (sentences.removed_clustered, sentences.removed_by_topic, sentences.stopped)
    ),
    Simulation(sentences.kept_bound, kinds=_ONE, sizes=(30, 100, 600), alphas=(0.05, 0.1)),
    Simulation(sentences.wrong_verdicts, kinds=_ONE, each=2, sizes=(30, 100), alphas=(0.1,)),
    Simulation(certificates.several_risks, kinds=_ONE, each=80, sizes=(30, 100)),
    Simulation(certificates.risk_that_turns, kinds=_ONE, each=80, sizes=(30, 100, 600)),
)
OTHERS: Final[tuple[Simulation[Observation], ...]] = (
    Simulation(thresholds.undefined_passed_where_returned, "marginal", _ONE),
    Simulation(groups.naive_on_clusters, "marginal", _ONE, each=5),
    Simulation(groups.pooled_over_groups, "marginal", _ONE, each=10),
    Simulation(groups.overlapping_beside, "marginal", _ONE, each=10, sizes=(100,), alphas=(0.1,)),
    Simulation(thresholds.without_known_ratio, "marginal", _ONE, each=4),
    Simulation(certificates.wrong_labels_ignored, kinds=_ONE),
    Simulation(monitoring.clustered, kinds=_ONE, each=10, sizes=(600,), alphas=(0.1,)),
)


def simulate(
    runs: int = 10_000,
    *,
    sizes: Sequence[int] = SIZES,
    alphas: Sequence[float] = ALPHAS,
    kinds: Sequence[Kind] = KINDS,
    seed: int = 0,
    processes: int = 1,
) -> tuple[Check, ...]:
    """Simulate every promise in every setting that has enough examples for it.

    Parameters
    ----------
    runs : int
        Repetitions of each setting. Promises that need a call per repetition are repeated less
        often (``Check.runs``), with wider limits, and the slowest in fewer settings; see
        ``PROMISES``.
    sizes, alphas, kinds : sequences
        The settings: numbers of examples, tolerated miss rates (or other errors), score
        distributions.
    seed : int
        Same seed, same counts.
    processes : int
        How many work at the same time. The result does not depend on it.

    Returns
    -------
    tuple of Check
    """
    return tuple(_results(PROMISES, runs, list(product(sizes, alphas, kinds)), seed, processes))


def observe(
    runs: int = 10_000,
    *,
    sizes: Sequence[int] = SIZES,
    alphas: Sequence[float] = ALPHAS,
    seed: int = 0,
    processes: int = 1,
) -> tuple[Observation, ...]:
    """Simulate what is not promised, on the data of ``simulate`` with the same seed.

    Naive calibration on clusters, one threshold over groups of different difficulty, a shift that
    is ignored or estimated, wrong labels that a certificate does not claim to survive. Scores are
    continuous.

    Parameters
    ----------
    runs, sizes, alphas, seed, processes
        As for ``simulate``.

    Returns
    -------
    tuple of Observation
    """
    return tuple(_results(OTHERS, runs, list(product(sizes, alphas, _ONE)), seed, processes))


def _results(
    simulations: Sequence[Simulation[_Result]],
    runs: int,
    cells: Sequence[tuple[int, float, Kind]],
    seed: int,
    processes: int,
) -> Iterator[_Result]:
    if runs < 1:
        raise InputError(f"runs must be at least 1; got {runs}")
    work = [
        partial(_done, item.run, Setting(kind, n, alpha, math.ceil(runs / item.each), seed))
        for item in simulations
        for n, alpha, kind in cells
        if item.includes(n, alpha, kind)
    ]
    if processes == 1:
        yield from chain.from_iterable(task() for task in work)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        started = [pool.submit(task) for task in work]
        yield from chain.from_iterable(result.result() for result in started)


def _done(run: Callable[[Setting], Iterator[_Result]], setting: Setting) -> list[_Result]:
    return part((run.__module__, run.__qualname__, setting), lambda: list(run(setting)))
