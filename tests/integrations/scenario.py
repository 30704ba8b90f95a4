"""What does every framework's test put to it?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from calibrail import Guardrail

QUESTION = "Which element has the symbol W?"
CONTEXTS = ("Tungsten is a metal with the symbol W and atomic number 74.",)
FAITHFUL = "Tungsten has the symbol W."
DOUBTFUL = "Tungsten has the symbol W and a blue colour."
MADE_UP = "Copper melts at 4 degrees in the town of Lyon."

WHY = "the detector is down"


@dataclass(frozen=True)
class Scenario:
    """A question with its sources, an answer for each outcome, and a guardrail about them.

    Attributes
    ----------
    file
        A guardrail that passes the faithful answer, flags the made-up one, and asks for a review of
        the doubtful one.
    """

    file: Path
    question: str = QUESTION
    contexts: tuple[str, ...] = CONTEXTS
    faithful: str = FAITHFUL
    doubtful: str = DOUBTFUL
    made_up: str = MADE_UP

    def guardrail(self) -> Guardrail:
        return Guardrail.load(self.file)

    def failing(self, policy: Literal["error", "flag", "review"] = "error") -> Guardrail:
        """Return a guardrail whose detector raises, with that failure policy."""
        config = Guardrail.load(self.file).config
        policies = config.policy.model_copy(update={"failure": policy})
        guardrail = Guardrail(config.model_copy(update={"policy": policies}))
        guardrail.__dict__["score"] = _Broken(guardrail.score)
        return guardrail


class _Broken:
    """A detector that is down; all else of it is as it was."""

    def __init__(self, score: object) -> None:
        self._whole = score

    def __getattr__(self, name: str) -> object:
        return getattr(self._whole, name)

    def score(self, examples: object) -> object:
        raise RuntimeError(WHY)
