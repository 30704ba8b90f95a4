"""Do the promises hold where sentences are removed, and what is said of what is kept?

Answers have 1 to 50 sentences, whose scores hang together in one of several ways. What is exact for
independent answers stays exact, however alike the sentences of one answer are: an answer has one
value, the lowest score among its unsupported sentences, and values of answers are independent.

Truth lies just on the other side of what a verdict says, for one requirement at a time. What is
kept of an answer is a share, and shares are skewed: most of them 1 and a few 0, or all or nothing
where the sentences of an answer score alike.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from calibrail.conformal import (
    ClassCounts,
    calibrate_clusters,
    calibrate_groups,
    calibrate_threshold,
    rank,
)
from calibrail.conformal.bounds import mean_at_least, mean_bound
from calibrail.conformal.certificate import certify_trimming
from calibrail.evaluation.measures import Outcomes
from calibrail.options import Requirement
from calibrail.options.guarantee import Undefined
from calibrail.scores.table import SentenceTable

from .check import DELTA, Check, Floats, Kind, Setting, as_score

#: Difference of the mean scores of unsupported and supported sentences.
SEPARATION: Final = 2.0
#: Sentences of the longest answer.
LONGEST: Final = 50
#: Answers that are drawn at the same time.
_CHUNK: Final = 20_000
#: Nodes and weights of integrals over a standard normal number.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(201)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
#: The score of simulated sentences.
KEY: Final = "score"


@dataclass(frozen=True, slots=True)
class Written:
    """Answers whose number of sentences is log-uniform, and how their scores hang together.

    Attributes
    ----------
    name : str
        How results call them.
    share : float
        Probability that a sentence of a hallucinated answer is unsupported; one always is.
    shared : float
        Share of the scores' variance that the sentences of an answer have in common.
    step : float
        Correlation of what is left with that of the sentence before.
    lost : float
        Share of sentences without a score.
    longest : int
        Most sentences of an answer.
    """

    name: str
    share: float = 0.2
    shared: float = 0.0
    step: float = 0.0
    lost: float = 0.0
    longest: int = LONGEST

    def sizes(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        """Draw how many sentences each of n answers has."""
        return np.searchsorted(self._up_to, rng.random(n), side="right") + 1

    @property
    def chances(self) -> Floats:
        """Probabilities of answers of 1, 2, ... sentences."""
        return np.diff(self._up_to, prepend=0.0)

    @property
    def _up_to(self) -> Floats:
        numbers = np.arange(1, self.longest + 1, dtype=np.float64)
        return np.asarray(np.log(numbers + 1.0) / np.log(self.longest + 1.0))

    def draw(
        self,
        rng: np.random.Generator,
        n: int,
        kind: Kind = "continuous",
        *,
        hallucinated: NDArray[np.bool_] | bool = True,
        loc: Floats | float = 0.0,
        common: Floats | None = None,
    ) -> SentenceTable:
        """Draw n answers.

        Parameters
        ----------
        rng : Generator
            What draws.
        n : int
            How many.
        kind : {"continuous", "discrete", "tied"}
            Of the scores.
        hallucinated : ndarray of bool, shape (n,), or bool
            Which of them hold an unsupported sentence.
        loc : ndarray of float64, shape (n,), or float
            Added to the scores of each answer.
        common : ndarray of float64, shape (n,), optional
            Standard normal numbers that the sentences of an answer have in common; drawn when left
            out.
        """
        sizes = self.sizes(rng, n)
        first = np.append(0, np.cumsum(sizes))
        answer = np.repeat(np.arange(n), sizes)
        labels = rng.random(len(answer)) < self.share
        labels[first[:-1] + rng.integers(sizes)] = True
        labels &= np.broadcast_to(hallucinated, n)[answer]
        own = rng.standard_normal(len(answer))
        if self.step:
            own = _in_turn(own, first, self.step)
        if common is None:
            common = rng.standard_normal(n)
        level = np.sqrt(self.shared) * common + loc
        normal = level[answer] + np.sqrt(1.0 - self.shared) * own + SEPARATION * labels
        scores = as_score(kind, normal - (SEPARATION if kind == "tied" else 0.0))
        scores[rng.random(len(scores)) < self.lost] = np.nan
        return SentenceTable.of(sizes, labels.astype(np.int8), **{KEY: scores})

    def missed(self, threshold: float, loc: float = 0.0) -> float:
        """Return the share of hallucinated answers that keep an unsupported sentence, exactly.

        Where the scores are independent but for what an answer has in common, and none is lost.
        """
        numbers = np.arange(1, self.longest + 1)[:, None]
        below = self._below(threshold, SEPARATION + loc)
        # One sentence is always unsupported, the others by chance.
        none_left = (1.0 - below) * (1.0 - self.share * below) ** (numbers - 1)
        return float(1.0 - self.chances @ (none_left @ _WEIGHTS))

    def kept(self, threshold: float) -> float:
        """Return the mean share of an answer's supported sentences below a threshold, exactly."""
        return float(self._below(threshold, 0.0) @ _WEIGHTS)

    def untouched(self, threshold: float) -> float:
        """Return the share of faithful answers of which nothing is removed, exactly."""
        numbers = np.arange(1, self.longest + 1)[:, None]
        return float(self.chances @ (self._below(threshold, 0.0) ** numbers @ _WEIGHTS))

    def _below(self, threshold: float, mean: float) -> Floats:
        own = np.sqrt(1.0 - self.shared)
        return np.asarray(ndtr((threshold - mean - np.sqrt(self.shared) * _NODES) / own))


