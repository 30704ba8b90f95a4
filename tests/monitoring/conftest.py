"""A frozen guardrail, and streams of what it decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calibrail
from calibrail.monitoring.history import Rows
from tests.pipelines.logs import unsketched

Stream = Callable[..., Rows]


@pytest.fixture(scope="session")
def guardrail() -> calibrail.Guardrail:
    """A guardrail whose streams are compared with their own beginning alone."""
    return unsketched(calibrail.calibrate("example:facts", score="novel_count", alpha=0.2).freeze())


@pytest.fixture(scope="session")
def stream() -> Stream:
    """Rows that are alike, but for columns that a test gives; every tenth score is undefined."""

    def made(n: int, seed: int = 0, start: int = 0, **columns: Any) -> Rows:
        rng = np.random.default_rng(seed)
        score = columns.pop("score", rng.normal(0.0, 1.0, n))
        score = np.where(columns.pop("undefined", rng.random(n) < 0.1), np.nan, score)
        given = {
            "time": 1.6e9 + 60.0 * (start + np.arange(n)),
            "question_length": rng.poisson(60, n),
            "response_length": rng.integers(100, 900, n),
            "chunks": rng.integers(3, 6, n),
            "language": rng.choice(["en", "de", "fr"], n, p=[0.8, 0.15, 0.05]).tolist(),
            "ref": [("chain", start + row, f"id-{start + row}") for row in range(n)],
        }
        return Rows.of(score, score > 1.0, **{**given, **columns})

    return made
