"""Trace what a guardrail decides: run it, and read the events that a collector would get."""

from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import calibrail
from calibrail.integrations import Gate
from calibrail.integrations.opentelemetry import Evaluations

FILE = Path("guardrail.json")
if not FILE.exists():
    calibrail.calibrate("example:facts", score="novelty", alpha=0.3).freeze().save(FILE)

spans, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
tracer = provider.get_tracer("my-app")

gate = Gate(FILE, notify=Evaluations(FILE))
for answer in ("Tungsten has the symbol W.", "Copper melts at 4 degrees in the town of Lyon."):
    with tracer.start_as_current_span("chat"):
        gate.check(
            question="Which element has the symbol W?",
            contexts=["Tungsten is a metal with the symbol W and atomic number 74."],
            response=answer,
        )

for span in spans.get_finished_spans():
    for event in span.events:
        held = event.attributes
        print(f"{event.name}: {held['gen_ai.evaluation.score.label']}")
        print(f"  p-value {held['calibrail.p_value']:.3f}")
        print(
            f"  coverage {held['calibrail.coverage.estimate']:.3f} "
            f"[{held['calibrail.coverage.lower']:.3f}, {held['calibrail.coverage.upper']:.3f}]"
        )
