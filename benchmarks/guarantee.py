"""The picture that explains a guarantee: a shipped 0.5, tuned thresholds, promised ones.

Reads the scores of FactCG-DeBERTa-L on the RAGTruth part of LLM-AggreFact (``aggrefact/scores.csv``
in the folder that CALIBRAIL_DATA names), takes its claims for the whole world, so that what every
threshold catches is known exactly, and lets 200 teams set a threshold on labels of their own.
Writes docs/figures/guarantee-light.svg and -dark.svg, and results/guarantee.md.
"""

from __future__ import annotations

import csv
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Final

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from results import write

from calibrail.conformal import calibrate_threshold
from calibrail.options import Promise

ROOT: Final = Path(__file__).resolve().parents[1]
FIGURES: Final = ROOT / "docs" / "figures"
SUBSET: Final = "RAGTruth"
TEAMS: Final = 200
LABELS: Final = (100, 500)
ALPHA: Final = 0.1
DELTA: Final = 0.1
SHIPPED: Final = 0.5
#: Ink, quiet ink, kept, missed.
SCHEMES: Final = {
    "light": ("#1c2330", "#5b6475", "#14734a", "#b42318"),
    "dark": ("#e6e9ef", "#a3adbd", "#4cc38a", "#ff8a7a"),
}

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """All claims there are: their scores by class, higher = more likely hallucinated."""

    hallucinated: Floats
    faithful: Floats

    def caught(self, threshold: float) -> float:
        """Return the share of hallucinated claims that a threshold flags."""
        return float((self.hallucinated >= threshold).mean())

    def false_alarms(self, threshold: float) -> float:
        """Return the share of faithful claims that a threshold flags."""
        return float((self.faithful >= threshold).mean())


@dataclass(frozen=True)
class Thresholds:
    """What the thresholds of all teams catch and flag, each of shape (teams,)."""

    caught: Floats
    false_alarms: Floats

    @property
    def missed(self) -> float:
        """Return the share of teams whose threshold catches less than was to be caught."""
        return float((self.caught < 1 - ALPHA).mean())


def thresholds(world: World, n: int, seed: int = 0) -> tuple[Thresholds, Thresholds]:
    """Return the tuned and the promised thresholds of all teams, from n hallucinated answers each.

    A team that tunes takes the highest threshold that catches 1 - alpha of its own labels.
    """
    rng = np.random.default_rng(seed)
    promise = Promise(alpha=ALPHA, guarantee="pac", delta=DELTA)
    tuned, promised = [], []
    for _ in range(TEAMS):
        own = np.sort(rng.choice(world.hallucinated, n))
        tuned.append(float(own[round(ALPHA * n)]))
        promised.append(calibrate_threshold(own, promise).threshold)
    return _measured(world, tuned), _measured(world, promised)


def _measured(world: World, values: list[float]) -> Thresholds:
    return Thresholds(
        np.array([world.caught(value) for value in values]),
        np.array([world.false_alarms(value) for value in values]),
    )


def read(path: Path) -> World:
    """Read the world from the file of scores; these are P(supported), and are turned round."""
    with path.open(newline="", encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["subset"] == SUBSET]
    scores = np.array([1 - float(row["factcg_base"]) for row in rows])
    supported = np.array([row["label_supported"] == "1" for row in rows])
    return World(scores[~supported], scores[supported])


