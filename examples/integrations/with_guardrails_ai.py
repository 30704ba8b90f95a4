"""A Guard of guardrails-ai that shows only what the sources support. Runs offline."""

from pathlib import Path

from guardrails import Guard

import calibrail
from calibrail.integrations.guardrails_ai import CalibrailValidator

if not Path("guardrail.json").exists():
    run = calibrail.calibrate("example:facts", score="novelty", alpha=0.1)
    run.freeze().save("guardrail.json")

QUESTION = "Which element has the symbol W?"
SOURCES = ["Tungsten is a metal with the symbol W and atomic number 74."]

guard = Guard().use(CalibrailValidator("guardrail.json", on_fail="fix"))

for answer in ("Tungsten has the symbol W.", "Copper melts at 4 degrees in the town of Lyon."):

    def model(messages, answer=answer, **options):
        """Stand in for your model."""
        return answer

    result = guard(
        model,
        messages=[{"role": "user", "content": QUESTION}],
        metadata={"question": QUESTION, "contexts": SOURCES},
    )
    log = guard.history.last.iterations.last.validator_logs[-1]
    decision = log.validation_result.metadata["calibrail"]
    print(f"{decision['outcome']}: {result.validated_output}")
