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

    A folder that is damaged or cannot be read, whose answers were not drawn from a log or are
    another guardrail's, or in which a draw bears a flag that the guardrail does not give to its
    score, stops no watch of the traffic: ``error`` says what is wrong.

    Raises
    ------
    InputError
        A judge's labels are given without a folder.
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
        self._audited: Audited | None = None
        self._used: Audited | None = None
        self._elsewhere: str | None = None
        self._none_read: CalibrailError | None = None
        self._trouble: CalibrailError | None = None
        #: Of what was agreed on before the first label; None without a folder that can be read.
        self.digest: str | None = None
        self._seen = self._files()
        self._read()

    @property
    def error(self) -> CalibrailError | None:
        """What keeps labels, or a judge's, from counting; None where nothing does."""
        judge = None if self._judge is None else self._judge.error
        return self._trouble or self._none_read or judge

    def changed(self) -> bool:
        """Take up labels that came meanwhile; return whether there may be any.

        Where the folder cannot be read any more, what was read of it before goes on to count, and
        the trouble is named.
        """
        judged = self._judge is not None and self._judge.changed()
        if (now := self._files()) == self._seen:
            return judged
        self._seen = now
        self._read()
        return True

    def refuse(self, error: CalibrailError) -> None:
        """Let no label count, and name the reason."""
        self._audited = self._used = self.digest = None
        self._trouble = error

    def keep_read(self, cursor: Cursor, logs: Sequence[object]) -> None:
        """Let only those draws count whose lines were read; where none was, ``error`` says so.

        Parameters
        ----------
        cursor : Cursor
            How far the watched log was read.
        logs : sequence of object
            What is called the log.
        """
        found, self._elsewhere, self._none_read = self._audited, None, None
        if found is None or found.line is None:
            return
        read = np.array([cursor.has_read(*line) for line in found.line.tolist()], np.bool_)
        self._used = draws.some(found, read)
        if read.all():
            return
        place = int(np.argmin(read))
        chain, seq = found.line[place]
        n, where = int(np.count_nonzero(~read)), f"{self.folder}/draws.jsonl, line {place + 1}"
        self._elsewhere = (
            f"{where}: number {seq} of the chain {chain} is not in the log that is watched; it "
            f"and {n - 1:,} more of the {len(read):,} draws do not count: name the log that they "
            "were drawn from, all of it"
        )
        if not read.any():
            self._none_read = DataError(
                f"none of the {n:,} answers in {self.folder} was drawn from this log: the first is "
                f"number {seq} of the chain {chain}, and the log watched is "
                f"{', '.join(map(str, logs))}; name the log that they were drawn from, or the "
                "folder of answers drawn from this one"
            )

    def promise(
        self, options: WatchOptions, decided: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return whether the promise is kept; what was decided before stands."""
        limits = self.limits["min_coverage"], self.limits["max_fpr"]
        each = options.by == "group" and self._config.promise.by is not None
        if each and isinstance(self._config.promise.by, tuple):
            raise InputError(
                "groups of several columns overlap, and what two of them share has no promise to "
                "watch; leave out by, which watches the promise to all of them together"
            )
        return promise_status(
            self._used, limits, options.delta, by=options.by, each=each, decided=decided
        )

    def prevalence(
        self, options: WatchOptions, timeline: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return how many of the logged answers are hallucinated."""
        counts = self._judge is not None and self._used is not None
        judged = self._judge.judged() if self._judge is not None and counts else None
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
        if self.folder is None:
            return None
        found = self._audited
        trouble = None if self._trouble is None else str(self._trouble)
        problems = [*filter(None, [trouble, self._elsewhere])]
        problems += [] if found is None else found.problems
        n_drawn, n_used = (0 if item is None else len(item) for item in (found, self._used))
        handed_out = 0 if found is None else int(found.handed_out.sum())
        settled = 0 if found is None else int((found.settled & found.handed_out).sum())
        return {
            "n_drawn": n_drawn,
            "n_not_in_log": n_drawn - n_used,
            "n_handed_out": handed_out,
            "n_settled": settled,
            "n_disagreements": 0 if found is None else found.n_disagreements,
            "design": None if found is None else found.drawing.design,
            "trouble": trouble,
            "n_problems": len(problems),
            "problems": problems[:_NAMED],
            "judge": None if self._judge is None else self._judge.status(),
        }

    def _read(self) -> None:
        """Take up what the folder holds; where it cannot be read, what was read before stands."""
        if self.folder is None:
            return
        try:
            if not self.folder.is_dir():
                raise DataError(
                    f"there are no labels in {self.folder}; name the folder that `calibrail "
                    "audit-sample` made"
                )
            audited = draws.checked(audited_labels(self.folder, self._config))
            self.digest = agreed_on(self.folder)
        except CalibrailError as error:
            self._trouble = error
        else:
            self._audited = self._used = audited
            self._trouble = None

    def _files(self) -> dict[str, tuple[int, int]]:
        """Return the size of each file of the folder, and when it was written."""
        found: dict[str, tuple[int, int]] = {}
        if self.folder is not None:
            with suppress(OSError):
                for path in self.folder.glob("*.json*"):
                    state = path.stat()
                    found[path.name] = state.st_size, state.st_mtime_ns
        return found
