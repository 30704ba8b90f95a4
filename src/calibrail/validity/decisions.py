"""Does a three-way decision keep both its promises?"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from scipy.stats import binom

from calibrail.conformal import DECISIONS, rank, three_way
from calibrail.validity.check import DELTA, Check, Setting
from calibrail.validity.distributions import below, draw, up_to

#: The faithful scores lie this far below the hallucinated ones.
_SHIFT: Final = 1.0
_PASS: Final = DECISIONS.index("pass")
_FLAG: Final = DECISIONS.index("flag")


def three_way_marginal(at: Setting) -> Iterator[Check]:
    """Pass a fresh hallucination, flag a fresh faithful answer: at most alpha each (beta = alpha).

    Where the two thresholds cross, passing comes first, so flags are rarer than k / (n + 1).
    """
    rng = at.rng("three-way")
    promise = at.promise(beta=at.alpha)
    codes = np.empty((at.runs, 2), dtype=np.int8)
    for run in range(at.runs):
        bad = draw(rng, at.kind, at.n + 1)
        good = draw(rng, at.kind, at.n + 1, -_SHIFT)
        codes[run] = three_way(bad[1:], good[1:], promise).decide([bad[0], good[0]])
    exact = rank(at.n, at.alpha) / (at.n + 1)
    name = "three-way, marginal"
    yield at.check(name, codes[:, 0] == _PASS, at.alpha, exact=exact, design="hallucinated, passed")
    yield at.check(name, codes[:, 1] == _FLAG, at.alpha, design="faithful, flagged")


def three_way_pac(at: Setting) -> Iterator[Check]:
    """Draw thresholds with a true error above alpha on a side: at most ``DELTA`` each."""
    rng = at.rng("three-way pac")
    promise = at.promise("pac", beta=at.alpha)
    low, high = np.empty(at.runs), np.empty(at.runs)
    for run in range(at.runs):
        bad, good = draw(rng, at.kind, at.n), draw(rng, at.kind, at.n, -_SHIFT)
        decision = three_way(bad, good, promise)
        low[run] = decision.calibration.threshold
        assert decision.flag_above is not None
        high[run] = max(decision.flag_above, low[run])
    exact = float(binom.cdf(rank(at.n, at.alpha, "pac", DELTA) - 1, at.n, at.alpha))
    name = "three-way, pac"
    passed = below(at.kind, low) > at.alpha
    flagged = 1.0 - up_to(at.kind, high, -_SHIFT) > at.alpha
    yield at.check(name, passed, DELTA, exact=exact, design="hallucinated, passed")
    yield at.check(name, flagged, DELTA, design="faithful, flagged")
