"""How does a guardrail decide about a whole file, in constant memory?"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

import numpy as np

from calibrail.data.example import Example
from calibrail.data.reading import Reading
from calibrail.data.sources import Source
from calibrail.errors import DataError
from calibrail.guardrail.cause import Cause
from calibrail.guardrail.decision import Decision
from calibrail.guardrail.runtime import Guardrail
from calibrail.settings import ReadOptions
from calibrail.workflow.check_shards import decided_lines
from calibrail.workflow.context import Progress
from calibrail.workflow.inherited import inherited
from calibrail.workflow.sources import open_for
from calibrail.writing import whole_file


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
    """Write one decision a line for every row of ``source``, and count what became of them.

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
        How many answers had which ``Decision.result``.
    """
    outcomes: Counter[str] = Counter()
    with ExitStack() as stack:
        file: TextIO = sys.stdout
        if output is not None:
            made = stack.enter_context(whole_file(output))
            errors = "surrogatepass"
            decisions_file = made.open("w", encoding="utf-8", errors=errors, newline="\n")
            file = stack.enter_context(decisions_file)
        answers = stack.enter_context(_answers(guardrail, source, reading, opened))
        examples = (example for example in answers.read)
        decided = decided_lines(guardrail, examples, evidence=evidence, progress=progress)
        unusable = ((item.result, item.line(evidence=evidence)) for item in answers.unusable())
        for outcome, line in chain(decided, unusable):
            outcomes[outcome] += 1
            file.write(line + "\n")
        if progress is not None:
            progress(outcomes.total())
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
    with _answers(guardrail, source, reading, opened) as answers:
        chosen = (example for example in answers.read if wanted is None or wanted(example))
        yield from guardrail.stream(chosen, alone=alone)
        yield from answers.unusable()


@dataclass(frozen=True, slots=True)
class _Answers:
    """Answers that a guardrail decides about, and the rows that are none.

    Attributes
    ----------
    guardrail : Guardrail
        Who decides.
    read : Reading
        The answers; read once.
    quarantine : Path
        Where the rows stand that cannot be used.
    """

    guardrail: Guardrail
    read: Reading
    quarantine: Path

    def unusable(self) -> Iterator[Decision]:
        """Yield an ``error`` for every row that could not be used, once all have been read."""
        if not self.read.n_rows:
            raise DataError(
                f"{self.read.source} is empty: it holds no row, so nothing was decided; name a "
                "file with answers"
            )
        if not self.read.n_quarantined:
            return
        # The group of a row that cannot be read is not known.
        rule = self.guardrail.rule
        edge = None if rule.groups is not None else float(rule.thresholds(1)[0])
        with self.quarantine.open(encoding="utf-8") as file:
            for row in map(json.loads, file):
                yield self.guardrail.unjudged(
                    f"{row['file']}:row-{row['row']}" if "file" in row else f"row-{row['row']}",
                    "error",
                    Cause("row_unusable", row=row["row"]),
                    f"{row['field']}: {row['reason']}"
                    + (f"; {row['remedy']}" if "remedy" in row else ""),
                    None if edge is None or np.isinf(edge) else edge,
                )


@contextmanager
def _answers(
    guardrail: Guardrail,
    source: Source,
    reading: ReadOptions | None,
    opened: Callable[[Reading], None] | None,
) -> Iterator[_Answers]:
    """Open a source for a guardrail, with a file for the rows that it cannot use."""
    reading = inherited(reading, guardrail, source, labelled=False)
    with TemporaryDirectory() as folder:
        quarantine = reading.quarantine or Path(folder) / "quarantine.jsonl"
        options = replace(reading, quarantine=quarantine)
        answers = open_for(
            guardrail,
            source,
            options,
            labelled=False,
            by_sentence=guardrail.unit == "sentence",
        )
        if opened is not None:
            opened(answers)
        yield _Answers(guardrail, answers, quarantine)
