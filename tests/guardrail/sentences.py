"""Guardrails of sentences for tests: a detector that reads its score in the sentence itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibrail import Example, calibrate
from calibrail.guardrail import Guardrail
from calibrail.guardrail.file import FrozenConfig, ScoreSpecConfig
from calibrail.guardrail.probes import freeze_probes
from calibrail.options import SplitOptions
from calibrail.pipelines.run import score_config
from calibrail.scores.base import DetectorFailure, Scores


class Digits:
    """Scores a sentence by the last number in it: "It is 7." is 7; one without is undefined."""

    name = "digits"
    params: Mapping[str, Any] = {}
    requires = ("response",)
    tolerance = 1e-6

    def __init__(self, noise: float = 0.0) -> None:
        self.noise = noise
        self.asked: list[list[str]] = []
        self.raises_on, self.fails_on = "", ""

    def fingerprint(self) -> Mapping[str, Any]:
        return {"version": "1"}

    def score(self, examples: Sequence[Example]) -> Scores:
        texts = [example.response for example in examples]
        self.asked.append(texts)
        if self.raises_on and any(self.raises_on in text for text in texts):
            raise RuntimeError(f"cannot read {self.raises_on}")
        values = np.full(len(texts), np.nan)
        reasons: dict[int, str] = {}
        for row, text in enumerate(texts):
            if self.fails_on and self.fails_on in text:
                reasons[row] = DetectorFailure(f"no reply about {text}")
            elif numbers := re.findall(r"\d+", text):
                values[row] = float(numbers[-1]) + (self.noise if len(texts) > 1 else 0.0)
            else:
                reasons[row] = f"no number in {text!r}"
        return Scores(values, reasons)


def numbered(text: str) -> list[Example]:
    """Return answers with the numbers 0 to 149; those from 50 on are hallucinated."""
    return [
        Example(
            response=text.format(number),
            label=int(number >= 50),
            id=f"row-{number}",
            columns={"lang": "en" if number % 2 else "de"},
        )
        for number in range(150)
    ]


def of_sentences(
    detector: Any = None, *, failure: str = "error", by: str | None = None, **options: Any
) -> Guardrail:
    """Return a guardrail that removes sentences with a number of 50 or more."""
    detector = detector or Digits()
    options = {"alpha": 0.02, "by": by, **options}
    run = calibrate(
        numbered("It is {}."), detector, splitting=SplitOptions(calibration_share=0.9), **options
    )
    return by_sentence(run.freeze(on_failure=failure, score=detector))  # type: ignore[arg-type]


def by_sentence(guardrail: Guardrail) -> Guardrail:
    """Return a guardrail of answers as one of sentences, with the same threshold."""
    config = guardrail.config
    changed = config.model_copy(
        update={
            "promise": replace(config.promise, unit="sentence"),
            "score": ScoreSpecConfig.model_validate(score_config(guardrail.score, "sentence")),
            "probes": freeze_probes(guardrail.score, unit="sentence"),
        }
    )
    return Guardrail(FrozenConfig.from_bytes(changed.to_bytes()), guardrail.score)


def by_sentence_of_words() -> Guardrail:
    """Return a guardrail of sentences whose detector counts words that the sources lack."""
    answers = [
        Example(
            contexts=(f"Tungsten is a metal with the number {row}.",),
            response=f"{row} is tungsten." if row % 2 else f"Basalt {row} hums loudly there.",
            label=1 - row % 2,
            id=f"{row}",
        )
        for row in range(120)
    ]
    return by_sentence(calibrate(answers, "novel_count", alpha=0.1).freeze())
