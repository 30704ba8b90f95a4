"""How do several comparisons become one page that ranks detectors?"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np

from calibrail.errors import InputError
from calibrail.evaluation.leaderboard.board import MARKS, Leaderboard
from calibrail.evaluation.leaderboard.standings import standings
from calibrail.settings import checks
from calibrail.shown import Shown
from calibrail.workflow.compared import Compared, read_compared
from calibrail.workflow.leaderboard_csv import leaderboard_csv
from calibrail.workflow.run_folder import write_run
from calibrail.writing import write_atomically

#: Where the pages of the comparisons lie, beside the leaderboard's own.
PAGES: Final = "runs"


@dataclass(frozen=True, slots=True, repr=False)
class LeaderboardRun(Shown):
    """A leaderboard with the comparisons behind it: what ``calibrail leaderboard`` writes.

    Attributes
    ----------
    board : Leaderboard
        Every data set and row.
    costs : mapping of str to mapping of str to float
        Seconds per 1,000 answers, by data set and score, where calibrail computed the score.
    pages : mapping of str to Path
        The comparisons' own pages, by data set.
    """

    shown_as = "leaderboard"

    board: Leaderboard
    costs: Mapping[str, Mapping[str, float]]
    pages: Mapping[str, Path]

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``leaderboard.json``: no time that was measured is in it."""
        return self.board.to_dict()

    def to_csv(self) -> str:
        """Return one line a row of the page, with the column names of ``leaderboard.csv``."""
        return leaderboard_csv(self.board)

    def save(self, folder: str | Path) -> Path:
        """Write ``index.html``, ``leaderboard.json``, ``leaderboard.csv``, figures and pages.

        The same comparisons give the same bytes, except where measured times stand: in
        ``cost.json`` and on the pages.
        """
        from calibrail.report.documents.leaderboard import document

        content = self.to_dict()
        path = checks.path(folder, "folder")
        if (path / "compare.json").exists() or (path / "report.json").exists():
            raise InputError(f"{path} holds a run, which a page would spoil; name another folder")
        files: dict[str, Mapping[str, Any] | bytes] = {
            "leaderboard.json": content,
            "leaderboard.csv": self.to_csv().encode(),
            "cost.json": {"schema": "calibrail.leaderboard.cost/1", "data_sets": dict(self.costs)},
        }
        write_run(path, files, document(content, self.costs), page="index.html")
        (path / PAGES).mkdir(exist_ok=True)
        for item in self.board.data_sets:
            if item.page is not None:
                write_atomically(path / item.page, self.pages[item.name].read_bytes())
        return path


