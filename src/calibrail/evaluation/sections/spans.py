"""How much of what people marked does a threshold remove, and how much besides?

Precision, recall and F1 by characters, over all answers together, as corpora of marked spans are
evaluated (Niu et al., RAGTruth, 2024). White space is counted nowhere: whether a mark takes in the
space behind its last word says nothing.
"""

from typing import Any, Final

import numpy as np

from calibrail.evaluation.stats.arrays import Ints, Mask
from calibrail.evaluation.stats.measure import Measure, missing
from calibrail.evaluation.stats.resampling import bootstrap_counts, draws_for, with_singletons

#: Answers (groups) with something marked, or removed, below which there is no interval. Simulated
#: ones, stated to hold the truth in 0.95 of all cases, do in 0.92 with 15 of them, 0.95 with 40.
FEWEST: Final = 20

_METHOD: Final = "bootstrap-groups, characters"
# Columns of what is summed up by answer; the first is both.
_REMOVED: Final = 1
_MARKED: Final = 2
#: Why a share without an interval has none, by why it would have no value.
_FEW: Final = {
    "nothing_removed": "few_answers_removed",
    "nothing_marked": "few_answers_marked",
}


def find_spans(
    first: Ints,
    chars: Ints,
    marked: Ints,
    outside: Ints,
    removed: Mask,
    groups: Ints | None = None,
    *,
    confidence: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> dict[str, Any]:
    """Return precision, recall and F1 of removing some of the sentences of n answers.

    Parameters
    ----------
    first : ndarray of int64, shape (n + 1,)
        Where each answer's sentences begin among all m.
    chars, marked : ndarray of int64, shape (m,)
        Characters of each sentence, and those of them that are marked as unsupported; without
        white space.
    outside : ndarray of int64, shape (n,)
        Marked characters of each answer that are in no sentence: nothing removes them, so that
        they count against recall.
    removed : ndarray of bool, shape (m,)
        Sentences that are removed.
    groups : ndarray of int64, shape (n,), optional
        What answers share; negative for one that stands alone. Whole groups are drawn again.
    confidence : float
        Level of the two-sided intervals.
    draws, seed : int
        Bootstrap draws, fewer for very many answers; the same seed gives the same intervals.

    Returns
    -------
    dict
        ``precision`` (of the characters removed, the share that is marked), ``recall`` (of those
        marked, the share that is removed) and ``f1``, each as a `Measure`, without an estimate
        where nothing is removed or marked; ``characters``: how many are ``removed``, ``marked``
        and ``both``; ``answers``: in how many something is ``marked``, and ``removed``.

    Raises
    ------
    ValueError
        More characters of a sentence are marked than it has.

    Examples
    --------
    >>> first, chars = np.array([0, 2, 3]), np.array([10, 30, 20])
    >>> marked, outside = np.array([0, 15, 0]), np.array([0, 5])
    >>> found = find_spans(first, chars, marked, outside, np.array([False, True, False]))
    >>> [found[name]["estimate"] for name in ("precision", "recall", "f1")]
    [0.5, 0.75, 0.6]
    """
    if (marked > chars).any():
        raise ValueError("more characters of a sentence are marked than it has")
    by_answer = np.column_stack(
        [_sums(part, first) for part in (marked * removed, chars * removed, marked)]
    )
    by_answer[:, _MARKED] += outside
    shared = with_singletons(groups, len(by_answer))
    touched = by_answer > 0
    _, member = np.unique(shared, return_inverse=True)
    by_group = np.zeros((int(member.max(initial=-1)) + 1, 3), dtype=np.int64)
    np.add.at(by_group, member, by_answer)
    # By what they hold: the order of the answers makes no difference.
    by_group = by_group[np.lexsort(by_group.T)]
    # All in one stratum: how many answers hold a mark is chance, too, and moves precision.
    strata = np.zeros(len(by_group), dtype=np.int8)
    counts = bootstrap_counts(
        np.arange(len(by_group)), strata, draws=draws_for(len(by_answer), draws), seed=seed
    )
    drawn = np.concatenate([part @ by_group for part in counts]) if len(by_group) else by_group
    total = by_answer.sum(axis=0)

    def measure(weights: tuple[int, int, int], reason: str, rows: Mask) -> Measure:
        """Return the share of characters that are both, of a mean of removed and marked ones."""
        # F1 is 2 both / (removed + marked), so that each is a part of a weighted whole.
        times, whole = weights[0], np.array([0, *weights[1:]])
        if not (total @ whole and rows.any()):
            return missing(_METHOD, reason, confidence)
        estimate = float(times * total[0] / (total @ whole))
        if len(np.unique(shared[rows])) < FEWEST:
            few = _FEW[reason]
            return Measure(estimate, None, None, _METHOD, confidence, f"{few}:{FEWEST}")
        wholes = drawn @ whole
        ratios = times * drawn[wholes > 0, 0] / wholes[wholes > 0]
        tail = (1.0 - confidence) / 2.0
        lower, upper = (float(end) for end in np.quantile(ratios, [tail, 1.0 - tail]))
        return Measure(estimate, min(lower, estimate), max(upper, estimate), _METHOD, confidence)

    measures = {
        "precision": measure((1, 1, 0), "nothing_removed", touched[:, _REMOVED]),
        "recall": measure((1, 0, 1), "nothing_marked", touched[:, _MARKED]),
        "f1": measure((2, 1, 1), "nothing_marked", touched[:, _MARKED]),
    }
    return {
        **{name: found.to_dict() for name, found in measures.items()},
        "characters": dict(zip(("both", "removed", "marked"), total.tolist(), strict=True)),
        "answers": {
            "n": len(by_answer),
            "removed": int(touched[:, _REMOVED].sum()),
            "marked": int(touched[:, _MARKED].sum()),
        },
    }


def _sums(values: Ints, first: Ints) -> Ints:
    """Return the sum of each answer's sentences, 0 for an answer without any."""
    ends: Ints = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))[first]
    return np.diff(ends)
