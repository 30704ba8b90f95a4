"""How do several comparisons become one page that ranks detectors?"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from calibrail.atomic_files import write_atomically
from calibrail.conformal import Bound
from calibrail.data.splits import CONFIRMING, PART_NAMES, TEST
from calibrail.errors import DataError, InputError, file_errors
from calibrail.evaluation.compare import SCHEMA as COMPARE_SCHEMA
from calibrail.evaluation.scored_answers import CLASSES
from calibrail.options import fields
from calibrail.pipelines.run import read_json, write_run
from calibrail.scores.table import RESERVED

from .board import MARKS, DataSet, Leaderboard, Standing, standings
from .document import document

#: What a folder may hold besides: tests of detectors against the one that they were made of, as
#: ``paired`` of ``compare.json`` has those against the best baseline, under ``against_base``.
BASE_TESTS: Final = "base.json"


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """What ``calibrail compare`` left in a folder."""

    folder: Path
    comparison: Mapping[str, Any]
    columns: Mapping[str, NDArray[np.float64]]
    labels: NDArray[np.int8]
    split: NDArray[np.str_]
    negated: frozenset[str]
    cost: Mapping[str, Any]

    @property
    def page(self) -> Path:
        """The comparison's own page, which may be missing."""
        return self.folder / "report.html"

    @property
    def names(self) -> list[str]:
        """All scores: detectors, those without a threshold, baselines."""
        return [*self.columns]

    @property
    def n_test(self) -> dict[str, int]:
        """Test answers that choose, by class: those of all rates."""
        test = self.split == PART_NAMES[TEST]
        return {name: int(np.sum(test & (self.labels == label))) for name, label in CLASSES.items()}

    def seconds(self) -> dict[str, float]:
        """Return what 1,000 answers took, of scores that calibrail computed."""
        columns = {
            item["name"]
            for item in self.comparison["detectors"]
            if (item["score"] or {}).get("name") == "column"
        }
        return {
            item["score"]: item["seconds_per_1000"]
            for item in self.cost.get("scores", ())
            if item["score"] not in columns and item["seconds_per_1000"] is not None
        }

    def data_set(self, name: str, note: str, page: str | None, rows: Sequence[Standing]) -> DataSet:
        """Return the data set with what the comparison says of its answers."""
        content, data = self.comparison, self.comparison["data"]
        first, entry = content["detectors"][0], content["alpha_sweep"][0]
        return DataSet(
            name=name,
            source=" ".join(Path(item).name for item in str(data["source"]).split()),
            sha256=data["sha256"],
            note=note,
            page=page,
            n_examples=data["n_examples"],
            n_hallucinated=data["n_hallucinated"],
            n_calibration=first["n_calibration"],
            n_groups=entry["n"],
            counted=entry["counted"],
            n_test=self.n_test,
            command=str(content["reproduce"].get("command", "")),
            rows=tuple(rows),
            curves={
                item["name"]: item["curve"] for item in content["detectors"] if item.get("curve")
            },
        )


def read_compared(folder: Path) -> Compared:
    """Read a comparison's folder.

    Raises
    ------
    DataError
        If it holds none, one of another version, or one whose scores are not its own.
    """
    again = "; run `calibrail compare` again, with -o"
    comparison = read_json(folder / "compare.json", "compare")
    if comparison.get("schema") != COMPARE_SCHEMA:
        raise DataError(f"{folder / 'compare.json'} is no comparison of this version{again}")
    cost = read_json(folder / "cost.json", "compare") if (folder / "cost.json").exists() else {}
    if (folder / BASE_TESTS).exists():
        paired = read_json(folder / BASE_TESTS, "compare")["paired"]
        comparison = {**comparison, "paired": {**comparison["paired"], **paired}}
    path = folder / "scores.parquet"
    try:
        with file_errors(f"cannot read {path}", again):
            table = pq.read_table(path)
    except pa.ArrowException as error:
        raise DataError(f"{path} is damaged: {error}{again}") from error
    try:
        names = [
            item["name"]
            for part in ("detectors", "uncalibrated", "baselines")
            for item in comparison[part]
        ]
        stored = {name: f"score:{name}" if name in RESERVED else name for name in names}
        columns = {
            name: table.column(column).to_numpy().astype(np.float64)
            for name, column in stored.items()
        }
        labels = table.column("label").to_numpy().astype(np.int8)
        split = np.asarray(table.column("split").to_pylist(), dtype=np.str_)
        if not comparison["detectors"]:
            reason = comparison["uncalibrated"][0]["reason"]
            raise DataError(f"{folder}: no detector could be calibrated: {reason}")
        held = set(table.column_names)
        negated = frozenset(name for name, key in stored.items() if f"{key}__column" in held)
        run = Compared(folder, comparison, columns, labels, split, negated, cost)
        _same_answers(run)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        reason = str(error).splitlines()[0]
        message = f"{folder}: compare.json and scores.parquet do not belong together: {reason}"
        raise DataError(f"{message}{again}") from error
    return run


def _same_answers(run: Compared) -> None:
    """Refuse scores that are not those of the comparison."""
    rows = [row for entry in run.comparison["alpha_sweep"] for row in entry["rows"]]
    for row in rows:
        for rate, name in (("coverage", "hallucinated"), ("fpr", "faithful")):
            found, told = run.n_test[name], (row[rate] or {"n": run.n_test[name]})["n"]
            if found != told:
                raise ValueError(f"{found} instead of {told} {name} test answers")
    # Before, both halves of the test part were called test, and stood in all rates.
    spared = int(np.sum(run.split == PART_NAMES[CONFIRMING]))
    if spared != sum(run.comparison["winner"]["halves"]["confirming"].values()):
        raise ValueError(f"{spared} answers are kept to confirm a winner")


