"""What should a reader of a report be warned about?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from calibrail.conformal import Calibration
from calibrail.conformal.rule import Rule
from calibrail.evaluation.rows import Row
from calibrail.evaluation.sample import CALIBRATION, TEST, Sample
from calibrail.evaluation.stats.measure import Measure
from calibrail.evaluation.tested import Tested
from calibrail.record import Record

#: Fewer test examples than this in a class leave intervals too wide to act on.
FEW_TEST: Final = 50
#: A threshold at a lower rank than this hangs on one or two extreme calibration scores.
FEW_RANK: Final = 3
#: Above this share of texts with a near-duplicate across the split results look too good.
MANY_ACROSS: Final = 0.01
#: An FPR above this flags practically everything.
NEARLY_ALL: Final = 0.99


@dataclass(frozen=True, slots=True)
class Finding(Record):
    """A warning.

    Attributes
    ----------
    code : str
        Stable short name, e.g. ``reversed_direction``.
    message : str
        What was seen, and what can be done; ``workflow.wording`` fills it in.
    values : mapping
        Numbers of the message that stand nowhere else in the report. Not written.
    """

    code: str
    message: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return code and message."""
        return {"code": self.code, "message": self.message}


def findings(
    rule: Rule,
    sample: Sample,
    tested: Tested,
    baselines: Sequence[Row],
    offered: Mapping[str, Any] | None,
    inverted: Mapping[str, Measure] | None = None,
    near_duplicates: Mapping[str, Any] | None = None,
) -> tuple[Finding, ...]:
    """Return every warning that applies, the gravest first.

    Parameters
    ----------
    rule, sample, tested
        What decides, on which answers, and how well.
    baselines : sequence of Row
        Compared with the detector.
    offered : mapping or None
        From ``sections.attainable``.
    inverted : mapping or None
        From ``stats.inverted``.
    near_duplicates : mapping or None
        Texts that are on both sides of the split, or nearly so.
    """
    calibration, fpr = rule.calibration, tested.fpr.estimate
    # What a warning says about the one threshold and its rank applies only where it decides.
    alone = rule.chosen is None and rule.groups is None
    used = np.isin(sample.split, (CALIBRATION, TEST))
    expected_misses = calibration.rank / (calibration.n + 1)
    # Where a message needs numbers that the report does not hold, these; empty: nothing to say.
    applies: dict[str, bool | dict[str, Any]] = {
        "labels_look_inverted": {
            name: float(area.estimate or 0.0) for name, area in (inverted or {}).items()
        },
        "reversed_direction": tested.auroc.lies_below(0.5),
        "flags_everything": rule.flag_all or (fpr or 0.0) > NEARLY_ALL,
        "baseline_beats_detector": any(row.beats_detector for row in baselines),
        "not_shown_to_beat_baseline": any(row.unclear for row in baselines),
        "near_duplicates": many_across(near_duplicates),
        "coverage_outside_band": _outside_band(calibration, tested),
        "paper_rank_undercovers": alone
        and calibration.guarantee == "paper"
        and expected_misses > calibration.alpha + 1e-12,
        "few_distinct_scores": {} if offered is None else _ties(calibration),
        "too_few_examples": _too_few(tested, calibration.rank if alone else 0),
        "clustered": _set_aside(sample),
        "assumed_independent": _sharing(sample) if sample.independent else {},
        "undefined_scores": bool(np.isnan(sample.values[used]).any()),
    }
    return tuple(
        Finding(code, values=values if isinstance(values, dict) else {})
        for code, values in applies.items()
        if values
    )


def many_across(near_duplicates: Mapping[str, Any] | None) -> bool:
    """Return whether so many texts are on both sides of the split that results look too good."""
    found = near_duplicates or {"count": 0, "n": 0}
    return bool(found["count"] > MANY_ACROSS * found["n"])


def _outside_band(calibration: Calibration, tested: Tested) -> bool:
    """Return whether chance alone does not explain the observed coverage.

    Above the band is no finding when scores are tied at the threshold (coverage then grows).
    """
    band = tested.coverage_band
    if band is None or band.inside:
        return False
    tied = int(np.sum(calibration.scores == calibration.threshold)) > 1
    return not tied or tested.coverage.count < band.lowest


def _too_few(tested: Tested, rank: int) -> dict[str, Any]:
    """Return what is too small: the test part, the rank of a threshold."""
    few = min(tested.n_hallucinated, tested.n_faithful) < FEW_TEST
    low_rank = 0 < rank < FEW_RANK
    return {"fewer_than": FEW_TEST * few, "low_rank": low_rank} if few or low_rank else {}


def _set_aside(sample: Sample) -> dict[str, Any]:
    """Return how many answers count, and how many do not since their group is counted already."""
    n = int(np.isin(sample.split, (CALIBRATION, TEST)).sum())
    return {"n_set_aside": sample.n_set_aside, "n": n} if sample.n_set_aside else {}


def _sharing(sample: Sample) -> dict[str, Any]:
    """Return how many of the answers behind threshold and measures share their group."""
    parts = sample.rows(CALIBRATION, 1), sample.rows(TEST)
    n_sharing = sum(map(sample.n_sharing, parts))
    return {"n_sharing": n_sharing, "n": int(np.sum(parts))} if n_sharing else {}


def _ties(calibration: Calibration) -> dict[str, Any]:
    """Return how many calibration scores tie, and what each possible threshold catches."""
    scores = calibration.scores
    below = np.searchsorted(scores, np.unique(scores), "left")
    lost = calibration.n_undefined if calibration.undefined == "pass" else 0
    return {
        "n": len(scores),
        "n_tied": int(np.count_nonzero(scores == calibration.threshold)),
        "caught": (calibration.n - lost - below)[::-1].tolist(),
    }
