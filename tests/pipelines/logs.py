"""Logs of a guardrail on a column of scores: written as a service writes them, in one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import calibrail
from calibrail import Example, Guardrail
from calibrail.guardrail.decision_log import DecisionLog, Entry
from calibrail.guardrail.file import FrozenConfig


def unsketched(guardrail: Guardrail) -> Guardrail:
    """Return a guardrail as older versions froze it: its file holds no sketch of traffic."""
    config = guardrail.config.model_copy(update={"traffic": None})
    return Guardrail(FrozenConfig.from_bytes(config.to_bytes()), guardrail.score)


def column_guardrail(alpha: float = 0.1, **options: Any) -> Guardrail:
    """Return a guardrail on the column ``risk``, calibrated on 200 answers, without a sketch."""
    rows = [
        Example(response=f"answer {row}", label=row % 2, columns={"risk": row % 2 + row % 7 / 10})
        for row in range(200)
    ]
    run = calibrail.calibrate(rows, "column:column=risk,higher=hallucinated", alpha=alpha)
    return unsketched(run.freeze(**options))


def entries(guardrail: Guardrail, risks: Sequence[float | None], start: int = 0) -> list[Entry]:
    """Return what a log takes of answers with these risks; None is one without a score."""
    examples = [
        Example(
            "How many?", ("One.", "Two."), f"It is {row:06}.", id=f"t{row}", columns={"risk": risk}
        )
        for row, risk in enumerate(risks, start)
    ]
    decisions = guardrail.decide(examples)
    return [Entry.of(guardrail, *pair) for pair in zip(examples, decisions, strict=True)]


def logged(
    folder: Path, guardrail: Guardrail, risks: Iterable[float | None], *, start: int = 0, **log: Any
) -> Path:
    """Write one chain of decisions about answers with these risks."""
    with DecisionLog(folder, **log) as chain:
        for entry in entries(guardrail, list(risks), start):
            chain.write([entry])
    return folder
