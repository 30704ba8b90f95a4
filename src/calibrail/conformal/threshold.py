"""Which threshold catches the stated share of hallucinations?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.conformal import validation
from calibrail.conformal.lookup import count_at_most
from calibrail.conformal.pvalues import raised, shares
from calibrail.conformal.rank import minimum_n, rank
from calibrail.errors import InputError, TooFewExamplesError
from calibrail.settings.checks import one_of
from calibrail.settings.promise import Guarantee, Undefined


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """A threshold with its promise and the scores that it came from.

    Attributes
    ----------
    threshold : float
        A response is flagged when ``score + tolerance >= threshold``. ``-inf`` flags everything.
    rank : int
        1-based rank of the threshold among the calibration scores; 0 with ``flag_all``.
    n : int
        Hallucinated calibration examples, those with an undefined score included.
    alpha : float
        Tolerated miss rate.
    guarantee : {"marginal", "pac", "paper"}
        What is promised; see ``calibrail.conformal.rank``.
    delta : float or None
        Error probability of ``pac``.
    scores : ndarray of float64, shape (n - n_undefined,)
        Defined calibration scores, sorted ascending, read-only.
    n_undefined : int
        Calibration examples without a score.
    undefined : {"flag", "review", "pass"}
        How they count: as caught (above every score) or, under ``pass``, as missed (below).
    flag_all : bool
        There were too few examples, and flagging everything was accepted.
    """

    threshold: float
    rank: int
    n: int
    alpha: float
    guarantee: Guarantee
    delta: float | None
    scores: NDArray[np.float64]
    n_undefined: int
    undefined: Undefined
    flag_all: bool = False

    def flags(self, values: ArrayLike, tolerance: float = 0.0) -> NDArray[np.bool_]:
        """Return which responses are not passed; an undefined score (NaN) follows the policy."""
        queries = validation.vector(values, "values")
        nan = np.isnan(queries)
        flagged = flags(queries[~nan], self.threshold, tolerance)
        result = np.full(queries.shape, self.undefined != "pass")
        result[~nan] = flagged
        return result

    def p_value(self, values: ArrayLike, tolerance: float = 0.0) -> NDArray[np.float64]:
        """Return the conformal p-values of defined scores; no NaN is accepted.

        Under ``marginal``, ``p <= alpha`` is exactly the same decision as ``not flags``.
        """
        queries = raised(validation.defined(values, "values"), tolerance)
        below = self.n_undefined if self.undefined == "pass" else 0
        return shares(count_at_most(self.scores, queries), below, self.n)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON holds them; the threshold is null when all is flagged."""
        return {
            "threshold": None if self.flag_all else self.threshold,
            "rank": self.rank,
            "n": self.n,
            "alpha": self.alpha,
            "guarantee": self.guarantee,
            "delta": self.delta,
            "n_undefined": self.n_undefined,
            "undefined": self.undefined,
            "flag_all": self.flag_all,
            "scores": self.scores.tolist(),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Calibration:
        """Rebuild a calibration, and refuse one that contradicts itself.

        Raises
        ------
        InputError
            If a field is missing, or the threshold is not the score that the rank names.
        """
        try:
            again = calibrate(
                np.concatenate(
                    [
                        validation.vector(content["scores"], "scores"),
                        np.full(validation.whole(content["n_undefined"], "n_undefined"), np.nan),
                    ]
                ),
                content["alpha"],
                content["guarantee"],
                0.1 if content["guarantee"] != "pac" else content["delta"],
                undefined=content["undefined"],
                allow_flag_all=content["flag_all"] is True,
            )
            expected = again.to_dict()
            found = {key: content[key] for key in expected}
        except KeyError as error:
            raise InputError(f"the calibration lacks the field {error}") from error
        except TypeError as error:
            raise InputError(f"the calibration is damaged: {error}") from error
        if list(found.pop("scores")) != expected["scores"]:
            raise InputError("scores must be sorted ascending and hold no NaN; calibrate again")
        for key, value in found.items():
            if value != expected[key]:
                raise InputError(
                    f"the calibration contradicts itself: its scores give {key} = {expected[key]}, "
                    f"it says {value}; calibrate again"
                )
        return again


def calibrate(
    scores: ArrayLike,
    alpha: float,
    guarantee: Guarantee = "marginal",
    delta: float = 0.1,
    undefined: Undefined = "flag",
    allow_flag_all: bool = False,
) -> Calibration:
    """Find the highest threshold that keeps the promise, from hallucinated examples alone.

    Parameters
    ----------
    scores : array-like of float, shape (n,)
        Scores of hallucinated calibration examples, higher = more likely hallucinated; NaN where
        undefined.
    alpha : float
        Tolerated miss rate, in (0, 1).
    guarantee : {"marginal", "pac", "paper"}
        The promise; see ``calibrail.conformal.rank``.
    delta : float
        Error probability of ``pac``.
    undefined : {"flag", "review", "pass"}
        What a guardrail does with an undefined score.
    allow_flag_all : bool
        Return a threshold of ``-inf`` where no other keeps the promise, instead of raising.

    Raises
    ------
    TooFewExamplesError
        If there are too few examples for any threshold; names the minimum.
    InputError
        If an argument is outside its domain, or so many scores are undefined that the threshold
        would be one of them.

    Examples
    --------
    >>> calibration = calibrate([0.2, 0.9, 0.4, 0.7], alpha=0.4)
    >>> calibration.rank, calibration.threshold
    (2, 0.4)
    >>> calibration.flags([0.3, 0.4]).tolist()
    [False, True]
    """
    one_of(undefined, Undefined, "undefined")
    # NaN sorts to the end, so the checks need no further pass over the array.
    ordered = np.sort(validation.vector(scores, "scores"))
    n = len(ordered)
    defined = ordered[: int(np.searchsorted(ordered, np.nan))]
    if len(defined) and (math.isinf(defined[0]) or math.isinf(defined[-1])):
        raise InputError("scores must be finite, NaN where undefined; got an infinite score")
    n_undefined = n - len(defined)
    k = rank(n, alpha, guarantee, delta)
    if k == 0 and not allow_flag_all:
        raise _too_few(n, alpha, guarantee, delta)
    if k == 0 and undefined == "pass":
        raise InputError(
            "undefined must be 'flag' or 'review' where everything is flagged for lack of "
            "examples; got 'pass', which would let undefined scores through"
        )
    defined.flags.writeable = False
    return Calibration(
        threshold=-math.inf if k == 0 else at_rank(defined, k, n_undefined, undefined),
        rank=k,
        n=n,
        alpha=float(alpha),
        guarantee=guarantee,
        delta=float(delta) if guarantee == "pac" else None,
        scores=defined,
        n_undefined=n_undefined,
        undefined=undefined,
        flag_all=k == 0,
    )


def flags(values: ArrayLike, threshold: float, tolerance: float = 0.0) -> NDArray[np.bool_]:
    """Return ``values + tolerance >= threshold``.

    Parameters
    ----------
    values : array-like of float, shape (n,)
        Scores, higher = more likely hallucinated; no NaN.
    threshold : float
        Flagged at or above it; ``-inf`` flags everything.
    tolerance : float
        Near-ties this far below the threshold are flagged too.
    """
    queries = validation.defined(values, "values")
    edge = validation.number(threshold, "threshold")
    if math.isnan(edge):
        raise InputError("threshold must be a number; got nan")
    result: NDArray[np.bool_] = raised(queries, tolerance) >= edge
    return result


def at_rank(defined: NDArray[np.float64], k: int, n_undefined: int, undefined: Undefined) -> float:
    """Return the k-th smallest score, undefined ones included at the end where they count."""
    position = k - 1 - (n_undefined if undefined == "pass" else 0)
    if 0 <= position < len(defined):
        return float(defined[position])
    total = len(defined) + n_undefined
    if undefined == "pass":
        raise InputError(
            f"scores: {n_undefined} of {total} are undefined and would be passed, more than alpha "
            "allows to miss; use undefined='flag', or a score that is defined more often"
        )
    raise InputError(
        f"scores: {n_undefined} of {total} are undefined, so the threshold would be one of them; "
        "use a score that is defined more often"
    )


def _too_few(n: int, alpha: float, guarantee: Guarantee, delta: float) -> TooFewExamplesError:
    least = minimum_n(alpha, guarantee, delta)
    at = f"alpha = {alpha:g}" + (f", delta = {delta:g}" if guarantee == "pac" else "")
    return TooFewExamplesError(
        f"{n} hallucinated calibration examples are too few for the {guarantee} guarantee at {at}: "
        f"at least {least} are needed. Label {least - n} more, raise alpha, give calibration a "
        "larger share, or allow flagging everything (--allow-flag-all)",
        least,
    )
