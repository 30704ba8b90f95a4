"""Errors and trimmed answers shown on a page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal.rule import DECISIONS, Rule
from calibrail.data.example import TEXT_FIELDS, Example
from calibrail.data.sentences import sentence_examples
from calibrail.data.splits import TEST
from calibrail.models.llm.transport import BudgetError, no_calls
from calibrail.pipelines.scoring import Scored
from calibrail.scores.base import Score
from calibrail.scores.table import SentenceTable, Trimming
from calibrail.serialization import Record
from calibrail.text.removal import trim
from calibrail.text.structure import joins

NO_TEXT: Final = "This data holds scores alone, so there is no text to show."
NOT_SENT: Final = (
    "What the score rests on is not shown: it would take another request, and a report sends none."
)
DIFFERS: Final = "What the score rests on is not shown: scored again, the answer got another value."


def answers_at(scored: Scored, rows: Sequence[int]) -> dict[int, Example]:
    """Return the answers at these rows; none where the data holds no texts."""
    if scored.answers is None or scored.sketches is None:
        return {}
    examples = {row: scored.answers[row] for row in rows}
    texts = (item.question or item.response or item.contexts for item in examples.values())
    return examples if any(texts) else {}


def evidence_of(
    detector: Score, example: Example, value: float
) -> tuple[Mapping[str, Any] | None, str]:
    """Return what the detector says about an answer, if it says it with the same value."""
    if np.isnan(value):
        return None, "The score is undefined for this answer."
    try:
        result = detector.score([example])
    except BudgetError:
        return None, NOT_SENT
    except Exception as error:
        return None, (
            "What the score rests on is not shown: scoring the answer again failed "
            f"({type(error).__name__}: {error})"
        )
    again = float(result.values[0])
    if not abs(again - value) <= detector.tolerance:
        return None, DIFFERS
    return (result.evidence[0] or None if result.evidence else None), ""


#: Misses, and false alarms, that a page shows at most.
MOST: Final = 5


@dataclass(frozen=True, slots=True)
class ErrorExample(Record):
    """One answer that was decided wrongly.

    Attributes
    ----------
    id : str
        As the data names it.
    outcome : {"pass", "review", "flag"}
        What was decided.
    score : float or None
        None where it is undefined.
    threshold : float or None
        An answer passes below it; None where nothing passes.
    p_value : float or None
        Of "this answer is hallucinated".
    group : str or None
        Its group, where groups have thresholds of their own.
    question, contexts, response : str, tuple of str, str
        Its texts; empty where there are none, or they were not asked for.
    evidence : mapping or None
        What the detector says about the parts of the answer.
    note : str
        Why there is no text or no evidence.
    """

    id: str
    outcome: str
    score: float | None
    threshold: float | None
    p_value: float | None
    group: str | None = None
    question: str = ""
    contexts: tuple[str, ...] = ()
    response: str = ""
    evidence: Mapping[str, Any] | None = None
    note: str = ""

    def without_text(self) -> Self:
        """Return only the name and the numbers."""
        return replace(self, question="", contexts=(), response="", evidence=None, note="")


@dataclass(frozen=True, slots=True)
class ErrorExamples(Record):
    """The worst errors of the test part.

    Attributes
    ----------
    misses, alarms : tuple of ErrorExample
        Hallucinated answers that passed, the lowest scores first; faithful ones that did not, the
        highest first.
    n_misses, n_alarms : int
        How many there are in all.
    note : str
        Why there are no texts.
    """

    misses: tuple[ErrorExample, ...]
    alarms: tuple[ErrorExample, ...]
    n_misses: int
    n_alarms: int
    note: str = ""

    def without_text(self) -> Self:
        """Return nothing that the data's authors wrote but ids."""
        return replace(
            self,
            misses=tuple(item.without_text() for item in self.misses),
            alarms=tuple(item.without_text() for item in self.alarms),
            note="Texts are left out, as asked.",
        )


