"""What a report shows of its data: where it is from, errors, trimmed answers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal.threshold_rule import DECISIONS, Rule
from calibrail.data.example import TEXT_FIELDS, Example
from calibrail.data.sentences import sentence_examples, sentences_of
from calibrail.data.splits import tested_rows
from calibrail.evaluation import ReportOrigin
from calibrail.models.llm.transport import BudgetError, no_calls
from calibrail.pipelines.loading import Context
from calibrail.pipelines.scoring import Scored
from calibrail.report.documents.data import data_notes
from calibrail.report.messages import say
from calibrail.scores.base import Score
from calibrail.scores.table import SentenceTable, Trimming
from calibrail.serialization import plain
from calibrail.text.removal import trim
from calibrail.text.structure import joins

#: Misses, and false alarms, that a page shows at most; answers of each kind that are trimmed.
MOST: Final = 5
TRIMMED_EXAMPLES_MOST: Final = 3

#: The kinds of which one asks why the detector said so.
_WRONG: Final = ("misses", "losses")

#: What an answer holds where its texts are not known, or not to be shown.
_BLANK: Final[Mapping[str, Any]] = {
    **{"question": "", "contexts": (), "response": "", "spans": (), "text": None},
    **{"evidence": None, "note": ""},
}


def without_text(examples: Mapping[str, Any]) -> dict[str, Any]:
    """Return examples with nothing that the data's authors wrote but ids."""

    def bare(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: _BLANK[key] if key in _BLANK else bare(value[key]) for key in value}
        return [bare(item) for item in value] if isinstance(value, list) else value

    return {**bare(examples), "note": "Texts are left out, as asked."}


def page_examples(
    scored: Scored, rule: Rule, names: Sequence[str] | None = None, *, text: bool = True
) -> dict[str, Any]:
    """Choose the answers of the test part that a page shows, and score these few once more.

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
    dict
        Of whole answers the worst errors: ``misses`` (hallucinated answers that passed, the lowest
        scores first) and ``alarms`` (faithful ones that did not, the highest first), with
        ``n_misses`` and ``n_alarms``. Where sentences are removed, ``items`` and ``n`` of each of
        the `KINDS` of the report. What cannot be scored again is missing with a note; no request is
        sent for it.
    """
    groups = names if rule.groups is not None else None
    with no_calls():
        if scored.sentences is not None:
            return _trimmed(scored, scored.sentences, rule, groups, text=text)
        return _worst_errors(scored, rule, groups, text=text)


def _answers_at(
    scored: Scored, rows: Sequence[int], *, text: bool
) -> tuple[dict[int, Example], str]:
    """Return the answers at these rows, and why there are none where texts are wanted."""
    if not text or not rows:
        return {}, ""
    if scored.answers is None or scored.sketches is None:
        return {}, say("example.no_text")
    examples = {row: scored.answers[row] for row in rows}
    texts = (item.question or item.response or item.contexts for item in examples.values())
    return (examples, "") if any(texts) else ({}, say("example.no_text"))


def _evidence(detector: Score, example: Example, value: float) -> dict[str, Any]:
    """Return what the detector says about an answer, if it says it with the same value."""
    if np.isnan(value):
        return {"note": say("example.undefined")}
    try:
        result = detector.score([example])
    except BudgetError:
        return {"note": say("example.not_sent")}
    except Exception as error:
        about = {"kind": type(error).__name__, "error": error}
        return {"note": say("example.not_scored_again", about)}
    if not abs(float(result.values[0]) - value) <= detector.tolerance:
        return {"note": say("example.differs")}
    return {"evidence": (result.evidence[0] or None) if result.evidence else None}


def _texts(example: Example) -> dict[str, Any]:
    return {name: getattr(example, name) for name in TEXT_FIELDS}