def _in_turn(own: Floats, first: NDArray[np.int64], step: float) -> Floats:
    """Return numbers of which each depends on the one before, within an answer."""
    result, sizes = own.copy(), np.diff(first)
    for place in range(1, int(sizes.max())):
        rows = first[:-1][sizes > place] + place
        result[rows] = step * result[rows - 1] + np.sqrt(1.0 - step * step) * own[rows]
    return result


ALIKE: Final = Written("scores of an answer alike (0.6)", shared=0.6)
UNRELATED: Final = Written("independent scores")
IN_TURN: Final = Written("each score like the one before (0.8)", step=0.8)
#: Designs whose true rates are known exactly.
KNOWN: Final = (UNRELATED, ALIKE)
DESIGNS: Final = (UNRELATED, ALIKE, IN_TURN)
#: What a topic adds to the scores.
TOPICS: Final = {"easy": 1.0, "middle": 0.0, "hard": -1.0}


def removed(at: Setting) -> Iterator[Check]:
    """Keep an unsupported sentence of a fresh answer: probability k / (n + 1), at most alpha."""
    for design in DESIGNS:
        failed = _failed(at, design, "flag")
        what = "sentences, marginal: all unsupported ones removed"
        yield at.check(what, failed, at.alpha, exact=at.miss_rate, design=design.name)


def removed_undefined(at: Setting) -> Iterator[Check]:
    """Keep one where a tenth of the sentences has no score: at most alpha, by each policy.

    By ``pass`` few have none, since such a sentence is never removed; a refusal shows nothing.
    """
    shares: dict[Undefined, float] = {"flag": 0.1, "review": 0.1, "pass": 0.1 * at.alpha}
    for policy, lost in shares.items():
        design = replace(ALIKE, name=f"{lost:.2g} without a score: {policy}", lost=lost)
        failed = _failed(at, design, policy)
        what = "sentences, marginal: all unsupported ones removed"
        yield at.check(what, failed, at.alpha, design=design.name)


def removed_pac(at: Setting) -> Iterator[Check]:
    """Draw a ``pac`` threshold that fails more than alpha of the answers: at most ``DELTA``."""
    k = rank(at.n, at.alpha, "pac", DELTA)
    for design in KNOWN:
        rng = at.rng(f"sentences, pac, {design.name}")
        thresholds = np.concatenate(
            [
                np.partition(values[:, : at.n], k - 1, axis=1)[:, k - 1]
                for values, _ in _values(at, design, rng, "flag")
            ]
        )
        limit = threshold_of(design, at.alpha)
        what = "sentences, pac: all unsupported ones removed"
        yield at.check(what, thresholds > limit, DELTA, exact=at.pac_error, design=design.name)


def removed_clustered(at: Setting) -> Iterator[Check]:
    """Keep one in a fresh answer to a new source, whose answers are alike: at most alpha."""
    for design in (UNRELATED, IN_TURN):
        rng = at.rng(f"sentences, clustered, {design.name}")
        failed = [_failed_by_source(at, design, rng) for _ in range(at.runs)]
        what = "sentences, marginal by source: all unsupported ones removed"
        yield at.check(what, failed, at.alpha, design=design.name)


