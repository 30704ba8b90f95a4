"""Score of the worst sentence."""

import copy
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Self

import numpy as np

from calibrail.data.example import Example
from calibrail.data.sentences import sentence_examples
from calibrail.errors import InputError
from calibrail.scores.base import (
    JSON,
    NO_SENTENCE,
    Demand,
    DetectorFailure,
    Pinning,
    Score,
    Scores,
    require_sentences,
    scored_alone,
)
from calibrail.scores.detector import learns
from calibrail.scores.ensemble import Members, demands_of
from calibrail.scores.registry import build, parse_spec, spell
from calibrail.text.sentences import answer_sentences, answer_sentences_version

#: The part that the scored detector plays.
_PART = "detector"


class WorstSentence(Members):
    """The highest score that a detector gives to a sentence of the answer.

    Each sentence is scored as `calibrail.data.sentences` makes an example of it, so that nothing
    of its score depends on what comes after it: an answer that is still being written can be
    stopped at its first sentence at or above the threshold. Sentences that the detector finds
    nothing in (no content word, no claim) do not count; where it failed on one, so has this.

    Parameters
    ----------
    detector : str
        The score, e.g. ``"rad"`` or ``"nli:model=..."``; none that learns.
    """

    detector: str

    name = "worst_sentence"
    version = "calibrail-worst-sentence/1"
    explains = True
    splitter = staticmethod(answer_sentences)

    def __post_init__(self) -> None:
        if not isinstance(self.detector, str):
            raise InputError(
                f'detector must name a score, e.g. detector="rad"; got {self.detector!r}'
            )
        spec = parse_spec(self.detector)
        if spec.name == self.name:
            raise InputError("detector cannot be worst_sentence itself; name the score it asks")
        member = build(spec)
        if learns(member):
            raise InputError(
                f"detector cannot be {member.name}, which learns from whole answers; name one that "
                "does not learn"
            )
        require_sentences([member])
        self.members = {_PART: member}

    @property
    def member(self) -> Score:
        """The detector that scores the sentences."""
        return self.members[_PART]

    @property
    def params(self) -> Mapping[str, JSON]:
        """The detector as a specification."""
        return {_PART: spell(self.member)}

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return how sentences are found, and the detector's fingerprint."""
        version = {"version": self.version, "sentences": answer_sentences_version()}
        return {**version, **self.cut(), **self.fingerprints()}

    @property
    def stays_here(self) -> str | None:
        """Why no other process can compute it; None where one can."""
        return getattr(self.member, "stays_here", None)

    @property
    def lessons(self) -> tuple[str, ...]:
        """What a reader should know of what the detector has learnt or was answered."""
        return tuple(getattr(self.member, "lessons", ()))

    @property
    def companions(self) -> tuple[Score, ...]:
        """The same of what the detector shows beside itself at no further call."""
        return tuple(map(self._of, getattr(self.member, "companions", ())))

    def pinned(self) -> Score:
        """Return a copy whose detector is pinned."""
        return self._of(self.member.pinned() if isinstance(self.member, Pinning) else self.member)

    def _of(self, member: Score) -> Self:
        other = copy.copy(self)
        other.members = {_PART: member}
        return other

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return what the detector will look up for every sentence."""
        return demands_of(self.member, self._all_sentences(examples))

    def eventual_demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return all that scoring will look up, what depends on a first step of it included."""
        eventual = getattr(self.member, "eventual_demands", None)
        if eventual is None:
            return self.demands(examples)
        return tuple(eventual(self._all_sentences(examples)))

    def _all_sentences(self, examples: Sequence[Example]) -> list[Example]:
        return list(chain.from_iterable(map(sentences_to_score, self.usable(examples))))

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the highest score of each answer's sentences; undefined where none has one."""
        reasons = self.lacking(examples)
        parts = [
            [] if row in reasons else sentences_to_score(item) for row, item in enumerate(examples)
        ]
        scored = self.member.score(list(chain.from_iterable(parts)))
        values = np.full(len(examples), np.nan)
        evidence: list[Mapping[str, JSON]] = [{} for _ in examples]
        first = 0
        for row, (example, part) in enumerate(zip(examples, parts, strict=True)):
            if row not in reasons:
                found = worst(example, part, scored, first)
                if isinstance(found, str):
                    reasons[row] = found
                else:
                    values[row], evidence[row] = found
            first += len(part)
        return Scores(values, reasons, tuple(evidence))

    def score_parts(self, example: Example) -> Scores:
        """Return what `score` does of one answer, each of whose sentences is scored alone."""
        if reasons := self.lacking([example]):
            return Scores(np.array([np.nan]), reasons, ({},))
        parts = sentences_to_score(example)
        return companion_scores(example, parts, [scored_alone(self.member, part) for part in parts])


