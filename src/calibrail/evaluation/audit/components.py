"""Which side of the triangle carries a geometric score: the question or the context?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from calibrail.evaluation.stats.influence import chained, measured
from calibrail.evaluation.stats.measure import Measure, missing
from calibrail.evaluation.stats.ranking import area_measure, ranked
from calibrail.evaluation.stats.separation import cohens_d

_Floats = NDArray[np.float64]

#: The components, each turned as the index turns it: hallucinated answers are expected near the
#: question and far from the context, so that the ratio is low.
COMPONENTS: Final = ("theta_rq", "theta_rc", "ratio")


@dataclass(frozen=True, slots=True)
class Component:
    """One component by itself.

    Parameters
    ----------
    name : {"theta_rq", "theta_rc", "ratio"}
        Angle between response and question (negated), between response and context, and
        theta_rq / theta_rc (negated): higher = more likely hallucinated, by the index's idea.
    cohens_d, auroc : Measure
        How far it separates the classes; below 0 and 0.5 where it points the other way.
    """

    name: str
    cohens_d: Measure
    auroc: Measure

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Components:
    """The parts of the index on one encoder (table 5 of Marin, arXiv 2512.13771).

    Parameters
    ----------
    encoder : str
        Whose angles these are.
    n : int
        Answers with both angles.
    rows : tuple of Component
        The two angles and their ratio.
    difference : Measure
        How much farther from 0.5 the AUROC of theta(r, q) lies than that of theta(r, c).
    driver : {"theta_rq", "theta_rc"} or None
        The one that is shown to separate better; None where the interval holds 0.
    """

    encoder: str
    n: int
    rows: tuple[Component, ...]
    difference: Measure
    driver: Literal["theta_rq", "theta_rc"] | None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able."""
        return {**asdict(self), "rows": [row.to_dict() for row in self.rows]}


def components(
    encoder: str,
    angles: Mapping[str, _Floats],
    labels: NDArray[np.int8],
    clusters: NDArray[np.int64],
    confidence: float = 0.95,
) -> Components | None:
    """Take the index apart; None where the two angles are not known for both classes.

    Parameters
    ----------
    encoder : str
        Name of the encoder.
    angles : mapping of str to ndarray of float64, shape (n,)
        ``theta_rq`` and ``theta_rc`` in radians, NaN where undefined.
    labels, clusters : ndarray, shape (n,)
        1 = hallucinated, 0 = faithful; what answers hang together.
    confidence : float
        Level of the intervals.
    """
    rows = ~np.isnan(angles["theta_rq"]) & ~np.isnan(angles["theta_rc"])
    question, context = angles["theta_rq"][rows], angles["theta_rc"][rows]
    classes, groups = labels[rows], clusters[rows]
    if len(np.unique(classes)) < 2:
        return None
    values = {
        "theta_rq": -question,
        "theta_rc": context,
        "ratio": -question / (context + 1e-8),
    }
    made = tuple(
        Component(
            name,
            cohens_d(values[name][classes == 1], values[name][classes == 0]),
            area_measure(values[name], classes, groups, confidence),
        )
        for name in COMPONENTS
    )
    first, second = ranked(values["theta_rq"], classes), ranked(values["theta_rc"], classes)
    difference = missing("paired, either direction", "there is one class only", confidence)
    driver: Literal["theta_rq", "theta_rc"] | None = None
    if first is not None and second is not None:
        signs = [1.0 if item.value >= 0.5 else -1.0 for item in (first, second)]
        value = abs(first.value - 0.5) - abs(second.value - 0.5)
        apart = chained(value, ((first, signs[0]), (second, -signs[1])))
        difference = measured(apart, groups, "paired, either direction", confidence)
        if difference.lower is not None and difference.upper is not None:
            driver = "theta_rq" if difference.lower > 0.0 else None
            driver = "theta_rc" if difference.upper < 0.0 else driver
    return Components(encoder, int(rows.sum()), made, difference, driver)
