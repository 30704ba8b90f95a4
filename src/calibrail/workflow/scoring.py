"""How do labelled answers become a table of scores with a split?"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from calibrail.data.copies import Copies, first_sides, n_untold
from calibrail.data.duplicates import cross_split_duplicates
from calibrail.data.example import HALLUCINATED, Example
from calibrail.data.reading import Reading
from calibrail.data.sources import Source
from calibrail.data.splits import CALIBRATION, FIT, TEST
from calibrail.engine import score_examples, score_parts
from calibrail.engine.local import whole
from calibrail.errors import DataError, InputError
from calibrail.models.call_limits import account
from calibrail.scores.base import Fittable, NoReplyFailure, Pinning, Score
from calibrail.scores.custom import ScoreLike, as_score
from calibrail.scores.learned import learns
from calibrail.scores.of_sentences import require_sentences
from calibrail.scores.registry import build, key_of, parse_specs
from calibrail.scores.table import ScoreTable
from calibrail.settings import ReadOptions, SplitOptions
from calibrail.settings.checks import optional
from calibrail.workflow.beside import (
    Beside,
    baselines_beside,
    stand_beside,
    undefined_baselines,
    why_none,
    without_others,
)
from calibrail.workflow.by_sentence import BySentence
from calibrail.workflow.columns import scored_columns, with_copies
from calibrail.workflow.context import Progress
from calibrail.workflow.freshness import KnownBy, told_apart
from calibrail.workflow.scored import Scored
from calibrail.workflow.sources import open_source, source_name
from calibrail.workflow.splitting import Watched, fitted, group_codes, split_codes


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be done with a source beside scoring it; as `score_source` takes it."""

    reading: ReadOptions | None
    splitting: SplitOptions | None
    beside: Beside
    keep: Sequence[str]
    progress: Progress | None
    companions: bool = True
    watch: Callable[[Example], None] | None = None
    by_sentence: BySentence | None = None


def resolve_scores(scores: ScoreLike | Iterable[ScoreLike]) -> tuple[Score, ...]:
    """Turn names, specs such as ``"rad:weighting=question"`` or objects into scores.

    Raises
    ------
    InputError
        If there is none, or one is of another type.
    """
    several = isinstance(scores, list | tuple | set | frozenset | Iterator)
    items: list[Any] = list(cast(Any, scores)) if several else [scores]
    if not items:
        raise InputError("name at least one score")
    return tuple(
        score
        for item in items
        for score in (map(build, parse_specs(item)) if isinstance(item, str) else [as_score(item)])
    )


def resolve_unlearnt(scores: ScoreLike | Iterable[ScoreLike]) -> tuple[Score, ...]:
    """Turn names, specs or objects into scores, none of which has to learn first.

    Raises
    ------
    InputError
        If there is none, or one learns.
    """
    detectors = resolve_scores(scores)
    if names := ", ".join(score.name for score in detectors if learns(score)):
        raise InputError(
            f"{names} learns from labelled examples before it can score; use calibrate or compare, "
            "or score with the guardrail that came of it"
        )
    return detectors


def score_source(
    source: Source,
    scores: ScoreLike | Sequence[ScoreLike],
    *,
    reading: ReadOptions | None = None,
    splitting: SplitOptions | None = None,
    beside: Beside = baselines_beside,
    companions: bool = True,
    keep: Sequence[str] = (),
    watch: Callable[[Example], None] | None = None,
    progress: Progress | None = None,
) -> Scored:
    """Read, score and split labelled answers in one streaming pass; no text is kept.

    Parameters
    ----------
    source : path, str or iterable of Example
        Labelled answers.
    scores : str, Score or sequence
        The detectors.
    reading : ReadOptions, optional
        How to read the source.
    splitting : SplitOptions or None
        How to split it; None leaves all answers in one part.
    beside : callable
        What is computed beside the detectors.
    companions : bool
        Whether scores that a detector yields at no further cost stand among the detectors.
    keep : sequence of str
        Columns of the data whose values stand in the table's ``kept``.
    watch : callable, optional
        Called with every example as it is read.
    progress : callable, optional
        Called with the number of examples scored so far.

    Raises
    ------
    DataError
        If no row is usable or a split is impossible.
    """
    asked = _Asked(reading, splitting, beside, keep, progress, companions, watch)
    return _score(source, resolve_scores(scores), asked)


