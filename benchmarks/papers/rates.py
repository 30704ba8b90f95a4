"""What do the scores of "The Semantic Illusion" reach at its thresholds, over random splits?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from cells import Measured, Published
from numpy.typing import NDArray
from published import ILLUSION
from resampling import members, share, splits
from separation import median_overlap

from calibrail.conformal import calibrate_threshold
from calibrail.data import Example
from calibrail.data.splits import FIT, split
from calibrail.engine import score_examples
from calibrail.options import Promise
from calibrail.scores import ScoreSpec, build
from calibrail.scores.base import Fittable

#: Hallucinated answers that the paper calibrates on; elsewhere 60 % of them.
CALIBRATING: Final = {"NQ": 595, "HaluEval": 629}
SHARE: Final = 0.6
#: What the rows of table 5 are here.
METHODS: Final = {
    "BGE-base-en-v1.5": "rad",
    "BGE-Reranker-v2-m3": "reranker",
    "HALT-RAG style": "halt",
    "ReDeEP style": "redeep",
}
COLUMNS: Final = (
    "coverage",
    "FPR",
    "accuracy",
    "threshold",
    "mean halluc",
    "mean faithful",
    "overlap",
)
Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Study:
    """A data set with its scores: values, whose place a model took, why a score is missing."""

    name: str
    examples: Sequence[Example]
    values: Mapping[str, Floats]
    stand_ins: Mapping[str, str]
    absent: Mapping[str, str]


def figures(name: str) -> list[Published]:
    """Return the figures of a data set; tables 3 and 5 are all of HaluEval."""
    return [
        figure
        for figure in ILLUSION
        if figure.row.startswith(name) or (name == "HaluEval" and figure.table in ("3", "5"))
    ]


def score_of(figure: Published) -> str:
    """Return which score a figure is of."""
    if figure.table == "3":
        return figure.row
    if figure.table == "4":
        return figure.row.partition(", ")[2]
    if figure.table == "5":
        return METHODS.get(figure.row, "judge" if "judge" in figure.row else "openai")
    return "crg"


def alpha_of(figure: Published) -> float:
    """Return the miss rate that a figure's threshold aims at."""
    if figure.table == "2":
        return float(figure.row.rpartition(" ")[2])
    return 0.33 if figure.table == "section 4.6" else 0.05


def held_out(study: Study, spec: ScoreSpec) -> Study:
    """Return the study of a score that learns, on what it did not learn from."""
    labels = [example.label or 0 for example in study.examples]
    groups = [example.group for example in study.examples]
    codes = split(labels, groups, fit_share=0.3, calibration_share=0.35)
    learning = [study.examples[i] for i in np.flatnonzero(codes == FIT).tolist()]
    rest = [study.examples[i] for i in np.flatnonzero(codes != FIT).tolist()]
    score = build(spec)
    assert isinstance(score, Fittable)
    values = next(iter(score_examples(rest, [score.fit(learning)]).columns.values()))
    return replace(study, examples=rest, values={spec.name: values})


def rates(study: Study) -> dict[tuple[str, float, str], Measured]:
    """Return the seven columns by score and alpha, over splits."""
    labels = np.array([example.label for example in study.examples])
    wanted = sorted({(score_of(f), alpha_of(f)) for f in figures(study.name)})
    wanted = [(score, alpha) for score, alpha in wanted if score in study.values]
    sizes = {f.column: f.n for f in figures(study.name) if f.n and f.table in ("1", "6")}
    mix = sizes["coverage"] / sizes["accuracy"]

    def statistics(calibrating: Rows, testing: Rows) -> list[float]:
        found: list[float] = []
        test = labels[testing]
        known = calibrating[labels[calibrating] == 1]
        for score, alpha in wanted:
            column = study.values[score]
            threshold = calibrate_threshold(column[known], Promise(alpha, "paper"))
            flagged, tested = threshold.flags(column[testing]), column[testing]
            parts = [tested[(test == label) & ~np.isnan(tested)] for label in (1, 0)]
            coverage, fpr = flagged[test == 1].mean(), flagged[test == 0].mean()
            crossing = median_overlap(parts[0], parts[1])
            accuracy = mix * coverage + (1.0 - mix) * (1.0 - fpr)
            found += [
                coverage,
                fpr,
                accuracy,
                threshold.threshold,
                parts[0].mean(),
                parts[1].mean(),
                crossing,
            ]
        return found

    if not wanted:
        return {}
    groups = members([example.group for example in study.examples])
    part = min(0.7, CALIBRATING.get(study.name, SHARE * len(groups)) / len(groups))
    found = np.array(splits(statistics, groups, share=part)).T.reshape(len(wanted), -1, 3)
    tested = {
        "coverage": round((1 - part) * np.sum(labels == 1)),
        "FPR": round((1 - part) * np.sum(labels == 0)),
        "threshold": round(part * np.sum(labels == 1)),
    }
    result = {}
    for (score, alpha), lines in zip(wanted, found, strict=True):
        for column, (mean, lower, upper) in zip(COLUMNS, lines.tolist(), strict=True):
            n = tested.get(column, round((1 - part) * len(labels)))
            make = share if column in COLUMNS[:3] else Measured
            result[score, alpha, column] = make(mean, lower, upper, n, study.stand_ins[score])
    return result
