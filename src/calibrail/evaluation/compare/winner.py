"""Which detector raises the fewest false alarms, and does data that did not choose it say so?

The test part is halved by group.

- Calibration and the first half together **choose**. At the coverage that all were calibrated to,
  the detector with the lowest FPR is the candidate. It wins if it separates from every other
  detector and from every baseline at the stated confidence, by tests that are Holm-adjusted within
  each of these two families and set every threshold anew in every draw (``false_alarms``): so
  calibration answers may take part, and the luck of one calibration is not taken for merit.
- The second half **confirms**, for the threshold at hand. It had no part in the choice, so its
  exact bounds (Clopper-Pearson) certify the winner without bias, and McNemar's test says whether
  the winner's threshold flags fewer faithful answers than those of the runner-up and of the best
  baseline. Where it says the opposite of one of them, there is no winner. Without a winner this
  half is not looked at.

How often is a detector named that is not the best? To be named, it has to separate from the best
one, too, which a two-sided test at level e allows at most with probability e / 2. With several
equally good detectors each may be that one, but each has to separate from all others as well;
simulated, the share stays below e (a test holds that).

A ``pac`` threshold is not certified by construction here: its error holds for one detector named in
advance, not for the one of several that happened to flag least.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from calibrail.conformal import Bound, certify_counts
from calibrail.conformal.rank import decimal
from calibrail.data.splits import CALIBRATION as FIRST
from calibrail.data.splits import split
from calibrail.evaluation.compare.candidate import Candidate, Candidates
from calibrail.evaluation.compare.false_alarms import FalseAlarms
from calibrail.evaluation.compare.paired import PairedTest, paired_tests
from calibrail.evaluation.sample import CALIBRATION, FIT, TEST, Codes, Sample
from calibrail.evaluation.stats.auroc import auroc
from calibrail.record import Record
from calibrail.settings import Requirement

#: Halves of the test part, as ``halve`` names them; 0 = not for testing.
CHOOSING: Final = 1
CONFIRMING: Final = 2
#: More than this many times the data is no advice.
_MOST_TIMES: Final = 20.0


@dataclass(frozen=True, slots=True)
class Winner(Record):
    """What the two halves of the test part say about who is best.

    Attributes
    ----------
    name : str or None
        The winner; None where the data that chooses does not separate the candidate from all, or
        the data that confirms contradicts it.
    candidate : str or None
        The detector with the lowest FPR at the same coverage; None where none can be compared.
    runner_up, best_baseline : str or None
        The next detector, and the best baseline.
    ahead_of, not_separated : tuple of str
        From whom the data separates the candidate, and from whom it does not.
    halves : mapping
        Under ``choosing`` and ``confirming``, the number of examples of each class; the seed; the
        rank of every threshold among the hallucinated examples that choose, or among their groups
        where thresholds count groups.
    choosing : tuple of PairedTest
        Every other score against the candidate, the nearest first.
    baseline_tests : tuple of PairedTest
        Every detector against the best baseline, on the data that chooses.
    confirming : tuple of PairedTest
        Runner-up and best baseline against the winner, thresholds as they are, on the confirming
        half.
    confirmed : bool or None
        Whether the confirming half separates the winner from both; None without a winner.
    contradicted_by : tuple of str
        Whose thresholds flag fewer faithful answers of the confirming half than the candidate's,
        beyond chance: then nobody wins.
    fpr : mapping of str to Bound
        On the confirming half (Wilson), of the winner and those in ``confirming``.
    certificate : mapping or None
        The winner's exact bounds and verdict on the confirming half.
    times : float or None
        By about which factor the data would have to grow to separate the candidate from all
        others, if the differences seen are the true ones; None where it separates, or where no
        sensible amount would do.
    level : float
        Adjusted p-values up to it separate: 1 - confidence.
    """

    name: str | None = None
    candidate: str | None = None
    runner_up: str | None = None
    best_baseline: str | None = None
    ahead_of: tuple[str, ...] = ()
    not_separated: tuple[str, ...] = ()
    halves: Mapping[str, Any] = field(default_factory=dict)
    choosing: tuple[PairedTest, ...] = ()
    baseline_tests: tuple[PairedTest, ...] = ()
    confirming: tuple[PairedTest, ...] = ()
    confirmed: bool | None = None
    contradicted_by: tuple[str, ...] = ()
    fpr: Mapping[str, Bound] = field(default_factory=dict)
    certificate: Mapping[str, Any] | None = None
    times: float | None = None
    level: float = 0.05

    def to_dict(self) -> dict[str, Any]:
        """Return what decides, JSON-able; the tests stand under ``paired`` in a comparison."""
        tests = ("choosing", "baseline_tests", "confirming")
        return {key: value for key, value in Record.to_dict(self).items() if key not in tests}


def halve(
    labels: NDArray[np.int8],
    codes: NDArray[np.int8],
    groups: NDArray[np.int64],
    seed: int = 0,
) -> NDArray[np.int8]:
    """Return which half of the test part each example belongs to; no group is torn apart.

    Examples
    --------
    >>> codes = np.array([1, 2, 2, 2, 2], dtype=np.int8)
    >>> halves = halve(np.array([0, 1, 0, 1, 0]), codes, np.array([0, 1, 1, 2, 2]))
    >>> sorted(halves.tolist()), bool(halves[1] == halves[2] != halves[3])
    ([0, 1, 1, 2, 2], True)
    """
    halves = np.zeros(len(labels), dtype=np.int8)
    test = codes == TEST
    if test.any():
        sides = split(labels[test], groups[test], seed=seed, calibration_share=0.5)
        halves[test] = np.where(sides == FIRST, CHOOSING, CONFIRMING)
    return halves


def find_winner(candidates: Candidates, required: Requirement) -> Winner:
    """Choose on one half of the test part, confirm on the other.

    Parameters
    ----------
    candidates : Candidates
        Detectors and baselines that could be calibrated; a baseline never wins. One minus their
        ``confidence`` bounds the probability of naming a detector that is not the best.
    required : Requirement
        What the certificate requires; without a limit on the FPR nothing is certified.
    """
    labels, split = candidates.labels, candidates.split
    halves = halve(labels, split, candidates.groups, candidates.seed)
    choosing, confirming = (halves == CHOOSING) | (split == CALIBRATION), halves == CONFIRMING
    alarms = FalseAlarms(candidates, choosing)
    result = Winner(
        halves={
            "seed": candidates.seed,
            "rank": alarms.rank,
            "choosing": _sizes(labels[choosing]),
            "confirming": _sizes(labels[confirming]),
        }
    )

    def cost(item: Candidate) -> tuple[float, float]:
        """Return the FPR at the same coverage, then the AUROC, the lowest for the best."""
        seen = choosing & candidates.ranking
        area = auroc(*(item.ranked[seen & (labels == label)] for label in (1, 0))).estimate
        return alarms.fpr[item.name], 0.0 if area is None else -area

    detectors = [item for item in candidates if not item.baseline]
    if not detectors or alarms.rank == 0:
        return result
    order = sorted(candidates, key=cost)
    best, *others = (item for item in order if not item.baseline)
    runner_up = others[0] if others else None
    baseline = next((item for item in order if item.baseline), None)
    level = float(1 - decimal(candidates.confidence))
    tests = paired_tests(candidates, best, order, choosing, alarms)
    behind = tuple(item.name for item in tests if not _ahead(item, level))
    result = replace(
        result,
        candidate=best.name,
        runner_up=runner_up.name if runner_up else None,
        best_baseline=baseline.name if baseline else None,
        ahead_of=tuple(item.name for item in tests if _ahead(item, level)),
        not_separated=behind,
        choosing=tests,
        baseline_tests=paired_tests(candidates, baseline, [best, *others], choosing, alarms)
        if baseline
        else (),
        level=level,
    )
    if behind or not tests:
        return replace(result, times=_times(tests, level))
    rivals = [item for item in (runner_up, baseline) if item is not None]
    confirmed = paired_tests(candidates, best, rivals, confirming)
    sample = Sample(
        np.zeros(len(labels)),
        labels,
        np.where(confirming, TEST, FIT).astype(np.int8),
        candidates.groups,
        independent=candidates.independent,
    )
    result = replace(
        result,
        confirming=confirmed,
        contradicted_by=tuple(item.name for item in confirmed if _ahead(item, level, sign=-1)),
        fpr={
            item.name: sample.bounds(item.flagged, candidates.confidence)[1]
            for item in (best, *rivals)
        },
    )
    if result.contradicted_by:
        return result
    # Each group counts once where answers of one class share groups.
    certificate = certify_counts(sample.one_per_group(best.flagged), required).to_dict()
    once = candidates.thinned or (not candidates.independent and sample.n_sharing(confirming) > 0)
    counted = "one answer of each group and class" if once else "every answer"
    return replace(
        result,
        name=best.name,
        confirmed=all(_ahead(item, level) for item in confirmed),
        certificate={**certificate, "counted": counted},
    )


def _sizes(labels: Codes) -> dict[str, int]:
    n_hallucinated = int(labels.sum())
    return {"n_hallucinated": n_hallucinated, "n_faithful": len(labels) - n_hallucinated}


def _ahead(test: PairedTest, level: float, sign: int = 1) -> bool:
    """Return whether the reference raises fewer false alarms than ``test.name``, beyond chance.

    With ``sign`` -1, whether it raises more.
    """
    return sign * (test.fpr.estimate or 0.0) > 0.0 and test.fpr.p_adjusted <= level


def _times(tests: Sequence[PairedTest], level: float) -> float | None:
    """Return by how much the data would have to grow for 80 % power against the closest rival."""
    # The normal deviate that gave a p-value grows with the square root of the data.
    needed = -float(ndtri(level / 2.0)) + float(ndtri(0.8))
    factors = [1.0]
    for test in tests:
        if _ahead(test, level):
            continue
        if not test.fpr.estimate or test.fpr.estimate < 0.0 or test.fpr.p_value >= 1.0:
            return None
        observed = -float(ndtri(test.fpr.p_value / 2.0))
        factors.append((needed / observed) ** 2 if observed > 0.0 else math.inf)
    return max(factors) if 1.0 < max(factors) <= _MOST_TIMES else None
