"""Phoenix: an evaluator of data frames."""

from __future__ import annotations

from typing import Annotated, Any

from calibrail.guardrail.decision import Decision
from calibrail.integrations.gate import Gate, Guarding, needs

with needs("phoenix"):
    from phoenix.evals import Evaluator, Score
    from pydantic import BaseModel, BeforeValidator, Field


def _listed(value: Any) -> Any:
    """Return the array that a column of a Parquet file has for a list as that list."""
    listed = getattr(value, "tolist", None)
    return listed() if callable(listed) else value


class _Answer(BaseModel):
    """What a row has to have, by the names of Phoenix's own evaluator of faithfulness."""

    input: str = Field(description="The question.")
    output: str = Field(description="The answer.")
    context: Annotated[str | list[str], BeforeValidator(_listed)] = Field(
        description="What the answer should rest on: a text, or a list of texts."
    )
    id: str = Field("", description="The answer's id.", coerce_numbers_to_str=True)


class CalibrailEvaluator(Evaluator):
    """An evaluator of ``evaluate_dataframe`` whose label is the decision's outcome.

    Its fields are ``input``, ``output`` and ``context``, as in Phoenix's own evaluators, and ``id``
    if there is one; ``bind_evaluator`` maps columns of other names to them. The score is 1 for
    ``pass``, 0 for ``flag`` and ``review``, and absent where the detector failed. ``explanation``
    says why, and ``metadata`` holds the whole decision.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides.
    name : str
        How Phoenix calls the evaluator and its columns.
    """

    def __init__(self, guardrail: Guarding, name: str = "calibrail") -> None:
        super().__init__(name=name, kind="code", direction="maximize", input_schema=_Answer)
        self.gate = Gate.of(guardrail)

    def _evaluate(self, eval_input: dict[str, Any]) -> list[Score]:
        return [self._score(self.gate.check(**_asked(**eval_input)))]

    async def _async_evaluate(self, eval_input: dict[str, Any]) -> list[Score]:
        return [self._score(await self.gate.acheck(**_asked(**eval_input)))]

    def _score(self, decision: Decision) -> Score:
        return Score(
            name=self.name,
            score=self.gate.rating(decision),
            label=decision.outcome,
            explanation=decision.reason,
            metadata=self.gate.details(decision),
            kind=self.kind,
            direction=self.direction,
        )


def _asked(*, input: str, output: str, context: Any, id: str) -> dict[str, Any]:
    return {"question": input, "contexts": context, "response": output, "id": id}
