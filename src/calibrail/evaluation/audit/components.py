"""Which side of the triangle carries a geometric score: the question or the context?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from calibrail.evaluation.audit.answers import Answers
from calibrail.evaluation.stats.arrays import Floats
from calibrail.evaluation.stats.influence import difference_from_half
from calibrail.evaluation.stats.measure import Measure
from calibrail.evaluation.stats.separation import cohens_d
from calibrail.record import Record

Driver = Literal["theta_rq", "theta_rc"]


@dataclass(frozen=True, slots=True)
class Component(Record):
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


@dataclass(frozen=True, slots=True)
class Components(Record):
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
    driver: Driver | None


def components(encoder: str, angles: Mapping[str, Floats], answers: Answers) -> Components | None:
    """Take the index apart; None where the two angles are not known for both classes.

    Parameters
    ----------
    encoder : str
        Name of the encoder.
    angles : mapping of str to ndarray of float64, shape (n,)
        ``theta_rq`` and ``theta_rc`` in radians, NaN where undefined.
    answers : Answers
        Labels and groups.
    """
    rows = ~np.isnan(angles["theta_rq"]) & ~np.isnan(angles["theta_rc"])
    question, context = angles["theta_rq"][rows], angles["theta_rc"][rows]
    answers = answers.where(rows)
    if not answers.both_classes:
        return None
    # Each turned as the index turns it: hallucinated answers are expected near the question and far
    # from the context, so that the ratio is low.
    ratio = -question / (context + 1e-8)
    values = {"theta_rq": -question, "theta_rc": context, "ratio": ratio}
    parts = tuple(
        Component(name, cohens_d(*answers.by_class(column)), answers.auroc(column))
        for name, column in values.items()
    )
    both = answers.ranked(values["theta_rq"]), answers.ranked(values["theta_rc"])
    difference = answers.measured(difference_from_half(*both), "paired, either direction")
    driver: Driver | None = "theta_rq" if difference.lies_above(0.0) else None
    if difference.lies_below(0.0):
        driver = "theta_rc"
    return Components(encoder, len(answers), parts, difference, driver)
