"""What do the labels of a watched guardrail show, so far?"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

from calibrail.errors import CalibrailError, DataError, InputError
from calibrail.guardrail.decision_log.cursor import Cursor
from calibrail.guardrail.frozen import FrozenConfig
from calibrail.labelling.audited import Audited
from calibrail.labelling.folder import agreed_on
from calibrail.monitoring import draws
from calibrail.monitoring.prevalence import prevalence_status
from calibrail.monitoring.promise import promise_status
from calibrail.settings import Requirement
from calibrail.settings.option import either
from calibrail.settings.watch import WatchOptions
from calibrail.workflow.audited_labels import audited_labels
from calibrail.workflow.frozen import frozen_limits
from calibrail.workflow.watch_judge import JudgeLabels

#: Problems of labels that are named; all are counted.
_NAMED: Final = 20


class WatchLabels:
    """The labels of a folder, read again where they have changed.

    Parameters
    ----------
    config : FrozenConfig
        The guardrail.
    asked : Requirement
        Limits in place of the frozen ones.
    folder : Path, optional
        Of ``calibrail audit-sample``.
    judge : JudgeLabels, optional
        What a judge says.

    Raises
    ------
    InputError
        The labels are not those of answers drawn from a log, or are about another guardrail.
    DataError
        The folder is damaged or cannot be read, or a draw bears a flag that the guardrail does not
        give to its score.
    """

    def __init__(
        self,
        config: FrozenConfig,
        asked: Requirement,
        folder: Path | None = None,
        judge: JudgeLabels | None = None,
    ) -> None:
        if judge is not None and folder is None:
            raise InputError(
                "a judge's labels count only beside labels of people: name the folder of "
                f"`calibrail audit-sample`, {either('--labels AUDIT', 'labels=...')}"
            )
        self.folder, self._config, self._judge = folder, config, judge
        coverage, fpr = frozen_limits(config)
        self.limits = {
            "min_coverage": coverage if asked.min_coverage is None else asked.min_coverage,
            "max_fpr": fpr if asked.max_fpr is None else asked.max_fpr,
        }
        self._seen = self._files()
        self._audited = self._used = self._read()
        self._elsewhere: str | None = None
        self._trouble: str | None = None
        #: Of what was agreed on before the first label; None without a folder.
        self.digest = None if folder is None else agreed_on(folder)

    def changed(self) -> bool:
        """Take up labels that came meanwhile; return whether there may be any.

        Where the folder cannot be read any more, what was read of it before goes on to count, and
        the trouble is named.
        """
        if (now := self._files()) == self._seen:
            return False
        self._seen = now
        try:
            self._audited, self._trouble = self._read(), None
        except CalibrailError as error:
            self._trouble = str(error)
        return True

    def keep_read(self, cursor: Cursor) -> str | None:
        """Let only those draws count whose lines were read; return an error where none was.

        Parameters
        ----------
        cursor : Cursor
            How far the watched log was read.

        Returns
        -------
        str or None
            What is wrong, where answers were drawn and none of them from the watched log.
        """
        found, self._elsewhere = self._audited, None
        if found is None or found.line is None:
            return None
        read = np.array([cursor.has_read(*line) for line in found.line.tolist()], np.bool_)
        self._used = draws.some(found, read)
        if read.all():
            return None
        place = int(np.argmin(read))
        chain, seq = found.line[place]
        n, where = int(np.count_nonzero(~read)), f"{self.folder}/draws.jsonl, line {place + 1}"
        self._elsewhere = (
            f"{where}: number {seq} of the chain {chain} is not in the log that is watched; it "
            f"and {n - 1:,} more of the {len(read):,} draws do not count: name the log that they "
            "were drawn from, all of it"
        )
        if read.any():
            return None
        return (
            f"none of the {n:,} answers in {self.folder} was drawn from this log: the first is "
            f"number {seq} of the chain {chain}"
        )

    def promise(
        self, options: WatchOptions, decided: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return whether the promise is kept; what was decided before stands."""
        limits = self.limits["min_coverage"], self.limits["max_fpr"]
        each = options.by == "group" and self._config.promise.by is not None
        return promise_status(
            self._used, limits, options.delta, by=options.by, each=each, decided=decided
        )

    def prevalence(
        self, options: WatchOptions, timeline: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return how many of the logged answers are hallucinated."""
        judged = None if self._judge is None else self._judge.judged()
        return prevalence_status(
            timeline,
            self._config.headline,
            self._used,
            judged,
            options.delta,
            clustered=self._config.promise.clustered,
        )

    def status(self) -> dict[str, Any] | None:
        """Return what became of the labels; None without a folder."""
        if self._audited is None:
            return None
        found = self._audited
        problems = [*filter(None, [self._trouble, self._elsewhere]), *found.problems]
        n_used = 0 if self._used is None else len(self._used)
        return {
            "n_drawn": len(found),
            "n_not_in_log": len(found) - n_used,
            "n_handed_out": int(found.handed_out.sum()),
            "n_settled": int((found.settled & found.handed_out).sum()),
            "n_disagreements": found.n_disagreements,
            "design": found.drawing.design,
            "n_problems": len(problems),
            "problems": problems[:_NAMED],
            "judge": None if self._judge is None else self._judge.status(),
        }

    def _read(self) -> Audited | None:
        if self.folder is None:
            return None
        if not self.folder.is_dir():
            raise DataError(
                f"there are no labels in {self.folder}; name the folder that `calibrail "
                "audit-sample` made"
            )
        return audited_labels(self.folder, self._config)

    def _files(self) -> dict[str, tuple[int, int]]:
        """Return the size of each file of the folder, and when it was written."""
        found: dict[str, tuple[int, int]] = {}
        if self.folder is not None:
            with suppress(OSError):
                for path in self.folder.glob("*.json*"):
                    state = path.stat()
                    found[path.name] = state.st_size, state.st_mtime_ns
        return found
