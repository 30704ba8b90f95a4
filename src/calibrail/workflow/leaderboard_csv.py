"""How does a leaderboard become a table for other programs?"""

import csv
import io
from typing import Any

from calibrail.conformal import Bound
from calibrail.evaluation.leaderboard.board import Leaderboard, Standing


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
