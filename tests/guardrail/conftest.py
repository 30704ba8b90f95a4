from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calibrail import Example, calibrate
from calibrail.guardrail import Guardrail


def labelled(n: int = 200, seed: int = 0) -> list[Example]:
    rng = np.random.default_rng(seed)
    examples = []
    for index in range(n):
        label = index % 2
        examples.append(
            Example(
                question=f"secret question {index}",
                contexts=("some context",),
                response=f"secret answer {index}",
                label=label,
                id=f"row-{index}",
                columns={"detector": float(rng.normal(label, 1.0))},
            )
        )
    return examples


@pytest.fixture
def make_guardrail() -> Callable[..., Guardrail]:
    def make(**options: Any) -> Guardrail:
        on_failure = options.pop("on_failure", "error")
        options.setdefault("alpha", 0.1)
        run = calibrate(labelled(), "column:column=detector,higher=hallucinated", **options)
        return run.freeze(on_failure=on_failure)

    return make
