"""Audit of a detector: components, leakage and copies."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.duplicates import THRESHOLD, Sketches, similar_pairs
from calibrail.errors import InputError
from calibrail.evaluation import audit_answers
from calibrail.evaluation import confounds as surface
from calibrail.evaluation.audit_answers import AuditAnswers, components
from calibrail.evaluation.scored_answers import CLASSES
from calibrail.evaluation.stats import intervals
from calibrail.evaluation.stats.auroc import CLUSTERED
from calibrail.formatting import Scale
from calibrail.serialization import Record

# Pairs wherever they lie: the search for pairs across a split is the same one, filtered.

#: Pairs that are named.
NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class SplitCopies(Record):
    """Near-duplicate answers (question and response) that lie apart.

    Parameters
    ----------
    across : str
        What they lie apart in: ``label``, ``group`` or ``split``.
    n : int
        Answers with a near-duplicate that lies apart.
    exact : int
        Those of them with an identical one.
    pairs : tuple of (str, str)
        Ids of some.
    """

    across: str
    n: int
    exact: int
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Shared(Record):
    """A text that several answers have.

    Parameters
    ----------
    what : str
        ``question``, ``answer``, or ``whole`` for question, contexts and answer together.
    n_distinct : int
        Distinct texts (case folded, without punctuation; ``whole``: to the letter).
    n_repeated : int
        Those that occur more than once.
    n_both : int
        Those that occur with both labels.
    n_answers_both : int
        Answers that have one of them.
    """

    what: str
    n_distinct: int
    n_repeated: int
    n_both: int
    n_answers_both: int


@dataclass(frozen=True, slots=True)
class Giveaway(Record):
    """How well the label can be told from the labels of the other answers of a group.

    Parameters
    ----------
    column : str
        ``group``, or a column.
    n_values : int
        Groups.
    n_mixed : int
        Groups of at least two answers with both labels.
    n_alike : int
        Groups of at least two answers with one label.
    auroc : Measure
        AUROC of the hallucination rate among the group's other answers (alone: undefined, left
        out). Far from 0.5 on either side, the group tells the label.
    """

    column: str
    n_values: int
    n_mixed: int
    n_alike: int
    auroc: intervals.Measure


@dataclass(frozen=True, slots=True)
class Leakage(Record):
    """Everything that could give labels away.

    Parameters
    ----------
    threshold : float
        Estimated Jaccard similarity of word pairs that makes a near-duplicate.
    copies : tuple of Copies
        Empty where there are no texts.
    shared : tuple of Shared
        Likewise.
    giveaways : tuple of Giveaway
        For the groups, and every column named.
    n_ids_repeated : int
        Ids that occur more than once.
    """

    threshold: float = field(default=THRESHOLD, kw_only=True)
    copies: tuple[SplitCopies, ...]
    shared: tuple[Shared, ...]
    giveaways: tuple[Giveaway, ...]
    n_ids_repeated: int


def copies(
    sketches: Sketches, sides: Mapping[str, intervals.Ints], ids: Sequence[str]
) -> tuple[SplitCopies, ...]:
    """Find near-duplicates that lie apart in a label, a group or a split.

    Parameters
    ----------
    sketches : Sketches of n examples
        From a ``Sketcher``.
    sides : mapping of str to ndarray of int64, shape (n,)
        For each way to divide answers, the side of each.
    ids : sequence of str, length n
        Names for the pairs.
    """
    worded = np.flatnonzero(sketches.exact)
    if not len(worded):
        return ()
    texts, first, member = np.unique(sketches.exact[worded], return_index=True, return_inverse=True)
    holder = worded[first]
    everywhere = np.full(len(texts), 3, dtype=np.uint8)
    alike = list(similar_pairs(sketches.minhash, holder, everywhere))
    left, right = (
        np.concatenate([np.zeros(0, np.intp), *(pair[side] for pair in alike)]) for side in (0, 1)
    )

    def apart(name: str, side: intervals.Ints) -> SplitCopies:
        """Count the answers whose text, or one like it, is on another side."""
        ends = np.iinfo(np.int64)
        low, high = np.full(len(texts), ends.max), np.full(len(texts), ends.min)
        np.minimum.at(low, member, side)
        np.maximum.at(high, member, side)
        wide_low, wide_high = low.copy(), high.copy()
        for one, other in ((left, right), (right, left)):
            np.minimum.at(wide_low, one, low[other])
            np.maximum.at(wide_high, one, high[other])
        exact = (low[member] != side) | (high[member] != side)
        near = (wide_low[member] != side) | (wide_high[member] != side)
        pairs: dict[tuple[int, int], None] = {}
        for text in np.unique(member[exact])[:NAMED].tolist():
            rows = np.flatnonzero(member == text)
            other = rows[side[rows] != side[rows[0]]][0]
            pairs[int(worded[rows[0]]), int(worded[other])] = None
        differing = np.flatnonzero((low[left] != high[right]) | (high[left] != low[right]))
        for at in differing[: 4 * NAMED].tolist():
            two = sorted((int(holder[left[at]]), int(holder[right[at]])))
            pairs[two[0], two[1]] = None
        named = tuple((str(ids[a]), str(ids[b])) for a, b in list(pairs)[:NAMED])
        return SplitCopies(name, int(near.sum()), int(exact.sum()), named)

    return tuple(apart(name, side[worded]) for name, side in sides.items())


def shared(what: str, digests: NDArray[np.uint64], labels: intervals.Codes) -> Shared | None:
    """Count texts that occur with both labels; 0 stands for no text, None for none at all.

    Examples
    --------
    >>> texts = shared("question", np.array([5, 5, 6], np.uint64), np.array([0, 1, 1], np.int8))
    >>> texts.n_distinct, texts.n_both, texts.n_answers_both
    (2, 1, 2)
    """
    there = digests != 0
    if not there.any():
        return None
    texts, member = np.unique(digests[there], return_inverse=True)
    size = np.bincount(member)
    hallucinated = np.bincount(member[labels[there] == 1], minlength=len(texts))
    both = (hallucinated > 0) & (hallucinated < size)
    counts = np.sum(size > 1), both.sum(), size[both].sum()
    return Shared(what, len(texts), *map(int, counts))


def giveaway(column: str, members: intervals.Ints, answers: AuditAnswers) -> Giveaway:
    """Measure how well the other answers of a group tell the label.

    Parameters
    ----------
    column : str
        How the groups are called.
    members : ndarray of int64, shape (n,)
        Group of each answer; negative for one without.
    answers : Answers
        Labels; the groups here are ``members``.
    """
    there = members >= 0
    _, member = np.unique(members[there], return_inverse=True)
    labels = answers.labels[there]
    size = np.bincount(member)
    hallucinated = np.bincount(member, weights=labels, minlength=len(size)).astype(np.int64)
    several = size > 1
    mixed = several & (hallucinated > 0) & (hallucinated < size)
    area = intervals.missing(CLUSTERED, "no_group_of_two", answers.confidence)
    if several.any():
        rows = several[member]
        group, labels = member[rows].astype(np.int64), labels[rows]
        rate = (hallucinated[group] - labels) / (size[group] - 1)
        area = AuditAnswers(labels, group, answers.confidence).auroc(rate)
    return Giveaway(column, len(size), int(mixed.sum()), int(np.sum(several & ~mixed)), area)


def repeated(ids: Sequence[str]) -> int:
    """Return how many ids occur more than once; an empty id is none."""
    return sum(1 for name, times in Counter(ids).items() if name and times > 1)


#: Name of the format that ``Audit.to_dict`` writes.
SCHEMA: Final = "calibrail.audit/1"


@dataclass(frozen=True, slots=True)
class LeftOut(Record):
    """A part of the audit that could not be made.

    Parameters
    ----------
    part : str
        What is missing, e.g. ``strata by theta_qc``.
    reason : str
        Why.
    """

    part: str
    reason: str


@dataclass(frozen=True, slots=True)
class DetectorAudit(Record):
    """One detector under audit.

    Parameters
    ----------
    name : str
        The detector.
    score : mapping
        Its specification.
    n_undefined : mapping of str to int
        Answers without a score, per class; ranked as the policy says.
    auroc : Measure
        How far it separates the classes.
    reversed : bool
        The AUROC's interval lies below 0.5.
    confounds : tuple of Confound
        One a surface feature, and one a column that divides the answers.
    strata : tuple of Stratification
        One a division.
    reliability : Reliability or None
        None where no score is defined.
    """

    name: str
    score: Mapping[str, Any]
    n_undefined: Mapping[str, int]
    auroc: intervals.Measure
    reversed: bool
    confounds: tuple[surface.Confound, ...]
    strata: tuple[surface.Stratification, ...]
    reliability: surface.Reliability | None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, with a column's own numbers beside values of the score."""
        scale = Scale.of(self.score)
        content: dict[str, Any] = scale.beside(Record.to_dict(self))
        if content["reliability"] and scale.column is not None:
            for tenth in content["reliability"]["deciles"]:
                ends = sorted((scale.shown(tenth["lower"]), scale.shown(tenth["upper"])))
                tenth |= {"column_lower": ends[0], "column_upper": ends[1]}
        return content


