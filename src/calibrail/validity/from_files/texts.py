"""From which answers, sentence by sentence, are files drawn, and what is true of them?

The scores are those of ``calibrail.validity.sentences``; here they get texts with marks in them, so
that everything between a file and a trimmed answer takes part: the sentences that a text is found
to hold, the joins between them, labels from spans, a cell with the score of each sentence.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.scores.sentence_table import SentenceTable
from calibrail.validity.distributions import Kind
from calibrail.validity.sentences import KEY, TOPICS, Written

_PLAIN: Final = "P{sign} weighs {weight} grams."
#: How sentences are tied to others: what they open with, stand in, or announce.
_JOINED: Final = (
    "However, p{sign} weighs {weight} grams.",
    "In addition, p{sign} weighs {weight} grams.",
    "Second, p{sign} weighs {weight} grams.",
    "The latter, p{sign}, weighs {weight} grams.",
    "\n- P{sign} weighs {weight} grams.",
    "\n3. P{sign} weighs {weight} grams.",
    "\nTwo points about p{sign}:\n",
)


@dataclass(frozen=True, slots=True)
class Answers:
    """Some answers of a population of texts.

    Attributes
    ----------
    names : ndarray of str, shape (n,)
        Their ids, which have nothing to do with anything else.
    groups : ndarray of int64, shape (n,)
        The source of each.
    topics : ndarray of int64, shape (n,)
        Position in ``TOPICS``.
    sentences : SentenceTable
        Their labels and scores.
    """

    names: NDArray[np.str_]
    groups: NDArray[np.int64]
    topics: NDArray[np.int64]
    sentences: SentenceTable

    def __len__(self) -> int:
        return len(self.names)

    def rows(self, index: int) -> slice:
        """Return which of the sentences are those of an answer."""
        return slice(int(self.sentences.first[index]), int(self.sentences.first[index + 1]))

    def joined(self, other: "Answers") -> "Answers":
        """Return these answers, then others; no source is common to both."""
        mine, theirs = self.sentences, other.sentences
        table = SentenceTable.of(
            np.append(np.diff(mine.first), np.diff(theirs.first)),
            np.append(mine.labels, theirs.labels),
            **{KEY: np.append(mine.columns[KEY], theirs.columns[KEY])},
        )
        return Answers(
            np.append(self.names, other.names),
            np.append(self.groups, other.groups + int(self.groups.max()) + 1),
            np.append(self.topics, other.topics),
            table,
        )


@dataclass(frozen=True, slots=True)
class Texts:
    """Answers in sentences, of which half are hallucinated.

    Attributes
    ----------
    written : Written
        How the scores of an answer's sentences hang together.
    largest : int
        Sources have 1 to this many answers.
    alike : float
        Correlation, between answers to one source, of what an answer's sentences have in common.
    joined : float
        Share of the sentences that are tied to others.
    by_topic : bool
        Whether answers have a topic, which shifts their scores.
    kind : {"continuous", "discrete", "tied"}
        Of the scores.
    """

    written: Written
    largest: int = 1
    alike: float = 0.0
    joined: float = 0.0
    by_topic: bool = False
    kind: Kind = "continuous"

    @property
    def name(self) -> str:
        """How results call it."""
        parts = [self.written.name]
        if self.kind != "continuous":
            parts.append(self.kind)
        if self.largest > 1:
            parts.append(f"1 to {self.largest} answers a source")
        if self.joined:
            parts.append("joins")
        return ", ".join(parts)

    def draw(self, rng: np.random.Generator, groups: int) -> Answers:
        """Draw the answers of so many sources."""
        sizes = 1 + rng.integers(self.largest, size=groups)
        member = np.repeat(np.arange(groups), sizes)
        n = len(member)
        # Alone, as many of each class.
        bad = rng.permutation(n) % 2 == 0 if self.largest == 1 else rng.random(n) < 0.5
        topics = rng.integers(len(TOPICS), size=n)
        shared = rng.standard_normal(groups)[member]
        common = np.sqrt(self.alike) * shared + np.sqrt(1.0 - self.alike) * rng.standard_normal(n)
        loc = np.array(list(TOPICS.values()))[topics] if self.by_topic else 0.0
        table = self.written.draw(rng, n, self.kind, hallucinated=bad, loc=loc, common=common)
        names = np.array([f"{number:015x}" for number in rng.integers(1 << 60, size=n).tolist()])
        return Answers(names, member, topics, table)

    def write(self, folder: Path, name: str, answers: Answers, **more: Iterable[Any]) -> Path:
        """Write answers as JSON lines, sorted by class and worst sentence; ``more`` are columns."""
        rows = self.rows(answers, name)
        for column, values in more.items():
            for row, value in zip(rows, values, strict=True):
                row[column] = value
        worst = (max((s for s in row["s0"] if s is not None), default=0.0) for row in rows)
        ordered = sorted(
            zip(rows, worst, strict=True), key=lambda pair: (pair[0]["label"], pair[1])
        )
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row, _ in ordered), encoding="utf-8")
        return path

    def rows(self, answers: Answers, name: str) -> list[dict[str, Any]]:
        """Return answers as rows of a file; ``name`` tells its sources from those of others."""
        rng = np.random.default_rng(len(answers))
        table, rows = answers.sentences, list[dict[str, Any]]()
        for index, id in enumerate(answers.names.tolist()):
            part = answers.rows(index)
            labels, scores = table.labels[part], table.columns[KEY][part].tolist()
            text, spans = self._text(rng, id, labels)
            rows.append(
                {
                    "id": id,
                    "response": text,
                    "label": int(labels.any()),
                    "spans": spans,
                    "s0": [None if math.isnan(score) else score for score in scores],
                }
            )
            if self.largest > 1:
                rows[-1]["group"] = f"{name} {answers.groups[index]}"
            if self.by_topic:
                rows[-1]["topic"] = list(TOPICS)[answers.topics[index]]
        return rows

    def sign(self, id: str, part: int) -> str:
        """Return what a sentence of an answer says, and no other sentence."""
        return f"art {part} of lot {int(id[:8], 16)}"

    def _text(
        self, rng: np.random.Generator, id: str, labels: NDArray[np.int8]
    ) -> tuple[str, list[list[int]]]:
        """Return an answer with what is marked in it: of some sentences all, of others a word."""
        text, spans = "", list[list[int]]()
        for part, bad in enumerate(labels.tolist(), start=1):
            tied = part > 1 and rng.random() < self.joined
            template = _JOINED[int(rng.integers(len(_JOINED)))] if tied else _PLAIN
            sign, weight = self.sign(id, part), int(rng.integers(10, 1000))
            sentence = template.format(sign=sign, weight=weight)
            start = len(text) + len(sentence) - len(sentence.lstrip())
            text += sentence
            if bad:
                word = text.index(sign, start)
                whole = [start, start + len(sentence.strip())]
                spans.append([word, word + 3] if rng.random() < 0.5 else whole)
            text += " "
        return text.rstrip(" "), spans


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows as JSON lines; return where."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
