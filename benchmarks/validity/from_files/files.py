"""From which answers are files drawn, what is true of them, and how is a command run?

Answers come in groups (questions). Scores are normal with standard deviation 1 within a class and a
size of group, whatever the correlation within groups, so that the true rates of every threshold are
known exactly: those of an answer drawn at random from a new group, whichever size groups have.
"""

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from calibrail.options import Requirement
from calibrail.options.fields import OPTION, changed

from ..check import Floats

#: Difference of the mean scores of hallucinated and faithful answers.
SEPARATION: Final = 2.0


@dataclass(frozen=True, slots=True)
class Answers:
    """Some answers of a population.

    Attributes
    ----------
    ids : ndarray of int64, shape (n,)
        What tells answers apart, in all files; it has nothing to do with anything else.
    labels : ndarray of int64, shape (n,)
        1 = hallucinated, 0 = faithful.
    scores : ndarray of float64, shape (columns, n)
        One row a detector; higher = more likely hallucinated.
    groups : ndarray of int64, shape (n,)
        The question of each answer.
    topics : ndarray of int64, shape (n,)
        Position in the population's ``topics``.
    """

    ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    scores: Floats
    groups: NDArray[np.int64]
    topics: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def joined(self, other: "Answers") -> "Answers":
        """Return these answers, then others; no group is common to both."""
        return Answers(
            np.append(self.ids, other.ids),
            np.append(self.labels, other.labels),
            np.concatenate([self.scores, other.scores], axis=1),
            np.append(self.groups, other.groups + int(self.groups.max()) + 1),
            np.append(self.topics, other.topics),
        )

    def one_per_group(self, rng: np.random.Generator) -> "Answers":
        """Return one answer of each group, drawn at random."""
        order = rng.permutation(len(self))
        rows = np.sort(order[np.unique(self.groups[order], return_index=True)[1]])
        return self._rows(rows)

    def repeated(self, times: int, rng: np.random.Generator) -> "Answers":
        """Return every answer so many times, one after the other, each with an id of its own."""
        copies = self._rows(np.repeat(np.arange(len(self)), times))
        return replace(copies, ids=rng.integers(1 << 60, size=len(copies)))

    def first(self, groups: int) -> "Answers":
        """Return the answers of the first so many groups."""
        return self._rows(np.flatnonzero(self.groups < groups))

    def _rows(self, rows: NDArray[np.int64]) -> "Answers":
        ids, labels, groups, topics = self.ids, self.labels, self.groups, self.topics
        return Answers(ids[rows], labels[rows], self.scores[:, rows], groups[rows], topics[rows])

    @property
    def names(self) -> NDArray[np.str_]:
        """Return the ids as files hold them, shape (n,)."""
        return np.array([f"{number:015x}" for number in self.ids.tolist()])


@dataclass(frozen=True, slots=True)
class Population:
    """Groups of answers, and how their scores hang together.

    Attributes
    ----------
    name : str
        How results call it.
    sizes : sequence of float
        Probabilities of groups of 1, 2, ... answers; one entry where answers stand alone.
    correlation : float
        Share of the scores' variance that answers of one group have in common.
    slope : float
        The mean score of a group of s answers is lower by ``slope * log(s)``: large groups are the
        hard ones.
    mixed : bool
        Labels are drawn answer by answer; else one for all answers of a group.
    topics : mapping of str to float
        Values of a column, each as frequent, with what they add to the score.
    columns : int
        Detectors, whose scores share half of their variance.
    lead : float
        By so much less do the detectors after the first one set hallucinated answers apart.
    suffix : str
        Kind of file.
    """

    name: str
    sizes: Sequence[float] = (1.0,)
    correlation: float = 0.0
    slope: float = 0.0
    mixed: bool = False
    topics: Mapping[str, float] = field(default_factory=lambda: {"all": 0.0})
    columns: int = 1
    lead: float = 0.0
    suffix: str = ".csv"

    @property
    def grouped(self) -> bool:
        """Whether answers share groups."""
        return len(self.sizes) > 1

    def draw(self, rng: np.random.Generator, groups: int) -> Answers:
        """Draw so many groups of answers, as many of each class where a group has one."""
        sizes = 1 + rng.choice(len(self.sizes), size=groups, p=self.sizes)
        member = np.repeat(np.arange(groups), sizes)
        of_group = rng.permutation(np.arange(groups) % 2)
        labels = rng.integers(2, size=len(member)) if self.mixed else of_group[member]
        topics = rng.integers(len(self.topics), size=len(member))
        shape = (self.columns, len(member))
        own, shared = rng.standard_normal(shape), rng.standard_normal((self.columns, groups))
        if self.columns > 1:
            # Detectors agree in part, as those of one data set do.
            own = np.sqrt(0.5) * (own + rng.standard_normal(len(member)))
            shared = np.sqrt(0.5) * (shared + rng.standard_normal(groups))
        correlation = self.correlation
        scores = np.sqrt(correlation) * shared[:, member] + np.sqrt(1.0 - correlation) * own
        added = np.array(list(self.topics.values()))[topics]
        scores += SEPARATION * labels - self.slope * np.log(sizes)[member] + added
        scores[1:] -= self.lead * labels
        return Answers(rng.integers(1 << 60, size=len(member)), labels, scores, member, topics)

    def below(self, threshold: float, label: int, topic: str | None = None) -> float:
        """Return P(score < threshold) of an answer of a class, and topic, from a new group."""
        n = np.arange(1, len(self.sizes) + 1)
        chance = np.asarray(self.sizes, dtype=np.float64)
        if self.mixed:
            # Only groups with such an answer are ones that it can come from.
            share = 0.5 / (1.0 if topic is None else len(self.topics))
            chance = chance * (1.0 - (1.0 - share) ** n)
        shifts = self.topics.values() if topic is None else [self.topics[topic]]
        means = [SEPARATION * label - self.slope * np.log(n) + shift for shift in shifts]
        rates = np.mean([ndtr(threshold - mean) for mean in means], axis=0)
        return float(np.sum(chance * rates) / np.sum(chance))

    def coverage(self, threshold: float, topic: str | None = None) -> float:
        """Return the share of hallucinated answers that a threshold flags."""
        return 1.0 - self.below(threshold, 1, topic)

    def fpr(self, threshold: float, topic: str | None = None) -> float:
        """Return the share of faithful answers that a threshold flags."""
        return 1.0 - self.below(threshold, 0, topic)

    def quantile(self, missed: float) -> float:
        """Return the threshold that misses this share of hallucinated answers."""
        return float(brentq(lambda t: self.below(t, 1) - missed, -50.0, 50.0, xtol=1e-12))

    def meets(self, threshold: float, limit: Requirement) -> bool:
        """Return whether a threshold meets a requirement that names both of its rates."""
        assert limit.min_coverage is not None and limit.max_fpr is not None
        enough = self.coverage(threshold) >= limit.min_coverage
        return enough and self.fpr(threshold) <= limit.max_fpr

    def write(self, folder: Path, name: str, answers: Answers, **more: Iterable[Any]) -> Path:
        """Write answers to a file as some people have them, sorted by class and score.

        Parameters
        ----------
        folder : Path
            Where the file is to lie.
        name : str
            Of the file, and of its groups.
        answers : Answers
            Its rows.
        **more : iterable
            Further columns.
        """
        path = folder / f"{name}{self.suffix}"
        columns: dict[str, Iterable[Any]] = {
            "id": answers.names.tolist(),
            "label": answers.labels.tolist(),
            **dict(zip(self.detectors, answers.scores.tolist(), strict=True)),
        }
        if self.grouped:
            columns["group"] = [f"{name} {number}" for number in answers.groups.tolist()]
        if len(self.topics) > 1:
            columns["topic"] = [list(self.topics)[number] for number in answers.topics.tolist()]
        columns |= more
        names = list(columns)
        ordered = sorted(zip(*columns.values(), strict=True), key=lambda row: row[1:3])
        with path.open("w", encoding="utf-8", newline="") as file:
            if self.suffix == ".csv":
                writer = csv.writer(file)
                writer.writerow(names)
                writer.writerows(ordered)
            else:
                for row in ordered:
                    file.write(json.dumps(dict(zip(names, row, strict=True))) + "\n")
        return path

    @property
    def detectors(self) -> tuple[str, ...]:
        """Names of the columns of scores."""
        return tuple(f"s{number}" for number in range(self.columns))


