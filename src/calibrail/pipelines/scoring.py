"""Scores of a source: by score_source for what calibrates, by parts for a table of them."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from struct import pack
from typing import Any, Final, TypeAlias, Unpack, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from calibrail.data import dataset, duplicates, example, sources, splits
from calibrail.data.reading import Reading
from calibrail.data.sentences import sentence_examples
from calibrail.data.suggested_options import stand_in
from calibrail.data.tables import NotPlainError, number_array, string_array
from calibrail.engine import score_examples, score_parts
from calibrail.engine.distributed import say_once
from calibrail.engine.local import concat_tables, table_of_columns
from calibrail.errors import DataError, InputError
from calibrail.evaluation.scored_answers import Sample
from calibrail.models.llm.transport import account
from calibrail.options import Promise, ReadOptions, Requirement, SplitOptions
from calibrail.options.data import ReadKeywords
from calibrail.options.fields import optional, spell_option, yes_or_no
from calibrail.options.keywords import options_from_keywords
from calibrail.pipelines import loading
from calibrail.pipelines.calibration_overlap import KnownBy, told_apart
from calibrail.pipelines.splitting import BySentence, fitted, group_codes, split_codes, with_copies
from calibrail.report.messages import say
from calibrail.scores import base, registry
from calibrail.scores.custom import ScoreLike, as_score
from calibrail.scores.registry import BASELINES, ColumnScore, ScoreSpec, build, key_of, parse_specs
from calibrail.scores.table import ScoreFile, ScoreTable, SentenceTable
from calibrail.serialization import given_back


@dataclass(frozen=True)
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
    known_by : KnownBy
        What tells each answer from others.
    sketches : Sketches or None
        What tells copies apart; None where there are no texts.
    sentences : SentenceTable or None
        The answers' sentences, where these are scored.
    answers : Dataset or None
        The answers themselves, by the table's rows; None where scores were all that was read.
    """

    table: ScoreTable
    codes: NDArray[np.int8]
    detectors: tuple[base.Score, ...]
    beside: tuple[base.Score, ...]
    data: Mapping[str, Any]
    known_by: KnownBy
    sketches: duplicates.Sketches | None = None
    sentences: SentenceTable | None = None
    answers: dataset.Dataset | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The detectors' columns in the table, in their order."""
        return tuple(self.table.columns)[: len(self.detectors)]

    @cached_property
    def lots(self) -> NDArray[np.uint64]:
        """Return the lots of the answers by the seed of their split, shape (n,)."""
        scores, answers = [self.table.columns[key] for key in self.keys], self.answers
        # Rows of scores alone have the same digest where all that they hold is the same.
        told_by = (lambda row: "") if answers is None else lambda row: answers[row].told_by
        seed = self.data["split"]["seed"] or 0
        return tie_break_keys(self.table.digests, self.table.labels, told_by, scores, seed)

    @property
    def specs(self) -> dict[str, dict[str, Any]]:
        """How a report names each detector: name, short key (its column), every parameter."""
        return {
            key: {"name": score.name, "key": key, "params": given_back(score.params)}
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

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """One integer per group; an example without a group is a group of its own."""
        return group_codes(self.table)

    def sample(self, index: int = 0) -> Sample:
        """Return the scores of one detector beside labels, split and groups."""
        how, shares = self.data["split"], tuple[float, ...]()
        if how["column"] is None:
            fit, calibration = how["fit_share"], how["calibration_share"]
            shares = fit, calibration, max(0.0, 1.0 - fit - calibration)
        copies = self.table.together
        alone = not _grouped(self.table) and (copies is None or not (copies >= 0).any())
        return Sample(
            self.table.columns[self.keys[index]],
            self.table.labels,
            self.codes,
            None if alone else self.groups,
            self.detectors[index].tolerance,
            shares=shares,
        )


#: What is computed beside the detectors, told from them and the first example; None for nothing.
Beside: TypeAlias = Callable[[Sequence[base.Score], example.Example], Sequence[base.Score]] | None

#: Why no baseline stands beside the detectors at all.
NOT_ASKED: Final = "not asked for"
NO_TEXTS: Final = "no texts"


def baselines_beside(
    detectors: Sequence[base.Score], first: example.Example
) -> tuple[base.Score, ...]:
    """Return the baselines that are not detectors themselves."""
    named = {score.name for score in detectors}
    return tuple(build(ScoreSpec(name)) for name in BASELINES if name not in named)


def beside_of(baselines: bool) -> Beside:
    """Return what a call sets beside its detectors."""
    yes_or_no(baselines, "baselines")
    return baselines_beside if baselines else None


def _why_none(beside: Beside, opened: Reading) -> str | None:
    """Return why there is no baseline at all; None where there may be some."""
    if beside is None:
        return NOT_ASKED
    texts = opened.columns.holds_answers
    return NO_TEXTS if beside is baselines_beside and not texts else None


def settle(
    promise: Promise, requirement: Requirement
) -> tuple[Promise, Requirement, tuple[str, ...]]:
    """Return both as they hold together, and notes about what nobody named."""
    unnamed, asked = promise.guarantee is None, requirement.confidence
    promise = promise.settled(requirement)
    requirement, notes = requirement.beside(promise), list[str]()
    if unnamed and requirement.limits:
        notes.append(say("calibrate.follows", guarantee=promise.guarantee))
    if (confidence := requirement.confidence) != asked:
        about = {"delta": promise.delta, "confidence": confidence, "asked": asked}
        notes.append(say("calibrate.joint", about))
    return promise, requirement, tuple(notes)


def require_usable(
    scored: Scored, index: int = 0, *, split: bool = True, test: bool = True
) -> None:
    """Refuse a table on which nothing can be measured, naming what is missing and the remedy.

    Parameters
    ----------
    scored : Scored
        What was scored.
    index : int
        The detector that is looked at.
    split : bool
        Whether a calibration and a test part are needed, too.
    test : bool
        Whether the split must leave a test part; without one, what calibrates is measured.

    Raises
    ------
    DataError
        If the detector is undefined everywhere, a class is missing, or a part is empty.
    """
    require_defined(scored, index)
    table, codes = scored.table, scored.codes
    for label, name in ((1, "hallucinated (1)"), (0, "faithful (0)")):
        if not (table.labels == label).any():
            needs = "calibration needs" if split else "this needs"
            if problems := ", ".join(scored.data["problems"]):
                raise DataError.on("class_unusable", name=name, needs=needs, problems=problems)
            column = spell_option(ReadOptions, "label_column")
            how = ", ".join(spell_option(ReadOptions, one) for one in ("positive", "label_map"))
            raise DataError.on("class_missing", name=name, needs=needs, column=column, how=how)
    if not split:
        return
    for code, name in ((splits.CALIBRATION, "calibration"), (splits.TEST, "test")):
        if (test or code == splits.CALIBRATION) and not (codes == code).any():
            raise DataError(say("refused.empty_split", name=name))
    if not (splits.tested_rows(codes) & (table.labels == 0)).any():
        raise InputError(say("refused.no_faithful_to_test"))


def require_defined(scored: Scored, index: int = 0) -> None:
    """Refuse a detector that is undefined everywhere, with the reasons."""
    values = scored.table.columns[key := scored.keys[index]]
    if np.isnan(values).all():
        reasons = list(dict.fromkeys(scored.table.reasons.get(key, {}).values()))[:3]
        if isinstance(reasons[0], base.GivenUpFailure):
            raise DataError(f"{key}: {reasons[0]}")
        raise DataError(say("refused.score_undefined", key=key, values=values, reasons=reasons))


def tie_break_keys(
    digests: NDArray[np.uint64],
    labels: NDArray[np.int8],
    told_by: Callable[[int], str],
    scores: Sequence[NDArray[np.float64]],
    seed: int = 0,
) -> NDArray[np.uint64]:
    """Return the lot of every answer, shape (n,): the lowest of its group counts.

    It follows from the answer's content, its label and the seed, never from its place in a file or
    from a score, so that every detector counts the same answers. What has the same texts and label
    is told apart by its id, or by what else its row holds; where neither is known, by the bits of
    all scores, in any order of these, which favour neither high values nor low ones. Where all is
    the same but the label, either class may come first.

    Parameters
    ----------
    digests : ndarray of uint64, shape (n,)
        Of the answers' contents.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.
    told_by : callable
        Takes a row, and returns its id or what it holds (`Example.told_by`).
    scores : sequence of ndarrays of float64, shape (n,)
        What every detector says of them.
    seed : int
        Of the split.
    """
    ends = pack("<Q", seed % 2**64)

    def lots_by(contents: Iterable[bytes], labels: NDArray[np.int8]) -> NDArray[np.uint64]:
        drawn = b"".join(b"\0" + blake2b(content, digest_size=7).digest() for content in contents)
        seven = np.frombuffer(drawn, ">u8").astype(np.uint64)
        # The lowest bit of the first byte says which class comes first.
        return np.asarray(seven << 1 | labels.astype(np.uint64) ^ seven >> 48 & 1, np.uint64)

    plain = digests.astype("<u8").tobytes()
    lots = lots_by((plain[at : at + 8] + ends for at in range(0, len(plain), 8)), labels)
    _, member, sizes = np.unique(lots, return_inverse=True, return_counts=True)
    alike = np.flatnonzero(sizes[member] > 1)

    def told(row: int) -> bytes:
        text = told_by(row).encode("utf-8", "surrogatepass")
        return text or b"".join(sorted(pack("<d", values[row]) for values in scores))

    contents = (plain[8 * row : 8 * row + 8] + ends + told(row) for row in alike.tolist())
    lots[alike] = lots_by(contents, labels[alike])
    return lots


def scored_columns(
    opened: Reading,
    detectors: Sequence[base.Score],
    keep: Sequence[str],
    *,
    progress: loading.Progress | None = None,
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
    columns = (score for score in detectors if type(score) is ColumnScore)
    scores = [score for score in columns if score.positive is None]
    names, keys = loading.source_columns(scores), {key_of(score) for score in scores}
    if not names or len(keys) < len(detectors) or set(names) & set(keep):
        return None
    by_content, by_nothing = [np.zeros(0, np.bool_)], [0]

    def watch(block: dataset.Block) -> None:
        by_content.append(block.by_content)
        by_nothing.append(int(np.count_nonzero(block.by_nothing)))

    try:
        blocks = loading.watched(opened.blocks(names), watch)
        table = table_of_columns(blocks, scores, keep=keep, progress=progress)
    except NotPlainError:
        return None
    known_by = KnownBy.without_texts(table.digests, np.concatenate(by_content), sum(by_nothing))
    kinds = known_by.kinds
    # Names of places differ, and digests of ids where these do.
    alike = "id" in kinds and (len(kinds) > 1 or example.n_repeated(table.digests) > 0)
    repeated = alike and len(table.ids.unique()) < len(table)
    # What the blocks and the count took is given back: else the arrays that follow come on top.
    pa.default_memory_pool().release_unused()
    if repeated:
        return None
    opened.end()
    return table, known_by


def resolve_scores(scores: ScoreLike | Iterable[ScoreLike]) -> tuple[base.Score, ...]:
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


def resolve_unlearnt(scores: ScoreLike | Iterable[ScoreLike]) -> tuple[base.Score, ...]:
    """Turn names, specs or objects into scores, none of which has to learn first.

    Raises
    ------
    InputError
        If there is none, or one learns.
    """
    detectors = resolve_scores(scores)
    if names := ", ".join(score.name for score in detectors if base.learns(score)):
        raise InputError(say("refused.must_learn_first", names=names))
    return detectors


def score_source(
    source: sources.Source,
    scores: ScoreLike | Sequence[ScoreLike],
    *,
    reading: ReadOptions | None = None,
    splitting: SplitOptions | None = None,
    beside: Beside = baselines_beside,
    companions: bool = True,
    keep: Sequence[str] = (),
    progress: loading.Progress | None = None,
    by_sentence: BySentence | None = None,
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
    beside : callable or None
        What is computed beside the detectors.
    companions : bool
        Whether scores that a detector yields at no further cost stand among the detectors.
    keep : sequence of str
        Columns of the data whose values stand in the table's ``kept``.
    progress : callable, optional
        Called with the number of examples scored so far.
    by_sentence : BySentence, optional
        Score each answer by its sentences: the columns of the table are then the values of answers,
        and ``sentences`` has the scores themselves. Splits, groups and copies are those of answers;
        scores that learn do from sentences.

    Raises
    ------
    DataError
        If no row is usable or a split is impossible.
    """
    detectors = resolve_scores(scores)
    if by_sentence is not None:
        base.require_sentences(detectors)
    split = optional(splitting, SplitOptions, "splitting")
    columns = tuple(dict.fromkeys((*keep, *(() if split.column is None else (split.column,)))))
    learning = any(map(base.learns, detectors))
    learnt_before = [one.name for one in detectors if isinstance(one, base.Fittable) and one.fitted]
    apart = by_sentence is not None
    opened = loading.open_source(source, reading, detectors, keep=columns, by_sentence=apart)
    by_columns = sentences = answers = None
    why_none = _why_none(beside, opened)
    if not apart and not learning and why_none is not None:
        by_columns = scored_columns(opened, detectors, columns, progress=progress)
        if by_columns is None and opened.begun:
            opened = loading.open_source(source, reading, detectors, keep=columns)
    others: tuple[base.Score, ...] = ()
    extra: dict[str, base.Score] = {}
    named = {key_of(score) for score in detectors}
    if by_columns is not None:
        table, known_by = by_columns
        columns_read = [score for score in detectors if isinstance(score, ColumnScore)]
        cells = [score.cells(table.columns[key_of(score)]) for score in columns_read]
        copies = duplicates.copies_by_scores(cells, table.labels)
    else:
        # Whatever needs an answer again takes it from here.
        answers = opened.held()
        if not answers:
            raise DataError("there is no answer to score; the source is empty")
        detectors = fitted(detectors, answers, split, columns, by_sentence)
        named = {key_of(score) for score in detectors}
        # What detectors have shown beside them at no further cost, unless it is one of them.
        extra = {
            key_of(other): other
            for score in detectors
            for other in (getattr(score, "companions", ()) if companions else ())
            if key_of(other) not in named
        }
        if beside is not None and why_none is None:
            others = tuple(beside(detectors, answers[0]))
        known_by, finder = KnownBy(), duplicates.CopyFinder(loading.source_columns(detectors))
        examples = loading.watched(answers, known_by.add, finder.add)
        every = (*detectors, *extra.values(), *others)
        if by_sentence is None:
            table = score_examples(examples, every, keep=columns, progress=progress)
        else:
            table, sentences = by_sentence.score(examples, every, keep=columns, progress=progress)
        copies = finder.finish(known_by.digests, known_by.spelt)
    table = replace(with_copies(table, copies), files=opened.files)
    empty = {key for key, values in table.columns.items() if np.isnan(values).all()} - named
    # Baselines that are undefined for every answer, with the first reason.
    undefined = {
        key: next(iter(table.reasons[key].values()))
        for key in map(key_of, others)
        if key in empty and beside is baselines_beside
    }
    dropped = {*undefined, *(empty & extra.keys())}
    others = tuple(score for score in others if key_of(score) not in dropped)
    table = table.without(dropped)
    if sentences is not None:
        sentences = sentences.without(dropped)
    listed = (*detectors, *(score for key, score in extra.items() if key not in dropped))
    codes = np.full(len(table), splits.TEST, dtype=np.int8)
    if splitting is not None:
        codes = split_codes(table, splitting, learning)
    # The rows on which a call to a judge failed.
    reasons = (item for key in named for item in table.reasons.get(key, {}).items())
    unanswered = sorted({row for row, reason in reasons if isinstance(reason, base.NoReplyFailure)})
    # Whether a call failed says nothing of the answer: counted as caught, it would flatter.
    codes[unanswered] = splits.FIT
    # Copies that the data itself puts on a further side take no part there.
    sides = splits.earliest_split(table.together, codes)
    near = None
    if copies.sketches is not None and splitting is not None:
        near = duplicates.cross_split_duplicates(
            copies.sketches, sides, group_codes(table), ids=cast(Any, table.ids)
        ).to_dict()
    known, grouped = known_by.counts(copies.together), _grouped(table)
    n_answers = None if sentences is None else len(table)
    data = {
        "source": sources.spoken(source),
        "format": opened.format,
        "sha256": opened.digest(),
        "reading": opened.how(),
        "n_examples": len(table),
        "known_by": known,
        "n_hallucinated": int(np.count_nonzero(table.labels == example.HALLUCINATED)),
        "n_quarantined": opened.n_quarantined,
        "problems": opened.problems(),
        "filtered": dict(opened.filtered.most_common()),
        "split": {
            "column": split.column,
            "seed": None if split.column is not None else split.seed,
            **split.shares(learning),
            "calibration_rows": _calibrating(table.labels, codes),
        },
        "baselines": {"none": why_none, "undefined": undefined},
        "near_duplicates": near,
        # How many answers are copies, and how many of these have one on an earlier side.
        "copies": None
        if table.copies is None
        else {**copies.counted(), "n_across": int(np.count_nonzero(sides != codes))},
        # How many may be copies of one with other texts, or with the same scores alone.
        "n_near_copies": copies.n_near,
        "n_untold": 0
        if grouped
        else min(duplicates.n_indistinguishable(copies, table.columns[key]) for key in named),
        # Rows of one group are one answer, whether they are alike or not.
        "n_alike": 0 if grouped or told_apart(known) else known["alike"],
        "n_truncated": table.n_truncated,
        "n_cut": table.n_cut,
        **({} if sentences is None else {"n_cut_otherwise": sentences.n_cut_otherwise}),
        "stand_ins": [x for one in detectors for x in stand_ins(one, table.columns[key_of(one)])],
        "learnt_before": learnt_before,
        "n_unanswered": len(unanswered),
        "calls": [
            cost.calls.to_dict(cost.score, account().limits, n_answers)
            for cost in table.costs
            if cost.calls is not None and cost.score in named
        ],
    }
    pinned = tuple(score.pinned() if isinstance(score, base.Pinning) else score for score in listed)
    return Scored(table, codes, pinned, others, data, known_by, copies.sketches, sentences, answers)


def stand_ins(score: base.Score, values: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Return how many answers have a number of a score that seems to stand for none, if any."""
    scale = registry.scale_of(score)
    found = stand_in(np.asarray(scale.shown(values)))
    return [{"name": scale.column or key_of(score), **found}] if found else []


def _grouped(table: ScoreTable) -> bool:
    return bool(table.groups.null_count < len(table))


def _calibrating(labels: NDArray[np.int8], codes: NDArray[np.int8]) -> dict[str, float | None]:
    """Return which share of each class calibrates; None for a class without answers."""
    rows = {name: codes[labels == label] for label, name in enumerate(("faithful", "hallucinated"))}
    return {
        name: float((part == splits.CALIBRATION).mean()) if len(part) else None
        for name, part in rows.items()
    }


def score_only(
    source: sources.Source,
    scores: ScoreLike | Sequence[ScoreLike],
    *,
    reading: ReadOptions | None = None,
    progress: loading.Progress | None = None,
) -> tuple[ScoreTable, Reading]:
    """Score every example, labelled or not; return the table, and the reading with its counts."""
    tables: list[ScoreTable] = []
    made, read = score_by_parts(
        source, scores, lambda part, _: tables.append(part), reading=reading, progress=progress
    )
    return concat_tables(made, tables), read


def score_by_parts(
    source: sources.Source,
    scores: ScoreLike | Sequence[ScoreLike],
    take: Callable[[ScoreTable, list[loading.RowPlace]], None],
    *,
    reading: ReadOptions | None = None,
    progress: loading.Progress | None = None,
) -> tuple[ScoreTable, Reading]:
    """Score as `score_only` does, in constant memory: ``take`` gets the table part by part.

    Beside each part it gets where its rows stand, and those between them that cannot be used. The
    table that is returned has no rows; it holds what the scores cost.
    """
    detectors = resolve_unlearnt(scores)
    examples = loading.open_source(source, reading, detectors, labelled=False)
    order = loading.RowOrder(examples)
    made = score_parts(
        order.answers(), detectors, lambda part: take(part, order.of(len(part))), progress=progress
    )
    take(made, order.of(0))
    _say_given_up(detectors)
    return made, examples


def _say_given_up(detectors: Iterable[base.Score]) -> None:
    """Say which judges were given up."""
    for score in detectors:
        if (why := base.try_out(score, ())) is not None:
            say_once(f"{key_of(score)}: {why}")


#: Columns that say which sentence a row is: its number, from 1, and its characters in the answer.
PLACES: Final = ("sentence", "start", "end")

#: Called with the next rows, where their answers stand, and their columns of `PLACES`.
Take = Callable[[ScoreTable, list[loading.RowPlace], dict[str, pa.Array]], None]


#: A sentence: the id of its answer, its number there, its first character, and the one after it;
#: and where its answer stands.
_Place = tuple[str, int, int, int, loading.RowPlace]


@options_from_keywords(reading=ReadOptions, override=True)
def score_sentences(
    source: sources.Source,
    scores: ScoreLike | Sequence[ScoreLike],
    reading: ReadOptions | None = None,
    **how: Unpack[ReadKeywords],
) -> pa.Table:
    """Score every sentence of every answer, labelled or not.

    Nothing of a sentence's score depends on what comes after it; see `Example.before`.

    Parameters
    ----------
    source, reading, format, preset, mapping, ...
        As in `read`.
    scores : str, Score or sequence
        As `calibrate` takes them; none that learns.

    Returns
    -------
    pyarrow.Table
        One row a sentence, what ``calibrail score --unit sentence`` writes: ``id`` of its answer,
        ``sentence`` (its number, from 1), ``start`` and ``end`` (its characters), ``group``,
        ``label`` (1 = unsupported, null where the data does not say), ``row`` of its answer, and a
        column a score, higher = more likely unsupported, null where ``NAME__reason`` says why.

    Raises
    ------
    DataError
        If no row is usable.
    InputError
        If a score is unknown, or learns.

    Examples
    --------
    >>> rows = [{"id": "a", "contexts": ["It rained."], "response": "It rained. Frogs sang."}]
    >>> score_sentences(rows, "novelty").select(["sentence", "novelty"]).to_pylist()
    [{'sentence': 1, 'novelty': 0.0}, {'sentence': 2, 'novelty': 1.0}]
    """
    file = ScoreFile()
    score_sentences_by_parts(source, scores, file.add, reading=reading)
    return file.table().combine_chunks()


def score_sentences_by_parts(
    source: sources.Source,
    scores: ScoreLike | Sequence[ScoreLike],
    take: Take,
    *,
    reading: ReadOptions | None = None,
    progress: loading.Progress | None = None,
) -> tuple[ScoreTable, Reading]:
    """Score as `score_sentences` does, in constant memory: ``take`` gets the rows part by part.

    The table that is returned has no rows; it holds what the scores cost. ``progress`` is told how
    many answers are done.
    """
    detectors = resolve_unlearnt(scores)
    base.require_sentences(detectors)
    if taken := [name for name in map(key_of, detectors) if name in PLACES]:
        raise InputError(say("refused.name_of_a_place", name=taken[0]))
    share = optional(reading, ReadOptions, "reading").span_share
    examples = loading.open_source(source, reading, detectors, labelled=False, by_sentence=True)
    waiting: deque[_Place] = deque()
    ends = [0]

    def sentences() -> Iterator[example.Example]:
        for answer in examples:
            parts = sentence_examples(answer, share)
            ends.append(ends[-1] + len(parts))
            for number, part in enumerate(parts, start=1):
                start = len(part.before or "")
                end = start + len(part.response)
                waiting.append((answer.id, number, start, end, examples.place))
            yield from parts

    def placed(part: ScoreTable) -> None:
        rows = [waiting.popleft() for _ in range(len(part))]
        ids = string_array([row[0] for row in rows])
        take(replace(part, ids=ids), [row[4] for row in rows], columns_of_places(rows))

    told = progress and (lambda n: progress(bisect_right(ends, n) - 1))
    made = score_parts(sentences(), detectors, placed, progress=told)
    # Where there is no row, the columns are known all the same.
    take(made, [], columns_of_places([]))
    _say_given_up(detectors)
    return made, examples


def columns_of_places(rows: Sequence[_Place]) -> dict[str, pa.Array]:
    """Return the columns that say which sentences rows are."""
    every = np.ones(len(rows), dtype=bool)
    columns = zip(PLACES, (np.int64, np.int32, np.int32), (1, 2, 3), strict=True)
    return {
        name: number_array(cast(Any, np.array([row[place] for row in rows], kind)), every)
        for name, kind, place in columns
    }
