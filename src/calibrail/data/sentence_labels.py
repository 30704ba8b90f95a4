"""Sentence labels from spans."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from calibrail.data.example import FAITHFUL, HALLUCINATED, Example, GivenSentence
from calibrail.data.labels import LabelReader, read_label
from calibrail.data.rows import FieldError
from calibrail.data.sentences import (
    SentenceCell,
    given_in,
    placed,
    require_judgeable,
    sentence_labels,
    sentences_of,
    shape_error,
)
from calibrail.data.spans import MarkColumns, Span, read_spans
from calibrail.data.values import value_at
from calibrail.options.data import SKIP

#: Where the sentences of rows that were gathered to an answer are.
GATHERED: Final = "sentences"

#: What is wrong with answers of which nobody said where; they are all that there are, or some.
UNMARKED: Final = "hallucinated, and nobody marked what"

_MARK: Final = (
    "mark what is unsupported (spans: [[start, end], ...], or a label for each sentence), or leave "
    "the row out"
)
_NOTHING: Final = "mark what is unsupported, or label the answer 0"
_FAITHFUL: Final = "label the answer 1, or take the marks away ([])"
_ALL: Final = "give every sentence a label of 0 or 1, or mark spans"
_OUTSIDE: Final = "mark words of the sentences, or label the answer 0"
_EITHER: Final = "correct one of them, or give sentences or spans alone"
_WORDS: Final = "give a text with words, or leave the row out"


class MarkReader:
    """Reads the marks of one source.

    Parameters
    ----------
    columns : MarkColumns
        Where they are.
    labels : LabelReader
        Reads the labels of sentences.
    keep : sequence of str
        Columns of sentences that are kept.
    gives_labels : bool
        Whether an answer's label is that of its sentences, and in no column of its own.
    labelled : bool
        Whether every answer needs a label.
    by_sentence : bool
        Whether every sentence needs one, too.
    any_length : bool
        Whether a column that is kept may list more or fewer numbers than an answer has sentences.
    share : float
        What of a sentence spans must cover for it to be unsupported; 0 for any part.

    Attributes
    ----------
    n_marked : int
        Answers so far that somebody marked.
    """

    def __init__(
        self,
        columns: MarkColumns,
        labels: LabelReader,
        *,
        keep: Sequence[str] = (),
        gives_labels: bool = False,
        labelled: bool = True,
        by_sentence: bool = True,
        any_length: bool = False,
        share: float = 0.0,
    ) -> None:
        self.columns, self.labels, self.gives_labels = columns, labels, gives_labels
        self.n_marked = 0
        self._keep, self._labelled, self._share = keep, labelled, share
        self._by_sentence = by_sentence
        self._judged = () if any_length else keep
        self._sentences = GATHERED if columns.answer_id is not None else columns.sentences

    def given(self, values: Mapping[str, object]) -> list[SentenceCell] | None:
        """Return the sentences that a row lists; None where it lists none.

        Raises
        ------
        FieldError
            It lists something else, or not a label for each.
        """
        value = None if self._sentences is None else value_at(values, self._sentences)
        if value is None or value in ("", []):
            return None
        labels = self.columns.sentence_labels
        listed = None if labels is None else value_at(values, labels)
        if (given := given_in(value, listed)) is not None:
            return given
        alone = given_in(value, None)
        if alone is None or self.columns.sentence_labels is None:
            raise shape_error(value)
        if not self._labelled:
            return alone
        seen = f"{listed!r:.60} for {len(alone)} sentences"
        raise FieldError("sentences", "not one label for each sentence", seen, _ALL)

    def sentences(
        self, given: Sequence[SentenceCell] | None, response: str
    ) -> tuple[GivenSentence, ...] | Literal["skip"] | None:
        """Return the sentences by their places; `SKIP` where one is left out on request.

        Raises
        ------
        FieldError
            One is not where it should be, or its label cannot be read.
        """
        if given is None:
            return None
        left_out = False

        def label_of(item: SentenceCell) -> int | None:
            nonlocal left_out
            missing = item.row is None and self.labels.is_missing(item.label)
            needed = self._labelled and not missing
            label = read_label(
                self.labels, item.label, self.labels.column, needed=needed, row=item.row
            )
            left_out |= label == SKIP
            return label if isinstance(label, int) else None

        found = placed(given, response, label_of, self._keep)
        return SKIP if left_out else found

    def spans(self, values: Mapping[str, object], response: str) -> tuple[Span, ...] | None:
        """Return the marked characters; None where nobody marked any, or labels are not read.

        Where labels are not needed, marks that cannot be read say nothing.

        Raises
        ------
        FieldError
            Labels are needed, and marks are something else or lead out of the response.
        """
        if self.columns.spans is None or not (self._labelled or self._by_sentence):
            return None
        try:
            return read_spans(value_at(values, self.columns.spans), response)
        except FieldError:
            if self._labelled:
                raise
            return None

    def checked(self, example: Example) -> Example:
        """Return an answer whose label is that of its sentences: 1 where one is unsupported.

        A faithful answer that nobody marked is one that was marked, and in which nothing is
        unsupported.

        Raises
        ------
        FieldError
            Marks and label contradict each other, or a sentence has neither.
        """
        if self._by_sentence and not sentences_of(example):
            raise FieldError("response", "holds no sentence", example.response, _WORDS)
        if self._by_sentence:
            require_judgeable(example, self._judged)
        if not self._labelled:
            return _undisputed(example) if self._by_sentence else example
        labelled = [item.label is not None for item in example.sentences or ()]
        if example.spans is None and not any(labelled):
            if example.label == FAITHFUL:
                return replace(example, spans=())
            if example.label is None:
                raise FieldError("label", "missing", None, _ALL)
            raise FieldError("spans", UNMARKED, None, _MARK)
        self.n_marked += 1
        if example.spans is None and not all(labelled):
            seen = f"{labelled.count(False)} of {len(labelled)}"
            raise FieldError("sentences", "without a label", seen, _ALL)
        self._require_agreement(example)
        touched = any(sentence_labels(example))
        field = "sentences" if any(labelled) else "spans"
        if example.label == FAITHFUL and (touched or example.spans):
            raise FieldError(field, "faithful, and something is marked", example.spans, _FAITHFUL)
        if not touched and example.spans:
            seen = f"{example.spans!r:.60}"
            raise FieldError(field, "marked outside of every sentence", seen, _OUTSIDE)
        if example.label == HALLUCINATED and not touched:
            raise FieldError(field, "hallucinated, and nothing is marked", None, _NOTHING)
        return replace(example, label=int(any(sentence_labels(example, self._share))))

    def _require_agreement(self, example: Example) -> None:
        """Refuse labels of sentences that the spans of the same row contradict."""
        if example.spans is None or example.sentences is None:
            return
        bare = tuple(replace(item, label=None) for item in example.sentences)
        by_spans = replace(example, sentences=bare)
        pairs = zip(
            example.sentences,
            sentence_labels(by_spans),
            sentence_labels(by_spans, self._share),
            strict=True,
        )
        for number, (item, touched, marked) in enumerate(pairs, start=1):
            # What spans touch, and cover less of than is asked, may be labelled either way.
            if item.label is not None and item.label not in (touched, marked):
                seen = f"sentence {number} of {len(bare)}: label {item.label}"
                raise FieldError("sentences", "label and spans contradict", seen, _EITHER)


def _undisputed(example: Example) -> Example:
    """Return an answer that needs no label, with the marks that its label does not contradict."""
    if example.label is None or any(item.label is not None for item in example.sentences or ()):
        return example
    spans = () if example.spans is None and example.label == FAITHFUL else example.spans
    told = replace(example, spans=spans)
    if spans is not None and any(sentence_labels(told)) != (example.label == HALLUCINATED):
        spans = None
    return replace(example, spans=spans)
