"""Guard an agent of pydantic-ai: run it, and see a second try and a refusal."""

from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

import calibrail
from calibrail.integrations.pydantic_ai import GuardrailValidator

FILE = Path("guardrail.json")
if not FILE.exists():
    calibrail.calibrate("example:facts", score="novelty", alpha=0.3).freeze().save(FILE)

FAITHFUL, MADE_UP = "Tungsten has the symbol W.", "Copper melts at 4 degrees in the town of Lyon."
guard = GuardrailValidator(FILE)


def search(query: str) -> str:
    """Return what the encyclopaedia says."""
    return "Tungsten is a metal with the symbol W and atomic number 74."


for answers in ([MADE_UP, FAITHFUL], [MADE_UP, MADE_UP]):
    steps = iter([ToolCallPart("search", {"query": "W"}), *map(TextPart, answers)])
    model = FunctionModel(lambda messages, info, steps=steps: ModelResponse([next(steps)]))
    agent = Agent(model, tools=[search], retries=1)
    agent.output_validator(guard)
    result = agent.run_sync("Which element has the symbol W?")
    print(f"{result.response.metadata['calibrail']['outcome']}: {result.output}")
