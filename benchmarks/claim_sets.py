"""The claims of LLM-AggreFact with the scores of FactCG, one table a subset and one of all.

``python benchmarks/claim_sets.py FOLDER`` writes them from ``aggrefact/scores.csv`` in the folder
that CALIBRAIL_DATA names, which ``public_sets.py`` makes of a clone. That file does not say which
claims were checked against one document, but neighbours were: blocks of neighbouring rows are one
group, a guess.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from public_sets import FACTCG as COLUMNS
from public_sets import TABLES, claims, data_folder, write_tables

#: FactCG-DeBERTa-L, of which the others of ``COLUMNS`` were made by fine-tuning: P(supported).
BASE: Final = COLUMNS[0]
#: Neighbouring claims that count as one group: the fewest of 6, 12, 24 and 36 from which on the
#: scores of two claims, drawn by lot from neighbouring blocks, correlate by no more than ``ALIKE``
#: beyond those of rows far apart. Thresholds and verdicts rest on one claim a block and class;
#: means of neighbouring blocks are more alike (up to 0.6 on RAGTruth), and decide nothing.
#: RAGTruth has six answers to a source, of about six claims each: 36.
BLOCKS: Final[Mapping[str, int]] = {
    "AggreFact-CNN": 6,
    "AggreFact-XSum": 6,
    "TofuEval-MediaS": 36,
    "TofuEval-MeetB": 36,
    "Wice": 6,
    "Reveal": 6,
    "ClaimVerify": 6,
    "FactCheck-GPT": 24,
    "ExpertQA": 12,
    "Lfqa": 24,
    "RAGTruth": 36,
}
ALIKE: Final = 0.06
#: Rows so far apart share no document; where scores are alike there, a file's parts differ.
FAR: Final = (72, 144)
#: The table that holds every subset.
TOGETHER: Final = "together"


def read_claims(path: Path) -> dict[str, list[dict[str, str]]]:
    """Return the rows of every subset, in the order of the file."""
    with path.open(newline="", encoding="utf-8") as stream:
        subsets: dict[str, list[dict[str, str]]] = {name: [] for name in BLOCKS}
        for row in csv.DictReader(stream):
            subsets[row["subset"]].append(row)
    return subsets


def write_claims(scores: Path, folder: Path) -> None:
    """Write every subset by itself, and all of them, with labels (1 = hallucinated) and blocks."""
    tables = {
        name: [
            [row["id"], f"{name}-{i // BLOCKS[name]}", str(1 - int(row["label_supported"]))]
            + [row[column] for column in COLUMNS]
            for i, row in enumerate(rows)
        ]
        for name, rows in read_claims(scores).items()
    }
    tables[TOGETHER] = [row for rows in tables.values() for row in rows]
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerows([["id", "block", "label", *COLUMNS], *rows])


def alike(rows: list[dict[str, str]], block: int) -> float:
    """Return by how much claims of neighbouring blocks are more alike than those of rows far apart.

    Correlations of the base model's log odds, each class around its own mean: labels that change
    along the file do not matter to a threshold, which is set within one class. Where one claim is
    drawn by lot from each of two blocks, its expected product is that of the blocks' means.
    """
    labels = np.array([row["label_supported"] for row in rows])
    shares = np.clip([float(row[BASE]) for row in rows], 1e-6, 1 - 1e-6)
    odds = np.log(shares / (1 - shares))
    for label in np.unique(labels):
        odds[labels == label] -= odds[labels == label].mean()
    odds /= odds.std()
    lags = range(FAR[0], min(FAR[1], len(rows) // 2))
    far = float(np.mean([_product(odds[:-lag], odds[lag:]) for lag in lags]))
    blocks = odds[: len(odds) // block * block].reshape(-1, block).mean(axis=1)
    return _product(blocks[:-1], blocks[1:]) - max(0.0, far)


def _product(one: NDArray[Any], other: NDArray[Any]) -> float:
    return float(np.mean(one * other))


def main() -> None:
    data = data_folder()
    write_tables(data)
    [scores] = [item for item in TABLES if item.made is claims]
    if len(sys.argv) != 2 or not (data / scores.path).is_file():
        sys.exit(f"needs a folder to write to, and {scores.path}: {scores.said(data)}")
    write_claims(data / scores.path, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
