"""Are tables 3 and 5 of Provenance (arXiv 2411.01022) reproduced?

AUC of the factuality of "The answer to question Q is A." given the sources that a cross-encoder
finds relevant. Sources are single sentences, as in section 5 of the paper, except where a data set
has passages of its own.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from cells import Cell, Measured, Section
from page import write
from published import PROVENANCE
from sources import Model, Setup, parse

from calibrail.data import Example, read_all
from calibrail.engine import score_examples
from calibrail.evaluation.stats.auroc import auroc
from calibrail.scores import ScoreSpec, build
from calibrail.text.sentences import sentences

#: HaluEval's files by row.
HALUEVAL: Final = {
    "HaluEval QA": "qa_data.json",
    "HaluEval Dialogue": "dialogue_data.json",
    "HaluEval Summarization": "summarization_data.json",
}
#: TRUE's files by row.
TRUE: Final = {
    "PAWS": "paws",
    "BEGIN": "begin_dev",
    "DIALFACT": "dialfact_valid",
    "Q2": "q2",
    "FRANK": "frank_valid",
    "MNBM": "mnbm",
    "QAGS_CNNDM": "qags_cnndm",
    "QAGS_XSUM": "qags_xsum",
    "SUMMEVAL": "summeval",
    "VITAMIN C": "vitc_dev",
    "FEVER": "fever_dev",
}
#: What stands in for the question of a text that answers none.
NO_QUESTION: Final = "what does the source say"
NEVER: Final = {
    "MS MARCO": "the paper's 252 generated answers are not published",
    "TruthfulQA": "it has no contexts, and the paper does not say what its sources were",
    "HaluEval General": "it has no contexts, and the paper does not say what its sources were",
}
INTRODUCTION: Final = (
    "Sankararaman et al., arXiv 2411.01022. AUC of right against hallucinated answers with "
    "an interval by DeLong's variance. The models are mixedbread-ai/mxbai-rerank-base-v1 and "
    "vectara/hallucination_evaluation_model; a stand-in for them is the embedded encoder's cosine "
    "and the model that `--stand-in factuality=FOLDER` names."
)


def main(arguments: Sequence[str] | None = None) -> None:
    setup = parse("provenance", "Are the tables of Provenance reproduced?", arguments)
    sections = [table_3(setup), table_5(setup)]
    write("provenance", "Provenance, published and measured", INTRODUCTION, sections, setup.command)


def table_3(setup: Setup) -> Section:
    """Measure table 3: top-p 0.9, the highest factuality counts."""
    specs = {"AUC": specification(setup, {})}
    cells = []
    for figure in PROVENANCE:
        if figure.table == "3":
            found = NEVER.get(figure.row) or examples_of(setup, figure.row)
            areas = measured(setup, found, specs)
            cells.append(
                Cell(figure, reason=areas) if isinstance(areas, str) else Cell(figure, areas["AUC"])
            )
    return Section("Table 3: one source text", "Sentences as sources.", cells)


def table_5(setup: Setup) -> Section:
    """Measure table 5: two selections, three aggregations."""
    specs = {
        f"top {letter}, {how}": specification(
            setup, {"selection": f"top_{letter}", "aggregation": how}
        )
        for letter in "pk"
        for how in ("min", "max", "weighted")
    }
    cells: list[Cell] = []
    for row in ("HotpotQA", "HaluBench"):
        areas = measured(setup, examples_of(setup, row), specs)
        for figure in PROVENANCE:
            if figure.table == "5" and figure.row == row:
                cells.append(
                    Cell(figure, reason=areas)
                    if isinstance(areas, str)
                    else Cell(figure, areas[figure.column])
                )
    return Section("Table 5: selections and aggregations", "top p = 0.9, top k = 5.", cells)


def specification(setup: Setup, params: Mapping[str, str]) -> tuple[ScoreSpec, str] | str:
    """Return the score with its stand-ins, or why it cannot be built."""
    factuality, relevance = setup.model("hhem", "factuality"), setup.model("mxbai")
    if isinstance(factuality, str):
        return factuality
    stand_ins = [factuality.stand_in] if factuality.stand_in else []
    chosen: dict[str, Any] = {"model": factuality.location, **params}
    if isinstance(relevance, Model):
        chosen["relevance_model"] = relevance.location
    else:
        chosen["relevance"] = "cosine"
        stand_ins.insert(0, "all-MiniLM-L6-v2")
    return ScoreSpec("provenance", chosen), " and ".join(stand_ins)


def measured(
    setup: Setup,
    examples: Sequence[Example] | str,
    specs: Mapping[str, tuple[ScoreSpec, str] | str],
) -> dict[str, Measured] | str:
    """Return the AUC by specification, or why there is none."""
    if isinstance(examples, str):
        return examples
    chosen = balanced(examples, setup.most)
    labels = np.array([example.label for example in chosen])
    found = {}
    for name, spec in specs.items():
        if isinstance(spec, str):
            return spec
        values = next(iter(score_examples(chosen, [build(spec[0])]).columns.values()))
        known = ~np.isnan(values)
        area = auroc(values[known & (labels == 1)], values[known & (labels == 0)])
        if area.estimate is None or area.lower is None or area.upper is None:
            return area.reason or "no AUC"
        n = int(known.sum())
        found[name] = Measured(area.estimate, area.lower, area.upper, n, spec[1])
    return found


def balanced(examples: Sequence[Example], most: int, seed: int = 0) -> list[Example]:
    """Return at most so many examples by lot, as many of each class as there are or half."""
    labels = np.array([example.label for example in examples])
    rng = np.random.default_rng(seed)
    rows = [rng.permutation(np.flatnonzero(labels == label))[: most // 2] for label in (0, 1)]
    return [examples[i] for i in sorted(np.concatenate(rows).tolist())]


def examples_of(setup: Setup, row: str) -> list[Example] | str:
    """Return a row's examples with sentences as sources, or why they cannot be read."""
    if row in HALUEVAL:
        path = setup.file(f"halueval/{HALUEVAL[row]}")
        if isinstance(path, str):
            return path
        return [asked(example) for example in read_all(path, require=("contexts", "response"))[0]]
    if row in TRUE:
        path = setup.file(f"true/{TRUE[row]}_download.csv")
        return path if isinstance(path, str) else list(true_rows(path))
    if row == "HaluBench":
        path = setup.file("halubench/halubench.jsonl")
        return path if isinstance(path, str) else list(halubench_rows(path))
    path = setup.file("hotpotqa/hotpot_dev_distractor_v1.json")
    other = path if isinstance(path, str) else examples_of(setup, "HaluEval QA")
    if isinstance(path, str) or isinstance(other, str):
        return str(other)
    return [*hotpot_rows(path), *(example for example in other if example.label == 1)]


