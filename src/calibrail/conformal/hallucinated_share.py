"""Which share of a batch is hallucinated, so that a selection need not assume that all of it is?

Benjamini and Hochberg's procedure at level q keeps the false discovery rate at q times the batch's
share of hallucinated answers. Dividing q by an estimate of that share releases more. Two estimates
keep the rate at q in finite samples, with ties and for any detector:

``storey_share``, from the batch. Take one hallucinated answer of the batch, and A, its score among
the n calibration scores. Given A and all other scores each place of it in A is equally likely; its
own p-value and all others can only grow with it, so the number released can only fall. Hence

    rate <= q / m * sum over hallucinated answers of E[1 / estimate, with the score lowest in A]

(Blanchard and Roquain, 2009; Marandon, Lei, Mary and Roquain, 2024). There ``p >= K / (n + 1)``
says that a score reaches the K-th smallest of A; with U the share of hallucinated answers below
that, E[1 / (1 + Binomial(m0 - 1, 1 - U))] <= E[1 / (m0 (1 - U))] = 1 / (m0 (1 - K / (n + 1))),
because 1 - U is Beta(n + 2 - K, K). So each term is at most m / m0, and the rate at most q. Ties
only add answers that reach it. Counting ``p > K / (n + 1)`` loses this proof by one rank.

``labelled_share``, from labels. Given all labels the level q / share is fixed, so the rate is at
most q times E[m0 / m / share]. Among the N labels and that of one answer of the batch M are
hallucinated; it is one of them with probability M / (N + 1), and then share is M / (N + 1): the
product is at most 1. This is Jin and Candes' (2023) selection: with the calibration part as all
that is labelled, p times share is their p-value, (1 + #{hallucinated calibration scores <= S}) /
(N + 1). A split by class leaves the calibration part no random share; all labels together have one.
"""

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import validation


def storey_share(p_values: ArrayLike, n: int) -> float:
    """Estimate the share of hallucinated answers of a batch from its p-values.

    Storey's estimate (2002; Storey, Taylor and Siegmund, 2004) for conformal p-values, (1 + #{p >=
    lambda}) / (m (1 - lambda)), with lambda the first multiple of 1 / (n + 1) from one half on. It
    errs upwards: faithful answers that look hallucinated count, too, and it may exceed 1.

    Parameters
    ----------
    p_values : array-like of float, shape (m,)
        Conformal p-values (1 + count) / (n + 1); NaN where a score is undefined.
    n : int
        Calibration examples behind the p-values, at least 1.

    Returns
    -------
    float
        Above 0; 1 for an empty batch.

    Raises
    ------
    InputError
        If an argument is outside its domain.

    Examples
    --------
    >>> storey_share([0.1] * 8 + [0.6, 1.0], 9)
    0.6
    """
    size = validation.whole(n, "n", least=1)
    p = validation.p_values(p_values, zero=True)
    if not len(p):
        return 1.0
    k = (size + 2) // 2
    # A p-value is a quotient of whole numbers: half a step below serves as well.
    high = int(np.count_nonzero(p * (size + 1) >= k - 0.5))
    return (1 + high) * (size + 1) / (len(p) * (size + 1 - k))


def labelled_share(n_hallucinated: int, n: int) -> float:
    """Estimate the share of hallucinated answers of a batch from labels of answers like its own.

    Parameters
    ----------
    n_hallucinated, n : int
        Hallucinated answers among n labelled ones. Labelled answers and batch must be exchangeable,
        their labels included: neither may have been chosen by class.

    Returns
    -------
    float
        (n_hallucinated + 1) / (n + 1).

    Examples
    --------
    >>> labelled_share(9, 99)
    0.1
    """
    part, total = validation.counts(n_hallucinated, n, ("n_hallucinated", "n"))
    return (part + 1) / (total + 1)
