"""Ask a guardrail over the Model Context Protocol: run it, and see what an assistant would."""

import asyncio
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters

import calibrail

FILE = Path("guardrail.json")
if not FILE.exists():
    calibrail.calibrate("example:facts", score="novelty", alpha=0.3).freeze().save(FILE)

SERVER = StdioServerParameters(
    command=sys.executable, args=["-m", "calibrail.integrations.mcp", str(FILE)]
)


async def main() -> None:
    """Start the server as an assistant would, and call its tool for two answers."""
    async with Client(SERVER) as client:
        for answer in (
            "Tungsten has the symbol W.",
            "Copper melts at 4 degrees in the town of Lyon.",
        ):
            result = await client.call_tool(
                "check_answer",
                {
                    "question": "Which element has the symbol W?",
                    "contexts": ["Tungsten is a metal with the symbol W and atomic number 74."],
                    "response": answer,
                },
            )
            decision = result.structured_content
            print(f"{decision['outcome']}: {answer} (p-value {decision['p_value']:.3f})")


asyncio.run(main())
