"""How does a guardrail decide about a whole file, in constant memory?"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

import numpy as np

from calibrail.data.example import Example
from calibrail.data.reading import Reading
from calibrail.data.sources import Source
from calibrail.errors import DataError
from calibrail.guardrail.decision import Decision
from calibrail.guardrail.runtime import Guardrail
from calibrail.settings import ReadOptions
from calibrail.workflow.context import Progress
from calibrail.workflow.inherited import inherited
from calibrail.workflow.sources import open_for


def check_source(
    guardrail: Guardrail,
    source: Source,
    output: Path | None,
    *,
    reading: ReadOptions | None = None,
    evidence: bool = False,
    progress: Progress | None = None,
    opened: Callable[[Reading], None] | None = None,
) -> Counter[str]:
    """Write one decision a line for every row of ``source``, and count the outcomes.

    Parameters
    ----------
    guardrail : Guardrail
        The frozen guardrail.
    source : path, str or iterable of Example
        Answers, labelled or not.
    output : Path or None
        JSON lines file; None writes to standard output.
    reading : ReadOptions, optional
        How to read the file. Rows that cannot be read are decided as ``error``.
    evidence : bool
        Write what each decision rests on into its line.
    progress : callable, optional
        Called with the number of decisions so far.
    opened : callable, optional
        Called with the reading when it begins; its counts, of what made no answer among them, are
        final in the end.

    Returns
    -------
    Counter
        How many answers had which outcome.
    """
    outcomes: Counter[str] = Counter()
    with ExitStack() as stack:
        file: TextIO = sys.stdout
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
            errors = "surrogatepass"
            decisions_file = output.open("w", encoding="utf-8", errors=errors, newline="\n")
            file = stack.enter_context(decisions_file)
        decisions = decide_source(guardrail, source, reading=reading, alone=evidence, opened=opened)
        for done, decision in enumerate(decisions, start=1):
            outcomes[decision.outcome] += 1
            file.write(decision.line(evidence=evidence) + "\n")
            if progress is not None:
                progress(done)
    return outcomes


def decide_source(
    guardrail: Guardrail,
    source: Source,
    *,
    reading: ReadOptions | None = None,
    wanted: Callable[[Example], bool] | None = None,
    alone: bool = False,
    opened: Callable[[Reading], None] | None = None,
) -> Iterator[Decision]:
    """Yield a decision for every example, then an ``error`` for every row that is unusable.

    Examples that are not ``wanted`` are left out; ``alone`` is as for ``Guardrail.decide``.
    ``opened`` is as for `check_source`.

    Raises
    ------
    DataError
        If the source has no row, or no column of what the guardrail reads.
    """
    reading = inherited(reading, guardrail, source, labelled=False)
    with TemporaryDirectory() as folder:
        quarantine = reading.quarantine or Path(folder) / "quarantine.jsonl"
        reading = replace(reading, quarantine=quarantine)
        examples = open_for(guardrail, source, reading, labelled=False)
        if opened is not None:
            opened(examples)
        chosen = (example for example in examples if wanted is None or wanted(example))
        yield from guardrail.stream(chosen, alone=alone)
        if not examples.n_rows:
            raise DataError(
                f"{examples.source} is empty: it holds no row, so nothing was decided; name a file "
                "with answers"
            )
        if not examples.n_quarantined:
            return
        # The group of a row that cannot be read is not known.
        rule = guardrail.rule
        edge = None if rule.groups is not None else float(rule.thresholds(1)[0])
        with quarantine.open(encoding="utf-8") as file:
            for row in map(json.loads, file):
                yield Decision(
                    id=f"{row['file']}:row-{row['row']}" if "file" in row else f"row-{row['row']}",
                    outcome="error",
                    score=None,
                    threshold=None if edge is None or np.isinf(edge) else edge,
                    p_value=None,
                    scale=guardrail.scale,
                    reason=f"row {row['row']} cannot be used: {row['field']}: {row['reason']}",
                )
