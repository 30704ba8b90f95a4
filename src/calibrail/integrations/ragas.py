"""Ragas: a discrete metric of outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from calibrail.integrations.gate import Gate, Guarding, needs

if TYPE_CHECKING:
    from ragas.metrics.decorator import DiscreteMetricProtocol


with needs("ragas"):
    from ragas.metrics import MetricResult, discrete_metric


_OUTCOMES: Final = ["pass", "review", "flag", "error"]


def guardrail_metric(guardrail: Guarding, name: str = "calibrail") -> DiscreteMetricProtocol:
    """Return a discrete metric of ragas whose value is the decision's outcome.

    It takes ragas' own names by keyword, ``await metric.ascore(**row)``: ``user_input``,
    ``retrieved_contexts``, ``response``, and an ``id``. The result's ``reason`` says why, and
    ``traces["output"]`` holds the whole decision.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides.
    name : str
        How ragas calls the metric.
    """
    gate = Gate.of(guardrail)

    @discrete_metric(name=name, allowed_values=_OUTCOMES)
    async def metric(
        user_input: str, response: str, retrieved_contexts: Sequence[str] = (), id: str = ""
    ) -> MetricResult:
        decision = await gate.acheck(
            question=user_input, contexts=retrieved_contexts, response=response, id=id
        )
        return MetricResult(
            value=decision.outcome,
            reason=decision.reason,
            traces={"output": gate.details(decision)},
        )

    return metric
