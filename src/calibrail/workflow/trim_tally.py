"""What did a guardrail leave of labelled answers, and which of these count?"""

from array import array
from collections.abc import Iterable
from math import nan

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Bound, Counts, exact_bound
from calibrail.data.by_sentence import sentence_examples
from calibrail.data.example import Example
from calibrail.evaluation.trimmed import Delivered, Outcomes, shuffled
from calibrail.guardrail.decision import Decision
from calibrail.workflow.tally import Tally


class TrimTally(Tally):
    """Counts what a guardrail of sentences leaves, as its decisions say, answer by answer.

    A hallucinated answer counts as stopped where no unsupported sentence of it is shown, a faithful
    one where a sentence of it is not. An answer without a score is one with a sentence without.

    Parameters
    ----------
    by, once, columns
        As of a `Tally`.
    share : float
        As of ``ReadOptions.span_share``.
    """

    def __init__(
        self, by: str | None, *, share: float, once: bool = True, columns: Iterable[str] = ()
    ) -> None:
        super().__init__(by, once=once, columns=columns)
        self._share = share
        self._freed, self._emptied, self._reviewed = array("b"), array("b"), array("b")
        self._failed = array("b")
        self._kept = array("d")
        self.n_undefined_sentences = 0

    def add(self, example: Example, decision: Decision) -> None:
        """Count one answer by the sentences that may be shown."""
        super().add(example, decision)
        # Also where the failure policy made it another outcome.
        self.n_errors += decision.failed and decision.outcome != "error"
        self.n_undefined_sentences += _undefined(decision)
        gone = {(item.start, item.end) for item in decision.removed or ()}
        shown, n_supported = [], 0
        sentences = sentence_examples(example, self._share)
        self.looked_at.mark(sentence.label for sentence in sentences)
        for sentence in sentences:
            start = len(sentence.before or "")
            n_supported += sentence.label == 0
            # Of an answer for review, or on which the detector failed, nothing is shown.
            if decision.text is not None and (start, start + len(sentence.response)) not in gone:
                shown.append(sentence.label)
        self._freed.append(1 not in shown)
        self._kept.append(shown.count(0) / n_supported if n_supported else nan)
        self._emptied.append(decision.text is not None and not shown)
        self._failed.append(decision.failed)
        self._reviewed.append(decision.text is None and not decision.failed)

    def _lacks_a_score(self, decision: Decision) -> bool:
        return _undefined(decision) > 0

    def _stopped(self) -> NDArray[np.bool_]:
        hallucinated = np.array(self._labels) == 1
        return np.where(hallucinated, np.array(self._freed, np.bool_), super()._stopped())

    @property
    def outcomes(self) -> Outcomes:
        """What is left of every answer, whichever count."""
        return Outcomes(
            freed=np.array(self._freed, np.bool_),
            kept=np.array(self._kept, np.float64),
            emptied=np.array(self._emptied, np.bool_),
            untouched=~super()._stopped(),
            reviewed=np.array(self._reviewed, np.bool_),
        )

    def delivered(self, confidence: float) -> Delivered:
        """Return the measures of the answers that count: one of each group."""
        labels = np.array(self._labels)
        rows = self._counting(labels)
        hallucinated = rows[labels[rows] == 1]
        return self.outcomes.delivered(hallucinated, self._everyone(), confidence)

    def failed(self, confidence: float) -> Bound:
        """Return the share of the answers that count on which the detector failed.

        Nothing of them is shown: they are freed, and keep nothing.
        """
        rows = self._everyone()
        return exact_bound(
            int(np.count_nonzero(np.array(self._failed)[rows])), len(rows), confidence
        )

    def kept(self) -> NDArray[np.float64]:
        """Return what is kept of each answer that counts and holds a supported sentence."""
        return self.outcomes.shares(self._everyone())

    def kept_by_group(self) -> dict[str, tuple[Counts, NDArray[np.float64]]]:
        """Return what counts of each value of the column, and what is kept of its answers."""
        names, numbers = np.unique(np.array(self._names, dtype=object), return_inverse=True)
        rows, outcomes = self._by_lot(self._counting(numbers)), self.outcomes
        counts = self.by_group()
        return {
            name: (counts[name], outcomes.shares(rows[numbers[rows] == number]))
            for number, name in enumerate(names.tolist())
        }

    def _everyone(self) -> NDArray[np.intp]:
        return self._by_lot(self._counting())

    def _by_lot(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return rows in an order that has nothing to do with what is left of them."""
        return shuffled(rows, np.array(self._lots, np.uint64))


def _undefined(decision: Decision) -> int:
    """Return how many sentences of an answer have no score, whatever became of them."""
    items = (decision.evidence or {}).get("items", ())
    return sum(item["value"] is None for item in items)
