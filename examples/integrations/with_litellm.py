"""Calls of LiteLLM that return only what the sources support. Runs offline."""

import asyncio
import os
from pathlib import Path

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from fastapi import HTTPException

import calibrail
from calibrail.integrations.litellm import CalibrailGuardrail

if not Path("guardrail.json").exists():
    run = calibrail.calibrate("example:facts", score="novelty", alpha=0.1)
    run.freeze().save("guardrail.json")

litellm.callbacks = [CalibrailGuardrail("guardrail.json")]


async def ask(answer):
    """Print what becomes of an answer; ``mock_response`` stands in for a model."""
    try:
        response = await litellm.acompletion(
            model="openai/yours",
            messages=[{"role": "user", "content": "Which element has the symbol W?"}],
            metadata={"contexts": ["Tungsten is a metal with the symbol W and atomic number 74."]},
            guardrails=["calibrail"],
            mock_response=answer,
        )
        print(f"pass: {response.choices[0].message.content}")
    except HTTPException as error:
        print(f"{error.detail['calibrail']['outcome']}: {error.detail['error']}")


asyncio.run(ask("Tungsten has the symbol W."))
asyncio.run(ask("Copper melts at 4 degrees in the town of Lyon."))
