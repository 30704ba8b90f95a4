"""Do the rates that people and a judge give together hold, from a file through ``agree``?

What is promised is about an answer drawn at random from a new group. Large groups are the bad ones,
most answers of a group are alike, and the judge is of any kind: its errors hang on the class, it is
silent where answers are hallucinated, or says the opposite.
"""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..check import Check, Floats, Setting
from .files import command, folder

#: From what is so, shape (n,), to the probabilities that the judge says 1, and that it is silent.
JUDGES: Final[dict[str, Callable[[Floats], tuple[Floats, Floats]]]] = {
    "right in 85 %": lambda truth: (0.15 + 0.7 * truth, 0.0 * truth),
    "useless": lambda truth: (0.3 + 0.0 * truth, 0.0 * truth),
    "inverted": lambda truth: (0.9 - 0.8 * truth, 0.0 * truth),
    "misses 60 %, alarms 5 %": lambda truth: (0.05 + 0.35 * truth, 0.0 * truth),
    "silent on hallucinations": lambda truth: (0.1 + 0.8 * truth, 0.05 + 0.55 * truth),
}
#: Which answers people label: any, all of some groups, one of some groups; or any among copies.
DESIGNS: Final = ("rows", "whole groups", "one of a group", "copies")
#: Shares of hallucinated answers; caught, and false alarms, of what flags.
_RATES, _FLAGGED = (0.05, 0.2, 0.4), {"coverage": 0.8, "fpr": 0.2}
_LARGEST, _GROUPS = 9, 300


def _write(
    path: Path, rng: np.random.Generator, design: str, judge: str, rate: float, n: int
) -> None:
    """Write groups of 1 to 9 answers of which people labelled about n."""
    size = rng.integers(1, _LARGEST + 1, _GROUPS)
    group: NDArray[np.int64] = np.repeat(np.arange(_GROUPS), size)
    rows, copies = len(group), design == "copies"
    lots, first = rng.random((rows, 4)), np.unique(group, return_index=True)[1][group]
    alike = rng.random(rows) < (1.0 if copies else 0.7)
    lots[alike] = lots[first[alike]]
    truth = (lots[:, 0] < rate * (0.2 + 0.16 * size[group])).astype(np.float64)
    says, silent = JUDGES[judge](truth)
    flagged = lots[:, 3] < np.where(truth == 1.0, *_FLAGGED.values())
    order = rng.permutation(rows)
    labelled = np.isin(np.arange(rows), order[:n])
    if design == "whole groups":
        labelled = group < 1 + n // _LARGEST * 2
    elif design == "one of a group":
        first = order[np.unique(group[order], return_index=True)[1]]
        labelled = np.isin(np.arange(rows), first[: min(n, _GROUPS // 2)])
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "group", "response", "human", "judge", "score"])
        for row in order.tolist():
            name = "" if copies else f"g{group[row]}"
            text = f"Answer {'' if copies else row} to {group[row]}"
            human = int(truth[row]) if labelled[row] else ""
            said = "" if lots[row, 2] < silent[row] else int(lots[row, 1] < says[row])
            writer.writerow([f"a{row}", name, text, human, said, int(flagged[row])])


def judged_rates(at: Setting) -> Iterator[Check]:
    """Give an interval that does not hold the rate of an answer of a new group: at most alpha.

    ``n`` is about the number of labels. Each run has its judge and share of hallucinated by lot.
    """
    for design in DESIGNS:
        rng, missed = at.rng(f"rates, {design}"), dict[str, list[bool]]()
        with folder() as place:
            for _ in range(at.runs):
                judge, rate = str(rng.choice([*JUDGES])), float(rng.choice(_RATES))
                _write(place / "judged.csv", rng, design, judge, rate, at.n)
                flag = ("--score-column", "score", "--higher", "hallucinated", "--threshold", 0.5)
                said = command("agree", "judged.csv", "--judge-column", "judge", *flag)
                for name, true in {"prevalence": rate, **_FLAGGED}.items():
                    for method, found in said["judges"][0]["rates"][name].items():
                        known = found["estimate"] is not None
                        out = known and not found["lower"] <= true <= found["upper"]
                        missed.setdefault(f"{name}, {method}", []).append(out)
        for what, items in missed.items():
            yield at.check(f"agree, interval of {what} misses", items, at.alpha, design=design)