def _worst_errors(
    scored: Scored, rule: Rule, groups: Sequence[str] | None, *, text: bool
) -> dict[str, Any]:
    table, detector = scored.table, scored.detectors[0]
    values = table.columns[scored.keys[0]]
    flagged = rule.flags(values, groups, detector.tolerance)
    outcomes = rule.decide(values, groups, detector.tolerance)
    thresholds = rule.thresholds(len(values), groups)
    test = tested_rows(scored.codes)
    wrong = {
        "misses": np.flatnonzero(test & (table.labels == 1) & ~flagged),
        "alarms": np.flatnonzero(test & (table.labels == 0) & flagged),
    }
    # Undefined scores come last.
    worst: dict[str, list[int]] = {
        kind: rows[np.argsort(sign * values[rows], kind="stable")[:MOST]].tolist()
        for (kind, rows), sign in zip(wrong.items(), (1.0, -1.0), strict=True)
    }
    examples, note = _answers_at(scored, [*worst["misses"], *worst["alarms"]], text=text)

    def error(row: int) -> dict[str, Any]:
        value, group = float(values[row]), None if groups is None else [groups[row]]
        item = {
            "id": table.ids[row].as_py() or f"row {row + 1}",
            "outcome": DECISIONS[int(outcomes[row])],
            "score": plain(value),
            "threshold": plain(float(thresholds[row])),
            "p_value": None
            if np.isnan(value)
            else float(rule.p_value([value], group, detector.tolerance)[0]),
            "group": group and group[0],
            **{name: _BLANK[name] for name in (*TEXT_FIELDS, "evidence", "note")},
        }
        if (example := examples.get(row)) is None:
            return item
        return {**item, **_texts(example), **_evidence(detector, example, value)}

    return {
        **{kind: list(map(error, rows)) for kind, rows in worst.items()},
        **{f"n_{kind}": len(rows) for kind, rows in wrong.items()},
        "note": note,
    }


def _trimmed(
    scored: Scored,
    sentences: SentenceTable,
    rule: Rule,
    groups: Sequence[str] | None,
    *,
    text: bool,
) -> dict[str, Any]:
    key, detector = scored.keys[0], scored.detectors[0]
    thresholds = rule.thresholds(len(scored.table), groups)
    cut = sentences.trim(key, thresholds, rule.undefined, detector.tolerance)
    chosen = _chosen(sentences, key, cut, tested_rows(scored.codes))
    rows = sorted({row for some, _ in chosen.values() for row, _ in some})
    examples, note = _answers_at(scored, rows, text=text)

    def example(row: int, place: int, kind: str) -> dict[str, Any]:
        item = {
            **_judged(scored, sentences, key, cut, row),
            "threshold": plain(float(thresholds[row])),
            "place": place,
            "group": None if groups is None else groups[row],
        }
        if (answer := examples.get(row)) is None:
            return item
        item |= _texts(answer) | _released(item, answer)
        if kind in _WRONG:
            score = item["sentences"][place]["score"]
            sentence = sentence_examples(answer)[place]
            item |= _evidence(detector, sentence, np.nan if score is None else score)
        return item

    kinds = {k: {"items": [example(*v, k) for v in it], "n": n} for k, (it, n) in chosen.items()}
    return {**kinds, "note": note}


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
) -> dict[str, Any]:
    """Return an answer with what became of its sentences, in numbers alone."""
    judged = [
        {
            "start": int(sentences.starts[place]),
            "end": int(sentences.ends[place]),
            "label": int(sentences.labels[place]),
            "score": plain(float(sentences.columns[key][place])),
            "removed": bool(cut.removed[place]),
            # It goes though it does not reach the threshold, since what it introduces goes.
            "with_others": bool(cut.removed[place] and not cut.reached[place]),
        }
        for place in range(int(sentences.first[row]), int(sentences.first[row + 1]))
    ]
    outcome = "flag" if any(item["removed"] for item in judged) else "pass"
    return {
        "id": scored.table.ids[row].as_py() or f"row {row + 1}",
        "outcome": "review" if cut.reviewed[row] else outcome,
        "label": int(scored.table.labels[row]),
        "sentences": judged,
        "why": "",
        **_BLANK,
    }


def _released(item: Mapping[str, Any], answer: Example) -> dict[str, Any]:
    """Return what people marked of an answer, and what is shown in its place."""
    parts, places = item["sentences"], sentences_of(answer)
    reached = [part["removed"] and not part["with_others"] for part in parts]
    cut = trim(answer.response, places, reached, joins(answer.response, places))
    review = item["outcome"] == "review"
    # Where people judged whole sentences, these are what they marked.
    judged = tuple((part["start"], part["end"]) for part in parts if part["label"] == 1)
    return {
        "spans": judged if answer.spans is None else answer.spans,
        "text": None if review else cut.text,
        "why": (cut.review or "undefined") if review else "",
    }


def origin_of(scored: Scored, context: Context) -> ReportOrigin:
    """Return what a report says of its detector and its data, and how to get it again."""
    key = scored.keys[0]
    whys = scored.table.reasons.get(key, {}).values()
    # A reply that could not be read counts by its kind.
    reasons = Counter(getattr(why, "kind", why) for why in whys)
    return ReportOrigin(
        score=scored.specs[key],
        data={**scored.data, "undefined_reasons": dict(sorted(reasons.items()))},
        reproduce=context.reproduce(),
        notes=data_notes(scored.data, scored.lessons),
    )
