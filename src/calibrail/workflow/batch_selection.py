"""What of a batch is released, and what would be at every other cut-off?"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Discoveries, Selection, minimum_n_for_selection
from calibrail.record import plain
from calibrail.settings import SelectionMethod
from calibrail.shown import Shown
from calibrail.writing import write_atomically

#: Cut-offs of the p-value that a table for people shows.
CUTOFFS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
METHODS: Final[tuple[SelectionMethod, ...]] = get_args(SelectionMethod)

#: Why a method promises nothing here.
Obstacle = Literal["grouped_batch", "grouped_labels", "unknown_mix"]


@dataclass(frozen=True, slots=True, repr=False)
class BatchSelection(Shown):
    """What of a batch is released, with the bound for every other choice.

    Attributes
    ----------
    selection : Selection
        Released answers and p-values, in the order of ``ids``.
    bounds : Discoveries
        For every cut-off at once: the most hallucinated answers among the released.
    method : {"bh", "storey", "both-classes"}
        How the batch's share of hallucinated answers entered.
    others : mapping of str to Selection or str
        What each of the other methods would have released, or a code of why it promises nothing.
    ids : tuple of str
        Ids of the answers.
    scores : ndarray of float64, shape (m,)
        Scores, NaN where undefined.
    n_calibration : int
        Hallucinated calibration examples behind the p-values, one a group where groups count once.
    n_labelled : int
        Labelled answers of both classes behind the guardrail.
    n_grouped : int
        Answers that share a group with another of the batch.
    n_undefined, n_errors : int
        Answers without a score, and answers or rows that could not be judged: never released.
    n_seen_before : int
        Calibration examples found in the batch and left out.
    source : str
        What the batch is called.
    part : mapping or None
        Which part of the source was read; None where none was left out.
    """

    shown_as = "select"

    selection: Selection
    bounds: Discoveries
    method: SelectionMethod
    others: Mapping[SelectionMethod, Selection | Obstacle]
    ids: tuple[str, ...]
    scores: NDArray[np.float64]
    n_calibration: int
    n_labelled: int
    n_grouped: int
    n_undefined: int
    n_errors: int
    n_seen_before: int
    source: str
    part: Mapping[str, Any] | None = None

    def at(self, cutoff: float) -> tuple[int, int]:
        """Return answers with a score and a p-value up to a cut-off; the most hallucinated ones."""
        released = np.count_nonzero((self.selection.p_values <= cutoff) & ~np.isnan(self.scores))
        return int(released), min(int(released), self.bounds.at(cutoff)[1])

    def table(self) -> list[dict[str, Any]]:
        """Return a few cut-offs and the selection's own: released, most hallucinated among them."""
        chosen = self.selection.cutoff if self.selection.n_released else None
        cutoffs = {*CUTOFFS} | ({chosen} if chosen is not None else set())
        return [
            {
                "cutoff": cutoff,
                "released": released,
                "most_hallucinated": most,
                "share": most / released if released else None,
                "chosen": cutoff == chosen,
            }
            for cutoff in sorted(cutoffs)
            for released, most in (self.at(cutoff),)
        ]

    def methods(self) -> list[dict[str, Any]]:
        """Return what each method releases and the share of hallucinated it reckons with."""
        rows = []
        for method in METHODS:
            found = self.selection if method == self.method else self.others[method]
            row: dict[str, Any] = {"method": method, "chosen": method == self.method}
            names = ("share", "cutoff", "released", "most_hallucinated", "obstacle")
            row |= dict.fromkeys(names)
            if isinstance(found, Selection):
                row |= {"share": found.share, "cutoff": found.cutoff, "released": found.n_released}
                row["most_hallucinated"] = self.at(found.cutoff)[1] if found.n_released else 0
            else:
                row["obstacle"] = found
            rows.append(row)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return what ``calibrail select --json`` prints: counts and bounds, no answers."""
        counts = ("n_calibration", "n_labelled", "n_grouped", "n_undefined", "n_errors")
        found = self.selection
        return {
            "schema": "calibrail.selection/1",
            "source": self.source,
            "part": self.part,
            "n": len(self.ids),
            "n_released": found.n_released,
            "fdr": found.fdr,
            "method": self.method,
            "share": found.share,
            "cutoff": found.cutoff,
            **{name: getattr(self, name) for name in (*counts, "n_seen_before")},
            "confidence": self.bounds.confidence,
            "most_hallucinated_in_batch": self.bounds.most_hallucinated,
            "n_calibration_for_one": minimum_n_for_selection(
                found.fdr, len(self.ids) or 1, found.share
            ),
            "table": self.table(),
            "methods": self.methods(),
        }

    def items(self) -> list[dict[str, Any]]:
        """Return id, released, score and p_value of each answer."""
        names = ("id", "released", "score", "p_value")
        p_values = np.where(np.isnan(self.scores), np.nan, self.selection.p_values)
        columns = plain([self.ids, self.selection.released, self.scores, p_values])
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def lines(self) -> str:
        """Return one JSON object a line, as ``items`` has them."""
        return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in self.items())

    def save(self, path: str | Path) -> None:
        """Write ``lines`` to a file, whole or not at all."""
        write_atomically(Path(path), self.lines().encode("utf-8", "surrogatepass"))
