"""Risk specs and multi-risk control.

Every risk is a share ``wrong / trials`` that must not exceed a tolerated share:

=========== ======== =============================== ==================== =====================
name        relation the user's number               wrong                trials
=========== ======== =============================== ==================== =====================
precision   >=       P(hallucinated | flagged)       faithful and flagged flagged
recall      >=       P(flagged | hallucinated),      hallucinated and     hallucinated
                     the coverage                    not flagged
accuracy    >=       P(flagged iff hallucinated)     either error         all
fpr         <=       P(flagged | faithful)           faithful and flagged faithful
abstention  <=       P(flagged), the share of        flagged              all
                     answers that is not released
=========== ======== =============================== ==================== =====================

The p-value of "the promise is broken", for k wrong of n trials at a threshold fixed beforehand and
a tolerated share a, is P(Binomial(n, a) <= k). MAPIE computes it here as the smaller of Hoeffding's
exp(-n h(min(k/n, a), a)), with h(r, a) = r log(r/a) + (1-r) log((1-r)/(1-a)), and the binomial tail
at ceil(n * (k/n)) (Angelopoulos et al., 2021, section 3.2, for binary losses). The first is never
below the tail at k (Chernoff's bound), so the result is the exact tail or, where the floating
product rounds up past k, a more cautious number. Given as 1 - performance, as in MAPIE's named
risks, a fifth of all pairs (k, n) lose one example to that rounding; given as a share of wrong
decisions, as here, one pair in 25.

The number of trials may be random, as that of the flagged is for precision: given that number the
trials are independent draws, so the p-value is valid conditionally and hence overall. Without any
trial MAPIE returns NaN; here p = 1.

Learn then Test (Angelopoulos, Bates, Candes, Jordan and Lei, 2021, arXiv 2110.01052): each
candidate threshold is tested against "it breaks a promise", and the tests' errors are controlled
together. With probability at least ``confidence`` over the labelled data, EVERY threshold that is
called valid keeps EVERY promise, so the choice among them is free. The examples must be independent
draws from the population the promises are about: one per question where several share one.

Several promises. Each has its p-value (``Risk``). Some promise is broken unless all hold, so
the largest of them is a p-value of "a promise is broken" (intersection-union), at no correction.

Several candidates. Their p-values are valid for candidates that were fixed before the examples that
test them were seen. For quantiles of those examples' own scores this is not guaranteed: the
threshold is then itself one of the flagged examples, and how many are flagged is no longer random.
So one of

- the caller gives ``candidates``, from other data or from the scale of the score; or
- a seeded share of the examples chooses them, and the rest, untouched, tests; or
- all promises are about recall, fpr and abstention, which only rise or only fall with the
  threshold (``monotone``). Then any candidates will do, and no correction for their number is
  needed: a wrong acceptance at any threshold that breaks, say, the fpr promise means that at the
  one limit of those thresholds, which is fixed, no more alarms were seen, an event of probability
  at most its level. There is one such limit for recall and one for fpr and abstention together, so
  each is tested at (1 - confidence) / 2, or at 1 - confidence where there is only one of them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from operator import itemgetter
from typing import Any, Final, Literal, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr

from calibrail.conformal import argument_checks
from calibrail.conformal.argument_checks import Bools, Floats, Ints
from calibrail.conformal.threshold import decimal
from calibrail.errors import InputError, error_text, errors_as, extra
from calibrail.options.fields import one_of
from calibrail.options.guarantee import Undefined
from calibrail.serialization import Record

Relation = Literal[">=", "<="]
#: The relation that each name has.
RISKS: Final[dict[str, Relation]] = {
    "precision": ">=",
    "recall": ">=",
    "accuracy": ">=",
    "fpr": "<=",
    "abstention": "<=",
}
#: What a decision can be, at the place 2 * label + flag.
_DECISIONS: Final = ("passed", "alarms", "missed", "caught")
#: Which decisions are wrong, and which are trials.
_COUNTED: Final[dict[str, tuple[Sequence[str], Sequence[str]]]] = {
    "precision": (("alarms",), ("alarms", "caught")),
    "recall": (("missed",), ("missed", "caught")),
    "accuracy": (("alarms", "missed"), _DECISIONS),
    "fpr": (("alarms",), ("passed", "alarms")),
    "abstention": (("alarms", "caught"), _DECISIONS),
}
_FORM: Final = re.compile(r"\s*(\w+)\s*([<>=]+)\s*(\S+)\s*")


@dataclass(frozen=True, slots=True)
class Risk(Record):
    """One promise about a threshold, e.g. precision >= 0.9.

    Attributes
    ----------
    name : {"precision", "recall", "accuracy", "fpr", "abstention"}
        What is promised; flagged is the positive decision, hallucinated the positive class.
    relation : {">=", "<="}
        Fixed by the name.
    level : float
        In (0, 1).

    Raises
    ------
    InputError
        If the name is unknown, the relation is not the name's own, or the level is not in (0, 1).
    """

    name: str
    relation: Relation
    level: float

    def __post_init__(self) -> None:
        if self.name not in RISKS:
            raise InputError.on("risk_name", names=", ".join(RISKS), name=self.name)
        if self.relation != RISKS[self.name]:
            raise InputError.on("risk_relation", risk=self, relation=RISKS[self.name])
        level = argument_checks.share(self.level, f"the level of {self.name}")
        object.__setattr__(self, "level", level)

    @property
    def tolerated(self) -> float:
        """The largest share ``wrong / trials`` that keeps the promise."""
        return float(1 - decimal(self.level)) if self.relation == ">=" else self.level

    def value(self, wrong: int, trials: int) -> float | None:
        """Return the user's number, None without a trial."""
        if not trials:
            return None
        return (trials - wrong if self.relation == ">=" else wrong) / trials

    def counts(self, caught: Ints, alarms: Ints, n: tuple[int, int]) -> tuple[Ints, Ints]:
        """Return the wrong decisions and the trials at each threshold, unchecked.

        Parameters
        ----------
        caught, alarms : ndarray of int64, shape (g,)
            Flagged among hallucinated and among faithful examples, one entry a threshold.
        n : (int, int)
            Hallucinated and faithful examples.

        Examples
        --------
        >>> wrong, trials = parse_risk("precision>=0.9").counts(
        ...     np.array([8, 5]), np.array([2, 0]), (10, 20)
        ... )
        >>> wrong.tolist(), trials.tolist()
        ([2, 0], [10, 5])
        """
        numbers = dict(zip(_DECISIONS, (n[1] - alarms, alarms, n[0] - caught, caught), strict=True))
        wrong, trials = (np.sum([numbers[x] for x in names], 0) for names in _COUNTED[self.name])
        return wrong, trials

    def __str__(self) -> str:
        """Return the form that ``parse_risk`` reads."""
        return f"{self.name}{self.relation}{self.level!r}"


