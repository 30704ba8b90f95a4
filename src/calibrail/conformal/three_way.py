"""Where do answers pass, where are they flagged, and what must a person look at?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.conformal import validation
from calibrail.conformal.rank import minimum_n
from calibrail.conformal.threshold import Calibration, calibrate
from calibrail.errors import InputError, TooFewExamplesError
from calibrail.settings.promise import Guarantee, Undefined

Decision = Literal["pass", "review", "flag"]
#: Decisions by code, in the order of rising scores.
DECISIONS: Final[tuple[Decision, ...]] = ("pass", "review", "flag")


@dataclass(frozen=True, slots=True, eq=False)
class ThreeWay:
    """Two thresholds, with a promise each.

    Attributes
    ----------
    lower : Calibration
        From hallucinated examples: an answer passes below its threshold. P(pass | hallucinated) is
        at most its alpha.
    upper : Calibration
        From the NEGATED scores of faithful examples: an answer is flagged above minus its
        threshold. P(flag | faithful) is at most its alpha, which is called beta.
    """

    lower: Calibration
    upper: Calibration

    @property
    def pass_below(self) -> float:
        """Answers with a score below it pass."""
        return self.lower.threshold

    @property
    def flag_above(self) -> float:
        """Answers with a score above it are flagged; those between the two are reviewed."""
        return max(-self.upper.threshold, self.pass_below)

    @property
    def needs_review(self) -> bool:
        """Whether any score lies between the two; if not, one threshold keeps both promises."""
        return -self.upper.threshold >= self.pass_below

    def decide(self, values: ArrayLike, tolerance: float = 0.0) -> NDArray[np.int8]:
        """Return 0 = pass, 1 = review, 2 = flag for each score.

        A score within ``tolerance`` of a threshold is not passed, and not flagged either: a near
        tie goes the way that keeps both promises. NaN follows the policy for undefined scores.

        Parameters
        ----------
        values : array-like of float, shape (m,)
            Higher = more likely hallucinated.
        tolerance : float
            Numerical tolerance of the score.
        """
        queries = validation.vector(values, "values")
        nan = np.isnan(queries)
        passes = ~self.lower.flags(np.where(nan, 0.0, queries), tolerance)
        # Negated, the highest scores are the lowest: what "passes" there is flagged here.
        flagged = ~self.upper.flags(-np.where(nan, 0.0, queries), tolerance)
        codes = np.where(passes, 0, np.where(flagged, 2, 1)).astype(np.int8)
        codes[nan] = DECISIONS.index(self.lower.undefined)
        return codes

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able."""
        return {"lower": self.lower.to_dict(), "upper": self.upper.to_dict()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> ThreeWay:
        """Rebuild it; both calibrations are checked against their own scores."""
        try:
            lower, upper = content["lower"], content["upper"]
        except (KeyError, TypeError) as error:
            raise InputError(f"the three-way calibration lacks the field {error}") from error
        return cls(Calibration.from_dict(lower), Calibration.from_dict(upper))


def three_way(
    hallucinated: ArrayLike,
    faithful: ArrayLike,
    alpha: float,
    beta: float,
    guarantee: Guarantee = "marginal",
    delta: float = 0.1,
    undefined: Undefined = "review",
) -> ThreeWay:
    """Find both thresholds: few hallucinations pass, few faithful answers are flagged.

    Each side is the one-sided promise of ``calibrate`` on its own class, so each holds whatever the
    detector: a poor one sends more to review. Under ``pac`` each side errs with ``delta``.

    Parameters
    ----------
    hallucinated, faithful : array-like of float, shapes (n,) and (m,)
        Calibration scores of both classes, higher = more likely hallucinated; NaN where undefined.
    alpha : float
        Tolerated share of hallucinations that pass, in (0, 1).
    beta : float
        Tolerated share of faithful answers that are flagged, in (0, 1).
    guarantee, delta
        As for ``calibrate``.
    undefined : {"flag", "review", "pass"}
        What happens to answers without a score.

    Raises
    ------
    TooFewExamplesError
        If a class has too few examples for its promise.
    InputError
        If an argument is outside its domain.

    Examples
    --------
    >>> both = three_way(range(40, 140), range(0, 100), alpha=0.1, beta=0.1)
    >>> both.pass_below, both.flag_above
    (49.0, 90.0)
    >>> [DECISIONS[code] for code in both.decide([48, 49, 90, 91])]
    ['pass', 'review', 'review', 'flag']
    """
    scores = _scores(hallucinated, "hallucinated")
    lower = calibrate(scores, alpha, guarantee, delta, undefined)
    return ThreeWay(lower, upper_calibration(faithful, beta, guarantee, delta, undefined))


def upper_calibration(
    faithful: ArrayLike,
    beta: float,
    guarantee: Guarantee = "marginal",
    delta: float = 0.1,
    undefined: Undefined = "review",
) -> Calibration:
    """Return the ``upper`` of a ``ThreeWay``, from faithful calibration scores."""
    share = validation.share(beta, "beta")
    negated = -_scores(faithful, "faithful")
    least = minimum_n(share, guarantee, delta)
    if len(negated) < least:
        raise TooFewExamplesError(
            f"{len(negated)} faithful calibration examples are too few for the {guarantee} "
            f"guarantee at beta = {share:g}: at least {least} are needed. Label "
            f"{least - len(negated)} more, or raise beta",
            least,
        )
    # For the promise about flags, an undefined score counts against it only where it is flagged.
    mirrored: Undefined = "pass" if undefined == "flag" else "flag"
    return calibrate(negated, share, guarantee, delta, mirrored)


def _scores(scores: ArrayLike, name: str) -> NDArray[np.float64]:
    values = validation.vector(scores, name)
    if np.isinf(values).any():
        raise InputError(f"{name} must be finite, NaN where undefined; got an infinite score")
    return values


def least_withheld(base_rate: float, share: float) -> float:
    """Return the least share of answers that ANY detector must withhold from release.

    To release answers of which at most ``share`` are hallucinated, when ``base_rate`` of all
    answers are: even a detector that withholds hallucinations alone must withhold (base_rate -
    share) / (1 - share) of all answers.

    Parameters
    ----------
    base_rate : float
        Share of hallucinated answers, in [0, 1].
    share : float
        Tolerated share of hallucinated answers among the released, in (0, 1).

    Examples
    --------
    >>> round(least_withheld(0.3, 0.05), 3)
    0.263
    >>> least_withheld(0.03, 0.05)
    0.0
    """
    rate, allowed = validation.rate(base_rate, "base_rate"), validation.share(share, "share")
    return max(0.0, (rate - allowed) / (1.0 - allowed))
