"""DSPy: a metric, and a module around another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrail.errors import InputError, ModelError
from calibrail.guardrail.decision import Decision
from calibrail.integrations.gate import Gate, Guarding, needs, text_or_error

with needs("dspy"):
    import dspy


class Rating(float):
    """A metric's number: 1 for ``pass``, 0 for ``flag`` and ``review``, with why.

    Attributes
    ----------
    outcome : {"pass", "flag", "review"}
        What tells a review from a flag.
    decision : dict
        The whole decision, with the guardrail's digest.
    """

    outcome: str
    decision: dict[str, Any]


class GuardrailMetric:
    """A metric of ``dspy.Evaluate`` and of optimizers; its `reward` is for BestOfN and Refine.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides.
    question, response : str
        The fields that hold the question, of the example, and the answer, of the prediction.
    contexts : str or None
        The field that holds what the answer should rest on, a text or a list of texts: of the
        prediction if it has it, else of the example. None where there is nothing of the kind.
    """

    def __init__(
        self,
        guardrail: Guarding,
        *,
        question: str = "question",
        contexts: str | None = "context",
        response: str = "response",
    ) -> None:
        self.gate = Gate.of(guardrail)
        self._fields = _Fields(question, contexts, response)

    def __call__(
        self,
        example: Mapping[str, Any],
        pred: dspy.Prediction,
        trace: Any = None,
        pred_name: str | None = None,
        pred_trace: Any = None,
    ) -> Rating | dspy.Prediction:
        """Return 1 where the answer may be released, else 0, whether or not there is a trace.

        GEPA, which names a predictor, gets the score with the decision's reason as feedback.

        Raises
        ------
        ModelError
            The detector failed and the policy says ``error``: DSPy counts an error, and scores the
            example with its ``failure_score``.
        InputError
            A field is missing.
        """
        decision = self.gate.check(**self._fields.read(example, pred))
        if (score := self.gate.rating(decision)) is None:
            raise ModelError(decision.reason)
        if pred_name is not None:
            return dspy.Prediction(score=score, feedback=self.gate.explained(decision))
        rating = Rating(score)
        rating.outcome, rating.decision = decision.outcome, self.gate.details(decision)
        return rating

    def reward(self, args: Mapping[str, Any], pred: dspy.Prediction) -> float:
        """Return 1.0 where the sources support the answer, 0.0 where not, -1.0 if it is unknown."""
        rating = self.gate.rating(self.gate.check(**self._fields.read(args, pred)))
        return -1.0 if rating is None else rating


class Guarded(dspy.Module):
    """A module around another, whose answer is shown only where the guardrail passes it.

    What is not released comes back as a prediction that has the gate's refusal in place of the
    answer, and of the module's other outputs only its contexts: a reasoning gives the answer away.
    Either way ``guardrail_decision`` holds the decision. What is called is held back from streams
    until it is decided.

    Parameters
    ----------
    module : dspy.Module
        What answers; it is called by keyword.
    guardrail : Gate, Guardrail, Client or path
        What decides.
    question, contexts, response : str
        The fields, as `GuardrailMetric` takes them.
    """

    def __init__(
        self,
        module: dspy.Module,
        guardrail: Guarding,
        *,
        question: str = "question",
        contexts: str | None = "context",
        response: str = "response",
    ) -> None:
        super().__init__()
        self.module = module
        self.gate = Gate.of(guardrail)
        self.fields = _Fields(question, contexts, response)

    def forward(self, **inputs: Any) -> dspy.Prediction:
        """Call the module and decide about its answer."""
        with dspy.context(send_stream=None):
            pred = self.module(**inputs)
        return self._released(pred, self.gate.check(**self.fields.read(inputs, pred)))

    async def aforward(self, **inputs: Any) -> dspy.Prediction:
        """Call the module and decide, while the event loop goes on."""
        with dspy.context(send_stream=None):
            pred = await self.module.acall(**inputs)
        return self._released(pred, await self.gate.acheck(**self.fields.read(inputs, pred)))

    def _released(self, pred: dspy.Prediction, decision: Decision) -> dspy.Prediction:
        details = self.gate.details(decision)
        if decision.outcome == "pass":
            # Without the other completions, if there are any: nothing has judged them.
            shown = dspy.Prediction(**dict(pred.items()), guardrail_decision=details)
            shown.set_lm_usage(pred.get_lm_usage())
            return shown
        refused = dspy.Prediction(guardrail_decision=details)
        if self.fields.contexts is not None and self.fields.contexts in pred:
            refused[self.fields.contexts] = pred[self.fields.contexts]
        refused[self.fields.response] = self.gate.shown(decision, "")
        refused.set_lm_usage(pred.get_lm_usage())
        return refused


class _Fields:
    """Where the question, its contexts and the answer are found."""

    def __init__(self, question: str, contexts: str | None, response: str) -> None:
        self.question, self.contexts, self.response = question, contexts, response

    def read(self, asked: Mapping[str, Any], pred: dspy.Prediction) -> dict[str, Any]:
        """Return what a gate checks."""
        answer = _held(self.response, "response", pred)
        read: dict[str, Any] = {"question": _held(self.question, "question", asked)}
        read["response"] = text_or_error(answer)
        if answer is None or isinstance(answer, dspy.Type):
            read["response"] = TypeError(f"the answer is no text: {type(answer).__name__}")
        if self.contexts is not None:
            read["contexts"] = _held(self.contexts, "contexts", pred, asked)
        return read


def _held(name: str, role: str, *holders: Mapping[str, Any]) -> Any:
    """Return a field of the first that has it, the prediction or the example."""
    for holder in holders:
        if name in holder:
            return holder[name]
    there = ", ".join(holders[-1].keys())
    none = " (None where there is none)" if role == "contexts" else ""
    raise InputError.on("field_not_given", name=name, there=there, role=role, none=none)
