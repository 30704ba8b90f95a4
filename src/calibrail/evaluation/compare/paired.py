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

from collections.abc import Sequence
from dataclasses import dataclass, replace

from calibrail.conformal import holm
from calibrail.evaluation.compare.candidate import Candidate, Candidates
from calibrail.evaluation.compare.false_alarms import FalseAlarms
from calibrail.evaluation.sample import Mask
from calibrail.evaluation.stats.auroc import auroc_test
from calibrail.evaluation.stats.mcnemar import McNemar, mcnemar
from calibrail.evaluation.stats.measure import Difference, no_difference
from calibrail.record import Record


@dataclass(frozen=True, slots=True)
class PairedTest(Record):
    """One score against a reference, on the same answers.

    Attributes
    ----------
    name, against : str
        The score, and the reference.
    baseline : bool
        Whether the score is a baseline.
    fpr : Difference
        FPR of ``name`` minus that of ``against``: at the same coverage, thresholds set anew; or,
        with the method ``thresholds-as-they-are``, at the calibrated thresholds, without interval.
    mcnemar : McNemar
        At the calibrated thresholds; ``only_first`` counts what only ``name`` flags.
    auroc : Difference
        AUROC of ``name`` minus that of ``against``, each group counting once in each class where
        thresholds count groups.
    """

    name: str
    against: str
    baseline: bool
    fpr: Difference
    mcnemar: McNemar
    auroc: Difference


def paired_tests(
    candidates: Candidates,
    reference: Candidate,
    members: Sequence[Candidate],
    part: Mask,
    alarms: FalseAlarms | None = None,
) -> tuple[PairedTest, ...]:
    """Test candidates against one reference; each kind of p-value is corrected by Holm.

    Detectors are one family and baselines, which stand beside them unasked, another: they do not
    make it harder to tell detectors apart.

    Parameters
    ----------
    candidates : Candidates
        Their answers and the level of each interval, which is not corrected for their number.
    reference : Candidate
        What they are compared with; left out itself.
    members : sequence of Candidate
        Those to test, in this order.
    part : ndarray of bool, shape (n,)
        Answers to use.
    alarms : FalseAlarms, optional
        Of the same part: tests false alarms at the same coverage. Without it, the calibrated
        thresholds are taken as they are, and McNemar's p-value counts; the part must then be one
        that did not choose.

    Returns
    -------
    tuple of PairedTest
        In the order given.
    """
    faithful, level = part & (candidates.labels == 0), candidates.confidence
    ranking = part & candidates.ranking
    labels, groups = candidates.labels[ranking], candidates.groups[ranking]
    tests = []
    for item in members:
        if item.name == reference.name:
            continue
        flags = item.flagged[faithful], reference.flagged[faithful]
        flips = mcnemar(*flags, candidates.groups[faithful])
        if alarms is not None:
            fpr = alarms.difference(item.name, reference.name)
        else:
            fpr = _as_they_are(*flags, flips.p_value)
        area = auroc_test(
            item.ranked[ranking], reference.ranked[ranking], labels, groups, confidence=level
        )
        tests.append(PairedTest(item.name, reference.name, item.baseline, fpr, flips, area))
    return tuple(_corrected(tests))


def _corrected(tests: Sequence[PairedTest]) -> list[PairedTest]:
    """Correct each kind of p-value by Holm, detectors and baselines each by themselves."""
    result = list(tests)
    for kind in ("fpr", "mcnemar", "auroc"):
        for baseline in (False, True):
            family = [place for place, test in enumerate(tests) if test.baseline is baseline]
            adjusted = holm([getattr(tests[place], kind).p_value for place in family])
            for place, p in zip(family, adjusted.tolist(), strict=True):
                test = replace(getattr(tests[place], kind), p_adjusted=p)
                result[place] = replace(result[place], **{kind: test})
    return result


def _as_they_are(first: Mask, second: Mask, p: float) -> Difference:
    """Return the difference in FPR of two fixed thresholds, as McNemar's test sees it.

    Without an interval: where few answers are flagged by one threshold alone, a normal one has
    hardly any width, and none where there is no such answer.
    """
    method = "thresholds-as-they-are"
    if len(first) == 0:
        return no_difference(method)
    gap = float(first.mean() - second.mean())
    return Difference(gap, None, None, p, p, method)
