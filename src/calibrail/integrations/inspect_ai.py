"""How does Inspect score the answers of an evaluation by a guardrail?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from calibrail.integrations.gate import Gate, Guarding
from calibrail.integrations.missing import needs

with needs("inspect-ai"):
    import anyio.to_thread
    from inspect_ai.model import ChatMessageTool
    from inspect_ai.scorer import (
        CORRECT,
        INCORRECT,
        Score,
        Scorer,
        Target,
        accuracy,
        scorer,
        stderr,
    )
    from inspect_ai.solver import TaskState


@scorer(metrics=[accuracy(), stderr()])
def guardrail_scorer(
    guardrail: Guarding,
    contexts: str | Callable[[TaskState], Sequence[str] | str] = "contexts",
) -> Scorer:
    """Return a scorer by which an answer is correct where the guardrail says ``pass``.

    ``flag`` and ``review`` are incorrect, and ``error`` is unscored, so that no metric counts it.
    The explanation begins with the outcome, and the metadata are the decision.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides. By a path the scorer of a log can be made again.
    contexts : str or callable
        The field of the sample's metadata that holds the sources, or what returns them for a task's
        state. Where a sample has no such field, they are what tools returned.
    """
    gate = Gate.of(guardrail)

    async def score(state: TaskState, target: Target) -> Score:
        check = partial(
            gate.check,
            question=state.input_text,
            contexts=contexts(state) if callable(contexts) else _sources(state, contexts),
            response=state.output.completion,
            id=str(state.sample_id),
        )
        # Inspect may run its loop on trio, where a gate's own coroutine could not.
        decision = await anyio.to_thread.run_sync(check)
        held: dict[str, Any] = {
            "answer": state.output.completion,
            "explanation": f"{decision.outcome}: {decision.reason}",
            "metadata": gate.details(decision),
        }
        if decision.outcome == "error":
            return Score.unscored(reason="grader_failed", **held)
        return Score(value=INCORRECT if decision.flagged else CORRECT, **held)

    return score


def _sources(state: TaskState, field: str) -> Sequence[str] | str:
    """Return what the sample's metadata hold, or what tools returned in the conversation."""
    if state.metadata and field in state.metadata:
        sources: Sequence[str] | str = state.metadata[field]
        return sources
    said = [item.text for item in state.messages if isinstance(item, ChatMessageTool)]
    return [text for text in said if text]
