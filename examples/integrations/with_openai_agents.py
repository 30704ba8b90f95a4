"""Hold back what an agent makes up: run it; the model is a script, so that it needs no key."""

import asyncio
from pathlib import Path

from agents import (
    Agent,
    OutputGuardrailTripwireTriggered,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from agents.testing import ScriptedModel, assistant_message, function_call

import calibrail
from calibrail.integrations.openai_agents import AnswerGuardrail

FILE = Path("guardrail.json")
if not FILE.exists():
    calibrail.calibrate("example:facts", score="novelty", alpha=0.3).freeze().save(FILE)


@function_tool
def search(query: str) -> str:
    """Return what the encyclopaedia says."""
    return "Tungsten is a metal with the symbol W and atomic number 74."


async def main() -> None:
    """Run the agent twice: once it repeats what it found, once it makes something up."""
    guard = AnswerGuardrail(FILE)
    for answer in ("Tungsten has the symbol W.", "Copper melts at 4 degrees in the town of Lyon."):
        call = function_call("search", {"query": "symbol W"}, call_id="1")
        model = ScriptedModel([[call], [assistant_message(answer)]])
        agent = Agent(
            "writer", model=model, tools=[search], output_guardrails=[guard], hooks=guard.hooks
        )
        try:
            result = await Runner.run(agent, "Which element has the symbol W?")
            print(f"pass: {result.final_output}")
        except OutputGuardrailTripwireTriggered as stopped:
            decision = stopped.guardrail_result.output.output_info
            print(f"{decision['outcome']}: withheld (p-value {decision['p_value']:.3f})")


set_tracing_disabled(True)
asyncio.run(main())