def parse_risk(text: str) -> Risk:
    """Read a risk such as ``precision>=0.9``; spaces are allowed.

    Parameters
    ----------
    text : str
        A name, its relation and a level in (0, 1).

    Raises
    ------
    InputError
        If the text is not of this form; the message shows the right one.

    Examples
    --------
    >>> parse_risk("recall >= 0.8")
    Risk(name='recall', relation='>=', level=0.8)
    >>> parse_risk("fpr>=0.2")
    Traceback (most recent call last):
    calibrail.errors.InputError: risk fpr takes <=, as in 'fpr<=0.2'; got '>='
    """
    match = _FORM.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InputError(f"risk must read like 'precision>=0.9' or 'fpr<=0.2'; got {text!r}")
    name, relation, number = match.groups()
    with errors_as(InputError, ValueError, "risk_level", text=text):
        level = float(number)
    # Risk refuses a relation that is not the name's own.
    return Risk(name, cast(Relation, relation), level)


def parse_risks(risks: Iterable[str | Risk]) -> tuple[Risk, ...]:
    """Read several risks; each name at most once, at least one in all.

    Examples
    --------
    >>> [str(risk) for risk in parse_risks(["precision>=0.9", "recall>=0.8"])]
    ['precision>=0.9', 'recall>=0.8']
    """
    given = [risks] if isinstance(risks, str | Risk) else list(risks)
    parsed = tuple(item if isinstance(item, Risk) else parse_risk(item) for item in given)
    if not parsed:
        raise InputError("risks must name at least one, as in 'precision>=0.9'; got none")
    names = [risk.name for risk in parsed]
    for name in RISKS:
        if names.count(name) > 1:
            twice = " and ".join(f"'{risk}'" for risk in parsed if risk.name == name)
            raise InputError(f"risks must name {name} once; got {twice}")
    return parsed


