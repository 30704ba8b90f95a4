"""Which risks can be promised, how are they written, and what speaks against a promise?

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
"""

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal, cast

import numpy as np

from calibrail.conformal import validation
from calibrail.conformal.rank import decimal
from calibrail.conformal.validation import Bools, Floats, Ints
from calibrail.errors import CalibrailError, InputError
from calibrail.record import Record

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
#: What MAPIE warns of and the result says.
_KNOWN_WARNINGS: Final = (
    "No predict parameters were found to control the risk",
    "All provided predict_params control the risk",
    "All predictions are either 0 or 1",
)
#: MAPIE holds all decisions of a call at once.
_DECISIONS_AT_ONCE: Final = 10**7
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
            raise InputError(
                f"risk must be one of {', '.join(RISKS)}, as in 'precision>=0.9'; got {self.name!r}"
            )
        if self.relation != RISKS[self.name]:
            raise InputError(
                f"risk {self.name} takes {RISKS[self.name]}, as in "
                f"'{self.name}{RISKS[self.name]}{self.level}'; got {self.relation!r}"
            )
        level = validation.share(self.level, f"the level of {self.name}")
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
    try:
        level = float(number)
    except ValueError as error:
        raise InputError(
            f"risk must end in a number in (0, 1), as in 'precision>=0.9'; got {text!r}"
        ) from error
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


def p_values(positions: Ints, labels: Ints, g: int, risks: tuple[Risk, ...]) -> Floats:
    """Return the p-value of "a promise is broken" at each threshold, arguments as for ``counts``.

    The largest over the risks, by MAPIE's controller; 1 where a risk has no trial.
    """
    library = mapie()
    losses = [
        library.BinaryRisk(*map(_among, _COUNTED[risk.name]), higher_is_better=False)
        for risk in risks
    ]
    blocks = -(-len(positions) * g // _DECISIONS_AT_ONCE)
    by_block = []
    for block in np.array_split(np.arange(1, g + 1), min(g, max(1, blocks))):
        controller = library.BinaryClassificationController(
            # A position over g + 1 serves as a probability; the comparison stays exact.
            lambda x: np.column_stack([1.0 - x / (g + 1), x / (g + 1)]),
            risk=losses,
            target_level=[risk.tolerated for risk in risks],
            best_predict_param_choice=losses[0],
            list_predict_params=block / (g + 1),
            # Its own list of valid thresholds is not used: one NaN would empty it under Holm.
            fwer_method="bonferroni",
        )
        with warnings.catch_warnings():
            for message in _KNOWN_WARNINGS:
                warnings.filterwarnings("ignore", message)
            controller.calibrate(positions, labels)
        by_block.append(np.asarray(controller.p_values, dtype=np.float64)[:, 0])
    p = np.concatenate(by_block)
    return np.where(np.isnan(p), 1.0, p)


def _among(names: Sequence[str]) -> Callable[[Ints, Ints], Bools]:
    """Return the function that says of labels and flags whether a decision is one of these."""
    included = np.array([name in names for name in _DECISIONS])
    return lambda label, flag: included[2 * label + flag]


def mapie() -> Any:
    """Return the module ``mapie.risk_control``: it takes seconds to import and has no types."""
    try:
        return import_module("mapie.risk_control")
    except ImportError as error:
        raise CalibrailError(
            f"controlling several risks needs MAPIE, which cannot be imported ({error}); install "
            "it: pip install 'mapie>=1.4'"
        ) from error
