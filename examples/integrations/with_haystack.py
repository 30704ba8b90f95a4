"""Route replies of a Haystack pipeline by a guardrail: run it, and see what is withheld."""

from pathlib import Path

from haystack import Document, Pipeline, component

import calibrail
from calibrail.integrations.haystack import GuardrailRouter

FILE = Path("guardrail.json")
if not FILE.exists():
    calibrail.calibrate("example:facts", score="novelty", alpha=0.3).freeze().save(FILE)


@component
class Generator:
    """A generator that makes one of its two replies up."""

    @component.output_types(replies=list[str])
    def run(self, query: str) -> dict[str, list[str]]:
        """Reply, whatever is asked."""
        return {
            "replies": [
                "Tungsten has the symbol W.",
                "Copper melts at 4 degrees in the town of Lyon.",
            ]
        }


pipeline = Pipeline()
pipeline.add_component("generator", Generator())
pipeline.add_component("guard", GuardrailRouter(FILE))
pipeline.connect("generator.replies", "guard.replies")
sources = [Document(content="Tungsten is a metal with the symbol W and atomic number 74.")]
asked = {"query": "Which element has the symbol W?"}
result = pipeline.run({"generator": asked, "guard": {**asked, "documents": sources}})["guard"]
for name in ("replies", "withheld", "refusals"):
    print(f"{name}: {result[name][0]}")