def leaderboard_csv(board: Leaderboard) -> str:
    """Return one line a row of the page, with the column names of ``leaderboard.csv``."""
    buffer = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for item in board.data_sets:
        for row in item.rows:
            line = {"data": item.name, **_flat(row)}
            if writer is None:
                writer = csv.DictWriter(buffer, list(line), lineterminator="\n")
                writer.writeheader()
            writer.writerow(line)
    return buffer.getvalue()


def _flat(row: Standing) -> dict[str, Any]:
    """Return a row as cells of a table."""
    cells: dict[str, Any] = {
        "name": row.name,
        "baseline": int(row.baseline),
        "higher": row.higher,
        "auroc": (row.auroc or {}).get("estimate"),
    }
    for target in row.targets:
        at = f"{round(100 * target.coverage)}"
        cells |= {
            f"state_{at}": target.state,
            f"threshold_{at}": target.threshold,
            **_bound(f"caught_{at}", target.caught),
            **_bound(f"fpr_{at}", target.fpr),
            f"certified_limit_{at}": target.limit,
            f"certified_confidence_{at}": target.confidence,
        }
    shipped, against = row.shipped, row.against
    cells |= {
        "shipped_threshold": None if shipped is None else shipped.threshold,
        **_bound("shipped_caught", None if shipped is None else shipped.caught),
        **_bound("shipped_fpr", None if shipped is None else shipped.fpr),
        "best_baseline": None if against is None else against.name,
        "fpr_minus_baseline": None if against is None else against.difference,
        "p_adjusted": None if against is None else against.p_adjusted,
        "separated": None if against is None else against.separated,
        "n_undefined": row.n_undefined,
        "marks": " ".join(row.marks),
    }
    return cells


def _bound(name: str, bound: Bound | None) -> dict[str, Any]:
    return {
        name: None if bound is None else bound.estimate,
        f"{name}_low": None if bound is None else bound.lower,
        f"{name}_high": None if bound is None else bound.upper,
        f"{name}_n": None if bound is None else bound.n,
    }


def steady(content: Any) -> Any:
    """Return JSON whose computed numbers have 12 digits: processors differ in the last ones.

    Thresholds are scores of the data, and stay exact.
    """
    if isinstance(content, Mapping):
        return {key: item if key == "threshold" else steady(item) for key, item in content.items()}
    if isinstance(content, list | tuple):
        return [steady(item) for item in content]
    return float(f"{content:.12g}") if isinstance(content, float) else content


#: Where the pages of the comparisons lie, beside the leaderboard's own.
PAGES: Final = "runs"


@dataclass(frozen=True, slots=True)
class LeaderboardRun:
    """A leaderboard with the comparisons behind it.

    Attributes
    ----------
    board : Leaderboard
        Every data set and row.
    costs : mapping of str to mapping of str to float
        Seconds per 1,000 answers, by data set and score, where calibrail computed the score.
    pages : mapping of str to Path
        The comparisons' own pages, by data set.
    """

    board: Leaderboard
    costs: Mapping[str, Mapping[str, float]]
    pages: Mapping[str, Path]

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``leaderboard.json``: no time that was measured is in it."""
        content: dict[str, Any] = steady(self.board.to_dict())
        return content

    def to_csv(self) -> str:
        """Return one line a row of the page, with the column names of ``leaderboard.csv``."""
        return leaderboard_csv(Leaderboard.from_dict(self.to_dict()))

    def save(self, folder: str | Path) -> Path:
        """Write ``index.html``, ``leaderboard.json``, ``leaderboard.csv``, figures and pages.

        The same comparisons give the same bytes, except where measured times stand: in
        ``cost.json`` and on the pages.
        """
        content = self.to_dict()
        path = fields.path(folder, "folder")
        if (path / "compare.json").exists() or (path / "report.json").exists():
            raise InputError(f"{path} holds a run, which a page would spoil; name another folder")
        files: dict[str, Mapping[str, Any] | bytes] = {
            "leaderboard.json": content,
            "leaderboard.csv": self.to_csv().encode(),
            "cost.json": {"schema": "calibrail.leaderboard.cost/1", "data_sets": dict(self.costs)},
        }
        write_run(path, files, document(content, self.costs), page="index.html", force=True)
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
        key: (value,) if isinstance(value, str) else fields.texts(value, f"the marks of {key}")
        for key, value in (marks or {}).items()
    }
    for key, values in given.items():
        for value in values:
            fields.one_of(value, MARKS, f"the mark of {key}")
    read = {name: read_compared(folder) for name, folder in folders.items()}
    promise = _same_promise(read)
    known = {key for data, run in read.items() for name in run.names for key in _keys(data, name)}
    shipped_at = {
        key: fields.number(value, f"the shipped threshold of {key}")
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
        paths = [fields.path(item, "runs") for item in runs]
        names = [path.resolve().name for path in paths]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(
                f"two runs are called {twice[0]!r}; give each a name of its own (NAME=FOLDER)"
            )
        runs = dict(zip(names, paths, strict=True))
    if not runs:
        raise InputError("runs must name at least one folder of `calibrail compare`")
    return {str(name): fields.path(path, "runs") for name, path in runs.items()}


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