def zipf(exponent: float, most: int) -> tuple[float, ...]:
    """Return the probabilities of groups of 1, 2, ..., ``most`` answers, larger ones cut to it."""
    chance = np.arange(1, most + 1, dtype=np.float64) ** -exponent
    # What lies beyond, by the integral: beyond a few hundred it is exact enough.
    beyond = (most + 0.5) ** (1.0 - exponent) / (exponent - 1.0)
    total = chance.sum() + beyond
    chance[-1] += beyond
    return tuple((chance / total).tolist())


#: Answers that stand alone.
ALONE: Final = Population("answers alone")
#: Large groups are the hard ones, and few groups hold most of the answers.
LARGE_ARE_HARD: Final = Population(
    "sizes Zipf(1.6), large groups hard, correlation 0.5", zipf(1.6, 200), 0.5, slope=1.0
)
#: Questions with 1 to 15 answers of both classes.
QUESTIONS: Final = Population(
    "1 to 15 answers a question, correlation 0.8",
    (1 / 15,) * 15,
    0.8,
    mixed=True,
    suffix=".jsonl",
)
#: Ten answers to each question.
TENS: Final = Population(
    "ten answers a question, correlation 0.8", (*(0.0,) * 9, 1.0), 0.8, mixed=True
)


#: Detector that reads the first column of scores of a population's files.
SCORE: Final = "column:column=s0,higher=hallucinated"
#: Where many systems have a disk in memory: labels wait for the disk one by one.
_MEMORY: Final = "/dev/shm"
COLUMNS: Final = ("--score-column", "s0", "--higher", "hallucinated")


@contextmanager
def folder() -> Iterator[Path]:
    """Give a folder of its own to work in, in memory where that is one, and remove it."""
    memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with TemporaryDirectory(prefix="calibrail-", dir=memory) as name, chdir(name):
        yield Path(name)


def command(*words: object) -> dict[str, Any]:
    """Run a command with ``--json`` in this process; return what it printed.

    Raises
    ------
    CalibrailError
        What the command line prints as an error.
    """
    from calibrail.cli import app

    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        app([*map(str, words), "--json"], standalone_mode=False)
    content: dict[str, Any] = json.loads(out.getvalue())
    return content


def options(*settings: Any) -> list[str]:
    """Return the words of a command line that stand for settings.

    >>> from calibrail.options import Promise, Requirement
    >>> options(Promise(alpha=0.2), Requirement(risks=("fpr<=0.2", "recall>=0.8")))
    ['--alpha', '0.2', '--risk', 'fpr<=0.2', '--risk', 'recall>=0.8']
    """
    words: list[str] = []
    for item in settings:
        for name, value in changed(item).items():
            flag = (type(item).__dataclass_fields__[name].metadata[OPTION].flag or name).replace(
                "_", "-"
            )
            if value is True:
                words.append(f"--{flag}")
            for entry in value if isinstance(value, tuple) else () if value is True else (value,):
                words += [f"--{flag}", str(entry)]
    return words
