"""Registry of exports.

What a tool traced in steps is joined into answers; what people said of them are labels, and what
its own judges said are scores.
"""

from typing import Final

from calibrail.data.traces import evaluations, tracing
from calibrail.data.traces._spans import TOOLS, Export

_CONVERTERS: Final = {**evaluations.CONVERTERS, **tracing.CONVERTERS}

#: The exports that are read, in the order in which they are looked for.
EXPORTS: Final = tuple(
    Export(
        name,
        tool["part"],
        tuple(frozenset(names.split()) for names in tool["signatures"]),
        _CONVERTERS[name],
        frozenset(tool.get("lists", ())),
    )
    for name, tool in TOOLS.items()
)
