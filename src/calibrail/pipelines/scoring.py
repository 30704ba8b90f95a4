"""Score_source -> Scored."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from calibrail.data.dataset import Block, Dataset, NotPlainError
from calibrail.data.duplicates import (
    CopyGroups,
    Sketches,
    copies_by_scores,
    cross_split_duplicates,
    earliest_split,
    n_indistinguishable,
)
from calibrail.data.example import HALLUCINATED, Example
from calibrail.data.formats import Source
from calibrail.data.reading import Reading
from calibrail.data.splits import CALIBRATION, FIT, TEST
from calibrail.engine import score_examples, score_parts
from calibrail.engine.local import concat_tables, table_of_columns
from calibrail.errors import DataError, InputError
from calibrail.evaluation.sample import Sample
from calibrail.guardrail.file import plain
from calibrail.models.llm.transport import account
from calibrail.options import ReadOptions, SplitOptions
from calibrail.options.fields import cli_or_python, optional, spell_option, yes_or_no
from calibrail.pipelines.calibration_overlap import KnownBy, told_apart
from calibrail.pipelines.loading import Progress, open_source, source_columns, source_name
from calibrail.pipelines.splitting import (
    BySentence,
    RememberedExamples,
    fitted,
    group_codes,
    split_codes,
)
from calibrail.scores.base import (
    Fittable,
    NoReplyFailure,
    Pinning,
    Score,
    learns,
    require_sentences,
)
from calibrail.scores.custom import ScoreLike, as_score
from calibrail.scores.registry import BASELINES, ColumnScore, ScoreSpec, build, key_of, parse_specs
from calibrail.scores.table import ScoreTable, SentenceTable


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
    answers : Dataset or None
        The answers themselves, by the table's rows; None where scores were all that was read.
    """

    table: ScoreTable
    codes: NDArray[np.int8]
    detectors: tuple[Score, ...]
    beside: tuple[Score, ...]
    data: Mapping[str, Any]
    sketches: Sketches | None = None
    sentences: SentenceTable | None = None
    answers: Dataset | None = None

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


#: What is computed beside the detectors, told from them and the first example.
Beside = Callable[[Sequence[Score], Example], Sequence[Score]]

#: Why no baseline stands beside the detectors at all.
NOT_ASKED: Final = "not asked for"
NO_TEXTS: Final = "no texts"


def baselines_beside(detectors: Sequence[Score], first: Example) -> tuple[Score, ...]:
    """Return the baselines that are not detectors themselves."""
    named = {score.name for score in detectors}
    return tuple(build(ScoreSpec(name)) for name in BASELINES if name not in named)


def nothing_beside(detectors: Sequence[Score], first: Example) -> tuple[Score, ...]:
    """Return nothing, where baselines are not asked for."""
    return ()


def beside_of(baselines: bool) -> Beside:
    """Return what a call sets beside its detectors."""
    yes_or_no(baselines, "baselines")
    return baselines_beside if baselines else nothing_beside


def stand_beside(
    beside: Beside, detectors: Sequence[Score], examples: Reading, first: Example
) -> tuple[Score, ...]:
    """Return what is computed beside the detectors; no baseline where no answer has a text."""
    if beside is baselines_beside and not _has_answers(examples):
        return ()
    return tuple(beside(detectors, first))


def without_others(beside: Beside, examples: Reading) -> bool:
    """Say whether nothing is computed beside the detectors, whatever the first answer."""
    return beside is nothing_beside or why_none(beside, examples) is not None


def undefined_baselines(
    beside: Beside, others: Sequence[Score], table: ScoreTable
) -> dict[str, str]:
    """Return the baselines that are undefined for every answer, with the first reason."""
    return {
        key: next(iter(table.reasons[key].values()))
        for key in map(key_of, others if beside is baselines_beside else ())
        if np.isnan(table.columns[key]).all()
    }


def why_none(beside: Beside, examples: Reading) -> str | None:
    """Return why there is no baseline at all; None where there may be some."""
    if beside is nothing_beside:
        return NOT_ASKED
    return NO_TEXTS if beside is baselines_beside and not _has_answers(examples) else None


def _has_answers(examples: Reading) -> bool:
    return "response" in examples.columns.present


def require_usable(scored: Scored, index: int = 0, *, split: bool = True) -> None:
    """Refuse a table on which nothing can be measured, naming what is missing and the remedy.

    Parameters
    ----------
    scored : Scored
        What was scored.
    index : int
        The detector that is looked at.
    split : bool
        Whether a calibration and a test part are needed, too.

    Raises
    ------
    DataError
        If the detector is undefined everywhere, a class is missing, or a part is empty.
    """
    require_defined(scored, index)
    table, codes = scored.table, scored.codes
    for label, name in ((1, "hallucinated"), (0, "faithful")):
        if not (table.labels == label).any():
            purpose = "calibration needs" if split else "this needs"
            raise DataError(
                f"no example is labelled {name} ({label}); {purpose} both classes. Is the "
                f"label column right ({spell_option(ReadOptions, 'label_column')}), and do labels "
                f"mean what they were read as ({spell_option(ReadOptions, 'positive')}, "
                f"{spell_option(ReadOptions, 'label_map')})?"
            )
    if not split:
        return
    for code, name in ((CALIBRATION, "calibration"), (TEST, "test")):
        if not (codes == code).any():
            raise DataError(
                f"the {name} split is empty; change "
                f"{spell_option(SplitOptions, 'calibration_share')} or the split column"
            )
    if not ((codes == TEST) & (table.labels == 0)).any():
        raise InputError(
            "the test split holds no faithful example, so false alarms cannot be measured; "
            f"change {spell_option(SplitOptions, 'seed')} or "
            f"{spell_option(SplitOptions, 'calibration_share')}, or label more faithful answers"
        )


