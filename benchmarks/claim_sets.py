"""The claims of LLM-AggreFact with the scores of FactCG, one table a subset and one of all.

``python benchmarks/claim_sets.py FOLDER`` writes them from ``aggrefact/scores.csv`` in the folder
that CALIBRAIL_DATA names. That file does not say which claims were checked against one document,
but neighbours were: blocks of neighbouring rows are one group, a guess. Where it is not there, it
is made of a clone of github.com/anulum/director-ai beside it; so is ``frank/metric_scores.csv`` of
a clone of github.com/artidoro/frank as ``frank``.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

ROOT: Final = Path(__file__).resolve().parents[1]
#: FactCG-DeBERTa-L, and what others made of it by fine-tuning: P(supported).
BASE: Final = "factcg_base"
COLUMNS: Final = (
    BASE,
    *(f"factcg_{name}" for name in ("anli", "docnli", "nca_synthetic", "qqp", "rte", "wanli")),
)
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
#: Where the scores of a model lie in a clone.
PUBLISHED: Final = "director-ai/benchmarks/scores"
#: Columns of FRANK's metrics, by their published names; no file holds the third.
METRICS: Final[Mapping[str, str]] = {
    "factcc": "FactCC",
    "feqa": "FEQA",
    "dae": "DAE",
    "qags": "QAGS",
    "bertscore_p_article": "BertScore P Art",
    "rouge_l": "Rouge L",
}
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


def write_published(data: Path) -> None:
    """Write the tables of public scores that are not there, of clones in the data folder."""
    if (clone := data / PUBLISHED).is_dir():
        write_once(data / "aggrefact" / "scores.csv", published_claims(clone))
    if (clone := data / "frank" / "data").is_dir():
        write_once(data / "frank" / "metric_scores.csv", published_summaries(clone))


def published_claims(clone: Path) -> Iterable[list[Any]]:
    """Yield the first half of the claims of each subset, with the scores of all models."""
    files = [column.removeprefix("factcg_").replace("_", "-") for column in COLUMNS]
    files = [name if name == "base" else f"factcg-{name}" for name in files]
    models = [json.loads((clone / f"{name}.json").read_text(encoding="utf-8")) for name in files]
    yield ["id", "subset", "label_supported", *COLUMNS]
    for name in BLOCKS:
        claims = [*zip(*(scores[name] for scores in models), strict=True)]
        for i, scored in enumerate(claims[: len(claims) // 2]):
            [label] = {label for label, _ in scored}
            yield [f"{name}-{i}", name, label, *(score for _, score in scored)]


def published_summaries(clone: Path) -> Iterable[list[Any]]:
    """Yield FRANK's summaries; hallucinated is one of which not every sentence is factual."""
    metrics, people = (
        json.loads((clone / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("baseline_factuality_metrics_outputs", "human_annotations")
    )
    factual = {(row["hash"], row["model_name"]): row["Factuality"] for row in people}
    yield ["id", "group", "dataset", "model", "label", *METRICS]
    for row in metrics:
        article, model = row["hash"][:12], row["model_name"]
        label = int(factual[row["hash"], model] < 1)
        scores = (row.get(name) for name in METRICS.values())
        yield [f"{article}-{model}", article, row["dataset"], model, label, *scores]


def write_once(path: Path, rows: Iterable[list[Any]]) -> None:
    """Write a table that is not there yet."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows(rows)


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
    data = Path(os.environ.get("CALIBRAIL_DATA", ROOT / ".." / "shared" / "data"))
    write_published(data)
    path = data / "aggrefact" / "scores.csv"
    if len(sys.argv) != 2 or not path.is_file():
        sys.exit(
            f"needs a folder to write to, and {path} or, of github.com/anulum/director-ai, "
            f"{data / PUBLISHED} (CALIBRAIL_DATA names the data)"
        )
    write_claims(path, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
