"""What is known of the sentences of a file that people marked?"""

from dataclasses import dataclass

from calibrail.data.support import Support
from calibrail.record import Record


@dataclass(frozen=True, slots=True)
class SentenceColumn(Record):
    """A column that may hold another detector's score of each sentence.

    Parameters
    ----------
    name : str
        The column.
    n, missing : int
        Sentences with a number and without.
    set_aside : int
        Answers that cannot be used with it: it lists another number of values than they have
        sentences.
    auroc : float or None
        As of `NumericColumn`, of unsupported sentences against supported ones.
    tells_label : bool
        As of `NumericColumn`.
    """

    name: str
    n: int
    missing: int
    set_aside: int
    auroc: float | None
    tells_label: bool = False


@dataclass(frozen=True, slots=True)
class NumberedRows(Record):
    """A column that numbers the sentences of each answer, where rows are sentences.

    Parameters
    ----------
    name : str
        The column.
    n : int
        Answers of two or more sentences.
    unsorted, gaps, twice : int
        Those of them whose rows stand in another order, which lack a number, and in which one
        stands twice.
    """

    name: str
    n: int
    unsorted: int
    gaps: int
    twice: int


@dataclass(frozen=True, slots=True)
class WideMarks(Record):
    """How many sentences only the edge of a neighbour's mark makes unsupported.

    Parameters
    ----------
    n : int
        Sentences of which at most ``letters`` letters and digits are marked, by spans that lie in
        other sentences for the most part.
    of : int
        All sentences that spans make unsupported.
    letters : int
        What is few.
    share : float
        A ``span_share`` that takes nearly all of them as supported.
    taken_back, others : int
        How many of the n it takes as supported, and how many of the rest.
    """

    n: int
    of: int
    letters: int
    share: float
    taken_back: int
    others: int


@dataclass(frozen=True, slots=True)
class MarkLook(Record):
    """What marks say of the sentences of a file.

    Parameters
    ----------
    kind : str
        ``spans``, ``sentences`` (each with a label, in its answer's row) or ``rows`` (a row a
        sentence).
    n, hallucinated : int
        Answers of which every sentence has a label, and those that hold an unsupported one.
    sentences, unsupported : int
        Their sentences, and those that are unsupported.
    median_sentences, p95_sentences : float
        Sentences an answer; NaN without any.
    marked_chars, outside_chars : int
        Marked characters without white space, and those of them that are in no sentence.
    span_share : float
        What of a sentence spans must cover for it to be unsupported.
    set_aside : tuple of (field, reason, count)
        Answers that cannot be used sentence by sentence, by what is wrong with them.
    supports : tuple of Support
        Guarantees at the default half split.
    columns : tuple of SentenceColumn
        Candidates for ``--score-column``.
    wide : WideMarks or None
        Marks that touch neighbours; None where no span makes a sentence unsupported.
    numbered : tuple of NumberedRows
        Columns that number the sentences of answers; they are no candidates.
    """

    kind: str
    n: int
    hallucinated: int
    sentences: int
    unsupported: int
    median_sentences: float
    p95_sentences: float
    marked_chars: int
    outside_chars: int
    span_share: float
    set_aside: tuple[tuple[str, str, int], ...]
    supports: tuple[Support, ...]
    columns: tuple[SentenceColumn, ...] = ()
    wide: WideMarks | None = None
    numbered: tuple[NumberedRows, ...] = ()
