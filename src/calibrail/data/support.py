"""Which guarantees do the labels of a file support?"""

from dataclasses import dataclass

from calibrail.record import Record


@dataclass(frozen=True, slots=True)
class Support(Record):
    """Whether a threshold with a guarantee exists at the default split.

    Parameters
    ----------
    alpha : float
        Tolerated miss rate.
    guarantee : str
        ``marginal``, or ``pac`` at delta 0.1.
    needed, available : int
        Hallucinated examples for calibration, one of each group.
    possible : bool
        Whether there are enough.
    """

    alpha: float
    guarantee: str
    needed: int
    available: int
    possible: bool
