"""Which audited answers take part in a new threshold, and what is kept of them?"""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from calibrail.conformal.audited import AuditedScores
from calibrail.conformal.rule import Rule
from calibrail.conformal.validation import Bools
from calibrail.errors import InputError, file_errors
from calibrail.guardrail.frozen import DataRecord, FrozenConfig
from calibrail.guardrail.judged import shown_within
from calibrail.labelling.audited import Audited, seconds
from calibrail.labelling.folder import POOL_FILE, read_plan
from calibrail.labelling.pool import Pool
from calibrail.workflow.audited_labels import audited_labels
from calibrail.workflow.freshness import KnownBy
from calibrail.workflow.looked_at import LookedAt

#: Files of a folder of labels that say what the labels are.
_FILES: Final = ("draws.jsonl", "labels.jsonl")


@dataclass(frozen=True, slots=True, eq=False)
class AuditedPart:
    """The audited answers of a folder, and which of them take part.

    Attributes
    ----------
    folder : Path
        That ``calibrail audit-sample`` made.
    found : Audited
        Everything drawn, n answers.
    taken : ndarray of bool, shape (n,)
        Which of them take part.
    answers : AuditedScores
        Those.
    since : str or None
        When the first of them may have been logged.
    """

    folder: Path
    found: Audited
    taken: Bools
    answers: AuditedScores
    since: str | None

    @classmethod
    def read(cls, folder: Path, config: FrozenConfig, since: str | None) -> Self:
        """Read a folder of labels about a guardrail of one threshold.

        Raises
        ------
        DataError
            A file is damaged, or holds another decision than the guardrail's.
        InputError
            The labels are about another guardrail, or no answer takes part.
        """
        found = audited_labels(folder, config)
        taken = _taken(found, since)
        names = ("flagged", "label", "handed_out", "probability", "guess")
        within = shown_within(config.score.tolerance)
        answers = AuditedScores(
            score=found.score[taken] - within,
            **{name: getattr(found, name)[taken] for name in names},
            drawing=found.drawing,
            threshold=Rule.from_dict(vars(config)).calibration.threshold,
            tolerance=config.score.tolerance,
            spread=2.0 * within,
        )
        return cls(folder, found, taken, answers, since)

    def counted(self) -> dict[str, Any]:
        """Return how many answers there are of each kind."""
        found, taken = self.found, self.taken
        label, times = found.label[taken], found.time[taken]
        waiting = found.handed_out[taken] & np.isnan(label)
        unsure = found.unsure[taken]
        known = times[~np.isnan(times)]
        return {
            "folder": str(self.folder),
            "design": found.drawing.design,
            "since": self.since,
            "from": float(known.min()) if len(known) else None,
            "to": float(known.max()) if len(known) else None,
            "n_drawn": int(taken.sum()),
            "n_earlier": int((~taken).sum()),
            "n_hallucinated": int(np.sum(label == 1.0)),
            "n_faithful": int(np.sum(label == 0.0)),
            "n_waiting": int(np.sum(waiting & ~unsure)),
            "n_unsure": int(np.sum(unsure)),
            "n_disagreements": found.n_disagreements,
            "problems": list(found.problems),
        }

    def record(self, config: FrozenConfig, verdict: str) -> DataRecord:
        """Return which answers set the new threshold, and that they were looked at."""
        folder, found = self.folder, self.found
        pool = Pool(folder / POOL_FILE)
        pool.refresh()
        known, looked, digests, threshold = KnownBy(), LookedAt(), [], set()
        rows = np.flatnonzero(self.taken & ~np.isnan(found.label))
        for row in rows.tolist():
            label, score = int(found.label[row]), float(found.score[row])
            example = replace(pool[row].example, label=label)
            known.add(example)
            looked.add(example, None if np.isnan(score) else score)
            digests.append(int(example.digest(), 16))
            if label == 1 or found.drawing.design == "active":
                threshold.add(example.digest())
        look = replace(looked.look(assumed=False), verdict=verdict, reported=True)
        hasher = hashlib.sha256()
        for name in _FILES:
            with file_errors(f"cannot read {folder / name}"):
                hasher.update((folder / name).read_bytes())
        return DataRecord(
            source=str(folder),
            format="audit",
            sha256=hasher.hexdigest(),
            n_examples=len(rows),
            n_hallucinated=int(np.sum(found.label[rows] == 1.0)),
            n_quarantined=0,
            seed=read_plan(folder).seed,
            calibration_examples=sorted(threshold),
            reading=config.data.reading,
            known_by=known.counts(np.array(digests, np.uint64)),
            looked_at=look.to_dict(),
        )


def _taken(found: Audited, since: str | None) -> Bools:
    """Return which answers take part."""
    if since is None:
        return np.ones(len(found), np.bool_)
    moment = seconds(since)
    taken = found.time >= (-np.inf if moment is None else moment)
    if not taken.any():
        raise InputError(f"no audited answer was logged since {since}; name an earlier time")
    return np.asarray(taken)