def counts(positions: Ints, labels: Ints, g: int, risks: tuple[Risk, ...]) -> tuple[Ints, Ints]:
    """Return wrong decisions and trials, each of shape (risks, g), unchecked.

    Parameters
    ----------
    positions : ndarray of int64, shape (n,)
        How many of g ascending thresholds are at most the score: flagged by the first so many.
    labels : ndarray of int64, shape (n,)
        1 = hallucinated, 0 = faithful.
    """
    caught, alarms = (
        np.cumsum(np.bincount(positions[labels == label], minlength=g + 1)[::-1])[-2::-1]
        for label in (1, 0)
    )
    n = int((labels == 1).sum()), int((labels == 0).sum())
    pairs = [risk.counts(caught, alarms, n) for risk in risks]
    return np.array([wrong for wrong, _ in pairs]), np.array([trials for _, trials in pairs])


def p_values(wrong: Ints, trials: Ints, risks: tuple[Risk, ...]) -> Floats:
    """Return the p-value of "a promise is broken" at each threshold, from ``counts``.

    The largest over the risks, each by MAPIE; 1 where a risk has no trial.
    """
    of_risk = mapie().methods.compute_hoeffding_bentkus_p_value
    each = zip(risks, wrong, np.maximum(trials, 1), strict=True)
    by_risk = [of_risk(k / m, m, it.tolerated, binary=True)[:, 0] for it, k, m in each]
    return np.asarray(np.where(trials > 0, by_risk, 1.0).max(axis=0))


def mapie() -> Any:
    """Return the module ``mapie.risk_control``: it takes seconds to import and has no types."""
    with extra("risks", "control of several risks"):
        return import_module("mapie.risk_control")


Method = Literal["monotone", "split_fixed_sequence", "bonferroni_holm", "bonferroni"]

_MONOTONE: Final = {"recall", "fpr", "abstention"}


