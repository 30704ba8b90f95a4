"""What is known of answers once they are scored and split?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.data.sketches import Sketches
from calibrail.evaluation.sample import Sample
from calibrail.guardrail.frozen import plain
from calibrail.scores.base import Score
from calibrail.scores.registry import key_of
from calibrail.scores.sentence_table import SentenceTable
from calibrail.scores.table import ScoreTable
from calibrail.workflow.splitting import group_codes


@dataclass(frozen=True, slots=True)
class Scored:
    """A table of scores, where its rows belong, and what is known of its origin.

    Attributes
    ----------
    table : ScoreTable
        One row per example, one column per score.
    codes : ndarray of int8, shape (n,)
        FIT, CALIBRATION or TEST; without a split all are TEST.
    detectors : tuple of Score
        What was asked for, in order, fitted and pinned; then their companions.
    beside : tuple of Score
        What was computed beside them: the baselines that are defined for any of the answers.
    data : mapping
        Source, digests and counts, JSON-able: the report's ``data``.
    sketches : Sketches or None
        What tells copies apart; None where there are no texts.
    sentences : SentenceTable or None
        The answers' sentences, where these are scored.
    """

    table: ScoreTable
    codes: NDArray[np.int8]
    detectors: tuple[Score, ...]
    beside: tuple[Score, ...]
    data: Mapping[str, Any]
    sketches: Sketches | None = None
    sentences: SentenceTable | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The detectors' columns in the table, in their order."""
        return tuple(self.table.columns)[: len(self.detectors)]

    @property
    def specs(self) -> dict[str, dict[str, Any]]:
        """How a report names each detector: name, short key (its column), every parameter."""
        return {
            key: {"name": score.name, "key": key, "params": plain(score.params)}
            for key, score in zip(self.keys, self.detectors, strict=True)
        }

    @property
    def baselines(self) -> tuple[str, ...]:
        """The columns of what was computed beside the detectors."""
        return tuple(key_of(score) for score in self.beside)

    @property
    def lessons(self) -> list[str]:
        """What a reader should know of what detectors have learnt."""
        return [lesson for score in self.detectors for lesson in getattr(score, "lessons", ())]

    @property
    def groups(self) -> NDArray[np.int64]:
        """One integer per group; an example without a group is a group of its own."""
        return group_codes(self.table)

    @property
    def _all_alone(self) -> bool:
        """Whether no example has a group or a copy."""
        copies = self.table.copies
        alone: bool = self.table.groups.null_count == len(self.table)
        return alone and (copies is None or not (copies >= 0).any())

    def sample(self, index: int = 0) -> Sample:
        """Return the scores of one detector beside labels, split and groups."""
        return Sample(
            self.table.columns[self.keys[index]],
            self.table.labels,
            self.codes,
            None if self._all_alone else self.groups,
            self.detectors[index].tolerance,
        )
