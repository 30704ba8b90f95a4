"""How many false alarms does a score cost at a fixed rank of the hallucinated scores?

A threshold at rank r of m hallucinated scores misses r - 1 of them, whatever the scale of the
score: the rank is what makes thresholds of different detectors comparable. When data is drawn
again, both change: the threshold that stands at that rank, and the faithful answers that it flags.
"""

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Counts = NDArray[np.int64]


class FixedCoverage:
    """One score, ready to be counted at the same rank in many draws.

    Parameters
    ----------
    hallucinated : ndarray of float64, shape (m,)
        Scores that set the threshold, higher = more likely hallucinated; no NaN.
    faithful : ndarray of float64, shape (n,)
        Scores of faithful answers; no NaN.
    rank : int
        1-based rank of the threshold among ``hallucinated``.

    Attributes
    ----------
    threshold : float
        The score at that rank, on the data itself.
    """

    def __init__(self, hallucinated: _Floats, faithful: _Floats, rank: int) -> None:
        self.share = rank / len(hallucinated)
        self._order_h = np.argsort(hallucinated, kind="stable")
        self._order_f = np.argsort(faithful, kind="stable")
        ladder = hallucinated[self._order_h]
        self.threshold = float(ladder[rank - 1])
        self._passed = np.searchsorted(faithful[self._order_f], ladder, side="left")

    def fpr(self, drawn_h: _Counts, drawn_f: _Counts) -> _Floats:
        """Return the FPR at the threshold of each draw.

        Parameters
        ----------
        drawn_h, drawn_f : ndarray of int64, shapes (b, m) and (b, n)
            How often each hallucinated and each faithful example was drawn.

        Returns
        -------
        ndarray of float64, shape (b,)
        """
        steps = np.cumsum(drawn_h[:, self._order_h], axis=1)
        # The same share of however many were drawn; sums of whole numbers, so 1e-9 is slack enough.
        least = self.share * steps[:, -1:] - 1e-9
        place = self._passed[np.minimum((steps < least).sum(axis=1), steps.shape[1] - 1)]
        below = np.zeros((len(drawn_f), drawn_f.shape[1] + 1), dtype=np.int64)
        np.cumsum(drawn_f[:, self._order_f], axis=1, out=below[:, 1:])
        passed = below[np.arange(len(below)), place]
        result: _Floats = 1.0 - passed / below[:, -1]
        return result