def leaderboard(
    runs: Mapping[str, str | Path] | Sequence[str | Path],
    *,
    title: str = "Detectors under guarantee",
    shipped: Mapping[str, float] | None = None,
    marks: Mapping[str, str | Sequence[str]] | None = None,
    notes: Mapping[str, str] | None = None,
) -> LeaderboardRun:
    """Merge comparisons into one page: what does each detector cost at the coverage needed?

    Parameters
    ----------
    runs : mapping of str to path, or sequence of path
        Folders that ``calibrail compare ... -o FOLDER`` wrote, by the name of the data set; by
        their own names where none is given. All have the same guarantee and confidence.
    title : str
        Of the page.
    shipped : mapping of str to float, optional
        The threshold that a detector's authors ship, in its own numbers, by the detector's name or
        by ``DATA/NAME``.
    marks : mapping of str to str or sequence of str, optional
        What weakens a row: ``fitted``, ``selected`` or ``judged``; by detector, by data set, or by
        ``DATA/NAME``.
    notes : mapping of str to str, optional
        What a reader has to know of a data set: its source, how it was chosen.

    Returns
    -------
    LeaderboardRun
        ``to_dict()["data_sets"]`` holds one entry a comparison; ``save(folder)`` writes the page.

    Raises
    ------
    InputError
        If a name or a mark is unknown, or comparisons differ in what they promise.
    DataError
        If a folder holds no comparison, or was changed.
    """
    folders = _named(runs)
    notes = dict(notes or {})
    given = {
        key: (value,) if isinstance(value, str) else checks.texts(value, f"the marks of {key}")
        for key, value in (marks or {}).items()
    }
    for key, values in given.items():
        for value in values:
            checks.one_of(value, MARKS, f"the mark of {key}")
    read = {name: read_compared(folder) for name, folder in folders.items()}
    promise = _same_promise(read)
    known = {key for data, run in read.items() for name in run.names for key in _keys(data, name)}
    shipped_at = {
        key: checks.number(value, f"the shipped threshold of {key}")
        for key, value in (shipped or {}).items()
    }
    if wrong := [key for key, value in shipped_at.items() if not np.isfinite(value)]:
        raise InputError(f"the shipped threshold of {wrong[0]} must be a finite number")
    _refuse_unknown(shipped_at, known, "shipped threshold")
    _refuse_unknown(given, known | set(read), "mark")
    _refuse_unknown(notes, set(read), "note")
    sets, costs, pages = [], {}, {}
    files = _file_names(list(read))
    for data, run in read.items():
        rows = standings(
            run.comparison,
            run.columns,
            run.labels,
            run.split,
            negated=run.negated,
            shipped={
                name: shipped_at[key]
                for name in run.names
                for key in _keys(data, name)
                if key in shipped_at
            },
            marks={
                name: [mark for key in (data, *_keys(data, name)) for mark in given.get(key, ())]
                for name in run.names
            },
        )
        page = f"{PAGES}/{files[data]}.html" if run.page.exists() else None
        if page is not None:
            pages[data] = run.page
        costs[data] = run.seconds()
        sets.append(run.data_set(data, notes.get(data, ""), page, rows))
    return LeaderboardRun(Leaderboard.of(title, promise, sets), costs, pages)


def _named(runs: Mapping[str, str | Path] | Sequence[str | Path]) -> dict[str, Path]:
    """Return folders by the name of their data set."""
    if isinstance(runs, str | Path):
        runs = [runs]
    if not isinstance(runs, Mapping):
        paths = [checks.path(item, "runs") for item in runs]
        names = [path.resolve().name for path in paths]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(
                f"two runs are called {twice[0]!r}; give each a name of its own (NAME=FOLDER)"
            )
        runs = dict(zip(names, paths, strict=True))
    if not runs:
        raise InputError("runs must name at least one folder of `calibrail compare`")
    return {str(name): checks.path(path, "runs") for name, path in runs.items()}


def _same_promise(runs: Mapping[str, Compared]) -> dict[str, Any]:
    """Return what all comparisons promise, or refuse those that differ."""
    promises = {}
    for name, run in runs.items():
        first = run.comparison["detectors"][0]
        promise = {key: first["promise"][key] for key in ("guarantee", "delta")}
        promises[name] = promise | {"confidence": first["requirement"]["confidence"]}
    (name, first), *others = promises.items()
    for other, promise in others:
        for key, value in promise.items():
            if value != first[key]:
                raise InputError(
                    f"all comparisons must have the same {key}; it is {first[key]} for {name} and "
                    f"{value} for {other}; run `calibrail compare` again for one of them"
                )
    return first


def _keys(data: str, name: str) -> list[str]:
    """Return under which keys something may be said of a detector on a data set.

    A column that has the name of one of our scores may be called by that name alone.
    """
    names = dict.fromkeys((name, name.removeprefix("column:")))
    return [*names, *(f"{data}/{item}" for item in names)]


def _refuse_unknown(given: Mapping[str, Any], known: set[str], what: str) -> None:
    if unknown := sorted(set(given) - known):
        near = ", ".join(sorted(name for name in known if "/" not in name))
        raise InputError(f"there is nothing called {unknown[0]!r} for a {what}; known: {near}")


def _file_names(names: Sequence[str]) -> dict[str, str]:
    """Return data sets' names as files', all different, of letters, digits, ``.``, ``-``, ``_``."""
    result: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "data"
        tried = (plain if n == 1 else f"{plain}-{n}" for n in count(1))
        # A disk may take capital letters for small ones.
        result[name] = next(item for item in tried if item.lower() not in taken)
        taken.add(result[name].lower())
    return result