def require_defined(scored: Scored, index: int = 0) -> None:
    """Refuse a detector that is undefined everywhere, with the reasons."""
    key = scored.keys[index]
    values = scored.table.columns[key]
    if np.isnan(values).all():
        reasons = list(dict.fromkeys(scored.table.reasons.get(key, {}).values()))[:3]
        raise DataError(
            f"the score {key} is undefined for all {len(values)} examples "
            f"({'; '.join(reasons)}); choose another score or column "
            f"({cli_or_python('`calibrail doctor DATA`', 'calibrail.diagnose(...)')} lists the "
            f"columns "
            "that hold numbers)"
        )


def scored_columns(
    opened: Reading,
    detectors: Sequence[Score],
    keep: Sequence[str],
    *,
    progress: Progress | None = None,
) -> tuple[ScoreTable, KnownBy] | None:
    """Score a source by its columns; None where its rows must be read one by one.

    Parameters
    ----------
    opened : Reading
        Not begun; it still is not where None is returned, or `Reading.begun` says so.
    detectors : sequence of Score
        What is asked for.
    keep : sequence of str
        Columns to keep.
    progress : callable, optional
        Called with the number of examples scored so far.
    """
    scores = [score for score in detectors if type(score) is ColumnScore]
    names, keys = source_columns(scores), {key_of(score) for score in scores}
    if not names or len(keys) < len(detectors) or set(names) & set(keep):
        return None
    known_by = KnownBy()
    try:
        blocks = _watched(opened.blocks(names), known_by)
        table = table_of_columns(blocks, scores, keep=keep, progress=progress)
    except NotPlainError:
        return None
    if len(table.ids.unique()) < len(table):
        return None
    opened.end()
    return table, known_by


def with_copies(table: ScoreTable, detectors: Sequence[Score]) -> tuple[ScoreTable, CopyGroups]:
    """Return a table of columns with its copies, and how they are known: by their scores."""
    scores = {key_of(score): score for score in detectors if isinstance(score, ColumnScore)}
    cells = [score.cells(table.columns[key]) for key, score in scores.items()]
    copies = copies_by_scores(cells, table.labels)
    return (replace(table, copies=copies.groups) if copies.n_by_scores else table), copies


def _watched(blocks: Iterator[Block], known_by: KnownBy) -> Iterator[Block]:
    for block in blocks:
        known_by.add_many(block.by_content, int(np.count_nonzero(block.by_nothing)))
        yield block


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
    """Read, score and split labelled answers; the source is read once.

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
    apart = by_sentence is not None
    opened = open_source(source, reading, detectors, keep=columns, by_sentence=apart)
    found = sentences = None
    plain_scores = asked.watch is None and by_sentence is None and not learning
    if plain_scores and without_others(beside, opened):
        found = scored_columns(opened, detectors, columns, progress=progress)
        if found is None and opened.begun:
            opened = open_source(source, reading, detectors, keep=columns)
    answers = None
    if found is None:
        # Whatever needs an answer again takes it from here.
        answers = Dataset(opened)
        if not answers:
            raise DataError("there is no example to score; the source is empty")
        detectors = fitted(detectors, answers, split, columns, by_sentence)
    named = {key_of(score) for score in detectors}
    # What detectors have shown beside them at no further cost, unless it is one of them.
    companion_scores = {
        key_of(other): other
        for score in detectors
        for other in (getattr(score, "companions", ()) if asked.companions else ())
        if key_of(other) not in named
    }
    others: tuple[Score, ...] = ()
    if answers is None and found is not None:
        table, known_by = found
        table, copies = with_copies(table, detectors)
    elif answers is not None:
        others = stand_beside(beside, detectors, opened, answers[0])
        known_by = KnownBy()

        def watched() -> Iterator[Example]:
            for example in answers:
                known_by.add(example)
                if asked.watch is not None:
                    asked.watch(example)
                yield example

        all_scores = (*detectors, *companion_scores.values(), *others)
        read = RememberedExamples(watched(), detectors)
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
    sides = earliest_split(table.copies, codes)
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
        "n_untold": n_indistinguishable(copies, table.columns[key_of(detectors[0])])
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
    return Scored(table, codes, pinned, others, data, sketches, sentences, answers)


def _counted(table: ScoreTable, copies: CopyGroups, n_across: int) -> dict[str, int] | None:
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
    return concat_tables(made, tables), read


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
