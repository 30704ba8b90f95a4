"""Which command would calibrate what `calibrail doctor` has looked at?"""

import shlex
from collections.abc import Sequence

from calibrail.report.blocks import Json


def calibrating(diagnosis: Json, columns: Sequence[Json]) -> str:
    """Return the command up to its detector: one that reads all answers, or the best column.

    Parameters
    ----------
    diagnosis : mapping
        What ``calibrail doctor --json`` prints.
    columns : sequence of mapping
        The columns that hold scores.
    """
    names = [item["name"] for item in diagnosis["scores"] if item["n"] == diagnosis["usable"]]
    columns = [row for row in columns if row["auroc"] is not None and not row["tells_label"]]
    score = f"--score {names[0] if names else 'NAME'}"
    if columns and set(names) <= {"length"}:
        best = max(columns, key=lambda column: abs(column["auroc"] - 0.5))
        score = f"--score-column {shlex.quote(best['name'])} --higher {higher(best['auroc'])}"
    source = shlex.join([*named(diagnosis), *diagnosis["reading"]["options"]])
    return f"calibrail calibrate {source} {score}"


def what_column_does(column: Json, unit: str = "") -> str:
    """Return how well a column that holds numbers tells hallucinations apart."""
    area, detail = column["auroc"], "no AUROC without both classes"
    if column["tells_label"]:
        detail = f"no detector's score: AUROC{unit} {area:.0f}, probably made from the label"
    elif area is not None:
        detail = f"AUROC{unit} {max(area, 1 - area):.3f} with --higher {higher(area)}"
    return detail + (f", {column['missing']:,} missing" if column["missing"] else "")


def lowest_alpha(supports: Sequence[Json]) -> float | None:
    """Return the smallest tolerated miss rate from 0.05 on that there are answers for."""
    marginal = [item for item in supports if item["guarantee"] == "marginal"]
    alphas = [item["alpha"] for item in marginal if item["possible"] and item["alpha"] >= 0.05]
    return min(alphas, default=None)


def named(diagnosis: Json) -> Sequence[str]:
    """Return the names of the data, or what stands for them where it was in memory."""
    return diagnosis["inputs"] or ["DATA"]


def higher(auroc: float) -> str:
    """Return the class whose answers have the higher values."""
    return "hallucinated" if auroc >= 0.5 else "faithful"
