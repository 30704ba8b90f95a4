"""Rails of NeMo Guardrails that say only what the sources support. Runs offline."""

import os
from pathlib import Path

os.environ["NEMO_GUARDRAILS_NO_USAGE_STATS"] = "1"

from nemoguardrails import LLMRails, RailsConfig
from nemoguardrails.testing.fake_model import FakeLLMModel

import calibrail
from calibrail.integrations import nemo

if not Path("guardrail.json").exists():
    run = calibrail.calibrate("example:facts", score="novelty", alpha=0.1)
    run.freeze().save("guardrail.json")

SOURCE = "Tungsten is a metal with the symbol W and atomic number 74."
MESSAGES = [
    {"role": "context", "content": {"relevant_chunks": SOURCE}},
    {"role": "user", "content": "Which element has the symbol W?"},
]

for answer in ("Tungsten has the symbol W.", "Copper melts at 4 degrees in the town of Lyon."):
    config = nemo.guarded(RailsConfig.from_content(yaml_content="models: []"))
    rails = LLMRails(config, llm=FakeLLMModel(responses=[answer]))
    nemo.register(rails, "guardrail.json")
    result = rails.generate(messages=MESSAGES, options={"output_vars": ["calibrail"]})
    print(f"{result.output_data['calibrail']['outcome']}: {result.response[0]['content']}")
