"""DSPy: a metric, and a module around another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from calibrail.integrations.gate import Gate, Guarding, needs, text_of_values

if TYPE_CHECKING:
    from calibrail.guardrail.decision import Decision


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
        decision = self._fields.decided(self.gate, example, pred)
        if decision.outcome == "error":
            from calibrail.errors import ModelError

            raise ModelError(decision.reason)
        if pred_name is not None:
            passed = float(decision.outcome == "pass")
            return dspy.Prediction(score=passed, feedback=f"{decision.outcome}: {decision.reason}")
        rating = Rating(decision.outcome == "pass")
        rating.outcome, rating.decision = decision.outcome, self.gate.details(decision)
        return rating

    def reward(self, args: Mapping[str, Any], pred: dspy.Prediction) -> float:
        """Return 1.0 where the sources support the answer, 0.0 where not, -1.0 if it is unknown."""
        outcome = self._fields.decided(self.gate, args, pred).outcome
        return -1.0 if outcome == "error" else float(outcome == "pass")


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
        return self._released(pred, self.fields.decided(self.gate, inputs, pred))

    async def aforward(self, **inputs: Any) -> dspy.Prediction:
        """Call the module and decide, while the event loop goes on."""
        with dspy.context(send_stream=None):
            pred = await self.module.acall(**inputs)
        return self._released(pred, await self.fields.adecided(self.gate, inputs, pred))

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

    def decided(self, gate: Gate, asked: Mapping[str, Any], pred: dspy.Prediction) -> Decision:
        return gate.check(**self._read(asked, pred))

    async def adecided(
        self, gate: Gate, asked: Mapping[str, Any], pred: dspy.Prediction
    ) -> Decision:
        return await gate.acheck(**self._read(asked, pred))

    def _read(self, asked: Mapping[str, Any], pred: dspy.Prediction) -> dict[str, Any]:
        if self.response not in pred:
            raise _missing("response", self.response, "the prediction", pred)
        if self.question not in asked:
            raise _missing("question", self.question, "the example", asked)
        read: dict[str, Any] = {"question": asked[self.question]}
        try:
            read["response"] = _text(pred[self.response])
        except TypeError as error:
            read["response"] = error
        if self.contexts is not None:
            holder = pred if self.contexts in pred else asked
            if self.contexts not in holder:
                raise _missing("contexts", self.contexts, "prediction and example", asked)
            read["contexts"] = holder[self.contexts]
        return read


def _missing(role: str, name: str, where: str, holder: Mapping[str, Any]) -> Exception:
    from calibrail.errors import InputError

    there = ", ".join(holder.keys())
    none = " (None where there is none)" if role == "contexts" else ""
    return InputError(
        f"no field {name!r} in {where}, which has {there}: name it with {role}={none}"
    )


def _text(answer: Any) -> str:
    if answer is None or isinstance(answer, dspy.Type):
        raise TypeError(f"the answer is no text: {type(answer).__name__}")
    return text_of_values(answer)