def score_by_sentence(
    source: Source,
    scores: ScoreLike | Sequence[ScoreLike],
    by_sentence: BySentence,
    *,
    reading: ReadOptions | None = None,
    splitting: SplitOptions | None = None,
    beside: Beside = baselines_beside,
    keep: Sequence[str] = (),
    progress: Progress | None = None,
) -> Scored:
    """Read, score and split labelled answers as `score_source` does, each by its sentences.

    The columns of the table are the values of answers; ``sentences`` has the scores themselves.
    Splits, groups and copies are those of answers; scores that learn do from sentences.
    """
    asked = _Asked(reading, splitting, beside, keep, progress, by_sentence=by_sentence)
    detectors = resolve_scores(scores)
    require_sentences(detectors)
    return _score(source, detectors, asked)


def _score(source: Source, detectors: tuple[Score, ...], asked: _Asked) -> Scored:
    reading, beside, progress = asked.reading, asked.beside, asked.progress
    by_sentence, splitting = asked.by_sentence, asked.splitting
    split = optional(splitting, SplitOptions, "splitting")
    by_split = () if split.column is None else (split.column,)
    columns = tuple(dict.fromkeys((*asked.keep, *by_split)))
    learning = any(map(learns, detectors))
    learnt_before = [
        score.name for score in detectors if isinstance(score, Fittable) and score.fitted
    ]
    # Once to see who belongs to the fit split, once to learn, and then as always.
    detectors, source = fitted(detectors, source, reading, split, columns, by_sentence)
    apart = by_sentence is not None
    opened = open_source(source, reading, detectors, keep=columns, by_sentence=apart)
    found = sentences = None
    if asked.watch is None and by_sentence is None and without_others(beside, opened):
        found = scored_columns(source, reading, opened, detectors, columns, progress=progress)
        if found is None and opened.begun:
            opened = open_source(source, reading, detectors, keep=columns)
    named = {key_of(score) for score in detectors}
    # What detectors have shown beside them at no further cost, unless it is one of them.
    companion_scores = {
        key_of(other): other
        for score in detectors
        for other in (getattr(score, "companions", ()) if asked.companions else ())
        if key_of(other) not in named
    }
    others: tuple[Score, ...] = ()
    if found is not None:
        opened, table, known_by = found
        table, copies = with_copies(table, detectors)
    else:
        examples = iter(opened)
        first = next(examples, None)
        if first is None:
            raise DataError("there is no example to score; the source is empty")
        others = stand_beside(beside, detectors, opened, first)
        known_by = KnownBy()

        def watched() -> Iterator[Example]:
            for example in chain((first,), examples):
                known_by.add(example)
                if asked.watch is not None:
                    asked.watch(example)
                yield example

        all_scores = (*detectors, *companion_scores.values(), *others)
        read = Watched(watched(), detectors)
        if by_sentence is None:
            table = score_examples(read, all_scores, keep=columns, progress=progress)
        else:
            table, sentences = by_sentence.score(read, all_scores, keep=columns, progress=progress)
        table, copies = read.finish(table)
    sketches = copies.sketches
    unusable = {key for key in companion_scores if np.isnan(table.columns[key]).all()}
    undefined = undefined_baselines(beside, others, table)
    others = tuple(score for score in others if key_of(score) not in undefined)
    table = table.without({*unusable, *undefined})
    if sentences is not None:
        sentences = sentences.without({*unusable, *undefined})
    listed = (
        *detectors,
        *(score for key, score in companion_scores.items() if key not in unusable),
    )
    if splitting is None:
        codes = np.full(len(table), TEST, dtype=np.int8)
    else:
        codes = split_codes(table, splitting, learning)
    # The rows on which a call to a judge failed.
    reasons = (item for key in named for item in table.reasons.get(key, {}).items())
    unanswered = sorted({row for row, reason in reasons if isinstance(reason, NoReplyFailure)})
    # Whether a call failed says nothing of the answer: counted as caught, it would flatter.
    codes[unanswered] = FIT
    # Copies that the data itself puts on a further side take no part there.
    sides = first_sides(table.copies, codes)
    duplicates = None
    if sketches is not None and splitting is not None:
        duplicates = cross_split_duplicates(
            sketches, sides, group_codes(table), ids=cast(Any, table.ids)
        )
    known = known_by.counts(table.digests, copies.groups)
    n_answers = None if sentences is None else len(table)
    data = {
        "source": source_name(source),
        "format": opened.format,
        "sha256": opened.digest(),
        "reading": opened.how(),
        "n_examples": len(table),
        "known_by": known,
        "n_hallucinated": int(np.count_nonzero(table.labels == HALLUCINATED)),
        "n_quarantined": opened.n_quarantined,
        "filtered": dict(opened.filtered.most_common()),
        "split": {
            "column": split.column,
            "seed": None if split.column is not None else split.seed,
            **split.shares(learning),
            "calibration_rows": _calibrating(table.labels, codes),
        },
        "baselines": {"none": why_none(beside, opened), "undefined": undefined},
        "near_duplicates": None if duplicates is None else duplicates.to_dict(),
        "copies": _counted(table, copies, int(np.count_nonzero(sides != codes))),
        "n_untold": n_untold(copies, table.columns[key_of(detectors[0])])
        if table.groups.null_count == len(table)
        else 0,
        # Rows of one group are one answer, whether they are alike or not.
        "n_alike": 0
        if told_apart(known) or table.groups.null_count < len(table)
        else known["alike"],
        "n_truncated": table.n_truncated,
        "n_cut": table.n_cut,
        **({} if sentences is None else {"n_cut_otherwise": sentences.n_cut_otherwise}),
        "learnt_before": learnt_before,
        "n_unanswered": len(unanswered),
        "calls": [
            cost.calls.to_dict(cost.score, account().limits.price, n_answers)
            for cost in table.costs
            if cost.calls is not None and cost.score in named
        ],
    }
    pinned = tuple(score.pinned() if isinstance(score, Pinning) else score for score in listed)
    return Scored(table, codes, pinned, others, data, sketches, sentences)


