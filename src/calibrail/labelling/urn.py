"""Which lines of a decision log does the lot draw first, and with which probabilities?"""

import hashlib
import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from calibrail.conformal.labelling import labelling_probability
from calibrail.conformal.sequential import share_so_far
from calibrail.data.example import Example
from calibrail.data.sketches import normalise
from calibrail.labelling.folder import DIGITS, LabelFolder
from calibrail.labelling.guess import Guesser
from calibrail.labelling.lines import Draw
from calibrail.labelling.order import Order
from calibrail.settings.requirement import Requirement

#: Lines that one call draws at most.
MOST: Final = 1 << 14

#: Stands for a limit that nobody set: what it would weigh is left out.
_ANY: Final = 0.5


def line_digest(chain: str, seq: int) -> str:
    """Return 16 hexadecimal digits that stand for a line of a log: each is drawn by itself.

    >>> line_digest("20270301T000000-1-00000000", 7)
    '3493cbe8d4414425'
    """
    return hashlib.sha256(f"{chain}\0{seq}".encode()).hexdigest()[:16]


def question_digest(example: Example) -> str | None:
    """Return 16 hexadecimal digits that stand for the words of a question and of its chunks.

    Chunks belong to it: "Summarise this" is another question of another text. None where there is
    neither.

    >>> question_digest(Example("Who wrote it?")) == question_digest(Example("who wrote it"))
    True
    """
    words = [normalise(text) for text in (example.question, *example.contexts)]
    if not any(words):
        return None
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A line of a log that may be drawn.

    Attributes
    ----------
    chain, seq
        Where it stands.
    time : str or None
        When it was logged.
    score : float or None
        What the guardrail said; None where it is undefined.
    flagged : bool
        Whether the answer was not passed.
    group : str or None
        Where the guardrail has thresholds by group.
    language : str or None
        Where it is known.
    example : Example
        Its id, and its texts and the column of its score where the log holds them.
    lengths : mapping of str to int
        How long its texts are, where the log holds none.
    """

    chain: str
    seq: int
    time: str | None
    score: float | None
    flagged: bool
    group: str | None
    language: str | None
    example: Example
    lengths: Mapping[str, int] = field(default_factory=dict)


class Urn:
    """Holds the lines whose lots come first, of however many there are.

    The place of a line follows from the seed, its chain and its number there, so that the lines
    drawn are a uniform sample without replacement, and the same ones in whatever order and in how
    many files the log is read.

    Parameters
    ----------
    seed : int
        Of all lots.
    most : int
        Lines to hold.
    """

    def __init__(self, seed: int, most: int = MOST) -> None:
        self._order, self._most = Order(seed), most
        self._held: list[tuple[int, Candidate]] = []
        #: Lines offered so far, their days (UTC), and the earliest and the latest time of them.
        self.n = 0
        self.days: set[str] = set()
        self.first: str | None = None
        self.last: str | None = None

    def offer(self, chain: str, seq: int, time: str | None, made: Callable[[], Candidate]) -> None:
        """Take in a line, which is made only where its lot is among the first."""
        self.n += 1
        if time is not None:
            self.days.add(time[:10])
            self.first = time if self.first is None else min(self.first, time)
            self.last = time if self.last is None else max(self.last, time)
        place = -int(self._order.alone(line_digest(chain, seq)), 16)
        if len(self._held) < self._most:
            heapq.heappush(self._held, (place, made()))
        elif place > self._held[0][0]:
            heapq.heapreplace(self._held, (place, made()))

    def candidates(self) -> list[Candidate]:
        """Return the lines held, in the order of drawing."""
        return [item for _, item in sorted(self._held, key=lambda pair: -pair[0])]


def probabilities(
    candidates: Sequence[Candidate], files: LabelFolder, limits: tuple[float | None, float | None]
) -> tuple[list[float | None], list[float]]:
    """Return the guess for each line, and with which probability it is handed out.

    Both follow from the labels there are, and are fixed before those of these lines are seen.

    Parameters
    ----------
    candidates : sequence of Candidate
        In the order of drawing.
    files : LabelFolder
        Up to date.
    limits : (float or None, float or None)
        Coverage that must be kept and FPR that may not be exceeded, None where nobody said.
    """
    drawing = files.plan.drawing
    if drawing.design == "uniform" or not candidates:
        return [None] * len(candidates), [1.0] * len(candidates)
    known = [item for item in files.ledger.answers if item.label is not None]
    weights = [1.0 / item.draw.probability for item in known]
    hallucinated = sum(w for w, item in zip(weights, known, strict=True) if item.label == 1)
    least, most = (_ANY if limit is None else limit for limit in limits)
    guesses = Guesser(files)([(item.score, None) for item in candidates])
    chances = labelling_probability(
        np.array([item.flagged for item in candidates]),
        guesses,
        Requirement(max_fpr=most, min_coverage=least),
        drawing,
        base_rate=float(share_so_far(hallucinated, round(sum(weights)))),
        undecided=(limits[0] is not None, limits[1] is not None),
    )
    return [float(item) for item in guesses], chances.tolist()


def draw_lines(
    candidates: Sequence[Candidate],
    files: LabelFolder,
    limits: tuple[float | None, float | None],
    *,
    budget: int,
    n_rows: int,
) -> list[Draw]:
    """Draw as many lines as hand out the budget on average, and let the lot of each say which.

    How many are drawn follows from the probabilities of all candidates, before any lot: what a draw
    stands for depends on no lot and on no place in the order. So about the budget is handed out,
    and exactly that with the design ``uniform``.

    Returns
    -------
    list of Draw
        Those drawn, handed out or not; their batch is the next one.
    """
    order, answers = Order(files.plan.seed), files.ledger.answers
    guesses, chances = probabilities(candidates, files, limits)
    n_drawn = _n_drawn(chances, budget)
    found: list[tuple[Candidate, str, float | None, float, bool]] = []
    for item, guess, chance in list(zip(candidates, guesses, chances, strict=True))[:n_drawn]:
        digest = line_digest(item.chain, item.seq)
        handed_out = order.lot("labelled", digest) < chance
        found.append((item, digest, guess, chance, handed_out))
    batch = 1 + max((answer.draw.batch or 0 for answer in answers[-1:]), default=0)
    return [
        Draw(
            order=number,
            unit=number,
            of=1,
            id=item.example.id,
            group=None,
            digest=digest,
            probability=chance,
            handed_out=handed_out,
            score=item.score,
            flagged=item.flagged,
            guess=guess,
            plan=files.agreed_on[:DIGITS],
            chain=item.chain,
            seq=item.seq,
            time=item.time,
            batch=batch,
            share=len(found) / n_rows,
            log_group=item.group,
            log_language=item.language,
            question=question_digest(item.example),
        )
        for number, (item, digest, guess, chance, handed_out) in enumerate(
            found, start=len(answers) + 1
        )
    ]


def _n_drawn(chances: Sequence[float], budget: int) -> int:
    """Return how many of the candidates hand out the budget on average; all, where they are few."""
    if not chances:
        return 0
    return min(len(chances), max(1, round(budget * len(chances) / sum(chances))))
