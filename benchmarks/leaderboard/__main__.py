"""What do detectors cost at the coverage needed, data set by data set?

``python -m benchmarks.leaderboard [NAME=]RUN... -o PAGE`` merges comparisons, folders that
`calibrail compare` wrote, into one page that ranks detectors by what they cost at 90 and 95 %
caught.

For each data set and detector: false alarms at thresholds calibrated with a guarantee, the smallest
limit on them that is certified, the threshold that the authors ship, and whether the best trivial
baseline is beaten. Writes index.html, leaderboard.json, leaderboard.csv, figures/ and the
comparisons' pages into a folder that any web server can show.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from calibrail.errors import CalibrailError, InputError
from calibrail.report import print_document

from .comparisons import leaderboard
from .document import document

#: Exit codes, as of the commands of calibrail: refused as it was asked for; failed.
USAGE, FAILURE = 2, 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Merge comparisons; return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        marks: dict[str, list[str]] = {}
        for name, mark in _pairs(given.mark, "--mark"):
            marks.setdefault(name, []).append(mark)
        result = leaderboard(
            _folders(given.runs),
            title=given.title,
            shipped={name: _number(name, at) for name, at in _pairs(given.shipped, "--shipped")},
            marks=marks,
            notes=dict(_pairs(given.note, "--note")),
        )
        result.save(given.output)
    except CalibrailError as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE if isinstance(error, InputError) else FAILURE
    print_document(document(result.to_dict()), Console(highlight=False, soft_wrap=False))
    print(f"wrote {given.output}/index.html, leaderboard.json, leaderboard.csv, figures/")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.leaderboard",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("runs", nargs="+", metavar="[NAME=]RUN", help="folders of `calibrail compare`, with names")
    add("-o", "--output", required=True, metavar="PAGE", type=Path, help="folder of the page")
    add("--title", default="Detectors under guarantee", help="title of the page")
    add(
        "--shipped",
        action="append",
        default=[],
        metavar="NAME=T",
        help="threshold that a detector's authors ship, in its own numbers; for one data set alone "
        "DATA/NAME=T; repeatable",
    )
    add(
        "--mark",
        action="append",
        default=[],
        metavar="NAME=MARK",
        help="what weakens a detector's row, or with DATA all of a data set's: fitted (on these "
        "labels), selected (data chosen for disagreement), judged (labels by a model); repeatable",
    )
    add(
        "--note",
        action="append",
        default=[],
        metavar="DATA=TEXT",
        help="what a reader has to know of a data set; repeatable",
    )
    return parser


def _folders(given: list[str]) -> dict[str, str] | list[str]:
    """Return the folders by name, where any has a name, or as they are."""
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


def _pairs(given: Sequence[str], flag: str) -> Iterator[tuple[str, str]]:
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


if __name__ == "__main__":
    sys.exit(main())