def removed_by_topic(at: Setting) -> Iterator[Check]:
    """Keep one in a fresh answer of a topic: k / (n + 1), at most alpha, in each."""
    rng = at.rng("sentences, by topic")
    topics = np.append(np.repeat(list(TOPICS), at.n), list(TOPICS))
    loc = np.array([TOPICS[topic] for topic in topics.tolist()])
    failed: dict[str, list[bool]] = {topic: [] for topic in TOPICS}
    for _ in range(at.runs):
        table = ALIKE.draw(rng, len(topics), at.kind, loc=loc)
        values, fresh = table.values(KEY, "flag"), len(TOPICS)
        made = calibrate_groups(values[:-fresh], topics[:-fresh].tolist(), at.promise(by="topic"))
        kept = _kept_one(table, made.thresholds(topics.tolist()), "flag")[-fresh:]
        for topic, bad in zip(TOPICS, kept.tolist(), strict=True):
            failed[topic].append(bad)
    for topic, items in failed.items():
        what = "sentences, marginal by topic: all unsupported ones removed"
        yield at.check(what, items, at.alpha, exact=at.miss_rate, design=topic)


def stopped(at: Setting) -> Iterator[Check]:
    """Show a fresh hallucinated answer to its end: k / (n + 1), at most alpha.

    The score so far is the highest of the sentences so far; it stops where that reaches the
    threshold of whole answers. That this happens exactly where the whole answer is flagged is
    counted as well.
    """
    for design in DESIGNS:
        rng = at.rng(f"sentences, stopped, {design.name}")
        failed, differs = [], []
        for _ in range(at.runs):
            table = design.draw(rng, at.n + 1, at.kind)
            scores, first = table.columns[KEY], table.first
            highest = np.maximum.reduceat(scores, first[:-1])
            threshold = calibrate_threshold(highest[:-1], at.promise()).threshold
            so_far = np.maximum.accumulate(scores[first[-2] :])
            stops = bool((so_far >= threshold).any())
            failed.append(not stops)
            differs.append(stops != bool(highest[-1] >= threshold))
        what = "sentences, stopped while it is written"
        yield at.check(what, failed, at.alpha, exact=at.miss_rate, design=design.name)
        yield at.check("sentences, stop and flag differ", differs, 0.0, design=design.name)


def _failed_by_source(at: Setting, design: Written, rng: np.random.Generator) -> bool:
    """Return whether a fresh answer to a new source keeps an unsupported sentence."""
    effects = rng.standard_normal(at.n + 1)
    # Sources with many answers are the hard ones.
    sizes = 1 + rng.binomial(9, ndtr(-effects))
    sizes[-1] = 1
    source = np.repeat(np.arange(at.n + 1), sizes)
    table = design.draw(rng, len(source), at.kind, loc=effects[source])
    values = table.values(KEY, "flag")
    made = calibrate_clusters(values[:-1], source[:-1], at.promise(clustered=True))
    return bool(_kept_one(table, np.full(len(source), made.threshold), "flag")[-1])


def _failed(at: Setting, design: Written, policy: Undefined) -> NDArray[np.bool_]:
    """Return per run whether a fresh answer keeps an unsupported sentence."""
    rng, k = at.rng(f"sentences, {design.name}, {policy}"), rank(at.n, at.alpha)
    failed = []
    for values, fresh in _values(at, design, rng, policy):
        thresholds = np.partition(values, k - 1, axis=1)[:, k - 1]
        # Without a threshold nothing is shown.
        refused = np.isneginf(thresholds)
        failed.append(_kept_one(fresh, thresholds, policy) & ~refused)
    return np.concatenate(failed)


def _values(
    at: Setting, design: Written, rng: np.random.Generator, policy: Undefined
) -> Iterator[tuple[Floats, SentenceTable]]:
    """Yield the values of n answers of some runs, shape (runs, n), and one fresh answer of each."""
    runs = max(1, _CHUNK // at.n)
    for start in range(0, at.runs, runs):
        part = min(runs, at.runs - start)
        values = design.draw(rng, part * at.n, at.kind).values(KEY, policy)
        lost = -np.inf if policy == "pass" else np.inf
        values = np.where(np.isnan(values), lost, values).reshape(part, at.n)
        yield values, design.draw(rng, part, at.kind)


def _kept_one(table: SentenceTable, thresholds: Floats, policy: Undefined) -> NDArray[np.bool_]:
    """Return which answers show an unsupported sentence at a threshold each."""
    left = table.trim(KEY, thresholds, policy, 0.0)
    shown = ~left.removed & np.repeat(~left.reviewed, np.diff(table.first))
    return table.any(shown & (table.labels == 1))


def threshold_of(design: Written, missed: float) -> float:
    """Return the threshold at which a share of the hallucinated answers is missed."""
    low, high = -50.0, 50.0
    for _ in range(200):
        middle = (low + high) / 2.0
        low, high = (middle, high) if design.missed(middle) < missed else (low, middle)
    return low


#: Share of hallucinated answers that the threshold does not free.
_MISSED: Final = 0.2
#: By so little is a requirement broken.
LITTLE: Final = 1e-9
#: What a requirement asks for that is there to decide nothing.
LOOSE: Final = 0.05
_NEARLY: Final = replace(ALIKE, name="scores of an answer nearly the same (0.95)", shared=0.95)
JUDGED: Final = (UNRELATED, _NEARLY)

Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]


