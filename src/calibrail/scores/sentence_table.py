"""What do the sentences of scored answers look like once their texts are gone?

An answer becomes one number again, so that all that is known of answers holds (Mohri and
Hashimoto, 2024). Of a hallucinated one it is the lowest score among its unsupported sentences: at a
threshold up to there all of them are removed. Of a faithful one it is the highest score of its
sentences: at a threshold up to there one of them is removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from calibrail.conformal.pvalues import add_tolerance
from calibrail.data.arrow import number_array
from calibrail.scores.table import REASON, ScoreTable, column_of, write_in_parts
from calibrail.settings.promise import Undefined
from calibrail.text.joins import Joins, removed_with, torn

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Of a sentence whose answer nobody has marked by characters.
UNMARKED: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Trimming:
    """What is left of n answers with m sentences.

    Attributes
    ----------
    reached : ndarray of bool, shape (m,)
        Sentences that reach the threshold, or have no score and are removed for that.
    removed : ndarray of bool, shape (m,)
        Those, and the ones that go because they do.
    reviewed : ndarray of bool, shape (n,)
        Answers of which nothing is shown, since a person has to look at them.
    """

    reached: Mask
    removed: Mask
    reviewed: Mask


@dataclass(frozen=True, slots=True, eq=False)
class SentenceTable:
    """The m sentences of n answers, one answer after the other; numbers only, no text.

    Attributes
    ----------
    first : ndarray of int64, shape (n + 1,)
        Sentences of answer i are those from ``first[i]`` up to ``first[i + 1]``.
    starts, ends : ndarray of int32, shape (m,)
        Places in the answer's text, the end exclusive.
    labels : ndarray of int8, shape (m,)
        1 = unsupported, 0 = supported, -1 = not labelled.
    marked, written : ndarray of int32, shape (m,)
        How many of its characters are marked as unsupported (`UNMARKED` where nobody marked the
        answer), and how many there are, white space apart.
    words : ndarray of int32, shape (m,)
        How many words it has, as white space parts them.
    outside : ndarray of int32, shape (n,)
        Marked characters of the answer that no sentence holds.
    joins : Joins
        Which sentences hang together.
    columns : mapping of str to ndarray of float64, shape (m,)
        Scores by key, higher = more likely unsupported; NaN where undefined.
    reasons : mapping of str to mapping of int to str
        Why a score is undefined, by key and sentence.
    n_cut_otherwise : int
        Answers whose sentences, as the data gives them, are others than those found in the text.
    """

    first: NDArray[np.int64]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    labels: NDArray[np.int8]
    marked: NDArray[np.int32]
    written: NDArray[np.int32]
    words: NDArray[np.int32]
    outside: NDArray[np.int32]
    joins: Joins
    columns: Mapping[str, Floats]
    reasons: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    n_cut_otherwise: int = 0

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n_answers(self) -> int:
        """How many answers there are."""
        return len(self.first) - 1

    @property
    def answers(self) -> NDArray[np.int64]:
        """The answer of each sentence, shape (m,)."""
        return np.repeat(np.arange(self.n_answers), np.diff(self.first))

    def without(self, keys: set[str]) -> SentenceTable:
        """Return the table without some scores."""
        columns = {key: values for key, values in self.columns.items() if key not in keys}
        reasons = {key: why for key, why in self.reasons.items() if key not in keys}
        return replace(self, columns=columns, reasons=reasons)

    def of_answers(self, rows: Mask) -> SentenceTable:
        """Return the sentences of some answers, without the reasons.

        Parameters
        ----------
        rows : ndarray of bool, shape (n,)
            Which answers.
        """
        kept, sizes = np.repeat(rows, np.diff(self.first)), np.diff(self.first)[rows]
        return SentenceTable(
            first=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            starts=self.starts[kept],
            ends=self.ends[kept],
            labels=self.labels[kept],
            marked=self.marked[kept],
            written=self.written[kept],
            words=self.words[kept],
            outside=self.outside[rows],
            joins=Joins(*(part[kept] for part in self.joins)),
            columns={key: values[kept] for key, values in self.columns.items()},
        )

    def any(self, sentences: Mask) -> Mask:
        """Return which answers hold one of some sentences, shape (n,)."""
        return self.count(sentences) > 0

    def count(self, sentences: Mask) -> NDArray[np.int64]:
        """Return how many of some sentences each answer holds, shape (n,)."""
        before = np.concatenate(([0], np.cumsum(sentences, dtype=np.int64)))
        return np.asarray(before[self.first[1:]] - before[self.first[:-1]])

    def values(self, key: str, undefined: Undefined) -> Floats:
        """Return the value of each answer, shape (n,); NaN where its policy decides.

        Parameters
        ----------
        key : str
            The score.
        undefined : {"flag", "review", "pass"}
            Under ``pass`` a sentence without a score is never removed, so that an answer with an
            unsupported one has no value. Otherwise it always is: it counts for no hallucinated
            answer that has another unsupported one, and a faithful answer with one has no value.

        Examples
        --------
        >>> labels = np.array([0, 1, 1, 0, 0], np.int8)
        >>> table = SentenceTable.of([3, 2], labels, rad=np.array([0.9, 0.4, 0.7, 0.1, 0.2]))
        >>> table.values("rad", "flag").tolist()
        [0.4, 0.2]
        """
        scores, unsupported = self.columns[key], self.labels == 1
        lost = np.isnan(scores)
        lowest = self._lowest(np.where(unsupported & ~lost, scores, np.inf))
        highest = -self._lowest(np.where(lost, np.inf, -scores))
        hallucinated = self.any(unsupported)
        values = np.where(hallucinated, lowest, highest)
        if undefined == "pass":
            values[self.any(unsupported & lost)] = np.nan
        else:
            values[~hallucinated & self.any(lost)] = np.nan
        values[np.isinf(values)] = np.nan
        return values

    def highest(self, key: str) -> Mask:
        """Return the sentence of each answer with the highest score, the first of several.

        One without a score is never it.
        """
        scores = self.columns[key]
        ranked = np.where(np.isnan(scores), -np.inf, scores)
        order = np.lexsort((np.arange(len(self)), -ranked, self.answers))
        found = np.zeros(len(self), np.bool_)
        found[order[self.first[:-1][np.diff(self.first) > 0]]] = True
        return found & ~np.isnan(scores)

    def trim(
        self, key: str, thresholds: Floats, undefined: Undefined, tolerance: float
    ) -> Trimming:
        """Return what a threshold for each answer leaves of the answers.

        Parameters
        ----------
        key : str
            The score.
        thresholds : ndarray of float64, shape (n,)
            A sentence is removed at ``score + tolerance >= threshold``.
        undefined : {"flag", "review", "pass"}
            What happens to a sentence without a score: it is removed, its answer goes to review, or
            it stays.
        tolerance : float
            As the score's.
        """
        scores = self.columns[key]
        lost = np.isnan(scores)
        # As a rule decides about answers: the same sum is compared.
        above = add_tolerance(scores, tolerance) >= np.repeat(thresholds, np.diff(self.first))
        reached = np.where(lost, undefined != "pass", above)
        removed = removed_with(self.joins, reached)
        reviewed = self.any(torn(self.joins, removed))
        if undefined == "review":
            reviewed |= self.any(lost)
        return Trimming(reached, removed, reviewed)

    def _lowest(self, values: Floats) -> Floats:
        """Return the lowest of each answer's values, shape (n,); infinity where it has none."""
        lowest = np.full(self.n_answers, np.inf)
        holds = np.diff(self.first) > 0
        if holds.any():
            lowest[holds] = np.minimum.reduceat(values, self.first[:-1][holds])
        return lowest

    @classmethod
    def of(cls, sizes: Any, labels: NDArray[np.int8], **columns: Floats) -> SentenceTable:
        """Return a table of sentences of which no text is known: they stand each by itself.

        Parameters
        ----------
        sizes : sequence of int, length n
            How many sentences each answer has.
        labels : ndarray of int8, shape (m,)
            As the table's.
        **columns : ndarray of float64, shape (m,)
            Scores by key.
        """
        first = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        nowhere = np.zeros(len(labels), np.int32)
        unmarked = np.full(len(labels), UNMARKED, np.int32)
        outside = np.zeros(len(first) - 1, np.int32)
        joins = Joins(nowhere, nowhere, nowhere)
        zeros = (nowhere, nowhere)
        return cls(first, *zeros, labels, unmarked, *zeros, outside, joins, columns)

    def to_parquet(self, path: str | Path, table: ScoreTable, codes: NDArray[np.int8]) -> None:
        """Write ``id``, ``sentence``, ``start``, ``end``, ``label``, ``split``, a column a score.

        Sentences of an answer are numbered from 1. The rest is as `ScoreTable.to_parquet` writes.

        Parameters
        ----------
        path : path
            The file.
        table : ScoreTable
            The answers.
        codes : ndarray of int8, shape (n,)
            Where each answer belongs.

        Raises
        ------
        DataError
            If the file cannot be written.
        """
        write_in_parts(path, len(self), lambda rows: self._arrays(rows, table, codes))

    def _arrays(self, rows: slice, table: ScoreTable, codes: NDArray[np.int8]) -> pa.Table:
        """Return what the file holds of some sentences."""
        labels = self.labels[rows]
        numbers = np.arange(rows.start, rows.start + len(labels))
        answers = np.searchsorted(self.first, numbers, side="right") - 1
        every = np.ones(len(labels), np.bool_)
        begin, stop = (int(answers[0]), int(answers[-1]) + 1) if len(answers) else (0, 0)
        places = number_array(cast(Any, answers - begin), every)
        sentences = replace(
            table,
            ids=table.ids[begin:stop].take(places),
            groups=table.groups[begin:stop].take(places),
            labels=labels,
            columns={key: values[rows] for key, values in self.columns.items()},
            reasons={key: self.reasons.get(key, {}) for key in self.columns},
        )
        arrays = sentences.arrays(slice(0, len(labels)), codes[answers], first=rows.start)
        order = {"id": arrays["id"]}
        for name, values in (
            ("sentence", numbers - self.first[answers] + 1),
            ("start", self.starts[rows]),
            ("end", self.ends[rows]),
        ):
            order[name] = number_array(cast(Any, values), every)
        without = {column_of(key, REASON) for key in self.columns if not self.reasons.get(key)}
        without.add("group")
        order |= {name: arrays[name] for name in ("label", "split")}
        return pa.table(order | {k: v for k, v in arrays.items() if k not in {*order, *without}})
