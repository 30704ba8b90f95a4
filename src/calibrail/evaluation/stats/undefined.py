"""Where does an undefined score stand among the defined ones?"""

import numpy as np

from calibrail.errors import InputError
from calibrail.evaluation.stats.arrays import Floats

#: What an undefined score counts as; ``review`` is accounted like ``flag``: not released.
POLICIES = ("flag", "review", "pass")


def ranked_values(values: Floats, policy: str) -> Floats:
    """Return scores that can be ranked: undefined ones go to the end that their policy implies.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Scores, higher = more likely hallucinated; NaN where undefined.
    policy : {"flag", "review", "pass"}
        ``flag`` and ``review`` rank an undefined score above every other (+inf), ``pass`` below
        every other (-inf), exactly as the guardrail will decide on it.

    Returns
    -------
    ndarray of float64, shape (n,)
        A copy without NaN.

    Raises
    ------
    InputError
        If the policy is none of the three.

    Examples
    --------
    >>> ranked_values(np.array([0.5, np.nan]), "flag").tolist()
    [0.5, inf]
    """
    if policy not in POLICIES:
        raise InputError(f'undefined must be "flag", "review" or "pass"; got {policy!r}')
    end = -np.inf if policy == "pass" else np.inf
    return np.where(np.isnan(values), end, np.asarray(values, dtype=np.float64))