def worst_errors(
    scored: Scored,
    rule: Rule,
    names: Sequence[str] | None = None,
    *,
    text: bool = True,
) -> ErrorExamples:
    """Choose the worst errors of the test part, and score these few once more.

    Parameters
    ----------
    scored : Scored
        Answers and scores; the first detector is the one that decides.
    rule : Rule
        What decides.
    names : sequence of str, optional
        Each answer's group, where groups have thresholds of their own.
    text : bool
        Whether texts are wanted at all.

    Returns
    -------
    ErrorExamples
        What cannot be scored again is missing with a note; no request is sent for it.
    """
    table, detector = scored.table, scored.detectors[0]
    values = table.columns[scored.keys[0]]
    groups = names if rule.groups is not None else None
    flagged = rule.flags(values, groups, detector.tolerance)
    outcomes = rule.decide(values, groups, detector.tolerance)
    thresholds = rule.thresholds(len(values), groups)
    test = scored.codes == TEST
    missed, alarmed = test & (table.labels == 1) & ~flagged, test & (table.labels == 0) & flagged
    misses, alarms = _worst(values, missed, 1.0), _worst(values, alarmed, -1.0)
    rows = [*misses, *alarms]
    examples = answers_at(scored, rows) if text else {}
    note = NO_TEXT if text and rows and not examples else ""

    def error(row: int) -> ErrorExample:
        value, defined = float(values[row]), not np.isnan(values[row])
        group = None if groups is None else [groups[row]]
        item = ErrorExample(
            id=table.ids[row].as_py() or f"row {row + 1}",
            outcome=DECISIONS[int(outcomes[row])],
            score=value if defined else None,
            threshold=float(thresholds[row]) if np.isfinite(thresholds[row]) else None,
            p_value=float(rule.p_value([value], group, detector.tolerance)[0]) if defined else None,
            group=None if group is None else group[0],
        )
        if (example := examples.get(row)) is None:
            return item
        evidence, reason = evidence_of(detector, example, value)
        texts = {name: getattr(example, name) for name in TEXT_FIELDS}
        return replace(item, **texts, evidence=evidence, note=reason)

    with no_calls():
        return ErrorExamples(
            misses=tuple(map(error, misses)),
            alarms=tuple(map(error, alarms)),
            n_misses=int(np.count_nonzero(missed)),
            n_alarms=int(np.count_nonzero(alarmed)),
            note=note,
        )


def _worst(values: NDArray[np.float64], chosen: NDArray[np.bool_], sign: float) -> list[int]:
    """Return the first chosen rows by ``sign`` times their value; undefined ones come last."""
    rows = np.flatnonzero(chosen)
    signed = sign * values[rows]
    if len(rows) > MOST:
        # NaN, the last, is never below the limit: without as many numbers all rows are looked at.
        limit = np.partition(signed, MOST - 1)[MOST - 1]
        first = signed <= limit if not np.isnan(limit) else np.ones(len(rows), np.bool_)
        rows, signed = rows[first], signed[first]
    ordered: list[int] = rows[np.argsort(signed, kind="stable")[:MOST]].tolist()
    return ordered


#: Answers of each kind that a page shows at most.
TRIMMED_EXAMPLES_MOST: Final = 3

#: The kinds, in the order in which an answer that is of several is shown.
KINDS: Final = ("misses", "losses", "freed", "emptied", "reviewed")


#: The kinds of which one asks why the detector said so.
_WRONG: Final = ("misses", "losses")


@dataclass(frozen=True, slots=True)
class JudgedSentence(Record):
    """What became of one sentence.

    Attributes
    ----------
    start, end : int
        Its place in the answer.
    label : int
        1 = unsupported, 0 = supported.
    score : float or None
        None where it is undefined.
    removed : bool
        It is not left.
    with_others : bool
        It goes though it does not reach the threshold, since what it introduces goes.
    """

    start: int
    end: int
    label: int
    score: float | None
    removed: bool
    with_others: bool


