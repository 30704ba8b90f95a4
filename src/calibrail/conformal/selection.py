"""Which answers of a batch can be released, and how many hallucinations may be among them?"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import validation
from calibrail.conformal.rank import decimal
from calibrail.conformal.validation import Bools, Floats


@dataclass(frozen=True, slots=True)
class Selection:
    """A batch with what may be released of it.

    Attributes
    ----------
    released : ndarray of bool, shape (m,)
        Which answers may be released.
    p_values : ndarray of float64, shape (m,)
        Conformal p-values of "this answer is hallucinated"; 1 where a score is undefined.
    fdr : float
        The bound q: the expected share of hallucinated answers among the released ones is at most
        q times the share of hallucinated answers in the batch.
    cutoff : float
        Released are the p-values up to it; 0 where none is.
    """

    released: Bools
    p_values: Floats
    fdr: float
    cutoff: float

    @property
    def n_released(self) -> int:
        """How many answers are released."""
        return int(np.count_nonzero(self.released))

    def to_dict(self) -> dict[str, Any]:
        """Return the result, JSON-able."""
        return {
            "n": len(self.released),
            "n_released": self.n_released,
            "fdr": self.fdr,
            "cutoff": self.cutoff,
            "released": self.released.tolist(),
            "p_values": self.p_values.tolist(),
        }


def conformal_selection(p_values: ArrayLike, fdr: float) -> Selection:
    """Release answers of a batch with the false discovery rate under control.

    Benjamini and Hochberg's (1995) step-up procedure on conformal p-values. Such p-values share one
    calibration set and so depend on each other, but positively (PRDS), and the procedure stays
    valid (Bates, Candes, Lei, Romano and Sesia, 2023, Annals of Statistics 51(1)): over calibration
    sets and batches, E[hallucinated among released / released] <= fdr * (hallucinated / all in the
    batch). An empty release counts as 0.

    Parameters
    ----------
    p_values : array-like of float, shape (m,)
        In [0, 1], e.g. from ``Calibration.p_value``; NaN where a score is undefined: such an answer
        is not released.
    fdr : float
        In (0, 1).

    Returns
    -------
    Selection

    Raises
    ------
    InputError
        If an argument is outside its domain.

    Examples
    --------
    >>> conformal_selection([0.01, 0.04, 0.02, 0.5, 0.9], fdr=0.1).released.tolist()
    [True, True, True, False, False]
    >>> conformal_selection([0.2, 0.3], fdr=0.1).n_released
    0
    """
    q = validation.share(fdr, "fdr")
    p = validation.p_values(p_values, zero=True)
    ordered, m = np.sort(p), len(p)
    # A quotient of counts equals its limit in decimal arithmetic more often than in binary.
    limits = q * np.arange(1, m + 1) / max(1, m) * (1.0 + 1e-12)
    below = np.flatnonzero(ordered <= limits)
    cutoff = float(ordered[below[-1]]) if len(below) else 0.0
    released = p <= cutoff if len(below) else np.zeros(m, dtype=bool)
    p.flags.writeable = False
    released.flags.writeable = False
    return Selection(released, p, q, cutoff)


def minimum_n_for_selection(fdr: float, m: int) -> int:
    """Return how many calibration examples are needed to release anything of a batch of m.

    The smallest p-value is 1 / (n + 1). All m answers having it would be released if it is at most
    ``fdr``, so n >= 1 / fdr - 1; a single answer among m needs n >= m / fdr - 1.

    Parameters
    ----------
    fdr : float
        In (0, 1).
    m : int
        1 for the least n with which a whole batch could be released; the size of the batch for the
        n from which a single answer can be.

    Examples
    --------
    >>> minimum_n_for_selection(0.1, 1), minimum_n_for_selection(0.1, 50)
    (9, 499)
    """
    size = validation.whole(m, "m", least=1)
    needed = size / decimal(validation.share(fdr, "fdr")) - 1
    return max(1, -int(-needed // 1))
