"""``calibrail leaderboard``: what detectors cost at the coverage needed, data set by data set."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import calibrail
from calibrail.cli import options as opt
from calibrail.errors import InputError
from calibrail.settings.option import setting


@dataclass(frozen=True, slots=True)
class Told:
    """What no comparison knows of detectors and data sets."""

    title: str = setting("Title of the page.", "Detectors under guarantee")
    shipped: tuple[str, ...] = setting(
        "Threshold that a detector's authors ship, in its own numbers; for one data set alone "
        "DATA/NAME=T. Repeatable.",
        (),
        metavar="NAME=T",
    )
    mark: tuple[str, ...] = setting(
        "What weakens a detector's row, or with DATA all of a data set's: fitted (on these labels),"
        " selected (data chosen for disagreement), judged (labels by a model). Repeatable.",
        (),
        metavar="NAME=MARK",
    )
    note: tuple[str, ...] = setting(
        "What a reader has to know of a data set. Repeatable.", (), metavar="DATA=TEXT"
    )


@opt.takes_settings
def run(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]RUN...", help="Folders that `calibrail compare` wrote, with names."
        ),
    ],
    output: opt.RunFolder,
    told: Told,
    show: opt.ShowAlone,
) -> None:
    """Merge comparisons into one page that ranks detectors by what they cost at 90 and 95 % caught.

    For each data set and detector: false alarms at thresholds calibrated with a guarantee, the
    smallest limit on them that is certified, the threshold that the authors ship, and whether the
    best trivial baseline is beaten. Writes index.html, leaderboard.json, leaderboard.csv,
    figures/ and the comparisons' pages into a folder that any web server can show.
    """
    marks: dict[str, list[str]] = {}
    for name, mark in _pairs(told.mark, "--mark"):
        marks.setdefault(name, []).append(mark)
    result = calibrail.leaderboard(
        _folders(runs),
        title=told.title,
        shipped={name: _number(name, at) for name, at in _pairs(told.shipped, "--shipped")},
        marks=marks,
        notes=dict(_pairs(told.note, "--note")),
    )
    result.save(output)
    show.finish(
        "leaderboard",
        result.to_dict(),
        f"wrote {output}/index.html, leaderboard.json, leaderboard.csv, figures/",
    )


def _folders(runs: str | list[str]) -> dict[str, str] | list[str]:
    """Return the folders by name, where every one has a name, or as they are."""
    given = [runs] if isinstance(runs, str) else runs
    # A folder may have a "=" in its name.
    named = {item: "=" in item and not Path(item).exists() for item in given}
    if not any(named.values()):
        return given
    result: dict[str, str] = {}
    for item in given:
        name, folder = Path(item).resolve().name, item
        if named[item]:
            name, _, folder = item.partition("=")
        if not name or name in result:
            raise InputError(f"each run must have a name of its own; got {name!r} twice or empty")
        result[name] = folder
    return result


def _pairs(given: tuple[str, ...], flag: str) -> Iterator[tuple[str, str]]:
    for item in given:
        name, separator, value = item.partition("=")
        if not (separator and name and value):
            raise InputError(f"{flag} must look like NAME=VALUE; got {item!r}")
        yield name, value


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"--shipped {name}= must be a number; got {text!r}") from error
