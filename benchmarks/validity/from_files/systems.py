"""Is a verdict about two systems wrong, from two files through the command?

The truth lies on the boundary: both systems hallucinate equally often (wrong: better, or worse), or
A just as much more often as the margin allows (wrong: non-inferior). Labels are few, the judge is
of any kind, and its errors depend on the class, on the system, or on nothing.
"""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from shutil import rmtree
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..check import Check, Floats, Setting
from .files import command, folder

#: From what people say of A and B, shape (n, 2), to the probability that the judge says 1.
JUDGES: Final[dict[str, Callable[[Floats], Floats]]] = {
    "none": lambda people: 0.5 + 0.0 * people,
    "perfect": lambda people: people,
    "right in 85 %": lambda people: 0.15 + 0.7 * people,
    "useless": lambda people: 0.5 + 0.0 * people,
    "inverted": lambda people: 0.85 - 0.7 * people,
    "misses 60 %, alarms 5 %": lambda people: 0.05 + 0.35 * people,
    "kind to A": lambda people: np.array([0.02, 0.3]) + np.array([0.4, 0.65]) * people,
}
#: Shares of hallucinated answers of B.
RATES: Final = (0.01, 0.1, 0.5)
#: How people draw, and what questions share.
DESIGNS: Final = ("sample", "groups", "probabilities")
MARGIN: Final = 0.03
#: So many questions come for each label.
_TIMES: Final = 5


@dataclass(frozen=True, slots=True)
class Scene:
    """A rate, a judge, and a design."""

    rate: float
    judge: str
    design: str

    def draw(self, rng: np.random.Generator, n: int, gap: float) -> tuple[Floats, ...]:
        """Draw questions of which about n are labelled, A being worse by ``gap``.

        Returns
        -------
        tuple of ndarray of float64
            What people and the judge say of A and B, shape (rows, 2); group, probability of a
            label, and whether there is one, shape (rows,).
        """
        rows = _TIMES * n
        group: NDArray[np.int64] = np.arange(rows)
        rate = np.full(rows, self.rate)
        if self.design == "groups":
            group = np.repeat(group, rng.integers(1, 4, rows))[:rows]
            # Questions of large groups are hard for both.
            rate *= 0.5 + 0.25 * np.bincount(group)[group]
        lots = rng.random((rows, 2))
        # Half of the questions are as hard for A as for B, most of a group are alike.
        lots[:, 1] = np.where(rng.random(rows) < 0.5, lots[:, 0], lots[:, 1])
        alike = rng.random(rows) < (0.7 if self.design == "groups" else 0.0)
        first = np.unique(group, return_index=True)[1][group]
        lots[alike] = lots[first[alike]]
        people = (lots < np.stack([rate + gap, rate], axis=1)).astype(np.float64)
        judge = rng.random((rows, 2)) < JUDGES[self.judge](people)
        chance = np.where(judge[:, 0] != judge[:, 1], 0.5, 0.1)
        labelled = rng.random(rows) < chance
        if self.design != "probabilities":
            labelled = rng.permutation(rows) < n
        judged = judge.astype(np.float64)
        return people, judged, group.astype(np.float64), chance, labelled.astype(np.float64)

    def write(self, place: Path, rng: np.random.Generator, n: int, gap: float) -> None:
        """Write such questions into a.csv and b.csv, in unlike orders."""
        people, judge, group, chance, labelled = self.draw(rng, n, gap)
        for side, name in enumerate("ab"):
            with (place / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["id", "group", "human", "judge", "q"])
                for row in rng.permutation(len(people)).tolist():
                    said = int(people[row, side]) if labelled[row] else ""
                    shared = f"g{int(group[row])}" if self.design == "groups" else ""
                    writer.writerow([f"q{row}", shared, said, int(judge[row, side]), chance[row]])

    def outcome(
        self, place: Path, rng: np.random.Generator, n: int, gap: float
    ) -> tuple[str, bool]:
        """Return what the command says of new files, and whether its interval holds the truth."""
        self.write(place, rng, n, gap)
        rmtree(place / "run", ignore_errors=True)
        # Each run is a first look: what the runs before it looked at is nobody's here.
        for kept in place.glob("*.looks.json"):
            kept.unlink()
        more = [] if self.judge == "none" else ["--judge-column", "judge"]
        more += ["--probability", "q"] * (self.design == "probabilities")
        more += ["--margin", str(MARGIN)] * (gap > 0.0)
        said = command("versus", "a.csv", "b.csv", *more, "-o", "run")
        lower, upper = said["difference"]["lower"], said["difference"]["upper"]
        return said["outcome"], lower <= gap <= upper


#: All of them. Without a judge there is nothing whose difference could be labelled more often.
SCENES: Final = tuple(
    Scene(*parts)
    for parts in product(RATES, JUDGES, DESIGNS)
    if parts[1:] != ("none", "probabilities")
)


def two_systems(at: Setting) -> Iterator[Check]:
    """Call equals better, or worse; call the margin kept that is just reached: half of alpha each.

    ``n`` is the number of labelled questions. Each run of a design has its rate and judge by lot.
    """
    for design in DESIGNS:
        rng = at.rng(f"systems, {design}")
        scenes = [scene for scene in SCENES if scene.design == design]
        found: dict[str, list[bool]] = {}
        with folder() as place:
            for _ in range(at.runs):
                scene = scenes[rng.integers(len(scenes))]
                for gap, kinds in ((0.0, ("better", "worse")), (MARGIN, ("non-inferior",))):
                    outcome, holds = scene.outcome(place, rng, at.n, gap)
                    for kind in kinds:
                        # Who is better is non-inferior, too.
                        wrong = outcome in (kind, "better") if gap else outcome == kind
                        found.setdefault(f"{kind}, wrong", []).append(wrong)
                    place_of = "at the margin" if gap else "of equals"
                    found.setdefault(f"interval {place_of} misses", []).append(not holds)
        for what, failed in found.items():
            promised = at.alpha * (1.0 if what.startswith("interval") else 0.5)
            yield at.check(f"two systems, {what}", failed, promised, design=design)
