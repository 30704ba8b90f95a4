"""How often is a verdict about removing sentences wrong, and the bound of what is kept?

Truth lies just on the other side of what a verdict says, for one requirement at a time. What is
kept of an answer is a share, and shares are skewed: most of them 1 and a few 0, or all or nothing
where the sentences of an answer score alike.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from calibrail.conformal import Counts
from calibrail.conformal.mean_bound import mean_at_least, mean_bound
from calibrail.conformal.trim_certificate import certify_trimming
from calibrail.evaluation.trimmed import Outcomes
from calibrail.settings import Requirement
from calibrail.validity.check import Check, Setting
from calibrail.validity.distributions import Floats
from calibrail.validity.sentences import ALIKE, KEY, UNRELATED, Written, threshold_of

#: Share of hallucinated answers that the threshold does not free.
_MISSED: Final = 0.2
#: By so little is a requirement broken.
LITTLE: Final = 1e-9
#: What a requirement asks for that is there to decide nothing.
LOOSE: Final = 0.05
_NEARLY: Final = replace(ALIKE, name="scores of an answer nearly the same (0.95)", shared=0.95)
JUDGED: Final = (UNRELATED, _NEARLY)

Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]


def _either(one: float) -> Draw:
    return lambda rng, shape: (rng.random(shape) < one).astype(np.float64)


def _beta(a: float, b: float) -> Draw:
    return lambda rng, shape: rng.beta(a, b, shape)


def _thirds(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return np.asarray(rng.choice([0.0, 1 / 3, 2 / 3, 1.0], shape, p=[0.02, 0.0, 0.08, 0.9]))


#: Shares in [0, 1] with their means.
SHARES: Final[dict[str, tuple[Draw, float]]] = {
    "1, but for 2 % zeros": (_either(0.98), 0.98),
    "0, but for 2 % ones": (_either(0.02), 0.02),
    "all or nothing": (_either(0.5), 0.5),
    "nearly all or nothing": (_beta(0.1, 0.1), 0.5),
    "mostly near 1": (_beta(2.0, 0.1), 2.0 / 2.1),
    "of three sentences, 90 % whole": (_thirds, 0.9 + 0.08 * 2 / 3),
}


def kept_bound(at: Setting) -> Iterator[Check]:
    """Leave out the mean of skewed shares: at most alpha, half of it a side, and alpha alone."""
    for design, (draw, mean) in SHARES.items():
        rng = at.rng(f"kept bound, {design}")
        under, over, alone = list[bool](), list[bool](), list[bool]()
        for row in draw(rng, (at.runs, at.n)):
            bound = mean_bound(row, 1.0 - at.alpha)
            under.append(mean < bound.lower)
            over.append(mean > bound.upper)
            alone.append(mean < mean_at_least(row, 1.0 - at.alpha))
        what = "trimming, bound of what is kept"
        yield at.check(what, under, at.alpha / 2.0, design=f"{design}: mean below it")
        yield at.check(what, over, at.alpha / 2.0, design=f"{design}: mean above it")
        yield at.check(what, alone, at.alpha, design=f"{design}: mean below the lower end alone")


def wrong_verdicts(at: Setting) -> Iterator[Check]:
    """Give a wrong verdict about a threshold from n fresh answers of each class: at most alpha."""
    for written in JUDGED:
        rng = at.rng(f"trimming, verdicts, {written.name}")
        threshold = threshold_of(written, _MISSED)
        asked = requirements(written, threshold, at.alpha)
        failed: dict[str, list[bool]] = {design: [] for design in asked}
        hallucinated = np.arange(2 * at.n) < at.n
        for _ in range(at.runs):
            table = written.draw(rng, 2 * at.n, at.kind, hallucinated=hallucinated)
            left = table.trim(KEY, np.full(2 * at.n, threshold), "flag", 0.0)
            outcomes = Outcomes.of(table, left)
            freed = int(np.count_nonzero(outcomes.freed[: at.n]))
            touched = int(np.count_nonzero(~outcomes.untouched[at.n :]))
            # The classes in turn, as in the order of a lot.
            rows = np.arange(2 * at.n).reshape(2, at.n).T.ravel()
            counts, kept = Counts(freed, at.n, touched, at.n), outcomes.shares(rows)
            for design, requirement in asked.items():
                said = certify_trimming(counts, kept, requirement).verdict
                failed[design].append(said == wrong_about(design))
        for design, items in failed.items():
            design = f"{design}, {written.name}"
            yield at.check("trimming, wrong verdict", items, at.alpha, design=design)


def requirements(
    written: Written, threshold: float, error: float, missed: float | None = None
) -> dict[str, Requirement]:
    """Return requirements of which a threshold just breaks one, and those that it just meets.

    ``missed`` is the share of answers that it does not free; that of the scores when left out.
    """
    freed = 1.0 - (written.missed(threshold) if missed is None else missed)
    kept, touched = written.kept(threshold), 1.0 - written.untouched(threshold)
    sure, more = 1.0 - error, LITTLE
    return {
        "freed just too low": Requirement(None, freed + more, sure, min_kept=LOOSE),
        "kept just too low": Requirement(None, LOOSE, sure, min_kept=kept + more),
        "touched just too high": Requirement(touched - more, LOOSE, sure, min_kept=LOOSE),
        "all just met": Requirement(touched + more, freed - more, sure, min_kept=kept - more),
    }


def wrong_about(design: str) -> str:
    """Return the verdict that is wrong about one of the ``requirements``."""
    return "rejected" if design == "all just met" else "certified"
