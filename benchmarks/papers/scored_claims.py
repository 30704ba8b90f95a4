"""What stays of answers whose claims are scored, below calibrail's thresholds?

Files hold ``{"data": [{"prompt", "claims": [{"subclaim", "annotation", "NAME-score"}]}]}``, with a
``noise`` that breaks ties where there is one: that of the first paper, which the second took over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrail import Promise
from calibrail.conformal import calibrate_threshold

DELTA: Final = 0.1
RESAMPLES: Final = 300
#: Halves by lot: one sets a threshold, the other is measured.
SPLITS: Final = 1000
#: Of an answer without a wrong claim, as in the published code: lower than any score.
NONE_WRONG: Final = -100_000.0
#: Annotations that count as right in both papers' code.
RIGHT: Final = ("Y", "S")
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
#: An estimate and the ends of its interval.
Figure = list[float]


class Answer(NamedTuple):
    """The claims of an answer: their words, annotations, which are wrong, and scores by name."""

    question: str
    text: str
    claims: tuple[str, ...]
    labels: tuple[str, ...]
    wrong: NDArray[np.bool_]
    scores: Mapping[str, Floats]


class Scored(NamedTuple):
    """Answers under one score: the highest score of a wrong claim of each, and all claims."""

    worst: Floats
    values: Floats
    wrong: NDArray[np.bool_]
    #: Answer of each claim.
    row: Rows

    def removed(self, threshold: float | Floats) -> Floats:
        """Return the share of claims below a threshold, by answer."""
        below = self.values < np.broadcast_to(threshold, self.worst.shape)[self.row]
        return np.bincount(self.row, below) / np.bincount(self.row)


def read(path: Path, *, strip: bool = False) -> list[Answer]:
    """Return the answers of a file that hold a claim; ``strip`` blanks from annotations."""
    found = []
    for entry in json.loads(path.read_text(encoding="utf-8"))["data"]:
        if not (claims := entry["claims"]):
            continue
        labels = [str(item["annotation"]) for item in claims]
        labels = [label.strip() if strip else label for label in labels]
        scores = {
            key.removesuffix("-score"): np.array(
                [float(item[key]) + float(item.get("noise", 0)) for item in claims]
            )
            for key in claims[0]
            if key.endswith("-score")
        }
        wrong = np.array([label not in RIGHT for label in labels])
        words = tuple(item["subclaim"].strip() for item in claims)
        text = entry.get("original-output", "")
        found.append(Answer(entry["prompt"], text, words, tuple(labels), wrong, scores))
    return found


def scored(answers: Sequence[Answer], score: str) -> Scored:
    """Return answers under one score."""
    return Scored(
        np.array([each.scores[score][each.wrong].max(initial=NONE_WRONG) for each in answers]),
        np.concatenate([each.scores[score] for each in answers]),
        np.concatenate([each.wrong for each in answers]),
        np.repeat(np.arange(len(answers)), [len(each.wrong) for each in answers]),
    )


def threshold(worst: Floats, alpha: float, guarantee: str = "marginal") -> float:
    """Return calibrail's threshold, below which claims go."""
    promise = Promise(alpha=alpha, guarantee=guarantee, delta=DELTA)
    return -calibrate_threshold(-worst, promise).threshold


def left_out(worst: Floats, alpha: float, calibrating: NDArray[np.bool_] | None = None) -> Floats:
    """Return the threshold of each answer that all others set, or those of them that calibrate."""
    use = np.ones(len(worst), bool) if calibrating is None else calibrating
    others = ~np.eye(len(worst), dtype=bool) & use
    return np.array([threshold(worst[row], alpha) for row in others])


def mean(values: Floats) -> Figure:
    """Return a mean with the bars of the first paper: 1.96 standard errors."""
    half = 1.96 * values.std() / len(values) ** 0.5
    return [float(values.mean()), float(values.mean() - half), float(values.mean() + half)]


def drawn(measure: Callable[[Rows], Floats], n: int) -> list[Figure]:
    """Return figures of all answers, with 95 % intervals from drawing answers anew."""
    rng = np.random.default_rng(0)
    ends = np.quantile(
        [measure(rng.integers(n, size=n)) for _ in range(RESAMPLES)], [0.025, 0.975], axis=0
    )
    return np.vstack([measure(np.arange(n)), ends]).T.tolist()


def percent(value: float) -> str:
    """Return a share in whole percent."""
    return f"{100 * value:.0f}%"


def shown(value: Figure) -> str:
    """Return a share with its interval."""
    return f"{percent(value[0])} ({100 * value[1]:.0f} to {100 * value[2]:.0f})"