@dataclass(frozen=True, slots=True)
class TrimmedExample(Record):
    """One answer, and what became of its sentences.

    Attributes
    ----------
    id : str
        As the data names it.
    outcome : {"pass", "flag", "review"}
        It is shown whole, without some sentences, or to a person first.
    label : int
        1 = hallucinated, 0 = faithful.
    threshold : float or None
        A sentence goes from there on; None where all go.
    sentences : tuple of JudgedSentence
        All of them.
    place : int
        The sentence that the answer is shown for.
    group : str or None
        Its group, where groups have thresholds of their own.
    question, contexts, response : str, tuple of str, str
        Its texts; empty where there are none, or they were not asked for.
    spans : tuple of pairs of int
        What people marked as unsupported.
    text : str or None
        What is shown in the answer's place.
    why : str
        Why it goes to review: a code.
    evidence : mapping or None
        What the detector says about that one sentence.
    note : str
        Why there is no text or no evidence.
    """

    id: str
    outcome: str
    label: int
    threshold: float | None
    sentences: tuple[JudgedSentence, ...]
    place: int
    group: str | None = None
    question: str = ""
    contexts: tuple[str, ...] = ()
    response: str = ""
    spans: tuple[tuple[int, int], ...] = ()
    text: str | None = None
    why: str = ""
    evidence: Mapping[str, Any] | None = None
    note: str = ""

    def without_text(self) -> Self:
        """Return only the name and the numbers."""
        blank = replace(self, question="", contexts=(), response="", spans=(), text=None)
        return replace(blank, evidence=None, note="")


@dataclass(frozen=True, slots=True)
class KindOfExamples(Record):
    """Some answers of one kind, and how many there are in all."""

    items: tuple[TrimmedExample, ...] = ()
    n: int = 0


@dataclass(frozen=True, slots=True)
class TrimmedExamples(Record):
    """Answers of the test part that show what removing sentences does.

    Attributes
    ----------
    misses : KindOfExamples
        An unsupported sentence is left; the lowest scores first.
    losses : KindOfExamples
        A supported sentence is removed; the highest scores first.
    freed : KindOfExamples
        All that is unsupported is removed, and something is left; the most first.
    emptied : KindOfExamples
        Nothing is left; those that lost the most supported sentences first.
    reviewed : KindOfExamples
        They go to a person.
    note : str
        Why there are no texts.
    """

    misses: KindOfExamples = field(default_factory=KindOfExamples)
    losses: KindOfExamples = field(default_factory=KindOfExamples)
    freed: KindOfExamples = field(default_factory=KindOfExamples)
    emptied: KindOfExamples = field(default_factory=KindOfExamples)
    reviewed: KindOfExamples = field(default_factory=KindOfExamples)
    note: str = ""

    def without_text(self) -> Self:
        """Return nothing that the data's authors wrote but ids."""
        bare = {
            kind: replace(
                some := getattr(self, kind), items=tuple(item.without_text() for item in some.items)
            )
            for kind in KINDS
        }
        return replace(self, **bare, note="Texts are left out, as asked.")


def trimmed_examples(
    scored: Scored,
    rule: Rule,
    names: Sequence[str] | None = None,
    *,
    text: bool = True,
) -> TrimmedExamples:
    """Choose answers of every kind, and score these few once more.

    The parameters are those of ``worst_errors``; the answers were scored by their sentences. What
    cannot be scored again is missing with a note; no request is sent for it.
    """
    key, detector, sentences = scored.keys[0], scored.detectors[0], scored.sentences
    if sentences is None:
        raise ValueError("these answers were not scored by their sentences")
    groups = names if rule.groups is not None else None
    thresholds = rule.thresholds(len(scored.table), groups)
    cut = sentences.trim(key, thresholds, rule.undefined, detector.tolerance)
    chosen = _chosen(sentences, key, cut, scored.codes == TEST)
    rows = sorted({row for some, _ in chosen.values() for row, _ in some})
    examples = answers_at(scored, rows) if text else {}
    note = NO_TEXT if text and rows and not examples else ""

    def example(row: int, place: int, kind: str) -> TrimmedExample:
        item = _judged(scored, sentences, key, cut, row)
        item = replace(
            item,
            place=place,
            threshold=float(thresholds[row]) if np.isfinite(thresholds[row]) else None,
            group=None if groups is None else groups[row],
        )
        if (answer := examples.get(row)) is None:
            return item
        item = _with_texts(item, answer)
        return _with_evidence(item, answer, detector) if kind in _WRONG else item

    with no_calls():
        kinds = {
            kind: KindOfExamples(tuple(example(*item, kind) for item in some), n)
            for kind, (some, n) in chosen.items()
        }
    return TrimmedExamples(**kinds, note=note)