@dataclass(frozen=True, slots=True)
class RiskControl(Record):
    """Candidate thresholds with what is known of each: plain numbers.

    Attributes
    ----------
    risks : tuple of Risk
        The promises.
    confidence : float
        That all valid thresholds keep all promises.
    method : {"monotone", "split_fixed_sequence", "bonferroni_holm", "bonferroni"}
        How the tests' errors were controlled together.
    candidates : tuple of float, length g
        Thresholds on the scale of the scores, ascending; flagged when ``score >= threshold``.
    p_values : tuple of float, length g
        Of "this candidate breaks a promise": the largest over the promises.
    valid : tuple of bool, length g
        Which candidates keep all promises.
    values : tuple of tuple of float or None, one of length g for each risk
        The risks seen on the testing examples; None without a trial.
    threshold : float or None
        The chosen one of the valid candidates; None where there is none.
    rule : str
        How it is chosen.
    reason : str or None
        Why no candidate is valid, in words; None where one is.
    n_hallucinated, n_faithful : int
        Testing examples, those with an undefined score included.
    n_learn : int
        Examples that chose the candidates or their order and took no part in the tests.
    n_undefined : int
        Testing examples with an undefined score.
    n_empty : int
        Candidates at which a risk has no trial, e.g. precision where nothing is flagged: p = 1.
    undefined : {"flag", "review", "pass"}
        Undefined scores are always flagged or, under ``pass``, never.
    seed : int
        Of the split.
    """

    risks: tuple[Risk, ...]
    confidence: float
    method: Method
    candidates: tuple[float, ...]
    p_values: tuple[float, ...]
    valid: tuple[bool, ...]
    values: tuple[tuple[float | None, ...], ...]
    threshold: float | None
    rule: str
    reason: str | None
    n_hallucinated: int
    n_faithful: int
    n_learn: int
    n_undefined: int
    n_empty: int
    undefined: Undefined
    seed: int

    @property
    def attained(self) -> dict[str, float | None]:
        """The risks seen at the chosen threshold; empty where there is none."""
        if self.threshold is None:
            return {}
        at = self.candidates.index(self.threshold)
        return {risk.name: row[at] for risk, row in zip(self.risks, self.values, strict=True)}

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able; ``values`` by the name of the risk."""
        names = [risk.name for risk in self.risks]
        values = {name: list(row) for name, row in zip(names, self.values, strict=True)}
        return {**Record.to_dict(self), "values": values, "attained": self.attained}


@dataclass(frozen=True, slots=True, eq=False)
class CandidateSearch:
    """Which thresholds are tried for the promises, and how their tests' errors are controlled.

    Attributes
    ----------
    grid : int
        How many quantiles of the scores are candidates, at most.
    method : {"auto", "monotone", "split_fixed_sequence", "bonferroni_holm", "bonferroni"}
        ``split_fixed_sequence`` tests in the order in which the learning share finds the candidates
        convincing, each at 1 - confidence, until one fails. ``auto`` is ``monotone`` where the
        risks allow it, else ``bonferroni_holm`` where ``candidates`` are given (all examples test),
        else ``split_fixed_sequence``, whose power was the highest in simulations.
    candidates : array-like of float, shape (g,), optional
        Thresholds that were fixed without these examples. By default a share of them chooses.
    learn_share : float
        Share of the examples, drawn by ``seed``, that chooses the candidates and their order.
    seed : int
        Of that draw.
    """

    grid: int = 100
    method: Method | Literal["auto"] = "auto"
    candidates: ArrayLike | None = None
    learn_share: float = 0.2
    seed: int = 0


def control_risks(
    scores: ArrayLike,
    labels: ArrayLike,
    risks: Iterable[str | Risk],
    confidence: float = 0.9,
    undefined: Undefined = "flag",
    *,
    groups: ArrayLike | None = None,
    search: CandidateSearch | None = None,
) -> RiskControl:
    """Find the thresholds that keep all promises, and choose one.

    Parameters
    ----------
    scores : array-like of float, shape (n,)
        Higher = more likely hallucinated; NaN where undefined.
    labels : array-like of int, shape (n,)
        1 = hallucinated, 0 = faithful.
    risks : iterable of str or Risk
        Such as ``["precision>=0.9", "recall>=0.8"]``; see ``parse_risk``.
    confidence : float
        Of all promises at all valid thresholds together, in (0, 1).
    undefined : {"flag", "review", "pass"}
        What happens to answers without a score: reviewed ones count as flagged.
    groups : array-like of int, shape (n,), optional
        What examples share; the draw keeps groups whole, so that no answer is tested on candidates
        that an alike one chose. The tests still take the examples as independent.
    search : CandidateSearch, optional
        Which thresholds are tried, and how their errors are controlled.

    Raises
    ------
    InputError
        If an argument is outside its domain, a score is infinite, or a class has no example.
    CalibrailError
        If MAPIE is not installed.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([1, 0], 1000)
    >>> scores = rng.normal(labels * 3.0)
    >>> control = control_risks(scores, labels, ["precision>=0.85", "recall>=0.85"])
    >>> control.method, sum(control.valid), round(control.threshold, 2)
    ('split_fixed_sequence', 12, 1.78)
    >>> {name: round(share, 2) for name, share in control.attained.items()}
    {'precision': 0.97, 'recall': 0.9}
    """
    promised, search = parse_risks(risks), search or CandidateSearch()
    level = argument_checks.share(confidence, "confidence")
    delta = float(1 - decimal(level))
    values, truth = _examples(scores, labels)
    one_of(undefined, Undefined, "undefined")
    given = search.candidates is not None
    method = _method(search.method, promised, given)
    learns = method == "split_fixed_sequence" or not (given or method == "monotone")
    learn = _learn(groups, len(values), search, draws=learns)
    thresholds = _candidates(values[learn] if learns else values, search)
    g = len(thresholds)
    # Flagged by the j-th candidate means: at least j candidates are at most the score. Exact for
    # ties and any scale, and a position is what MAPIE takes for a probability.
    positions = np.searchsorted(thresholds, values, side="right")
    positions[np.isnan(values)] = 0 if undefined == "pass" else g
    wrong, trials = counts(positions[~learn], truth[~learn], g, promised)
    p = ranked_by = p_values(wrong, trials, promised)
    if learns:
        ranked_by = p_values(*counts(positions[learn], truth[learn], g, promised), promised)
    order = np.argsort(ranked_by, kind="stable")
    valid, first_level = _valid(p, order, method, delta, promised)
    reason = None
    if not valid.any():
        at = int(order[0] if method == "split_fixed_sequence" else np.argmin(p))
        observed = list(zip(promised, wrong[:, at].tolist(), trials[:, at].tolist(), strict=True))
        reason = _reason(observed, first_level)
    highest = any(risk.name == "recall" for risk in promised)
    accepted = thresholds[valid]
    return RiskControl(
        risks=promised,
        confidence=level,
        method=method,
        candidates=tuple(thresholds.tolist()),
        p_values=tuple(p.tolist()),
        valid=tuple(valid.tolist()),
        values=tuple(
            tuple(map(risk.value, ks, ms))
            for risk, ks, ms in zip(promised, wrong.tolist(), trials.tolist(), strict=True)
        ),
        threshold=float(accepted[-1 if highest else 0]) if len(accepted) else None,
        rule=error_text("highest_valid") if highest else error_text("lowest_valid"),
        reason=reason,
        n_hallucinated=int(truth[~learn].sum()),
        n_faithful=int((1 - truth[~learn]).sum()),
        n_learn=int(learn.sum()),
        n_undefined=int(np.isnan(values[~learn]).sum()),
        n_empty=int((trials == 0).any(axis=0).sum()),
        undefined=undefined,
        seed=int(search.seed),
    )


def _learn(groups: ArrayLike | None, n: int, search: CandidateSearch, *, draws: bool) -> Bools:
    """Return who chooses: whole groups until about the share of the examples is reached."""
    share = argument_checks.share(search.learn_share, "learn_share")
    seed = argument_checks.whole(search.seed, "seed")
    if not draws:
        return np.zeros(n, dtype=bool)
    codes = np.arange(n) if groups is None else np.asarray(groups)
    if codes.shape != (n,):
        raise InputError(f"groups must have {n} entries, one per score; got shape {codes.shape}")
    _, numbers, sizes = np.unique(codes, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(sizes))
    enough = np.searchsorted(np.cumsum(sizes[order]), max(1, round(share * n)))
    return np.isin(numbers, order[: int(enough) + 1])


def _valid(
    p: Floats, order: NDArray[np.intp], method: Method, delta: float, risks: tuple[Risk, ...]
) -> tuple[Bools, float]:
    """Return which candidates are valid, and the level of the first test."""
    if method == "monotone":
        level = delta / len({risk.name == "recall" for risk in risks})
        return p <= level, level
    ordered = method == "split_fixed_sequence"
    sequence = order if ordered else np.arange(len(p))
    rejected = mapie().control_fwer(p[sequence], delta, "fixed_sequence" if ordered else method)
    valid = np.zeros(len(p), dtype=bool)
    valid[sequence[rejected]] = True
    return valid, delta if ordered else delta / len(p)


def _reason(observed: list[tuple[Risk, int, int]], level: float) -> str:
    """Say which promise stands in the way at the most promising candidate."""
    seen = [(bdtr(k, m, risk.tolerated) if m else 1.0, risk, k, m) for risk, k, m in observed]
    p, risk, k, m = max(seen, key=itemgetter(0))
    start = "no threshold is shown to keep all promises; at the most promising one "
    if not m:
        return f"{start}{risk.name} is undefined: no answer counts for it"
    good = m - k if risk.relation == ">=" else k
    start += f"{risk.name} is {good / m:.4g} ({good} of {m}), which "
    if k / m > risk.tolerated:
        return f"{start}breaks {risk}"
    return start + error_text("kept_by_chance", risk=risk, p=p, level=level)


def _method(method: str, risks: tuple[Risk, ...], given: bool) -> Method:
    others = [risk.name for risk in risks if risk.name not in _MONOTONE]
    one_of(method, ("auto", *get_args(Method)), "method")
    if method == "auto":
        if not others:
            return "monotone"
        return "bonferroni_holm" if given else "split_fixed_sequence"
    if method == "monotone" and others:
        raise InputError.on("monotone_risks", names=", ".join(others))
    return cast(Method, method)


def _examples(scores: ArrayLike, labels: ArrayLike) -> tuple[Floats, Ints]:
    values, truth = argument_checks.scores(scores), argument_checks.vector(labels, "labels")
    if len(values) != len(truth):
        raise InputError.on("one_length", n=len(values), n_2=len(truth))
    strange = truth[(truth != 0) & (truth != 1)]
    if len(strange):
        raise InputError(f"labels must be 1 (hallucinated) or 0 (faithful); got {strange[0]:g}")
    for label, name in ((1, "hallucinated"), (0, "faithful")):
        if not (truth == label).any():
            raise InputError(f"labels must hold both classes; got no {name} answer ({label})")
    return values, truth.astype(np.int64)


def _candidates(values: Floats, search: CandidateSearch) -> Floats:
    """Return the thresholds given, or at most ``grid`` of the scores, evenly spaced in rank."""
    if search.candidates is not None:
        thresholds = np.unique(argument_checks.defined(search.candidates, "candidates"))
        if not len(thresholds) or not np.isfinite(thresholds).all():
            raise InputError("candidates must hold at least one threshold, all finite")
        return thresholds
    size = argument_checks.whole(search.grid, "grid", least=1)
    defined = np.sort(values[~np.isnan(values)])
    if not len(defined):
        raise InputError.on("candidates_undefined", n=len(values))
    ranks = np.unique(np.linspace(0, len(defined) - 1, min(size, len(defined))).round().astype(int))
    return np.unique(defined[ranks])