@dataclass(frozen=True, slots=True)
class Audit(Record):
    """Everything that an audit found.

    Parameters
    ----------
    n_hallucinated, n_faithful, n_groups : int
        Answers per class; groups that they form (one without a group is its own).
    confidence, undefined, seed
        Level of every interval, policy for undefined scores, seed of the folds.
    detectors : tuple of Audited
        In the order in which they were named.
    components : tuple of Components
        One an encoder.
    agreement : tuple of Pair
        Every two detectors.
    leakage : Leakage
        What could give labels away.
    left_out : tuple of LeftOut
        Parts that could not be made, with the reason.
    data, reproduce : mapping
        Passed through.
    """

    schema: ClassVar = SCHEMA

    n_hallucinated: int
    n_faithful: int
    n_groups: int
    confidence: float
    undefined: str
    seed: int
    detectors: tuple[DetectorAudit, ...]
    components: tuple[audit_answers.Components, ...]
    agreement: tuple[audit_answers.Pair, ...]
    leakage: Leakage
    left_out: tuple[LeftOut, ...]
    data: Mapping[str, Any] = field(default_factory=dict)
    reproduce: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """What is known of the answers beside the detectors' scores.

    Attributes
    ----------
    leakage : Leakage
        What could give labels away.
    features : mapping of str to ndarray of float64, shape (n,)
        Surface features, NaN where undefined.
    divisions : sequence of Division
        How to divide answers into strata.
    angles : mapping of str to mapping
        Per encoder, the angles ``theta_rq`` and ``theta_rc``.
    left_out : sequence of LeftOut
        Parts that could not be prepared.
    """

    leakage: Leakage
    features: Mapping[str, intervals.Floats] = field(default_factory=dict)
    divisions: Sequence[surface.Division] = ()
    angles: Mapping[str, Mapping[str, intervals.Floats]] = field(default_factory=dict)
    left_out: Sequence[LeftOut] = ()


