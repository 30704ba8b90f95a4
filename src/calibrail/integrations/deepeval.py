"""DeepEval: a metric that succeeds where the guardrail says pass."""

from __future__ import annotations

import json
from typing import Any

from calibrail.guardrail.decision import Decision
from calibrail.integrations.gate import Gate, Guarding, needs

with needs("deepeval"):
    from deepeval.metrics import BaseMetric
    from deepeval.test_case import LLMTestCase, SingleTurnParams


class CalibrailMetric(BaseMetric):
    """A metric of ``evaluate`` and ``assert_test`` that succeeds where the guardrail says ``pass``.

    The input is the question, ``actual_output`` the answer, and ``retrieval_context`` the chunks.
    ``score`` is 1 for ``pass`` and 0 for ``flag`` and ``review``, which the beginning of ``reason``
    tells apart; where the detector fails and the policy says ``error``, DeepEval's ``error`` is set
    and there is no score. ``score_breakdown`` and, as JSON, ``verbose_logs`` hold the decision.
    DeepEval asks every metric for a threshold: 1 says of that score what the outcome says.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides.
    """

    threshold = 1.0
    _required_params = (
        SingleTurnParams.INPUT,
        SingleTurnParams.ACTUAL_OUTPUT,
        SingleTurnParams.RETRIEVAL_CONTEXT,
    )

    def __init__(self, guardrail: Guarding) -> None:
        # DeepEval copies a metric for each case by handing its attributes to its class.
        self.guardrail = Gate.of(guardrail)

    def measure(self, test_case: LLMTestCase, *args: Any, **kwargs: Any) -> float | None:
        """Decide about one case; return 1 for ``pass``, 0 for ``flag`` and ``review``, else None.

        Raises
        ------
        InputError
            The case has no answer that is a text.
        """
        return self._noted(self.guardrail.check(**_answer(test_case)))

    async def a_measure(self, test_case: LLMTestCase, *args: Any, **kwargs: Any) -> float | None:
        """Decide as `measure` does, while the event loop goes on."""
        return self._noted(await self.guardrail.acheck(**_answer(test_case)))

    def is_successful(self) -> bool:
        """Return whether the answer may be released."""
        return bool(self.success)

    @property
    def __name__(self) -> str:
        """How tables call the metric."""
        return "calibrail"

    def _noted(self, decision: Decision) -> float | None:
        self.score = self.guardrail.rating(decision)
        self.success = self.score == 1.0
        self.error = decision.reason if self.score is None else None
        self.reason = self.guardrail.explained(decision)
        self.score_breakdown = self.guardrail.details(decision)
        self.verbose_logs = json.dumps(self.score_breakdown, ensure_ascii=False)
        return self.score


def _answer(case: LLMTestCase) -> dict[str, Any]:
    chunks = [item if isinstance(item, str) else str(item) for item in case.retrieval_context or ()]
    return {"question": case.input, "contexts": chunks, "response": case.actual_output}
