"""How do labelled answers become a table of scores with a split?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.data.duplicates import cross_split_duplicates
from calibrail.data.example import Example
from calibrail.data.sketches import Sketcher
from calibrail.data.splits import FIT
from calibrail.engine.local import score_examples
from calibrail.errors import DataError, InputError
from calibrail.models.call_limits import account
from calibrail.scores.base import Fittable, Pinning, Score
from calibrail.scores.judge import NO_REPLY
from calibrail.scores.learned import learns
from calibrail.scores.registry import BASELINES, build, key_of, parse_specs
from calibrail.scores.table import ScoreTable
from calibrail.settings import ReadOptions, SplitOptions
from calibrail.workflow.sources import Progress, Source, open_source
from calibrail.workflow.splitting import fitted, group_codes, split_codes


@dataclass(frozen=True, slots=True)
class Scored:
    """A table of scores, where its rows belong, and what is known of its origin.

    Attributes
    ----------
    table : ScoreTable
        One row per example, one column per score.
    codes : ndarray of int8, shape (n,)
        FIT, CALIBRATION or TEST.
    detectors : tuple of Score
        What was asked for, in order, fitted and pinned; then what stands beside it unasked.
    baselines : tuple of str
        Which baselines the data has the texts for.
    data : mapping
        Source, digests and counts, JSON-able: the report's ``data``.
    """

    table: ScoreTable
    codes: NDArray[np.int8]
    detectors: tuple[Score, ...]
    baselines: tuple[str, ...]
    data: Mapping[str, Any]

    @property
    def keys(self) -> tuple[str, ...]:
        """The detectors' columns in the table, in their order."""
        return tuple(self.table.columns)[: len(self.detectors)]


def resolve_scores(scores: str | Score | Sequence[str | Score]) -> tuple[Score, ...]:
    """Turn names, specs such as ``"rad:weighting=question"`` or objects into scores."""
    items: list[str | Score]
    items = [scores] if isinstance(scores, str | Score) else list(scores)
    built: list[Score] = []
    for item in items:
        if isinstance(item, str):
            built.extend(build(spec) for spec in parse_specs(item))
        else:
            built.append(item)
    return tuple(built)