def audit_scores(
    values: Mapping[str, intervals.Floats],
    answers: AuditAnswers,
    material: Material,
    *,
    specs: Mapping[str, Mapping[str, Any]] | None = None,
    undefined: str = "flag",
    data: Mapping[str, Any] | None = None,
    reproduce: Mapping[str, Any] | None = None,
) -> Audit:
    """Audit detectors on labelled answers.

    Parameters
    ----------
    values : mapping of str to ndarray of float64, shape (n,)
        Scores per detector, higher = more likely hallucinated; NaN where undefined.
    answers : Answers
        Labels and groups, and the level of every interval.
    material : Material
        What is known of the answers beside.
    specs : mapping of str to mapping, optional
        Specifications of the detectors.
    undefined : {"flag", "review", "pass"}
        Policy for undefined scores.
    data, reproduce : mapping, optional
        Passed through.

    Raises
    ------
    InputError
        If a class is empty.
    """
    if not answers.both_classes:
        raise InputError("labels must hold both classes, 1 = hallucinated and 0 = faithful")
    features = [
        *surface.prepare(material.features, answers),
        *surface.prepare_columns(material.divisions, answers),
    ]

    def audited(name: str, column: intervals.Floats) -> DetectorAudit:
        ranks, lost = intervals.ranked_values(column, undefined), answers.by_class(np.isnan(column))
        divided = [surface.stratify(item, column, ranks, answers) for item in material.divisions]
        return DetectorAudit(
            name=name,
            score=(specs or {}).get(name, {"name": name}),
            n_undefined={kind: int(part.sum()) for kind, part in zip(CLASSES, lost, strict=True)},
            confounds=tuple(surface.confound(feature, ranks, answers) for feature in features),
            strata=surface.corrected(divided),
            reliability=surface.reliability(column, answers),
            **answers.separation(ranks),
        )

    parts = (components(encoder, angles, answers) for encoder, angles in material.angles.items())
    return Audit(
        n_hallucinated=int(np.sum(answers.labels == 1)),
        n_faithful=int(np.sum(answers.labels == 0)),
        n_groups=len(np.unique(answers.clusters)),
        confidence=answers.confidence,
        undefined=undefined,
        seed=answers.seed,
        detectors=tuple(audited(name, column) for name, column in values.items()),
        components=tuple(part for part in parts if part is not None),
        agreement=audit_answers.pair_agreement(values, answers),
        leakage=material.leakage,
        left_out=tuple(material.left_out),
        data=dict(data or {}),
        reproduce=dict(reproduce or {}),
    )
