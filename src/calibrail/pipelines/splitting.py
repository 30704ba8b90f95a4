"""Split, fit what learns, score by sentence."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from calibrail.data.dataset import Dataset
from calibrail.data.duplicates import CopyFinder, CopyGroups
from calibrail.data.example import Example
from calibrail.data.sentences import (
    marked_characters,
    n_split_differently,
    sentence_examples,
    sentences_of,
)
from calibrail.data.splits import FIT, group_numbers, merge_groups, split, split_from_column
from calibrail.engine import score_examples, score_parts
from calibrail.engine.distributed import tell
from calibrail.engine.local import asked_in_batches, concat_tables, score_here
from calibrail.errors import DataError, InputError
from calibrail.options import Promise, ReadOptions, SplitOptions
from calibrail.options.fields import optional, spell_option
from calibrail.options.guarantee import Undefined
from calibrail.pipelines.calibration_overlap import KnownBy
from calibrail.pipelines.loading import Progress, batches, source_columns, watched
from calibrail.report.messages import say
from calibrail.scores.base import Demanding, Fittable, Score, learns, try_out
from calibrail.scores.registry import key_of
from calibrail.scores.table import UNMARKED, ScoreTable, SentenceTable
from calibrail.text.structure import Joins, joins

#: Why an answer has no value that could be removed.
NO_SENTENCE = "the answer holds no sentence"


@dataclass(frozen=True, slots=True)
class BySentence:
    """How sentences count for their answers.

    Attributes
    ----------
    share : float
        As of ``ReadOptions.span_share``.
    undefined : {"flag", "review", "pass"}
        What happens to sentences without a score.
    """

    share: float = 0.0
    undefined: Undefined = "flag"

    def score(
        self,
        examples: Iterable[Example],
        scores: Sequence[Score],
        *,
        keep: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> tuple[ScoreTable, SentenceTable]:
        """Score answers as `score_examples` does, each by its sentences.

        Parameters
        ----------
        examples : iterable of Example
            Labelled answers; consumed once.
        scores, keep
            As `score_examples` takes them.
        progress : callable, optional
            Called with the number of answers whose sentences were all scored.

        Returns
        -------
        (ScoreTable, SentenceTable)
            The answers, whose columns are their values, and their sentences.
        """
        answers = [score_here((), (), keep=keep)[0]]
        keys = [key_of(score) for score in scores]
        columns = {key: [np.empty(0)] for key in keys}
        reasons: dict[str, dict[int, str]] = {key: {} for key in keys}
        places = _Places(self.share)

        def sentences() -> Iterator[Example]:
            for batch in batches(examples):
                answers.append(score_here(batch, (), keep=keep)[0])
                for example in batch:
                    yield from places.add(example)

        def take(part: ScoreTable) -> None:
            for key in keys:
                columns[key].append(part.columns[key])
                reasons[key].update(part.reasons[key])

        told = progress and (lambda n: progress(bisect_right(places.first, n) - 1))
        made = score_parts(sentences(), scores, take, progress=told)
        values = {key: np.concatenate(parts) for key, parts in columns.items()}
        split = places.finish(values, reasons)
        table = concat_tables(answers[0], answers[1:])
        table = replace(
            table,
            columns={key: split.values(key, self.undefined) for key in keys},
            # A user has so many answers to judge, whatever their sentences.
            costs=tuple(replace(cost, n=len(table)) for cost in made.costs),
            n_truncated=made.n_truncated,
            n_cut=made.n_cut,
            scales=made.scales,
        )
        why = {key: _reasons(split, key, column) for key, column in table.columns.items()}
        return replace(table, reasons=why), split


def by_sentence(promise: Promise, reading: ReadOptions | None) -> BySentence | None:
    """Return how answers are scored by their sentences, where that is promised."""
    if promise.unit != "sentence":
        return None
    return BySentence(optional(reading, ReadOptions, "reading").span_share, promise.undefined)


class _Places:
    """Collects where the sentences of answers are and what is marked of them."""

    def __init__(self, share: float) -> None:
        self._share, self._n_cut_otherwise = share, 0
        self.first = [0]
        self._rows: list[tuple[int, ...]] = []
        self._outside: list[int] = []
        self._joins = tuple([np.empty(0, np.int32)] for _ in range(3))

    def add(self, example: Example) -> list[Example]:
        """Take an answer apart, and return its sentences."""
        sentences = sentence_examples(example, self._share)
        labels = {item.label for item in sentences}
        if None in labels or example.label != (1 in labels):
            raise DataError(say("refused.sentences_say_otherwise", example=example))
        self._n_cut_otherwise += n_split_differently(example)
        inside = 0
        for item in sentences:
            start = len(item.before or "")
            end = start + len(item.response)
            marked, written = marked_characters(example, start, end)
            inside += marked
            known = UNMARKED if example.spans is None else marked
            words = len(item.response.split())
            self._rows.append((start, end, int(item.label or 0), known, written, words))
        found = joins(example.response, sentences_of(example))
        for part, numbers in zip(self._joins, found, strict=True):
            part.append(numbers)
        self._outside.append(marked_characters(example, 0, len(example.response))[0] - inside)
        self.first.append(len(self._rows))
        return sentences

    def finish(
        self, columns: dict[str, NDArray[np.float64]], reasons: dict[str, dict[int, str]]
    ) -> SentenceTable:
        """Return the table of all sentences."""
        rows = np.array(self._rows, np.int32).reshape(-1, 6).T.copy()
        starts, ends, labels, marked, written, words = rows
        return SentenceTable(
            first=np.array(self.first, np.int64),
            starts=starts,
            ends=ends,
            labels=labels.astype(np.int8),
            marked=marked,
            written=written,
            words=words,
            outside=np.array(self._outside, np.int32),
            joins=Joins(*(np.concatenate(parts) for parts in self._joins)),
            columns=columns,
            reasons=reasons,
            n_cut_otherwise=self._n_cut_otherwise,
        )


def _reasons(sentences: SentenceTable, key: str, values: NDArray[np.float64]) -> dict[int, str]:
    """Return why answers have no value: the reason of their first sentence without a score."""
    why: dict[int, str] = {}
    of_sentences = sentences.reasons[key]
    lost = np.flatnonzero(np.isnan(sentences.columns[key]))
    places = np.searchsorted(lost, sentences.first)
    for row in np.flatnonzero(np.isnan(values)).tolist():
        before, after = int(places[row]), int(places[row + 1])
        why[row] = of_sentences[int(lost[before])] if before < after else NO_SENTENCE
    return why


def with_copies(table: ScoreTable, copies: CopyGroups) -> ScoreTable:
    """Return a table with the copies among its answers, where these can be told."""
    if copies.sketches is None and not copies.n_by_scores:
        return table
    return replace(table, copies=copies.groups, same=copies.same, together=copies.together)


def split_codes(table: ScoreTable, splitting: SplitOptions, learning: bool) -> NDArray[np.int8]:
    """Return where each row belongs."""
    if splitting.column is not None:
        grouped = table.groups.null_count < len(table)
        groups = table.groups.to_pylist() if grouped else None
        return split_from_column(table.kept[splitting.column], groups, column=splitting.column)
    shares = splitting.shares(learning)
    return split(table.labels, group_codes(table), ids=table.digests, seed=splitting.seed, **shares)


def fitted(
    detectors: tuple[Score, ...],
    answers: Dataset,
    splitting: SplitOptions,
    keep: Sequence[str],
    by_sentence: BySentence | None = None,
) -> tuple[Score, ...]:
    """Return the scores with those that learn fitted to the fit split of these answers.

    By sentence they learn from the sentences of these answers.
    """
    if not any(map(learns, detectors)):
        return detectors
    known_by, finder = KnownBy(), CopyFinder(source_columns(detectors))
    table = score_examples(watched(answers, known_by.add, finder.add), (), keep=keep)
    table = with_copies(table, finder.finish(known_by.digests, known_by.spelt))
    codes = split_codes(table, splitting, learning=True)
    rows = np.flatnonzero(codes == FIT).tolist()
    if not rows:
        names = ", ".join(score.name for score in detectors if learns(score))
        remedy = (
            f"give it a share with {spell_option(SplitOptions, 'fit_share', 0.3)}"
            if splitting.column is None
            else f"mark its rows as fit in the column {splitting.column!r}"
        )
        raise InputError(say("refused.no_fit_part", names=names, remedy=remedy))
    chosen = [answers[row] for row in rows]
    if by_sentence is not None:
        share = by_sentence.share
        chosen = [item for example in chosen for item in sentence_examples(example, share)]
    learnt = list(detectors)
    for index, score in enumerate(detectors):
        if learns(score):
            if (why := try_out(score, chosen)) is not None:
                raise DataError(f"{score.name}: {why}")
            for model in score.models if isinstance(score, Demanding) else ():
                # In whichever order scores learn, the same examples give the same state.
                model.forget()
            learnt[index] = cast(Fittable, score).fit([*asked_in_batches(chosen, [score], tell)])
    return tuple(learnt)


def group_codes(table: ScoreTable) -> NDArray[np.int64]:
    """Return one integer per group; copies of an answer and their groups are one group."""
    groups = named_groups(table)
    return groups if table.together is None else merge_groups(groups, table.together)


def named_groups(table: ScoreTable) -> NDArray[np.int64]:
    """Return one integer per group of the data; an example without one is a group of its own."""
    if table.groups.null_count == len(table):
        return np.arange(len(table), dtype=np.int64)
    names = table.groups.to_pylist()
    alone = np.array([name is None for name in names]) * len(names)
    return np.unique(group_numbers(names, len(names)) + alone, return_inverse=True)[1]
