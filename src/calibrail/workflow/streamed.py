"""What do readers of a stream see of test answers, where a guardrail of answers can stop them?

`worst_sentence` says of an answer what its highest sentence score is. Where the data says which
sentences are unsupported, what stopping at them shows is measured as for a guardrail of sentences.
Marks play no part in thresholds and verdicts: the answers are read again for them.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal.rule import Rule
from calibrail.data.by_sentence import sentence_labels, sentences_of
from calibrail.data.example import Example
from calibrail.data.reading import Reading
from calibrail.data.sources import Source
from calibrail.engine.current import engine, use_engine
from calibrail.errors import DataError
from calibrail.evaluation import Sample
from calibrail.evaluation.sample import TEST
from calibrail.evaluation.sections.streaming import MORE_REQUESTS, stopped_streams, stops_of_worst
from calibrail.evaluation.trimmed import in_order
from calibrail.guardrail.part_by_part import why_no_parts
from calibrail.models.call_limits import BudgetError, no_calls
from calibrail.scores.registry import key_of
from calibrail.scores.worst_sentence import WorstSentence
from calibrail.settings import Promise, ReadOptions
from calibrail.settings.checks import optional
from calibrail.workflow.by_sentence import BySentence
from calibrail.workflow.scored import Scored
from calibrail.workflow.sources import open_source


def streamed(
    source: Source,
    scored: Scored,
    sample: Sample,
    rule: Rule,
    promise: Promise,
    names: Sequence[str] | None = None,
    *,
    reading: ReadOptions | None = None,
    confidence: float = 0.95,
) -> dict[str, Any] | None:
    """Measure what a stream shows of the test answers that somebody marked.

    Their sentences are those that a stream cuts, whatever sentences the data has. They are scored
    once more, of one answer of each group; what a language model said is looked up.

    Parameters
    ----------
    source : path, str or data in memory
        What was scored; read again for its marks.
    scored : Scored
        Its scores; the first detector is the one that decides.
    sample : Sample
        Which of its answers count.
    rule, promise : Rule and Promise
        What decides.
    names : sequence of str, optional
        Each answer's group, where groups have thresholds of their own.
    reading : ReadOptions, optional
        How the source was read.
    confidence : float
        Level of every interval.

    Returns
    -------
    dict or None
        None where the guardrail cannot stream, the data holds no marks, or can be read only once.
        ``n_answers``, how many are measured; ``n_left_out``, test answers that nobody marked, or
        whose marks contradict their label; ``stream`` (`stopped_streams`), None where it would take
        ``reason``.
    """
    detector = scored.detectors[0]
    if not isinstance(detector, WorstSentence) or isinstance(source, Iterator):
        return None
    if why_no_parts(detector, promise) is not None:
        return None
    marks = _Marks(source, scored, sample.rows(TEST), optional(reading, ReadOptions, "reading"))
    marked = np.zeros(len(sample), np.bool_)
    for row, _ in marks:
        marked[row] = True
    if not marks.there:
        return None
    measured = sample.aside(sample.rows(TEST) & ~marked)
    counted = measured.drawn(TEST, sample.labels)
    rows, about = np.flatnonzero(counted), {"n_left_out": int((sample.rows(TEST) & ~marked).sum())}
    member = detector.member
    by_sentence = BySentence(marks.share, promise.undefined)
    examples = (example for row, example in marks if counted[row])
    try:
        with no_calls(), _other_shards():
            table, sentences = by_sentence.score(examples, [member])
    except BudgetError:
        return {"n_answers": 0, **about, "stream": None, "reason": MORE_REQUESTS}
    groups = names if rule.groups is not None else None
    reached = stops_of_worst(
        sentences,
        key_of(member),
        rule.thresholds(len(sample), groups)[rows],
        promise.undefined,
        detector.tolerance,
    )
    stream = stopped_streams(
        sentences,
        reached,
        # Bets on a mean need an order that has nothing to do with the answers.
        hallucinated=np.searchsorted(rows, in_order(measured, counted & (sample.labels == 1))),
        faithful=np.flatnonzero(table.labels == 0),
        confidence=confidence,
    )
    return {"n_answers": len(table), **about, "stream": stream}


def _other_shards() -> AbstractContextManager[object]:
    """Keep shards of sentences, where shards are kept, apart from those that the run is made of."""
    options = engine()
    if options.shards is None:
        return nullcontext()
    return use_engine(replace(options, shards=options.shards / "sentences"))


class _Marks:
    """The answers of a part that are marked, by their rows; read anew each time.

    Attributes
    ----------
    share : float
        As of `ReadOptions.span_share`.
    there : bool
        Whether the source marks any of its answers; known after the first time.
    """

    def __init__(
        self, source: Source, scored: Scored, part: NDArray[np.bool_], reading: ReadOptions
    ) -> None:
        # What is unusable was set aside when the scores were computed.
        self._reading = replace(reading, quarantine=None, strict=False)
        self._source, self._scored = source, scored
        self._rows = {scored.table.ids[row].as_py(): row for row in np.flatnonzero(part).tolist()}
        self.share, self.there = reading.span_share, False

    def __iter__(self) -> Iterator[tuple[int, Example]]:
        table = self._scored.table
        try:
            opened = open_source(
                self._source, self._reading, self._scored.detectors, by_sentence=True
            )
        except DataError:
            # As sentences the data cannot be read at all.
            return
        for example in _usable(opened):
            row = self._rows.get(example.id)
            if row is None or int(example.digest(), 16) != int(table.digests[row]):
                continue
            answer = _by_its_text(example)
            labels = sentence_labels(answer, self.share)
            if None not in labels and (1 in labels) == (table.labels[row] == 1):
                yield row, answer
        marks = opened.columns.marks
        # Rows that were answers may be sentences of others.
        gathered = opened.columns.marked.answer_id is not None
        same = not gathered or "answer_id" in self._scored.data["reading"]["columns"]
        self.there = same and marks is not None and marks.n_marked > 0


def _usable(opened: Reading) -> Iterator[Example]:
    """Yield what can be used of a source, which may be nothing."""
    try:
        yield from opened
    except DataError:
        return


def _by_its_text(example: Example) -> Example:
    """Return an answer whose sentences are those of its text, marked where the data's own are."""
    if example.sentences is None:
        return example
    pairs = zip(sentences_of(example), sentence_labels(example), strict=True)
    spans = tuple((item.start, item.end) for item, label in pairs if label)
    return replace(example, sentences=None, spans=spans)