def draw(
    world: World,
    rows: tuple[Thresholds, Thresholds],
    scheme: str,
    path: Path,
    narrow: bool = False,
) -> None:
    """Draw one row for the shipped threshold and one for each kind of team, on no background.

    A narrow figure, for phones, names a row above it instead of beside it.
    """
    ink, quiet, kept, missed = SCHEMES[scheme]
    figure = Figure(figsize=(4.6, 5.4) if narrow else (9.2, 4.3))
    axes = figure.add_axes((0.03, 0.11, 0.8, 0.63) if narrow else (0.335, 0.15, 0.525, 0.62))
    goal = 100 * (1 - ALPHA)
    axes.axvspan(goal, 101, color=kept, alpha=0.12, linewidth=0)
    axes.axvline(goal, color=kept, linewidth=1.5, linestyle="--")
    shipped = 100 * world.caught(SHIPPED)
    axes.scatter([shipped], [2], s=130, marker="X", color=missed, linewidth=0)
    axes.annotate(
        f"catches {shipped:.0f} of 100",
        (shipped, 2),
        (-12, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        color=ink,
        fontweight="bold",
    )
    tuned, promised = rows
    centred = {"ha": "center", "va": "center"}
    for row, (teams, colour, says) in enumerate(
        (
            (promised, kept, f"teams miss it:\nthe promise allows {DELTA * TEAMS:.0f}"),
            (tuned, missed, "teams miss their target,\nand none of them can tell"),
        )
    ):
        swarm(axes, teams, row, (kept, missed))
        text = f"{TEAMS * teams.missed:.0f} of {TEAMS} {says}"
        axes.text(38 if narrow else 46, row, text, color=colour, fontsize=9.5, **centred)
    labels = (
        ("calibrail, 90% promised (pac)", "the same teams and labels"),
        (f"Tuned on {LABELS[0]} labels to catch 90%", f"{TEAMS} teams, each with its own"),
        (f"As shipped: {SHIPPED}", "a convention, not a promise"),
    )
    alarms = (
        promised.false_alarms.mean(),
        tuned.false_alarms.mean(),
        world.false_alarms(SHIPPED),
    )
    for row, ((title, below), share) in enumerate(zip(labels, alarms, strict=True)):
        place = {"transform": axes.get_yaxis_transform(), "va": "center"}
        side, above = ("left", 0.42) if narrow else ("right", 0.0)
        x = 0.0 if narrow else -0.03
        axes.text(x, row + above + 0.11, title, ha=side, color=ink, fontweight="bold", **place)
        axes.text(x, row + above - 0.13, below, ha=side, color=quiet, fontsize=9, **place)
        axes.text(1.05, row, f"{100 * share:.0f}%", color=ink, fontsize=12, **place)
    top = 2.7 if narrow else 2.5
    axes.set(xlim=(0, 101), ylim=(-0.6, top), yticks=[], xticks=[0, 20, 40, 60, 80, 90, 100])
    axes.set_xlabel("hallucinations really caught, %", color=ink)
    axes.tick_params(colors=quiet)
    axes.set_facecolor("none")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(quiet)
    title = "A threshold is a guess until something is promised about it"
    below = (
        f"FactCG-DeBERTa-L on RAGTruth: {len(world.hallucinated):,} hallucinated and "
        f"{len(world.faithful):,} faithful claims. Each dot is one team's threshold."
    )
    price = "price: faithful\nclaims flagged"
    if narrow:
        figure.text(0.03, 0.9, fill(title, 32), fontsize=13, fontweight="bold", color=ink)
        figure.text(0.03, 0.82, fill(below, 56), fontsize=9, color=quiet)
        figure.text(0.99, 0.745, price, fontsize=9, color=quiet, va="bottom", ha="right")
    else:
        figure.text(0.02, 0.93, title, fontsize=13, fontweight="bold", color=ink)
        figure.text(0.02, 0.86, below, fontsize=9, color=quiet)
        figure.text(0.88, 0.78, price, fontsize=9, color=quiet, va="bottom")
    with rc_context({"svg.hashsalt": "calibrail"}):  # the same run draws the same bytes
        figure.savefig(path, metadata={"Date": None}, transparent=True)


def swarm(axes: Axes, teams: Thresholds, row: int, colours: tuple[str, str]) -> None:
    """Draw a dot for each team over what it catches, in half percents, stacked where alike."""
    values = np.floor(200 * teams.caught + 1e-9) / 2
    for value in np.unique(values):
        many = int((values == value).sum())
        heights = row + (np.arange(many) - (many - 1) / 2) * 0.042
        colour = colours[0] if value >= 100 * (1 - ALPHA) else colours[1]
        axes.scatter(np.full(many, value), heights, s=5, color=colour, linewidth=0)


def main() -> None:
    folder = Path(os.environ.get("CALIBRAIL_DATA", ROOT / ".." / "shared" / "data"))
    path = folder / "aggrefact" / "scores.csv"
    if not path.is_file():
        sys.exit(f"no {path}; set CALIBRAIL_DATA to the folder that holds aggrefact/scores.csv")
    world = read(path)
    by_labels = {n: thresholds(world, n) for n in LABELS}
    FIGURES.mkdir(exist_ok=True)
    for scheme in SCHEMES:
        for narrow, name in ((False, "guarantee"), (True, "guarantee-narrow")):
            draw(world, by_labels[LABELS[0]], scheme, FIGURES / f"{name}-{scheme}.svg", narrow)
    shipped = f"{100 * world.caught(SHIPPED):.1f}% | - | {100 * world.false_alarms(SHIPPED):.1f}%"
    lines = [
        f"FactCG-DeBERTa-L on the {SUBSET} claims of LLM-AggreFact (the first half of the subset): "
        f"{len(world.hallucinated):,} hallucinated and {len(world.faithful):,} faithful. They are "
        "taken for all claims there are, so that what a threshold catches is known. "
        f"{TEAMS} teams draw hallucinated labels from them, independently and with replacement; "
        f"'tuned' catches 90% of a team's own labels, 'pac' is calibrail's threshold at alpha "
        f"{ALPHA} and delta {DELTA}.",
        "",
        "| threshold | hallucinated labels | caught, mean | teams below 90% | false alarms, mean |",
        "|---|---|---|---|---|",
        f"| as shipped, {SHIPPED} | - | {shipped} |",
    ]
    for n, kinds in by_labels.items():
        for name, teams in zip(("tuned", "pac"), kinds, strict=True):
            lines.append(
                f"| {name} | {n} | {100 * teams.caught.mean():.1f}% | {100 * teams.missed:.1f}% | "
                f"{100 * teams.false_alarms.mean():.1f}% |"
            )
    ideal = float(np.sort(world.hallucinated)[int(ALPHA * len(world.hallucinated))])
    lines.append(
        f"| who knows the truth | - | {100 * world.caught(ideal):.1f}% | - | "
        f"{100 * world.false_alarms(ideal):.1f}% |"
    )
    error = 100 * (0.25 / TEAMS) ** 0.5
    lines += [
        "",
        f"A share of teams has a Monte-Carlo error of at most {error:.1f} points (one SE).",
    ]
    write("guarantee", "What a shipped, a tuned and a promised threshold catch", lines)


if __name__ == "__main__":
    main()
