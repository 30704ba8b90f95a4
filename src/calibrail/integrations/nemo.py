"""NeMo Guardrails: an output rail that asks a guardrail.

``python -m calibrail.integrations.nemo`` prints the rail's flow, for a folder of configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from calibrail.errors import InputError
from calibrail.guardrail.decision import Decision
from calibrail.integrations.gate import REFUSALS, Gate, Guarding, needs

with needs("nemo"):
    from nemoguardrails import LLMRails, RailsConfig
    from nemoguardrails.actions.rail_outcome import RailOutcome


#: The rail, as ``rails: output: flows:`` names it, and the action that it asks.
FLOW: Final = "calibrail check"
ACTION: Final = "calibrail_check"

#: The flow, in Colang 1.0. Without an action that says so, nothing is released.
_RAIL: Final = (files(__package__) / "nemo.co").read_text(encoding="utf-8")
COLANG: Final = _RAIL.format(flow=FLOW, action=ACTION, unchecked=REFUSALS["error"])

#: As many pieces as no answer has.
_WHOLE: Final = 1_000_000
_STREAMING: Final = (
    f"rails: output: streaming: {{enabled: true, stream_first: false, chunk_size: {_WHOLE}}}"
)


def guarded(config: RailsConfig) -> RailsConfig:
    """Return a configuration whose output rails end with the guardrail's.

    Parameters
    ----------
    config : RailsConfig
        In Colang 1.0.
    """
    _check_version(config)
    rail = RailsConfig.from_content(COLANG)
    output = config.rails.output
    output = output.model_copy(update={"flows": [*output.flows, FLOW]})
    added = {
        "flows": [*config.flows, *rail.flows],
        "bot_messages": {**rail.bot_messages, **config.bot_messages},
        "rails": config.rails.model_copy(update={"output": output}),
    }
    return config.model_copy(update=added)


def register(rails: LLMRails, guardrail: Guarding) -> None:
    """Let the rail ask a guardrail.

    The question is the user's message and the contexts are ``relevant_chunks``: of a knowledge
    base, or one text in a message of the role ``context``. What is not passed is answered with the
    gate's refusal, which differs for ``flag``, ``review`` and ``error``; the context's
    ``calibrail`` holds the decision.

    Parameters
    ----------
    rails : LLMRails
        Of a configuration that `guarded` returned, or that holds the flow; in a ``config.py``,
        what ``init`` gets.
    guardrail : Gate, Guardrail, Client or path
        What decides.

    Raises
    ------
    InputError
        The configuration would not ask the guardrail about every answer, or would show answers
        before they are decided; the message says what to change.
    """
    _check(rails.config)
    gate = Gate.of(guardrail)

    async def calibrail_check(context: Mapping[str, Any] | None = None, **_: Any) -> RailOutcome:
        decision = await _decided(gate, context or {})
        refusal = gate.shown(decision, "") if decision.flagged else None
        noted = {"decision": gate.details(decision), "refusal": refusal}
        if decision.flagged:
            return RailOutcome.block(reason=decision.reason, metadata=noted)
        return RailOutcome.allow(metadata=noted)

    rails.register_action(calibrail_check, ACTION)


async def _decided(gate: Gate, context: Mapping[str, Any]) -> Decision:
    question = context.get("user_message") or context.get("last_user_message") or ""
    chunks = context.get("relevant_chunks_sep") or context.get("relevant_chunks") or ()
    answer = context.get("bot_message")
    if not isinstance(answer, str):
        answer = TypeError("the answer has no text")
    return await gate.acheck(question=str(question), contexts=chunks, response=answer)


def _check_version(config: RailsConfig) -> None:
    if config.colang_version != "1.0":
        raise InputError.on("colang_version", config=config)


def _check(config: RailsConfig) -> None:
    _check_version(config)
    output = config.rails.output
    flows = {flow["id"]: flow for flow in config.flows}
    if FLOW not in output.flows or FLOW not in flows:
        raise InputError.on("no_output_rail", flow=FLOW)
    if ACTION not in [element.get("action_name") for element in flows[FLOW]["elements"]]:
        raise InputError.on("flow_without_action", flow=FLOW, action=ACTION)
    streaming = output.streaming
    held_back = streaming.chunk_size >= _WHOLE and not streaming.stream_first
    if streaming.enabled and (output.parallel or not held_back):
        raise InputError.on("rail_shows_before", streaming=_STREAMING)


if __name__ == "__main__":
    print(COLANG, end="")
