"""Stop an agent at the first sentence it makes up: run it; the model is a script, without a key."""

import asyncio
from pathlib import Path

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

import calibrail
from calibrail.integrations.openai_agents import AnswerGuardrail, written

FILE = Path("sentences.json")
if not FILE.exists():
    run = calibrail.calibrate("example:facts", score="novelty", unit="sentence", alpha=0.3)
    run.freeze().save(FILE)


@function_tool
def search(query: str) -> str:
    """Return what the encyclopaedia says."""
    return "Tungsten is a metal with the symbol W and atomic number 74."


async def main() -> None:
    """Run the agent; its second sentence is made up."""
    guard = AnswerGuardrail(FILE)
    call = function_call("search", {"query": "symbol W"}, call_id="1")
    answer = "Tungsten is a metal. Viennese bakers banned cheese. It has atomic number 74."
    model = ScriptedModel([[call], [assistant_message(answer)]])
    agent = Agent("writer", model=model, tools=[search], hooks=guard.hooks)
    async for text in written(Runner.run_streamed(agent, "What is W?"), guard):
        print(text, end="", flush=True)
    print()


set_tracing_disabled(True)
asyncio.run(main())