def _either(one: float) -> Draw:
    return lambda rng, shape: (rng.random(shape) < one).astype(np.float64)


def _beta(a: float, b: float) -> Draw:
    return lambda rng, shape: rng.beta(a, b, shape)


def _thirds(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return np.asarray(rng.choice([0.0, 1 / 3, 2 / 3, 1.0], shape, p=[0.02, 0.0, 0.08, 0.9]))


#: Shares in [0, 1] with their means.
SHARES: Final[dict[str, tuple[Draw, float]]] = {
    "1, but for 2 % zeros": (_either(0.98), 0.98),
    "0, but for 2 % ones": (_either(0.02), 0.02),
    "all or nothing": (_either(0.5), 0.5),
    "nearly all or nothing": (_beta(0.1, 0.1), 0.5),
    "mostly near 1": (_beta(2.0, 0.1), 2.0 / 2.1),
    "of three sentences, 90 % whole": (_thirds, 0.9 + 0.08 * 2 / 3),
}


def kept_bound(at: Setting) -> Iterator[Check]:
    """Leave out the mean of skewed shares: at most alpha, half of it a side, and alpha alone."""
    for design, (draw, mean) in SHARES.items():
        rng = at.rng(f"kept bound, {design}")
        under, over, alone = list[bool](), list[bool](), list[bool]()
        for row in draw(rng, (at.runs, at.n)):
            bound = mean_bound(row, 1.0 - at.alpha)
            under.append(mean < bound.lower)
            over.append(mean > bound.upper)
            alone.append(mean < mean_at_least(row, 1.0 - at.alpha))
        what = "trimming, bound of what is kept"
        yield at.check(what, under, at.alpha / 2.0, design=f"{design}: mean below it")
        yield at.check(what, over, at.alpha / 2.0, design=f"{design}: mean above it")
        yield at.check(what, alone, at.alpha, design=f"{design}: mean below the lower end alone")


def wrong_verdicts(at: Setting) -> Iterator[Check]:
    """Give a wrong verdict about a threshold from n fresh answers of each class: at most alpha."""
    for written in JUDGED:
        rng = at.rng(f"trimming, verdicts, {written.name}")
        threshold = threshold_of(written, _MISSED)
        asked = requirements(written, threshold, at.alpha)
        failed: dict[str, list[bool]] = {design: [] for design in asked}
        hallucinated = np.arange(2 * at.n) < at.n
        for _ in range(at.runs):
            table = written.draw(rng, 2 * at.n, at.kind, hallucinated=hallucinated)
            left = table.trim(KEY, np.full(2 * at.n, threshold), "flag", 0.0)
            outcomes = Outcomes.of(table, left)
            freed = int(np.count_nonzero(outcomes.freed[: at.n]))
            touched = int(np.count_nonzero(~outcomes.untouched[at.n :]))
            # The classes in turn, as in the order of a lot.
            rows = np.arange(2 * at.n).reshape(2, at.n).T.ravel()
            counts, kept = ClassCounts(freed, at.n, touched, at.n), outcomes.shares(rows)
            for design, requirement in asked.items():
                said = certify_trimming(counts, kept, requirement).verdict
                failed[design].append(said == wrong_about(design))
        for design, items in failed.items():
            design = f"{design}, {written.name}"
            yield at.check("trimming, wrong verdict", items, at.alpha, design=design)


def requirements(
    written: Written, threshold: float, error: float, missed: float | None = None
) -> dict[str, Requirement]:
    """Return requirements of which a threshold just breaks one, and those that it just meets.

    ``missed`` is the share of answers that it does not free; that of the scores when left out.
    """
    freed = 1.0 - (written.missed(threshold) if missed is None else missed)
    kept, touched = written.kept(threshold), 1.0 - written.untouched(threshold)
    sure, more = 1.0 - error, LITTLE
    return {
        "freed just too low": Requirement(None, freed + more, sure, min_kept=LOOSE),
        "kept just too low": Requirement(None, LOOSE, sure, min_kept=kept + more),
        "touched just too high": Requirement(touched - more, LOOSE, sure, min_kept=LOOSE),
        "all just met": Requirement(touched + more, freed - more, sure, min_kept=kept - more),
    }


def wrong_about(design: str) -> str:
    """Return the verdict that is wrong about one of the ``requirements``."""
    return "rejected" if design == "all just met" else "certified"
