"""Traces without labels, and what a person would say of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import calibrail
from calibrail import Guardrail
from calibrail.labelling.session import Session

WORDS = (
    *("river", "castle", "number", "engine", "garden", "letter"),
    *("winter", "market", "silver", "window", "bridge", "doctor"),
)


def traces(n: int, groups: int | None = None) -> list[dict[str, Any]]:
    """Return n different traces; every third answer says what its context does not."""
    rows = []
    for i in range(n):
        word, other = WORDS[i % 12], WORDS[i // 12 % 12]
        fact = f"The {word} of the {other} has the mark {i * 7919} and the seal {i * 104729}."
        mark = i * 7919 if i % 3 else i * 7919 + 1
        row: dict[str, Any] = {
            "id": f"t{i}",
            "question": f"Which mark has the {word} of the {other}, record {i}?",
            "contexts": [fact],
            "response": f"It has the mark {mark}.",
            "suspicion": (i % 7) / 7 + (0.5 if i % 3 == 0 else 0.0),
        }
        if groups is not None:
            row["group"] = f"g{i % groups}"
        rows.append(row)
    return rows


def truth(id: str) -> int:
    """Return the label of a trace."""
    return int(int(id[1:]) % 3 == 0)


def truth_of(question: str) -> int:
    """Return the label of a trace whose id nobody is shown."""
    number = question.removesuffix("?").rpartition(" ")[2]
    return truth(f"t{number}")


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write traces as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def frozen(alpha: float = 0.2) -> Guardrail:
    """Return a guardrail on the column ``suspicion``, made from other answers."""
    rows = [
        {**row, "id": f"c{i}", "response": f"Nothing is said of record {i}.", "label": i % 2}
        for i, row in enumerate(traces(200))
    ]
    for i, row in enumerate(rows):
        row["suspicion"] = 0.3 + 0.004 * i if i % 2 else 0.003 * i
    score = "column:column=suspicion,higher=hallucinated"
    return calibrail.calibrate(rows, score, alpha=alpha).freeze()


def label_some(session: Session, annotator: str, n: int) -> list[str]:
    """Label n answers truthfully; return their ids as they came."""
    ids = []
    for _ in range(n):
        task = session.next(annotator)
        assert task is not None
        session.put(annotator, task.order, truth(task.id))
        ids.append(task.id)
    return ids


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]
