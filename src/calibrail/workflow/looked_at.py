"""What does a run look at: which answers, known by which numbers, by which detector?"""

import json
from array import array
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.data.ids import n_repeated, scattered
from calibrail.data.splits import TEST
from calibrail.settings import Promise
from calibrail.workflow.freshness import ALIKE
from calibrail.workflow.look import Look
from calibrail.workflow.scored import Scored


class LookedAt:
    """Collects which answers are looked at, one by one.

    Rows of scores are known by id and score together. Those without an id are known by their
    scores, which further columns beside them do not change; where many have the same score, by all
    that the row holds; where many of these are alike, too, not at all.
    """

    def __init__(self) -> None:
        self._digests, self._scores, self._labels = array("Q"), array("d"), array("b")
        self._marks = array("Q")
        self._known: set[str] = set()

    def add(self, example: Example, score: float | None) -> None:
        """Add one answer."""
        self._known.add(example.known_by)
        self._digests.append(int(example.digest(), 16))
        self._labels.append(int(example.label or 0))
        self._scores.append(float("nan") if score is None else score)

    def mark(self, labels: Iterable[int | None]) -> None:
        """Note the labels of the sentences of the answer that was added last: they count, too."""
        self._marks.append(_of_marks(-1 if label is None else label for label in labels))

    @property
    def digests(self) -> NDArray[np.uint64]:
        """What identifies every answer, shape (n,)."""
        return np.array(self._digests, np.uint64)

    def look(self, *, assumed: bool) -> Look:
        """Return the look at all of them."""
        scores = np.array(self._scores, np.float64)
        digests, apart = _known_by(np.array(self._digests, np.uint64), scores, self._known)
        labels = np.array(self._labels, np.int8)
        marks = np.array(self._marks, np.uint64) if self._marks else None
        return Look.at(digests, labels, assumed=assumed, apart=apart, marks=marks)


def look_at(scored: Scored, key: str, promise: Promise, *, assumed: bool) -> Look:
    """Return the look at all answers by the detector in this column, for what is promised."""
    asked = promise.to_dict() | {"clustered": None}
    return replace(
        _look_at(scored, key, slice(None), assumed),
        detector=_digest(scored.specs[key]),
        question=_digest(asked),
    )


def reported(scored: Scored, *, everyone: bool, verdict: str) -> Look:
    """Return the look of a guardrail's own report: at the test part by the first detector.

    With ``everyone``, at the faithful calibration answers, too, on which a certificate rests where
    the coverage is proven by construction.
    """
    codes, labels = scored.codes, scored.table.labels
    rows = (codes == TEST) | (everyone & (codes > 0) & (labels == 0))
    return replace(_look_at(scored, scored.keys[0], rows), verdict=verdict, reported=True)


def _look_at(
    scored: Scored, key: str, rows: NDArray[np.bool_] | slice, assumed: bool = False
) -> Look:
    table, known = scored.table, {kind for kind, n in scored.data["known_by"].items() if n}
    scores = table.columns[key][rows]
    digests, apart = _known_by(table.digests[rows], scores, known)
    seed = scored.data["split"]["seed"]
    labels, codes = table.labels[rows], scored.codes[rows]
    marks = None
    if (sentences := scored.sentences) is not None:
        each = np.split(sentences.labels, sentences.first[1:-1])
        marks = np.array([_of_marks(part.tolist()) for part in each], np.uint64)[rows]
    return Look.at(
        digests, labels, codes, seed=seed, assumed=assumed, apart=apart, scores=scores, marks=marks
    )


def _of_marks(labels: Iterable[int]) -> int:
    """Return a number for the labels of an answer's sentences, from -1 to 1."""
    spelt = bytes(label + 1 for label in labels)
    return int.from_bytes(sha256(spelt).digest()[:8], "little")


def _known_by(
    digests: NDArray[np.uint64], scores: NDArray[np.float64], known: set[str]
) -> tuple[NDArray[np.uint64], bool]:
    """Return the numbers by which answers are known, and whether these tell them apart."""
    if known <= {"texts"}:
        return digests, True
    # Adding zero makes one of both zeros.
    hashed = scattered((scores + 0.0).view(np.uint64))
    if not known & {"content", "nothing"}:
        # Another batch may be numbered alike: an id is one answer only together with its score.
        return scattered(digests ^ hashed), True
    for numbers in (hashed, digests):
        # The digest of a row that nothing is known of is that of its place.
        if n_repeated(numbers) <= ALIKE * len(numbers) and (
            numbers is hashed or "nothing" not in known
        ):
            return numbers, True
    return hashed, False


def _digest(content: Any) -> str:
    """Return a short digest of anything that JSON can hold."""
    text = json.dumps(content, sort_keys=True).encode("utf-8", "surrogatepass")
    return sha256(text).hexdigest()[:16]