def companion_scores(
    example: Example, sentences: Sequence[Example], parts: Sequence[Scores]
) -> Scores:
    """Return the score of an answer by those of its sentences, one by one, of which it has some."""
    values = np.concatenate([np.zeros(0), *(part.values for part in parts)])
    reasons = {row: part.reasons[0] for row, part in enumerate(parts) if part.reasons}
    evidence = [part.evidence[0] if part.evidence else {} for part in parts]
    scored = Scores(values, reasons, tuple(evidence) if any(evidence) else None)
    found = worst(example, sentences, scored)
    if isinstance(found, str):
        return Scores(np.array([np.nan]), {0: found}, ({},))
    return Scores(np.array([found[0]]), {}, (found[1],))


def sentences_to_score(example: Example) -> list[Example]:
    """Return the sentences of an answer; a sentence is its only one."""
    return [example] if example.before is not None else sentence_examples(example)


def worst(
    example: Example, sentences: Sequence[Example], scored: Scores, first: int = 0
) -> tuple[float, Mapping[str, JSON]] | str:
    """Return an answer's highest sentence score with every sentence's, or why there is none.

    Parameters
    ----------
    example : Example
        The answer.
    sentences : sequence of Example
        Its sentences, in order.
    scored : Scores
        Holds their scores.
    first : int
        Where in it they begin.
    """
    if not sentences:
        return NO_SENTENCE
    rows = range(first, first + len(sentences))
    whys = dict.fromkeys(scored.reasons[row] for row in rows if row in scored.reasons)
    for why in whys:
        if isinstance(why, DetectorFailure):
            return why
    values = scored.values[rows.start : rows.stop]
    if np.isnan(values).all():
        return f"no sentence has a score: {'; '.join(whys)}"
    items = [
        _item(example, sentence, row, scored) for sentence, row in zip(sentences, rows, strict=True)
    ]
    return float(np.nanmax(values)), {"kind": "sentences", "items": items}


def _item(example: Example, sentence: Example, row: int, scored: Scores) -> dict[str, JSON]:
    # What a sentence follows is known where it is a part of its answer, not the answer itself.
    start = 0 if sentence is example else len(sentence.before or "")
    end = start + len(sentence.response)
    item: dict[str, JSON] = {"text": sentence.response, "start": start, "end": end}
    if row in scored.reasons:
        return {**item, "value": None, "reason": scored.reasons[row]}
    item["value"] = float(scored.values[row])
    if scored.evidence is not None and scored.evidence[row]:
        item["evidence"] = shift_offsets(scored.evidence[row], start)
    return item


def shift_offsets(evidence: Mapping[str, JSON], by: int) -> dict[str, Any]:
    """Return a sentence's evidence with its places as those in the answer.

    >>> evidence = {"kind": "words", "items": [{"text": "1853", "start": 3, "end": 7}]}
    >>> shift_offsets(evidence, 10)["items"]
    [{'text': '1853', 'start': 13, 'end': 17}]
    """
    items = []
    for given in evidence.get("items", ()):
        item = dict(given)
        for edge in ("start", "end"):
            if edge in item:
                item[edge] += by
        if isinstance(item.get("evidence"), Mapping):
            item["evidence"] = shift_offsets(item["evidence"], by)
        items.append(item)
    return {**evidence, "items": items}
