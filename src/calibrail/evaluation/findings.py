"""What should a reader of a report be warned about, and what can be done about it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Bound, Calibration
from calibrail.evaluation.rows import Row
from calibrail.evaluation.stats.measure import Measure
from calibrail.phrases import count, listed, percent
from calibrail.record import Record

#: Fewer test examples than this in a class leave intervals too wide to act on.
FEW_TEST = 50
#: A threshold at a lower rank than this hangs on one or two extreme calibration scores.
FEW_RANK = 3
#: An FPR above this flags practically everything.
NEARLY_ALL = 0.99


@dataclass(frozen=True, slots=True)
class Band(Record):
    """Where the number of caught test hallucinations plausibly lies if the promise's model holds.

    Parameters
    ----------
    lowest, highest : int
        Caught counts out of ``n`` between which a BetaBinomial draw falls with ``confidence``.
    n : int
        Hallucinated test examples.
    confidence : float
        Level of the band.
    inside : bool
        Whether the observed count lies in it.
    """

    lowest: int
    highest: int
    n: int
    confidence: float
    inside: bool

    def to_dict(self) -> dict[str, Any]:
        """Return counts and shares as a JSON-able dictionary."""
        lower, upper = (None, None) if not self.n else (self.lowest / self.n, self.highest / self.n)
        shares = {"lower": lower, "upper": upper, "method": "beta-binomial"}
        return Record.to_dict(self) | shares

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Band:
        """Rebuild a band from ``to_dict``."""
        return cls(**{key: content[key] for key in cls.__dataclass_fields__})


def too_few_examples(
    calibration: Calibration | None, n_hallucinated: int, n_faithful: int
) -> str | None:
    """Warn where the test part is small or the threshold hangs on very few scores."""
    parts = []
    if min(n_hallucinated, n_faithful) < FEW_TEST:
        parts.append(
            f"The test part has {n_hallucinated:,} hallucinated and {n_faithful:,} faithful "
            f"examples, fewer than {FEW_TEST} of a class, so its intervals are wide."
        )
    if calibration is not None and not calibration.flag_all and calibration.rank < FEW_RANK:
        parts.append(
            f"The threshold is number {calibration.rank} of only "
            f"{count(calibration.n, 'hallucinated calibration score')} and would move a lot with "
            "other data."
        )
    return " ".join([*parts, "Label more examples."]) if parts else None


def reversed_direction(auroc: Measure) -> str | None:
    """Warn where the score ranks faithful answers above hallucinated ones; it is never flipped."""
    if auroc.upper is None or auroc.lower is None or auroc.upper >= 0.5:
        return None
    assert auroc.estimate is not None
    return (
        f"The score runs the wrong way: AUROC is {auroc.estimate:.3f} ({auroc.lower:.3f} to "
        f"{auroc.upper:.3f}), so faithful answers score higher than hallucinated ones. Nothing "
        "was flipped: on this data the detector points away from hallucinations. (For a column of "
        "your own, check --higher.)"
    )


def flags_everything(calibration: Calibration, fpr: Bound, flag_all: bool) -> str | None:
    """Warn where the threshold flags (nearly) every faithful answer."""
    flagged = f"{fpr.count:,} of {count(fpr.n, 'faithful test answer')}"
    if flag_all:
        return (
            f"No threshold keeps the promise, so every answer is flagged ({flagged}). "
            "Label more hallucinated examples or tolerate more misses."
        )
    if fpr.estimate is None or fpr.estimate <= NEARLY_ALL:
        return None
    return (
        f"To catch {percent(1 - calibration.alpha)} of hallucinations the threshold flags "
        f"{flagged}: as a filter it is useless. Use a score that separates the classes better, "
        "or tolerate more misses (a larger --alpha)."
    )


def baseline_beats_detector(rows: Sequence[Row], auroc: Measure, fpr: Bound) -> str | None:
    """Warn where a trivial baseline is better in AUROC (paired interval) and in FPR."""
    better = [r for r in rows if r.beats_detector]
    if not better:
        return None
    best = max(better, key=lambda r: (r.auroc.estimate or 0.0, r.name))
    assert best.auroc.estimate is not None and best.fpr is not None
    assert best.fpr.estimate is not None and auroc.estimate is not None
    assert fpr.estimate is not None
    others = [r.name for r in better if r is not best]
    also = f" So {'do' if len(others) > 1 else 'does'} {listed(others)}." if others else ""
    return (
        f"The baseline {best.name} beats the detector: AUROC {best.auroc.estimate:.3f} against "
        f"{auroc.estimate:.3f}, and {percent(best.fpr.estimate)} false alarms against "
        f"{percent(fpr.estimate)} at the same target.{also} Either the data gives the answer away "
        "by surface features, or the detector adds nothing: check both before you use it."
    )


def not_shown_to_beat_baseline(rows: Sequence[Row]) -> str | None:
    """Warn where some baseline's AUROC cannot be told from the detector's, or is higher."""
    names = [r.name for r in rows if not r.detector_beats and not r.beats_detector]
    if not names:
        return None
    many = len(names) > 1
    return (
        f"The detector has not been shown to rank answers better than the "
        f"{'baselines' if many else 'baseline'} {listed(names)} (paired AUROC intervals do not lie "
        "in its favour). Test on more examples or on data without such shortcuts."
    )


def coverage_outside_band(band: Band | None, coverage: Bound, tied: bool) -> str | None:
    """Warn where chance alone does not explain the observed coverage.

    Above the band is no finding when scores are tied at the threshold (coverage then grows).
    """
    if band is None or band.inside or (tied and coverage.count > band.highest):
        return None
    side = "below" if coverage.count < band.lowest else "above"
    answers = count(coverage.n, "hallucinated test answer")
    return (
        f"The threshold caught {coverage.count:,} of {answers}, {side} the {band.lowest:,} to "
        f"{band.highest:,} that chance explains. Calibration and test examples do not seem to "
        "come from the same source: check how they were split."
    )


def undefined_scores(undefined: Mapping[str, Any]) -> str | None:
    """Warn where some scores are undefined, and say what that counted as."""
    counts: Mapping[str, int] = undefined["test"]
    source: Mapping[str, int] = undefined["calibration"]
    total = sum(counts.values()) + sum(source.values())
    if total == 0:
        return None
    policy = undefined["policy"]
    meaning = "passed as if faithful" if policy == "pass" else f"not released (policy {policy})"
    return (
        f"The score is undefined for {count(sum(counts.values()), 'test answer')} "
        f"({counts['hallucinated']:,} hallucinated, {counts['faithful']:,} faithful) and "
        f"{count(sum(source.values()), 'calibration answer')} ({source['hallucinated']:,} "
        f"hallucinated); they count as {meaning}. --undefined changes that."
    )


def clustered(shared: Mapping[str, int], *, advise: bool) -> str | None:
    """Warn where examples of one class share groups, so that they are not independent.

    ``shared`` holds, per part, the number of examples that share their group with another
    example of the same class and part, and under ``"total"`` all examples of those parts.
    """
    sharing = sum(value for key, value in shared.items() if key != "total")
    if sharing == 0:
        return None
    remedy = "For the threshold, --clustered counts each group once and keeps the promise; for"
    return (
        f"{sharing:,} of {count(shared['total'], 'example')} share a group (a source or a question)"
        " with another of their class. Intervals that assume independent examples are too narrow "
        f"here. {remedy if advise else 'For'} exact intervals, keep one example per group."
    )


def paper_rank_undercovers(calibration: Calibration) -> str | None:
    """Warn that the paper's rank catches less than the target on average."""
    expected = 1.0 - calibration.rank / (calibration.n + 1)
    target = 1.0 - calibration.alpha
    if calibration.guarantee != "paper" or expected >= target - 1e-12:
        return None
    return (
        f"The paper's rank catches {percent(expected)} of hallucinations on average at "
        f"n = {calibration.n:,}, less than the {percent(target)} asked for. Use it only to "
        "reproduce published tables; use --guarantee marginal or pac for decisions."
    )


def shared_groups(
    labels: NDArray[np.int8], codes: NDArray[np.int8], groups: NDArray[np.int64]
) -> dict[str, int]:
    """Count, per part, the examples that share their group with one of the same class and part.

    The calibration part counts its hallucinated examples only, the test part both classes. A
    negative group code stands for "no group".
    """
    shared = {"total": 0}
    for name, part in (("calibration", (codes == 1) & (labels == 1)), ("test", codes == 2)):
        shared["total"] += int(np.sum(part))
        keep = part & (groups >= 0)
        keys = groups[keep] * 2 + labels[keep]
        _, sizes = np.unique(keys, return_counts=True)
        shared[name] = int(sizes[sizes > 1].sum())
    return shared
