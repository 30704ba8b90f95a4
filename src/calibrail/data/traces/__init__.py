"""Registry of exports.

One file a tool. What a tool traced in steps is joined into answers; what people said of them are
labels, and what its own judges said are scores.
"""

from calibrail.data.traces._export import Export
from calibrail.data.traces.evaluations import (
    ARGILLA,
    DEEPEVAL,
    LABEL_STUDIO,
    LABEL_STUDIO_FLAT,
    PROMPTFOO,
    TRULENS,
)
from calibrail.data.traces.langsmith_langfuse import EXPERIMENT, LANGFUSE, LANGSMITH
from calibrail.data.traces.opentelemetry import MLFLOW, OPENTELEMETRY

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
