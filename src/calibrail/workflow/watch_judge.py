"""Which of the logged answers did a judge label, and what does it say of them?"""

import json
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from calibrail.data import read
from calibrail.errors import CalibrailError, DataError, InputError
from calibrail.guardrail.decision_log.cursor import Cursor, Tally
from calibrail.guardrail.decision_log.tail import LogSource, read_on
from calibrail.guardrail.frozen import FrozenConfig
from calibrail.monitoring.judge import Judged
from calibrail.settings import ReadOptions
from calibrail.workflow.watched_lines import usable

#: Rows that are named; all are counted.
_NAMED: Final = 20


class JudgeLabels:
    """A judge's labels of logged answers, by their ids; counted in the log as it grows.

    Parameters
    ----------
    file : Path
        Rows with ``id`` and ``label``, in any format that calibrail reads.
    config : FrozenConfig
        The guardrail.
    sources : sequence of Path or "-"
        Its log, which is read once more for these labels.

    Attributes
    ----------
    error : CalibrailError or None
        Why the file cannot be read now; what was read of it before goes on to count.

    Raises
    ------
    InputError
        The log comes on standard input, which cannot be read twice.
    """

    def __init__(self, file: Path, config: FrozenConfig, sources: Sequence[LogSource]) -> None:
        if "-" in sources:
            raise InputError(
                "a judge's labels are looked up in the log, and standard input cannot be read "
                "twice; name its files in place of -"
            )
        self._file, self._config, self._sources = file, config, sources
        self.error: CalibrailError | None = None
        self._labels: dict[str, int] = {}
        self._refused: list[str] = []
        self._n_refused = self._n_contradicting = 0
        self._begin_anew()
        self._seen: object = ()
        self.changed()

    def changed(self) -> bool:
        """Read the file where it has changed; return whether it has."""
        try:
            state = self._file.stat()
            now = state.st_size, state.st_mtime_ns
        except OSError as error:
            now, failed = None, error
        if now == self._seen:
            return False
        self._seen = now
        try:
            if now is None:
                raise DataError(f"cannot read the judge's labels {self._file}: {failed}")
            self._read()
        except CalibrailError as error:
            self.error = error
        else:
            self.error = None
        return True

    def _read(self) -> None:
        labels: dict[str, int] = {}
        contradicting: dict[str, None] = {}
        with TemporaryDirectory() as folder:
            quarantine = Path(folder) / "quarantine.jsonl"
            reading = ReadOptions(quarantine=quarantine)
            rows = read(self._file, reading, require=(), repeats=True)
            for row in rows:
                if row.label is not None and labels.setdefault(row.id, row.label) != row.label:
                    contradicting[row.id] = None
            named = _problems(quarantine)
        named += [
            f"judge's labels: {name} is labelled 1 and 0, and neither counts; leave one"
            for name in islice(contradicting, _NAMED)
        ]
        self._refused, self._n_contradicting = named[:_NAMED], len(contradicting)
        self._n_refused = rows.n_quarantined + len(contradicting)
        self._labels = {name: labels[name] for name in labels if name not in contradicting}
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._cursor, self._counts, self._ids = Cursor(), Counter[tuple[bool, int]](), set[str]()

    def judged(self) -> Judged:
        """Return what the judge says, counted among all lines of the log so far."""
        tally = Tally()
        for block in read_on(self._sources, self._cursor, tally):
            for line in usable(block, self._config, tally):
                if (label := self._labels.get(line.content["id"])) is not None:
                    self._counts[line.content["outcome"] != "pass", label] += 1
                    self._ids.add(line.content["id"])
        flagged, passed = (
            (self._counts[side, 1], self._counts[side, 0] + self._counts[side, 1])
            for side in (True, False)
        )
        return Judged(self._labels, flagged, passed)

    def status(self) -> dict[str, Any]:
        """Return what became of the rows of the file."""
        trouble = None if self.error is None else str(self.error)
        problems = [*filter(None, [trouble]), *self._refused]
        return {
            "n_labels": len(self._labels),
            "n_not_in_log": len(self._labels) - len(self._ids),
            "n_contradicting": self._n_contradicting,
            "trouble": trouble,
            "n_problems": self._n_refused + (trouble is not None),
            "problems": problems[:_NAMED],
        }


def _problems(quarantine: Path) -> list[str]:
    if not quarantine.exists():
        return []
    with quarantine.open(encoding="utf-8") as file:
        rows = [json.loads(line) for _, line in zip(range(_NAMED), file, strict=False)]
    return [f"judge's labels, row {row['row']}: {row['field']}: {row['reason']}" for row in rows]
