"""Which exports of other tools can be read as they are?

One file a tool. What a tool traced in steps is joined into answers; what people said of them are
labels, and what its own judges said are scores.
"""

from calibrail.data.traces.annotated import ARGILLA, LABEL_STUDIO, LABEL_STUDIO_FLAT
from calibrail.data.traces.export import Export
from calibrail.data.traces.langfuse import LANGFUSE
from calibrail.data.traces.langsmith import EXPERIMENT, LANGSMITH
from calibrail.data.traces.mlflow import MLFLOW
from calibrail.data.traces.opentelemetry import OPENTELEMETRY
from calibrail.data.traces.results import DEEPEVAL, PROMPTFOO, TRULENS

#: The exports that are read, in the order in which they are looked for.
EXPORTS: tuple[Export, ...] = (
    OPENTELEMETRY,
    LANGFUSE,
    LANGSMITH,
    EXPERIMENT,
    MLFLOW,
    PROMPTFOO,
    DEEPEVAL,
    TRULENS,
    LABEL_STUDIO,
    LABEL_STUDIO_FLAT,
    ARGILLA,
)