def score_source(
    source: Source,
    scores: str | Score | Sequence[str | Score],
    *,
    reading: ReadOptions | None = None,
    splitting: SplitOptions | None = None,
    with_baselines: bool = True,
    labelled: bool = True,
    keep: Sequence[str] = (),
    progress: Progress | None = None,
) -> Scored:
    """Read, score and split in one streaming pass; no text is kept.

    The values of the columns named in ``keep`` stand in the table's ``kept``.

    Raises
    ------
    DataError
        If no row is usable or a split is impossible.
    """
    reading = reading or ReadOptions()
    splitting = splitting or SplitOptions()
    detectors = resolve_scores(scores)
    require = tuple(dict.fromkeys(name for score in detectors for name in score.requires))
    asked = (*keep, *((splitting.column,) if splitting.column is not None else ()))
    columns = tuple(dict.fromkeys(asked))
    needed = tuple(dict.fromkeys((*columns_of(detectors), *columns)))
    learning = any(map(learns, detectors))
    objects = [scores] if not isinstance(scores, Sequence) else scores
    learnt = [
        score.name
        for score in objects
        if isinstance(score, Fittable) and isinstance(score, Score) and score.fitted
    ]
    if learning:
        # Once to see who belongs to the fit split, once to learn, and then as always.
        if not isinstance(source, str | Path):
            source = list(source)
        detectors = fitted(detectors, source, reading, splitting, require, needed)
    examples, opened = open_source(source, reading, require=require, keep=needed, labelled=labelled)
    first = next(examples, None)
    if first is None:
        raise DataError("there is no example to score; the source is empty")
    companions = _companions(detectors)
    baselines: tuple[Score, ...] = ()
    if with_baselines and first.response:
        named = {score.name for score in detectors}
        baselines = tuple(build(spec) for spec in parse_specs(",".join(BASELINES)))
        baselines = tuple(score for score in baselines if score.name not in named)
    # Scores without texts have nothing that could be alike.
    sketcher = Sketcher() if first.question or first.response else None
    n_read = 0

    def watched() -> Iterator[Example]:
        nonlocal n_read
        for example in chain((first,), examples):
            if sketcher is not None:
                sketcher.add(example)
            n_read += 1
            yield example

    table = score_examples(
        watched(), (*detectors, *companions, *baselines), keep=columns, progress=progress
    )
    unusable = [
        key_of(score) for score in companions if np.isnan(table.columns[key_of(score)]).all()
    ]
    table = table.without(unusable)
    shown = (*detectors, *(score for score in companions if key_of(score) not in unusable))
    groups = group_codes(table)
    codes = split_codes(table, splitting, learning)
    unanswered = _unanswered(table, [key_of(score) for score in detectors])
    # Whether a call failed says nothing of the answer: counted as caught, it would flatter.
    codes[unanswered] = FIT
    calibration_share, fit_share = splitting.shares(learning)
    duplicates = (
        None
        if sketcher is None
        else cross_split_duplicates(sketcher.finish(), codes, groups, ids=table.ids)
    )
    data: dict[str, Any] = {
        "source": str(source) if isinstance(source, str | Path) else "examples in memory",
        "format": opened.format if opened is not None else "examples",
        "sha256": opened.digest() if opened is not None else None,
        "n_examples": n_read,
        "n_quarantined": opened.n_quarantined if opened is not None else 0,
        "split": {
            "column": splitting.column,
            "seed": None if splitting.column is not None else splitting.seed,
            "calibration_share": calibration_share,
            "fit_share": fit_share,
        },
        "near_duplicates": None if duplicates is None else duplicates.to_dict(),
        "n_truncated": table.n_truncated,
        "n_cut": table.n_cut,
        "learnt_before": learnt,
        "n_unanswered": len(unanswered),
        "calls": [
            cost.calls.to_dict(cost.score, account().limits.price)
            for cost in table.costs
            if cost.calls is not None and cost.score in map(key_of, detectors)
        ],
    }
    pinned = tuple(score.pinned() if isinstance(score, Pinning) else score for score in shown)
    return Scored(table, codes, pinned, tuple(score.name for score in baselines), data)


def _unanswered(table: ScoreTable, keys: Sequence[str]) -> list[int]:
    """Return the rows on which a call to a judge failed."""
    rows = {
        row
        for key in keys
        for row, reason in table.reasons.get(key, {}).items()
        if reason.startswith(NO_REPLY)
    }
    return sorted(rows)


def _companions(detectors: Sequence[Score]) -> tuple[Score, ...]:
    """Return what detectors have shown beside them at no further cost, unless it was asked for."""
    known = {key_of(score) for score in detectors}
    found = {
        key_of(other): other for score in detectors for other in getattr(score, "companions", ())
    }
    return tuple(other for key, other in found.items() if key not in known)


def columns_of(scores: Iterable[Score]) -> tuple[str, ...]:
    """Return the columns of the data that scores read."""
    return tuple(dict.fromkeys(name for score in scores for name in getattr(score, "columns", ())))


def score_only(
    source: Source,
    scores: str | Score | Sequence[str | Score],
    *,
    reading: ReadOptions | None = None,
    progress: Progress | None = None,
) -> tuple[ScoreTable, int]:
    """Score every example, labelled or not; return the table and the number of unusable rows."""
    detectors = resolve_scores(scores)
    if names := ", ".join(score.name for score in detectors if learns(score)):
        raise InputError(
            f"{names} learns from labelled examples before it can score; use calibrate or compare, "
            "or score with the guardrail that came of it"
        )
    require = tuple(dict.fromkeys(name for score in detectors for name in score.requires))
    examples, opened = open_source(
        source,
        reading or ReadOptions(),
        require=require,
        keep=columns_of(detectors),
        labelled=False,
    )
    table = score_examples(examples, detectors, progress=progress)
    return table, opened.n_quarantined if opened is not None else 0