def _counted(table: ScoreTable, copies: Copies, n_across: int) -> dict[str, int] | None:
    """Return how many answers are copies, and how many of these have one on an earlier side."""
    return None if table.copies is None else {**copies.counted(), "n_across": n_across}


def _calibrating(labels: NDArray[np.int8], codes: NDArray[np.int8]) -> dict[str, float | None]:
    """Return which share of each class calibrates; None for a class without answers."""
    rows = {name: codes[labels == label] for label, name in enumerate(("faithful", "hallucinated"))}
    return {
        name: float((part == CALIBRATION).mean()) if len(part) else None
        for name, part in rows.items()
    }


def score_only(
    source: Source,
    scores: ScoreLike | Sequence[ScoreLike],
    *,
    reading: ReadOptions | None = None,
    progress: Progress | None = None,
) -> tuple[ScoreTable, Reading]:
    """Score every example, labelled or not; return the table, and the reading with its counts."""
    tables: list[ScoreTable] = []
    made, read = score_by_parts(source, scores, tables.append, reading=reading, progress=progress)
    return whole(made, tables), read


def score_by_parts(
    source: Source,
    scores: ScoreLike | Sequence[ScoreLike],
    take: Callable[[ScoreTable], None],
    *,
    reading: ReadOptions | None = None,
    progress: Progress | None = None,
) -> tuple[ScoreTable, Reading]:
    """Score as `score_only` does, in constant memory: ``take`` gets the table part by part.

    The table that is returned has no rows; it holds what the scores cost.
    """
    detectors = resolve_unlearnt(scores)
    examples = open_source(source, reading, detectors, labelled=False)
    return score_parts(examples, detectors, take, progress=progress), examples
