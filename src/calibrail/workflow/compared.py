"""What did ``calibrail compare`` leave in a folder?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from calibrail.errors import DataError, file_errors
from calibrail.evaluation.compare.compare import SCHEMA as COMPARE_SCHEMA
from calibrail.evaluation.leaderboard.board import DataSet, Standing
from calibrail.evaluation.sample import CLASSES
from calibrail.scores.table import RESERVED
from calibrail.workflow.run_folder import read_json


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
            n_test={key: first["test"][f"n_{key}"] for key in CLASSES},
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
    for item in run.comparison["detectors"]:
        test = item["test"]
        for label, name in ((1, "n_hallucinated"), (0, "n_faithful")):
            found = int(np.sum((run.split == "test") & (run.labels == label)))
            if found != test[name]:
                raise ValueError(f"{found} instead of {test[name]} {name[2:]} test answers")
