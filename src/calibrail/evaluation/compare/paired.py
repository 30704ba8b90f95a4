"""Do two detectors differ on the same answers, or does chance explain the difference?

Three tests look at three questions:

- **False alarms at the same coverage** (the one that chooses), see ``false_alarms``: would the
  detectors still differ if other answers had calibrated them?
- **McNemar** on the faithful answers that only one of two thresholds flags: exact, but about *these
  thresholds*. With two equally good detectors and 44 calibration answers, McNemar finds a
  difference at the 5 % level in a third of all cases (a test holds that number): it takes the luck
  of calibration for merit. So it never chooses; it confirms a choice, for the thresholds at hand.
- **DeLong** for AUROC: how the scores rank, without any threshold.

Groups of answers (one question, one source) count as one each: McNemar flips the sign of a whole
group's difference, DeLong's variance becomes Obuchowski's (1997), and the bootstrap draws groups.
With groups of one answer, these are the ordinary tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from calibrail.conformal import holm
from calibrail.evaluation.compare.candidate import Contender
from calibrail.evaluation.compare.false_alarms import FalseAlarms, clustered_variance
from calibrail.evaluation.stats.mcnemar import McNemar, mcnemar
from calibrail.evaluation.stats.measure import Difference, no_difference
from calibrail.evaluation.stats.paired_auroc import auroc_test


@dataclass(frozen=True, slots=True)
class PairedTest:
    """One score against a reference, on the same answers.

    Attributes
    ----------
    name, against : str
        The score, and the reference.
    baseline : bool
        Whether the score is a baseline.
    fpr : Difference
        FPR of ``name`` minus that of ``against``: at the same coverage, thresholds set anew; or,
        with the method ``thresholds-as-they-are``, at the calibrated thresholds.
    mcnemar : McNemar
        At the calibrated thresholds; ``only_first`` counts what only ``name`` flags.
    auroc : Difference
        AUROC of ``name`` minus that of ``against``.
    """

    name: str
    against: str
    baseline: bool
    fpr: Difference
    mcnemar: McNemar
    auroc: Difference

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON-able dictionary."""
        return asdict(self)


def paired_tests(
    contenders: Sequence[Contender],
    reference: Contender,
    part: NDArray[np.bool_],
    labels: NDArray[np.int8],
    groups: NDArray[np.int64],
    *,
    alarms: FalseAlarms | None = None,
    confidence: float = 0.95,
) -> tuple[PairedTest, ...]:
    """Test every contender against one reference; each kind of p-value is corrected by Holm.

    Detectors are one family and baselines, which take part uninvited, another: they do not make it
    harder to tell detectors apart.

    Parameters
    ----------
    contenders : sequence of Contender
        The family; the reference itself is left out.
    reference : Contender
        What they are compared with.
    part : ndarray of bool, shape (n,)
        Examples to use.
    labels, groups : ndarray, shape (n,)
        1 = hallucinated, 0 = faithful; what examples share.
    alarms : FalseAlarms, optional
        Of the same part: tests false alarms at the same coverage. Without
        it, the calibrated thresholds are taken as they are, and McNemar's p-value counts; the
        part must then be one that did not choose.
    confidence : float
        Level of each interval, not corrected for their number.

    Returns
    -------
    tuple of PairedTest
        In the order given.
    """
    faithful = part & (labels == 0)
    places = {item.name: place for place, item in enumerate(alarms.contenders if alarms else ())}
    tests = []
    for item in contenders:
        if item.name == reference.name:
            continue
        flags = item.flagged[faithful], reference.flagged[faithful]
        flips = mcnemar(*flags, groups[faithful])
        if alarms is not None:
            fpr = alarms.difference(places[item.name], places[reference.name], confidence)
        else:
            fpr = _as_they_are(*flags, groups[faithful], flips.p_value, confidence)
        area = auroc_test(
            item.ranked[part], reference.ranked[part], labels[part], groups[part],
            confidence=confidence,
        )  # fmt: skip
        tests.append(PairedTest(item.name, reference.name, item.baseline, fpr, flips, area))
    return tuple(_corrected(tests))


def _corrected(tests: Sequence[PairedTest]) -> Sequence[PairedTest]:
    """Correct each kind of p-value by Holm, detectors and baselines each by themselves."""
    adjusted = {}
    for kind in ("fpr", "mcnemar", "auroc"):
        for baseline in (False, True):
            family = [place for place, test in enumerate(tests) if test.baseline is baseline]
            values = holm([getattr(tests[place], kind).p_value for place in family])
            adjusted.update(
                {(kind, place): float(p) for place, p in zip(family, values, strict=True)}
            )
    return [
        replace(
            test,
            fpr=replace(test.fpr, p_adjusted=adjusted["fpr", place]),
            mcnemar=replace(test.mcnemar, p_adjusted=adjusted["mcnemar", place]),
            auroc=replace(test.auroc, p_adjusted=adjusted["auroc", place]),
        )
        for place, test in enumerate(tests)
    ]


def _as_they_are(
    first: NDArray[np.bool_],
    second: NDArray[np.bool_],
    groups: NDArray[np.int64],
    p: float,
    level: float,
) -> Difference:
    """Return the difference in FPR of two fixed thresholds, with the spread over groups."""
    method = "thresholds-as-they-are"
    if len(first) == 0:
        return no_difference(method)
    gap = first.astype(np.float64) - second
    member = np.unique(groups, return_inverse=True)[1].reshape(-1)
    error = math.sqrt(clustered_variance(gap, member))
    half = -float(stdtrit(max(1, int(member.max())), (1.0 - level) / 2.0)) * error
    estimate = float(gap.mean())
    lower, upper = max(-1.0, estimate - half), min(1.0, estimate + half)
    return Difference(estimate, lower, upper, p, p, method)
