"""What is known about a file after looking at all of it?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from calibrail.data.duplicates import CrossSplitDuplicates
from calibrail.data.layout import ColumnLook
from calibrail.data.mark_look import MarkLook
from calibrail.data.support import Support
from calibrail.record import Record
from calibrail.shown import Shown


@dataclass(frozen=True, slots=True)
class TextLengths(Record):
    """Sizes of one text field over the examples that have it.

    Parameters
    ----------
    field : str
        ``question``, ``contexts`` (all chunks together) or ``response``.
    n, empty : int
        Examples with and without it.
    median_chars, p95_chars, median_words, p95_words : float
        Median and 95th percentile, in characters and in words between white space; NaN without any.
    """

    field: str
    n: int
    empty: int
    median_chars: float
    p95_chars: float
    median_words: float
    p95_words: float


@dataclass(frozen=True, slots=True)
class GroupSizes(Record):
    """How examples hang together.

    Parameters
    ----------
    n : int
        Groups, not counting examples without one.
    ungrouped : int
        Examples without a group.
    largest : int
        Examples in the largest group.
    mixed : int
        Groups with examples of both classes.
    """

    n: int
    ungrouped: int
    largest: int
    mixed: int


@dataclass(frozen=True, slots=True)
class ScoreSupport(Record):
    """On how many examples a built-in score can be computed.

    Parameters
    ----------
    name : str
        The score.
    requires : tuple of str
        The text fields that it reads.
    n : int
        Examples that have them all.
    """

    name: str
    requires: tuple[str, ...]
    n: int


@dataclass(frozen=True, slots=True)
class NumericColumn(Record):
    """A column that may hold another detector's score.

    Parameters
    ----------
    name : str
        The column.
    n, missing, distinct : int
        Examples with a value and without, and how many different values there are.
    auroc : float or None
        Probability that a hallucinated example has the higher value (ties count half); below 0.5
        the column is higher for faithful ones. None without both classes.
    tells_label : bool
        Whether it separates the classes without a mistake, as a detector's score hardly does.
    """

    name: str
    n: int
    missing: int
    distinct: int
    auroc: float | None
    tells_label: bool = False


@dataclass(frozen=True, slots=True)
class Finding(Record):
    """Something that a user should know before trusting a result on this file.

    Parameters
    ----------
    code : str
        Stable short name, e.g. ``length_separates``.
    message : str
        What was seen, with its number, and what it means.
    """

    code: str
    message: str


@dataclass(frozen=True, slots=True, repr=False)
class Diagnosis(Shown, Record):
    """Everything that `diagnose` returns; NaN is null in JSON.

    Parameters
    ----------
    source, format, sha256 : str
        What was read, how, and the digest of its files.
    fields : tuple of str
        Column names of the first rows.
    columns : mapping of str to str
        The column of each field.
    rows, usable, quarantined, filtered : int
        Rows of the source; examples made of them; problems; answers left out on request.
    reasons : tuple of (field, reason, count)
        Problems, most frequent first.
    n_faithful, n_hallucinated, n_unlabelled : int
        Usable examples by label.
    groups : GroupSizes
        Groups.
    lengths : tuple of TextLengths
        For question, contexts and response.
    median_chunks, p95_chunks : float
        Chunks an example, over those with contexts; NaN without any.
    repeated : int
        Examples whose texts are the same as an earlier example's.
    contradictory : int
        Different texts that carry both labels.
    copies : mapping of str to int
        Examples of which the file holds copies, the same or nearly so, as ``n``; their groups; the
        ``largest`` group.
    cross_split : CrossSplitDuplicates or None
        Near-duplicates across the default split; None where there are no texts or no labels.
    length_auroc : float or None
        AUROC of the response's length in characters, longer = hallucinated.
    supports : tuple of Support
        Guarantees at the default half split.
    scores : tuple of ScoreSupport
        Built-in scores that need no more than texts.
    numeric_columns : tuple of NumericColumn
        Candidates for ``--score-column``.
    empty_columns : tuple of str
        Columns without a value in any usable row.
    inputs : tuple of str
        What was named, as on a command line.
    reading : mapping
        How it was read: columns, options, what labels meant, several files with their digests.
    layout : tuple of ColumnLook
        What is in each column, by the first rows.
    suggested : tuple of str
        Options that would read what was not understood.
    inverted : mapping of str to float, or None
        AUROCs of the scores of overlap, where they say that labels are inverted.
    context_is_answer, context_holds_answer : mapping
        ``faithful`` and ``hallucinated`` answers that are one of their own contexts, and that
        stand word for word in them.
    warnings : tuple of Finding
        What to know first.
    marks : MarkLook or None
        What people marked, sentence by sentence; None where the source holds no marks.
    """

    shown_as = "doctor"

    schema: ClassVar[str] = "calibrail.diagnosis/1"

    source: str
    format: str
    sha256: str | None
    fields: tuple[str, ...]
    columns: Mapping[str, str]
    rows: int
    usable: int
    quarantined: int
    filtered: int
    reasons: tuple[tuple[str, str, int], ...]
    n_faithful: int
    n_hallucinated: int
    n_unlabelled: int
    groups: GroupSizes
    lengths: tuple[TextLengths, ...]
    median_chunks: float
    p95_chunks: float
    repeated: int
    contradictory: int
    copies: Mapping[str, int]
    cross_split: CrossSplitDuplicates | None
    length_auroc: float | None
    supports: tuple[Support, ...]
    scores: tuple[ScoreSupport, ...]
    numeric_columns: tuple[NumericColumn, ...]
    empty_columns: tuple[str, ...]
    inputs: tuple[str, ...]
    reading: Mapping[str, Any]
    layout: tuple[ColumnLook, ...]
    suggested: tuple[str, ...]
    inverted: Mapping[str, float] | None
    context_is_answer: Mapping[str, int]
    context_holds_answer: Mapping[str, int]
    warnings: tuple[Finding, ...]
    marks: MarkLook | None = None
