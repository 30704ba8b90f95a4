"""How many false alarms does a score cost at a fixed rank of the hallucinated scores?

A threshold at rank r of m hallucinated scores misses r - 1 of them, whatever the scale of the
score: the rank is what makes thresholds of different detectors comparable. Where each group counts
once, an answer weighs 1 / (answers of its group), and the rank is one among groups. When data is
drawn again, both change: the threshold that stands at that rank, and the faithful answers that it
flags.
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
        1-based rank of the threshold in units of weight: among ``hallucinated`` where each weighs
        1; at most the sum of the weights.
    weights : ndarray of float64, shape (m,)
        What each hallucinated score counts.

    Attributes
    ----------
    threshold : float
        The score at that rank, on the data itself.
    """

    def __init__(
        self, hallucinated: _Floats, faithful: _Floats, rank: int, weights: _Floats
    ) -> None:
        self.share = rank / float(weights.sum())
        self._order_h = np.argsort(hallucinated, kind="stable")
        self._order_f = np.argsort(faithful, kind="stable")
        ladder = hallucinated[self._order_h]
        self._weights = weights[self._order_h]
        steps = np.cumsum(self._weights)
        #: Scores up to the threshold, by their place among ``hallucinated``.
        self.lowest = self._order_h[: int(_place(steps, self.share * steps[-1:])) + 1]
        self.threshold = float(hallucinated[self.lowest[-1]])
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
        steps = np.cumsum(drawn_h[:, self._order_h] * self._weights, axis=1)
        # The same share of however much was drawn.
        place = self._passed[_place(steps, self.share * steps[:, -1:])]
        below = np.zeros((len(drawn_f), drawn_f.shape[1] + 1), dtype=np.int64)
        np.cumsum(drawn_f[:, self._order_f], axis=1, out=below[:, 1:])
        passed = below[np.arange(len(below)), place]
        result: _Floats = 1.0 - passed / below[:, -1]
        return result


def _place(steps: _Floats, least: _Floats) -> NDArray[np.intp]:
    """Return where rising sums reach what is sought, but for their rounding."""
    place: NDArray[np.intp] = np.minimum((steps < least - 1e-9).sum(axis=-1), steps.shape[-1] - 1)
    return place