def _chosen(
    sentences: SentenceTable, key: str, cut: Trimming, test: NDArray[np.bool_]
) -> dict[str, tuple[list[tuple[int, int]], int]]:
    """Return some answers of each kind, each with the sentence it is shown for, and how many."""
    first, scores = sentences.first, sentences.columns[key]
    unsupported, supported = sentences.labels == 1, sentences.labels == 0
    shown = test & ~cut.reviewed
    left = shown & sentences.any(~cut.removed)
    missed, lost = ~cut.removed & unsupported, cut.reached & supported
    hallucinated, touched = sentences.any(unsupported), sentences.any(cut.removed)
    n_lost = sentences.count(cut.removed & supported)
    kept = sentences.count(~cut.removed & supported)
    # By kind: which answers, which of their sentences, and in which order.
    kinds = {
        "misses": (left & sentences.any(missed), missed, scores),
        "losses": (left & sentences.any(lost), lost, -scores),
        "freed": (
            left & hallucinated & ~sentences.any(missed),
            cut.removed & unsupported,
            np.repeat(-kept, np.diff(first)).astype(np.float64),
        ),
        "emptied": (
            shown & touched & ~sentences.any(~cut.removed),
            cut.removed,
            np.repeat(-n_lost, np.diff(first)).astype(np.float64),
        ),
        "reviewed": (test & cut.reviewed, cut.removed | np.isnan(scores), np.zeros(len(scores))),
    }
    taken: set[int] = set()
    chosen = {}
    for kind, (answers, which, order) in kinds.items():
        candidates = np.flatnonzero(which & np.repeat(answers, np.diff(first)))
        some: list[tuple[int, int]] = []
        for place in candidates[np.argsort(order[candidates], kind="stable")].tolist():
            row = int(np.searchsorted(first, place, side="right")) - 1
            if row not in taken and len(some) < TRIMMED_EXAMPLES_MOST:
                taken.add(row)
                some.append((row, place - int(first[row])))
            if len(some) == TRIMMED_EXAMPLES_MOST:
                break
        chosen[kind] = some, int(np.count_nonzero(answers))
    return chosen


def _judged(
    scored: Scored, sentences: SentenceTable, key: str, cut: Trimming, row: int
) -> TrimmedExample:
    """Return an answer with what became of its sentences, in numbers alone."""
    places = range(int(sentences.first[row]), int(sentences.first[row + 1]))
    scores = sentences.columns[key]
    judged = tuple(
        JudgedSentence(
            start=int(sentences.starts[place]),
            end=int(sentences.ends[place]),
            label=int(sentences.labels[place]),
            score=None if np.isnan(scores[place]) else float(scores[place]),
            removed=bool(cut.removed[place]),
            with_others=bool(cut.removed[place] and not cut.reached[place]),
        )
        for place in places
    )
    outcome = "flag" if any(item.removed for item in judged) else "pass"
    return TrimmedExample(
        id=scored.table.ids[row].as_py() or f"row {row + 1}",
        outcome="review" if cut.reviewed[row] else outcome,
        label=int(scored.table.labels[row]),
        threshold=None,
        sentences=judged,
        place=0,
    )


def _with_texts(item: TrimmedExample, answer: Example) -> TrimmedExample:
    """Return an answer with its texts, and what is shown in its place."""
    reached = [part.removed and not part.with_others for part in item.sentences]
    found = joins(answer.response, item.sentences)
    cut = trim(answer.response, item.sentences, reached, found)
    review = item.outcome == "review"
    # Where people judged whole sentences, these are what they marked.
    judged = tuple((part.start, part.end) for part in item.sentences if part.label == 1)
    return replace(
        item,
        **{name: getattr(answer, name) for name in TEXT_FIELDS},
        spans=judged if answer.spans is None else answer.spans,
        text=None if review else cut.text,
        why=(cut.review or "undefined") if review else "",
    )


def _with_evidence(item: TrimmedExample, answer: Example, detector: Score) -> TrimmedExample:
    """Return an answer with what the detector says about the sentence that it is shown for."""
    score = item.sentences[item.place].score
    sentence = sentence_examples(answer)[item.place]
    evidence, note = evidence_of(detector, sentence, np.nan if score is None else score)
    return replace(item, evidence=evidence, note=note)
