"""Does the promise hold in each of several groups that overlap, and what happens beside them?

Answers are of one of two models on one of two topics. The rarer model is the hard one, it writes on
one topic more often than on the other, and worst where it writes least: what a model and a topic
add to the scores is not a sum, which is what the thresholds are made of.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from calibrail.conformal import calibrate_groups, calibrate_overlapping, calibrate_threshold
from calibrail.conformal.group_keys import joined
from calibrail.validity.check import Check, Observation, Setting
from calibrail.validity.distributions import Floats, draw

#: Share and mean score of the hallucinated answers of each model on each topic.
CELLS: Final = {
    ("large", "law"): (0.45, 0.0),
    ("large", "news"): (0.35, 0.8),
    ("small", "law"): (0.15, -1.2),
    ("small", "news"): (0.05, -2.0),
}
_NAMES: Final = tuple(CELLS)
_SHARES: Final = np.array([share for share, _ in CELLS.values()])
_LOCS: Final = np.array([loc for _, loc in CELLS.values()])
_KEYS: Final = [joined(names) for names in _NAMES]
#: The groups: column and value.
GROUPS: Final = tuple(
    (column, name) for column in range(2) for name in sorted({cell[column] for cell in _NAMES})
)


def marginal(at: Setting) -> Iterator[Check]:
    """Miss a fresh hallucination of one group: at most alpha, in each group of both columns."""
    rng, promise = at.rng("overlapping"), at.promise(by=("model", "topic"))
    missed = {group: list[bool]() for group in GROUPS}
    for _ in range(at.runs):
        scores, cells = _draw(rng, at, at.n)
        made = calibrate_overlapping(scores, [_KEYS[cell] for cell in cells], promise)
        for (column, name), wrong in missed.items():
            values, (cell,) = _draw(rng, at, 1, column, name)
            key = [_KEYS[cell]]
            promised = made.is_covered(key)[0] and made.has_promise(column, name)
            wrong.append(bool(promised and not made.flags(values, key)[0]))
    for (_, name), wrong in missed.items():
        yield at.check("overlapping groups, marginal coverage", wrong, at.alpha, design=name)


def beside(at: Setting) -> Iterator[Observation]:
    """Miss a fresh hallucination of an intersection, or of a group with other thresholds.

    Nothing is promised where groups meet. One threshold for all breaks in the hard group. A
    threshold for each combination has too few examples where both groups are small, and is the one
    of all there.
    """
    rng = at.rng("overlapping, beside")
    columns, both = at.promise(by=("model", "topic")), at.promise(by="both")
    missed: dict[tuple[str, str], list[bool]] = {}
    for _ in range(at.runs):
        scores, cells = _draw(rng, at, at.n)
        keys = [_KEYS[cell] for cell in cells]
        overlapping = calibrate_overlapping(scores, keys, columns)
        crossed = calibrate_groups(scores, keys, both)
        shared = calibrate_threshold(scores, at.promise())
        fresh = [
            (" and ".join(names), cell, draw(rng, at.kind, 1, _LOCS[cell]))
            for cell, names in enumerate(_NAMES)
        ]
        for group in GROUPS:
            values, (cell,) = _draw(rng, at, 1, *group)
            fresh.append((group[1], cell, values))
        for design, cell, values in fresh:
            key = [_KEYS[cell]]
            for what, flagged in (
                ("overlapping groups", overlapping.flags(values, key)),
                ("one threshold for all", shared.flags(values)),
                ("a threshold for each combination", crossed.flags(values, key)),
            ):
                missed.setdefault((what, design), []).append(not flagged[0])
    for (what, design), wrong in missed.items():
        yield at.observed(f"{what}, misses in {design}", wrong, at.alpha)


def _draw(
    rng: np.random.Generator, at: Setting, n: int, column: int = 0, name: str | None = None
) -> tuple[Floats, list[int]]:
    """Draw hallucinated answers, of one group where it is named: scores, and which cells."""
    inside = np.array([name is None or cell[column] == name for cell in _NAMES])
    shares = np.where(inside, _SHARES, 0.0)
    cells = rng.choice(len(_NAMES), size=n, p=shares / shares.sum())
    return draw(rng, at.kind, n, _LOCS[cells]), cells.tolist()
