"""Inspect AI: a scorer, and the shares of outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from calibrail.errors import error_text
from calibrail.guardrail.decision import Decision
from calibrail.integrations.gate import Gate, Guarding, needs

with needs("inspect-ai"):
    from anyio import to_thread
    from inspect_ai import scorer as scoring
    from inspect_ai.model import ChatMessageTool
    from inspect_ai.scorer import CORRECT, INCORRECT, NOANSWER, Score, Scorer
    from inspect_ai.solver import TaskState


#: A key of the sample's metadata, or what reads the contexts from where a task ended.
Contexts: TypeAlias = str | Callable[[TaskState], Sequence[str]]

_JUDGED: Final = ("pass", "review", "flag")

#: What a message may hold beside its text without being an answer that the text is not all of.
_BESIDE: Final = {"text", "reasoning", "tool_use"}


@scoring.metric(scores="unreduced")
def outcomes() -> scoring.Metric:
    """Return the metric that gives each outcome's share of the answers that were judged."""

    def shares(scores: list[scoring.SampleScore]) -> dict[str, float]:
        found = [(item.score.metadata or {}).get("outcome") for item in scores]
        n = sum(outcome in _JUDGED for outcome in found)
        return {outcome: found.count(outcome) / n if n else 0.0 for outcome in _JUDGED}

    return shares


@scoring.scorer(metrics=[scoring.accuracy(), scoring.stderr(), outcomes()])
def guardrail_scorer(guardrail: Guarding, contexts: Contexts = "contexts") -> Scorer:
    """Return a scorer whose value is ``CORRECT`` where the guardrail says ``pass``.

    ``flag`` and ``review`` are ``INCORRECT``; the metadata, which hold the whole decision, and the
    metrics named by the outcomes tell them apart. Where the detector failed the sample is unscored,
    as Inspect calls it: it is in no metric. A model that gave no answer has ``NOANSWER``.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides.
    contexts : str or callable
        Where the answer's contexts are: a key of the sample's metadata, whose value is a text or a
        list of texts; or a function of the task's state that returns them. A sample without the key
        is judged by what its tools have returned.
    """
    gate = Gate.of(guardrail)

    async def score(state: TaskState, target: scoring.Target) -> Score:
        answer = "" if state.output.empty else state.output.message.text
        parts = [] if state.output.empty else state.output.message.content
        other = {part.type for part in parts if not isinstance(part, str)} - _BESIDE
        if not answer.strip() and not other:
            why = "the model gave no answer"
            return Score(value=NOANSWER, answer=answer, explanation=why, reason="no_response")
        asked = {"question": state.input_text, "id": _id(state)}
        # Inspect runs on asyncio and on trio: a thread goes with either.
        try:
            if other:
                raise TypeError(f"a part of the answer is no text: {', '.join(sorted(other))}")
            asked["contexts"] = _contexts(state, contexts)
        except (TypeError, LookupError) as error:
            decide = partial(gate.failed, error, **asked)
        else:
            decide = partial(gate.check, response=answer, **asked)
        return _score(gate, await to_thread.run_sync(decide), answer)

    return score


def _score(gate: Gate, decision: Decision, answer: str) -> Score:
    said: dict[str, Any] = {"answer": answer, "explanation": gate.explained(decision)}
    said["metadata"] = gate.details(decision)
    if decision.outcome == "error":
        return Score.unscored(reason="scoring_failed", **said)
    return Score(value=CORRECT if decision.outcome == "pass" else INCORRECT, **said)


def _id(state: TaskState) -> str:
    """Return the sample's id, made different in each repetition."""
    return str(state.sample_id) if state.epoch == 1 else f"{state.sample_id}/{state.epoch}"


def _contexts(state: TaskState, contexts: Contexts) -> Sequence[str]:
    if callable(contexts):
        found = contexts(state)
    elif contexts in state.metadata:
        found = state.metadata[contexts]
    else:
        tools = [message for message in state.messages if isinstance(message, ChatMessageTool)]
        found = [message.text for message in tools if message.error is None and message.text]
        if not found:
            raise LookupError(error_text("sample_without_contexts", contexts=contexts))
    found = [found] if isinstance(found, str) else found
    if not isinstance(found, list | tuple) or not all(isinstance(item, str) for item in found):
        raise TypeError(f"contexts must be a text or a list of texts; got {found!r:.80}")
    return found
