"""Answers that set the threshold, recognised among fresh ones."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrail import guardrail as frozen
from calibrail.conformal import Certificate, GroupVerdict
from calibrail.data.duplicates import Sketches, copies_of, sketched
from calibrail.data.example import FAITHFUL, Example, n_repeated
from calibrail.evaluation import Report
from calibrail.pipelines.loading import batches
from calibrail.report.messages import say, spell
from calibrail.scores.registry import ColumnScore

#: What is known of the answers: that they are new, that they are those of the calibration, nothing
#: of either, or nothing but that the user says they are new.
Freshness = Literal["new", "calibration data", "unknown", "declared"]

#: Share of rows alike from which what rows hold does not tell them apart: so many are left out by
#: chance at most, or are in it twice.
ALIKE: Final = 0.01
#: Share of the answers that set the threshold from which data is the calibration data.
_SAME: Final = 0.5
#: Answers that are compared with those that set the threshold at a time.
_AT_ONCE: Final = 1024
#: Significant digits to which scores of two files are compared: files round them.
_DIGITS: Final = (12, 6, 5, 4, 3)
#: To as many an answer with the id of another is that one: a float32 holds them.
_EXACT: Final = 6
#: Share of the scores that occur twice up to which scores are compared: of other answers' scores
#: about as many are met by chance.
_CHANCE: Final = 0.25


class KnownBy:
    """Counts answers by what tells them from others, one by one."""

    def __init__(self) -> None:
        self._by: Counter[str] = Counter()
        # One byte a row, and a number; two further ones where rows may hold texts.
        self._by_content: Any = bytearray()
        self._digests: Any = array("Q")
        self._spelt: Any = array("Q")
        self._ids: Any = array("Q")

    def add(self, example: Example) -> str:
        """Count one answer; return its digest."""
        kind = example.known_by
        self._by[kind] += 1
        self._by_content.append(kind == "content")
        self._digests.append(int(digest := example.digest(), 16))
        spelt = example.digest("spelt") if kind == "texts" else digest
        self._spelt.append(int(spelt, 16))
        if told := kind == "texts" and example.content is None:
            # Until here an id, or nothing else, told the answers.
            self._ids = self._ids or self._digests[:-1]
        if told or self._ids:
            self._ids.append(int(Example(id=example.id).digest() if told else digest, 16))
        return digest

    @classmethod
    def without_texts(
        cls, digests: NDArray[np.uint64], by_content: NDArray[np.bool_], n_nothing: int
    ) -> Self:
        """Return the counts of answers known by content, by nothing, and all others by id."""
        known = cls()
        n_content = int(np.count_nonzero(by_content))
        counts = {"content": n_content, "nothing": n_nothing}
        known._by.update(counts | {"id": len(by_content) - n_content - n_nothing})
        known._digests = known._spelt = known._ids = digests
        known._by_content = by_content
        return known

    @property
    def digests(self) -> NDArray[np.uint64]:
        """``Example.digest`` of every answer as a number, shape (n,)."""
        return _numbers(self._digests)

    @property
    def spelt(self) -> NDArray[np.uint64]:
        """The same of the texts as they are spelt."""
        return _numbers(self._spelt)

    @property
    def ids(self) -> NDArray[np.uint64]:
        """``Example.digest`` of every answer without its texts; with them where it has no id."""
        return _numbers(self._ids if len(self._ids) else self._digests)

    @property
    def kinds(self) -> set[str]:
        """What tells any of the answers from others."""
        return {kind for kind, n in self._by.items() if n}

    def counts(self, copies: NDArray[np.int64] | None = None) -> dict[str, int]:
        """Return the counts, and under ``alike`` how many share their content with another.

        Parameters
        ----------
        copies : ndarray of int64, shape (n,), optional
            Groups of copies, -1 for an answer without one. Copies are told from what is alike.
        """
        by_content = np.frombuffer(self._by_content, np.bool_)
        contents = self.digests[by_content if copies is None else by_content & (copies < 0)]
        counts = {kind: self._by[kind] for kind in ("texts", "id", "content", "nothing")}
        return counts | {"alike": n_repeated(contents)}


def _numbers(held: Any) -> NDArray[np.uint64]:
    """Return numbers as an array; what may still grow is copied."""
    return held if isinstance(held, np.ndarray) else np.array(held, np.uint64)


class Fresh:
    """Which answers did not set a guardrail's threshold? Counts those that did.

    Parameters
    ----------
    guardrail : Guardrail or None
        Without one, every answer is fresh.
    with_near : bool
        Whether answers that may be near copies of those that set it are yielded, too.
    """

    def __init__(self, guardrail: "frozen.Guardrail | None", *, with_near: bool = False) -> None:
        self._with_near = with_near
        #: Of each answer that was yielded whether it may be such a near copy.
        self.near = bytearray()
        self._data = None if guardrail is None else guardrail.config.data
        self._known = set(self._data.calibration_examples if self._data else ())
        self._then = self._data.known_by if self._data else None
        #: Without sketches it may be that of an older version, which digested texts as spelt.
        self._older = self._data is None or self._data.sketches is None
        sketches = None if self._data is None else self._data.sketches
        self._sketches = None if sketches is None else Sketches.from_text(sketches)
        self._met = np.zeros(0 if self._sketches is None else len(self._sketches), np.bool_)
        self._now = KnownBy()
        score = None if guardrail is None else guardrail.score
        self._score = score if isinstance(score, ColumnScore) else None
        scores = np.array(guardrail.rule.calibration.scores if guardrail else (), np.float64)
        self._scores_then = scores[np.isfinite(scores)]
        self._exact_then = set(rounded(self._scores_then, _EXACT).tolist())
        self._scores_now: list[float] = []
        self._n_ids_again = 0
        #: Whether it knows texts by their exact spelling alone: an earlier version made it.
        texts = bool(self._known and self._then and self._then.get("texts"))
        self.as_spelt = self._older and texts
        #: Answers that set the threshold, and those of them that nearly do, word for word.
        self.n_seen_before = self.n_near_copies = 0

    def admitted(self, examples: Iterable[Example]) -> Iterator[Example]:
        """Yield the answers without which the threshold was found, some at a time."""
        for batch in batches(examples, _AT_ONCE):
            yield from compress(batch, self.admits(batch))

    def admits(self, batch: Sequence[Example]) -> list[bool]:
        """Return of each of some answers whether the threshold was found without it."""
        admitted = []
        for example, near in zip(batch, self._near(batch), strict=True):
            known = self._is_known(example)
            self.n_near_copies += near and not known
            self.n_seen_before += known or near
            admitted.append(not known and (self._with_near or not near))
            self.near += bytes([near] * admitted[-1])
        return admitted

    def _near(self, batch: Sequence[Example]) -> Sequence[bool]:
        if self._sketches is None:
            return [False] * len(batch)
        # An answer that is not there is no copy of one.
        fresh = sketched(item if item.known_by == "texts" else Example() for item in batch)
        near, met = copies_of(self._sketches, fresh)
        self._met |= met
        return [bool(item) for item in near]

    def _is_known(self, example: Example) -> bool:
        if not self._known:
            return False
        digests = {self._now.add(example)}
        kind, score = example.known_by, self._value(example)
        if self._older:
            digests |= {example.digest("plain"), example.digest("spelt")}
        if score is not None and example.label != FAITHFUL:
            self._scores_now.append(score)
        known = kind != "nothing" and not digests.isdisjoint(self._known)
        if kind == "content":
            # Where many rows are alike, an equal one is no sign of the same.
            known = known and told_apart(self._then)
        if known and score is not None:
            # Rows of a new batch may be numbered from 0 again; their scores are others. So are
            # those of one sentence about other contexts, which the file does not show.
            self._n_ids_again += kind == "id"
            unseen = kind == "texts" and not example.contexts and example.label != FAITHFUL
            if kind == "id" or unseen:
                known = rounded(np.array([score]), _EXACT).item() in self._exact_then
        return known

    def _value(self, example: Example) -> float | None:
        value = None if self._score is None else self._score.value(example)
        return value if isinstance(value, float) else None

    def _scores_again(self) -> bool | None:
        """Return whether the scores that set the threshold are among those of the answers.

        None where either holds too many scores twice for that to be told.
        """
        now, told = np.array(self._scores_now), None
        for digits in _DIGITS:
            then_rounded, now_rounded = rounded(self._scores_then, digits), rounded(now, digits)
            if _coarse(then_rounded) or _coarse(now_rounded):
                continue
            told = False
            if np.isin(then_rounded, now_rounded).sum() > _SAME * len(then_rounded):
                return True
        return told

    def freshness(self, sha256: str | None, *, declared: bool = False) -> Freshness:
        """Return what is known, after all answers have been seen.

        Parameters
        ----------
        sha256 : str or None
            Digest of the file.
        declared : bool
            Whether the user says that the answers are new.
        """
        same = self._data is not None and sha256 is not None and sha256 == self._data.sha256
        again = self._scores_again()
        n_met = max(self.n_seen_before - self.n_near_copies, int(self._met.sum()))
        if same or again or n_met > _SAME * len(self._known):
            return "calibration data"
        if self._comparable(scores_told=again is not None):
            return "new"
        return "declared" if declared else "unknown"

    def _comparable(self, *, scores_told: bool) -> bool:
        """Return whether each answer would have been recognised."""
        now = self._now.counts()
        # A row that has gained a column, or lost digits of its score, holds something else.
        in_doubt = now["content"] or self._n_ids_again > _SAME * len(self._known)
        if self._score is not None and in_doubt and not scores_told:
            return False
        if now["nothing"] or (now["content"] and not (told_apart(now) and told_apart(self._then))):
            return False
        # An answer that was known by its id then cannot be recognised by its texts now.
        then = self._then or {"texts": 1, "id": 1}
        return all(not now[kind] or then.get(kind, 0) for kind in ("texts", "id", "content"))


def told_apart(counts: Mapping[str, int] | None) -> bool:
    """Return whether rows that are known by their content are told apart by it."""
    return counts is not None and counts["alike"] <= ALIKE * counts["content"]


def _coarse(scores: NDArray[np.float64]) -> bool:
    return n_repeated(scores.view(np.int64)) > _CHANCE * len(scores)


def rounded(values: NDArray[np.float64], digits: int) -> NDArray[np.float64]:
    """Return values to so many significant digits.

    >>> rounded(np.array([1.23456, -0.00123456, 0.0]), 3).tolist()
    [1.23, -0.00123, 0.0]
    """
    size = np.where(values == 0.0, 1.0, np.abs(values))
    with np.errstate(over="ignore", invalid="ignore"):
        factor = 10.0 ** (digits - 1 - np.floor(np.log10(size)))
        near = np.round(values * factor) / factor
    # Adding zero makes one of both zeros. Numbers too small to be scaled stay as they are.
    return np.where(np.isfinite(near), near, values) + 0.0


#: Of a certificate what further knowledge may change: verdict, reason and flips.
Change: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def revised(
    certificate: Certificate, groups: Mapping[str, GroupVerdict] | None, change: Change
) -> tuple[Certificate, Mapping[str, GroupVerdict] | None]:
    """Return what a change leaves of a certificate, and of those of groups."""

    def left(item: Certificate) -> Certificate:
        names = ("verdict", "reason", "reason_code", "flips")
        return replace(item, **change({name: getattr(item, name) for name in names}))

    if groups is not None:
        groups = {k: replace(it, certificate=left(it.certificate)) for k, it in groups.items()}
    return left(certificate), groups


def revised_report(report: Report, change: Change, withdrawn: str | None) -> Report:
    """Return a report with its groups changed, and its own verdict withdrawn for a reason code."""
    if report.by_group is not None:
        rows = [dict(change(row)) for row in report.by_group["rows"]]
        report = replace(report, by_group={**report.by_group, "rows": rows})
    if withdrawn is None:
        return report
    left = {**report.certificate, "verdict": "inconclusive", "flips": None}
    return replace(report, verdict="inconclusive", reason_code=withdrawn, certificate=left)


def without_cost_bound(report: Report) -> Report:
    """Return a report whose answers bound no expected cost, where it has one."""
    return replace(report, cost=report.cost and {**report.cost, "upper": None, "beats": False})


def without_proof(certificate: Mapping[str, Any], freshness: Freshness) -> Mapping[str, Any]:
    """Take back what was certified on answers that may have set the threshold, or say so.

    A rejection stands: on answers that set it a threshold looks better than it is, never worse.
    """
    if freshness == "new" or certificate["verdict"] != "certified":
        return certificate
    if freshness == "declared":
        reason = f"{spell(certificate['reason'])} {say('certify.declared_fresh')}"
        return {**certificate, "reason": reason}
    code = "calibration_data" if freshness == "calibration data" else "unknown_data"
    from calibrail.report.documents.certify import withheld

    return {**certificate, **withdrawn_for(code, withheld(freshness))}


def withdrawn_for(code: str, reason: str) -> dict[str, Any]:
    """Return what is left of a certificate that is taken back for a reason."""
    return {"verdict": "inconclusive", "reason": reason, "reason_code": code, "flips": None}
