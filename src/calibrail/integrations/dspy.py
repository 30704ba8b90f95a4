"""How does a DSPy program count, choose or withhold its answers by a guardrail?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from calibrail.errors import InputError, ModelError
from calibrail.integrations.gate import Gate, Guarding
from calibrail.integrations.missing import needs

with needs("dspy"):
    import dspy

if TYPE_CHECKING:
    from calibrail.guardrail.decision import Decision

#: From the inputs of a program and its prediction to the parameters of a check.
Reading = Callable[[Mapping[str, Any], Any], Mapping[str, Any]]

#: How signatures usually name the sources, and the answer.
_CONTEXTS: Final = ("context", "contexts", "passages", "documents")
_RESPONSE: Final = ("answer", "response", "output")


def guardrail_metric(guardrail: Guarding, *, reading: Reading | None = None) -> Callable[..., Any]:
    """Return a metric for ``dspy.Evaluate`` and optimizers: 1 where the guardrail says ``pass``.

    It returns a prediction with the ``score``, a ``feedback`` that begins with the outcome, and the
    ``decision``; while demonstrations are collected (``trace`` is given) whether it is ``pass``.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides.
    reading : callable, optional
        Takes the inputs and the prediction and returns ``question``, ``contexts`` and ``response``.
        Left out: `answer_of`.

    Returns
    -------
    callable
        It raises a ``ModelError`` where the outcome is ``error``: DSPy counts errors, and an answer
        that could not be judged is no wrong one.
    """
    gate, read = Gate.of(guardrail), reading or answer_of

    def calibrail(
        example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
    ) -> Any:
        decision = _judged(gate, read, example.toDict(), pred)
        if trace is not None and pred_name is None:
            return not decision.flagged
        return dspy.Prediction(
            score=float(not decision.flagged),
            feedback=f"{decision.outcome}: {decision.reason}",
            decision=gate.details(decision),
        )

    return calibrail


def guardrail_reward(
    guardrail: Guarding, *, reading: Reading | None = None
) -> Callable[[Mapping[str, Any], Any], float]:
    """Return a reward for ``dspy.BestOfN`` and ``dspy.Refine``: 1.0 for ``pass``, else 0.0.

    With ``threshold=1.0`` they try again until an answer passes. The best of several that do not
    is returned all the same: put `Guarded` around them. The parameters are those of the metric; it
    raises a ``ModelError`` where the outcome is ``error``, which is a failed attempt.
    """
    gate, read = Gate.of(guardrail), reading or answer_of

    def calibrail(args: Mapping[str, Any], pred: Any) -> float:
        return float(not _judged(gate, read, args, pred).flagged)

    return calibrail


class Guarded(dspy.Module):
    """A program whose answers are withheld where the guardrail does not say ``pass``.

    The prediction of an answer that passes gets the field ``decision``. Of one that does not only
    the answer's field is left, with what the gate shows instead, and ``decision``: what led to the
    answer may say the same.

    Parameters
    ----------
    module : dspy.Module
        What answers. Listeners of a stream hear nothing of it: the answer is held back.
    guardrail : Gate, Guardrail, Client or path
        What decides.
    response : str, optional
        The field of the answer; left out, the first of ``answer``, ``response``, ``output``.
    reading : callable, optional
        As in `guardrail_metric`.
    """

    def __init__(
        self,
        module: dspy.Module,
        guardrail: Guarding,
        *,
        response: str | None = None,
        reading: Reading | None = None,
    ) -> None:
        super().__init__()
        self.module, self.gate = module, Gate.of(guardrail)
        self._response, self._reading = response, reading

    def forward(self, **inputs: Any) -> Any:
        """Run the program, and decide about its answer."""
        with dspy.context(send_stream=None):
            pred = self.module(**inputs)
        return self._released(pred, self.gate.check(**self._read(inputs, pred)))

    async def aforward(self, **inputs: Any) -> Any:
        """Run the program likewise, while the event loop goes on."""
        with dspy.context(send_stream=None):
            pred = await self.module.acall(**inputs)
        return self._released(pred, await self.gate.acheck(**self._read(inputs, pred)))

    def _read(self, inputs: Mapping[str, Any], pred: Any) -> Mapping[str, Any]:
        if self._reading is not None:
            return self._reading(inputs, pred)
        return answer_of(inputs, pred, response=self._response)

    def _released(self, pred: Any, decision: Decision) -> Any:
        details = self.gate.details(decision)
        if not decision.flagged:
            # Without the other completions, which nothing has judged.
            return dspy.Prediction(**dict(pred.items()), decision=details)
        field = self._response or next((name for name in _RESPONSE if name in pred), _RESPONSE[0])
        return dspy.Prediction(**{field: self.gate.shown(decision, "")}, decision=details)


def answer_of(
    inputs: Mapping[str, Any], pred: Any, *, response: str | None = None
) -> dict[str, Any]:
    """Return the question, contexts and response by the names that signatures usually have.

    ``question`` or ``query`` of the inputs; ``context`` (``contexts``, ``passages``, ``documents``)
    of the prediction, where a program that retrieves puts them, or of the inputs; ``answer``
    (``response``, ``output``) of the prediction.

    Raises
    ------
    InputError
        Where the prediction has no such answer.
    """
    outputs = dict(pred.items())
    answer = _first(outputs, (response,) if response else _RESPONSE)
    if not isinstance(answer, str):
        raise InputError(
            f"the prediction has {', '.join(outputs) or 'no field'}, and no text as "
            f"{response or ', '.join(_RESPONSE)}; give reading=..., which returns question, "
            "contexts and response"
        )
    contexts = _first(outputs, _CONTEXTS) or _first(inputs, _CONTEXTS) or ()
    question = _first(inputs, ("question", "query")) or ""
    return {"question": question, "contexts": contexts, "response": answer}


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _judged(gate: Gate, read: Reading, inputs: Mapping[str, Any], pred: Any) -> Decision:
    decision = gate.check(**read(inputs, pred))
    if decision.outcome == "error":
        raise ModelError(decision.reason)
    return decision