def asked(example: Example) -> Example:
    """Return an example with a question and with single sentences as sources."""
    parts = tuple(part.text for chunk in example.contexts for part in sentences(chunk))
    question = example.question or NO_QUESTION
    return replace(example, contexts=parts or example.contexts, question=question)


def true_rows(path: Path) -> Iterator[Example]:
    """Yield TRUE's rows: grounding, generated_text, label 1 = consistent."""
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            yield asked(
                Example(
                    contexts=(row["grounding"],),
                    response=row["generated_text"],
                    label=1 - int(float(row["label"])),
                    id=f"true-{number}",
                )
            )


def halubench_rows(path: Path) -> Iterator[Example]:
    """Yield HaluBench's rows: passage, question, answer, label PASS or FAIL."""
    for number, row in enumerate(records(path)):
        label = {"PASS": 0, "FAIL": 1}[row["label"]]
        example = Example(row["question"], (row["passage"],), row["answer"], label)
        yield asked(replace(example, id=f"halubench-{number}"))


def hotpot_rows(path: Path) -> Iterator[Example]:
    """Yield HotpotQA's right answers with their ten paragraphs; the hallucinated are HaluEval's."""
    for number, row in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        chunks = tuple("".join(parts) for _, parts in row["context"])
        yield Example(row["question"], chunks, row["answer"], 0, id=f"hotpot-{number}")


def records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON-lines file."""
    for text in path.read_text(encoding="utf-8").split("\n"):
        if text.strip():
            yield json.loads(text)


if __name__ == "__main__":
    main()
